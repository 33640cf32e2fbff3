package report_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgtare/results"
)

// matrix describes a record to be made up: what pgtare would have measured on
// a machine whose costs are known.
type matrix struct {
	title        string
	args         []string
	servers      []results.Server
	modes        []string
	workload     string
	script       string
	clients      int
	transactions int64
	settings     []setting           // varied one at a time; the first value is the baseline's
	vars         map[string][]string // further axes
	controls     int
	runs         int
	generations  int // per run
	rounds       int
	seed         uint64 // one with which no panel's runs differ by chance (as 5 % do)

	// cost is what a transaction of the cell takes beyond the baseline, as a factor.
	cost func(c *results.Cell) float64
	// change edits the plan before anything is measured.
	change func(h *results.Header)
	// edit changes a generation; false leaves it out.
	edit func(c *results.Cell, g *results.Generation) bool
	end  *results.End
}

type setting struct{ name, baseline, value string }

// started is when every made-up record was measured.
var started = time.Date(2026, 7, 6, 15, 20, 0, 0, time.UTC)

// theDefault is the matrix of `pgtare run` with nothing said.
func theDefault() matrix {
	return matrix{
		title: "what 3 settings cost on SELECT 1", args: []string{"run"},
		servers: []results.Server{debian15}, modes: []string{"per-statement", "single-transaction"},
		workload: "select1", script: "SELECT 1;", clients: 1,
		settings: []setting{{"track_activities", "off", "on"}, {"log_min_duration_statement", "-1", "100"}, {"statement_timeout", "0", "100"}},
		controls: 1, runs: 5, generations: 8, rounds: 20, seed: 6,
		cost: costs(map[string]float64{"track_activities=on": 0.011, "log_min_duration_statement=100": 0.003, "statement_timeout=100": 0.042, "all": 0.055}),
		end:  &results.End{Status: "complete", Ended: started.Add(90 * time.Second)},
	}
}

// costs looks the cost of a cell up by its label.
func costs(byLabel map[string]float64) func(*results.Cell) float64 {
	return func(c *results.Cell) float64 { return 1 + byLabel[c.Label] }
}

var debian15 = results.Server{
	Label: "15.18", Origin: "debian", Version: "15.18", VersionNum: 150018,
	FullString: "PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu", Compiler: "gcc 12.2.0",
	Build: map[string]string{
		"CC":        "gcc",
		"CFLAGS":    "-Wall -O2 -fno-strict-aliasing -ffile-prefix-map=/build/postgresql-15=. -g",
		"CONFIGURE": " '--enable-nls' '--with-llvm' '--datadir=/usr/share/postgresql/15'",
	},
	Deviations: []string{"max_connections=110", "listen_addresses=''"},
}

// other is debian15 with another version, built alike.
func other(label, version string) results.Server {
	s := debian15
	s.Label, s.Version = label, version
	s.FullString = "PostgreSQL " + version
	s.Build = map[string]string{"CC": "gcc", "CFLAGS": "-Wall -O2 -fno-strict-aliasing -ffile-prefix-map=/build/other=. -g", "CONFIGURE": "'--with-llvm' '--enable-nls'"}
	return s
}

// record makes the record up. Equal matrices give equal records.
func (m matrix) record(t testing.TB) *results.Record {
	t.Helper()
	h := m.plan()
	if m.change != nil {
		m.change(h)
	}
	rec := &results.Record{Header: *h, End: m.end, Warnings: h.Warnings}
	rng := rand.New(rand.NewPCG(m.seed, 2026))
	for run := 1; run <= m.runs; run++ {
		start := map[string]float64{} // luck of an instance's start
		for _, i := range h.Instances {
			start[i.ID] = 0.008 * rng.NormFloat64()
		}
		for generation := 1; generation <= m.generations; generation++ {
			for _, p := range h.Panels {
				rec.Generations = append(rec.Generations, m.generation(rng, h, &p, run, generation, start)...)
			}
		}
	}
	return reread(t, rec)
}

