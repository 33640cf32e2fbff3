package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"pgtare/results"
)

// Limits of the doubts about the machine. What each rests on stands in the
// package's description, under Doubts.
const (
	boundThreadPct = 90  // of the job threads' time
	boundSharePct  = 50  // of the CPU time of clients and backends,
	boundTimePct   = 25  // where these are at work for so much of the time
	preemptedPct   = 10  // of the time
	stealPct       = 2   // of the CPUs
	otherLoadPct   = 10  // of the CPUs
	throttledPct   = 0.1 // of the time
	frequencyPct   = 10  // of the highest
	slowClockNs    = 100
	movesPerSecond = 100 // of the backends' CPU time
)

// vdsoClocks are the clock sources that Linux reads without a system call.
var vdsoClocks = []string{
	"tsc", "tsc-early", "kvm-clock", "hyperv_clocksource_tsc_page", // x86
	"arch_sys_counter", // arm64
	"timebase",         // POWER
	"tod",              // s390
	"riscv_clocksource",
}

// Background is what a cell's instance did beside its transactions, in all
// generations (blocks) in which it served no other cell. nil: not known.
type Background struct {
	CPUNs        *float64 `json:"cpu_ns"` // per transaction, as the next three
	WALBytes     *float64 `json:"wal_bytes"`
	PagesRead    *float64 `json:"pages_read"`
	PagesWritten *float64 `json:"pages_written"`
	Checkpoints  *int64   `json:"checkpoints"` // counts
	Vacuums      *int64   `json:"vacuums"`
}

// FileIO is what the backends read from and wrote to files, in bytes per
// transaction: see results.FileIO.
type FileIO struct {
	ReadBytes    float64 `json:"read_bytes"`
	WrittenBytes float64 `json:"written_bytes"`
}

// fileIO adds it up over the generations in which it is known; nil: in none.
func fileIO(generations []*results.Generation) *FileIO {
	var read, written ratio
	for _, g := range generations {
		if io := g.FileIO; io != nil {
			read.add(io.ReadBytes, io.Transactions)
			written.add(io.WrittenBytes, io.Transactions)
		}
	}
	r, w := read.value(), written.value()
	if r == nil || w == nil {
		return nil
	}
	return &FileIO{*r, *w}
}

// clientShare is the clients' part of the CPU time of clients and backends, in
// per cent, over the slices in which both were measured.
func clientShare(generations []*results.Generation) *float64 {
	var client, both float64
	for _, g := range generations {
		for i, server := range g.Slices.ServerCPU {
			if c := g.Slices.ClientCPU[i]; c >= 0 && server >= 0 {
				client += float64(c)
				both += float64(c) + float64(server)
			}
		}
	}
	if both == 0 {
		return nil
	}
	return finite(100 * client / both)
}

// background adds up what was done beside; nil where nothing of it is known.
func background(generations []*results.Generation) *Background {
	var cpu, wal, read, written ratio
	checkpoints, vacuums := int64(-1), int64(-1)
	count := func(sum *int64, n int64) {
		if n >= 0 {
			t := total(max(*sum, 0))
			t.add(n)
			*sum = int64(t)
		}
	}
	known := false
	for _, g := range generations {
		b := g.Background
		if b == nil {
			continue
		}
		known = true
		// The CPU time is that of the slices, the counters cover more.
		cpu.add(b.CPUNs, max(b.Measured, 0))
		covered := max(b.Transactions, 0)
		wal.add(b.WALBytes, covered)
		read.add(b.PagesRead, covered)
		written.add(b.PagesWritten, covered)
		count(&checkpoints, b.Checkpoints)
		count(&vacuums, b.Vacuums)
	}
	if !known {
		return nil
	}
	out := &Background{CPUNs: cpu.value(), WALBytes: wal.value(), PagesRead: read.value(), PagesWritten: written.value()}
	if checkpoints >= 0 {
		out.Checkpoints = &checkpoints
	}
	if vacuums >= 0 {
		out.Vacuums = &vacuums
	}
	return out
}

