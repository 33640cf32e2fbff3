package report_test

import (
	"math/rand/v2"
	"slices"
	"strings"
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

// order is the order of k cells in the rounds of one generation, made up so that
// no cell follows itself.
func order(k, rounds int, seed uint64) [][]int {
	rng := rand.New(rand.NewPCG(seed, 3))
	out := make([][]int, rounds)
	last := -1
	for r := range out {
		out[r] = rng.Perm(k)
		for out[r][0] == last {
			out[r] = rng.Perm(k)
		}
		last = out[r][k-1]
	}
	return out
}

// A cell that slows its successors makes its own overhead too low; what is the
// same for it and its baseline doesn't.
func TestCarryOver(t *testing.T) {
	cells := []string{"p1-s1-v1-0", "p1-s1-v1-1", "p1-s1-v1-2", "p1-s1-v1-3", "p1-s1-v1-4", "p1-s1-v1-100"}
	ordered := func(effect float64) matrix {
		m := theDefault()
		m.modes, m.cost = []string{"per-statement"}, costs(nil)
		m.edit = func(c *results.Cell, g *results.Generation) bool {
			self := slices.Index(cells, c.ID)
			last := -1
			for r, cs := range order(len(cells), m.rounds, uint64(100*g.Run+g.Generation)) {
				for position, x := range cs {
					if x == self {
						g.Slices.Position[r], g.Slices.Predecessor[r] = int64(position), int64(last)
						if last == 1 {
							g.Slices.T[r] = int64(float64(g.Slices.T[r]) * (1 + effect))
						}
					}
					last = x
				}
			}
			return true
		}
		return m
	}
	if w := code(build(t, ordered(0)), "carry-over"); w != nil {
		t.Errorf("nothing carried over: %s", w.Text)
	}
	r := build(t, ordered(0.3))
	w := code(r, "carry-over")
	if w == nil || !slices.Equal(w.Cells, []string{"p1-s1-v1-1"}) || w.Forbids != results.ForbidsSame || !strings.Contains(w.Text, "what follows track_activities=on takes +2") {
		t.Fatalf("30 %% carried over: %+v", w)
	}
	// What the doubt says of the overhead is what happened to it: -30 %/5.
	if pct := *r.Comparisons[0].Pct; pct > -3.5 || pct < -7 {
		t.Errorf("the cell's own overhead is %+.1f %%", pct)
	}
}

// One cell's generations are scaled, and the doubt names that cell and no other.
func TestShapeDoubts(t *testing.T) {
	for _, c := range []struct {
		code  string
		by    float64
		which func(g *results.Generation) bool
		text  string
		want  string // that the doubt forbids
	}{
		{"bimodal", 1.8, func(g *results.Generation) bool { return g.Generation == 2 }, "two groups", results.ForbidsSame},
		{"first-run", 1.4, func(g *results.Generation) bool { return g.Run == 1 }, "the first run took +", ""},
	} {
		m := shortDefault()
		m.edit = func(cell *results.Cell, g *results.Generation) bool {
			if cell.Label == "all" && c.which(g) {
				scale(g, c.by)
			}
			return true
		}
		if w := code(build(t, m), c.code); w == nil || !slices.Equal(w.Cells, []string{"p1-s1-v1-4"}) || w.Forbids != c.want || !strings.Contains(w.Text, c.text) {
			t.Errorf("%s: %+v", c.code, w)
		}
	}
}

// What blocks reaches the verdict and both formats.
func TestBlockedSame(t *testing.T) {
	m := theDefault()
	m.modes, m.cost, m.generations = []string{"per-statement"}, costs(nil), 40
	if v := build(t, m).Comparisons[0].Verdict; v != "same" {
		t.Fatalf("equal cells are %s", v)
	}
	m.change = func(h *results.Header) {
		h.Warnings = []results.Warning{{Code: "made-up", Cells: []string{"p1-s1-v1-1"}, Text: "t", Remedy: "r", Forbids: results.ForbidsSame}}
	}
	r := build(t, m)
	if c := r.Comparisons[0]; c.Verdict != "unclear" || c.Reason == nil || !strings.Contains(*c.Reason, "made-up") || c.Pct == nil {
		t.Errorf("%s, %v", c.Verdict, c.Reason)
	}
	if c := r.Comparisons[1]; c.Verdict != "same" {
		t.Errorf("the doubt isn't about it, and yet it is %s", c.Verdict)
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
