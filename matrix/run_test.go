package matrix

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgtare/matrix/host"
	"pgtare/matrix/server"
	"pgtare/matrix/server/servertest"
	"pgtare/results"
	"pgtare/results/stats"
	"pgtare/workload"
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
	t.Parallel()
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

// Transactions of a cell run under its clock source and under no other, heads
// and warm-ups included: what the kernel's file says is read by the transactions
// themselves, which fail where it isn't tsc. Afterwards the source is what it was.
func TestClocksource(t *testing.T) {
	servertest.Start(t)
	sources := servertest.Clocksources(t)
	spec := Spec{Workload: scriptWorkload(t, "select 1 / (trim(e'\\n ' from pg_read_file('/sys/devices/system/clocksource/clocksource0/current_clocksource')) = '"+sources[0]+"')::int"),
		Clocksources: sources, Controls: 1, Runs: 2, Duration: 40 * time.Millisecond, Rounds: 10, Seed: 1}
	plan, err := NewPlan(spec)
	if err != nil {
		t.Fatal(err)
	}
	path, err := Run(t.Context(), plan, RunConfig{Record: filepath.Join(t.TempDir(), "r.jsonl"), Log: func(s string) { t.Log(s) }})
	var failed *FailedCells
	if !errors.As(err, &failed) {
		t.Fatalf("the cells under %s did not fail: %v", sources[1], err)
	}
	rec, err := results.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range rec.Generations {
		c := rec.Header.Cells[slices.IndexFunc(rec.Header.Cells, func(c results.Cell) bool { return c.ID == g.Cell })]
		all, n := int64(0), int64(0)
		for i := range g.Slices.All {
			all, n = all+g.Slices.All[i], n+g.Slices.N[i]
		}
		switch zero := g.Failures["22012"]; c.Axes["clocksource"] {
		case sources[0]:
			if n == 0 || len(g.Failures) > 0 {
				t.Errorf("cell %s under %s: %d succeeded, failures %v", c.ID, sources[0], n, g.Failures)
			}
		default:
			if n != 0 || zero != all || all == 0 {
				t.Errorf("cell %s under %s: %d of %d succeeded, failures %v", c.ID, sources[1], n, all, g.Failures)
			}
		}
	}
	e := rec.Header.Environment
	if len(e.Clocks) != 2 || e.Clocks[0].Source != sources[0] || e.Clocks[1].Source != sources[1] || e.Clocks[0].ReadNs <= 0 || e.Clocks[1].ReadNs <= 0 || e.OwnClock == "" {
		t.Errorf("clocks on record: %+v, pgtare's own: %q", e.Clocks, e.OwnClock)
	}
}

// Protocols and numbers of clients have panels of their own, on one instance.
func TestPanels(t *testing.T) {
	t.Parallel()
	rec, steps := run(t, Spec{Workload: builtinWorkload(t, "select1"), Clients: []int{1, 3}, Threads: 2, Protocols: []workload.Protocol{workload.Simple, workload.Prepared},
		Settings: []SettingAxis{set("track_activities", "off", "on"), set("update_process_title", "off", "on")}, Full: true, Runs: 1, Duration: 20 * time.Millisecond, Controls: 1})
	if n := len(rec.Header.Instances); n != 1 {
		t.Errorf("%d instances", n)
	}
	var got []string
	for _, p := range rec.Header.Panels {
		got = append(got, fmt.Sprintf("%s %s %d/%d", p.ID, p.Protocol, p.Clients, p.Threads))
	}
	if want := []string{"a simple 1/1", "b simple 3/2", "c prepared 1/1", "d prepared 3/2"}; !slices.Equal(got, want) {
		t.Errorf("panels %q, expected %q", got, want)
	}
	for _, c := range rec.Header.Cells {
		p := rec.Header.Panels[slices.IndexFunc(rec.Header.Panels, func(p results.Panel) bool { return p.ID == c.Panel })]
		if c.Axes["clients"] != fmt.Sprint(p.Clients) || c.Axes["protocol"] != p.Protocol {
			t.Errorf("cell %s of panel %+v has axes %v", c.ID, p, c.Axes)
		}
	}
	if n := len(generations(steps)); len(rec.Generations) < 4*5 || n < 4 {
		t.Errorf("%d lines of cells in %d generations", len(rec.Generations), n)
	}
	for _, g := range rec.Generations {
		if slices.Max(g.Slices.N) == 0 || len(g.Failures) > 0 {
			t.Errorf("cell %s did nothing, or failed: %v", g.Cell, g.Failures)
		}
	}
}