// machineDoubts are those that the machine gives rise to.
func (r *Report) machineDoubts(rec *results.Record) []Warning {
	byCell := map[string][]*results.Generation{}
	for i := range rec.Generations {
		if g := &rec.Generations[i]; g.Lost == "" {
			byCell[g.Cell] = append(byCell[g.Cell], g)
		}
	}
	out := r.clientBound(byCell)
	out = append(out, r.preempted(byCell)...)
	out = append(out, r.moved(byCell)...)
	out = append(out, r.disturbed(rec)...)
	out = append(out, r.clock(rec)...)
	out = append(out, r.unequal(byCell)...)
	out = append(out, r.otherIO()...)
	return append(out, r.otherPlan(rec)...)
}

// excess is a share of something, of a cell or panel, and in how many of its
// generations it was above the limit.
type excess struct {
	part, whole   float64
	limit         float64 // per cent
	above, number int
	worst         float64 // per cent, of one generation
}

// add takes a generation in.
func (e *excess) add(part, whole float64) {
	if whole <= 0 {
		return
	}
	e.part, e.whole, e.number = e.part+part, e.whole+whole, e.number+1
	pct := 100 * part / whole
	e.worst = max(e.worst, pct)
	if pct > e.limit {
		e.above++
	}
}

func (e *excess) pct() float64 { return 100 * e.part / max(e.whole, 1) }

// join puts the figures of several cells or panels together.
func join(all []excess) excess {
	out := all[0]
	for _, e := range all[1:] {
		out.part, out.whole, out.above, out.number = out.part+e.part, out.whole+e.whole, out.above+e.above, out.number+e.number
		out.worst = max(out.worst, e.worst)
	}
	return out
}

func (e *excess) String() string {
	if e.number < 2 {
		return ""
	}
	return fmt.Sprintf(" (above %s %% in %d of %s, at worst %s %%)", trimmed(e.limit), e.above, count(e.number, "generation"), fixed(e.worst, 1))
}

// trimmed prints a limit without needless decimals.
func trimmed(v float64) string { return strings.TrimSuffix(fixed(v, 1), ".0") }

// exceeding gives each measured cell's excess, and returns the cells where it
// is above its limit.
func (r *Report) exceeding(byCell map[string][]*results.Generation, limit float64, add func(e *excess, p *Panel, g *results.Generation)) (cells []string, all []excess) {
	for i := range r.Cells {
		c := &r.Cells[i]
		e := excess{limit: limit}
		for _, g := range byCell[c.ID] {
			add(&e, r.panel(c.Panel), g)
		}
		if e.whole > 0 && e.pct() > limit {
			cells, all = append(cells, c.ID), append(all, e)
		}
	}
	return cells, all
}

// sliceNs is how long slice i of a generation took; 0: not known.
func sliceNs(s *results.Slices, i, clients int) float64 {
	if i < len(s.ElapsedNs) && s.ElapsedNs[i] > 0 {
		return float64(s.ElapsedNs[i])
	}
	if s.T[i] == 0 {
		return 0
	}
	// Records without the column: what is left out is the drain.
	return float64(max(s.HeadNs[i], 0)) + float64(s.T[i])/float64(clients)
}

// sharesCPUs tells whether clients and backends may run on the same CPUs.
func sharesCPUs(p *Panel) bool {
	return !strings.HasPrefix(p.Pin, "client=")
}

// clientBound says where pgtare itself holds the figure up.
func (r *Report) clientBound(byCell map[string][]*results.Generation) []Warning {
	var out []Warning
	cells, all := r.exceeding(byCell, boundThreadPct, func(e *excess, p *Panel, g *results.Generation) {
		var busy, time float64
		for i, cpu := range g.Slices.ClientCPU {
			if ns := sliceNs(&g.Slices, i, p.Clients); cpu >= 0 && ns > 0 {
				busy, time = busy+float64(cpu), time+ns*float64(p.Threads)
			}
		}
		e.add(busy, time)
	})
	if cells != nil {
		e := join(all)
		out = append(out, Warning{Code: "client-bound", Cells: cells, Forbids: results.ForbidsSame, Remedy: "more job threads (-j), and CPUs for them",
			Text: fmt.Sprintf("the job threads were busy for %s %% of the time%s: the figure may be pgtare's own, and a cost in the server need not show", fixed(e.pct(), 0), e.String())})
	}
	bound := cells
	cells = nil
	most := 0.0
	for i := range r.Cells {
		c := &r.Cells[i]
		if s := c.ClientSharePct; s != nil && *s > boundSharePct && sharesCPUs(r.panel(c.Panel)) && !slices.Contains(bound, c.ID) && workPct(byCell[c.ID], r.panel(c.Panel).Clients) > boundTimePct {
			cells, most = append(cells, c.ID), max(most, *s)
		}
	}
	if cells != nil {
		out = append(out, Warning{Code: "client-bound", Cells: cells, Forbids: results.ForbidsSame, Remedy: "a script with more work for the server, or CPUs of their own for clients and backends",
			Text: fmt.Sprintf("clients and backends share CPUs, and up to %s %% of their CPU time is the clients': the figure is pgtare's more than the server's, and a cost in the server shows at less than half its size", fixed(most, 0))})
	}
	return out
}

