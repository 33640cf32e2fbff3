package stats

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// By hand: 1 and 3 with errors 1 and 2: weights 1 and 1/4, mean 1.75/1.25 = 1.4,
// q = 0.16 + 0.25 * 2.56 = 0.8. With two, q is z^2 of the difference: (3-1)^2/5.
func TestCochranQ(t *testing.T) {
	q, df, p := CochranQ([]float64{1, 3}, []float64{1, 2})
	near(t, "q", q, 0.8, 1e-12)
	near(t, "df", df, 1, 0)
	near(t, "p", p, math.Erfc(math.Sqrt(0.8)/math.Sqrt2), 1e-9)
	for _, c := range [][2][]float64{{nil, nil}, {{1}, {1}}, {{1, math.NaN()}, {1, 1}}, {{1, 2}, {1, -1}}, {{1, 2}, {math.Inf(1), 1}}} {
		if q, df, p := CochranQ(c[0], c[1]); q != 0 || df != 0 || p != 1 {
			t.Errorf("%v: %g %g %g", c, q, df, p)
		}
	}
	if _, _, p := CochranQ([]float64{1, 1}, []float64{0, 0}); p != 1 {
		t.Errorf("equal without an error: p %g", p)
	}
	if _, _, p := CochranQ([]float64{1, 2}, []float64{0, 0}); p > 1e-9 {
		t.Errorf("unequal without an error: p %g", p)
	}
}

// Equal estimates fail at 5 % where their errors are known to 59 degrees of
// freedom, and more often with 9.
func TestSimulateCochranQ(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(141, 0))
	for n, want := range map[int]float64{60: 5.8, 10: 10} {
		var failed tally
		for range trials(5000) {
			var est, se []float64
			for range 4 {
				var a average
				for range n {
					a.add(rng.NormFloat64())
				}
				est, se = append(est, a.mean()), append(se, a.se()*math.Sqrt(float64(n)/float64(n-1)))
			}
			_, _, p := CochranQ(est, se)
			failed.add(p < alpha)
		}
		failed.check(t, "equal estimates that fail", want, 1.2)
	}
}

// By hand: 5 % with a log error of 0.01 (1.05 points) and 9 degrees of freedom,
// 2 % with 0.02 (2.04 points) and 19.
func TestWelchDifference(t *testing.T) {
	a, b := &Estimate{Pct: 5, SE: 0.01, DF: 9}, &Estimate{Pct: 2, SE: 0.02, DF: 19}
	d := WelchDifference(a, b)
	va, vb := 1.05*1.05, 2.04*2.04
	near(t, "points", d.Points, 3, 1e-12)
	near(t, "se", d.SE, math.Sqrt(va+vb), 1e-12)
	near(t, "df", d.DF, (va+vb)*(va+vb)/(va*va/9+vb*vb/19), 1e-9)
	near(t, "t", d.T, 3/math.Sqrt(va+vb), 1e-12)
	if !(d.Lo < 0 && d.Hi > 6 && d.P > 0.15 && d.P < 0.25) {
		t.Errorf("%+v", d)
	}
	if r := WelchDifference(b, a); r.Points != -d.Points || r.P != d.P || r.Lo != -d.Hi {
		t.Errorf("the other way round: %+v", r)
	}
	if WelchDifference(nil, b) != nil || WelchDifference(a, &Estimate{}) != nil {
		t.Error("a difference to nothing")
	}
	hopeless := &Estimate{Pct: percent(maxLog), SE: 100, DF: 2}
	finite(t, "hopeless", reflect.ValueOf(WelchDifference(hopeless, a)))
	finite(t, "hopeless", reflect.ValueOf(WelchDifference(hopeless, hopeless)))
	same := &Estimate{Pct: 2, SE: minSE, DF: 9}
	if d := WelchDifference(same, same); d.P != 1 {
		t.Errorf("alike: %+v", d)
	}
}

func TestNextLook(t *testing.T) {
	for _, c := range []struct {
		unit  Unit
		looks []int
	}{
		{ByGeneration, []int{0, 30, 38, 48, 60, 75, 94, 118, 148, 185}},
		{ByRun, []int{0, 10, 13, 17, 22, 28, 35}},
		{"", []int{-5, 30, 38}},
		{ByRun, []int{9, 10}},
		{ByGeneration, []int{math.MaxInt - 1, math.MaxInt, math.MaxInt}},
	} {
		for i, n := range c.looks[1:] {
			if got := NextLook(c.looks[i], c.unit); got != n {
				t.Errorf("%s after %d: %d, want %d", c.unit, c.looks[i], got, n)
			}
		}
	}
}

// Measuring until the interval is narrow leaves its coverage what it promises.
func TestSimulateStopping(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		unit Unit
		h    float64
		want float64
	}{
		{"generations", ByGeneration, 1.0, 93.2},
		{"runs", ByRun, 1.1, 94.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(151, uint64(len(c.name))))
			var covered tally
			var looks, half average
			for range trials(150) {
				const most = 240
				runs := 1
				if c.unit == ByRun {
					runs = most / 6 // 6 generations each
				}
				s := resample(rng, 2, runs, most)
				if c.unit == ByRun {
					s[0], s[1] = luck(rng, s[0], 0.8), luck(rng, s[1], 0.8)
				}
				x := slower(s[0], 1)
				var e *Comparison
				n, looked := 0, 0
				for {
					n = NextLook(n, c.unit)
					take := n
					if c.unit == ByRun {
						take *= 6
					}
					if take > most {
						break
					}
					looked++
					if e = Compare(x[:take], s[1][:take], nil, Options{Unit: c.unit}); e.Decides.half() <= c.h {
						break
					}
				}
				covered.add(covers(e.Decides, 1))
				looks.add(float64(looked))
				half.add(e.Decides.half())
			}
			t.Logf("%.1f looks, half %.2f", looks.mean(), half.mean())
			if looks.mean() < 2 {
				t.Error("hardly more than one look, so nothing is shown")
			}
			covered.check(t, "covered", c.want, 1)
		})
	}
}
