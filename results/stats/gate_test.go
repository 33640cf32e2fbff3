package stats

import (
	"math"
	"testing"
)

func TestGate(t *testing.T) {
	// t(0.95, 19) = 1.729, t(0.975, 19) = 2.093, t(1 - 0.025/4, 19) = 2.759
	at := func(pct, se float64) *Estimate { return estimate(math.Log1p(pct/100), se/100, 19) }
	alike := func(pct, se float64) *Comparison {
		return &Comparison{Typical: at(pct, se), Total: at(pct, se), Decides: at(pct, se)}
	}
	bursts := &Comparison{Typical: at(0, 0.2), Total: at(1.9, 0.2)}
	bursts.Decides = bursts.Total
	for _, c := range []struct {
		name string
		c    *Comparison
		of   int
		want GateVerdict
	}{
		{"no cost", alike(0, 0.5), 1, Pass},
		{"faster", alike(-10, 0.5), 1, Pass},
		{"below the limit, and the interval, too", alike(1, 0.56), 1, Pass},
		{"below the limit, and the interval isn't", alike(1, 0.60), 1, CantTell},
		{"above the limit, and the interval isn't", alike(3, 0.50), 1, CantTell},
		{"above the limit, and the interval, too", alike(3, 0.46), 1, Regression},
		{"the same among four: each has a fourth of the chance", alike(3, 0.46), 4, CantTell},
		{"far above", alike(5, 0.5), 4, Regression},
		{"no interval", &Comparison{}, 1, CantTell},
		{"not measured", nil, 1, CantTell},
		{"typical passes, total doesn't", bursts, 1, CantTell},
	} {
		list := make([]*Comparison, c.of)
		for i := range list {
			list[i] = c.c
		}
		got := Gate(2, list)
		for _, g := range got {
			if g.Verdict != c.want {
				t.Errorf("%s: %+v, want %s", c.name, g, c.want)
			}
		}
		if v := Together(got); v != c.want {
			t.Errorf("%s: together %s, want %s", c.name, v, c.want)
		}
	}
	if got := Gate(2, []*Comparison{alike(1, 0.5)})[0]; math.Abs(got.AtLeast-(1-2.093*0.5*1.01)) > 0.01 || math.Abs(got.AtMost-(1+1.729*0.5*1.01)) > 0.01 {
		t.Errorf("ends %+v", got)
	}
	for _, c := range []struct {
		verdicts []GateVerdict
		want     GateVerdict
	}{
		{nil, CantTell},
		{[]GateVerdict{Pass, Pass}, Pass},
		{[]GateVerdict{Pass, CantTell}, CantTell},
		{[]GateVerdict{CantTell, Regression, Pass}, Regression},
	} {
		var list []Gated
		for _, v := range c.verdicts {
			list = append(list, Gated{Verdict: v})
		}
		if got := Together(list); got != c.want {
			t.Errorf("%v: %s, want %s", c.verdicts, got, c.want)
		}
	}
}
