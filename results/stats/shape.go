package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Modes are the two groups into which the slices of a cell fall.
type Modes struct {
	ApartPct float64 // by how much a slice of the slower group takes longer than one of the faster, medians
	Slower   float64 // share of the slower group
}

const (
	modeBin       = 0.04 // of the log, 4 %
	modeApart     = 0.16 // 17 %: modes 20 % apart, less what noise moves them
	modeShare     = 0.12 // 15 %, less the same
	modeDepth     = 0.6  // the valley's height, of the lower peak's
	modeMinSlices = 200
	modeSure      = 4 // standard deviations by which the valley is below either mode
)

// Bimodal finds cells whose slices fall into two separate groups, as they do
// where a backend jumps between CPUs or a statement between plans: then the
// overhead is one of a mixture whose parts may occur in other shares next time.
// The samples are the cells of one panel, same rounds; the answer has their
// order, nil where there is one group.
//
// What is looked at is a slice's log time per transaction less the median of the
// others in its round, which takes out the weather that all share. Two groups
// are two peaks, 17 % or more apart, on both sides of a valley 0.6 times as high,
// with 12 % of the slices or more beyond the valley on each side. A distribution
// with one peak has no valley, however heavy its tails and however rare its
// bursts. So groups are only found where the noise of a slice is smaller than
// their distance, by about a factor of three.
//
// Note: the dip statistic asks for the same valley, but its p wants slices that
// are independent, and neighbours aren't.
func Bimodal(cells []Sample) []*Modes {
	residuals := make([][]float64, len(cells))
	eachRound(cells, func(_ Replicate, logs []float64, _ []int) {
		for c, x := range logs {
			if len(logs) > 1 {
				residuals[c] = append(residuals[c], x-othersMedian(logs, c))
			}
		}
	})
	out := make([]*Modes, len(cells))
	for c := range cells {
		out[c] = modes(residuals[c])
	}
	// Among three, the median of the others is their mean, and one cell's modes
	// show in all: the one that has them shows them furthest apart.
	if len(cells) <= 3 {
		worst := -1
		for c, m := range out {
			if m != nil && (worst < 0 || m.ApartPct > out[worst].ApartPct) {
				worst = c
			}
		}
		for c := range out {
			if c != worst {
				out[c] = nil
			}
		}
	}
	return out
}

// modes are the two groups in values; nil: there aren't two.
func modes(values []float64) *Modes {
	if len(values) < modeMinSlices {
		return nil
	}
	slices.Sort(values)
	// Narrow bins for modes that are near, wide ones for noise that is wide.
	// A peak may lie across two bins, so they are laid twice.
	for _, width := range []float64{modeBin, 2 * modeBin, 4 * modeBin} {
		for _, shift := range []float64{0, 0.5} {
			if m := valley(values, width, shift); m != nil {
				return m
			}
		}
	}
	return nil
}

// valley finds two groups in sorted values by a histogram of bins so wide, the
// median so far (in bins) from the middle of one.
func valley(values []float64, width, shift float64) *Modes {
	n := float64(len(values))
	middle, _, _ := Medians(values)
	// Far tails are left to the first and last bin: peaks aren't sought there.
	const bins = 101
	var counts [bins]float64
	for _, v := range values {
		counts[min(max(int(math.Round(min(max((v-middle)/width+shift, -bins), bins)))+bins/2, 0), bins-1)]++
	}
	var found *Modes
	lowest, below := math.Inf(1), 0.0
	for v := 1; v < bins-1; v++ {
		below += counts[v-1]
		faster := below + counts[v]/2
		lower := min(slices.Max(counts[1:v+1]), slices.Max(counts[v:bins-1]))
		if min(faster, n-faster) < modeShare*n || counts[v] >= lowest ||
			counts[v] > modeDepth*lower || lower-counts[v] < modeSure*math.Sqrt(lower+counts[v]) {
			continue
		}
		fast, _, _ := Medians(values[:int(below)])
		slow, _, _ := Medians(values[int(below+counts[v]):])
		if slow-fast >= modeApart {
			lowest = counts[v]
			found = &Modes{ApartPct: percent(slow - fast), Slower: 1 - faster/n}
		}
	}
	return found
}

// FirstRun is how far the first run of a cell is from its other runs.
type FirstRun struct {
	Pct float64 // by how much its time per transaction is above theirs, other cells' course taken out
	P   float64 // adjusted for the number of cells
}

const firstRunLevel = 0.005 // what is blamed is twice to three times as often, tails being heavy

