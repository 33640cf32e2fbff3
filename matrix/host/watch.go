package host

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pgtare/results"
)

// Reading is what the machine had done by a moment. [Watch] takes one, and the
// difference of two is a [results.Machine].
type Reading struct {
	at          time.Time
	times       map[int]cpuTimes // of the CPUs that are watched
	throttled   map[string]int64 // control group -> ns
	minKHz      int64            // -1: not known
	maxKHz      int64
	clocksource string
	own         time.Duration // CPU time of this process
}

// Watch reads what the given CPUs (nil: all of [CPUs]) and this process have
// done so far, and how the machine runs now. It takes less than a millisecond. What the
// kernel doesn't show is unknown in the difference of two readings.
func Watch(cpus []int) Reading { return watch("/", cpus) }

// watch is Watch of the /proc and /sys under root.
func watch(root string, cpus []int) Reading {
	if cpus == nil {
		cpus = CPUs()
	}
	r := Reading{at: time.Now(), times: map[int]cpuTimes{}, own: ownCPU()}
	if text, err := os.ReadFile(filepath.Join(root, "proc/stat")); err == nil {
		for cpu, t := range parseTimes(text) {
			if slices.Contains(cpus, cpu) {
				r.times[cpu] = t
			}
		}
	}
	r.throttled = throttled(root)
	r.minKHz, r.maxKHz = frequencies(root, cpus)
	r.clocksource = line(filepath.Join(root, "sys/devices/system/clocksource/clocksource0/current_clocksource"))
	return r
}

// Since returns what happened from earlier to r, readings of the same CPUs.
// It fills ElapsedNs and all that follows it; OwnNs is this process alone, to
// which the caller adds the servers that it measures. The times of the CPUs
// come in steps of 10 ms each.
func (r Reading) Since(earlier Reading) results.Machine {
	m := results.Machine{
		ElapsedNs: r.at.Sub(earlier.at).Nanoseconds(), BusyNs: -1, StealNs: -1, ThrottledNs: -1, MinKHz: -1, MaxKHz: -1,
		OwnNs: (r.own - earlier.own).Nanoseconds(), Clocksource: r.clocksource,
	}
	for cpu, now := range r.times {
		then, ok := earlier.times[cpu]
		if !ok {
			continue // it was off
		}
		if m.CPUs == 0 {
			m.BusyNs, m.StealNs = 0, 0
		}
		m.CPUs++
		// The kernel lets a sum fall back by a tick now and then.
		m.BusyNs += max(0, now.busy-then.busy) * nsPerTick
		m.StealNs += max(0, now.stolen-then.stolen) * nsPerTick
	}
	// A group is held up with all the groups in it, so the largest holds for us.
	for group, now := range r.throttled {
		if then, ok := earlier.throttled[group]; ok {
			m.ThrottledNs = max(m.ThrottledNs, now-then, 0)
		}
	}
	for _, f := range []Reading{earlier, r} {
		if f.minKHz > 0 && (m.MinKHz < 0 || f.minKHz < m.MinKHz) {
			m.MinKHz = f.minKHz
		}
		m.MaxKHz = max(m.MaxKHz, f.maxKHz)
	}
	return m
}

// nsPerTick is the unit of /proc/stat: USER_HZ is 100 on all Linux ports that
// PostgreSQL is measured on.
const nsPerTick = int64(time.Second) / 100

func ownCPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		panic("host: this process has no CPU clock: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// throttled returns for this process's control group and the groups that it is
// in how long each has been held up by its CPU quota, in ns, summed over the
// CPUs on which it was; none where no control groups are to be seen. A group
// without a quota has 0.
func throttled(root string) map[string]int64 {
	out := map[string]int64{}
	for _, dir := range controlGroups(root, "cpu") {
		if ns, ok := throttledIn(filepath.Join(root, dir, "cpu.stat")); ok {
			out[dir] = ns
		}
	}
	return out
}

// controlGroups returns the directories of this process's control group and of
// those that it is in, in version 2 and in version 1's hierarchy of a controller.
func controlGroups(root, controller string) (dirs []string) {
	membership, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return nil
	}
	for l := range strings.Lines(string(membership)) {
		// hierarchy:controllers:path; version 2 has no controllers.
		f := strings.SplitN(strings.TrimSpace(l), ":", 3)
		if len(f) != 3 || f[1] != "" && !slices.Contains(strings.Split(f[1], ","), controller) {
			continue
		}
		mount, top := cgroupMount(root, controller, f[1] != "")
		if mount == "" {
			continue
		}
		group, inside := strings.CutPrefix(filepath.Clean(f[2]), strings.TrimSuffix(top, "/"))
		if !inside {
			group = "/" // a container sees its own group as the top
		}
		for p := filepath.Clean("/" + group); ; p = filepath.Dir(p) {
			dirs = append(dirs, filepath.Join(mount, p))
			if p == "/" {
				break
			}
		}
	}
	return dirs
}

// cgroupMount returns where version 2, or version 1's hierarchy of a controller,
// is mounted, and which of its groups is on top there.
func cgroupMount(root, controller string, v1 bool) (mount, top string) {
	text, err := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return "", ""
	}
	for l := range strings.Lines(string(text)) {
		// ID parent major:minor root mount options... - type source superoptions
		before, after, ok := strings.Cut(l, " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if !ok || len(b) < 5 || len(a) < 3 {
			continue
		}
		if !v1 && a[0] == "cgroup2" || v1 && a[0] == "cgroup" && slices.Contains(strings.Split(a[2], ","), controller) {
			return b[4], b[3]
		}
	}
	return "", ""
}

// throttledIn reads a group's cpu.stat: version 1 has throttled_time in ns,
// version 2 throttled_usec, neither without the controller.
func throttledIn(path string) (ns int64, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	for l := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(l), " ")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
		case key == "throttled_time":
			ns = n
		case key == "throttled_usec":
			ns = n * 1000
		}
	}
	return ns, true
}

// frequencies returns the lowest and the highest present frequency of the
// CPUs in kHz, -1 where not known. The file cpuinfo shows a frequency that was
// measured only where the CPU counts its cycles (aperfmperf); a virtual machine
// shows the nominal one, which never changes.
func frequencies(root string, cpus []int) (lowest, highest int64) {
	lowest, highest = -1, -1
	add := func(khz int64) {
		if khz <= 0 {
			return
		}
		if lowest < 0 || khz < lowest {
			lowest = khz
		}
		highest = max(highest, khz)
	}
	for _, cpu := range cpus {
		khz, _ := strconv.ParseInt(line(filepath.Join(root, "sys/devices/system/cpu/cpu"+strconv.Itoa(cpu), "cpufreq/scaling_cur_freq")), 10, 64)
		add(khz)
	}
	if highest > 0 {
		return lowest, highest
	}
	text, err := os.ReadFile(filepath.Join(root, "proc/cpuinfo"))
	if err != nil || !slices.Contains(strings.Fields(field(filepath.Join(root, "proc/cpuinfo"), "flags", ":")), "aperfmperf") {
		return -1, -1
	}
	cpu := -1
	for l := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(l, ":")
		switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
		case "processor":
			if cpu, err = strconv.Atoi(value); err != nil {
				cpu = -1
			}
		case "cpu MHz":
			if mhz, err := strconv.ParseFloat(value, 64); err == nil && mhz > 0 && mhz < 1e6 && slices.Contains(cpus, cpu) {
				add(int64(mhz * 1000))
			}
		}
	}
	return lowest, highest
}
