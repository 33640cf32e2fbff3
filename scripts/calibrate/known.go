package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"pgtare/results"
	"pgtare/results/report"
)

// counted is what slowclock.c counted for one size.
type counted struct {
	ns, reads, interrupted, added, sends, lost, rest, whole, intervals uint64
}

// perTransaction is the time in clock reads, in ns.
func (c counted) perTransaction() float64 {
	if c.reads == 0 || c.sends == 0 {
		return math.NaN()
	}
	return float64(c.added) / float64(c.reads) * float64(c.reads+c.interrupted) / float64(c.sends)
}

// restPerTransaction is the server's time between clock reads and up to the
// answer, in ns.
func (c counted) restPerTransaction() float64 { return float64(c.rest) / float64(c.sends) }

// lostPerTransaction is the time for which the CPU was lost in clock reads, in ns.
func (c counted) lostPerTransaction() float64 { return float64(c.lost) / float64(c.sends) }

// wholePerTransaction is the time from one answer to the next, in ns.
func (c counted) wholePerTransaction() float64 { return float64(c.whole) / float64(c.intervals) }

// interruptions is by how much the time that is spent in reads exceeds what was
// asked, because the CPU was taken away meanwhile: 0.02 is 2 %. A transaction
// that takes longer loses as much more. Over all sizes, since for one of them
// chance is larger than the cost.
func interruptions(counts map[uint64]counted) float64 {
	var lost, added float64
	for _, c := range counts {
		lost, added = lost+float64(c.lost), added+float64(c.added)
	}
	if added == 0 {
		return 0
	}
	return lost / added
}

// readCounts reads a copy of slowclock.counts: 32 structs of sixteen words in the
// machine's byte order. The key is the size asked for; of two of one size the
// later slot counts: the first 0 is the baseline's, which also counts what is
// unbroken and not in any slice.
func readCounts(path string) (map[uint64]counted, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	const words = 16
	out := map[uint64]counted{}
	for len(data) >= 8*words {
		var w [words]uint64
		for i := range w {
			w[i] = binary.NativeEndian.Uint64(data[8*i:])
		}
		data = data[8*words:]
		if c := (counted{w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8]}); c.sends > 0 && c.intervals > 0 {
			out[c.ns] = c
		}
	}
	if _, ok := out[0]; !ok {
		return nil, fmt.Errorf("%s: nothing was counted for size 0; was the server started with slowclock.so?", path)
	}
	return out, nil
}

// outcome is one known cost as one matrix saw it. Figures are in per cent of
// the baseline's time per transaction.
type outcome struct {
	size   string // what was asked for
	order  float64
	effect float64 // truth, of the mean time
	estimate, ns,
	typical, total, cpu *verdictOn
	// whole is estimate against all that the server's clock saw of the cost, nil
	// where that isn't counted; parts are what it consists of.
	whole *verdictOn
	parts *costParts
	found bool
}

// costParts are differences from size 0, in ns per transaction: what was added
// by reads, what was lost in them with the CPU, by how much longer the server's
// other work took, and the whole time from one answer to the next. estimate is
// what pgtare prints.
type costParts struct{ added, lost, rest, whole, estimate float64 }

// verdictOn is an interval beside the truth.
type verdictOn struct {
	truth, estimate, half float64
	holds                 bool
}

// against compares an interval with a truth that is known to within
// +- uncertain.
func against(truth, uncertain, estimate, lo, hi float64) *verdictOn {
	below, above := estimate-lo, hi-estimate
	d := estimate - truth
	return &verdictOn{truth, estimate, (hi - lo) / 2, d <= math.Hypot(below, uncertain) && -d <= math.Hypot(above, uncertain)}
}

// typicalTruth is what typical estimates when every transaction takes so many
// ns more, from the baseline's slices:  the trimmed mean of ln(1 + ns/x), x a
// slice's time per transaction, averaged over generations, in per cent. Like
// typical itself it trims a fifth at either end of each generation.
func typicalTruth(ns float64, generations [][]float64) float64 {
	var logs []float64
	for _, slices := range generations {
		var l []float64
		for _, x := range slices {
			l = append(l, math.Log1p(ns/x))
		}
		logs = append(logs, trimmedMean(l))
	}
	return 100 * math.Expm1(mean(logs))
}

