package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"pgtare/results"
	"pgtare/results/stats"
)

// data is what was measured, by cell.
type data struct {
	panels map[string]*results.Panel
	cells  map[string]*measured
}

// measured is what one cell did.
type measured struct {
	generations []*results.Generation // in order, without the lost ones
	lost        []*results.Generation
	histogram   *hdrhistogram.Histogram
	latencies   []stats.Latencies // of the generations, same order
}

// collect groups the generations by cell and adds up their histograms. A lost
// generation is kept apart: how its last slice ended isn't known.
func collect(rec *results.Record) (*data, error) {
	d := &data{panels: map[string]*results.Panel{}, cells: map[string]*measured{}}
	for i := range rec.Header.Panels {
		p := &rec.Header.Panels[i]
		d.panels[p.ID] = p
	}
	for i := range rec.Header.Cells {
		d.cells[rec.Header.Cells[i].ID] = &measured{}
	}
	scratch := results.NewHistogram() // 264 KiB, so one for all
	for i := range rec.Generations {
		g := &rec.Generations[i]
		m := d.cells[g.Cell]
		if g.Lost != "" {
			m.lost = append(m.lost, g)
			continue
		}
		m.generations = append(m.generations, g)
		if m.histogram == nil {
			m.histogram = results.NewHistogram()
		}
		scratch.Reset()
		if err := results.AddHistogram(scratch, g.Histogram); err != nil {
			return nil, fmt.Errorf("cell %q, run %d, generation %d: %w", g.Cell, g.Run, g.Generation, err)
		}
		l := stats.Latencies{Run: g.Run, Generation: g.Generation, Bars: bars(scratch)}
		for _, b := range l.Bars {
			if err := m.histogram.RecordValues(int64(b.From), int64(b.Count)); err != nil {
				panic("report: a bar of a histogram is outside its range: " + err.Error())
			}
		}
		m.latencies = append(m.latencies, l)
	}
	for _, m := range d.cells {
		slices.SortStableFunc(m.generations, func(a, b *results.Generation) int {
			return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Generation, b.Generation))
		})
		slices.SortStableFunc(m.latencies, func(a, b stats.Latencies) int {
			return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Generation, b.Generation))
		})
	}
	return d, nil
}

// bars are the bars of a histogram of [results.NewHistogram] that aren't empty:
// 2048 of 1 ns, then 1024 for each doubling.
//
// Note: hdrhistogram.Distribution says the same, and took two thirds of the
// time of a whole report. A test holds the two against each other.
func bars(h *hdrhistogram.Histogram) []stats.Bar {
	if h.TotalCount() == 0 {
		return nil
	}
	var out []stats.Bar
	for index, count := range h.Export().Counts {
		if count == 0 {
			continue
		}
		from, width := int64(index), int64(1)
		if doubling := index/1024 - 1; doubling > 0 {
			from, width = int64(index%1024+1024)<<doubling, 1<<doubling
		}
		out = append(out, stats.Bar{From: float64(from), To: float64(from + width), Count: float64(count)})
	}
	return out
}

// percentiles weighs the quantiles of a cell's latencies.
func (d *data) percentiles(cell, against, twin string, o stats.Options) []Percentile {
	quantiles := []float64{50, 95, 99}
	if o.Block { // under slices a stall that ends a slice is cut short
		quantiles = append(quantiles, 99.9)
	}
	out := []Percentile{}
	var twins []stats.Latencies
	if twin != "" {
		twins = d.cells[twin].latencies
	}
	for _, p := range stats.Percentiles(d.cells[cell].latencies, d.cells[against].latencies, twins, quantiles, o) {
		if e := interval(&p.Estimate); e != nil {
			out = append(out, Percentile{Q: p.Q, Interval: *e})
		}
	}
	return out
}

// elapsed is a cell's sample of time per transaction.
func (d *data) elapsed(cell string) stats.Sample {
	return d.sample(cell, func(s *results.Slices, i int) stats.Slice {
		return stats.Slice{Time: float64(s.T[i]), Count: float64(s.N[i])}
	})
}

