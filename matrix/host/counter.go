package host

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Counter reads the CPU's own counter of time, which costs the same whatever
// clock source the kernel uses. It counts from its making.
type Counter struct {
	zero      uint64
	nsPerTick float64
}

// NewCounter finds out how fast the counter runs, which takes 50 ms. It is nil
// where there is none to rely on: on another CPU than amd64, where the counter
// doesn't run at one speed through all states of the CPU, or where the kernel
// found that the CPUs' counters disagree and no longer offers them as the clock
// source tsc.
func NewCounter() *Counter {
	flags := strings.Fields(field("/proc/cpuinfo", "flags", ":"))
	_, offered, err := Clocksources()
	if !hasTicks || err != nil || !slices.Contains(offered, "tsc") || !slices.Contains(flags, "constant_tsc") || !slices.Contains(flags, "nonstop_tsc") {
		return nil
	}
	start, from := ticksNow()
	time.Sleep(50 * time.Millisecond)
	end, to := ticksNow()
	if to <= from || end <= start {
		return nil
	}
	return &Counter{zero: from, nsPerTick: float64(end-start) / float64(to-from)}
}

// ticksNow reads clock and counter at one moment: the closest of some tries.
func ticksNow() (ns time.Duration, ticks uint64) {
	base, closest := processStart, uint64(math.MaxUint64)
	for range 50 {
		before := readTicks()
		at := time.Since(base)
		after := readTicks()
		if after-before < closest {
			closest, ns, ticks = after-before, at, before+(after-before)/2
		}
	}
	return ns, ticks
}

var processStart = time.Now()

// Now is the time in ns since the counter was made.
func (c *Counter) Now() int64 { return int64(float64(readTicks()-c.zero) * c.nsPerTick) }