// reread takes a record through its file format, so that what is made up
// obeys it.
func reread(t testing.TB, rec *results.Record) *results.Record {
	t.Helper()
	back, err := results.Read(strings.NewReader(lines(t, rec)))
	if err != nil {
		t.Fatalf("the record made up isn't one: %v", err)
	}
	return back
}

// lines is a record as its file has it.
func lines(t testing.TB, rec *results.Record) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	put := func(v any) {
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	put(rec.Header)
	for _, g := range rec.Generations {
		put(g)
	}
	for _, m := range rec.Machine {
		put(m)
	}
	if rec.End != nil {
		end := *rec.End
		end.Type = "end"
		put(end)
	}
	return b.String()
}

// plan lays out the header as package matrix does.
func (m matrix) plan() *results.Header {
	h := &results.Header{
		Type: "header", Format: results.Format, ID: "20260706-152000-k3f9", Pgtare: "0.1.0", Title: m.title, Started: started, Seed: 42, Args: m.args,
		Runs: m.runs, RunSeconds: 1, Transactions: m.transactions, Unit: "tps", Margin: 1, Servers: m.servers,
		Environment: results.Environment{OS: "Debian 12", Kernel: "6.1.0", CPU: "Xeon E5-2690 v4", CPUs: 2, MemoryBytes: 8 << 30, Clocksource: "tsc", ClockReadNs: 24, Virtualization: "kvm"},
	}
	if m.transactions > 0 {
		h.Unit, h.RunSeconds = "s", 0
	}
	unit := "generation"
	if len(m.servers) > 1 {
		unit = "run"
	}
	label := []string{""}
	for _, s := range m.settings {
		label = append(label, s.name+"="+s.value)
	}
	if len(m.settings) > 1 {
		label = append(label, "all")
	}
	values := append([]string{"baseline"}, label[1:]...)
	labels := make([]string, len(m.servers))
	for i, s := range m.servers {
		labels[i] = s.Label
		h.Instances = append(h.Instances, results.Instance{ID: fmt.Sprintf("i%d", i+1), Server: s.Label})
	}
	h.Axes = []results.Axis{{Name: "server", Values: labels}, {Name: "mode", Values: m.modes}, {Name: "setting", Values: values}}
	combinations := []map[string]string{{}}
	for _, name := range slices.Sorted(maps.Keys(m.vars)) {
		h.Axes = append(h.Axes, results.Axis{Name: name, Values: m.vars[name]})
		var next []map[string]string
		for _, c := range combinations {
			for _, v := range m.vars[name] {
				with := maps.Clone(c)
				with[name] = v
				next = append(next, with)
			}
		}
		combinations = next
	}
	for p, mode := range m.modes {
		panel := results.Panel{ID: fmt.Sprintf("p%d", p+1), Workload: m.workload, Mode: mode, Protocol: "simple", Clients: m.clients, Threads: 1, Script: m.script,
			Schedule: "slice", Pin: "core:0", Head: 4, SliceNs: 2_100_000, Rounds: m.rounds, Generations: m.generations, Warmup: 20, TransactionNs: 30_000, Sessions: 6}
		for _, s := range m.servers {
			tps := map[string]float64{"per-statement": 32_947, "single-transaction": 39_402}[mode] * float64(m.clients)
			panel.Anchors = append(panel.Anchors, results.Anchor{Server: s.Label, Transactions: int64(tps * 1.0001), Seconds: 1.0001, TPS: tps})
		}
		id := func(server, combination, row int) string {
			return fmt.Sprintf("%s-s%d-v%d-%d", panel.ID, server+1, combination+1, row)
		}
		// Only the baselines have twins, and only the first a twin on an instance
		// of its own.
		twinOf := func(server, combination, row int) string {
			if m.controls == 0 || combination > 0 || row > 0 {
				return ""
			}
			return id(server, 0, 100)
		}
		instanceTwin := func(combination, row int) string {
			if m.controls == 0 || combination > 0 || row > 0 {
				return ""
			}
			return id(0, 0, 200)
		}
		for s, server := range m.servers {
			for v, vars := range combinations {
				base := map[string]string{}
				for _, x := range m.settings {
					base[x.name] = x.baseline
				}
				cell := func(row int, label string, settings map[string]string) *results.Cell {
					axes := map[string]string{"server": server.Label, "mode": mode, "workload": m.workload, "setting": label}
					if label == "" {
						axes["setting"] = "baseline"
					}
					for name, value := range vars {
						axes[name] = value
					}
					h.Cells = append(h.Cells, results.Cell{ID: id(s, v, row), Panel: panel.ID, Server: server.Label, Instance: h.Instances[s].ID, Label: label, Axes: axes,
						Settings: settings, Vars: vars, Isolation: "session", Schedule: "slice", Status: "ok"})
					return &h.Cells[len(h.Cells)-1]
				}
				cell(0, "", base).Baseline = v == 0
				twin := twinOf(s, v, 0)
				for row, l := range label {
					if row == 0 {
						continue
					}
					settings := maps.Clone(base)
					for i, x := range m.settings {
						if row == i+1 || l == "all" {
							settings[x.name] = x.value
						}
					}
					cell(row, l, settings)
					h.Comparisons = append(h.Comparisons, results.PlannedComparison{Cell: id(s, v, row), Against: id(s, v, 0), Twin: twin, Axis: "setting", ReplicateUnit: "generation"})
				}
				for row := range label {
					if s > 0 {
						h.Comparisons = append(h.Comparisons, results.PlannedComparison{Cell: id(s, v, row), Against: id(0, v, row), Twin: instanceTwin(v, row), Axis: "server", ReplicateUnit: unit})
					}
				}
				for row := range label {
					if v > 0 {
						h.Comparisons = append(h.Comparisons, results.PlannedComparison{Cell: id(s, v, row), Against: id(s, 0, row), Twin: twinOf(s, 0, row), Axis: "n", ReplicateUnit: "generation"})
					}
				}
				for k := range m.controls {
					if v > 0 {
						break
					}
					name := "control"
					if k > 0 {
						name = fmt.Sprintf("control %d", k+1)
						h.Comparisons = append(h.Comparisons, results.PlannedComparison{Cell: id(s, v, 100+k), Against: id(s, v, 0), Twin: twin, Axis: "control", ReplicateUnit: "generation"})
					} else {
						h.Controls = append(h.Controls, results.PlannedControl{Panel: panel.ID, Cell: id(s, v, 100), Against: id(s, v, 0), ReplicateUnit: "generation"})
					}
					cell(100+k, name, base).ControlOf = id(s, v, 0)
				}
			}
		}
		if m.controls > 0 && len(m.servers) > 1 {
			twin := h.Cells[slices.IndexFunc(h.Cells, func(c results.Cell) bool { return c.ID == id(0, 0, 0) })]
			twin.ID, twin.Instance, twin.Label, twin.Baseline, twin.ControlOf = id(0, 0, 200), "control", "control instance", false, twin.ID
			h.Cells = append(h.Cells, twin)
			h.Controls = append(h.Controls, results.PlannedControl{Panel: panel.ID, Cell: twin.ID, Against: twin.ControlOf, ReplicateUnit: "run"})
			if p == 0 {
				h.Instances = append(h.Instances, results.Instance{ID: "control", Server: m.servers[0].Label, Control: true})
			}
		}
		h.Panels = append(h.Panels, panel)
	}
	return h
}