// workPct is the CPU time of clients and backends in per cent of the time that
// slices took: a statement that waits for something else is nobody's work.
func workPct(generations []*results.Generation, clients int) float64 {
	var work, time float64
	for _, g := range generations {
		for i, server := range g.Slices.ServerCPU {
			if c, ns := g.Slices.ClientCPU[i], sliceNs(&g.Slices, i, clients); c >= 0 && server >= 0 && ns > 0 {
				work, time = work+float64(c)+float64(server), time+ns
			}
		}
	}
	return 100 * work / max(time, 1)
}

// preempted says where one client and its backend were kept from running by
// others, or by a quota: the time that one of them was ready to run and had to
// wait, less what the job thread used, for which its backend waits as a matter of course where
// they share a CPU. It is never more than what they did not run.
func (r *Report) preempted(byCell map[string][]*results.Generation) []Warning {
	switches := 0.0
	cells, all := r.exceeding(byCell, preemptedPct, func(e *excess, p *Panel, g *results.Generation) {
		if p.Clients != 1 {
			return
		}
		s := &g.Slices
		var waited, ran, client, time float64
		for i := range s.N {
			if s.ServerWait[i] < 0 || s.ClientWait[i] < 0 || s.ServerCPU[i] < 0 || s.ClientCPU[i] < 0 {
				continue
			}
			ns := sliceNs(s, i, p.Clients)
			if ns == 0 {
				continue
			}
			waited += float64(s.ServerWait[i]) + float64(s.ClientWait[i])
			ran += float64(s.ServerCPU[i]) + float64(s.ClientCPU[i])
			client += float64(s.ClientCPU[i])
			time += ns
		}
		e.add(max(0, min(waited-client, time-ran)), time)
		if g.Switches > 0 && time > 0 {
			switches = max(switches, float64(g.Switches)/time*1e9)
		}
	})
	if cells == nil {
		return nil
	}
	e := join(all)
	text := fmt.Sprintf("for %s %% of the time client or backend was ready to run and did not get a CPU%s", fixed(e.pct(), 0), e.String())
	if switches > 0 {
		text += fmt.Sprintf("; backends were switched off involuntarily up to %s times per second", fixed(switches, 0))
	}
	return []Warning{{Code: "preempted", Cells: cells, Text: text, Remedy: "stop what else runs, or choose a quieter core (--pin core:N)"}}
}

// moved says where backends that may run on any CPU changed it often.
func (r *Report) moved(byCell map[string][]*results.Generation) []Warning {
	var cells []string
	var all []excess
	for i := range r.Cells {
		c := &r.Cells[i]
		if p := r.panel(c.Panel); p.Pin != "none" && p.Pin != "" {
			continue
		}
		e := excess{limit: movesPerSecond}
		for _, g := range byCell[c.ID] {
			var cpu float64
			for _, ns := range g.Slices.ServerCPU {
				cpu += float64(max(ns, 0))
			}
			if g.Moves >= 0 {
				e.add(float64(g.Moves)*1e9/100, cpu) // so that its per cent are moves per second
			}
		}
		if e.whole > 0 && e.pct() > e.limit {
			cells, all = append(cells, c.ID), append(all, e)
		}
	}
	if cells == nil {
		return nil
	}
	e := join(all)
	return []Warning{{Code: "moved", Cells: cells, Remedy: "pin them (--pin core for one client), or give the machine fewer clients than CPUs",
		Text: fmt.Sprintf("the kernel moved the backends from CPU to CPU %s times per second of their CPU time (above %d in %d of %s, at worst %s)",
			fixed(e.pct(), 0), movesPerSecond, e.above, count(e.number, "generation"), fixed(e.worst, 0))}}
}

