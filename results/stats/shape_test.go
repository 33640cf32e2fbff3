package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// noisy are made-up cells: weather of the round with a memory, a noise of each
// slice that draw gives (log).
func noisy(rng *rand.Rand, cells, runs, generations, rounds int, draw func() float64) []Sample {
	s := make([]Sample, cells)
	weather := 0.0
	for g := range generations {
		gen := make([]Generation, cells)
		for range rounds {
			weather = 0.8*weather + 0.1*rng.NormFloat64()
			for c := range gen {
				gen[c].Slices = append(gen[c].Slices, Slice{Time: 3_000_000 * math.Exp(weather+draw()), Count: 100})
			}
		}
		for c := range gen {
			gen[c].Run, gen[c].Generation = 1+g*runs/generations, g+1
			s[c] = append(s[c], gen[c])
		}
	}
	return s
}

// No real slice is of two kinds, nor are heavy tails, bursts, drift or luck.
func TestBimodalSilent(t *testing.T) {
	check := func(name string, s []Sample) {
		t.Helper()
		for c, m := range Bimodal(s) {
			if m != nil {
				t.Errorf("%s, cell %d: two groups %.0f %% apart, %.0f %% in the slower", name, c, m.ApartPct, 100*m.Slower)
			}
		}
	}
	whole := func(m measured) []Sample {
		cells := make([]Sample, len(m[0][0]))
		for r, run := range m {
			for g, x := range run {
				for c := range cells {
					cells[c] = append(cells[c], Generation{Run: r + 1, Generation: g + 1, Slices: x[c]})
				}
			}
		}
		return cells
	}
	cells, instances := whole(equalCells()), whole(equalInstances())
	check("measured cells", cells)
	check("measured instances", instances)
	for k := 2; k <= 4; k++ {
		check(fmt.Sprintf("%d measured cells", k), cells[:k])
		check(fmt.Sprintf("%d measured instances", k), instances[:k])
	}
	for from := 0; from+20 <= len(cells[0]); from += 20 {
		var part []Sample
		for _, c := range cells {
			part = append(part, c[from:from+20])
		}
		check("part of the measured cells", part)
	}
	rng := rand.New(rand.NewPCG(1, 9))
	check("one cell", cells[:1])
	check("bursts", []Sample{bursts(rng, cells[0], 20), bursts(rng, cells[1], 5), cells[2]})
	for range 20 {
		check("normal", noisy(rng, 3, 1, 20, 20, func() float64 { return 0.05 * rng.NormFloat64() }))
		check("wide", noisy(rng, 3, 1, 20, 20, func() float64 { return 0.3 * rng.NormFloat64() }))
		check("no tails", noisy(rng, 3, 1, 20, 20, func() float64 { return 0.4 * rng.Float64() }))
		check("heavy tails", noisy(rng, 3, 1, 20, 20, func() float64 { return 0.05 * rng.NormFloat64() / (0.05 + rng.Float64()) }))
		check("skewed", noisy(rng, 3, 1, 20, 20, func() float64 { return 0.2 * rng.ExpFloat64() }))
	}
}

// Two modes 20 % apart are found from 15 % of the slices on, whether slices or
// whole generations change between them, and nobody else is blamed.
func TestBimodalFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 9))
	for _, c := range []struct {
		name         string
		cells        int
		apart, share float64
		sd           float64
	}{
		{"15 % slower", 4, 20, 0.15, 0.03}, {"half", 4, 20, 0.5, 0.03}, {"15 % faster", 4, 20, 0.85, 0.03}, {"three times as slow", 4, 200, 0.3, 0.2},
		{"baseline, control and one setting", 3, 50, 0.4, 0.03},
	} {
		for _, whole := range []bool{false, true} {
			found := 0
			for range 20 {
				s := noisy(rng, c.cells, 1, 60, 20, func() float64 { return c.sd * rng.NormFloat64() })
				for g := range s[1] {
					for r := range s[1][g].Slices {
						hit := rng.Float64() < c.share
						if whole {
							hit = math.Mod(float64(g)*0.618034, 1) < c.share
						}
						if hit {
							s[1][g].Slices[r].Time *= 1 + c.apart/100
						}
					}
				}
				m := Bimodal(s)
				for i := range m {
					if i != 1 && m[i] != nil {
						t.Errorf("%s: another cell is blamed", c.name)
					}
				}
				if m[1] == nil {
					continue
				}
				found++
				if math.Abs(m[1].ApartPct/c.apart-1) > 0.25 || math.Abs(m[1].Slower-c.share) > 0.05 {
					t.Errorf("%s: %+v", c.name, m[1])
				}
			}
			if found < 19 {
				t.Errorf("%s (whole generations: %v): found in %d of 20", c.name, whole, found)
			}
		}
	}
}

