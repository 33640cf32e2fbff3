package stats

import (
	"cmp"
	"math"
	"slices"
)

// Latencies is the histogram of one cell's transactions in one generation.
type Latencies struct {
	Run        int // from 1
	Generation int // within the run, from 1
	Bars       []Bar
}

// Bar is a bar of a histogram: Count transactions took From (ns) to below To.
// Bars of all histograms that are compared have the same borders.
type Bar struct {
	From, To float64
	Count    float64
}

// Percentile is a quantile of the latencies against that of the reference.
type Percentile struct {
	Q        float64 // in per cent, 99 for p99
	Estimate         // of the ratio of the quantiles, in per cent, plus is slower
}

const (
	jackknifeGroups = 15
	minGroups       = 3
	// minBeyond is how many transactions must lie beyond a quantile: below that
	// it is made by a handful of transactions, and a jackknife that mostly
	// leaves none of them out can't see its error.
	minBeyond = 100
)

// Percentiles weighs quantiles of the latencies of a cell against those of its
// reference, base and (where it isn't empty) its twin: the log ratio
// of the quantiles of the merged histograms. Quantiles are in per cent; those
// for which there is too little are left out. Generations that one side lacks
// are left out as in [Compare].
//
// The error is that of a jackknife over 15 groups of replicates, or as many as
// there are replicates, at least 3. One over single replicates would do no
// better and be slow, since a quantile jumps from bar to bar. A group is a
// stretch of consecutive replicates: should neighbours resemble each other, the
// error shows it, where groups that each took every 15th would hide it.
//
// A quantile lies between the ends of its bar as if the bar were even, or leaving
// a group out would often move nothing. It must have 100 transactions beyond it on
// either side, whichever group is left out.
func Percentiles(cell, base, twin []Latencies, quantiles []float64, o Options) []Percentile {
	// Replicates that all sides have, in the order of cell; a run is one.
	replicate := func(generation Replicate) Replicate {
		if o.Block || o.Unit == ByRun {
			generation.Generation = 0
		}
		return generation
	}
	has := func(side []Latencies) map[Replicate]int {
		m := map[Replicate]int{} // of each generation its first
		for i, l := range side {
			if _, ok := m[Replicate{l.Run, l.Generation}]; !ok {
				m[Replicate{l.Run, l.Generation}] = i
			}
		}
		return m
	}
	cells, bases, twins := has(cell), has(base), has(twin)
	var kept []Replicate // generations
	place := map[Replicate]int{}
	taken := func(r Replicate) bool { _, ok := place[r]; return ok }
	for i, l := range cell {
		k := Replicate{l.Run, l.Generation}
		_, inBase := bases[k]
		_, inTwin := twins[k]
		if cells[k] != i || !inBase || (len(twin) > 0 && !inTwin) {
			continue
		}
		kept = append(kept, k)
		if r := replicate(k); !taken(r) {
			place[r] = len(place)
		}
	}
	n := len(place)
	groups := min(jackknifeGroups, n)
	if groups < minGroups {
		return nil
	}
	x, reference := newMerged(groups), newMerged(groups)
	for _, k := range kept {
		group := place[replicate(k)] * groups / n
		x.add(group, cell[cells[k]].Bars)
		reference.add(group, base[bases[k]].Bars)
		if len(twin) > 0 {
			reference.add(group, twin[twins[k]].Bars)
		}
	}
	x.sort()
	reference.sort()
	sizes := make([]float64, groups)
	for i := range n {
		sizes[i*groups/n]++
	}

	var out []Percentile
	for _, q := range quantiles {
		if e := quantileRatio(x, reference, q/100, sizes); e != nil {
			out = append(out, Percentile{Q: q, Estimate: *e})
		}
	}
	return out
}

// quantileRatio is the log ratio of the q quantiles and its jackknife; nil where
// too little lies beyond.
func quantileRatio(x, reference *merged, q float64, sizes []float64) *Estimate {
	if !(q > 0 && q < 1) {
		return nil
	}
	ratio := func(without int) (float64, bool) {
		a, okA := x.quantile(q, without)
		b, okB := reference.quantile(q, without)
		return math.Log(a) - math.Log(b), okA && okB
	}
	all, ok := ratio(-1)
	if !ok {
		return nil
	}
	// Groups of unequal size, since 20 replicates don't make 15 equal ones: h is
	// how many groups of this size there would be, and the pseudo-values are
	// weighed by it (Busing, Meijer, van der Leeden). With equal sizes that is
	// Tukey's jackknife.
	n := 0.0
	for _, size := range sizes {
		n += size
	}
	pseudo := make([]float64, len(sizes))
	for j, size := range sizes {
		without, ok := ratio(j)
		if !ok {
			return nil
		}
		h := n / size
		pseudo[j] = h*all - (h-1)*without
	}
	mean := 0.0
	for j, size := range sizes {
		mean += pseudo[j] * size / n
	}
	variance := 0.0
	for j, size := range sizes {
		variance += (pseudo[j] - mean) * (pseudo[j] - mean) / (n/size - 1)
	}
	variance /= float64(len(sizes))
	return estimate(all, math.Sqrt(variance), float64(len(sizes)-1))
}

// merged is a histogram by groups.
type merged struct {
	groups int
	at     map[float64]int // From -> index into bars
	bars   []mergedBar
	totals []float64 // per group
}

type mergedBar struct {
	from, to float64
	counts   []float64 // per group, then their sum
}

func newMerged(groups int) *merged {
	return &merged{groups: groups, at: map[float64]int{}, totals: make([]float64, groups+1)}
}

func (m *merged) add(group int, bars []Bar) {
	for _, b := range bars {
		// Latencies are whole ns and counts whole transactions that fit an int64.
		if !(b.Count >= 1 && b.Count < 1<<63 && b.From >= 0 && b.To > b.From && b.To <= 1<<63) {
			continue
		}
		i, ok := m.at[b.From]
		if !ok {
			i = len(m.bars)
			m.at[b.From] = i
			m.bars = append(m.bars, mergedBar{from: b.From, to: b.To, counts: make([]float64, m.groups+1)})
		}
		m.bars[i].counts[group] += b.Count
		m.bars[i].counts[m.groups] += b.Count
		m.totals[group] += b.Count
		m.totals[m.groups] += b.Count
	}
}

// sort puts the bars in order; nothing may be added after it.
func (m *merged) sort() {
	slices.SortFunc(m.bars, func(a, b mergedBar) int { return cmp.Compare(a.from, b.from) })
}

// quantile of all groups but one (-1: of all); ok is false where fewer than 100
// transactions lie beyond it.
func (m *merged) quantile(q float64, without int) (value float64, ok bool) {
	left := func(counts []float64) float64 {
		if without < 0 {
			return counts[m.groups]
		}
		return max(0, counts[m.groups]-counts[without])
	}
	total := left(m.totals)
	// A quarter of a transaction for what 1 - q loses in rounding.
	if total*(1-q) < minBeyond-0.25 {
		return 0, false
	}
	rank, below := q*total, 0.0
	for _, b := range m.bars {
		count := left(b.counts)
		if below+count >= rank && count > 0 {
			return max(0.5, b.from+(b.to-b.from)*(rank-below)/count), true
		}
		below += count
	}
	return 0, false
}