// generation measures the cells of one panel: a level for all cells of a
// round, luck of each backend, noise of each slice.
func (m matrix) generation(rng *rand.Rand, h *results.Header, p *results.Panel, run, generation int, start map[string]float64) []results.Generation {
	base := 30_000.0
	if p.Mode == "single-transaction" {
		base = 25_000
	}
	weather := make([]float64, m.rounds)
	for r := range weather {
		weather[r] = 0.1 * rng.NormFloat64()
	}
	var out []results.Generation
	for i := range h.Cells {
		c := &h.Cells[i]
		if c.Panel != p.ID || c.Status != "ok" {
			continue
		}
		g := results.Generation{Type: "generation", Panel: p.ID, Cell: c.ID, Run: run, Generation: generation, Started: started.Add(time.Duration(run) * time.Second),
			ConnectNs: 2_000_000, WarmupNs: 3_000_000, WarmupTx: 100}
		luck := math.Exp(0.003*rng.NormFloat64() + start[c.Instance])
		cost := m.cost(c)
		var n, t int64
		for r := range m.rounds {
			per := base * cost * luck * math.Exp(weather[r]+0.06*rng.NormFloat64())
			count := int64(math.Ceil(float64(p.SliceNs) / per))
			took := int64(float64(count) * per)
			if p.Clients > 1 {
				count *= int64(p.Clients)
				took = p.SliceNs * int64(p.Clients)
				count = int64(float64(took) / per)
			}
			s := &g.Slices
			s.Round = append(s.Round, int64(r))
			s.Position = append(s.Position, int64(rng.IntN(len(h.Cells))))
			s.Predecessor = append(s.Predecessor, int64(rng.IntN(len(h.Cells))))
			s.StartUs = append(s.StartUs, int64(r)*25_000)
			s.N = append(s.N, count)
			s.T = append(s.T, took)
			s.HeadNs = append(s.HeadNs, 330_000+rng.Int64N(20_000))
			s.All = append(s.All, count+4)
			s.ServerCPU = append(s.ServerCPU, int64(float64(count+4)*(base*0.55+(cost-1)*base)*luck*math.Exp(0.02*rng.NormFloat64())))
			s.ServerWait = append(s.ServerWait, 0)
			s.ClientCPU = append(s.ClientCPU, int64(float64(count+4)*base*0.3/float64(p.Clients))) // one job thread
			s.ClientWait = append(s.ClientWait, 0)
			begin := int64(-1)
			if p.Mode == "single-transaction" {
				begin = 21_000 + rng.Int64N(3_000)
			}
			s.BeginNs = append(s.BeginNs, begin)
			s.CommitNs = append(s.CommitNs, begin)
			n, t = n+count, t+took
		}
		g.MeanNs = float64(t) / float64(n)
		latencies(&g)
		if m.edit == nil || m.edit(c, &g) {
			out = append(out, g)
		}
	}
	return out
}

