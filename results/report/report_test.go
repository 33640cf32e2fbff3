package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
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
		m.generations = 4
		return m
	}

	m := short()
	m.title, m.args = "13 against 18", []string{"pgtare", "run", "--server", "13", "--server", "18", "--set", "track_wal_io_timing=off,on", "--set", "statement_timeout=0,100"}
	m.servers = []results.Server{other("13.22", "13.22"), other("18.1", "18.1")}
	m.settings = []setting{{"track_wal_io_timing", "off", "on"}, {"statement_timeout", "0", "100"}}
	m.runs, m.generations = 10, 4
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
	}
	all["two-servers"] = m

	m = short()
	m.title, m.settings, m.modes = "work of known size", nil, []string{"per-statement"}
	m.workload, m.script, m.clients = "count.sql", "SELECT count(*) FROM generate_series(1, :n);", 8
	m.vars = map[string][]string{"n": {"1000", "2000", "3000"}}
	m.cost = func(c *results.Cell) float64 { return map[string]float64{"1000": 3, "2000": 5, "3000": 7}[c.Vars["n"]] }
	all["variable"] = m

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
		if g.Run == 3 && g.Generation == 5 {
			g.Lost = "server closed the connection unexpectedly"
		}
		return g.Run < 3 || g.Run == 3 && g.Generation <= 5
	}
	all["cut"] = m

	m = short()
	m.title, m.transactions, m.modes = "the mail of 2006", 100000, []string{"per-statement", "single-transaction"}
	m.servers = nil
	for _, label := range []string{"8.1 old box", "HEAD", "a-label-that-goes-on-and-on-for-ever-and-then-some-more-to-63", "größer", "18"} {
		m.servers = append(m.servers, other(label, "18.1"))
	}
	m.settings = append(m.settings, setting{"an_extension." + strings.Repeat("long_", 9) + "name", "off", "on"})
	m.runs, m.generations = 10, 2
	all["many-servers"] = m

	m = short()
	m.modes = []string{"per-statement"}
	m.settings = m.settings[:1]
	m.edit = func(c *results.Cell, g *results.Generation) bool {
		if c.Label == "track_activities=on" {
			g.Slices.T[7] += 1_500_000
		}
		return true
	}
	all["bursts"] = m

	m = short()
	m.modes, m.settings, m.controls = []string{"per-statement"}, nil, 4
	m.cost = costs(nil)
	all["equal-cells"] = m
	return all
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

// checkJSON holds that the JSON form is one object that reads back.
func checkJSON(t testing.TB, object []byte) {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(object, &v); err != nil {
		t.Errorf("not an object: %v", err)
	}
}
