package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgtare/results"
	"pgtare/results/report"
)

var update = flag.Bool("update", false, "write the golden files anew")

// cases are the records whose reports are kept as goldens.
func cases() map[string]matrix {
	all := map[string]matrix{"default": theDefault()}
	short := func() matrix { // 20 generations
		m := theDefault()
		m.generations, m.rounds = 4, 12
		return m
	}

	m := short()
	m.title, m.args = "13 against 18", []string{"run", "--server", "13", "--server", "18", "--set", "track_wal_io_timing=off,on", "--set", "statement_timeout=0,100"}
	m.servers = []results.Server{other("13.22", "13.22"), other("18.1", "18.1")}
	m.settings = []setting{{"track_wal_io_timing", "off", "on"}, {"statement_timeout", "0", "100"}}
	m.runs, m.generations = 10, 2
	m.cost = func(c *results.Cell) float64 {
		cost := costs(map[string]float64{"track_wal_io_timing=on": 0.001, "statement_timeout=100": 0.04, "all": 0.041})(c)
		if c.Server == "18.1" {
			cost += 0.06
		}
		return cost
	}
	m.change = func(h *results.Header) {
		for i := range h.Cells {
			c := &h.Cells[i]
			if c.Server == "13.22" && (c.Label == "track_wal_io_timing=on" || c.Label == "all") {
				c.Status, c.Reason = "n/a", `unrecognized configuration parameter "track_wal_io_timing"`
			}
		}
		values := func(name string, values map[string]string) results.ServerValues {
			return results.ServerValues{Name: name, Values: values}
		}
		h.Defaults = &results.Defaults{Asked: "aligned",
			Aligned: []results.ServerValues{{Name: "jit", Values: map[string]string{"13.22": "on", "18.1": "off"}, Changed: "on before 19, then off"}},
			Differ:  []results.ServerValues{values("ssl_library", map[string]string{"13.22": "", "18.1": "OpenSSL"})},
			Only:    []results.ServerValues{values("io_method", map[string]string{"18.1": "worker"}), values("old_snapshot_threshold", map[string]string{"13.22": "-1"})}}
		for i := range h.Servers {
			h.Servers[i].Deviations = append(slices.Clone(h.Servers[i].Deviations), "jit=on")
		}
	}
	all["two-servers"] = m

	m = short()
	m.title, m.settings, m.modes = "work of known size", nil, []string{"per-statement"}
	m.workload, m.script, m.clients = "count.sql", "SELECT count(*) FROM generate_series(1, :n);", 8
	m.vars = map[string][]string{"n": {"1000", "2000", "3000"}}
	m.cost = func(c *results.Cell) float64 { return map[string]float64{"1000": 3, "2000": 5, "3000": 7}[c.Vars["n"]] }
	all["variable"] = m

	m = short()
	m.title, m.settings, m.modes = "a setting over a variable", []setting{{"jit", "off", "on"}}, []string{"per-statement"}
	m.workload, m.script, m.vars = "test.sql", "SELECT 1;\nSELECT :n;", map[string][]string{"n": {"1", "2"}}
	m.cost = func(c *results.Cell) float64 {
		return costs(map[string]float64{"jit=on": 0.05})(c) * map[string]float64{"1": 1, "2": 2}[c.Vars["n"]]
	}
	all["variable-setting"] = m

	m = short()
	m.settings, m.modes = []setting{{"track_io_timing", "off", "on"}, {"track_activities", "off", "on"}}, []string{"per-statement"}
	m.change = func(h *results.Header) {
		for i := range h.Cells {
			if h.Cells[i].Label == "track_io_timing=on" {
				h.Cells[i].NotExercised = "no block was read or written"
			}
		}
	}
	all["not-exercised"] = m

	m = short()
	m.modes = []string{"per-statement"}
	m.cost = costs(map[string]float64{"control": 0.02})
	all["failed-control"] = m

	m = short()
	m.modes, m.controls = []string{"per-statement"}, 0
	all["no-control"] = m

	m = short()
	m.modes, m.runs, m.generations = []string{"per-statement"}, 1, 1
	all["one-generation"] = m

	m = short()
	m.modes = []string{"per-statement"}
	m.edit = func(c *results.Cell, g *results.Generation) bool {
		switch c.Label {
		case "statement_timeout=100", "all":
			silence(g, map[string]int64{"57014": 790, "40001": 10})
		case "track_activities=on":
			g.Failures = map[string]int64{"40001": 30}
		}
		return true
	}
	m.end = &results.End{Status: "failed", Reason: "2 cells failed", Ended: started}
	all["failed"] = m

	m = short()
	m.modes, m.end = []string{"per-statement"}, nil
	m.edit = func(c *results.Cell, g *results.Generation) bool {
		if g.Run == 3 && g.Generation == 3 {
			g.Lost = "server closed the connection unexpectedly"
		}
		return g.Run < 3 || g.Run == 3 && g.Generation <= 3
	}
	all["cut"] = m

	m = short()
	m.title, m.transactions, m.modes = "the mail of 2006", 100000, []string{"per-statement"}
	m.servers = nil
	for _, label := range []string{"8.1 old box", "HEAD", "a-label-that-goes-on-and-on-for-ever-and-then-some-more-to-63", "größer", "18"} {
		m.servers = append(m.servers, other(label, "18.1"))
	}
	m.settings = append(m.settings[1:2], setting{"an_extension." + strings.Repeat("long_", 9) + "name", "off", "on"})
	m.runs, m.generations, m.rounds = 10, 2, 12
	m.change = func(h *results.Header) {
		h.Defaults = &results.Defaults{Asked: "shipped", Aligned: []results.ServerValues{}, Only: []results.ServerValues{},
			Differ: []results.ServerValues{{Name: "checkpoint_completion_target", Values: map[string]string{}}}}
		for i, s := range h.Servers {
			if i != 2 {
				h.Defaults.Differ[0].Values[s.Label] = map[bool]string{true: "0.5", false: "0.9"}[i == 0]
			}
		}
	}
	all["many-servers"] = m

	m = short()
	m.modes = []string{"per-statement"}
	m.settings = m.settings[:1]
	m.edit = func(c *results.Cell, g *results.Generation) bool {
		if c.Label == "track_activities=on" {
			g.Slices.T[len(g.Slices.T)/2] += 1_500_000
		}
		return true
	}
	all["bursts"] = m

	m = short()
	m.modes, m.settings, m.controls = []string{"per-statement"}, nil, 4
	m.cost = costs(nil)
	all["equal-cells"] = m

	// Clock sources in the place of a variable, and columns of one's own choice.
	m = short()
	m.title, m.settings = "a setting by two clocks", []setting{{"track_io_timing", "off", "on"}}
	m.vars = map[string][]string{"clocksource": {"tsc", "kvm-clock"}}
	m.cost = func(c *results.Cell) float64 {
		return costs(map[string]float64{"track_io_timing=on": 0.02})(c) * map[string]float64{"tsc": 1, "kvm-clock": 1.03}[c.Axes["clocksource"]]
	}
	m.change = func(h *results.Header) {
		h.Environment.Clocks, h.Environment.OwnClock = []results.Clock{{Source: "tsc", ReadNs: 24}, {Source: "kvm-clock", ReadNs: 45}}, "counter"
		h.Columns = []string{"mode", "clocksource"}
		for i := range h.Cells {
			h.Cells[i].Vars = nil
			h.Cells[i].Baseline = h.Cells[i].Baseline && h.Cells[i].Axes["clocksource"] == "tsc"
		}
		for i := range h.Comparisons {
			if h.Comparisons[i].Axis == "n" {
				h.Comparisons[i].Axis = "clocksource"
			}
		}
	}
	all["clocksources"] = m

	// Settings on instances of their own: blocks, each one slice.
	m = short()
	m.title, m.modes, m.runs, m.generations, m.rounds = "what reaches the WAL", []string{"per-statement"}, 12, 1, 1
	m.workload, m.script = "insert", "INSERT INTO t DEFAULT VALUES;"
	m.settings = []setting{{"wal_compression", "off", "on"}, {"commit_delay", "0", "10"}}
	m.cost = costs(map[string]float64{"wal_compression=on": -0.03, "commit_delay=10": 0.08, "all": 0.05})
	m.change = func(h *results.Header) {
		h.Until = 2
		for i := range h.Panels {
			h.Panels[i].Schedule, h.Panels[i].Waits = "block", map[string]int64{"": 310, "IO": 88, "LWLock": 22, "Lock": 0}
			h.Panels[i].SliceNs = 1_000_000_000
		}
		for i := range h.Cells {
			c := &h.Cells[i]
			c.Schedule, c.Isolation = "block", "instance"
			c.Instance = "i-" + c.ID
			h.Instances = append(h.Instances, results.Instance{ID: c.Instance, Server: c.Server})
		}
		for i := range h.Comparisons {
			h.Comparisons[i].ReplicateUnit = "run"
		}
		for i := range h.Controls {
			h.Controls[i].ReplicateUnit = "run"
		}
	}
	m.edit = func(c *results.Cell, g *results.Generation) bool {
		b := &results.Background{Transactions: g.Slices.All[0] + 100, Measured: g.Slices.All[0], CPUNs: 2100 * g.Slices.All[0], WALBytes: 190 * (g.Slices.All[0] + 100), PagesRead: 3, PagesWritten: 420, Checkpoints: 1, Vacuums: int64(g.Run % 2)}
		if strings.Contains(c.Label, "wal_compression") || c.Label == "all" {
			b.WALBytes, b.CPUNs = b.WALBytes*2/3, b.CPUNs*5/4
		}
		g.Background = b
		return true
	}
	all["block"] = m
	return all
}

