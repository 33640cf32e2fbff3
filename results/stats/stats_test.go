package stats

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s = %.8g, want %.8g", what, got, want)
	}
}

// even is a generation of rounds slices of 100 transactions, each ns long.
func even(run, generation, rounds int, ns float64) Generation {
	g := Generation{Run: run, Generation: generation}
	for range rounds {
		g.Slices = append(g.Slices, Slice{Time: 100 * ns, Count: 100})
	}
	return g
}

// evens is a sample of one run, one generation per time.
func evens(rounds int, ns ...float64) Sample {
	var s Sample
	for i, x := range ns {
		s = append(s, even(1, i+1, rounds, x))
	}
	return s
}

// Rules 4 and 5. In each of 3 generations 8 of 10 rounds are slower by a factor,
// one stalls and one is lucky; a fifth trimmed off each end leaves the factor.
// With factors 1.1, 1.2, 1.3 the y are 0.0953102, 0.1823216, 0.2623643: mean
// 0.1799987, deviations -0.0846885, 0.0023229, 0.0823656, sd sqrt(0.0139616/2)
// = 0.0835513, se 0.0482384, times t(0.975, 2) = 4.302653: 0.2075531. With 2
// degrees of freedom p = 1 - t/sqrt(t^2 + 2), t = 3.73144: 0.064905.
func TestTypicalByHand(t *testing.T) {
	base, cell := evens(10, 1000, 1000, 1000), evens(10, 1100, 1200, 1300)
	for i := range cell {
		cell[i].Slices[3].Time *= 40
		cell[i].Slices[7].Time /= 9
	}
	c := Compare(cell, base, nil, Options{})
	if c.Typical == nil {
		t.Fatal("typical is nil")
	}
	near(t, "pct", c.Typical.Pct, 100*math.Expm1(0.1799987), 1e-4)
	near(t, "lo", c.Typical.Lo, 100*math.Expm1(0.1799987-0.2075531), 1e-4)
	near(t, "hi", c.Typical.Hi, 100*math.Expm1(0.1799987+0.2075531), 1e-4)
	near(t, "se", c.Typical.SE, 0.0482384, 1e-7)
	near(t, "df", c.Typical.DF, 2, 0)
	near(t, "p", c.Typical.P, 0.064905, 1e-6)
	near(t, "reference", c.ReferenceNs, 1000, 1e-9)
	if c.Replicates != 3 || !c.FewReplicates || c.Unit != ByGeneration {
		t.Errorf("replicates %d, few %v, unit %q", c.Replicates, c.FewReplicates, c.Unit)
	}
}

// Rule 4 with a twin: half of the log ratio to each. x = 1200, b = 1000, c =
// 1100: exp((ln 1.2 + ln 12/11)/2) = sqrt(1.2 * 12/11) = 1.1441551. The total
// pools: 1200/1050 = 1.1428571. ReferenceNs is the baseline's alone.
func TestTwin(t *testing.T) {
	c := Compare(evens(10, 1200, 1200, 1200), evens(10, 1000, 1000, 1000), evens(10, 1100, 1100, 1100), Options{})
	near(t, "typical", c.Typical.Pct, 14.41551, 1e-5)
	near(t, "total", c.Total.Pct, 14.28571, 1e-5)
	near(t, "reference", c.ReferenceNs, 1000, 1e-9)
	// Rule 7: 1.1428571/1.1441551 - 1.
	near(t, "burst", c.Burst.Pct, -0.11345, 1e-5)
}

// Trimming is per reference and both stalls are trimmed, though they hit
// different rounds.
func TestTwinStallsApart(t *testing.T) {
	cell, base, twin := evens(10, 1200, 1200, 1200), evens(10, 1000, 1000, 1000), evens(10, 1100, 1100, 1100)
	for i := range base {
		base[i].Slices[0].Time *= 50
		base[i].Slices[1].Time *= 50
		twin[i].Slices[2].Time *= 50
		twin[i].Slices[3].Time *= 50
	}
	near(t, "typical", Compare(cell, base, twin, Options{}).Typical.Pct, 14.41551, 1e-5)
}

