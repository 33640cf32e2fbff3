package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// histogram puts values into bars of width.
func histogram(values []float64, width float64) []Bar {
	counts := map[float64]float64{}
	for _, v := range values {
		counts[math.Floor(v/width)*width]++
	}
	var bars []Bar
	for from, n := range counts {
		bars = append(bars, Bar{from, from + width, n})
	}
	return bars
}

// madeUp are latencies of some generations: a level of each generation that all
// cells share, a luck of each backend, a long tail.
func madeUp(rng *rand.Rand, cells, generations, transactions int, backend float64) [][][]float64 {
	out := make([][][]float64, cells)
	for range generations {
		level := 30_000 * math.Exp(0.1*rng.NormFloat64())
		for c := range out {
			own := level * math.Exp(backend*rng.NormFloat64())
			values := make([]float64, transactions)
			for i := range values {
				values[i] = own * math.Exp(0.15*rng.NormFloat64())
				if rng.IntN(50) == 0 {
					values[i] *= 1 + 4*rng.ExpFloat64()
				}
			}
			out[c] = append(out[c], values)
		}
	}
	return out
}

func latencies(values [][]float64, runs int, width, factor float64) []Latencies {
	var out []Latencies
	for g, v := range values {
		slowed := slices.Clone(v)
		for i := range slowed {
			slowed[i] *= factor
		}
		out = append(out, Latencies{Run: 1 + g*runs/len(values), Generation: g + 1, Bars: histogram(slowed, width)})
	}
	return out
}

// Bars of 1 ns are nearly the values themselves: estimate and error are those of
// a jackknife that leaves groups out of the sorted values.
func TestPercentilesBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	m := madeUp(rng, 3, 45, 300, 0.02)
	quantile := func(cells [][][]float64, without int, q float64) float64 {
		var all []float64
		for _, c := range cells {
			for g, values := range c {
				if g/3 != without {
					all = append(all, values...)
				}
			}
		}
		slices.Sort(all)
		return all[int(math.Ceil(q*float64(len(all))))-1]
	}
	got := Percentiles(latencies(m[0], 1, 1, 1), latencies(m[1], 1, 1, 1), latencies(m[2], 1, 1, 1), []float64{50, 95, 99}, Options{})
	if len(got) != 3 {
		t.Fatalf("%d percentiles", len(got))
	}
	for i, q := range []float64{50, 95, 99} {
		ratio := func(without int) float64 {
			return math.Log(quantile(m[:1], without, q/100) / quantile(m[1:], without, q/100))
		}
		var outs []float64
		for j := range 15 {
			outs = append(outs, ratio(j))
		}
		want := jackknife(ratio(-1), outs)
		if got[i].Q != q || got[i].DF != 14 {
			t.Errorf("q %g, df %g", got[i].Q, got[i].DF)
		}
		near(t, "pct", got[i].Pct, want.Pct, 0.01)
		near(t, "se", got[i].SE, want.SE, 0.02*want.SE)
	}
}

func TestPercentilesNeed(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	m := madeUp(rng, 2, 30, 400, 0)
	list := func(values [][]float64, runs int) []Latencies { return latencies(values, runs, 10, 1) }
	quantiles := func(ps []Percentile) []float64 {
		var q []float64
		for _, p := range ps {
			q = append(q, p.Q)
		}
		return q
	}
	check := func(name string, got []Percentile, df float64, want ...float64) {
		t.Helper()
		if !slices.Equal(quantiles(got), want) {
			t.Errorf("%s: %v, want %v", name, quantiles(got), want)
		}
		for _, p := range got {
			if p.DF != df {
				t.Errorf("%s: %g degrees of freedom, want %g", name, p.DF, df)
			}
		}
	}
	all := []float64{50, 95, 99, 99.9}
	// 30 generations of 400: 12000, without a fifteenth 11200, of which 112 are
	// beyond p99 and 11 beyond p99.9. 26 of them: 104 and, without 2, 96.
	check("enough", Percentiles(list(m[0], 1), list(m[1], 1), nil, all, Options{}), 14, 50, 95, 99)
	check("only the whole is enough", Percentiles(list(m[0][:26], 1), list(m[1][:26], 1), nil, all, Options{}), 14, 50, 95)
	check("one side has too little", Percentiles(list(m[0], 1), latencies(split(m[1]), 1, 10, 1), nil, all, Options{}), 14, 50, 95)
	check("5 runs", Percentiles(list(m[0], 5), list(m[1], 5), nil, []float64{50}, Options{Unit: ByRun}), 4, 50)
	check("5 blocks", Percentiles(list(m[0], 5), list(m[1], 5), nil, []float64{50}, Options{Block: true}), 4, 50)
	check("2 runs", Percentiles(list(m[0], 2), list(m[1], 2), nil, all, Options{Unit: ByRun}), 0)
	check("7 generations", Percentiles(list(m[0][:7], 1), list(m[1][:7], 1), nil, []float64{50}, Options{}), 6, 50)
	check("nothing shared", Percentiles(list(m[0][:9], 1), list(m[1], 1)[9:], nil, all, Options{}), 0)
	check("a twin of nothing shared", Percentiles(list(m[0][:9], 1), list(m[1], 1), list(m[1], 1)[9:], all, Options{}), 0)
	check("nothing", Percentiles(nil, nil, nil, all, Options{}), 0)
	check("no quantiles", Percentiles(list(m[0], 1), list(m[1], 1), nil, []float64{-1, 0, 100, 200, math.NaN()}, Options{}), 0)
}