// FirstRuns finds cells whose first run lies apart from their others (a table
// that was still empty, a cache still cold), which with few runs is in the
// median and the range that are printed. The samples are the cells of one panel,
// same runs, at least 5 of these and 3 cells; the answer has their order, nil
// where the first run is one of them.
//
// What is looked at is a run's log time per transaction less the median of the
// others in that run, so that what happens to all of them is no cell's. The scale
// is that of the runs after the first about the median of each cell: the larger
// of the cell's own standard deviation and a robust one over all cells (1.4826
// times the median absolute deviation, corrected for the medians taken out). The
// quotient is held against Student's t, adjusted after Holm, at 0.5 %. Degrees
// of freedom are twice the cell's own, as the common scale rests on more. By
// simulation that blames at most 1 % of the matrices of equal cells.
func FirstRuns(cells []Sample) []*FirstRun {
	out := make([]*FirstRun, len(cells))
	logs, runs := byRun(cells)
	if runs < 5 || len(cells) < 3 {
		return out
	}
	for r := range runs {
		all := make([]float64, len(cells))
		for c := range cells {
			all[c] = logs[c][r]
		}
		for c := range cells {
			logs[c][r] -= othersMedian(all, c)
		}
	}
	n := float64(runs - 1)
	var deviations []float64
	for _, x := range logs {
		m, _, _ := Medians(x[1:])
		for _, v := range x[1:] {
			deviations = append(deviations, math.Abs(v-m))
		}
	}
	mad, _, _ := Medians(deviations)
	common := 1.4826 * mad * math.Sqrt(n/(n-1))
	p := make([]float64, len(cells))
	apart := make([]float64, len(cells))
	for c, x := range logs {
		m, _, _ := Medians(x[1:])
		_, sd := stat.MeanStdDev(x[1:], nil)
		apart[c] = x[0] - m
		// The median of n values has an error of its own, about pi/2 times the
		// variance of a mean.
		scale := max(common, sd, minSE) * math.Sqrt(1+math.Pi/2/n)
		p[c] = 2 * distuv.StudentsT{Sigma: 1, Nu: 2 * (n - 1)}.CDF(-math.Abs(apart[c])/scale)
	}
	for c, adjusted := range Holm(p) {
		if adjusted < firstRunLevel {
			out[c] = &FirstRun{Pct: percent(apart[c]), P: adjusted}
		}
	}
	return out
}

// othersMedian is the median without the value at c. With itself among them, one
// of three would be its own median, and have no noise at all.
func othersMedian(values []float64, c int) float64 {
	m, _, _ := Medians(slices.Concat(values[:c], values[c+1:]))
	return m
}

// byRun are the logs of time per transaction of each cell and run, and the
// number of runs, in the order of the first cell; runs in which a cell lacks a
// figure are left out.
func byRun(cells []Sample) (logs [][]float64, runs int) {
	logs = make([][]float64, len(cells))
	if len(cells) == 0 {
		return logs, 0
	}
	var order []int
	sums := make([]map[int]sum, len(cells))
	for c, sample := range cells {
		sums[c] = map[int]sum{}
		for _, g := range sample {
			s, seen := sums[c][g.Run]
			if c == 0 && !seen {
				order = append(order, g.Run)
			}
			for _, x := range g.Slices {
				if x.measured() {
					s.add(sum(x))
				}
			}
			sums[c][g.Run] = s
		}
	}
	slices.Sort(order)
	for _, run := range order {
		whole := true
		for c := range cells {
			s := sums[c][run]
			whole = whole && s.Time > 0 && s.Count > 0
		}
		if !whole {
			if runs == 0 { // the first is the one that is asked about
				return logs, 0
			}
			continue
		}
		for c := range cells {
			logs[c] = append(logs[c], sums[c][run].log())
		}
		runs++
	}
	return logs, runs
}

// eachRound calls f for every round that was measured in all cells, with the
// logs of their times per transaction and their predecessors (-1: not known).
func eachRound(cells []Sample, f func(at Replicate, logs []float64, after []int)) {
	if len(cells) == 0 {
		return
	}
	generations := make([]map[Replicate]Generation, len(cells))
	for c, sample := range cells {
		generations[c] = map[Replicate]Generation{}
		for _, g := range sample {
			if _, ok := generations[c][Replicate{g.Run, g.Generation}]; !ok {
				generations[c][Replicate{g.Run, g.Generation}] = g
			}
		}
	}
	logs, after := make([]float64, len(cells)), make([]int, len(cells))
	taken := map[Replicate]bool{}
	for _, first := range cells[0] {
		at := Replicate{first.Run, first.Generation}
		if taken[at] {
			continue
		}
		taken[at] = true
		rounds := math.MaxInt
		for c := range cells {
			rounds = min(rounds, len(generations[c][at].Slices))
		}
		for r := range rounds {
			whole := true
			for c := range cells {
				g := generations[c][at]
				whole = whole && g.Slices[r].measured()
				logs[c] = sum(g.Slices[r]).log()
				after[c] = -1
				if r < len(g.After) {
					after[c] = g.After[r]
				}
			}
			if whole {
				f(at, logs, after)
			}
		}
	}
}
