package report_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgtare/results"
	"pgtare/results/report"
)

// spoilt builds the report of a record to which something was done.
func spoilt(t *testing.T, m matrix, change func(rec *results.Record)) *report.Report {
	t.Helper()
	rec := m.record(t)
	change(rec)
	r, err := report.Build(reread(t, rec))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// found returns the warnings of a code.
func found(r *report.Report, code string) []report.Warning {
	return slices.DeleteFunc(slices.Clone(r.Warnings), func(w report.Warning) bool { return w.Code != code })
}

// watched gives each generation of the first panel a line about the machine, 1
// s of two CPUs of which pgtare used most.
func watched(rec *results.Record, change func(i int, m *results.Machine)) {
	for i := range rec.Header.Runs * rec.Header.Panels[0].Generations {
		m := results.Machine{Type: "machine", Panel: "p1", Run: 1 + i/rec.Header.Panels[0].Generations, Generation: 1 + i%rec.Header.Panels[0].Generations, Started: started.Add(time.Duration(i) * time.Second),
			ElapsedNs: 1e9, CPUs: 2, BusyNs: 1.1e9, StealNs: 2e7, OwnNs: 1e9, ThrottledNs: 0, MinKHz: 1_000_000, MaxKHz: 3_000_000, Clocksource: "tsc"}
		change(i, &m)
		rec.Machine = append(rec.Machine, m)
	}
}

// TestMachineDoubts: each doubt on both sides of its limit.
func TestMachineDoubts(t *testing.T) {
	base := shortDefault() // 5 runs of 4 generations
	base.settings = base.settings[:1]
	ours := []string{"client-bound", "preempted", "moved", "steal", "other-load", "throttled", "governor", "frequency", "slow-clock", "own-clock", "clocksource-changed", "unequal-checkpoints", "unequal-vacuums"}
	all := []string(nil)
	check := func(name string, m matrix, change func(rec *results.Record), code string, cells []string, blocks string, parts ...string) {
		t.Helper()
		r := spoilt(t, m, change)
		for _, w := range r.Warnings {
			if slices.Contains(ours, w.Code) && w.Code != code {
				t.Errorf("%s: also %s: %s", name, w.Code, w.Text)
			}
		}
		if code == "" {
			return
		}
		got := found(r, code)
		if len(got) != 1 {
			t.Errorf("%s: %d warnings %s", name, len(got), code)
			return
		}
		w := got[0]
		if cells != nil && !slices.Equal(w.Cells, cells) || cells == nil && len(w.Cells) != 0 && len(w.Cells) != len(r.Cells) {
			t.Errorf("%s: cells %q, want %q", name, w.Cells, cells)
		}
		if w.Forbids != blocks || w.Remedy == "" {
			t.Errorf("%s: blocks %q, remedy %q", name, w.Forbids, w.Remedy)
		}
		for _, part := range parts {
			if !strings.Contains(w.Text, part) {
				t.Errorf("%s: %q lacks %q", name, w.Text, part)
			}
		}
	}
	each := func(m matrix, change func(c *results.Cell, g *results.Generation)) matrix {
		m.edit = func(c *results.Cell, g *results.Generation) bool { change(c, g); return true }
		return m
	}
	machine := func(change func(i int, m *results.Machine)) func(*results.Record) {
		return func(rec *results.Record) { watched(rec, change) }
	}
	nothing := func(*results.Record) {}
	lines := func(change func(m *results.Machine)) func(*results.Record) {
		return machine(func(_ int, m *results.Machine) { change(m) })
	}
	const one = "p1-s1-v1-1" // track_activities=on
	isOne := func(c *results.Cell) bool { return c.ID == one }

	check("a quiet machine", base, machine(func(int, *results.Machine) {}), "", nil, "")
	check("nothing known of it", base, lines(func(m *results.Machine) {
		m.CPUs, m.BusyNs, m.StealNs, m.OwnNs, m.ThrottledNs, m.MinKHz, m.MaxKHz, m.Clocksource = 0, -1, -1, -1, -1, -1, -1, ""
	}), "", nil, "")

	// Client-bound: the job threads' time, to whole slices where they are known.
	busy := func(pct int64) matrix {
		return each(base, func(c *results.Cell, g *results.Generation) {
			if s := &g.Slices; isOne(c) {
				for i := range s.N {
					s.ElapsedNs = append(s.ElapsedNs, s.HeadNs[i]+s.T[i]+1_000_000)
					s.ClientCPU[i] = s.ElapsedNs[i] * pct / 100
					s.ServerCPU[i] = s.ClientCPU[i] * 2
				}
			}
		})
	}
	check("job threads busy", busy(93), nothing, "client-bound", []string{one}, results.ForbidsSame, "93 %", "20 of 20 generations", "worst 93.0 %")
	check("job threads nearly busy", busy(88), nothing, "", nil, "")
	share := func(server, client int64) matrix {
		return each(base, func(c *results.Cell, g *results.Generation) {
			if s := &g.Slices; isOne(c) {
				for i := range s.N {
					s.ServerCPU[i], s.ClientCPU[i] = server*s.All[i], client*s.All[i]
				}
			}
		})
	}
	check("most CPU is the client's", share(10_000, 11_000), nothing, "client-bound", []string{one}, results.ForbidsSame, "52 %")
	check("half of it", share(11_000, 10_900), nothing, "", nil, "")
	check("most of little: the statement waits for something else", share(100, 1000), nothing, "", nil, "")
	apart := share(10_000, 11_000)
	apart.change = func(h *results.Header) { h.Panels[0].Pin = "client=0,server=1" }
	check("CPUs of their own", apart, nothing, "", nil, "")

	// Preempted: waits beyond those that client and backend cause each other.
	wait := func(server, client func(cpu int64) int64) matrix {
		return each(base, func(c *results.Cell, g *results.Generation) {
			if s := &g.Slices; isOne(c) {
				g.Switches = 500
				for i := range s.N {
					s.ServerWait[i], s.ClientWait[i] = server(s.ClientCPU[i]), client(s.T[i])
				}
			}
		})
	}
	same := func(cpu int64) int64 { return cpu }
	none := func(int64) int64 { return 0 }
	check("they wait for each other", wait(same, none), nothing, "", nil, "")
	check("others run", wait(same, func(t int64) int64 { return t / 2 }), nothing, "preempted", []string{one}, "", "of 20 generations", "involuntarily")
	check("they ran all the time", each(base, func(c *results.Cell, g *results.Generation) {
		s := &g.Slices
		for i := range s.N {
			s.ElapsedNs = append(s.ElapsedNs, s.ServerCPU[i]+s.ClientCPU[i])
			s.ServerWait[i] = s.T[i]
		}
	}), nothing, "", nil, "")
	many := wait(same, func(t int64) int64 { return t })
	many.clients = 8
	check("several clients wait for each other", many, nothing, "", nil, "")

	// Moved, per second of the backends' CPU time: some 16 us a transaction here.
	move := func(pin string, perSecond float64) matrix {
		m := each(base, func(c *results.Cell, g *results.Generation) {
			if isOne(c) {
				cpu := 0.0
				for _, ns := range g.Slices.ServerCPU {
					cpu += float64(ns)
				}
				g.Moves = int64(cpu / 1e9 * perSecond)
			}
		})
		m.change = func(h *results.Header) { h.Panels[0].Pin = pin }
		return m
	}
	check("moved", move("none", 500), nothing, "moved", []string{one}, "", "times per second", "20 of 20 generations")
	check("moved now and then", move("none", 60), nothing, "", nil, "")
	check("pinned", move("core:0", 500), nothing, "", nil, "")

	check("steal", base, machine(func(i int, m *results.Machine) {
		if i%4 == 0 {
			m.StealNs = 3e8
		}
	}), "steal", all, "", "4.5 %", "5 of 20 generations", "worst 15.0 %")
	check("other load", base, lines(func(m *results.Machine) { m.BusyNs = 13e8 }), "other-load", all, "", "15.0 %", "20 of 20")
	check("own load on other CPUs", base, lines(func(m *results.Machine) { m.BusyNs, m.OwnNs = 1e9, 2e9 }), "", nil, "")
	check("throttled", base, machine(func(i int, m *results.Machine) {
		if i == 7 {
			m.ThrottledNs = 5e8
		}
	}), "throttled", all, results.ForbidsSame, "2.5 %", "1 of 20", "worst 50.0 %")
	check("throttled on both CPUs", base, lines(func(m *results.Machine) { m.ThrottledNs = 2e9 }), "throttled", all, results.ForbidsSame, "for 100.0 % of the time")
	check("throttled for a moment", base, machine(func(i int, m *results.Machine) {
		if i == 7 {
			m.ThrottledNs = 1e7
		}
	}), "", nil, "")
	check("a block of one cell", base, machine(func(i int, m *results.Machine) {
		m.Cell = one
		m.StealNs = 1e9
	}), "steal", []string{one}, "")
	check("frequency", base, machine(func(i int, m *results.Machine) { m.MaxKHz -= 20_000 * int64(i) }), "frequency", all, "", "2620 to 3000 MHz")
	check("frequency of the idle", base, machine(func(i int, m *results.Machine) { m.MaxKHz -= 15_000 * int64(i); m.MinKHz = 800_000 }), "", nil, "")
	check("clock source changed", base, machine(func(i int, m *results.Machine) {
		if i > 12 {
			m.Clocksource = "hpet"
		}
	}), "clocksource-changed", all, "", "tsc, hpet")

	environment := func(change func(e *results.Environment)) matrix {
		m := base
		m.change = func(h *results.Header) { change(&h.Environment) }
		return m
	}
	check("governor", environment(func(e *results.Environment) { e.Governor = "powersave" }), nothing, "governor", all, "", "powersave")
	check("the right governor", environment(func(e *results.Environment) { e.Governor = "performance" }), nothing, "", nil, "")
	check("slow clock", environment(func(e *results.Environment) { e.ClockReadNs = 640 }), nothing, "slow-clock", all, "", "tsc takes 640 ns")
	check("clock of the kernel", environment(func(e *results.Environment) { e.Clocksource, e.ClockReadNs = "acpi_pm", 0 }), nothing, "slow-clock", all, "", "acpi_pm is read by a system call")
	check("clock of the hypervisor", environment(func(e *results.Environment) { e.Clocksource, e.ClockReadNs = "kvm-clock", 45 }), nothing, "", nil, "")
	two := func(own string) matrix {
		m := environment(func(e *results.Environment) {
			e.Clocks, e.OwnClock = []results.Clock{{Source: "tsc", ReadNs: 32}, {Source: "hpet", ReadNs: 640}}, own
		})
		change := m.change
		m.change = func(h *results.Header) {
			change(h)
			h.Comparisons[0].Axis = "clocksource"
		}
		return m
	}
	switched := machine(func(i int, m *results.Machine) { m.Clocksource = []string{"tsc", "hpet"}[i%2] })
	check("clocks that are compared", two("counter"), switched, "", nil, "")
	check("clocks that pgtare reads, too", two("clocksource"), switched, "own-clock", []string{one}, results.ForbidsVerdict, "differs from tsc by +608 ns by hpet")
	check("a clock that isn't compared", two("counter"), machine(func(i int, m *results.Machine) { m.Clocksource = []string{"tsc", "acpi_pm"}[i%2] }), "clocksource-changed", all, "", "tsc, acpi_pm")
	check("an unknown clock", environment(func(e *results.Environment) { e.Clocksource, e.ClockReadNs = "", 0 }), nothing, "", nil, "")

	// Unequal: 20 blocks in each cell, so a difference of 6 is within chance.
	beside := func(of func(c *results.Cell, g *results.Generation) *results.Background) matrix {
		return each(base, func(c *results.Cell, g *results.Generation) { g.Background = of(c, g) })
	}
	events := func(n int64) matrix {
		return beside(func(c *results.Cell, g *results.Generation) *results.Background {
			b := &results.Background{Transactions: 1000, Checkpoints: 2, Vacuums: -1}
			if isOne(c) && int64(4*(g.Run-1)+g.Generation) <= n {
				b.Checkpoints = 3
			}
			return b
		})
	}
	check("checkpoints by chance", events(6), nothing, "", nil, "")
	check("unequal checkpoints", events(7), nothing, "unequal-checkpoints", []string{one}, results.ForbidsSame, "47 checkpoints in 20000 transactions against 40 checkpoints in 20000")
	check("as many per transaction", beside(func(c *results.Cell, g *results.Generation) *results.Background {
		if isOne(c) {
			return &results.Background{Transactions: 2000, Checkpoints: 4, Vacuums: 2}
		}
		return &results.Background{Transactions: 1000, Checkpoints: 2, Vacuums: 1}
	}), nothing, "", nil, "")
	check("unequal vacuums", beside(func(c *results.Cell, g *results.Generation) *results.Background {
		b := &results.Background{Transactions: 1000, Checkpoints: -1, Vacuums: 1}
		if isOne(c) {
			b.Vacuums = 0
		}
		return b
	}), nothing, "unequal-vacuums", []string{one}, results.ForbidsSame, "0 autovacuum runs")
	check("nothing counted", beside(func(*results.Cell, *results.Generation) *results.Background {
		return &results.Background{Transactions: 0, Checkpoints: 5, Vacuums: 9}
	}), nothing, "", nil, "")
}

// TestDoubtsBlock: what a doubt blocks isn't said.
func TestDoubtsBlock(t *testing.T) {
	m := shortDefault()
	m.cost = func(*results.Cell) float64 { return 1 }
	verdict := func(r *report.Report, cell string) string {
		for _, c := range r.Comparisons {
			if c.Cell == cell {
				return c.Verdict
			}
		}
		t.Fatalf("no comparison of %s", cell)
		return ""
	}
	const one = "p1-s1-v1-1"
	quiet := spoilt(t, m, func(rec *results.Record) { rec.Header.Margin = 5 })
	if v := verdict(quiet, one); v != "same" {
		t.Fatalf("without a doubt: %s", v)
	}
	throttled := spoilt(t, m, func(rec *results.Record) {
		rec.Header.Margin = 5
		watched(rec, func(_ int, m *results.Machine) { m.ThrottledNs = 5e8 })
	})
	if v := verdict(throttled, one); v != "unclear" {
		t.Errorf("throttled: %s", v)
	}
	m.cost = func(c *results.Cell) float64 {
		if c.ID == one {
			return 1.3
		}
		return 1
	}
	failing := spoilt(t, m, func(rec *results.Record) {
		for i := range rec.Generations {
			if g := &rec.Generations[i]; g.Cell == one {
				g.Failures = map[string]int64{"40001": 100}
			}
		}
	})
	if v := verdict(failing, one); v != "unclear" {
		t.Errorf("with failures: %s", v)
	}
	if v := verdict(spoilt(t, m, func(*results.Record) {}), one); v != "slower" {
		t.Errorf("without failures: %s", v)
	}
}

// TestWorkBeside: shares and background work are sums over sums.
func TestWorkBeside(t *testing.T) {
	m := shortDefault()
	m.edit = func(c *results.Cell, g *results.Generation) bool {
		if c.ID == "p1-s1-v1-2" {
			for i := range g.Slices.N {
				g.Slices.ServerCPU[i], g.Slices.ClientCPU[i], g.Slices.All[i] = 5500, 4500, 10
			}
			g.Slices.ClientCPU[0] = -1 // not measured: counts for neither
			g.Background = &results.Background{Transactions: 200, Measured: 120, CPUNs: 6000, WALBytes: 20_000 * int64(g.Generation%2), PagesRead: -1, PagesWritten: 50, Checkpoints: 2, Vacuums: -1}
		}
		return true
	}
	r := build(t, m)
	for _, c := range r.Cells {
		if c.ID != "p1-s1-v1-2" {
			if c.Background != nil {
				t.Errorf("%s: %+v", c.ID, c.Background)
			}
			continue
		}
		b := c.Background
		if c.ClientSharePct == nil || *c.ClientSharePct != 45 || b == nil {
			t.Fatalf("share %v, background %v", c.ClientSharePct, b)
		}
		// CPU time goes by the 12 x 10 transactions of the slices, 20 generations.
		if *b.CPUNs != 50 || *b.WALBytes != 50 || b.PagesRead != nil || *b.PagesWritten != 0.25 || *b.Checkpoints != 40 || b.Vacuums != nil {
			t.Errorf("%+v", b)
		}
	}
}

// TestScheduleText: the text says how cells share time and instances where that
// is not as usual, and when a matrix with --until ended.
func TestScheduleText(t *testing.T) {
	says := func(m matrix, change func(rec *results.Record), want string, not ...string) {
		t.Helper()
		var b strings.Builder
		if err := spoilt(t, m, change).Text(&b); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(b.String()), " ")
		if !strings.Contains(text, want) {
			t.Errorf("%q is lacking in\n%s", want, b.String())
		}
		for _, n := range not {
			if strings.Contains(text, n) {
				t.Errorf("%q is in\n%s", n, b.String())
			}
		}
	}
	m := shortDefault()
	says(m, func(*results.Record) {}, "placement core:0 (client and backends on core 0) measured", " until: ", "Background", "waits ")
	says(m, func(rec *results.Record) {
		for i := range rec.Header.Cells {
			if c := &rec.Header.Cells[i]; c.Label == "all" {
				c.Isolation, c.Schedule = "instance", "block"
			}
		}
	}, "schedule slice: on one instance with others, in turns of slices (baseline, track_activities=on, log_min_duration_statement=100, statement_timeout=100 and 1 more); block: each cell on an instance of its own, one after the other, a checkpoint before each block (all)")
	says(m, func(rec *results.Record) { rec.Header.Until = 1.5 }, "until: measured until every overhead's half-width was <= 1.5 %: 5 runs.")
	says(m, func(rec *results.Record) { rec.Header.Until = 0.01 }, "it ended before, after 5 runs: the widest is")
	says(m, func(rec *results.Record) {
		rec.Header.Until = 1.5
		rec.Generations = rec.Generations[:5] // no interval
		rec.Header.Runs = 1
	}, "it ended before, after 1 run: one has no interval.")
	says(m, func(rec *results.Record) { rec.Header.Panels[0].Waits = map[string]int64{"Lock": 0} }, "waits Lock 0.0 %, LWLock 0.0 % of 0 samples")
}

