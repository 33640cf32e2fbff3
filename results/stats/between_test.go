package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// By hand: two runs of three generations with y = ln of 1.1, 1.2, 1.3 and ln of
// 1.3, 1.4, 1.5. Means 0.1799987 and 0.3347674, grand 0.2573831; between
// 6 * 0.0773843^2 = 0.0359299, 1 degree of freedom; within 0.0139616 and
// 0.0102393, 4 degrees: F = 0.0359299 / 0.0060502 = 5.93861. p of F(1, 4) is
// that of t = 2.436926 with 4: by its closed form 0.0714.
func TestBetweenRunsByHand(t *testing.T) {
	var cell, base Sample
	for i, x := range []float64{1100, 1200, 1300, 1300, 1400, 1500} {
		cell = append(cell, even(1+i/3, 1+i%3, 10, x))
		base = append(base, even(1+i/3, 1+i%3, 10, 1000))
	}
	h := BetweenRuns(cell, base, nil, Options{})
	if h == nil {
		t.Fatal("no test")
	}
	near(t, "F", h.F, 5.93861, 1e-3)
	near(t, "df1", h.DF1, 1, 0)
	near(t, "df2", h.DF2, 4, 0)
	// P(|t4| > x) = 1 - x/sqrt(x^2+4) * (1 + 2/(x^2+4)).
	x := math.Sqrt(h.F)
	near(t, "p", h.P, 1-x/math.Sqrt(x*x+4)*(1+2/(x*x+4)), 1e-9)
}

// The order of the generations is of no account, nor is what the runs are
// called.
func TestBetweenRunsOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	s := resample(rng, 3, 4, 40)
	want := BetweenRuns(s[0], s[1], s[2], Options{})
	rng.Shuffle(len(s[0]), func(i, j int) { s[0][i], s[0][j] = s[0][j], s[0][i] })
	got := BetweenRuns(s[0], s[1], s[2], Options{})
	near(t, "F", got.F, want.F, 1e-9)
	near(t, "p", got.P, want.P, 1e-9)
}

func TestBetweenRunsNeeds(t *testing.T) {
	runs := func(sizes ...int) Sample {
		var s Sample
		for i, n := range sizes {
			for g := range n {
				s = append(s, even(i+1, g+1, 10, 1000+float64(10*g+i)))
			}
		}
		return s
	}
	for _, c := range []struct {
		name string
		s    Sample
		o    Options
		want bool
	}{
		{"nothing", nil, Options{}, false},
		{"one run", runs(9), Options{}, false},
		{"two runs", runs(2, 2), Options{}, true},
		{"one generation each", runs(1, 1, 1), Options{}, false},
		{"half with one generation", runs(1, 4), Options{}, false},
		{"fewer with one generation", runs(1, 4, 4), Options{}, true},
		{"the run is the replicate", runs(4, 4), Options{Unit: ByRun}, false},
		{"blocks", runs(4, 4), Options{Block: true}, false},
	} {
		base := slices.Clone(c.s)
		for i, g := range base {
			base[i] = even(g.Run, g.Generation, 10, 1000)
		}
		if got := BetweenRuns(c.s, base, nil, c.o) != nil; got != c.want {
			t.Errorf("%s: tested is %v", c.name, got)
		}
	}
	// Identical generations: no difference, and none that rounding makes.
	if h := BetweenRuns(runs(4, 4), runs(4, 4), nil, Options{}); h.F > 1 || h.P < 0.3 {
		t.Errorf("a cell against itself: %+v", h)
	}
}

func TestHolmInOrder(t *testing.T) {
	for _, c := range []struct{ p, want []float64 }{
		{nil, []float64{}},
		{[]float64{0.2}, []float64{0.2}},
		{[]float64{0.04, 0.01, 0.03}, []float64{0.06, 0.03, 0.06}},
		{[]float64{0.5, 0.6}, []float64{1, 1}},
		{[]float64{math.NaN(), 0.01, -1, 7}, []float64{1, 0.03, 0, 1}},
	} {
		got := Holm(c.p)
		if len(got) != len(c.want) {
			t.Fatalf("%v: %v", c.p, got)
		}
		for i := range got {
			near(t, fmt.Sprintf("Holm of %v at %d", c.p, i), got[i], c.want[i], 1e-12)
		}
	}
}

// Rule 13 in a matrix of eight cells against baseline and control on one
// instance: how often a panel of equal runs is taken for one whose runs differ,
// and what then becomes of alarms where runs do have a luck of their own.
func TestSimulateHeterogeneity(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runs, generations int
		sd                float64 // luck of a cell's run, %
		found, alarms     float64
	}{
		{5, 150, 0, 4.3, 5}, {10, 150, 0, 4.2, 5}, {5, 150, 0.3, 18, 8}, {5, 150, 0.8, 93, 6.5}, {10, 150, 0.8, 85, 6.5},
	} {
		if *repeats == 0 && (c.sd == 0.3 || c.runs == 10 && c.sd == 0) { // too slow for every day
			continue
		}
		t.Run(fmt.Sprintf("%d runs, sd %g", c.runs, c.sd), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(101, uint64(c.runs)+uint64(1000*c.sd)))
			var found tally
			var alarms, ignored average
			for range trials(40) {
				s := resample(rng, 10, c.runs, c.generations)
				for i := range s {
					s[i] = luck(rng, s[i], c.sd)
				}
				p := []float64{BetweenRuns(s[1], s[0], nil, Options{}).P}
				for _, x := range s[2:] {
					p = append(p, BetweenRuns(x, s[0], s[1], Options{}).P)
				}
				differ := slices.Min(Holm(p)) < alpha
				found.add(differ)
				var raw, deaf tally
				o := Options{}
				if differ {
					o.Unit = ByRun
				}
				for _, x := range s[2:] {
					raw.add(Compare(x, s[0], s[1], o).Decides.P < alpha)
					deaf.add(Compare(x, s[0], s[1], Options{}).Decides.P < alpha)
				}
				alarms.add(raw.pct())
				ignored.add(deaf.pct())
			}
			found.check(t, "runs differ", c.found, 2)
			alarms.rate(t, "alarms of one comparison", c.alarms, 1)
			t.Logf("alarms where it is ignored: %.1f +- %.1f", ignored.mean(), ignored.se())
			if c.sd == 0.8 && ignored.mean() < alarms.mean() {
				t.Error("to ignore it does no harm, so the test is for nothing")
			}
		})
	}
}
