package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPUs returns the numbers of the CPUs that this process may use, ascending,
// as they were when it started; nil where /proc doesn't tell.
//
// Note: reading them anew, from the process's first thread, was tried. The Go
// runtime may run a goroutine that pins itself on just that thread.
func CPUs() []int { return slices.Clone(cpusAtStart) }

var cpusAtStart = func() []int {
	cpus, err := parseList(field("/proc/self/status", "Cpus_allowed_list", ":"))
	if err != nil {
		return nil
	}
	return cpus
}()

// SetAffinity restricts a process (its first thread) or a thread to some CPUs;
// 0 is the calling thread.
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

// Siblings returns the CPUs that share a core with cpu (SMT), itself
// included; only itself where the kernel doesn't tell.
func Siblings(cpu int) []int {
	s, err := parseList(line(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)))
	if err != nil || !slices.Contains(s, cpu) {
		return []int{cpu}
	}
	return s
}

// Quietest watches the CPUs for window and returns that of CPUs() whose core
// was busy least: the time that it and its SMT siblings were neither idle nor
// waiting for I/O, stolen time included. Of equals the first wins.
func Quietest(ctx context.Context, window time.Duration) (int, error) {
	allowed := CPUs()
	if len(allowed) == 0 {
		return 0, errors.New("find the quietest CPU: /proc/self/status names no CPU")
	}
	before, err := busyTimes()
	if err != nil {
		return 0, err
	}
	timer := time.NewTimer(window)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-timer.C:
	}
	after, err := busyTimes()
	if err != nil {
		return 0, err
	}
	return quietest(before, after, allowed, Siblings), nil
}

// quietest picks from allowed, which isn't empty, by the busy ticks of each
// CPU before and after.
func quietest(before, after map[int]int64, allowed []int, siblings func(int) []int) int {
	best, least := allowed[0], int64(-1)
	for _, c := range allowed {
		var busy int64
		for _, s := range siblings(c) {
			busy += after[s] - before[s]
		}
		if least < 0 || busy < least {
			best, least = c, busy
		}
	}
	return best
}

func busyTimes() (map[int]int64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, fmt.Errorf("read the CPUs' times: %w", err)
	}
	return parseBusy(text), nil
}

// parseBusy returns the busy ticks of each CPU in /proc/stat: user, nice,
// system, irq, softirq and steal. Guest time is part of user time.
func parseBusy(stat []byte) map[int]int64 {
	busy := map[int]int64{}
	for l := range bytes.Lines(stat) {
		f := strings.Fields(string(l))
		if len(f) < 5 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		cpu, err := strconv.Atoi(f[0][len("cpu"):])
		if err != nil {
			continue // the sum line
		}
		const idle, iowait, steal = 4, 5, 8
		for i := 1; i < len(f) && i <= steal; i++ {
			if n, err := strconv.ParseInt(f[i], 10, 64); err == nil && i != idle && i != iowait {
				busy[cpu] += n
			}
		}
	}
	return busy
}

// parseList reads the kernel's list format: "0-3,8".
func parseList(s string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(lo)
		if err != nil {
			return nil, fmt.Errorf("CPU list %q: %w", s, err)
		}
		b := a
		if isRange {
			if b, err = strconv.Atoi(hi); err != nil {
				return nil, fmt.Errorf("CPU list %q: %w", s, err)
			}
		}
		for c := a; c <= b; c++ {
			out = append(out, c)
		}
	}
	return out, nil
}
