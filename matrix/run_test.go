package matrix

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgtare/matrix/server"
	"pgtare/matrix/server/servertest"
	"pgtare/results"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// run carries out a plan and returns the record and the steps taken.
func run(t *testing.T, spec Spec) (*results.Record, []string) {
	t.Helper()
	servertest.Start(t) // skips, or fails in CI, where no PostgreSQL is to be had
	spec.Seed = 1
	plan, err := NewPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	path, err := Run(t.Context(), plan, RunConfig{Record: filepath.Join(t.TempDir(), "r.jsonl"), Pgtare: "test",
		Log: func(s string) { t.Log(s) }, Trace: func(s string) { steps = append(steps, s) }})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := results.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if rec.End == nil || rec.End.Status != "complete" {
		t.Fatalf("the record ends with %+v", rec.End)
	}
	return rec, steps
}

func generations(steps []string) (list []string) {
	for _, s := range steps {
		if strings.HasPrefix(s, "run ") {
			list = append(list, s)
		}
	}
	return list
}

// The steps of a run on one instance, in order; each round holds every cell of
// its panel once, in fresh order, and no cell follows itself.
func TestOrder(t *testing.T) {
	rec, steps := run(t, Spec{Workload: builtinWorkload(t, "select1"), Modes: []Mode{PerStatement, SingleTransaction}, Controls: 1,
		Settings: []SettingAxis{set("track_activities", "off", "on"), set("statement_timeout", "0", "100s")}, Runs: 2, Duration: 60 * time.Millisecond, Rounds: 12})

	want := []string{"finding PostgreSQL", "starting", "start i1", "probing", "making tables", "trying the script",
		"asking what the settings can act on", "pilot", "anchor", "header"}
	if got := steps[:len(want)]; !slices.Equal(got, want) {
		t.Errorf("steps %q, expected %q", got, want)
	}
	if last := steps[len(steps)-1]; last != "close" {
		t.Errorf("the last step is %q", last)
	}
	perRun := rec.Header.Panels[0].Generations
	if got := generations(steps); len(got) != 2*(perRun+rec.Header.Panels[1].Generations) {
		t.Errorf("%d generations, expected 2 runs of %d and %d", len(got), perRun, rec.Header.Panels[1].Generations)
	}

	type key struct {
		panel           string
		run, generation int
	}
	together := map[key][]results.Generation{}
	for _, g := range rec.Generations {
		k := key{g.Panel, g.Run, g.Generation}
		together[k] = append(together[k], g)
	}
	orders := map[string]bool{}
	for k, list := range together {
		if len(list) != 5 {
			t.Fatalf("generation %v holds %d cells, expected baseline, 2 settings, all and control", k, len(list))
		}
		order := make([]string, 12*5)
		for _, g := range list {
			if n := len(g.Slices.Round); n != 12 {
				t.Fatalf("generation %v of %s has %d rounds, expected 12", k, g.Cell, n)
			}
			for i := range g.Slices.Round {
				at := int(g.Slices.Round[i])*5 + int(g.Slices.Position[i])
				if order[at] != "" {
					t.Fatalf("generation %v: %s and %s in one place", k, order[at], g.Cell)
				}
				order[at] = g.Cell
			}
		}
		for i := 1; i < len(order); i++ {
			if order[i] == order[i-1] {
				t.Errorf("generation %v: %s follows itself", k, order[i])
			}
		}
		for i := 0; i < len(order); i += 5 {
			orders[fmt.Sprint(order[i:i+5])] = true
		}
		for _, g := range list {
			for i, p := range g.Slices.Predecessor {
				at, before := int(g.Slices.Round[i])*5+int(g.Slices.Position[i]), ""
				if p >= 0 {
					before = rec.Header.Cells[p].ID
				}
				if at > 0 && order[at-1] != before || at == 0 && before != "" {
					t.Errorf("generation %v: %s has predecessor %q, expected the cell before it", k, g.Cell, before)
				}
			}
		}
	}
	if len(orders) < 20 {
		t.Errorf("only %d different orders of a round", len(orders))
	}
	for _, g := range rec.Generations {
		single := g.Panel == "b"
		for i := range g.Slices.BeginNs {
			if (g.Slices.BeginNs[i] > 0) != single || (g.Slices.CommitNs[i] > 0) != single {
				t.Fatalf("panel %s: BEGIN took %d ns, COMMIT %d", g.Panel, g.Slices.BeginNs[i], g.Slices.CommitNs[i])
			}
		}
	}
}