// Rule 6 by hand. Cell: 110, 120, 130 ns in one slice of 100 each; baseline and
// control 100 and 102 throughout. Sums: 36000/300 = 120 over 60600/600 = 101:
// e = ln(120/101). Without each: ln of 125, 120, 115 over 101. Their mean square
// deviation: logs 4.8283137, 4.7874917, 4.7449321, mean 4.7869125, deviations
// 0.0414012, 0.0005792, -0.0419804: sum of squares 0.0034767, times 2/3: se =
// sqrt(0.0023178) = 0.0481437.
func TestTotalByHand(t *testing.T) {
	c := Compare(evens(1, 110, 120, 130), evens(1, 100, 100, 100), evens(1, 102, 102, 102), Options{})
	if c.Typical != nil || c.Burst != nil || c.Marked {
		t.Errorf("one round per generation: typical %v, burst %v, marked %v; want none", c.Typical, c.Burst, c.Marked)
	}
	near(t, "pct", c.Total.Pct, 100*(120.0/101-1), 1e-9)
	near(t, "se", c.Total.SE, 0.0481437, 1e-6)
	near(t, "hi", c.Total.Hi, 100*(120.0/101*math.Exp(4.302653*0.0481437)-1), 1e-3)
	if c.Decides != c.Total {
		t.Error("total must decide where typical is nil")
	}
}

// Total weighs transactions, not slices. Slices of 1000 ns with 10, 2 and 10
// transactions: 3000/22 ns each, 36 % above 100, while the mean of the slices'
// ns per transaction, (100 + 500 + 100)/3, would be 133 % above.
func TestTotalWeighsTransactions(t *testing.T) {
	cell := Sample{}
	for g := range 3 {
		cell = append(cell, Generation{Run: 1, Generation: g + 1, Slices: []Slice{{1000, 10}, {1000, 2}, {1000, 10}}})
	}
	near(t, "total", Compare(cell, evens(3, 100, 100, 100), nil, Options{}).Total.Pct, 100*(3000.0/22/100-1), 1e-9)
}

// The jackknife against one that really leaves each replicate out and starts
// anew, for both units, total and burst, on measured slices.
func TestJackknifeBruteForce(t *testing.T) {
	s := resample(rand.New(rand.NewPCG(3, 3)), 3, 5, 30)
	for _, unit := range []Unit{ByGeneration, ByRun} {
		c := Compare(s[0], s[1], s[2], Options{Unit: unit})
		total := func(x Sample) float64 {
			var sums [3]sum
			for i, side := range []Sample{x, s[1], s[2]} {
				for _, g := range side {
					if slices.ContainsFunc(x, func(y Generation) bool { return y.Generation == g.Generation }) {
						for _, sl := range g.Slices {
							sums[i].add(sum(sl))
						}
					}
				}
			}
			return math.Log(sums[0].Time / sums[0].Count / ((sums[1].Time + sums[2].Time) / (sums[1].Count + sums[2].Count)))
		}
		typical := func(x Sample) float64 {
			c := Compare(x, s[1], s[2], Options{Unit: unit})
			return math.Log1p(c.Typical.Pct / 100)
		}
		var totals, differences []float64
		for i := range c.Replicates {
			var rest Sample
			for _, g := range s[0] {
				if (unit == ByRun && g.Run != i+1) || (unit == ByGeneration && g.Generation != i+1) {
					rest = append(rest, g)
				}
			}
			totals = append(totals, total(rest))
			differences = append(differences, total(rest)-typical(rest))
		}
		se := func(v []float64) float64 {
			n, mean, squares := float64(len(v)), 0.0, 0.0
			for _, x := range v {
				mean += x / n
			}
			for _, x := range v {
				squares += (x - mean) * (x - mean)
			}
			return math.Sqrt((n - 1) / n * squares)
		}
		near(t, string(unit)+" total", c.Total.Pct, 100*math.Expm1(total(s[0])), 1e-9)
		near(t, string(unit)+" total se", c.Total.SE, se(totals), 1e-12)
		near(t, string(unit)+" burst", c.Burst.Pct, 100*math.Expm1(total(s[0])-typical(s[0])), 1e-9)
		near(t, string(unit)+" burst se", c.Burst.SE, se(differences), 1e-12)
	}
}