// TestColumns: whatever stands as columns, each cell has its figure once, and
// what isn't an axis is refused.
func TestColumns(t *testing.T) {
	all := cases()
	for _, name := range []string{"two-servers", "variable-setting", "clocksources", "equal-cells", "many-servers"} {
		rec := all[name].record(t)
		axes := []string{}
		for _, a := range rec.Header.Axes {
			if len(a.Values) > 1 {
				axes = append(axes, a.Name)
			}
		}
		for _, s := range all[name].settings {
			axes = append(axes, s.name)
		}
		r, err := report.Build(rec)
		if err != nil {
			t.Fatal(err)
		}
		for i, axis := range axes {
			columns := []string{axis, axes[(i+1)%len(axes)]}
			if len(axes) == 1 || i%2 == 0 {
				columns = columns[:1]
			}
			if err := r.SetColumns(columns); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var text bytes.Buffer
			if err := r.Text(&text); err != nil {
				t.Fatal(err)
			}
			checkText(t, text.String())
			want := 0
			for _, c := range r.Cells {
				if c.Median != nil || c.Status == "n/a" {
					want++
				}
			}
			// From the header's blank line up to the overheads; a number in a label has
			// other signs around it.
			_, table, _ := strings.Cut(text.String(), "UTC\n\n")
			table, _, _ = strings.Cut(table, "overhead, %")
			figures := 0
			for _, l := range strings.Split(table, "\n") {
				for _, word := range strings.Fields(l) {
					if regexp.MustCompile(`^[0-9]{4,}$|^[0-9]\.[0-9]{3}$|^n/a$`).MatchString(word) && word != "100000" {
						figures++
					}
				}
			}
			if figures != want {
				t.Errorf("%s by %q: %d figures of %d cells:\n%s", name, columns, figures, want, table)
			}
		}
		if err := r.SetColumns([]string{"moon"}); err == nil || !strings.Contains(err.Error(), "there is no axis moon in the record; there are ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGolden holds the reports of made-up records against files.
func TestGolden(t *testing.T) {
	all := cases()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			r, err := report.Build(all[name].record(t))
			if err != nil {
				t.Fatal(err)
			}
			var text, object bytes.Buffer
			if err := r.Text(&text); err != nil {
				t.Fatal(err)
			}
			if err := r.JSON(&object); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".stdout", text.Bytes())
			golden(t, name+".json", object.Bytes())
			checkText(t, text.String())
			checkJSON(t, object.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		at := filepath.Join("testdata", ".got-"+name)
		if err := os.WriteFile(at, got, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Errorf("%s differs: diff %s %s", name, path, at)
	}
}

// checkText holds what is true of every text: 78 columns, plain ASCII, no
// blanks at line ends, no number that is none.
func checkText(t testing.TB, text string) {
	t.Helper()
	for i, line := range strings.Split(text, "\n") {
		if len(line) > 78 {
			t.Errorf("line %d has %d columns: %s", i+1, len(line), line)
		}
		if strings.TrimRight(line, " ") != line {
			t.Errorf("line %d ends in blanks: %q", i+1, line)
		}
		for _, c := range []byte(line) {
			if c < ' ' || c > '~' {
				t.Errorf("line %d isn't plain ASCII: %q", i+1, line)
				break
			}
		}
	}
}

// build makes the report of a made-up record.
func build(t testing.TB, m matrix) *report.Report {
	t.Helper()
	r, err := report.Build(m.record(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// shortDefault is the default matrix, one mode, 20 generations of 12 rounds.
func shortDefault() matrix {
	m := theDefault()
	m.modes, m.generations, m.rounds = []string{"per-statement"}, 4, 12
	return m
}

// TestSchema holds that every key of schema 1 is there, and where.
func TestSchema(t *testing.T) {
	m := shortDefault()
	m.edit = func(c *results.Cell, g *results.Generation) bool {
		g.Failures = map[string]int64{"40001": 1}
		if c.Label == "all" {
			g.Slices.T[3] += 2_000_000
		}
		return true
	}
	var b bytes.Buffer
	if err := build(t, m).JSON(&b); err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(b.Bytes(), &object); err != nil {
		t.Fatal(err)
	}
	check := func(where string, v any, keys string) {
		t.Helper()
		got, ok := v.(map[string]any)
		if !ok {
			t.Errorf("%s is %v", where, v)
			return
		}
		for _, key := range strings.Fields(keys) {
			if _, ok := got[key]; !ok {
				t.Errorf("%s lacks %s", where, key)
			}
		}
	}
	list := func(key string, i int) map[string]any { return object[key].([]any)[i].(map[string]any) }
	check("the object", object, "schema pgtare title seed environment trusted margin warnings controls panels cells comparisons")
	check("a warning", list("warnings", 0), "code cells text remedy")
	check("a control", list("controls", 0), "panel cell against pct lo hi t p replicates ok")
	check("a panel", list("panels", 0), "id head slice_ns rounds heterogeneity anchor anchors waits")
	check("heterogeneity", list("panels", 0)["heterogeneity"], "f p")
	check("an anchor", list("panels", 0)["anchor"], "tps seconds")
	check("a cell", list("cells", 1), "id panel axes settings isolation schedule baseline control status reason runs unit median min max tps transactions failures latency_us head_ns begin_ns commit_ns server_cpu_ns client_cpu_ns client_share_pct background")
	check("axes", list("cells", 1)["axes"], "server mode workload setting")
	check("a latency", list("cells", 1)["latency_us"], "mean stddev p50 p95 p99 p99.9 max")
	all := list("comparisons", 3)
	check("a comparison", all, "cell against axis pct lo hi ns ns_lo ns_hi typical total bursts cpu percentiles p p_adjusted replicates replicate_unit would_see time_factor verdict")
	check("typical", all["typical"], "pct lo hi")
	check("total", all["total"], "pct lo hi")
	check("bursts", all["bursts"], "pct p")
	check("cpu", all["cpu"], "pct lo hi ns ns_lo ns_hi")
	if l := list("cells", 1)["latency_us"].(map[string]any); l["p99.9"] != nil || l["max"] != nil {
		t.Error("p99.9 and max are given under slices")
	}
	if object["schema"] != 1.0 || object["trusted"] != true {
		t.Errorf("schema %v, trusted %v", object["schema"], object["trusted"])
	}
	if all["pct"] != all["total"].(map[string]any)["pct"] {
		t.Error("total decides where there are bursts")
	}
	if other := list("comparisons", 0); other["pct"] != other["typical"].(map[string]any)["pct"] || other["bursts"] != nil {
		t.Error("typical decides where there are none")
	}
}

// TestKnownCosts: what was put in comes out, in per cent, ns and CPU.
func TestKnownCosts(t *testing.T) {
	m := theDefault()
	m.generations, m.rounds = 12, 12
	r := build(t, m)
	want := map[string]float64{"track_activities=on": 1.1, "log_min_duration_statement=100": 0.3, "statement_timeout=100": 4.2, "all": 5.5}
	for _, x := range r.Comparisons {
		i := slices.IndexFunc(r.Cells, func(c report.Cell) bool { return c.ID == x.Cell })
		setting, mode := r.Cells[i].Axes["setting"], r.Cells[i].Axes["mode"]
		base := map[string]float64{"per-statement": 30_000, "single-transaction": 25_000}[mode]
		// A twentieth of honest intervals miss; twice the half-width hardly any.
		near := func(what string, got, lo, hi *float64, want float64) {
			if got == nil || lo == nil || hi == nil || math.Abs(*got-want) > *hi-*lo {
				t.Errorf("%s, %s: %s is %v [%v, %v], want %v", setting, mode, what, got, lo, hi, want)
			}
		}
		near("pct", x.Pct, x.Lo, x.Hi, want[setting])
		near("ns", x.Ns, x.NsLo, x.NsHi, want[setting]/100*base)
		near("cpu ns", &x.CPU.Ns, x.CPU.NsLo, x.CPU.NsHi, want[setting]/100*base)
		if x.Replicates != 60 || x.ReplicateUnit != "generation" {
			t.Errorf("%s: %d replicates by %s", setting, x.Replicates, x.ReplicateUnit)
		}
	}
}

// TestDoubts provokes each warning, and none without it.
func TestDoubts(t *testing.T) {
	codes := func(m matrix) map[string]report.Warning {
		t.Helper()
		out := map[string]report.Warning{}
		for _, w := range build(t, m).Warnings {
			if w.Text == "" || w.Remedy == "" {
				t.Errorf("%s: a warning without text or remedy", w.Code)
			}
			out[w.Code] = w
		}
		return out
	}
	check := func(name string, change func(m *matrix), want ...string) {
		t.Helper()
		m := shortDefault()
		change(&m)
		got := slices.Sorted(maps.Keys(codes(m)))
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	edit := func(change func(c *results.Cell, g *results.Generation)) func(m *matrix) {
		return func(m *matrix) {
			m.edit = func(c *results.Cell, g *results.Generation) bool { change(c, g); return true }
		}
	}
	check("nothing wrong", func(*matrix) {})
	check("cut", func(m *matrix) { m.end = nil }, "record-cut")
	check("interrupted", func(m *matrix) { m.end = &results.End{Status: "interrupted", Reason: "SIGINT"} }, "interrupted")
	check("failed", func(m *matrix) { m.end = &results.End{Status: "failed"} }, "failed")
	check("few generations", func(m *matrix) { m.runs, m.generations = 2, 7 }, "few-replicates")
	check("enough generations", func(m *matrix) { m.runs, m.generations = 5, 3 })
	check("no control", func(m *matrix) { m.controls = 0 }, "no-control")
	check("a control that differs", func(m *matrix) { m.cost = costs(map[string]float64{"control": 0.03}) }, "control-failed")
	check("a few failures", edit(func(c *results.Cell, g *results.Generation) { g.Failures = map[string]int64{"40001": 6} }))
	check("more failures", edit(func(c *results.Cell, g *results.Generation) { g.Failures = map[string]int64{"40001": 12} }), "failures")
	check("nothing but failures", edit(func(c *results.Cell, g *results.Generation) {
		if c.Label == "all" {
			silence(g, map[string]int64{"57014": 800})
		}
	}), "cell-failed", "failures")
	check("a lost generation", edit(func(c *results.Cell, g *results.Generation) {
		if g.Run == 2 && g.Generation == 2 {
			g.Lost = "the server went away"
		}
	}), "generations-lost")
	check("latency apart", edit(func(c *results.Cell, g *results.Generation) {
		if c.Label == "all" {
			g.MeanNs *= 1.2
		}
	}), "latency-mismatch")
	check("latency near", edit(func(c *results.Cell, g *results.Generation) { g.MeanNs *= 1.08 }))
	check("hardly anything completed", edit(func(c *results.Cell, g *results.Generation) {
		if c.Label == "all" {
			for i := range g.Slices.N {
				g.Slices.N[i], g.Slices.T[i] = 0, 0
			}
			g.Slices.N[0], g.Slices.T[0], g.MeanNs = 1, 0, 1
		}
	}), "no-interval")
	check("bursts", edit(func(c *results.Cell, g *results.Generation) {
		if c.Label == "all" {
			g.Slices.T[3] += 2_000_000
		}
	}), "bursts")
	check("an outlier", edit(func(c *results.Cell, g *results.Generation) {
		if c.Label == "all" && g.Run == 3 && g.Generation == 1 {
			for i := range g.Slices.T {
				g.Slices.T[i] *= 2
			}
			g.MeanNs *= 2
		}
	}), "outlier")
	server := func(change func(s *results.Server)) func(m *matrix) {
		return func(m *matrix) {
			s := other("15.18", "15.18")
			change(&s)
			m.servers = []results.Server{s}
		}
	}
	check("-O2", server(func(s *results.Server) { s.Build["CFLAGS"] = "-O0 -O2" }))
	check("-Os", server(func(s *results.Server) { s.Build["CFLAGS"] = "-Os" }), "slow-build")
	check("no -O", server(func(s *results.Server) { s.Build["CFLAGS"] = "-g" }), "slow-build")
	check("flags unknown", server(func(s *results.Server) { delete(s.Build, "CFLAGS") }))
	check("assertions", server(func(s *results.Server) { s.Assertions = true }), "slow-build")
	two := func(change func(s *results.Server)) func(m *matrix) {
		return func(m *matrix) {
			s := other("18.1", "18.1")
			change(&s)
			m.servers, m.settings, m.runs, m.generations = []results.Server{debian15, s}, m.settings[:1], 10, 2
		}
	}
	check("two builds alike", two(func(*results.Server) {}))
	check("two compilers", two(func(s *results.Server) { s.Compiler = "gcc 7.5.0" }), "builds-differ")
	check("few runs", func(m *matrix) {
		m.servers, m.settings, m.runs, m.generations = []results.Server{debian15, other("18.1", "18.1")}, m.settings[:1], 9, 2
	}, "few-replicates")
	check("of the record", func(m *matrix) {
		m.change = func(h *results.Header) {
			h.Warnings = []results.Warning{{Code: "isolation-assumed", Cells: []string{h.Cells[1].ID}, Text: "not in the table", Remedy: "say @instance"}}
		}
	}, "isolation-assumed")

	m := shortDefault()
	m.edit = func(c *results.Cell, g *results.Generation) bool {
		if c.Label == "all" {
			g.MeanNs *= 1.2
		}
		return true
	}
	if w := codes(m)["latency-mismatch"]; len(w.Cells) != 1 || w.Cells[0] != "p1-s1-v1-4" || !strings.Contains(w.Text, "17 %") {
		t.Errorf("%+v", w)
	}
}

// TestStatus: what became of each cell.
func TestStatus(t *testing.T) {
	m := shortDefault()
	m.change = func(h *results.Header) {
		h.Cells[1].Status, h.Cells[1].Reason = "n/a", "unknown"
	}
	m.edit = func(c *results.Cell, g *results.Generation) bool {
		switch c.Label {
		case "log_min_duration_statement=100":
			g.Lost = "the server went away"
		case "statement_timeout=100":
			return g.Run < 5
		case "all":
			return g.Run < 5 || g.Generation < 4
		}
		return true
	}
	r := build(t, m)
	want := map[string]string{"baseline": "ok", "track_activities=on": "n/a unknown", "log_min_duration_statement=100": "failed no generation came to its end: the server went away",
		"statement_timeout=100": "partial 4 of 5 runs were measured", "all": "partial 5 of 5 runs were measured, not all with all their generations", "control": "ok"}
	for _, c := range r.Cells {
		got := c.Status
		if c.Reason != nil {
			got += " " + *c.Reason
		}
		if got != want[c.Axes["setting"]] {
			t.Errorf("%s: %s, want %s", c.Axes["setting"], got, want[c.Axes["setting"]])
		}
	}
	if len(r.Comparisons) != 3 {
		t.Fatalf("%d comparisons, want those of the cells that aren't n/a", len(r.Comparisons))
	}
	if x := r.Comparisons[0]; x.Verdict != "unclear" || x.Reason == nil || x.Pct != nil {
		t.Errorf("the failed cell: %+v", x)
	}
	if x := r.Comparisons[1]; x.Pct == nil || x.Replicates != 16 {
		t.Errorf("the partial cell: %+v", x)
	}
}

// TestNothingPlanned is the one record without a report.
func TestNothingPlanned(t *testing.T) {
	if _, err := report.Build(&results.Record{}); err == nil {
		t.Error("no error")
	}
}

// TestPlanOnly: a record of which only the header was written has a report.
func TestPlanOnly(t *testing.T) {
	m := shortDefault()
	m.edit = func(*results.Cell, *results.Generation) bool { return false }
	m.end = nil
	var text, object bytes.Buffer
	r := build(t, m)
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.JSON(&object); err != nil {
		t.Fatal(err)
	}
	checkText(t, text.String())
	if !strings.Contains(text.String(), "0 of 5 runs") || !strings.Contains(text.String(), "record-cut") {
		t.Error(text.String())
	}
}

// TestExtremes puts the ends of what a record may hold into its columns: no
// report may panic, overflow its lines or hold a number that is none.
func TestExtremes(t *testing.T) {
	values := []int64{0, 1, 1e15}
	m := shortDefault()
	m.runs, m.generations, m.rounds = 3, 2, 12
	m.transactions = 1e15
	rng := rand.New(rand.NewPCG(7, 7))
	for range 15 {
		rate := rng.Float64()
		spoil := func(column []int64, negative bool) {
			for i := range column {
				if rng.Float64() < rate {
					column[i] = values[rng.IntN(len(values))]
					if negative && rng.IntN(4) == 0 {
						column[i] = -1
					}
				}
			}
		}
		m.edit = func(c *results.Cell, g *results.Generation) bool {
			s := &g.Slices
			spoil(s.N, false)
			spoil(s.T, false)
			spoil(s.All, false)
			for range s.N {
				s.ElapsedNs = append(s.ElapsedNs, 2_000_000)
			}
			b := []int64{1, 1, 1, 1, 1, 1, 1}
			spoil(b, true)
			g.Background = &results.Background{Transactions: b[0], Measured: b[0], CPUNs: b[1], WALBytes: b[2], PagesRead: b[3], PagesWritten: b[4], Checkpoints: b[5], Vacuums: b[6]}
			io := []int64{1, 1, 1}
			spoil(io, false)
			g.FileIO = &results.FileIO{Transactions: io[0], ReadBytes: io[1], WrittenBytes: io[2]}
			g.Moves, g.Switches = values[rng.IntN(len(values))], values[rng.IntN(len(values))]
			for _, column := range [][]int64{s.HeadNs, s.ElapsedNs, s.ServerCPU, s.ClientCPU, s.ServerWait, s.ClientWait, s.BeginNs, s.CommitNs} {
				spoil(column, true)
			}
			if rng.IntN(5) == 0 {
				g.MeanNs = 1e15
			}
			if rng.IntN(5) == 0 {
				g.Failures = map[string]int64{"": 1e15, strings.Repeat("x", 100): 1e15}
			}
			return rng.IntN(10) > 0
		}
		rec := m.record(t)
		for i := range 20 {
			v := []int64{1, 1, 1, 1, 1, 1}
			spoil(v, true)
			rec.Machine = append(rec.Machine, results.Machine{Type: "machine", Panel: "p1", Run: 1, Generation: 1 + i, ElapsedNs: values[rng.IntN(3)], CPUs: rng.IntN(3),
				BusyNs: v[0], StealNs: v[1], OwnNs: v[2], ThrottledNs: v[3], MinKHz: v[4], MaxKHz: v[5], Clocksource: strings.Repeat("x", rng.IntN(200))})
		}
		formats(t, reread(t, rec))
	}
}

// TestOddNames puts odd texts and numbers all over the header.
func TestOddNames(t *testing.T) {
	odd := []any{"", " ", strings.Repeat("x", 500), strings.Repeat("long words ", 40), "größer\n\t\x1b[31m", "a,b=c'd", -1.0, 0.0, 1e15, 0.1, nil, true}
	m := shortDefault()
	m.servers, m.settings, m.runs, m.generations, m.rounds = []results.Server{debian15, other("18.1", "18.1")}, m.settings[:1], 3, 1, 2
	m.vars = map[string][]string{"n": {"1", "2"}}
	text := lines(t, m.record(t))
	header, rest, _ := strings.Cut(text, "\n")
	rng := rand.New(rand.NewPCG(8, 8))
	for readable, tries := 0, 0; readable < 20; tries++ {
		if tries == 2000 {
			t.Fatalf("only %d headers of %d could be read: the test shows little", readable, tries)
		}
		var v any
		if err := json.Unmarshal([]byte(header), &v); err != nil {
			t.Fatal(err)
		}
		for range 1 + rng.IntN(3) {
			spoil(rng, v, odd)
		}
		spoilt, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		rec, err := results.Read(strings.NewReader(string(spoilt) + "\n" + rest))
		if err != nil {
			continue
		}
		readable++
		formats(t, rec)
	}
}

// spoil replaces one leaf of a JSON value.
func spoil(rng *rand.Rand, v any, odd []any) {
	for {
		var next any
		var set func(any)
		switch in := v.(type) {
		case map[string]any:
			names := slices.Sorted(maps.Keys(in))
			if len(names) == 0 {
				return
			}
			name := names[rng.IntN(len(names))]
			next, set = in[name], func(x any) { in[name] = x }
		case []any:
			if len(in) == 0 {
				return
			}
			i := rng.IntN(len(in))
			next, set = in[i], func(x any) { in[i] = x }
		}
		switch next.(type) {
		case map[string]any, []any:
			v = next
		default:
			set(odd[rng.IntN(len(odd))])
			return
		}
	}
}

// formats makes everything of a record and checks it.
func formats(t testing.TB, rec *results.Record) {
	t.Helper()
	r, err := report.Build(rec)
	if err != nil {
		return
	}
	var text, object bytes.Buffer
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.JSON(&object); err != nil {
		t.Fatal(err)
	}
	checkText(t, text.String())
	checkJSON(t, object.Bytes())
	for _, word := range []string{"NaN", "Inf"} {
		if strings.Contains(text.String(), word) {
			t.Errorf("a %s in the text:\n%s", word, text.String())
		}
	}
}

// FuzzReport changes the bytes of small records.
func FuzzReport(f *testing.F) {
	all := cases()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		m.runs, m.generations, m.rounds = 3, 1, 2
		if len(m.servers) > 2 {
			m.servers = m.servers[2:4]
		}
		rec := m.record(f)
		for i := range rec.Generations {
			rec.Generations[i].Histogram = ""
		}
		f.Add([]byte(lines(f, rec)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := results.Read(bytes.NewReader(data))
		if err != nil || bytes.Contains(data, []byte("NaN")) || bytes.Contains(data, []byte("Inf")) {
			return
		}
		formats(t, rec)
	})
}

// checkJSON holds that the JSON form is one object that reads back.
func checkJSON(t testing.TB, object []byte) {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(object, &v); err != nil {
		t.Errorf("not an object: %v", err)
	}
}