// TestOtherWork: cells that should do the same work and don't.
func TestOtherWork(t *testing.T) {
	m := shortDefault()
	m.settings, m.modes, m.servers = m.settings[:1], m.modes[:1], []results.Server{debian15, other("18.4", "18.4")}
	work := func(read, written int64, plan string) *report.Report {
		m.edit = func(c *results.Cell, g *results.Generation) bool {
			io := &results.FileIO{Transactions: 1000, ReadBytes: 8192, WrittenBytes: 1000 * 8192}
			if c.Server == "18.4" {
				io.ReadBytes, io.WrittenBytes = read, 1000*written
			}
			g.FileIO = io
			return true
		}
		return spoilt(t, m, func(rec *results.Record) {
			for i := range rec.Header.Cells {
				c := &rec.Header.Cells[i]
				if c.ControlOf != "" {
					continue // not asked for
				}
				c.Plans = []string{"", "Seq Scan[t]"}
				if c.Server == "18.4" || c.Label != "" && plan == "setting" {
					c.Plans[1] = plan
				}
			}
		})
	}
	r := work(8192, 8192, "Seq Scan[t]")
	for _, code := range []string{"other-io", "other-plan"} {
		if w := found(r, code); len(w) != 0 {
			t.Errorf("equal work: %+v", w)
		}
	}
	if io := r.Cells[0].FileIO; io == nil || io.ReadBytes != 8.192 || io.WrittenBytes != 8192 {
		t.Errorf("bytes per transaction %+v", io)
	}
	// A page in a thousand transactions is chance, whatever its share.
	if w := found(work(8192*9, 8192, ""), "other-io"); len(w) != 0 {
		t.Errorf("nine pages against one in a thousand transactions: %+v", w)
	}
	for _, c := range []struct {
		code          string
		read, written int64
		plan          string
		want          []string
	}{
		{"other-io", 8192, 16384, "Seq Scan[t]", []string{"server 18.4 wrote 16384", "server 15.18 8192"}},
		{"other-io", 8192 * 100, 8192, "Seq Scan[t]", []string{"server 18.4 read 819"}},
		{"other-plan", 8192, 8192, "Index Scan[t_pkey t]", []string{"statement 2 has the plan Index Scan[t_pkey t] in server 18.4", "Seq Scan[t] in server 15.18"}},
		{"other-plan", 8192, 8192, "setting", []string{"statement 2 has the plan setting in track_activities=on", "Seq Scan[t] in the baseline"}},
	} {
		w := found(work(c.read, c.written, c.plan), c.code)
		if len(w) != 1 || w[0].Remedy == "" || w[0].Forbids != "" || len(w[0].Cells) == 0 {
			t.Errorf("%s: %+v", c.code, w)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(w[0].Text, part) {
				t.Errorf("%s: %q lacks %q", c.code, w[0].Text, part)
			}
		}
	}
}