// disturbed are the doubts that the lines about the machine give.
func (r *Report) disturbed(rec *results.Record) []Warning {
	var out []Warning
	// over adds a share up, panel by panel and block by block.
	over := func(limit float64, share func(m *results.Machine) (part, whole float64)) (cells []string, sum excess) {
		type place struct{ panel, cell string }
		var order []place
		by := map[place]*excess{}
		for i := range rec.Machine {
			m := &rec.Machine[i]
			p := place{m.Panel, m.Cell}
			if by[p] == nil {
				order, by[p] = append(order, p), &excess{limit: limit}
			}
			by[p].add(share(m))
		}
		var all []excess
		for _, p := range order {
			if e := by[p]; e.whole > 0 && e.pct() > limit {
				all = append(all, *e)
				for i := range r.Cells {
					if c := &r.Cells[i]; c.Panel == p.panel && (p.cell == "" || p.cell == c.ID) && c.Status != "n/a" {
						cells = append(cells, c.ID)
					}
				}
			}
		}
		if all != nil {
			sum = join(all)
		}
		return unique(cells), sum
	}
	cpus := func(m *results.Machine) float64 { return float64(m.ElapsedNs) * float64(m.CPUs) }

	if cells, e := over(stealPct, func(m *results.Machine) (float64, float64) {
		if m.StealNs < 0 {
			return 0, 0
		}
		return float64(m.StealNs), cpus(m)
	}); len(cells) > 0 {
		out = append(out, Warning{Code: "steal", Cells: cells, Remedy: "measure when the host is quieter, or on a machine of your own",
			Text: fmt.Sprintf("other virtual machines had %s %% of the time of the CPUs%s", fixed(e.pct(), 1), e.String())})
	}
	if cells, e := over(otherLoadPct, func(m *results.Machine) (float64, float64) {
		if m.BusyNs < 0 || m.OwnNs < 0 {
			return 0, 0
		}
		return float64(max(0, m.BusyNs-m.OwnNs)), cpus(m)
	}); len(cells) > 0 {
		out = append(out, Warning{Code: "other-load", Cells: cells, Remedy: "stop what else runs on this machine",
			Text: fmt.Sprintf("other processes used %s %% of the CPUs%s", fixed(e.pct(), 1), e.String())})
	}
	if cells, e := over(throttledPct, func(m *results.Machine) (float64, float64) {
		if m.ThrottledNs < 0 {
			return 0, 0
		}
		return float64(min(m.ThrottledNs, m.ElapsedNs)), float64(m.ElapsedNs) // the kernel adds CPUs up
	}); len(cells) > 0 {
		out = append(out, Warning{Code: "throttled", Cells: cells, Forbids: results.ForbidsSame, Remedy: "give the container or service more CPU quota, or none",
			Text: fmt.Sprintf("the CPU quota of the control group held everything up for %s %% of the time%s: what costs more CPU uses the quota up sooner, and need not show in time", fixed(e.pct(), 1), e.String())})
	}
	return out
}

