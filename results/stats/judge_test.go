package stats

import (
	"math"
	"slices"
	"testing"
)

// judged is a comparison as Compare would give it, with many replicates.
// Intervals are pct +- half, of total twice as wide.
func judged(pct, half, p float64) *Comparison {
	c := &Comparison{
		Replicates: 100,
		Typical:    &Estimate{Pct: pct, Lo: pct - half, Hi: pct + half, P: p, DF: 99},
		Total:      &Estimate{Pct: pct, Lo: pct - 2*half, Hi: pct + 2*half, P: p, DF: 99},
	}
	c.Decides = c.Typical
	return c
}

func passed() *ControlResult {
	return &ControlResult{Estimate: Estimate{Pct: 0.1, Lo: -0.4, Hi: 0.6, DF: 99, P: 0.7}, Z: 0.385}
}

// Rule 8. In order 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1, the last raised to
// the one before it. A comparison without a p doesn't count.
func TestHolm(t *testing.T) {
	var m Matrix
	for _, p := range []float64{0.01, 0.04, 0.03, 0.005} {
		m.Comparisons = append(m.Comparisons, judged(1, 1, p))
	}
	m.Comparisons = append(m.Comparisons, &Comparison{})
	m.Judge()
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02, 1} {
		near(t, "adjusted p", m.Comparisons[i].PAdjusted, want, 1e-12)
	}
	one := Matrix{Comparisons: []*Comparison{judged(1, 1, 0.7), judged(1, 1, 0.8)}}
	one.Judge()
	near(t, "2 x 0.7", one.Comparisons[0].PAdjusted, 1, 0)
}

// Rule 9, and 10's time factor: half over max(|est|, margin - |est|)/1.43,
// squared, at least 1 and what makes the replicates enough.
func TestVerdict(t *testing.T) {
	marked := func(c *Comparison) *Comparison { c.Marked = true; c.Decides = c.Total; return c }
	few := func(c *Comparison, n int, unit Unit) *Comparison {
		c.Replicates, c.FewReplicates, c.Unit = n, true, unit
		return c
	}
	wide := func(c *Comparison) *Comparison { c.Total.Hi = 2.5; return c }
	onlyTotal := func(c *Comparison) *Comparison { c.Typical, c.Decides = nil, c.Total; return c }
	for _, c := range []struct {
		what   string
		c      *Comparison
		margin float64
		want   Verdict
		factor float64
	}{
		{"slower", judged(2, 1, 0.001), 0, Slower, 0},
		{"faster", judged(-2, 1, 0.001), 0, Faster, 0},
		{"slower though inside the margin", judged(0.5, 0.2, 0.001), 0, Slower, 0},
		{"same", judged(0.1, 0.6, 0.8), 0, Same, 0},
		{"same needs the upper end", judged(0.5, 0.6, 0.1), 0, Unclear, sq(0.6 / (0.5 / 1.43))},
		{"same needs the lower end", judged(-0.5, 0.6, 0.1), 0, Unclear, sq(0.6 / (0.5 / 1.43))},
		{"a wider margin", judged(0.5, 0.6, 0.1), 2, Same, 0},
		{"same needs the total too", wide(judged(0.1, 0.6, 0.8)), 0, Unclear, 1},
		{"marked is never the same", marked(judged(0.1, 0.4, 0.8)), 0, Unclear, 1.6156},
		{"marked, and total shows it", marked(judged(5, 1, 0.001)), 0, Slower, 0},
		{"total alone within the margin", onlyTotal(judged(0.1, 0.4, 0.8)), 0, Same, 0},
		{"total alone not within", onlyTotal(judged(0.1, 0.6, 0.8)), 0, Unclear, sq(1.2 / (0.9 / 1.43))},
		{"unclear", judged(1.5, 2, 0.2), 0, Unclear, sq(2 / (1.5 / 1.43))},
		{"few generations are never the same", few(judged(0.1, 0.6, 0.8), 5, ""), 0, Unclear, 3},
		{"few runs are never the same", few(judged(0.1, 0.6, 0.8), 5, ByRun), 0, Unclear, 2},
		{"few may be slower", few(judged(5, 1, 0.001), 5, ByRun), 0, Slower, 0},
	} {
		m := Matrix{Comparisons: []*Comparison{c.c}, Controls: []*ControlResult{passed()}, Margin: c.margin}
		m.Judge()
		if c.c.Verdict != c.want || c.c.Reason != "" {
			t.Errorf("%s: %s (%s), want %s", c.what, c.c.Verdict, c.c.Reason, c.want)
		}
		near(t, c.what+": time factor", c.c.TimeFactor, c.factor, 1e-3)
	}
}