// Rule 5, own instances: a run is one replicate, whatever number of generations
// it holds. Run 1 has factors 1.1 and 1.3, runs 2 and 3 have 1.2: y = (ln 1.1 +
// ln 1.3)/2, ln 1.2, ln 1.2; mean (0.1788373 + 2 x 0.1823216)/3 = 0.1811601.
// (Over generations the mean would be 0.1805794.)
func TestOwnInstances(t *testing.T) {
	var cell, base Sample
	for _, g := range []struct {
		run, generation int
		ns              float64
	}{{1, 1, 1100}, {1, 2, 1300}, {2, 1, 1200}, {3, 1, 1200}} {
		cell = append(cell, even(g.run, g.generation, 10, g.ns))
		base = append(base, even(g.run, g.generation, 10, 1000))
	}
	c := Compare(cell, base, nil, Options{Unit: ByRun})
	near(t, "typical", c.Typical.Pct, 100*math.Expm1(0.1811601), 1e-4)
	near(t, "df", c.Typical.DF, 2, 0)
	// The total is over all generations: 4800/4000.
	near(t, "total", c.Total.Pct, 20, 1e-9)
	if c.Replicates != 3 || c.Unit != ByRun {
		t.Errorf("replicates %d by %q", c.Replicates, c.Unit)
	}
	if g := Compare(cell, base, nil, Options{}); g.Replicates != 4 {
		t.Errorf("by generation: %d replicates, want 4", g.Replicates)
	}
}

// Blocks have no rounds: lengths may differ, the run is the replicate, typical
// is nil however long they are.
func TestBlock(t *testing.T) {
	var cell, base Sample
	for run := 1; run <= 10; run++ {
		cell = append(cell, even(run, 1, 30, 1050))
		base = append(base, even(run, 1, 20+run, 1000))
	}
	c := Compare(cell, base, nil, Options{Block: true})
	if c.Typical != nil || c.Unit != ByRun || c.Replicates != 10 || c.FewReplicates {
		t.Errorf("%+v", c)
	}
	near(t, "total", c.Total.Pct, 5, 1e-9)
	// As slices the rounds that base lacks are left out.
	if s := Compare(cell, base, nil, Options{Unit: ByRun}); s.Typical == nil {
		t.Error("typical is nil under slices")
	}
}

// Rule 4's conditions.
func TestTypicalNeeds(t *testing.T) {
	sized := func(count float64, rounds int) Sample {
		var s Sample
		for g := range 3 {
			x := Generation{Run: 1, Generation: g + 1}
			for range rounds {
				x.Slices = append(x.Slices, Slice{1000 * count, count})
			}
			s = append(s, x)
		}
		return s
	}
	for _, c := range []struct {
		what         string
		cell, base   float64
		rounds       int
		wantsTypical bool
	}{
		{"10 rounds of 30", 30, 30, 10, true},
		{"9 rounds", 30, 30, 9, false},
		{"cell slower than planned for", 25, 30, 20, true},
		{"cell far too few", 20, 30, 20, false},
		{"base far too few", 30, 20, 20, false},
	} {
		if got := Compare(sized(c.cell, c.rounds), sized(c.base, c.rounds), nil, Options{}); (got.Typical != nil) != c.wantsTypical {
			t.Errorf("%s: typical %v", c.what, got.Typical)
		}
	}
}

// What a sample lacks is left out on all sides.
func TestMatching(t *testing.T) {
	base := evens(10, 1000, 1000, 1000, 1000)
	want := Compare(evens(10, 1100, 1100, 1100), base, nil, Options{})
	check := func(what string, c *Comparison, replicates int) {
		t.Helper()
		if c.Replicates != replicates {
			t.Errorf("%s: %d replicates, want %d", what, c.Replicates, replicates)
		}
		near(t, what+": typical", c.Typical.Pct, want.Typical.Pct, 1e-9)
		near(t, what+": total", c.Total.Pct, want.Total.Pct, 1e-9)
	}

	check("a generation that base lacks", Compare(append(evens(10, 1100, 1100, 1100, 1100), even(1, 9, 10, 9999)), base, nil, Options{}), 4)
	check("another run's generation", Compare(append(evens(10, 1100, 1100, 1100), even(2, 4, 10, 9999)), base, nil, Options{}), 3)
	check("a generation that the twin lacks", Compare(evens(10, 1100, 1100, 1100, 1100), base, base[:3], Options{}), 3)
	check("an empty twin", Compare(evens(10, 1100, 1100, 1100), base, Sample{}, Options{}), 3)
	check("a key twice", Compare(append(evens(10, 1100, 1100, 1100), even(1, 3, 10, 9999)), base, nil, Options{}), 3)
	check("other order", Compare(evens(10, 1100, 1100, 1100), Sample{base[2], base[0], base[1]}, nil, Options{}), 3)

	longer := evens(10, 1100, 1100, 1100)
	longer[1].Slices = append(longer[1].Slices, Slice{1e9, 1})
	check("a round that base lacks", Compare(longer, base, nil, Options{}), 3)

	for _, none := range []Slice{{-1, 100}, {1e5, -1}, {0, 0}, {math.NaN(), 100}, {math.Inf(1), 100}, {1e5, 1e300}, {1e-300, 100}, {1e5, 0.25}} {
		// Round 4 of generation 2 is not measured in the cell, and was a stall
		// of the baseline's: it must go there too.
		cell, stalled := evens(11, 1100, 1100, 1100), evens(11, 1000, 1000, 1000)
		cell[1].Slices[4] = none
		stalled[1].Slices[4].Time *= 1000
		check("a slice not measured", Compare(cell, stalled, nil, Options{}), 3)
	}
	lost := evens(10, 1100, 1100, 1100, 1100)
	for i := range lost[3].Slices {
		lost[3].Slices[i].Time = -1
	}
	check("a generation without a measured round", Compare(lost, base, nil, Options{}), 3)
}

