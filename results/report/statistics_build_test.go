package report_test

import (
	"slices"
	"testing"

	"pgtare/results"
	"pgtare/results/report"
)

// code is the first warning of that code; nil: none.
func code(r *report.Report, code string) *report.Warning {
	i := slices.IndexFunc(r.Warnings, func(w report.Warning) bool { return w.Code == code })
	if i < 0 {
		return nil
	}
	return &r.Warnings[i]
}

// scale multiplies the times of a generation.
func scale(g *results.Generation, by float64) {
	for i := range g.Slices.T {
		g.Slices.T[i] = int64(float64(g.Slices.T[i]) * by)
		g.Slices.ServerCPU[i] = int64(float64(g.Slices.ServerCPU[i]) * by)
	}
}

// Rule 13: where one cell's runs differ, all of its panel is weighed by run, and
// another panel isn't.
func TestRunsDiffer(t *testing.T) {
	m := theDefault()
	m.generations, m.rounds = 4, 12
	m.edit = func(c *results.Cell, g *results.Generation) bool {
		if c.Panel == "p1" && c.Label == "track_activities=on" {
			scale(g, []float64{1.08, 0.92, 1.06, 0.94, 1}[g.Run-1])
		}
		return true
	}
	r := build(t, m)
	for i, unit := range []string{"run", "generation"} {
		panel := r.Panels[i]
		h := panel.Heterogeneity
		if h == nil || (h.P < 0.05) != (unit == "run") || h.F <= 0 {
			t.Errorf("panel %s: %+v", panel.ID, h)
		}
		for _, c := range r.Comparisons {
			if c.Cell[:2] != panel.ID {
				continue
			}
			if want := map[string]int{"run": 5, "generation": 20}[unit]; c.ReplicateUnit != unit || c.Replicates != want {
				t.Errorf("%s: %d x %s, want %d x %s", c.Cell, c.Replicates, c.ReplicateUnit, want, unit)
			}
			if c.CPU == nil || c.CPU.Lo == nil {
				t.Errorf("%s: CPU %+v", c.Cell, c.CPU)
			}
		}
		if want := map[string]int{"run": 5, "generation": 20}[unit]; r.Controls[i].Replicates != want {
			t.Errorf("control of %s: %d replicates, want %d", panel.ID, r.Controls[i].Replicates, want)
		}
	}
	w := code(r, "runs-differ")
	if w == nil || !slices.Equal(w.Cells, []string{"p1-s1-v1-0", "p1-s1-v1-1", "p1-s1-v1-2", "p1-s1-v1-3", "p1-s1-v1-4", "p1-s1-v1-100"}) {
		t.Errorf("warning %+v", w)
	}
}

// BenchmarkBuild is a matrix of 12 cells and 150 generations.
func BenchmarkBuild(b *testing.B) {
	m := theDefault()
	m.generations = 30
	rec := m.record(b)
	for b.Loop() {
		if _, err := report.Build(rec); err != nil {
			b.Fatal(err)
		}
	}
}