// split drops three quarters of the transactions.
func split(values [][]float64) [][]float64 {
	var out [][]float64
	for _, v := range values {
		out = append(out, v[:len(v)/4])
	}
	return out
}

// A quantile that all groups share has no error of its own, and is not NaN.
func TestPercentilesAlike(t *testing.T) {
	var s []Latencies
	for g := range 20 {
		s = append(s, Latencies{Run: 1, Generation: g + 1, Bars: []Bar{{1000, 1001, 1000}}})
	}
	for _, p := range Percentiles(s, s, nil, []float64{50, 95}, Options{}) {
		if p.Pct != 0 || p.P != 1 || p.Hi > 1e-6 {
			t.Errorf("%+v", p)
		}
	}
}

// Intervals hold the truth, also in groups of unequal size (20 replicates) and
// for runs with a luck of their own.
func TestSimulatePercentiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                     string
		generations, runs, quick int
		backend                  float64
		o                        Options
	}{
		{"60 generations", 60, 1, 25, 0.01, Options{}},
		{"20 generations", 20, 1, 25, 0.01, Options{}},
		{"10 runs", 50, 10, 25, 0.01, Options{Unit: ByRun}},
		{"150 generations", 150, 1, 0, 0.01, Options{}},
	} {
		if c.quick == 0 && *repeats == 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(111, uint64(c.generations)))
			covered := map[float64]*tally{50: {}, 95: {}, 99: {}}
			halves := map[float64]*average{50: {}, 95: {}, 99: {}}
			for range trials(c.quick) {
				m := madeUp(rng, 3, c.generations, 1250, c.backend)
				for _, p := range Percentiles(latencies(m[0], c.runs, 16, 1.02), latencies(m[1], c.runs, 16, 1), latencies(m[2], c.runs, 16, 1), []float64{50, 95, 99}, c.o) {
					covered[p.Q].add(p.Lo <= 2 && 2 <= p.Hi)
					halves[p.Q].add(p.half())
				}
			}
			for _, q := range []float64{50, 95, 99} {
				if covered[q].n == 0 {
					t.Errorf("no p%g", q)
					continue
				}
				t.Logf("p%g: half %.2f", q, halves[q].mean())
				covered[q].check(t, "covered", 95, 3)
			}
		})
	}
}

func FuzzPercentiles(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range 6 {
		b := make([]byte, 900)
		for j := range b {
			b[j] = byte(rng.IntN(256))
		}
		f.Add(b, uint8(i))
	}
	f.Fuzz(func(t *testing.T, data []byte, how uint8) {
		hurts := []float64{0, -1, math.NaN(), math.Inf(1), 1 << 62, math.MaxFloat64, 0.5, 1}
		var s [3][]Latencies
		for i := 0; i+3 <= len(data); i += 3 {
			side := &s[i/3%3]
			if i/9%4 == 0 {
				*side = append(*side, Latencies{Run: 1 + i/200, Generation: 1 + len(*side)%20})
			}
			bar := Bar{From: float64(data[i]), To: float64(data[i]) + 1, Count: 100 * float64(data[i+1])}
			if data[i+2] < 20 {
				bar.From = hurts[data[i+2]%8]
			} else if data[i+2] < 40 {
				bar.Count = hurts[data[i+2]%8]
			} else if data[i+2] < 50 {
				bar.To = hurts[data[i+2]%8]
			}
			if len(*side) > 0 {
				last := &(*side)[len(*side)-1]
				last.Bars = append(last.Bars, bar)
			}
		}
		if how&1 != 0 {
			s[2] = nil
		}
		o := Options{Block: how&2 != 0}
		if how&4 != 0 {
			o.Unit = ByRun
		}
		for _, p := range Percentiles(s[0], s[1], s[2], []float64{50, 99, 0.1}, o) {
			if sum := stat.Mean([]float64{p.Pct, p.Lo, p.Hi, p.SE, p.T, p.P, p.DF}, nil); math.IsNaN(sum) || math.IsInf(sum, 0) || !(p.Lo <= p.Pct && p.Pct <= p.Hi) {
				t.Errorf("%+v", p)
			}
		}
	})
}