// Time in which nothing completed is a cost: 100 slices, one of them 99 times as
// long and empty, double the time per transaction (198/99 against 1). The typical slice knows
// nothing of it.
func TestEmptySlice(t *testing.T) {
	cell, base := evens(100, 1000, 1000, 1000), evens(100, 1000, 1000, 1000)
	for i := range cell {
		cell[i].Slices[17] = Slice{Time: 99 * 100 * 1000, Count: 0}
	}
	c := Compare(cell, base, nil, Options{})
	near(t, "total", c.Total.Pct, 100, 1e-9)
	near(t, "typical", c.Typical.Pct, 0, 1e-9)
	if !c.Marked || c.Decides != c.Total {
		t.Errorf("marked %v", c.Marked)
	}
	// More of them than trimming holds.
	for i := range cell {
		for j := range 21 {
			cell[i].Slices[j].Count = 0
		}
	}
	if c := Compare(cell, base, nil, Options{}); c.Typical != nil || c.Total == nil {
		t.Errorf("21 of 100 slices empty: typical %v, total %v", c.Typical, c.Total)
	}
	// A CPU clock that ticks: the total is right, typical would be nonsense.
	for i := range cell {
		for j := range cell[i].Slices {
			cell[i].Slices[j] = Slice{Time: float64(j%2) * 2 * 100 * 1100, Count: 100}
		}
	}
	c = Compare(cell, base, nil, Options{})
	if c.Typical != nil {
		t.Errorf("ticking clock: typical %v", c.Typical)
	}
	near(t, "ticking clock: total", c.Total.Pct, 10, 1e-9)
}

// Without noise there is no error to divide by.
func TestIdentical(t *testing.T) {
	same := evens(10, 1000, 1000, 1000)
	c := Compare(same, same, same, Options{})
	near(t, "typical", c.Typical.Pct, 0, 0)
	if c.Typical.P != 1 || c.Total.P != 1 || c.Marked {
		t.Errorf("equal cells: p %g and %g, marked %v", c.Typical.P, c.Total.P, c.Marked)
	}
	// 1/3 is no float, so that logs and sums round.
	c = Compare(evens(10, 1020./3, 1020./3, 1020./3), evens(10, 1000./3, 1000./3, 1000./3), nil, Options{})
	near(t, "typical", c.Typical.Pct, 2, 1e-9)
	near(t, "width", c.Typical.half(), 0, 1e-8)
	if c.Marked || !(c.Typical.P < 1e-9) {
		t.Errorf("2 %% in each replicate: p %g, marked %v", c.Typical.P, c.Marked)
	}
	// A p too small for its normal quantile to be computed.
	r := Control(evens(10, slices.Repeat([]float64{1020}, 60)...), evens(10, slices.Repeat([]float64{1000}, 60)...), Options{})
	if !(r.Z > 7 && r.Z < 9) {
		t.Errorf("z = %g of p = %g, want about 8", r.Z, r.Estimate.P)
	}
}

