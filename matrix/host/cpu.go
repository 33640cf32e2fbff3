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
	before, err := readTimes()
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
	after, err := readTimes()
	if err != nil {
		return 0, err
	}
	return quietest(before, after, allowed, Siblings), nil
}

// quietest picks from allowed, which isn't empty, by the times of each CPU
// before and after.
func quietest(before, after map[int]cpuTimes, allowed []int, siblings func(int) []int) int {
	best, least := allowed[0], int64(-1)
	for _, c := range allowed {
		var busy int64
		for _, s := range siblings(c) {
			busy += after[s].busy + after[s].stolen - before[s].busy - before[s].stolen
		}
		if least < 0 || busy < least {
			best, least = c, busy
		}
	}
	return best
}

// cpuTimes are what a CPU has done since boot, in ticks.
type cpuTimes struct {
	busy   int64 // user, nice, system, irq and softirq; guest time is part of user time
	stolen int64 // wanted, but given to other virtual machines
}

func readTimes() (map[int]cpuTimes, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, fmt.Errorf("read the CPUs' times: %w", err)
	}
	return parseTimes(text), nil
}

// parseTimes reads the times of each CPU from /proc/stat.
func parseTimes(stat []byte) map[int]cpuTimes {
	times := map[int]cpuTimes{}
	for l := range bytes.Lines(stat) {
		if !bytes.HasPrefix(l, []byte("cpu")) {
			continue
		}
		f := strings.Fields(string(l))
		if len(f) < 5 {
			continue
		}
		cpu, err := strconv.Atoi(f[0][len("cpu"):])
		if err != nil {
			continue // the sum line
		}
		var t cpuTimes
		for i := 1; i < len(f); i++ {
			n, err := strconv.ParseInt(f[i], 10, 64)
			if err != nil {
				continue
			}
			switch i {
			case 1, 2, 3, 6, 7:
				t.busy += n
			case 8:
				t.stolen = n
			}
		}
		times[cpu] = t
	}
	return times
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