// clock are the doubts about frequency and clock.
func (r *Report) clock(rec *results.Record) []Warning {
	var out []Warning
	e := &r.Environment
	if e.Governor != "" && e.Governor != "performance" {
		out = append(out, Warning{Code: "governor", Cells: []string{}, Remedy: "set the governor to performance while measuring (cpupower frequency-set -g performance)",
			Text: fmt.Sprintf("the frequency governor is %s: the CPU's speed depends on the load before", e.Governor)})
	}
	// The fastest CPU of each line is the one that worked: an idle one may rest
	// at any frequency.
	lowest, highest := int64(0), int64(0)
	sources := []string{}
	for i := range rec.Machine {
		m := &rec.Machine[i]
		if m.MaxKHz > 0 {
			if lowest == 0 || m.MaxKHz < lowest {
				lowest = m.MaxKHz
			}
			highest = max(highest, m.MaxKHz)
		}
		if m.Clocksource != "" && !slices.ContainsFunc(e.Clocks, func(c results.Clock) bool { return c.Source == m.Clocksource }) {
			sources = append(sources, m.Clocksource)
		}
	}
	if highest > 0 && 100*float64(highest-lowest) > frequencyPct*float64(highest) {
		out = append(out, Warning{Code: "frequency", Cells: []string{}, Remedy: "fix the frequency (governor performance, no turbo), and see to the cooling",
			Text: fmt.Sprintf("the frequency of the fastest CPU varied from %s to %s MHz between generations", fixed(float64(lowest)/1e3, 0), fixed(float64(highest)/1e3, 0))})
	}
	slow := e.ClockReadNs > slowClockNs
	if len(e.Clocks) > 1 {
		out = append(out, r.ownClock()...)
	} else if foreign := e.Clocksource != "" && !slices.Contains(vdsoClocks, e.Clocksource); (slow || foreign) && !math.IsInf(e.ClockReadNs, 0) {
		text := fmt.Sprintf("the clock source %s", e.Clocksource)
		if e.Clocksource == "" {
			text = "the clock"
		}
		if e.ClockReadNs > 0 {
			text += fmt.Sprintf(" takes %s ns a read, as much for pgtare's own, one or more per transaction, as for the server's", fixed(e.ClockReadNs, 0))
		} else {
			text += " is read by a system call"
		}
		out = append(out, Warning{Code: "slow-clock", Cells: []string{}, Remedy: "choose another clock source, if the machine has a good one, or know that whatever takes times costs more here",
			Text: text})
	}
	if e.Clocksource != "" && (len(e.Clocks) == 0 || len(sources) > 0) {
		sources = append([]string{e.Clocksource}, sources...)
	}
	if sources = slices.Compact(sources); len(sources) > 1 {
		out = append(out, Warning{Code: "clocksource-changed", Cells: []string{}, Remedy: "look into the kernel's log (dmesg) why, and measure again",
			Text: fmt.Sprintf("the kernel's clock source changed while the matrix ran: %s", few(sources, 4))})
	}
	return out
}

// ownClock is the doubt about clock sources that are compared by a program that
// reads them itself. That one of them is slow is what is weighed, and no doubt.
func (r *Report) ownClock() []Warning {
	e := &r.Environment
	if e.OwnClock == "counter" {
		return nil
	}
	cells := []string{}
	for i := range r.Comparisons {
		if c := &r.Comparisons[i]; c.Axis == "clocksource" {
			cells = append(cells, c.Cell)
		}
	}
	if len(cells) == 0 {
		return nil
	}
	var costs []string
	for _, c := range e.Clocks[1:] {
		costs = append(costs, fmt.Sprintf("%+.0f ns by %s", c.ReadNs-e.Clocks[0].ReadNs, c.Source))
	}
	return []Warning{{Code: "own-clock", Cells: unique(cells), Forbids: results.ForbidsVerdict,
		Remedy: "subtract it, or measure on a machine whose CPUs have a counter that Linux trusts (tsc among the clock sources)",
		Text:   fmt.Sprintf("pgtare reads the clock at least once per transaction, which differs from %s by %s and is in these figures", e.Clocks[0].Source, few(costs, 4))}}
}

// unequal says where cells that are compared did not have equally many
// checkpoints, or autovacuum runs, per transaction. Such come at intervals, of
// time or of WAL; where a block begins within the interval is chance, which
// moves its count by at most one. So the variance of a count is at most 1/4 per
// block, and two standard deviations of the difference of two cells with B
// blocks each are sqrt(2 B).
func (r *Report) unequal(byCell map[string][]*results.Generation) []Warning {
	var out []Warning
	for _, kind := range []struct {
		code, noun, remedy string
		of                 func(b *results.Background) int64
	}{
		{"unequal-checkpoints", "checkpoint", "longer runs (-T) that hold several checkpoints each", func(b *results.Background) int64 { return b.Checkpoints }},
		{"unequal-vacuums", "autovacuum run", "longer runs (-T) that hold several naptimes each, or autovacuum=off in all cells", func(b *results.Background) int64 { return b.Vacuums }},
	} {
		events := func(id string) (n, transactions float64, blocks int) {
			for _, g := range byCell[id] {
				if b := g.Background; b != nil && b.Transactions > 0 && kind.of(b) >= 0 {
					n += float64(kind.of(b))
					transactions += float64(b.Transactions)
					blocks++
				}
			}
			return n, transactions, blocks
		}
		var cells []string
		text, most := "", 0.0
		for i := range r.Comparisons {
			c := &r.Comparisons[i]
			n1, t1, b1 := events(c.Cell)
			n2, t2, b2 := events(c.Against)
			if b1 == 0 || b2 == 0 {
				continue
			}
			// They come at intervals of time or of WAL, so that cells of unlike
			// speed have unlike counts per transaction or per block as a matter of
			// course. Both must be apart.
			chance := math.Sqrt(float64(b1 + b2))
			apart := min(math.Abs(n1-n2*t1/t2), math.Abs(n1-n2*float64(b1)/float64(b2))) / chance
			if apart <= 1 {
				continue
			}
			cells = append(cells, c.Cell)
			if apart > most {
				most = apart
				text = fmt.Sprintf("%s in %.0f transactions against %s in %.0f", count(int(min(n1, 1e9)), kind.noun), t1, count(int(min(n2, 1e9)), kind.noun), t2)
			}
		}
		if cells != nil {
			out = append(out, Warning{Code: kind.code, Cells: unique(cells), Forbids: results.ForbidsSame, Remedy: kind.remedy,
				Text: text + ", more apart than the moments at which blocks begin explain"})
		}
	}
	return out
}

