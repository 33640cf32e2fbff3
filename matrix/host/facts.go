package host

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pgtare/results"
)

// Facts returns what is known of this machine; what isn't stays empty. User
// is left to the caller, who knows what the servers run as. It takes some
// milliseconds, for timing the clock.
func Facts() results.Environment {
	e := results.Environment{
		OS:             osName(),
		CPU:            cpuModel(),
		CPUs:           cmp.Or(len(CPUs()), runtime.NumCPU()),
		MemoryBytes:    memory(),
		Clocksource:    line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
		Clocksources:   strings.Fields(line("/sys/devices/system/clocksource/clocksource0/available_clocksource")),
		ClockReadNs:    ClockRead(),
		Governor:       line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
		Virtualization: virtualization(),
		HugePages:      hugePages(),
		Go:             runtime.Version(),
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		e.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	if f := strings.Fields(line("/proc/loadavg")); len(f) >= 3 {
		e.LoadAverage = strings.Join(f[:3], " ")
	}
	return e
}

// ClockRead returns the ns that one read of the monotonic clock takes: the
// best of twenty batches, so that an interruption doesn't count. It is the
// vDSO read that the Go runtime makes, or the system call where the clock
// source has no vDSO, as it would be for PostgreSQL.
func ClockRead() float64 {
	const reads = 2000
	best := time.Duration(1<<63 - 1)
	for range 20 {
		start := time.Now()
		var last time.Duration
		for range reads {
			last = time.Since(start) // one read; time.Now makes two
		}
		best = min(best, last)
	}
	return float64(best) / reads
}

// line returns the first line of a file, "" where there is none.
func line(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(first)
}

// BootID tells one start of the kernel from another; "" where it doesn't show.
func BootID() string { return line("/proc/sys/kernel/random/boot_id") }

// field returns the value of "key: value" or "key=value" in a file.
func field(path, key, sep string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for l := range strings.Lines(string(text)) {
		k, v, ok := strings.Cut(l, sep)
		if ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// virtualization names the hypervisor and the container, as far as files tell.
func virtualization() string {
	var parts []string
	flags := strings.Fields(field("/proc/cpuinfo", "flags", ":"))
	dmi := strings.TrimSpace(line("/sys/class/dmi/id/sys_vendor") + " " + line("/sys/class/dmi/id/product_name"))
	switch hyper := line("/sys/hypervisor/type"); {
	case hyper != "":
		parts = append(parts, hyper)
	case slices.Contains(flags, "hypervisor") && dmi != "":
		parts = append(parts, "virtual machine ("+dmi+")")
	case slices.Contains(flags, "hypervisor") && strings.Contains(line("/sys/devices/system/clocksource/clocksource0/available_clocksource"), "kvm-clock"):
		parts = append(parts, "virtual machine (KVM)")
	case slices.Contains(flags, "hypervisor"):
		parts = append(parts, "virtual machine")
	}
	for _, c := range []struct{ file, name string }{{"/.dockerenv", "docker"}, {"/run/.containerenv", "podman"}} {
		if _, err := os.Stat(c.file); err == nil {
			parts = append(parts, c.name)
		}
	}
	if c := line("/run/systemd/container"); c != "" && !slices.Contains(parts, c) {
		parts = append(parts, c)
	}
	return strings.Join(parts, ", ")
}

// hugePages says how transparent huge pages are set, and how many pages of
// each size are reserved: "transparent: madvise; 2048kB: 512".
func hugePages() string {
	var parts []string
	for _, w := range strings.Fields(line("/sys/kernel/mm/transparent_hugepage/enabled")) {
		if on, ok := strings.CutPrefix(w, "["); ok {
			parts = append(parts, "transparent: "+strings.TrimSuffix(on, "]"))
		}
	}
	dirs, _ := filepath.Glob("/sys/kernel/mm/hugepages/hugepages-*")
	for _, d := range dirs {
		if n := line(filepath.Join(d, "nr_hugepages")); n != "" && n != "0" {
			parts = append(parts, fmt.Sprintf("%s: %s", strings.TrimPrefix(filepath.Base(d), "hugepages-"), n))
		}
	}
	return strings.Join(parts, "; ")
}
