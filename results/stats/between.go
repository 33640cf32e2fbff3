package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat"
)

// Heterogeneity is the test whether the runs of one comparison differ by more
// than its generations make them.
type Heterogeneity struct {
	F        float64 // mean square between runs over that within them
	DF1, DF2 float64 // runs - 1, generations - runs
	P        float64
}

// BetweenRuns tests whether the overhead of cell against its reference (base,
// and twin where it isn't empty) differs between runs: the one-way analysis of
// variance of the generations' figures y by run. Where it does,
// generations are no replicates: something is drawn anew at each run that all
// generations of the run share, and only runs average it out.
//
// nil where it can't be tested: the run is the replicate anyway, fewer than two
// runs, or most runs hold a single generation. Where trimming isn't possible y
// is the log ratio of the generation's sums, as in [Compare].
func BetweenRuns(cell, base, twin Sample, o Options) *Heterogeneity {
	if o.Block || o.Unit == ByRun {
		return nil
	}
	w := pair(cell, base, twin, o)
	var runs []int // in order of appearance
	of := map[int][]float64{}
	for i, y := range w.own() {
		run := w.replicates[i].at.Run
		if len(of[run]) == 0 {
			runs = append(runs, run)
		}
		of[run] = append(of[run], y)
	}
	several := 0
	for _, run := range runs {
		if len(of[run]) > 1 {
			several++
		}
	}
	k, n := len(runs), len(w.replicates)
	if k < 2 || 2*several <= k {
		return nil
	}
	grand := stat.Mean(w.own(), nil)
	var between, within float64
	for _, run := range runs {
		mean, variance := stat.PopMeanVariance(of[run], nil)
		size := float64(len(of[run]))
		between += size * (mean - grand) * (mean - grand)
		within += size * variance
	}
	h := &Heterogeneity{DF1: float64(k - 1), DF2: float64(n - k)}
	// Generations alike to the last digit have no variance of their own; see
	// minSE. Rounding alone is then no difference between runs.
	h.F = between / h.DF1 / max(within/h.DF2, minSE*minSE)
	// The upper tail itself, not 1 - CDF, which ends at 1e-16.
	h.P = mathext.RegIncBeta(h.DF2/2, h.DF1/2, h.DF2/(h.DF2+h.DF1*h.F))
	return h
}

// own are the replicates' own figures: y, or the log ratio of their sums where
// trimming isn't possible.
func (w weighing) own() []float64 {
	own := make([]float64, len(w.replicates))
	for i, r := range w.replicates {
		own[i] = r.y
		if !w.trims {
			own[i] = r.cell.log() - r.reference.log()
		}
	}
	return own
}

// Holm adjusts the p of tests that are judged together, in their order: the
// smallest times their number, the next times one less, and so on, never less
// than the one before and at most 1. To call those below a level findings is
// then wrong about any of them in that share of cases at most, however the
// tests depend on each other. p that are no number count as 1.
func Holm(p []float64) []float64 {
	adjusted := make([]float64, len(p))
	order := make([]int, len(p))
	value := func(i int) float64 {
		if math.IsNaN(p[i]) {
			return 1
		}
		return min(1, max(0, p[i]))
	}
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(value(a), value(b)) })
	least := 0.0
	for rank, i := range order {
		least = max(least, min(1, value(i)*float64(len(p)-rank)))
		adjusted[i] = least
	}
	return adjusted
}