func TestTooLittle(t *testing.T) {
	for _, n := range []int{1, 2} {
		c := Compare(evens(10, 1100, 1100, 1100)[:n], evens(10, 1000, 1000, 1000), nil, Options{})
		if c.Typical != nil || c.Total != nil || c.Burst != nil || c.Decides != nil {
			t.Errorf("%d replicates: an interval", n)
		}
		if c.Point == nil {
			t.Fatalf("%d replicates: no point", n)
		}
		near(t, "point", *c.Point, 10, 1e-9)
		near(t, "reference", c.ReferenceNs, 1000, 1e-9)
		if ns, lo, hi := c.Ns(); ns != 0 || lo != 0 || hi != 0 {
			t.Errorf("Ns = %g %g %g without an interval", ns, lo, hi)
		}
	}
	for what, c := range map[string]*Comparison{
		"nothing":      Compare(nil, nil, nil, Options{}),
		"no base":      Compare(evens(10, 1, 1, 1), nil, nil, Options{}),
		"none in cell": Compare(Sample{{Run: 1, Generation: 1, Slices: []Slice{{100, 0}}}}, evens(1, 1), nil, Options{}),
	} {
		if c.Point != nil || c.Decides != nil {
			t.Errorf("%s: point %v, decides %v", what, c.Point, c.Decides)
		}
	}
	// All transactions in one of three replicates: without it there is no ratio.
	one := evens(10, 1000, 1000, 1000)
	for _, g := range one[:2] {
		for i := range g.Slices {
			g.Slices[i].Count = 0
		}
	}
	if c := Compare(one, evens(10, 1000, 1000, 1000), nil, Options{}); c.Decides != nil || c.Point == nil {
		t.Errorf("one replicate holds all: decides %v, point %v", c.Decides, c.Point)
	}
	if r := Control(nil, nil, Options{}); r.Estimate.DF != 0 {
		t.Errorf("control of nothing: %+v", r)
	}
}

// y of 21 generations: -10 to 10 per mille and one at 300. Median 0 or so, MAD
// 5 per mille, six robust sd 44 per mille.
func TestOutliers(t *testing.T) {
	var ns []float64
	for i := range 21 {
		ns = append(ns, 1000*math.Exp(float64(i-10)/1000))
	}
	ns[4] = 1300
	flat := make([]float64, len(ns))
	for i := range flat {
		flat[i] = 1000
	}
	c := Compare(evens(10, ns...), evens(10, flat...), nil, Options{})
	if !slices.Equal(c.Outliers, []int{4}) || !slices.Equal(c.OutlierAt, []Replicate{{1, 5}}) {
		t.Errorf("outliers %v at %v, want index 4, generation 5", c.Outliers, c.OutlierAt)
	}
	if c.Replicates != 21 {
		t.Errorf("%d replicates: an outlier is named and kept", c.Replicates)
	}
	flat[4] = 9999
	if c := Compare(evens(10, flat...), evens(10, make21(1000)...), nil, Options{}); c.Outliers != nil {
		t.Errorf("outliers %v without any scale", c.Outliers)
	}
}

func make21(v float64) []float64 { return slices.Repeat([]float64{v}, 21) }

// Rule 12: p of typical, z its normal quantile. Three generations of factors
// 1.1, 1.2, 1.3 as in TestTypicalByHand: t = 3.73144, p = 0.064905, and the
// normal quantile that leaves 0.0324525 above is 1.8458.
func TestControl(t *testing.T) {
	r := Control(evens(10, 1100, 1200, 1300), evens(10, 1000, 1000, 1000), Options{})
	near(t, "p", r.Estimate.P, 0.064905, 1e-6)
	near(t, "t", r.T, 3.73144, 1e-4)
	near(t, "z", r.Z, 1.8458, 1e-3)
	r = Control(evens(10, 1000, 1000, 1000), evens(10, 1100, 1200, 1300), Options{})
	near(t, "z of the reverse", r.Z, -1.8458, 1e-3)
	// Too few rounds to trim: total.
	r = Control(evens(1, 110, 120, 130), evens(1, 100, 100, 100), Options{})
	near(t, "se of total", r.Estimate.SE, 0.0481437, 1e-6)
	// A burst in one of them is not what a control is judged by.
	cell := evens(10, 1000, 1001, 1002, 1003)
	for i := range cell {
		cell[i].Slices[5].Time *= 50
	}
	r = Control(cell, evens(10, 1000, 1000, 1000, 1000), Options{})
	if c := Compare(cell, evens(10, 1000, 1000, 1000, 1000), nil, Options{}); !c.Marked || r.Estimate != *c.Typical {
		t.Errorf("marked %v, control %+v", c.Marked, r.Estimate)
	}
}

func TestTPSPct(t *testing.T) {
	for _, c := range [][2]float64{{0, 0}, {25, -20}, {-20, 25}, {100, -50}, {-50, 100}} {
		near(t, "tps", TPSPct(c[0]), c[1], 1e-12)
	}
	if v := TPSPct(-100); math.IsInf(v, 0) || math.IsNaN(v) || v < 1e6 {
		t.Errorf("TPSPct(-100) = %g", v)
	}
}