// latencies gives a generation a histogram around its mean. Encoding is slow,
// so those of nearly equal means are one.
func latencies(g *results.Generation) {
	level := math.Round(math.Log(g.MeanNs) * 500)
	like, ok := encoded[level]
	if !ok {
		h := results.NewHistogram()
		rng := rand.New(rand.NewPCG(1, 1))
		for range 1400 {
			if err := h.RecordValue(int64(math.Exp(level/500 + 0.12*rng.NormFloat64()))); err != nil {
				panic(err)
			}
		}
		like = results.Generation{Histogram: results.EncodeHistogram(h), P50Ns: h.ValueAtQuantile(50), P95Ns: h.ValueAtQuantile(95), P99Ns: h.ValueAtQuantile(99),
			P999Ns: h.ValueAtQuantile(99.9), MaxNs: h.Max()}
		encoded[level] = like
	}
	g.Histogram, g.P50Ns, g.P95Ns, g.P99Ns, g.P999Ns, g.MaxNs = like.Histogram, like.P50Ns, like.P95Ns, like.P99Ns, like.P999Ns, like.MaxNs
}

var encoded = map[float64]results.Generation{}

// silence makes a generation in which nothing succeeded.
func silence(g *results.Generation, failures map[string]int64) {
	for i := range g.Slices.N {
		g.Slices.N[i] = 0
		g.Slices.T[i] = 2_100_000
		g.Slices.All[i] = 40
	}
	g.Histogram, g.MeanNs, g.P50Ns, g.P95Ns, g.P99Ns, g.P999Ns, g.MaxNs = "", 0, 0, 0, 0, 0, 0
	g.Failures = failures
}
