package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

const (
	minRounds = 10 // per generation, on average
	// minTransactions is what a slice must hold on average before its ns per
	// transaction may be trimmed. Slices are planned for 30 transactions of the
	// baseline's median; a mean above the median and a slower cell bring fewer
	// home, and one panel should not have typical in some of its cells only.
	// A fifth of slack costs nothing that can be seen: TestFewTransactionsPerSlice.
	minTransactions = 0.8 * 30
)

// weighing is the paired data of one comparison.
type weighing struct {
	unit       Unit
	replicates []replicate
	baseline   sum  // base alone, over all replicates
	trims      bool // typical exists
}

// replicate is what one generation, or one run, says.
type replicate struct {
	at        Replicate
	y         float64 // typical log ratio; of a run: mean over its generations
	cell      sum
	reference sum // base and twin
	baseline  sum
}

// pair matches the generations of the samples and makes replicates of them, in
// the order of cell.
func pair(cell, base, twin Sample, o Options) weighing {
	w := weighing{unit: ByGeneration}
	if o.Block || o.Unit == ByRun {
		w.unit = ByRun
	}
	bases, twins := index(base), index(twin)
	taken := map[Replicate]bool{}
	runs := map[int]int{} // run -> index into w.replicates
	var generations []int // in each replicate
	var f fitness
	for _, g := range cell {
		k := Replicate{g.Run, g.Generation}
		b, inBase := bases[k]
		t, inTwin := twins[k]
		if taken[k] || !inBase || (len(twin) > 0 && !inTwin) {
			continue
		}
		taken[k] = true
		sides := [][]Slice{g.Slices, b}
		if len(twin) > 0 {
			sides = append(sides, t)
		}
		var r replicate
		var ok bool
		if o.Block {
			r, ok = whole(sides)
		} else {
			r, ok = inRounds(sides, &f)
		}
		if !ok {
			continue
		}
		w.baseline.add(r.baseline)
		r.at = k
		if w.unit == ByRun {
			r.at.Generation = 0
			if i, ok := runs[k.Run]; ok {
				w.replicates[i].y += r.y
				w.replicates[i].cell.add(r.cell)
				w.replicates[i].reference.add(r.reference)
				generations[i]++
				continue
			}
			runs[k.Run] = len(w.replicates)
		}
		w.replicates = append(w.replicates, r)
		generations = append(generations, 1)
	}
	for i, n := range generations {
		w.replicates[i].y /= float64(n)
	}
	w.trims = !o.Block && f.trims()
	return w
}

// whole sums up the sides (cell, base and perhaps twin) of one generation of
// the block schedule; ok is false where one of them has nothing.
func whole(sides [][]Slice) (r replicate, ok bool) {
	for i, side := range sides {
		var s sum
		for _, x := range side {
			if x.measured() {
				s.add(sum(x))
			}
		}
		if s == (sum{}) {
			return r, false
		}
		r.put(i, s)
	}
	return r, true
}

// inRounds pairs the sides of one generation by round; ok is false where no
// round was measured on all sides.
func inRounds(sides [][]Slice, f *fitness) (r replicate, ok bool) {
	n := len(sides[0])
	for _, side := range sides[1:] {
		n = min(n, len(side))
	}
	ratios := make([][]float64, len(sides)-1) // of the cell to base, to twin
	for i := range ratios {
		ratios[i] = make([]float64, 0, n)
	}
	for round := range n {
		if slices.ContainsFunc(sides, func(side []Slice) bool { return !side[round].measured() }) {
			continue
		}
		f.rounds++
		x := sum(sides[0][round]).log()
		for i, side := range sides {
			s := sum(side[round])
			r.put(i, s)
			f.transactions[i] += s.Count
			if s.Time == 0 || s.Count == 0 {
				f.blanks[i]++
			}
			if i > 0 {
				ratios[i-1] = append(ratios[i-1], x-s.log())
			}
		}
	}
	if len(ratios[0]) == 0 {
		return r, false
	}
	f.generations++
	f.sides = len(sides)
	// A trimmed mean per reference, then their mean. Note: trimming once, the
	// ratio to the mean of both logs, is biased by -0.5 to -0.8 %.
	for _, v := range ratios {
		r.y += trimmedMean(v) / float64(len(ratios))
	}
	return r, true
}