func sq(x float64) float64 { return x * x }

// Holm is what counts: 0.02 alone is slower, among 8 it isn't.
func TestVerdictAfterHolm(t *testing.T) {
	m := Matrix{Controls: []*ControlResult{passed()}}
	for range 8 {
		m.Comparisons = append(m.Comparisons, judged(0.9, 0.7, 0.5))
	}
	m.Comparisons[3] = judged(2, 1.5, 0.02)
	m.Judge()
	if v := m.Comparisons[3].Verdict; v != Unclear {
		t.Errorf("0.02 among 8: %s", v)
	}
	m.Comparisons = m.Comparisons[3:4]
	m.Judge()
	if v := m.Comparisons[0].Verdict; v != Slower {
		t.Errorf("0.02 alone: %s", v)
	}
}

// Rule 10: for one, half x (1.96 + 0.84)/1.96; for 8, z(1 - 0.025/8) = 2.7344.
func TestWouldSee(t *testing.T) {
	m := Matrix{Comparisons: []*Comparison{judged(0, 0.7, 0.5)}, Controls: []*ControlResult{passed()}}
	m.Judge()
	near(t, "of one", m.Comparisons[0].WouldSee, 0.7*1.43, 2e-3)
	for range 7 {
		m.Comparisons = append(m.Comparisons, judged(0, 0.7, 0.5))
	}
	m.Judge()
	near(t, "of 8", m.Comparisons[0].WouldSee, 0.7*(2.7344+0.84)/1.96, 1e-4)
}

