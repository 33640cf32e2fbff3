package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CPUs returns the numbers of the CPUs that this process may use, ascending,
// as they were when it started; nil where the system doesn't tell (all but Linux).
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

// Siblings returns the CPUs that share a core with cpu (SMT), itself
// included; only itself where the kernel doesn't tell.
func Siblings(cpu int) []int {
	s, err := parseList(line(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)))
	if err != nil || !slices.Contains(s, cpu) {
		return []int{cpu}
	}
	return s
}

// Quiet watches the CPUs for window and returns CPUs(), those first whose core
// was busy least: the time that it and its SMT siblings were neither idle nor
// waiting for I/O, stolen time included. Equals stay in ascending order.
func Quiet(ctx context.Context, window time.Duration) ([]int, error) {
	allowed := CPUs()
	if len(allowed) == 0 {
		return nil, errors.New("find the quietest CPU: /proc/self/status names no CPU")
	}
	before, err := readTimes()
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(window)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
	}
	after, err := readTimes()
	if err != nil {
		return nil, err
	}
	return quiet(before, after, allowed, Siblings), nil
}

// quiet sorts allowed by the times of each CPU before and after.
func quiet(before, after map[int]cpuTimes, allowed []int, siblings func(int) []int) []int {
	busy := func(c int) (n int64) {
		for _, s := range siblings(c) {
			n += after[s].busy + after[s].stolen - before[s].busy - before[s].stolen
		}
		return n
	}
	sorted := slices.Clone(allowed)
	slices.SortStableFunc(sorted, func(a, b int) int { return cmp.Compare(busy(a), busy(b)) })
	return sorted
}

// Apart divides CPUs, the quietest first, between a server that has so many
// backends and a client of so many threads, so that no core (siblings: a CPU's
// SMT siblings, itself included) is on both sides: the server gets the quietest
// cores, as many as it has use for, at least one and all but the client's.
// false where there is but one core.
func Apart(quiet []int, siblings func(int) []int, backends, threads int) (client, server []int, found bool) {
	var cores [][]int
	for _, c := range quiet {
		at := slices.IndexFunc(cores, func(core []int) bool { return slices.Contains(siblings(core[0]), c) })
		if at < 0 {
			cores = append(cores, nil)
			at = len(cores) - 1
		}
		cores[at] = append(cores[at], c)
	}
	if len(cores) < 2 {
		return nil, nil, false
	}
	forClient := min(threads, len(cores)/2)
	for i, core := range cores {
		switch {
		case i < min(backends, len(cores)-forClient):
			server = append(server, core...)
		case len(client) < threads:
			client = append(client, core...)
		}
	}
	slices.Sort(client)
	slices.Sort(server)
	return client, server, true
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

// ParseList reads the kernel's list format, "0-3,8", for what a user wrote: at
// most so many numbers as a machine may have, none twice.
func ParseList(s string) ([]int, error) {
	if !listFormat.MatchString(s) {
		return nil, fmt.Errorf("%q is no list of CPUs such as 0-3,8", s)
	}
	cpus, err := parseList(s)
	if err != nil {
		return nil, fmt.Errorf("%q is no list of CPUs such as 0-3,8", s)
	}
	slices.Sort(cpus)
	if len(cpus) == 0 || len(slices.Compact(slices.Clone(cpus))) < len(cpus) {
		return nil, fmt.Errorf("%q is no list of CPUs such as 0-3,8: one is named twice, or a range runs downwards", s)
	}
	return cpus, nil
}

// Four digits are enough for Linux, which takes at most 8192 CPUs.
var listFormat = regexp.MustCompile(`^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$`)

// FormatList writes ascending numbers in the kernel's list format.
func FormatList(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		k := i
		for k+1 < len(cpus) && cpus[k+1] == cpus[k]+1 {
			k++
		}
		part := strconv.Itoa(cpus[i])
		if k > i {
			part += "-" + strconv.Itoa(cpus[k])
		}
		parts = append(parts, part)
		i = k + 1
	}
	return strings.Join(parts, ",")
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
