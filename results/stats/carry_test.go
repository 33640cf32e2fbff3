package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// following gives samples an order: in every round a random one in which no cell
// follows itself, and lengthens what comes after cell by effect.
func following(rng *rand.Rand, s []Sample, slow int, effect float64) []Sample {
	k := len(s)
	out := make([]Sample, k)
	for g := range s[0] {
		gen := make([]Generation, k)
		for c := range gen {
			gen[c] = s[c][g]
			gen[c].Slices = append([]Slice(nil), s[c][g].Slices...)
			gen[c].After = make([]int, len(gen[c].Slices))
		}
		last := -1
		for r := range gen[0].Slices {
			order := rng.Perm(k)
			for order[0] == last {
				order = rng.Perm(k)
			}
			for _, c := range order {
				gen[c].After[r] = last
				if last == slow {
					gen[c].Slices[r].Time *= 1 + effect
				}
				last = c
			}
		}
		for c := range gen {
			out[c] = append(out[c], gen[c])
		}
	}
	return out
}

// What was put in comes out, with intervals that hold it, in panels of 3 and of
// 10 cells; and equal cells have none. In a panel of k the mean effect is e/k, so
// the cell's own is e (1 - 1/k) and everybody else's -e/k.
func TestSimulateCarryOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cells  int
		effect float64
	}{{3, 0}, {3, 0.05}, {10, 0.05}} {
		t.Run(fmt.Sprintf("%d cells, %g", c.cells, c.effect), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(131, uint64(c.cells)))
			var own, others tally
			var bias average
			for range trials(60) {
				s := resample(rng, c.cells, 1, 60)
				// Cells of unequal cost: that must not look like an effect.
				for i := range s {
					s[i] = slower(s[i], float64(20*i))
				}
				e := CarryOver(following(rng, s, 0, c.effect), Options{})
				log := math.Log1p(c.effect)
				truth := percent(log * (1 - 1/float64(c.cells)))
				own.add(covers(e[0], truth))
				others.add(covers(e[1], percent(-log/float64(c.cells))))
				bias.add(e[0].Pct - truth)
			}
			own.check(t, "covered, the cell", 95, 2)
			others.check(t, "covered, another", 95, 2)
			bias.unbiased(t, "effect", 0.05)
		})
	}
}

// By hand: no noise, so that every effect is found to the last digit, with the
// cells' costs and the rounds' weather in the way.
func TestCarryOverExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	s := noisy(rng, 4, 1, 5, 12, func() float64 { return 0 })
	for i := range s {
		s[i] = slower(s[i], float64(10*i))
	}
	e := CarryOver(following(rng, s, 2, 0.08), Options{})
	log := math.Log(1.08)
	for c, x := range e {
		want := -log / 4
		if c == 2 {
			want += log
		}
		near(t, fmt.Sprintf("effect of cell %d", c), x.Pct, percent(want), 1e-6)
		near(t, "df", x.DF, 4, 0)
	}
}

func TestCarryOverNeeds(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 4))
	s := func(cells, generations int) []Sample {
		return following(rng, noisy(rng, cells, 1, generations, 12, rng.NormFloat64), 0, 0)
	}
	fixed := s(3, 9)
	for c := range fixed {
		for g := range fixed[c] {
			for r := range fixed[c][g].After {
				fixed[c][g].After[r] = (c + 2) % 3
			}
		}
	}
	unknown := s(3, 9)
	for g := range unknown[1] {
		unknown[1][g].After = nil
	}
	itself := s(3, 9)
	for g := range itself[1] {
		for r := range itself[1][g].After {
			itself[1][g].After[r] = 1
		}
	}
	for _, c := range []struct {
		name string
		s    []Sample
		o    Options
		want bool
	}{
		{"enough", s(3, 9), Options{}, true},
		{"two cells", s(2, 9), Options{}, false},
		{"two generations", s(3, 2), Options{}, false},
		{"one run", s(3, 9), Options{Unit: ByRun}, false},
		{"blocks", s(3, 9), Options{Block: true}, false},
		{"always the same order", fixed, Options{}, false},
		{"no predecessors", unknown, Options{}, false},
		{"a cell after itself", itself, Options{}, false},
		{"nothing", nil, Options{}, false},
		{"nothing measured", make([]Sample, 4), Options{}, false},
	} {
		e := CarryOver(c.s, c.o)
		if len(e) != len(c.s) || (len(e) > 0 && e[0] != nil) != c.want {
			t.Errorf("%s: %v", c.name, e)
		}
	}
}