// cpu is a cell's sample of the backends' CPU time per transaction; that of
// the whole slice, so all its transactions count.
func (d *data) cpu(cell string) stats.Sample {
	return d.sample(cell, func(s *results.Slices, i int) stats.Slice {
		return stats.Slice{Time: float64(s.ServerCPU[i]), Count: float64(s.All[i])}
	})
}

// sample puts each slice at its round's place.
func (d *data) sample(cell string, take func(*results.Slices, int) stats.Slice) stats.Sample {
	var sample stats.Sample
	for _, g := range d.cells[cell].generations {
		out := stats.Generation{Run: g.Run, Generation: g.Generation}
		for i, round := range g.Slices.Round {
			for int64(len(out.Slices)) < round {
				out.Slices = append(out.Slices, stats.Slice{Time: -1, Count: -1})
			}
			out.Slices = append(out.Slices, take(&g.Slices, i))
		}
		sample = append(sample, out)
	}
	return sample
}

// cell computes the figures of one cell.
func (d *data) cell(h *results.Header, plan *results.Cell) Cell {
	m, p := d.cells[plan.ID], d.panels[plan.Panel]
	out := Cell{
		ID: plan.ID, Panel: plan.Panel, Axes: nonNilMap(plan.Axes), Settings: nonNilMap(plan.Settings),
		Isolation: plan.Isolation, Schedule: cmp.Or(plan.Schedule, p.Schedule), Baseline: plan.Baseline, Control: plan.ControlOf != "",
		Status: plan.Status, Unit: h.Unit, Runs: []*float64{}, Failures: map[string]int64{},
		plan: plan, lost: len(m.lost), notExercised: plan.NotExercised,
	}
	if reason := cmp.Or(plan.Reason, plan.NotExercised); reason != "" {
		out.Reason = &reason
	}

	var n, t, all total
	perRun := map[int]*[2]total{}
	var head, begin, commit mean
	var serverCPU, clientCPU ratio
	var latency mean
	complete := true // every run has all its generations
	inRun := map[int]int{}
	failed := ""
	for _, g := range m.generations {
		s := &g.Slices
		run := perRun[g.Run]
		if run == nil {
			run = new([2]total)
			perRun[g.Run] = run
		}
		inRun[g.Run]++
		var gn int64
		for i := range s.N {
			gn += s.N[i]
			run[0].add(s.N[i])
			run[1].add(s.T[i])
			all.add(s.All[i])
			head.add(s.HeadNs[i])
			begin.add(s.BeginNs[i])
			commit.add(s.CommitNs[i])
			serverCPU.add(s.ServerCPU[i], s.All[i])
			clientCPU.add(s.ClientCPU[i], s.All[i])
		}
		if gn == 0 && failed == "" {
			failed = fmt.Sprintf("run %d, generation %d: no transaction succeeded%s", g.Run, g.Generation, codes(g.Failures))
		}
		latency.sum += g.MeanNs * float64(gn)
		latency.n += float64(gn)
		for code, count := range g.Failures {
			sum := total(out.Failures[code])
			sum.add(count)
			out.Failures[code] = int64(sum)
		}
	}
	for run := 1; len(perRun) > 0 && run <= slices.Max(slices.Collect(maps.Keys(perRun))); run++ {
		sums := perRun[run]
		if sums == nil { // all its generations were lost
			sums = new([2]total)
		}
		n.add(int64(sums[0]))
		t.add(int64(sums[1]))
		out.Runs = append(out.Runs, figure(h, p, float64(sums[0]), float64(sums[1])))
		complete = complete && inRun[run] >= p.Generations
	}
	out.Transactions, out.all = int64(n), int64(all)
	if n > 0 && t > 0 {
		out.TPS = finite(float64(p.Clients) * float64(n) / float64(t) * 1e9)
	}
	if values := measuredRuns(out.Runs); len(values) > 0 {
		median, low, high := stats.Medians(values)
		out.Median, out.Min, out.Max = finite(median), finite(low), finite(high)
	}
	out.HeadNs, out.BeginNs, out.CommitNs = head.value(), begin.value(), commit.value()
	out.ServerCPUNs, out.ClientCPUNs = serverCPU.value(), clientCPU.value()
	out.ClientSharePct, out.Background, out.FileIO = clientShare(m.generations), background(m.generations), fileIO(m.generations)
	out.LatencyUs = latencies(m.histogram, latency.value(), out.Schedule == "block")

	switch {
	case plan.Status == "n/a":
	case failed != "":
		out.Status, out.Reason = "failed", &failed
	case len(m.generations) == 0 && len(m.lost) > 0:
		out.Status, out.Reason = "failed", ptr("no generation came to its end: "+m.lost[0].Lost)
	case len(perRun) < h.Runs || !complete:
		out.Status = "partial"
		if out.Reason == nil {
			out.Reason = ptr(fmt.Sprintf("%d of %d runs were measured%s", len(perRun), h.Runs, map[bool]string{false: ", not all with all their generations"}[complete]))
		}
	}
	return out
}