// Each environment has instances of its own, in which it is in force: the
// servers' own shells say so, and where they are.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	servertest.Start(t)
	dir, err := os.MkdirTemp("", "pgtare-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil { // the servers are another user's
		t.Fatal(err)
	}
	rec, steps := run(t, Spec{Workload: scriptWorkload(t, "copy (select 1) to program 'cat > /dev/null; echo $PWD >> "+dir+"/${WEIGHED-none}$OTHER'"), Controls: 1, Runs: 2, Duration: 20 * time.Millisecond,
		Env: []EnvAxis{{"OTHER", []string{"x"}}, {"WEIGHED", []string{Unset, "1"}}}})
	starts := 0
	for _, s := range steps {
		if strings.HasPrefix(s, "restart ") {
			starts++
		}
	}
	if starts != 2*3 {
		t.Errorf("%d restarts, expected one of three instances in two runs", starts)
	}
	for value, want := range map[string]int{"nonex": 2, "1x": 1} { // baseline and control instance
		text, err := os.ReadFile(filepath.Join(dir, value))
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]bool{}
		for _, l := range strings.Fields(string(text)) {
			at[l] = true
		}
		if len(at) != want {
			t.Errorf("servers whose shells have the environment %s: %v, expected %d", value, at, want)
		}
	}
	if list, _ := os.ReadDir(dir); len(list) != 2 {
		t.Errorf("environments were seen: %v", list)
	}
	for _, c := range rec.Header.Cells {
		if _, found := c.Axes["env.OTHER"]; found || c.Axes["env.WEIGHED"] == "" {
			t.Errorf("cell %s: axes %v", c.ID, c.Axes)
		}
	}
}

