package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// estimate is an overhead as it is printed: a point and, where known, the ends
// of its 95 % interval, in one unit.
type estimate struct {
	point  float64
	lo, hi *float64
}

// estimateOf is nil where there is no point.
func estimateOf(point, lo, hi *float64) *estimate {
	if point == nil {
		return nil
	}
	return &estimate{*point, lo, hi}
}

// half is half the interval's width; 0: there is no interval.
func (e *estimate) half() float64 {
	if e.lo == nil || e.hi == nil {
		return 0
	}
	return (*e.hi - *e.lo) / 2
}

// alignEstimates prints the estimates of one column, one under the other at
// the decimal point: "+0.7 +- 0.4", or "+20 (-8 to +55)" where an end is more
// than a tenth of the half-width from where that puts it. nil is an empty
// text. digits gives the decimals of one, below 0 the zeros before the point.
//
// Note: showing the ends wherever they differ from the half-width in the last
// digit was tried. They nearly always do on a noisy machine, and the table grew
// too wide to be read.
func alignEstimates(column []*estimate, digits func(*estimate) int) []string {
	points, halves := make([]string, len(column)), make([]string, len(column))
	for i, e := range column {
		if e == nil {
			continue
		}
		d := digits(e)
		points[i] = signed(e.point, d)
		if e.lo == nil || e.hi == nil {
			continue
		}
		half := e.half()
		if slack := max(math.Pow(10, -float64(d)), half/10); math.Abs((*e.hi-e.point)-half) <= slack && math.Abs((e.point-*e.lo)-half) <= slack {
			halves[i] = "+- " + fixed(half, d)
		} else {
			halves[i] = "(" + signed(*e.lo, d) + " to " + signed(*e.hi, d) + ")"
		}
	}
	alignPoints(points)
	wide := 0
	ends := append([]string(nil), halves...)
	alignPoints(ends)
	for i, half := range halves {
		if strings.HasPrefix(half, "+-") { // the lopsided ones go as they are
			halves[i] = ends[i]
		}
		wide = max(wide, len(halves[i]))
	}
	out := make([]string, len(column))
	for i := range column {
		if points[i] != "" {
			out[i] = strings.TrimRight(fmt.Sprintf("%s %-*s", points[i], wide, halves[i]), " ")
			out[i] += strings.Repeat(" ", len(points[i])+1+wide-len(out[i]))
			if wide == 0 {
				out[i] = points[i]
			}
		}
	}
	return out
}

// alignPoints pads texts on the right so that their decimal points fall
// together once they are aligned to the right.
func alignPoints(texts []string) {
	most := 0
	after := func(s string) int {
		if at := strings.LastIndexByte(s, '.'); at >= 0 {
			return len(s) - at
		}
		return 0
	}
	for _, s := range texts {
		if !strings.HasPrefix(s, "(") {
			most = max(most, after(s))
		}
	}
	longest := 0
	for i, s := range texts {
		if s != "" && !strings.HasPrefix(s, "(") {
			texts[i] = s + strings.Repeat(" ", most-after(s))
			longest = max(longest, len(texts[i]))
		}
	}
	for i, s := range texts {
		switch {
		case strings.HasPrefix(s, "+- "):
			texts[i] = "+- " + fmt.Sprintf("%*s", longest-3, s[3:])
		case s != "" && !strings.HasPrefix(s, "("):
			texts[i] = fmt.Sprintf("%*s", longest, s)
		}
	}
}

// pctDigits: 0.1 %, finer where the interval is, coarser where the figure is
// huge.
func pctDigits(e *estimate) int {
	switch half := e.half(); {
	case half >= 10 || math.Abs(e.point) >= 10000:
		return 0
	case half > 0 && half < 0.05:
		return 2
	}
	return 1
}

// intervalDigits is what an interval supports: two digits of its half-width.
// Without an interval three digits of the point.
func intervalDigits(most int) func(*estimate) int {
	return func(e *estimate) int {
		digits := 2
		v := e.half()
		if v == 0 {
			digits, v = 3, math.Abs(e.point)
		}
		if v == 0 {
			return 0
		}
		return min(digits-1-int(math.Floor(math.Log10(v))), most)
	}
}

// signed prints v with d decimals (below 0: rounded before the point), its
// sign always there, but none on a zero.
func signed(v float64, d int) string {
	s := fixed(v, d)
	switch {
	case strings.Trim(s, "-0.") == "":
		return strings.TrimPrefix(s, "-")
	case v > 0:
		return "+" + s
	}
	return s
}

// fixed prints v with d decimals; below 0 it is rounded before the point.
func fixed(v float64, d int) string {
	if d < 0 {
		unit := math.Pow(10, -float64(d))
		v = math.Round(v/unit) * unit
	}
	if math.Abs(v) >= 1e9 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strconv.FormatFloat(v, 'f', max(d, 0), 64)
}

// level prints a level, as tps or us, to so many significant digits.
func level(v *float64, significant int) string {
	if v == nil {
		return ""
	}
	if *v == 0 {
		return "0"
	}
	return fixed(*v, min(significant-1-int(math.Floor(math.Log10(math.Abs(*v)))), 4))
}

// levels prints one column of levels under each other.
func levels(column []*float64, significant int) []string {
	out := make([]string, len(column))
	for i, v := range column {
		out[i] = level(v, significant)
	}
	alignPoints(out)
	return out
}

// timeUnit is the unit in which ns are printed so that the largest has at most
// six digits.
func timeUnit(largest float64) (name string, ns float64) {
	switch {
	case largest >= 1e12:
		return "s", 1e9
	case largest >= 1e9:
		return "ms", 1e6
	case largest >= 1e6:
		return "us", 1e3
	}
	return "ns", 1
}

// scaled is an estimate of ns in another unit.
func (e *estimate) scaled(ns float64) *estimate {
	if e == nil {
		return nil
	}
	out := &estimate{point: e.point / ns}
	if e.lo != nil && e.hi != nil {
		out.lo, out.hi = ptr(*e.lo/ns), ptr(*e.hi/ns)
	}
	return out
}

// duration prints ns in a unit that suits it: "2.1 ms".
func duration(ns float64) string {
	for _, u := range []struct {
		name string
		ns   float64
	}{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}} {
		if ns >= 1000*u.ns {
			return strconv.FormatFloat(ns/u.ns, 'f', 0, 64) + " " + u.name
		}
		if ns >= u.ns {
			return strconv.FormatFloat(ns/u.ns, 'g', 3, 64) + " " + u.name
		}
	}
	return strconv.FormatFloat(ns, 'g', 3, 64) + " ns"
}