// Rule 12. The 99 % points of chi-square are 6.635, 9.210 and 13.277 for 1, 2
// and 4 controls; z = 2.3 is p = 0.0214, 2.6 is 0.0093, 3.05 is 0.0023.
func TestTrust(t *testing.T) {
	control := func(panel string, z float64) *ControlResult {
		return &ControlResult{Panel: panel, Z: z, Estimate: Estimate{Lo: -1.5, Hi: 0.7, DF: 50, P: math.Erfc(math.Abs(z) / math.Sqrt2)}}
	}
	for _, c := range []struct {
		what     string
		controls []*ControlResult
		whole    bool
		panels   []string
		a, b     Verdict // of panels a and b, each with a comparison that is slower
		ok, note []bool
	}{
		{"passed", []*ControlResult{control("a", 1), control("b", -1)}, false, nil, Slower, Slower, []bool{true, true}, []bool{false, false}},
		{"p < 0.05 is a note", []*ControlResult{control("a", -2.3), control("b", 1)}, false, nil, Slower, Slower, []bool{true, true}, []bool{true, false}},
		{"the sum", []*ControlResult{control("a", 2.3), control("b", -2.3)}, true, nil, Untrusted, Untrusted, []bool{true, true}, []bool{true, true}},
		{"one alone", []*ControlResult{control("a", 2.6)}, true, []string{"a"}, Untrusted, Untrusted, []bool{false}, []bool{true}},
		{"2.6 is allowed among 2", []*ControlResult{control("a", 2.6), control("b", 0)}, false, nil, Slower, Slower, []bool{true, true}, []bool{true, false}},
		{"one of four", []*ControlResult{control("a", 0), control("b", 3.05), control("c", 0), control("d", 0)}, false, []string{"b"},
			Slower, Untrusted, []bool{true, false, true, true}, []bool{false, true, false, false}},
		{"none", nil, false, nil, Unclear, Unclear, nil, nil},
		{"none in b", []*ControlResult{control("a", 0)}, false, nil, Slower, Unclear, []bool{true}, []bool{false}},
		{"none that could be judged", []*ControlResult{{Panel: "a"}, control("b", 0)}, false, nil, Unclear, Slower, []bool{false, true}, []bool{false, false}},
	} {
		a, b := judged(3, 1, 1e-6), judged(3, 1, 1e-6)
		a.Panel, b.Panel = "a", "b"
		m := Matrix{Comparisons: []*Comparison{a, b}, Controls: c.controls}
		trust := m.Judge()
		if trust.Whole != c.whole || !slices.Equal(trust.UntrustedPanels, c.panels) {
			t.Errorf("%s: %+v", c.what, trust)
		}
		judgedControls := 0
		for i, r := range c.controls {
			if r.OK != c.ok[i] || r.Note != c.note[i] {
				t.Errorf("%s: control %d: ok %v, note %v", c.what, i, r.OK, r.Note)
			}
			if r.Estimate.DF > 0 {
				judgedControls++
			}
		}
		if want := judgedControls > 0 && !c.whole && c.panels == nil; trust.Trusted != want || trust.Controls != judgedControls || trust.DF != float64(judgedControls) {
			t.Errorf("%s: %+v, want trusted %v of %d", c.what, trust, want, judgedControls)
		}
		if judgedControls > 0 {
			near(t, c.what+": equal within", trust.EqualWithin, 1.5, 0)
		}
		if a.Verdict != c.a || b.Verdict != c.b {
			t.Errorf("%s: verdicts %s, %s, want %s, %s", c.what, a.Verdict, b.Verdict, c.a, c.b)
		}
		for _, x := range m.Comparisons {
			if (x.Verdict == Unclear) != (x.Reason != "") {
				t.Errorf("%s: %s because %q", c.what, x.Verdict, x.Reason)
			}
			if x.TimeFactor != 0 {
				t.Errorf("%s: time factor %g, but time alone won't help", c.what, x.TimeFactor)
			}
		}
	}
}

// The chi-square's p: 2 x 2.3^2 = 10.58 with 2 df is exp(-5.29).
func TestTrustP(t *testing.T) {
	m := Matrix{Controls: []*ControlResult{{Z: 2.3, Estimate: Estimate{DF: 9, P: 0.02}}, {Z: -2.3, Estimate: Estimate{DF: 9, P: 0.02}}}}
	trust := m.Judge()
	near(t, "chi-square", trust.ChiSquare, 10.58, 1e-9)
	near(t, "p", trust.P, math.Exp(-5.29), 1e-9)
}

func TestTooFewReplicatesHaveReason(t *testing.T) {
	c := Compare(evens(10, 1, 1), evens(10, 1, 1), nil, Options{})
	m := Matrix{Comparisons: []*Comparison{c}, Controls: []*ControlResult{passed()}}
	m.Judge()
	if c.Verdict != Unclear || c.Reason != "fewer than 3 replicates" || c.PAdjusted != 1 || c.WouldSee != 0 {
		t.Errorf("%+v", c)
	}
	empty := evens(10, 1, 1, 1)
	for _, g := range empty {
		for i := range g.Slices {
			g.Slices[i].Count = 0
		}
	}
	c = Compare(empty, evens(10, 1, 1, 1), nil, Options{})
	m.Comparisons[0] = c
	m.Judge()
	if c.Verdict != Unclear || c.Reason != "too little completed to give an interval" {
		t.Errorf("%+v", c)
	}
}

// Two one-sided tests: an effect of exactly the margin may be called the same
// in 2.5 % at most; here the interval ends exactly on it.
func TestSameIsStrict(t *testing.T) {
	m := Matrix{Comparisons: []*Comparison{judged(0.5, 0.5, 0.06)}, Controls: []*ControlResult{passed()}}
	m.Judge()
	if v := m.Comparisons[0].Verdict; v != Unclear {
		t.Errorf("interval from 0 to 1: %s", v)
	}
}