// typicalShare is typical of a share of a cost whose own typical is pct: not
// quite the share of pct, since logs of ordinary slices that differ are
// averaged. The cost in ns is found by halving an interval.
func typicalShare(share, pct float64, generations [][]float64) float64 {
	lo, hi := 0.0, 1.0
	for typicalTruth(hi, generations) < pct {
		if hi *= 2; hi > 1e15 {
			return math.NaN() // no slices
		}
	}
	for range 60 {
		if middle := (lo + hi) / 2; typicalTruth(middle, generations) < pct {
			lo = middle
		} else {
			hi = middle
		}
	}
	return typicalTruth(share*hi, generations)
}

// perSlice lists the times per transaction of a cell's slices, by generation:
// elapsed, and CPU of the backends.
func perSlice(rec *results.Record, cell string) (elapsed, cpu [][]float64) {
	for _, g := range rec.Generations {
		if g.Cell != cell || g.Lost != "" {
			continue
		}
		var e, c []float64
		for i := range g.Slices.N {
			if n := g.Slices.N[i]; n > 0 && g.Slices.T[i] > 0 {
				e = append(e, float64(g.Slices.T[i])/float64(n))
			}
			if n := g.Slices.All[i]; n > 0 && g.Slices.ServerCPU[i] > 0 {
				c = append(c, float64(g.Slices.ServerCPU[i])/float64(n))
			}
		}
		if len(e) > 0 {
			elapsed = append(elapsed, e)
		}
		if len(c) > 0 {
			cpu = append(cpu, c)
		}
	}
	return elapsed, cpu
}

// clockOutcomes compares a matrix of slower clocks with what was counted.
func clockOutcomes(rec *results.Record, counts map[uint64]counted) ([]outcome, error) {
	r, err := report.Build(rec)
	if err != nil {
		return nil, err
	}
	var out []outcome
	for _, c := range r.Comparisons {
		cell, base := cellOf(r, c.Cell), cellOf(r, c.Against)
		size, ok := slowSize(cell.Settings["session_preload_libraries"])
		if !ok || c.Axis != "setting" || size == 0 {
			continue
		}
		k, ok := counts[size]
		if !ok {
			return nil, fmt.Errorf("record %s: nothing was counted for %d ns", r.Environment.Record, size)
		}
		truth := k.perTransaction() - counts[0].perTransaction()
		if math.IsNaN(truth) || base.TPS == nil {
			return nil, fmt.Errorf("record %s: %d ns: no truth, since nothing was counted or measured", r.Environment.Record, size)
		}
		elapsed, cpu := perSlice(rec, c.Against)
		pct := 100 * truth * (1 + interruptions(counts)) / (1e9 * float64(r.Panels[0].Clients) / *base.TPS)
		o := outcome{size: fmt.Sprintf("%d ns a read", size), order: float64(size), effect: pct, found: c.Verdict == "slower"}
		o.fill(c, 0, pct, typicalTruth(truth, elapsed), typicalTruth(truth, cpu))
		if c.Ns != nil && c.NsLo != nil && c.NsHi != nil {
			o.ns = against(truth*(1+interruptions(counts)), 0, *c.Ns, *c.NsLo, *c.NsHi)
		}
		// The same again with all that the server's own clock saw of it.
		o.parts = &costParts{truth, k.lostPerTransaction() - counts[0].lostPerTransaction(), k.restPerTransaction() - counts[0].restPerTransaction(),
			k.wholePerTransaction() - counts[0].wholePerTransaction(), math.NaN()}
		if c.Ns != nil {
			o.parts.estimate = *c.Ns
		}
		all := o
		all.fill(c, 0, 100*o.parts.whole/(1e9*float64(r.Panels[0].Clients) / *base.TPS), typicalTruth(o.parts.whole, elapsed), typicalTruth(o.parts.whole, cpu))
		o.whole = all.estimate
		out = append(out, o)
	}
	return out, nil
}

// fill compares the estimates with their truths; what decides is typical
// unless it is marked or lacking.
func (o *outcome) fill(c report.Comparison, uncertain, total, typical, cpu float64) {
	if c.Typical != nil {
		o.typical = against(typical, uncertain, c.Typical.Pct, c.Typical.Lo, c.Typical.Hi)
		o.estimate = o.typical
	}
	if c.Total != nil {
		o.total = against(total, uncertain, c.Total.Pct, c.Total.Lo, c.Total.Hi)
		if c.Bursts != nil || c.Typical == nil {
			o.estimate = o.total
		}
	}
	if c.CPU != nil && c.CPU.Lo != nil && c.CPU.Hi != nil {
		o.cpu = against(cpu, uncertain, c.CPU.Pct, *c.CPU.Lo, *c.CPU.Hi)
	}
}