// Every run of a server axis begins with a new start of every instance, a
// setting that one server lacks is n/a there, and the number of sessions is
// equal on all instances.
func TestServers(t *testing.T) {
	rec, steps := run(t, Spec{Workload: builtinWorkload(t, "insert"), Servers: fetched(t), Controls: 1, Clients: 2,
		Settings: []SettingAxis{set("track_wal_io_timing", "off", "on")}, Runs: 2, Duration: 50 * time.Millisecond})
	runs := 0
	for i, s := range steps {
		if strings.HasPrefix(s, "run ") && (i == 0 || !strings.HasPrefix(steps[i-1], "run ")) {
			runs++
			restarts := slices.Clone(steps[i-3 : i])
			slices.Sort(restarts)
			if !slices.Equal(restarts, []string{"restart i1", "restart i2", "restart i3"}) {
				t.Errorf("before %q: %q, expected a restart of every instance", s, restarts)
			}
		}
	}
	if runs != 2 {
		t.Errorf("%d runs begin with a restart, expected 2", runs)
	}
	old, new := rec.Header.Servers[0].Label, rec.Header.Servers[1].Label
	for _, c := range rec.Header.Cells {
		want := "ok"
		if c.Label == "track_wal_io_timing=on" && c.Server == old {
			want = "n/a"
		}
		if c.Status != want {
			t.Errorf("cell %s (%s on %s) is %s, expected %s", c.ID, c.Label, c.Server, c.Status, want)
		}
		if _, found := c.Settings["track_wal_io_timing"]; found != (c.Server == new) && c.Status == "ok" {
			t.Errorf("cell %s on %s: settings %v", c.ID, c.Server, c.Settings)
		}
	}
	if got := rec.Header.Panels[0].Sessions; got != 6 {
		t.Errorf("%d sessions, expected those of baseline, setting and control on each instance", got)
	}
	for _, g := range rec.Generations {
		if slices.Max(g.Slices.N) == 0 || len(g.Failures) > 0 {
			t.Errorf("cell %s did nothing, or failed: %v", g.Cell, g.Failures)
		}
	}
}

// fetched is 13 and 18 of one origin.
func fetched(t *testing.T) []server.Spec {
	t.Helper()
	specs := serverSpecs(t, "13", "18")
	if _, err := server.Resolve(t.Context(), specs, server.ResolveConfig{}); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("needs PostgreSQL 13 and 18 of one origin: %v", err)
	}
	return specs
}

// A cell whose setting can't act says so; one whose setting can does not.
func TestExercised(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string // in the reason; "" for none
	}{
		{Spec{Workload: builtinWorkload(t, "select1"), Settings: []SettingAxis{set("track_io_timing", "off", "on")}}, "0 pages were read"},
		{Spec{Workload: builtinWorkload(t, "insert"), Settings: []SettingAxis{set("track_functions", "none", "all")}}, "no function is called"},
		{Spec{Workload: builtinWorkload(t, "select1"), Settings: []SettingAxis{set("track_activities", "off", "on")}}, ""},
		{Spec{Workload: scriptWorkload(t, "select count(*) from (select n from generate_series(1, 5000) n order by n desc) s"),
			Settings: []SettingAxis{set("work_mem", "64kB"), set("track_io_timing", "off", "on")}}, ""}, // spills to a temporary file
	} {
		c.spec.Controls, c.spec.Runs, c.spec.Duration = 1, 1, time.Millisecond
		rec, _ := run(t, c.spec)
		for _, cell := range rec.Header.Cells {
			if cell.Label == "" || cell.ControlOf != "" {
				continue
			}
			if got := cell.NotExercised; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%s: %s: not exercised %q, expected %q", rec.Header.Title, cell.Label, got, c.want)
			}
		}
	}
}

// -t asks for transactions: the record says so, and enough are measured.
func TestTransactions(t *testing.T) {
	rec, _ := run(t, Spec{Workload: builtinWorkload(t, "select1"), Controls: 1, Runs: 2, Transactions: 3000})
	if rec.Header.Unit != "s" || rec.Header.Transactions != 3000 {
		t.Errorf("unit %s, %d transactions", rec.Header.Unit, rec.Header.Transactions)
	}
	perRun := map[int]int64{}
	for _, g := range rec.Generations {
		if g.Cell == "a1" {
			for _, n := range g.Slices.N {
				perRun[g.Run] += n
			}
		}
	}
	// The number comes from the pilot's time per transaction: a machine that
	// slows down meanwhile does fewer.
	for run := 1; run <= 2; run++ {
		if perRun[run] < 1000 {
			t.Errorf("run %d measured %d transactions, expected about 3000 or more", run, perRun[run])
		}
	}
}