// Every run of a server axis begins with a new start of every instance, a
// setting that one server lacks is n/a there, and the number of sessions is
// equal on all instances.
func TestServers(t *testing.T) {
	t.Parallel()
	rec, steps := run(t, Spec{Workload: builtinWorkload(t, "insert"), Servers: fetched(t), Controls: 1, Clients: []int{2}, Schedule: "slice",
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

// A value that one server does not start with is n/a there, and measured on
// the other.
func TestRefusedByOne(t *testing.T) {
	t.Parallel()
	rec, _ := run(t, Spec{Workload: builtinWorkload(t, "select1"), Servers: fetched(t), Controls: 1, Schedule: "slice",
		Settings: []SettingAxis{set("log_destination", "stderr", "jsonlog")}, Runs: 1, Duration: 20 * time.Millisecond})
	for _, c := range rec.Header.Cells {
		want := "ok"
		if c.Label == "log_destination=jsonlog" && c.Server == rec.Header.Servers[0].Label {
			want = "n/a"
		}
		if c.Status != want || (c.Reason == "") != (want == "ok") || want == "ok" && c.ReadBack["log_destination"] != c.Settings["log_destination"] {
			t.Errorf("cell %s (%s on %s) is %s (%s), read back %v", c.ID, c.Label, c.Server, c.Status, c.Reason, c.ReadBack)
		}
	}
}

// fetched is 13 and 18 of one origin.
func fetched(t *testing.T) []server.Spec {
	t.Helper()
	specs := serverSpecs(t, "13", "18")
	if _, err := server.Resolve(t.Context(), specs, server.ResolveConfig{}); err != nil {
		servertest.Lack(t, "needs PostgreSQL 13 and 18 of one origin: %v", err)
	}
	return specs
}

// Where cells can't be measured in slices, each has a whole run for itself: a
// new start of its instance, configured with the setting, two checkpoints at
// fixed points, and its background work is known.
func TestBlocks(t *testing.T) {
	t.Parallel()
	rec, steps := run(t, Spec{Workload: builtinWorkload(t, "insert"), Controls: 1, Settings: []SettingAxis{set("synchronous_commit", "on", "off")}, Runs: 2, Duration: 600 * time.Millisecond})
	for run := 1; run <= 2; run++ {
		var blocks []string
		for i, s := range steps {
			if cell, found := strings.CutPrefix(s, fmt.Sprintf("run %d: block ", run)); found {
				blocks = append(blocks, cell)
				instance := ""
				for _, c := range rec.Header.Cells {
					if c.ID == cell {
						instance = c.Instance
					}
				}
				if got := steps[i+1 : i+3]; !slices.Equal(got, []string{"start " + instance, "stop " + instance}) {
					t.Errorf("after %q: %q, expected a start and a stop of %s", s, got, instance)
				}
			}
		}
		slices.Sort(blocks)
		if !slices.Equal(blocks, []string{"a1", "a2", "a3"}) {
			t.Errorf("run %d has blocks of %q", run, blocks)
		}
	}
	for _, c := range rec.Header.Cells {
		want := map[string]string{"a1": "on", "a2": "off", "a3": "on"}[c.ID]
		if c.Isolation != "instance" || c.Schedule != "block" || c.ReadBack["synchronous_commit"] != want {
			t.Errorf("cell %s: isolation %s, schedule %s, read back %v", c.ID, c.Isolation, c.Schedule, c.ReadBack)
		}
	}
	for _, c := range rec.Header.Comparisons {
		if c.ReplicateUnit != "run" || c.Twin != "a3" {
			t.Errorf("comparison %+v: expected the run as replicate and a twin", c)
		}
	}
	if len(rec.Generations) != 6 || len(rec.Machine) != 6 {
		t.Fatalf("%d generations, %d lines about the machine, expected one per run and cell", len(rec.Generations), len(rec.Machine))
	}
	for _, g := range rec.Generations {
		b := g.Background
		if len(g.Slices.N) != 1 || g.Slices.T[0] < int64(600*time.Millisecond) || g.Slices.ElapsedNs[0] < g.Slices.T[0] {
			t.Errorf("block of %s: slices %+v, expected one of 600 ms", g.Cell, g.Slices)
		}
		if b == nil || b.Checkpoints != 2 || b.CPUNs <= 0 || b.WALBytes < 50*g.Slices.N[0] || b.Transactions != g.WarmupTx+g.Slices.All[0] || b.Measured != g.Slices.All[0] {
			t.Errorf("block of %s, %d transactions: background %+v", g.Cell, g.Slices.N[0], b)
		}
	}
	for _, m := range rec.Machine {
		if m.OwnNs <= 0 || m.ElapsedNs < int64(600*time.Millisecond) || m.Cell == "" || m.Started.IsZero() {
			t.Errorf("about the machine: %+v", m)
		}
	}
}

// A setting that the server reads when it starts is a matter of its instance;
// cells that have theirs to themselves know what happened beside them.
func TestInstances(t *testing.T) {
	t.Parallel()
	rec, steps := run(t, Spec{Workload: builtinWorkload(t, "select1"), Controls: 1, Runs: 2, Duration: 50 * time.Millisecond,
		Settings: []SettingAxis{set("track_activity_query_size", "1kB", "1MB"), set("work_mem", "1MB")}})
	restarts := 0
	for _, s := range steps {
		if strings.HasPrefix(s, "restart ") {
			restarts++
		}
	}
	if restarts != 2*3 {
		t.Errorf("%d restarts, expected one of three instances in each of two runs", restarts)
	}
	for _, c := range rec.Header.Cells {
		want := map[string]string{"a1": "1024 B", "a2": "1048576 B", "a3": "1024 B"}[c.ID]
		if c.Isolation != "instance" || c.Schedule != "slice" || c.ReadBack["track_activity_query_size"] != want || c.ReadBack["work_mem"] != "1024 kB" {
			t.Errorf("cell %s: isolation %s, schedule %s, read back %v", c.ID, c.Isolation, c.Schedule, c.ReadBack)
		}
	}
	measured, all := map[string]int64{}, map[string]int64{} // of the run so far, by cell
	for _, g := range rec.Generations {
		if g.Generation == 1 {
			measured[g.Cell], all[g.Cell] = 0, 0
		}
		measured[g.Cell] += transactionsOf(&g) - g.WarmupTx
		all[g.Cell] += transactionsOf(&g)
		b := g.Background
		switch last := g.Generation == rec.Header.Panels[0].Generations; {
		case !last || rec.Header.Servers[0].VersionNum < quickCounters: // the run's is with its last
			if b != nil {
				t.Errorf("cell %s, generation %d: background %+v", g.Cell, g.Generation, b)
			}
		case b == nil || b.CPUNs < 0 || b.Measured != measured[g.Cell] || b.Transactions != all[g.Cell]:
			t.Errorf("cell %s: background %+v, expected it of %d and %d transactions", g.Cell, b, measured[g.Cell], all[g.Cell])
		}
	}
}

// Sessions that queue up for a lock are measured in blocks, for slices would
// break the queue up; where slices are asked for it is a doubt.
func TestConvoys(t *testing.T) {
	spec := Spec{Workload: scriptWorkload(t, "begin; select pg_advisory_xact_lock(1); select count(*) from generate_series(1, 200); commit;"), Clients: []int{3}, Threads: 1,
		Controls: 1, Runs: 1, Duration: 100 * time.Millisecond}
	for schedule, code := range map[string]string{"": "measured-in-blocks", "slice": "convoys"} {
		spec.Schedule = schedule
		rec, _ := run(t, spec)
		if !slices.ContainsFunc(rec.Warnings, func(w results.Warning) bool { return w.Code == code }) {
			t.Errorf("schedule %q: no warning %s in %v; waits %v", schedule, code, rec.Warnings, rec.Header.Panels[0].Waits)
		}
		want := map[string]string{"": "block", "slice": "slice"}[schedule]
		if p := rec.Header.Panels[0]; p.Schedule != want || p.Waits["Lock"] == 0 {
			t.Errorf("schedule %q: the panel has schedule %s and waits %v", schedule, p.Schedule, p.Waits)
		}
		for _, c := range rec.Header.Controls {
			if unit := map[string]string{"": "run", "slice": "generation"}[schedule]; c.ReplicateUnit != unit {
				t.Errorf("schedule %q: the control's replicate is the %s", schedule, c.ReplicateUnit)
			}
		}
	}
}

// --until ends at the first look where the intervals are narrow enough, and
// goes on to the end of its time where they are not.
func TestUntil(t *testing.T) {
	t.Parallel()
	spec := Spec{Workload: builtinWorkload(t, "select1"), Controls: 1, Settings: []SettingAxis{set("track_activities", "off", "on")}, Runs: 1, Duration: 50 * time.Millisecond, Rounds: 10, MaxTime: time.Minute}
	spec.Until = 100
	rec, _ := run(t, spec)
	perRun, last := rec.Header.Panels[0].Generations, rec.Generations[len(rec.Generations)-1].Run
	if want := (stats.NextLook(0, stats.ByGeneration) + perRun - 1) / perRun; last != want {
		t.Errorf("it ended after %d runs of %d generations, expected %d runs", last, perRun, want)
	}
	spec.Until, spec.MaxTime = 1e-6, time.Second
	rec, _ = run(t, spec)
	if !slices.ContainsFunc(rec.Warnings, func(w results.Warning) bool { return w.Code == "until-not-reached" }) {
		t.Errorf("no warning that the width was not reached: %v", rec.Warnings)
	}
}

// A cell whose setting can't act says so; one whose setting can does not.
func TestExercised(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec Spec
		want string // in the reason; "" for none
	}{
		{Spec{Workload: builtinWorkload(t, "select1"), Settings: []SettingAxis{set("track_io_timing", "off", "on")}}, "0 pages were read"},
		{Spec{Workload: builtinWorkload(t, "insert"), Settings: []SettingAxis{set("track_functions", "none", "all")}}, "no function is called"},
		{Spec{Workload: builtinWorkload(t, "select1"), Settings: []SettingAxis{set("track_activities", "off", "on")}}, ""},
		{Spec{Workload: builtinWorkload(t, "select1"), Settings: []SettingAxis{set("synchronous_commit", "on", "off")}}, "bytes of WAL"}, // by blocks
		{Spec{Workload: builtinWorkload(t, "select1"), Settings: []SettingAxis{{Name: "track_io_timing", Values: []string{"off", "on"}, Instance: true}}}, "0 pages were read"},
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
	t.Parallel()
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

// With --pin split each side stays on cores of its own. The script sleeps
// wherever its backend may run on the client's CPU.
func TestSplit(t *testing.T) {
	t.Parallel()
	spec := Spec{Workload: scriptWorkload(t, `select case when pg_read_file('/proc/self/status') ~ E'Cpus_allowed_list:\t1\n' then null else pg_sleep(0.1) end;`),
		Controls: 1, Runs: 1, Duration: 50 * time.Millisecond, Rounds: 10, Pin: Pin{Kind: "split", Client: []int{0}, Server: []int{1}}}
	if !slices.Equal(host.CPUs(), []int{0, 1}) {
		spec.Pin = Pin{Kind: "split"}
		servertest.Start(t)
		plan, err := NewPlan(spec)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Run(t.Context(), plan, RunConfig{Record: filepath.Join(t.TempDir(), "r.jsonl")})
		if one := len(host.CPUs()) == len(host.Siblings(host.CPUs()[0])); one != (err != nil && strings.Contains(err.Error(), "which is one core")) {
			t.Errorf("on CPUs %v: %v", host.CPUs(), err)
		}
		return
	}
	rec, _ := run(t, spec)
	p := rec.Header.Panels[0]
	if p.Pin != "client=0,server=1" || p.TransactionNs > int64(50*time.Millisecond) {
		t.Errorf("placement %s, a transaction takes %v: the backends are not held on CPU 1", p.Pin, time.Duration(p.TransactionNs))
	}
	spec.Pin = Pin{Kind: "split"}
	rec, _ = run(t, spec)
	if p := rec.Header.Panels[0]; p.Pin != "client=0,server=1" && p.Pin != "client=1,server=0" {
		t.Errorf("placement %s: not all CPUs are used, or one twice", p.Pin)
	}
}

// The hooks are around each run, and reach the servers.
func TestHooks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := Spec{Workload: builtinWorkload(t, "select1"), Controls: 1, Runs: 2, Duration: 50 * time.Millisecond,
		Settings: []SettingAxis{set("track_activity_query_size", "1kB", "1MB")},
		Hooks: Hooks{
			Before: `psql -XAtqc 'select 40 + '$PGTARE_RUN >` + dir + `/before-$PGTARE_RUN && test -s "$PGTARE_RECORD"`,
			After:  `printf '%s\n' "$PGTARE_INSTANCES" | while IFS="$(printf '\t')" read -r id label conninfo; do psql -XAtq -d "$conninfo" -c "select '$id $label'"; done >` + dir + `/after-$PGTARE_RUN`,
		}}
	rec, steps := run(t, spec)
	first := slices.Index(steps, "run 1: before-run")
	if first < 0 || !strings.HasPrefix(steps[first-1], "restart ") || !strings.HasPrefix(steps[first+1], "run 1: ") {
		t.Errorf("steps %q: expected before-run between the restarts and the measuring", steps)
	}
	for n := 1; n <= 2; n++ {
		if got, want := read(t, dir, fmt.Sprint("before-", n)), fmt.Sprintln(40+n); got != want {
			t.Errorf("run %d: before-run left %q, want %q", n, got, want)
		}
		label := rec.Header.Servers[0].Label
		if got, want := read(t, dir, fmt.Sprint("after-", n)), fmt.Sprintf("i1 %s\ni2 %[1]s\ni3 %[1]s\n", label); got != want {
			t.Errorf("run %d: after-run left %q, want %q", n, got, want)
		}
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A hook that fails ends the matrix with its words; one that runs when pgtare
// is interrupted ends with it.
func TestHookFails(t *testing.T) {
	t.Parallel()
	spec := Spec{Workload: builtinWorkload(t, "select1"), Controls: 1, Runs: 2, Duration: 20 * time.Millisecond, Rounds: 10}
	carryOut := func(ctx context.Context, after string) (*results.Record, error) {
		t.Helper()
		servertest.Start(t)
		spec.Hooks.After = after
		plan, err := NewPlan(spec)
		if err != nil {
			t.Fatal(err)
		}
		path, err := Run(ctx, plan, RunConfig{Record: filepath.Join(t.TempDir(), "r.jsonl")})
		if path == "" {
			t.Fatalf("no record: %v", err)
		}
		rec, reading := results.ReadFile(path)
		if reading != nil {
			t.Fatal(reading)
		}
		return rec, err
	}
	rec, err := carryOut(t.Context(), "echo first; echo no such table >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "failed in run 1: exit status 3; its last line: no such table") || rec.End.Status != "failed" || len(rec.Generations) == 0 {
		t.Errorf("%v; the record ends with %+v", err, rec.End)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := filepath.Join(t.TempDir(), "pid")
	go func() {
		for ctx.Err() == nil {
			if b, err := os.ReadFile(begun); err == nil && len(b) > 0 {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	rec, err = carryOut(ctx, "trap '' TERM; sleep 1000 & echo $! >"+begun+"; wait; wait")
	if !errors.Is(err, context.Canceled) || rec.End.Status != "interrupted" {
		t.Errorf("%v; the record ends with %+v", err, rec.End)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, filepath.Dir(begun), "pid")))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 { // an orphan is reaped when init gets to it
		if err = syscall.Kill(pid, 0); err != nil {
			break
		}
		if stat, err := host.ReadStat(pid); err == nil && stat.State == 'Z' {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !errors.Is(err, syscall.ESRCH) {
		t.Errorf("what the hook had started is still there: %v", err)
	}
}

func TestLineWriter(t *testing.T) {
	var got []string
	w := &lineWriter{to: func(line string) { got = append(got, line) }}
	for _, part := range []string{"one\ntw", "o\r\n", "\n", strings.Repeat("x", longestLine+3), "\nend"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	w.flush()
	want := []string{"one", "two", "", strings.Repeat("x", longestLine), "xxx", "end"}
	if !slices.Equal(got, want) || w.last != "end" {
		t.Errorf("lines %.40q, the last %q", got, w.last)
	}
}