// slowSize finds the ns in the file name of a switch, whose slot
// follows: .../slow500-1.so.
func slowSize(library string) (uint64, bool) {
	name, found := strings.CutPrefix(path.Base(library), "slow")
	name, isLibrary := strings.CutSuffix(name, ".so")
	name, _, _ = strings.Cut(name, "-")
	n, err := strconv.ParseUint(name, 10, 64)
	return n, found && isLibrary && err == nil
}

// workOutcomes compares smaller steps along the axis n with their share of the
// largest.
func workOutcomes(rec *results.Record) ([]outcome, error) {
	r, err := report.Build(rec)
	if err != nil {
		return nil, err
	}
	var values []float64
	for _, a := range r.Plan.Axes {
		for _, v := range a.Values {
			if n, err := strconv.ParseFloat(v, 64); a.Name == "n" && err == nil {
				values = append(values, n)
			}
		}
	}
	if len(values) < 3 {
		return nil, fmt.Errorf("record %s: expected an axis n of at least three numbers", r.Environment.Record)
	}
	first, largest := values[0], slices.Max(values)
	steps := map[float64]report.Comparison{}
	for _, c := range r.Comparisons {
		if n, err := strconv.ParseFloat(cellOf(r, c.Cell).Axes["n"], 64); err == nil && c.Axis == "n" {
			steps[n] = c
		}
	}
	whole, ok := steps[largest]
	if !ok {
		return nil, fmt.Errorf("record %s: the step to n=%g was not measured", r.Environment.Record, largest)
	}
	if whole.Total == nil {
		return nil, nil // too few replicates for any interval, so that nothing is known
	}
	share := func(n float64) float64 { return (n - first) / (largest - first) }
	elapsed, cpu := perSlice(rec, whole.Against)
	var out []outcome
	for _, n := range sortedKeys(steps) {
		if n == largest {
			continue
		}
		c, s := steps[n], share(n)
		o := outcome{size: fmt.Sprintf("%g rows", n-first), order: n - first, effect: s * whole.Total.Pct, found: c.Verdict == "slower"}
		if c.Total != nil {
			o.total = against(s*whole.Total.Pct, s*(whole.Total.Hi-whole.Total.Lo)/2, c.Total.Pct, c.Total.Lo, c.Total.Hi)
			o.estimate = o.total
		}
		if c.Typical != nil && whole.Typical != nil {
			o.typical = against(typicalShare(s, whole.Typical.Pct, elapsed), s*(whole.Typical.Hi-whole.Typical.Lo)/2, c.Typical.Pct, c.Typical.Lo, c.Typical.Hi)
			if c.Bursts == nil {
				o.estimate = o.typical
			}
		}
		if x, y := c.CPU, whole.CPU; x != nil && y != nil && x.Lo != nil && x.Hi != nil && y.Lo != nil && y.Hi != nil {
			o.cpu = against(typicalShare(s, y.Pct, cpu), s*(*y.Hi-*y.Lo)/2, x.Pct, *x.Lo, *x.Hi)
		}
		if x, y := c, whole; x.Ns != nil && x.NsLo != nil && x.NsHi != nil && y.Ns != nil && y.NsLo != nil && y.NsHi != nil {
			o.ns = against(s**y.Ns, s*(*y.NsHi-*y.NsLo)/2, *x.Ns, *x.NsLo, *x.NsHi)
		}
		out = append(out, o)
	}
	return out, nil
}

// coverage is a share of intervals that hold the truth.
type coverage struct{ estimate, typical, total, cpu, ns, whole figure }

func covers(matrices [][]outcome) coverage {
	share := func(pick func(outcome) *verdictOn) figure {
		var shares []float64
		for _, m := range matrices {
			held, n := 0.0, 0.0
			for _, o := range m {
				if v := pick(o); v != nil {
					n++
					if v.holds {
						held++
					}
				}
			}
			if n > 0 {
				shares = append(shares, 100*held/n)
			}
		}
		return over(shares)
	}
	return coverage{
		share(func(o outcome) *verdictOn { return o.estimate }), share(func(o outcome) *verdictOn { return o.typical }),
		share(func(o outcome) *verdictOn { return o.total }), share(func(o outcome) *verdictOn { return o.cpu }),
		share(func(o outcome) *verdictOn { return o.ns }), share(func(o outcome) *verdictOn { return o.whole }),
	}
}

