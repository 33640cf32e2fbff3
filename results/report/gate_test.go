package report_test

import (
	"strings"
	"testing"

	"pgtare/results"
	"pgtare/results/report"
	"pgtare/results/stats"
)

// versions is a matrix of two servers of which the second costs so much more.
func versions(cost float64, runs int, seed uint64) matrix {
	m := shortDefault()
	m.settings, m.modes, m.servers = nil, m.modes[:1], []results.Server{debian15, other("18.4", "18.4")}
	m.runs, m.generations, m.seed = runs, 2, seed
	m.cost = func(c *results.Cell) float64 {
		if c.Server == "18.4" {
			return 1 + cost
		}
		return 1
	}
	return m
}

func TestGate(t *testing.T) {
	const limit = 2
	check := func(name string, m matrix, axis string, want stats.GateVerdict, parts ...string) {
		t.Helper()
		g, err := spoilt(t, m, func(*results.Record) {}).Gate(report.GateSpec{Axis: axis, Max: limit})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		var b strings.Builder
		if err := g.Text(&b); err != nil {
			t.Fatal(err)
		}
		if g.Verdict != want {
			t.Errorf("%s: %s, want %s\n%s", name, g.Verdict, want, b.String())
		}
		for _, part := range append(parts, "gate: "+string(want)) {
			if !strings.Contains(b.String(), part) {
				t.Errorf("%s: no %q in\n%s", name, part, b.String())
			}
		}
	}
	change := func(m matrix, change func(h *results.Header)) matrix {
		m.change = change
		return m
	}
	check("equal versions", versions(0, 20, 6), "", stats.Pass, "select1, per-statement: 18.4 against 15.18", "none costs 2 % or more")
	check("5 % slower", versions(0.05, 20, 6), "", stats.Regression, "regression  select1", "1 of 1 comparison of axis server above 2 %")
	check("5 % faster", versions(-0.05, 20, 6), "server", stats.Pass)
	check("2 % slower, just at the limit", versions(0.02, 20, 6), "server", stats.CantTell, "more runs")
	check("few runs", versions(0.30, 9, 6), "server", stats.CantTell, "a gate needs 10")
	assertions := versions(0.30, 20, 6)
	assertions.servers[1].Assertions = true
	check("assertions", assertions, "server", stats.CantTell, "slow-build")
	flags := versions(0.30, 20, 6)
	flags.servers[1].Build = map[string]string{"CC": "gcc", "CFLAGS": "-O3 -march=native"}
	check("other flags", flags, "server", stats.CantTell, "builds-differ")
	check("no control", change(versions(0.30, 20, 6), func(h *results.Header) { h.Controls = nil }), "server", stats.CantTell, "no control could be judged")
	unequal := versions(0.30, 20, 6)
	slower := unequal.cost
	unequal.cost = func(c *results.Cell) float64 {
		if c.ControlOf != "" {
			return 1.2
		}
		return slower(c)
	}
	check("a control that fails", unequal, "server", stats.CantTell, "the control failed")

	failed := change(versions(0, 20, 6), func(h *results.Header) {
		for i := range h.Cells {
			if h.Cells[i].Server == "18.4" {
				h.Cells[i].Status, h.Cells[i].Reason = "n/a", "no such thing there"
			}
		}
	})
	failed.edit = func(c *results.Cell, _ *results.Generation) bool { return c.Server != "18.4" }
	check("a cell is n/a", failed, "server", stats.CantTell, "is n/a: no such thing there")
	forbidding := func(cost float64) matrix {
		return change(versions(cost, 20, 6), func(h *results.Header) {
			h.Warnings = append(h.Warnings, results.Warning{Code: "throttled", Cells: []string{}, Text: "the quota sets the pace", Remedy: "lift it", Forbids: results.ForbidsSame})
		})
	}
	check("no cost, and a doubt that forbids to say so", forbidding(0), "server", stats.CantTell, "throttled: the quota sets the pace")
	check("a cost, and the same doubt", forbidding(0.05), "server", stats.Regression)

	settings := shortDefault()
	few := settings
	few.runs, few.generations, few.cost = 1, 8, costs(map[string]float64{})
	check("few generations", few, "", stats.CantTell, "8 generations are too few to say that there is no cost")
	settings.cost = costs(map[string]float64{"track_activities=on": 0.05})
	check("by settings", settings, "", stats.Regression, "track_activities=on against the baseline")
	g, err := spoilt(t, settings, func(*results.Record) {}).Gate(report.GateSpec{Axis: "server", Max: limit})
	if err == nil || !strings.Contains(err.Error(), "compares along setting") {
		t.Errorf("an axis that isn't there: %+v, %v", g, err)
	}
	none := shortDefault()
	none.settings = nil
	if g, err := spoilt(t, none, func(*results.Record) {}).Gate(report.GateSpec{Max: limit}); err == nil {
		t.Errorf("a record that compares nothing: %+v", g)
	}
}

// Equal versions don't fail, slower ones do, whatever the seed.
func TestGateSeeds(t *testing.T) {
	var failed, passed int
	const pairs = 6
	for seed := range uint64(pairs) {
		for _, cost := range []float64{0, 0.05} {
			g, err := spoilt(t, versions(cost, 20, 100+seed), func(*results.Record) {}).Gate(report.GateSpec{Max: 2})
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case cost == 0 && g.Verdict == stats.Regression:
				failed++
			case cost > 0 && g.Verdict == stats.Pass:
				passed++
			}
		}
	}
	if failed > 0 || passed > 0 {
		t.Errorf("of %d pairs %d equal ones failed, and %d that are 5 %% slower passed", pairs, failed, passed)
	}
}