// Rule 11: 2 % (1 to 3) of 30,000 ns.
func TestNs(t *testing.T) {
	c := Comparison{ReferenceNs: 30000, Decides: &Estimate{Pct: 2, Lo: 1, Hi: 3}}
	ns, lo, hi := c.Ns()
	near(t, "ns", ns, 600, 1e-9)
	near(t, "lo", lo, 300, 1e-9)
	near(t, "hi", hi, 900, 1e-9)
}

func TestMedians(t *testing.T) {
	for _, c := range []struct {
		values           []float64
		median, min, max float64
	}{
		{nil, 0, 0, 0},
		{[]float64{7}, 7, 7, 7},
		{[]float64{3, 1, 2}, 2, 1, 3},
		{[]float64{4, 1, 3, 2}, 2.5, 1, 4},
	} {
		before := slices.Clone(c.values)
		median, min, max := Medians(c.values)
		if median != c.median || min != c.min || max != c.max {
			t.Errorf("Medians(%v) = %g %g %g", c.values, median, min, max)
		}
		if !slices.Equal(c.values, before) {
			t.Errorf("Medians changed its argument: %v", c.values)
		}
	}
}

// FuzzCompare: whatever the slices hold, nothing panics and every figure is a
// number.
func FuzzCompare(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, uint8(1))
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range 8 {
		b := make([]byte, 2500)
		for j := range b {
			b[j] = byte(rng.IntN(256))
			if i%2 == 0 { // mostly ordinary slices, so that all three estimates exist
				b[j] = 200 + byte(rng.IntN(56))
			}
		}
		f.Add(b, uint8(i))
	}
	f.Fuzz(func(t *testing.T, data []byte, how uint8) {
		o := Options{Block: how&1 != 0}
		if how&2 != 0 {
			o.Unit = ByRun
		}
		s := samples(data, 1+int(how>>4))
		if how&4 != 0 {
			s[2] = nil
		}
		c := Compare(s[0], s[1], s[2], o)
		m := Matrix{
			Comparisons: []*Comparison{c, Compare(s[1], s[0], s[2], o), {}},
			Controls:    []*ControlResult{Control(s[2], s[1], o), Control(s[1], s[0], o), {}},
			Margin:      float64(how&8) - 1,
		}
		finite(t, "trust", reflect.ValueOf(m.Judge()))
		finite(t, "matrix", reflect.ValueOf(m))
		for _, c := range m.Comparisons {
			ns, lo, hi := c.Ns()
			tps := 0.0
			if c.Decides != nil {
				tps = TPSPct(c.Decides.Lo)
				if !(c.Decides.Lo <= c.Decides.Pct && c.Decides.Pct <= c.Decides.Hi) {
					t.Errorf("interval %+v", c.Decides)
				}
				if !(c.Decides.P >= 0 && c.PAdjusted >= c.Decides.P && c.PAdjusted <= 1) {
					t.Errorf("p %g adjusted %g", c.Decides.P, c.PAdjusted)
				}
			}
			finite(t, "ns and tps", reflect.ValueOf([]float64{ns, lo, hi, tps}))
			if c.Verdict == "" {
				t.Error("no verdict")
			}
		}
	})
}

// samples makes three samples of bytes: a byte for the time of a slice and one
// for its count, by way of the values that hurt; every 12 slices a generation,
// every perRun generations a run.
func samples(data []byte, perRun int) [3]Sample {
	hurts := []float64{0, -1, 1, math.NaN(), math.Inf(1), math.Inf(-1), 1 << 62, 1e-300, math.MaxFloat64, 0.25, 1e9, 3}
	value := func(b byte) float64 {
		if int(b) < 16*len(hurts) {
			return hurts[b/16]
		}
		return 30 + float64(b)
	}
	var s [3]Sample
	for i := 0; i+6 <= len(data); i += 6 {
		g := i / 6 / 12
		for c := range s {
			if i/6%12 == 0 {
				s[c] = append(s[c], Generation{Run: 1 + g/perRun, Generation: 1 + g%7})
			}
			last := &s[c][len(s[c])-1]
			last.Slices = append(last.Slices, Slice{Time: value(data[i+2*c]) * 1000, Count: value(data[i+2*c+1])})
		}
	}
	return s
}

// finite walks v and fails on a float that is no number.
func finite(t *testing.T, what string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Float64:
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			t.Errorf("%s is %g", what, v.Float())
		}
	case reflect.Pointer:
		if !v.IsNil() {
			finite(t, what, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			finite(t, what, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			finite(t, what+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
}