// put adds what was summed up on side i: 0 the cell, 1 base, 2 twin.
func (r *replicate) put(i int, s sum) {
	switch i {
	case 0:
		r.cell.add(s)
	case 1:
		r.baseline.add(s)
		r.reference.add(s)
	default:
		r.reference.add(s)
	}
}

// fitness counts what decides whether trimming is possible.
type fitness struct {
	generations, rounds, sides int
	transactions               [3]float64 // per side
	blanks                     [3]int     // slices without a time or without a transaction
}

func (f fitness) trims() bool {
	if f.generations == 0 || f.rounds < minRounds*f.generations {
		return false
	}
	for i := range f.sides {
		if f.transactions[i] < minTransactions*float64(f.rounds) || 5*f.blanks[i] > f.rounds {
			return false
		}
	}
	return true
}

// total is the log ratio of the sums, and the same without each of the
// replicates in turn (nil where one of these can't be formed). ok is false
// where the ratio itself can't: nothing completed, or no time passed.
func (w weighing) total() (all float64, without []float64, ok bool) {
	n := len(w.replicates)
	// Sums of what stands before and behind each replicate. Subtracting it from
	// the whole would leave only rounding where it holds nearly everything.
	type sides struct{ cell, reference sum }
	put := func(s *sides, r replicate) {
		s.cell.add(r.cell)
		s.reference.add(r.reference)
	}
	ratio := func(s sides) (float64, bool) {
		if s.cell.Time == 0 || s.cell.Count == 0 || s.reference.Time == 0 || s.reference.Count == 0 {
			return 0, false
		}
		return s.cell.log() - s.reference.log(), true
	}
	before := make([]sides, n+1)
	for i, r := range w.replicates {
		before[i+1] = before[i]
		put(&before[i+1], r)
	}
	if all, ok = ratio(before[n]); !ok {
		return 0, nil, false
	}
	without = make([]float64, n)
	var behind sides
	for i, r := range slices.Backward(w.replicates) {
		rest := before[i]
		rest.cell.add(behind.cell)
		rest.reference.add(behind.reference)
		var formed bool
		if without[i], formed = ratio(rest); !formed {
			return all, nil, true
		}
		put(&behind, r)
	}
	return all, without, true
}

// sum is a sum over slices.
type sum Slice

func (s *sum) add(t sum) { s.Time += t.Time; s.Count += t.Count }

// log is the log of the time per transaction. No transaction, or no time,
// counts one half (see Compare).
func (s sum) log() float64 { return math.Log(max(s.Time, 0.5) / max(s.Count, 0.5)) }

// measured tells an observation from its absence. Times are whole ns and counts
// whole transactions that fit an int64, so anything else is none.
func (s Slice) measured() bool {
	fits := func(v float64) bool { return v == 0 || (v >= 1 && v < 1<<63) }
	return fits(s.Time) && fits(s.Count) && (s.Time > 0 || s.Count > 0)
}

func index(s Sample) map[Replicate][]Slice {
	m := make(map[Replicate][]Slice, len(s))
	for _, g := range s {
		k := Replicate{g.Run, g.Generation}
		if _, ok := m[k]; !ok {
			m[k] = g.Slices
		}
	}
	return m
}

// trimmedMean is the mean without the largest and the smallest fifth; it sorts
// v.
func trimmedMean(v []float64) float64 {
	slices.Sort(v)
	k := len(v) / 5
	return stat.Mean(v[k:len(v)-k], nil)
}
