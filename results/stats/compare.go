package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

const (
	// Below these no interval, and no "same". Three replicates leave
	// two degrees of freedom; with one or two the t quantile says nothing that
	// anybody would want to read.
	minReplicates   = 3
	fewGenerations  = 15
	fewRuns         = 10
	burstLevel      = 0.01 // p of typical against total below which they disagree
	outlierRobustSD = 6
)

// Compare weighs cell against its reference: base and, where there is one, its
// control (twin; nil or empty: base alone, which is some 18 % wider).
//
// Unequal or missing data are left out on both sides, so that what is compared
// was measured side by side: generations that one of the samples lacks (the
// first of several with the same key counts), rounds past the shortest of the
// generations, rounds in which one of the slices was not measured. Under
// Options.Block there are no rounds and each side keeps all it has.
//
// A slice in which time passed and nothing completed is an observation, the
// worst kind of burst: its time stays in the total. For typical it counts half
// a transaction, which only has to rank it among the slowest, where the
// trimming takes it. Likewise a slice whose CPU clock stood still counts half
// a ns. More than a fifth of such slices in a sample are more than the trimming
// holds: then typical is nil and total decides.
func Compare(cell, base, twin Sample, o Options) *Comparison {
	w := pair(cell, base, twin, o)
	n := len(w.replicates)
	c := &Comparison{
		Unit:          w.unit,
		Replicates:    n,
		FewReplicates: n < enough(w.unit),
		PAdjusted:     1,
	}
	if w.baseline.Count > 0 {
		c.ReferenceNs = w.baseline.Time / w.baseline.Count
	}
	total, outs, ok := w.total()
	if !ok {
		return c
	}
	c.Point = new(percent(total))
	if n < minReplicates || outs == nil {
		return c
	}
	c.Total = jackknife(total, outs)
	c.Decides = c.Total

	// A replicate's own figure, to name the outliers by.
	own := w.own()
	for _, i := range outliers(own) {
		c.Outliers = append(c.Outliers, i)
		c.OutlierAt = append(c.OutlierAt, w.replicates[i].at)
	}

	if w.trims {
		mean, sd := stat.MeanStdDev(own, nil)
		c.Typical = estimate(mean, sd/math.Sqrt(float64(n)), float64(n-1))
		// The difference leaves out the same replicate on both sides: total
		// and typical share most of their noise, so that their separate errors
		// would hide a burst.
		for i := range outs {
			outs[i] -= (mean*float64(n) - own[i]) / float64(n-1)
		}
		c.Burst = jackknife(total-mean, outs)
		c.Marked = c.Burst.P < burstLevel
		if !c.Marked {
			c.Decides = c.Typical
		}
	}
	c.Point = new(c.Decides.Pct)
	return c
}

// Control weighs a control against its baseline: typical, or total where
// trimming isn't possible. Bursts don't make total decide here: a burst that
// met one of two equal cells is chance, and the sum of squares that trust is
// judged by wants one kind of estimate.
func Control(cell, base Sample, o Options) *ControlResult {
	c := Compare(cell, base, nil, o)
	r := &ControlResult{Replicates: c.Replicates}
	e := c.Typical
	if e == nil {
		e = c.Total
	}
	if e == nil {
		return r
	}
	r.Estimate = *e
	r.T = e.T
	r.Z = math.Copysign(twoSidedZ(e.P), r.T)
	return r
}

// Ns is the overhead in ns per transaction: the deciding per cent and its
// interval times ReferenceNs, so that ns and per cent never disagree. All 0
// where Decides is nil.
func (c *Comparison) Ns() (ns, lo, hi float64) {
	if c.Decides == nil {
		return 0, 0, 0
	}
	k := c.ReferenceNs / 100
	return c.Decides.Pct * k, c.Decides.Lo * k, c.Decides.Hi * k
}

// TPSPct turns an overhead in per cent of time into per cent of tps: 25 % more
// time are 20 % fewer transactions. No time falls by 100 %, but the end of a
// hopeless interval may: it is taken for a millionth of a millionth above that.
func TPSPct(pct float64) float64 {
	d := max(pct/100, -1+1e-12)
	return -100 * d / (1 + d)
}

// Medians is the median, the smallest and the largest of values; all 0 where
// there are none. The median of an even number is the mean of the middle two.
func Medians(values []float64) (median, min, max float64) {
	if len(values) == 0 {
		return 0, 0, 0
	}
	v := slices.Clone(values)
	slices.Sort(v)
	return middle(v), v[0], v[len(v)-1]
}

// enough is the number of replicates below which "same" is never said.
func enough(unit Unit) int {
	if unit == ByRun {
		return fewRuns
	}
	return fewGenerations
}

// outliers are the indices of values further from the median than six robust
// standard deviations (1.4826 times the median absolute deviation, which is the
// standard deviation where the values are normal). Fewer than 5 values can't
// show one.
func outliers(values []float64) []int {
	if len(values) < 5 {
		return nil
	}
	m, _, _ := Medians(values)
	dev := make([]float64, len(values))
	for i, v := range values {
		dev[i] = math.Abs(v - m)
	}
	mad, _, _ := Medians(dev)
	if mad < minSE { // more than half of them alike: no scale to judge by
		return nil
	}
	var out []int
	for i, d := range dev {
		if d > outlierRobustSD*1.4826*mad {
			out = append(out, i)
		}
	}
	return out
}

func middle(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return sorted[n/2-1]/2 + sorted[n/2]/2
}