// figure is one run's: n transactions took t ns, summed over the clients.
//
// t / n is the time that one client spends per transaction. So c clients
// together complete c * n/t per ns; and one client's h.Transactions take
// h.Transactions * t/n, which is how long all clients take for theirs, since
// they run side by side.
func figure(h *results.Header, p *results.Panel, n, t float64) *float64 {
	switch {
	case n == 0 || t == 0:
		return nil
	case h.Unit == "s":
		return finite(float64(h.Transactions) * t / n / 1e9)
	}
	return finite(float64(p.Clients) * n / t * 1e9)
}

// measuredRuns drops the runs without a figure.
func measuredRuns(runs []*float64) []float64 {
	var values []float64
	for _, v := range runs {
		if v != nil {
			values = append(values, *v)
		}
	}
	return values
}

// latencies reads a merged histogram. The mean is that of the generations' own
// histograms, whose buckets are 0.1 % wide.
func latencies(h *hdrhistogram.Histogram, meanNs *float64, whole bool) *Latency {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	us := func(q float64) *float64 { return finite(float64(h.ValueAtQuantile(q)) / 1e3) }
	l := &Latency{Stddev: finite(h.StdDev() / 1e3), P50: us(50), P95: us(95), P99: us(99)}
	if meanNs != nil {
		l.Mean = finite(*meanNs / 1e3)
	}
	if whole {
		l.P999, l.Max = us(99.9), finite(float64(h.Max())/1e3)
	}
	return l
}

// codes lists SQLSTATEs for a sentence, the most frequent first.
func codes(failures map[string]int64) string {
	if len(failures) == 0 {
		return ""
	}
	keys := slices.SortedFunc(maps.Keys(failures), func(a, b string) int {
		return cmp.Or(cmp.Compare(failures[b], failures[a]), cmp.Compare(a, b))
	})
	s := " ("
	for i, k := range keys {
		if i == 3 {
			s += ", ..."
			break
		}
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%d x SQLSTATE %s", failures[k], k)
	}
	return s + ")"
}

// total is a sum that stays at its end instead of turning over.
type total int64

func (t *total) add(v int64) {
	if *t += total(v); *t < 0 {
		*t = 1<<63 - 1
	}
}

// mean of values; those below 0 weren't measured.
type mean struct{ sum, n float64 }

func (m *mean) add(v int64) {
	if v >= 0 {
		m.sum += float64(v)
		m.n++
	}
}

func (m *mean) value() *float64 {
	if m.n == 0 {
		return nil
	}
	return finite(m.sum / m.n)
}

// ratio of sums; a pair whose first is below 0 wasn't measured.
type ratio struct{ sum, per float64 }

func (r *ratio) add(v, per int64) {
	if v >= 0 {
		r.sum += float64(v)
		r.per += float64(per)
	}
}

func (r *ratio) value() *float64 {
	if r.per == 0 {
		return nil
	}
	return finite(r.sum / r.per)
}
