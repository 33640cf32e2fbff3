package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// What the procedure assumes of the noise, and what becomes of coverage where it
// is otherwise: one cell slower by 2 % against baseline and control, 60
// generations. each changes all slices of a sample; together changes those of all
// cells alike.
func TestSimulateAssumptions(t *testing.T) {
	t.Parallel()
	type shape func(rng *rand.Rand, s []Sample) []Sample
	slicewise := func(factor func(rng *rand.Rand) float64) shape {
		return func(rng *rand.Rand, s []Sample) []Sample {
			for i := range s {
				s[i] = stretch(s[i], func(int) float64 { return factor(rng) })
			}
			return s
		}
	}
	for _, c := range []struct {
		name           string
		change         shape
		typical, total float64
	}{
		// Every generation of a cell remembers the one before by 0.06, the most
		// that was measured; and by far more than that.
		{"neighbours resemble each other, 0.06", remembering(0.06, 0.02), 95, 95},
		{"neighbours resemble each other, 0.5", remembering(0.5, 0.02), 87, 92},
		{"heavy tails: a slice in 20 longer, Pareto of index 2.5", slicewise(func(rng *rand.Rand) float64 {
			if rng.IntN(20) > 0 {
				return 1
			}
			return math.Pow(1-rng.Float64(), -1/2.5)
		}), 95, 95},
		{"Pareto of index 1.5", slicewise(func(rng *rand.Rand) float64 {
			if rng.IntN(20) > 0 {
				return 1
			}
			return math.Pow(1-rng.Float64(), -1/1.5)
		}), 95, 95},
		{"two kinds of slices, 50 % apart", slicewise(func(rng *rand.Rand) float64 { return 1 + 0.5*float64(rng.IntN(2)) }), 95, 95},
		{"two kinds of generations, 2 % apart", func(rng *rand.Rand, s []Sample) []Sample {
			for i := range s {
				for g := range s[i] {
					kind := 1 + 0.02*float64(rng.IntN(2))
					s[i][g] = stretch(s[i][g:g+1], func(int) float64 { return kind })[0]
				}
			}
			return s
		}, 95, 95},
		{"drift of 30 %", func(_ *rand.Rand, s []Sample) []Sample {
			for i := range s {
				for g := range s[i] {
					by := 1 + 0.3*float64(g)/float64(len(s[i]))
					s[i][g] = stretch(s[i][g:g+1], func(int) float64 { return by })[0]
				}
			}
			return s
		}, 95, 95},
		{"one generation 50 % slow, in all cells", func(_ *rand.Rand, s []Sample) []Sample {
			for i := range s {
				s[i][7] = stretch(s[i][7:8], func(int) float64 { return 1.5 })[0]
			}
			return s
		}, 95, 95},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(161, uint64(len(c.name))))
			var typical, total tally
			var halfTypical, halfTotal average
			for range trials(80) {
				s := c.change(rng, resample(rng, 3, 1, 60))
				r := Compare(slower(s[0], 2), s[1], s[2], Options{})
				typical.add(covers(r.Typical, 2))
				total.add(covers(r.Total, 2))
				halfTypical.add(r.Typical.half())
				halfTotal.add(r.Total.half())
			}
			t.Logf("half %.2f / %.2f", halfTypical.mean(), halfTotal.mean())
			typical.check(t, "typical covers", c.typical, 2)
			total.check(t, "total covers", c.total, 2)
		})
	}
}

// remembering gives every generation of a cell a luck of sd that is rho times
// the one before and new for the rest.
func remembering(rho, sd float64) func(*rand.Rand, []Sample) []Sample {
	return func(rng *rand.Rand, s []Sample) []Sample {
		for i := range s {
			x := rng.NormFloat64()
			for g := range s[i] {
				by := math.Exp(sd * x)
				s[i][g] = stretch(s[i][g:g+1], func(int) float64 { return by })[0]
				x = rho*x + math.Sqrt(1-rho*rho)*rng.NormFloat64()
			}
		}
		return s
	}
}

// Eight clients, 29 transactions of each per slice, 20 rounds per generation as
// the rule has it (testdata/README.md says how they came to be 20). 55
// generations are 10 s per cell.
func TestSimulateEightClients(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(171, 0))
	var typical, total, marked tally
	var halfTypical, halfTotal, seconds average
	for range trials(150) {
		s := redraw(rng, eightClients()[0], 3, 1, 55)
		r := Compare(slower(s[0], 2), s[1], s[2], Options{})
		if r.Typical == nil {
			t.Fatal("no typical: too few transactions per slice")
		}
		typical.add(covers(r.Typical, 2))
		total.add(covers(r.Total, 2))
		marked.add(r.Marked)
		halfTypical.add(r.Typical.half())
		halfTotal.add(r.Total.half())
		var sum sum
		for _, g := range s[1] {
			for _, x := range g.Slices {
				sum.Time += x.Time / 8e9
			}
		}
		seconds.add(sum.Time)
	}
	t.Logf("%.1f s per cell, half %.2f / %.2f", seconds.mean(), halfTypical.mean(), halfTotal.mean())
	typical.check(t, "typical covers", 95, 2)
	total.check(t, "total covers", 95, 2)
	marked.check(t, "marked without a burst", 1, 1)
	halfTypical.near(t, "half of typical", 1.0)
	halfTotal.near(t, "half of total", 1.2)
}