// On measured slices, whose noise is 9 % and more, modes must be further apart.
func TestBimodalInMeasuredNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	found := 0
	for range 20 {
		s := resample(rng, 4, 1, 150)
		s[0] = stretch(s[0], func(int) float64 {
			if rng.IntN(2) == 0 {
				return 1.5
			}
			return 1
		})
		if Bimodal(s)[0] != nil {
			found++
		}
	}
	if found < 19 {
		t.Errorf("50 %% apart, half and half: found in %d of 20", found)
	}
}

// Of matrices of equal cells at most 1 % blame a first run; a first run 10 %
// apart is found.
func TestSimulateFirstRuns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		cells, runs int
		make        func(rng *rand.Rand, cells, runs int) []Sample
		found       float64
	}{
		{"measured, 5 runs", 6, 5, func(rng *rand.Rand, cells, runs int) []Sample { return resample(rng, cells, runs, 8*runs) }, 0},
		{"measured, 5 runs, 10 cells", 10, 5, func(rng *rand.Rand, cells, runs int) []Sample { return resample(rng, cells, runs, 30*runs) }, 1},
		{"measured, 10 runs, 3 cells", 3, 10, func(rng *rand.Rand, cells, runs int) []Sample { return resample(rng, cells, runs, 8*runs) }, 0},
		{"luck of runs", 6, 5, func(rng *rand.Rand, cells, runs int) []Sample {
			s := resample(rng, cells, runs, 8*runs)
			for i := range s {
				s[i] = luck(rng, s[i], 2)
			}
			return s
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(121, uint64(c.cells*c.runs)))
			var alarms, found tally
			for range trials(100) {
				s := c.make(rng, c.cells, c.runs)
				alarm := false
				for _, f := range FirstRuns(s) {
					alarm = alarm || f != nil
				}
				alarms.add(alarm)
				s[1] = stretch(s[1], func(run int) float64 {
					if run == 1 {
						return 1.3
					}
					return 1
				})
				f := FirstRuns(s)[1]
				found.add(f != nil)
			}
			alarms.check(t, "matrices with a false alarm", 0.4, 0.6)
			t.Logf("a first run 30 %% slower found in %.0f %%", found.pct())
			if c.found > 0 && found.pct() < 95 {
				t.Errorf("a first run 30 %% slower found in %.0f %%", found.pct())
			}
		})
	}
}

func TestFirstRunsNeed(t *testing.T) {
	cells := func(n, runs int) []Sample {
		s := make([]Sample, n)
		for c := range s {
			for run := 1; run <= runs; run++ {
				ns := 1000 + float64((c*7+run*3)%5)
				if c == 1 && run == 1 {
					ns *= 2
				}
				s[c] = append(s[c], even(run, 1, 10, ns))
			}
		}
		return s
	}
	if f := FirstRuns(cells(4, 5)); f[0] != nil || f[2] != nil || f[3] != nil || f[1] == nil || math.Abs(f[1].Pct-100) > 2 {
		t.Errorf("%v", f)
	}
	lacking := cells(4, 6)
	lacking[2] = lacking[2][1:]
	for name, s := range map[string][]Sample{"4 runs": cells(4, 4), "2 cells": cells(2, 9), "nothing": nil, "a cell without its first run": lacking} {
		for c, f := range FirstRuns(s) {
			if f != nil {
				t.Errorf("%s: cell %d: %+v", name, c, f)
			}
		}
	}
}
