package host

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// SetAffinity restricts a process (its first thread) or a thread to some CPUs;
// 0 is the calling thread. It fails where the system has no such thing (all but
// Linux).
func SetAffinity(pid int, cpus []int) error {
	if len(cpus) == 0 {
		panic("host: SetAffinity to no CPU")
	}
	set := unix.NewCPUSet(slices.Max(cpus) + 1)
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinityDynamic(pid, set); err != nil {
		return fmt.Errorf("pin process %d to CPUs %v: %w", pid, cpus, err)
	}
	return nil
}
