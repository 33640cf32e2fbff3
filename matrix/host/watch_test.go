//go:build linux

package host

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pgtare/results"
)

// plant writes files of a machine under a directory of its own.
func plant(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// between reads the two states of a machine; what passed in truth is left out.
func between(t *testing.T, before, after map[string]string, cpus []int) results.Machine {
	t.Helper()
	first := watch(plant(t, before), cpus)
	m := watch(plant(t, after), cpus).Since(first)
	if m.ElapsedNs <= 0 || m.OwnNs < 0 {
		t.Errorf("%d ns passed, and this process used %d", m.ElapsedNs, m.OwnNs)
	}
	m.ElapsedNs, m.OwnNs = 0, 0
	return m
}

func TestSince(t *testing.T) {
	const (
		clock = "sys/devices/system/clocksource/clocksource0/current_clocksource"
		freq0 = "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
		freq2 = "sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq"
	)
	got := between(t,
		map[string]string{
			"proc/stat": "cpu 9 9 9 9\ncpu0 100 0 0 0 0 0 0 10\ncpu1 0 0 0 0 0 0 0 0\ncpu2 5 0 0 0 0 0 0 3\n",
			clock:       "tsc\n", freq0: "2000000\n", freq2: "3000000\n",
		},
		map[string]string{
			"proc/stat": "cpu 9 9 9 9\ncpu0 103 1 1 50 50 1 1 12\ncpu1 900 0 0 0 0 0 0 900\ncpu2 6 0 0 0 0 0 0 2\n",
			clock:       "hpet\n", freq0: "1900000\n", freq2: "nonsense\n",
		}, []int{0, 2})
	// CPU 2's stolen time fell back by a tick, which counts as nothing.
	want := results.Machine{CPUs: 2, BusyNs: 80e6, StealNs: 20e6, ThrottledNs: -1, MinKHz: 1900000, MaxKHz: 3000000, Clocksource: "hpet"}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// A machine that shows nothing.
	if got, want := between(t, nil, nil, []int{0}), (results.Machine{BusyNs: -1, StealNs: -1, ThrottledNs: -1, MinKHz: -1, MaxKHz: -1}); got != want {
		t.Errorf("nothing to see:\ngot  %+v\nwant %+v", got, want)
	}
	// A CPU that was switched on meanwhile has no beginning.
	got = between(t, map[string]string{"proc/stat": "cpu0 1 0 0 0\n"}, map[string]string{"proc/stat": "cpu0 2 0 0 0\ncpu1 7 0 0 0\n"}, []int{0, 1})
	if got.CPUs != 1 || got.BusyNs != 10e6 {
		t.Errorf("a new CPU: %+v", got)
	}
}

func TestThrottled(t *testing.T) {
	check := func(what string, want int64, before, after map[string]string) {
		t.Helper()
		if got := between(t, before, after, []int{0}).ThrottledNs; got != want {
			t.Errorf("%s: %d ns, want %d", what, got, want)
		}
	}
	// with adds to files.
	with := func(base, more map[string]string) map[string]string {
		out := map[string]string{}
		for _, m := range []map[string]string{base, more} {
			for k, v := range m {
				out[k] = v
			}
		}
		return out
	}
	v2 := map[string]string{
		"proc/self/cgroup":    "0::/a/b\n",
		"proc/self/mountinfo": "25 30 0:23 / /sys rw - sysfs sysfs rw\n30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
	}
	check("version 2, the parent's quota", 7000,
		with(v2, map[string]string{"sys/fs/cgroup/cpu.stat": "usage_usec 5\n", "sys/fs/cgroup/a/cpu.stat": "nr_throttled 1\nthrottled_usec 10\n", "sys/fs/cgroup/a/b/cpu.stat": "throttled_usec 3\n"}),
		with(v2, map[string]string{"sys/fs/cgroup/cpu.stat": "usage_usec 9\n", "sys/fs/cgroup/a/cpu.stat": "nr_throttled 2\nthrottled_usec 17\n", "sys/fs/cgroup/a/b/cpu.stat": "throttled_usec 4\n"}))
	root := with(v2, map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": "usage_usec 5\n"})
	check("version 2, no quota", 0, root, root)

	v1 := map[string]string{
		"proc/self/cgroup":    "4:memory:/m\n3:cpu,cpuacct:/docker/x\n0::/\n",
		"proc/self/mountinfo": "40 25 0:30 /docker/x /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n41 25 0:31 /docker/x /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
	}
	check("version 1, in a container", 5_000_000,
		with(v1, map[string]string{"sys/fs/cgroup/cpu,cpuacct/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 1000000\n"}),
		with(v1, map[string]string{"sys/fs/cgroup/cpu,cpuacct/cpu.stat": "nr_periods 9\nnr_throttled 3\nthrottled_time 6000000\n"}))
	check("the groups are not mounted", -1, with(v1, nil), with(v1, nil))
	garbage := map[string]string{"proc/self/cgroup": "x\n::\n0::../..\n", "proc/self/mountinfo": "x - y\n - - -\n"}
	check("garbage", -1, garbage, garbage)
}

func TestFrequencies(t *testing.T) {
	check := func(info string, cpus []int, lowest, highest int64) {
		t.Helper()
		lo, hi := frequencies(plant(t, map[string]string{"proc/cpuinfo": info}), cpus)
		if lo != lowest || hi != highest {
			t.Errorf("%q: %d to %d, want %d to %d", info, lo, hi, lowest, highest)
		}
	}
	two := "processor\t: 0\nflags\t: fpu aperfmperf\ncpu MHz\t\t: 1200.5\n\nprocessor\t: 1\nflags\t: fpu aperfmperf\ncpu MHz\t\t: 3400.000\n"
	check(two, []int{0, 1}, 1200500, 3400000)
	check(two, []int{1}, 3400000, 3400000)
	check("processor\t: 0\nflags\t: fpu hypervisor\ncpu MHz\t\t: 2445.406\n", []int{0}, -1, -1) // nominal
	check("processor: 0\nflags: aperfmperf\ncpu MHz: NaN\nprocessor: 0\ncpu MHz: 1e300\ncpu MHz: -3\n", []int{0}, -1, -1)
	check("", []int{0}, -1, -1)
}

// TestWatch keeps one CPU of this machine busy.
func TestWatch(t *testing.T) {
	cpus := CPUs()
	busy := cpus[len(cpus)-1:]
	before := Watch(busy)
	const span = 300 * time.Millisecond
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends pinned
		err := SetAffinity(0, busy)
		for start := time.Now(); err == nil && time.Since(start) < span; {
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	m := Watch(busy).Since(before)
	t.Logf("%+v", m)
	// The thread or others filled the CPU, as far as it was there at all.
	if d := m.BusyNs + m.StealNs - m.ElapsedNs; m.CPUs != 1 || m.ElapsedNs < int64(span) || d < -m.ElapsedNs/3 || d > m.ElapsedNs/3 {
		t.Errorf("a busy CPU: %+v", m)
	}
	// What the thread used is no more than that, to the grain of a tick.
	if m.OwnNs < int64(span)/20 || m.OwnNs > m.BusyNs+m.ElapsedNs/3 {
		t.Errorf("own %d ns of %d", m.OwnNs, m.BusyNs)
	}
	if m.Clocksource != line("/sys/devices/system/clocksource/clocksource0/current_clocksource") {
		t.Errorf("clock source %q", m.Clocksource)
	}
	if all := Watch(nil).Since(Watch(nil)); all.CPUs != len(cpus) {
		t.Errorf("nil watches %d CPUs of %d", all.CPUs, len(cpus))
	}
	before = Watch(nil)
	if idle := func() results.Machine { time.Sleep(50 * time.Millisecond); return Watch(nil).Since(before) }(); idle.OwnNs > int64(25*time.Millisecond) {
		t.Errorf("asleep, this process used %d ns in 50 ms", idle.OwnNs)
	}
}

// TestThrottledForReal gives this process a quota where the machine lets us.
func TestThrottledForReal(t *testing.T) {
	const group = "/sys/fs/cgroup/cpu"
	in, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || !strings.Contains(string(in), ":cpu:/\n") {
		t.Skip("this process isn't in the top group, into which it could be put back")
	}
	dir, err := os.MkdirTemp(group, "pgtare-test")
	if err != nil {
		t.Skip("no control group of version 1 to make:", err)
	}
	defer unix.Rmdir(dir)
	if err := os.WriteFile(filepath.Join(dir, "cpu.cfs_quota_us"), []byte("5000"), 0); err != nil {
		t.Skip("no quota to set:", err)
	}
	pid := []byte("0")
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), pid, 0); err != nil {
		t.Skip("can't enter the group:", err)
	}
	defer os.WriteFile(filepath.Join(group, "cgroup.procs"), pid, 0)
	before := Watch(nil)
	for start := time.Now(); time.Since(start) < 400*time.Millisecond; {
	}
	m := Watch(nil).Since(before)
	t.Logf("%+v", m)
	// 5 ms of every 100 ms, which is less than a busy machine gives.
	if m.ThrottledNs < m.ElapsedNs/3 || m.ThrottledNs > int64(m.CPUs+1)*m.ElapsedNs {
		t.Errorf("a quota of a twentieth: held up for %d of %d ns", m.ThrottledNs, m.ElapsedNs)
	}
}

func BenchmarkWatch(b *testing.B) {
	for b.Loop() {
		Watch(nil)
	}
}
