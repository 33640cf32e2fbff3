//go:build !linux

package host

import (
	"fmt"
	"runtime"
)

// SetAffinity restricts a process (its first thread) or a thread to some CPUs;
// 0 is the calling thread. It fails where the system has no such thing (all but
// Linux).
func SetAffinity(pid int, cpus []int) error {
	if len(cpus) == 0 {
		panic("host: SetAffinity to no CPU")
	}
	return fmt.Errorf("pin process %d to CPUs %v: %s can't", pid, cpus, runtime.GOOS)
}