// otherIO says where cells that should do the same work read or wrote another
// number of bytes: other data, another plan, caches of another size. Between
// settings that may be what is weighed, and variables ask for other work.
func (r *Report) otherIO() []Warning {
	var cells []string
	text, most := "", 0.0
	var alike []results.PlannedComparison // that should do the same work
	for _, c := range r.Plan.Comparisons {
		if slices.Contains([]string{"server", "clocksource", "control"}, c.Axis) || strings.HasPrefix(c.Axis, "env.") {
			alike = append(alike, c)
		}
	}
	for _, c := range r.Plan.Controls {
		alike = append(alike, results.PlannedComparison{Cell: c.Cell, Against: c.Against, Axis: "control"})
	}
	for _, c := range alike {
		a, b := r.cell(c.Cell).FileIO, r.cell(c.Against).FileIO
		if a == nil || b == nil {
			continue
		}
		for _, what := range []struct {
			verb string
			a, b float64
		}{{"read", a.ReadBytes, b.ReadBytes}, {"wrote", a.WrittenBytes, b.WrittenBytes}} {
			apart := math.Abs(what.a-what.b) / max(what.a, what.b, 1)
			if apart < otherIOShare || math.Abs(what.a-what.b) < pageShare {
				continue
			}
			cells = append(cells, c.Cell)
			if apart > most {
				most = apart
				text = fmt.Sprintf("the backends of %s %s %s bytes of files per transaction, those of %s %s", r.nameOn(c.Axis, c.Cell), what.verb, fixed(what.a, 0), r.nameOn(c.Axis, c.Against), fixed(what.b, 0))
			}
		}
	}
	if cells == nil {
		return nil
	}
	return []Warning{{Code: "other-io", Cells: unique(cells), Text: text,
		Remedy: "compare their data, plans and shared_buffers: the difference is part of what is weighed"}}
}

const (
	otherIOShare = 0.05 // of the larger
	pageShare    = 82   // bytes: a page in a hundred transactions
)

// otherPlan says where cells that are compared have other query plans. Plans
// hold no constants, so that variables alone don't change them.
func (r *Report) otherPlan(rec *results.Record) []Warning {
	plans := map[string][]string{}
	for i := range rec.Header.Cells {
		plans[rec.Header.Cells[i].ID] = rec.Header.Cells[i].Plans
	}
	var cells []string
	text := ""
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		a, b := plans[c.Cell], plans[c.Against]
		if len(a) != len(b) {
			continue // one of them was not asked for
		}
		for n := range a {
			if a[n] == b[n] || a[n] == "" || b[n] == "" {
				continue
			}
			cells = append(cells, c.Cell)
			if text == "" {
				text = fmt.Sprintf("statement %d has the plan %s in %s, and %s in %s", n+1, a[n], r.nameOn(c.Axis, c.Cell), b[n], r.nameOn(c.Axis, c.Against))
			}
			break
		}
	}
	if cells == nil {
		return nil
	}
	return []Warning{{Code: "other-plan", Cells: unique(cells), Text: text,
		Remedy: "look at EXPLAIN on both sides: the plan's difference is part of what is weighed"}}
}