// known prints half of part b: kind is k (clock) or w (work). It returns the
// outcomes by length, a list per matrix.
func (st *study) known(kind string) (map[float64][][]outcome, error) {
	matrices := map[float64][][]outcome{}
	var lost []float64
	paths, err := st.records(kind, func(rec *results.Record, path string) error {
		var counts map[uint64]counted
		if kind == "k" {
			var err error
			if counts, err = readCounts(strings.TrimSuffix(path, ".jsonl") + ".counts"); err != nil {
				return err
			}
			lost = append(lost, 100*interruptions(counts))
		}
		for _, seconds := range st.lengths(rec) {
			some := cut(rec, seconds)
			var list []outcome
			var err error
			if kind == "k" {
				list, err = clockOutcomes(some, counts)
			} else {
				list, err = workOutcomes(some)
			}
			if err != nil {
				return err
			}
			matrices[seconds] = append(matrices[seconds], list)
		}
		return nil
	})
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	if kind == "k" {
		st.printf("while it spun, the server lost the CPU for so much more, %%: median %s, largest %s\n", digits(median(lost), 1), digits(slices.Max(lost), 1))
	}
	st.printf("truth in %% of time per transaction; off by: estimate less truth, mean (s.e.); half: the half-width;\n" +
		"then how many intervals hold the truth, %% (s.e.): of the estimate that decides, of total, of CPU, and of the\n" +
		"ns as printed, and of the first against the whole that the server's clock saw; found: called slower after Holm, %%\n")
	for _, seconds := range sortedKeys(matrices) {
		st.knownTable(seconds, matrices[seconds])
	}
	return matrices, nil
}

func (st *study) knownTable(seconds float64, matrices [][]outcome) {
	st.printf("\n%g s per cell, %d matrices\n", seconds, len(matrices))
	st.printf("%-14s %6s  %-12s %6s  %-8s %-8s %-8s %-8s %-8s  %s\n", "", "truth", "off by", "half", "decides", "total", "CPU", "ns", "whole", "found")
	sizes := map[float64][]outcome{}
	for _, m := range matrices {
		for _, o := range m {
			sizes[o.order] = append(sizes[o.order], o)
		}
	}
	smallest := ""
	for _, size := range sortedKeys(sizes) {
		list := sizes[size]
		var truth, off, half, found []float64
		var each [][]outcome
		for _, o := range list {
			truth = append(truth, o.effect)
			if o.estimate != nil {
				off, half = append(off, o.estimate.estimate-o.estimate.truth), append(half, o.estimate.half)
			}
			found = append(found, map[bool]float64{true: 100}[o.found])
			each = append(each, []outcome{o})
		}
		c := covers(each)
		st.printf("%-14s %6s  %-12s %6s  %-8s %-8s %-8s %-8s %-8s  %s\n", list[0].size, digits(mean(truth), 2), signed(over(off)), digits(median(half), 2),
			c.estimate.short(), c.total.short(), c.cpu.short(), c.ns.short(), c.whole.short(), digits(mean(found), 0))
		if smallest == "" && mean(found) >= 80 {
			smallest = fmt.Sprintf("%s (%s %%)", list[0].size, digits(mean(truth), 2))
		}
	}
	if len(matrices) > 0 && len(matrices[0]) > 0 && matrices[0][0].parts != nil {
		defer st.parts(sizes)
	}
	c := covers(matrices)
	st.printf("%-43s %-8s %-8s %-8s %-8s %-8s\n", "all", c.estimate.short(), c.total.short(), c.cpu.short(), c.ns.short(), c.whole.short())
	if smallest == "" {
		smallest = "none of these"
	}
	st.printf("smallest found in at least 80 %%: %s\n", smallest)
}

// parts prints where the time went, in ns per transaction, means over matrices.
func (st *study) parts(sizes map[float64][]outcome) {
	st.printf("\n%-14s %8s %8s %8s %8s %8s   ns per transaction, as the server counted, and by pgtare\n", "", "added", "lost", "rest", "whole", "pgtare")
	for _, size := range sortedKeys(sizes) {
		st.printf("%-14s", sizes[size][0].size)
		for _, pick := range []func(*costParts) float64{
			func(p *costParts) float64 { return p.added }, func(p *costParts) float64 { return p.lost },
			func(p *costParts) float64 { return p.rest }, func(p *costParts) float64 { return p.whole },
			func(p *costParts) float64 { return p.estimate },
		} {
			var values []float64
			for _, o := range sizes[size] {
				values = append(values, pick(o.parts))
			}
			st.printf(" %8s", digits(mean(values), 0))
		}
		st.printf("\n")
	}
}

func cellOf(r *report.Report, id string) report.Cell {
	i := slices.IndexFunc(r.Cells, func(c report.Cell) bool { return c.ID == id })
	if i < 0 {
		panic("calibrate: a comparison names a cell that the report lacks")
	}
	return r.Cells[i]
}
