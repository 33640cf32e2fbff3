package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// Each simulation states the rate it should find. What it finds in n
// experiments may be off by four binomial standard errors, and by slack for
// what the method itself is allowed to miss.

// trials is the number of experiments: -repeats, or quick.
func trials(quick int) int {
	if *repeats > 0 {
		return *repeats
	}
	return quick / raceDivisor
}

type tally struct{ hits, n int }

func (c *tally) add(hit bool) {
	c.n++
	if hit {
		c.hits++
	}
}

func (c tally) pct() float64 { return 100 * float64(c.hits) / float64(c.n) }

func (c tally) check(t *testing.T, what string, want, slack float64) {
	t.Helper()
	se := 100 * math.Sqrt(want/100*(1-want/100)/float64(c.n))
	t.Logf("%s: %.1f %% of %d, expected %.1f +- %.1f", what, c.pct(), c.n, want, 4*se+slack)
	if math.Abs(c.pct()-want) > 4*se+slack {
		t.Errorf("%s: %.1f %% of %d, want %.1f +- %.1f", what, c.pct(), c.n, want, 4*se+slack)
	}
}

type average struct {
	sum, squares float64
	n            int
}

func (a *average) add(v float64) { a.sum += v; a.squares += v * v; a.n++ }

func (a average) mean() float64 { return a.sum / float64(a.n) }

func (a average) se() float64 {
	m := a.mean()
	return math.Sqrt((a.squares/float64(a.n) - m*m) / float64(a.n))
}

// near checks a half-width: want within a tenth.
func (a average) near(t *testing.T, what string, want float64) {
	t.Helper()
	t.Logf("%s: %.2f, expected %.2f", what, a.mean(), want)
	if math.Abs(a.mean()/want-1) > 0.1 {
		t.Errorf("%s: %.2f, want %.2f +- 10 %%", what, a.mean(), want)
	}
}

// rate checks a percentage that each experiment gives for several cells. These
// share their reference, so the error comes from the experiments.
func (a average) rate(t *testing.T, what string, want, slack float64) {
	t.Helper()
	t.Logf("%s: %.1f %% +- %.1f, expected %.1f", what, a.mean(), a.se(), want)
	if math.Abs(a.mean()-want) > 4*a.se()+slack {
		t.Errorf("%s: %.1f %% +- %.1f, want %.1f", what, a.mean(), a.se(), want)
	}
}

// unbiased checks that the mean error is nothing but chance, or below slack.
func (a average) unbiased(t *testing.T, what string, slack float64) {
	t.Helper()
	t.Logf("%s: bias %+.3f +- %.3f points", what, a.mean(), a.se())
	if math.Abs(a.mean()) > 4*a.se()+slack {
		t.Errorf("%s: bias %+.3f +- %.3f points", what, a.mean(), a.se())
	}
}

func covers(e *Estimate, truth float64) bool { return e.Lo <= truth && truth <= e.Hi }

// One cell against one reference: 95 % intervals hold the truth in 95 %.
func TestSimulateCoverage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		generations          int
		effect               float64
		halfTypical, halfTot float64
	}{
		{30, 0, 1.6, 2.4},
		{60, 0, 1.1, 1.7},
		{150, 0, 0.71, 1.06},
		{60, 2, 1.1 * 1.02, 1.7 * 1.02},
	} {
		t.Run(fmt.Sprintf("%d generations, effect %g", c.generations, c.effect), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(11, uint64(c.generations)+uint64(c.effect)))
			var typical, total, marked tally
			var halfTypical, halfTotal, biasTypical, biasTotal average
			for range trials(500) {
				s := resample(rng, 2, 1, c.generations)
				r := Compare(slower(s[0], c.effect), s[1], nil, Options{})
				typical.add(covers(r.Typical, c.effect))
				total.add(covers(r.Total, c.effect))
				marked.add(r.Marked)
				halfTypical.add(r.Typical.half())
				halfTotal.add(r.Total.half())
				biasTypical.add(r.Typical.Pct - c.effect)
				biasTotal.add(r.Total.Pct - c.effect)
			}
			typical.check(t, "typical covers", 95, 1)
			total.check(t, "total covers", 95, 1)
			marked.check(t, "marked without a burst", 1, 1)
			halfTypical.near(t, "half of typical", c.halfTypical)
			halfTotal.near(t, "half of total", c.halfTot)
			biasTypical.unbiased(t, "typical", 0.02)
			biasTotal.unbiased(t, "total", 0.02)
		})
	}
}

// A matrix as it is run: eight cells against baseline and control, one of them
// slower.
func TestSimulateMatrix(t *testing.T) {
	t.Parallel()
	type want struct {
		half, halfTotal       float64
		found, holm, sameTrue float64
	}
	for _, c := range []struct {
		generations int
		effect      float64
		quick       int // experiments; 0: only with -repeats
		want        want
	}{
		{30, 2, 100, want{1.38, 2.10, 82, 49, 0}},
		{60, 0.5, 0, want{0.96, 1.47, 15, 4, 11}},
		{60, 1, 0, want{0.96, 1.47, 54, 25, 11}},
		{60, 2, 100, want{0.96, 1.47, 97, 87, 11}},
		{150, 0.5, 0, want{0.60, 0.92, 38, 16, 77}},
		{150, 1, 150, want{0.60, 0.92, 89, 67, 77}},
		{150, 2, 0, want{0.60, 0.92, 100, 100, 77}},
		{250, 1, 0, want{0.47, 0.71, 99, 94, 96}},
	} {
		n := c.quick
		if *repeats > 0 {
			n = *repeats
		}
		if n == 0 {
			continue
		}
		t.Run(fmt.Sprintf("%d generations, one at %g", c.generations, c.effect), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(22, uint64(c.generations)+uint64(1000*c.effect)))
			var anyRaw, anyHolm, found, foundHolm, sameMargin, lost tally
			var alarm, sameTrue, half, halfTotal, seen average
			for range trials(c.quick) {
				s := resample(rng, 10, 1, c.generations)
				m := Matrix{Controls: []*ControlResult{Control(s[1], s[0], Options{})}}
				for i, x := range s[2:] {
					if i == 0 {
						x = slower(x, c.effect)
					}
					m.Comparisons = append(m.Comparisons, Compare(x, s[0], s[1], Options{}))
				}
				trust := m.Judge()
				lost.add(!trust.Trusted)

				var raw, holm, same tally
				for _, x := range m.Comparisons[1:] {
					raw.add(x.Decides.P < alpha)
					holm.add(x.PAdjusted < alpha)
					same.add(x.Verdict == Same)
					half.add(x.Typical.half())
					halfTotal.add(x.Total.half())
					seen.add(x.WouldSee)
				}
				alarm.add(raw.pct())
				anyRaw.add(raw.hits > 0)
				anyHolm.add(holm.hits > 0)
				if trust.Trusted {
					sameTrue.add(same.pct())
				}
				slow := m.Comparisons[0]
				found.add(slow.Decides.P < alpha && slow.Decides.Pct > 0)
				foundHolm.add(slow.PAdjusted < alpha && slow.Decides.Pct > 0)
				sameMargin.add(slow.Verdict == Same)
			}
			half.near(t, "half of typical", c.want.half)
			halfTotal.near(t, "half of total", c.want.halfTotal)
			alarm.rate(t, "alarms of one comparison", 5, 1)
			anyRaw.check(t, "any of 7 alarms, raw", 28, 3)
			anyHolm.check(t, "any of 7 alarms, Holm", 5, 1)
			found.check(t, "slower found, raw", c.want.found, 3)
			foundHolm.check(t, "slower found, Holm", c.want.holm, 3)
			sameTrue.rate(t, "same where equal", c.want.sameTrue, 3)
			if c.effect == 1 {
				sameMargin.check(t, "same at exactly the margin", 2.5, 1)
			}
			lost.check(t, "matrices not trusted", 1, 1)
			t.Logf("would see: %.2f", seen.mean())
		})
	}
}

// Rule 12 loses one or two good matrices in a hundred, however many panels.
func TestSimulateControls(t *testing.T) {
	t.Parallel()
	for _, panels := range []int{1, 4, 8} {
		rng := rand.New(rand.NewPCG(33, uint64(panels)))
		var lost, fifth tally
		for range trials(500) {
			var m Matrix
			note := false
			for range panels {
				s := resample(rng, 2, 1, 30)
				m.Controls = append(m.Controls, Control(s[0], s[1], Options{}))
			}
			lost.add(!m.Judge().Trusted)
			for _, c := range m.Controls {
				note = note || c.Note
			}
			fifth.add(note)
		}
		lost.check(t, fmt.Sprintf("good matrices lost with %d controls", panels), 1.5, 1)
		fifth.check(t, "any control with a note", 100*(1-math.Pow(0.95, float64(panels))), 2)
	}
}

// Equal instances whose starts have a luck of 0.8 %: the replicate must be the
// run. 240 generations in all; more of them per run would repair nothing.
func TestSimulateInstanceLuck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runs            int
		generation, run float64 // alarms in %
	}{
		{5, 31, 4.6}, {10, 21, 4.6}, {20, 12, 4.6},
	} {
		t.Run(fmt.Sprintf("%d runs", c.runs), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(44, uint64(c.runs)))
			var byGeneration, byRun tally
			var half average
			for range trials(200) {
				s := resample(rng, 2, c.runs, 240)
				a, b := luck(rng, s[0], 0.8), luck(rng, s[1], 0.8)
				byGeneration.add(Compare(a, b, nil, Options{}).Decides.P < alpha)
				r := Compare(a, b, nil, Options{Unit: ByRun})
				byRun.add(r.Decides.P < alpha)
				half.add(r.Typical.half())
			}
			byGeneration.check(t, "alarms, generations as replicates", c.generation, 4)
			byRun.check(t, "alarms, runs as replicates", c.run, 1)
			t.Logf("half with runs: %.2f", half.mean())
		})
	}
}

// With twins and about 1 s per cell and run.
func TestSimulateOwnInstances(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runs                  int
		half, halfTotal, holm float64
	}{
		{10, 0.85, 1.04, 88}, {20, 0.57, 0.70, 100},
	} {
		rng := rand.New(rand.NewPCG(55, uint64(c.runs)))
		var found, anyHolm tally
		var alarm, half, halfTotal average
		for range trials(25) {
			s := resample(rng, 10, c.runs, 25*c.runs)
			for i := range s {
				s[i] = luck(rng, s[i], 0.8)
			}
			m := Matrix{Controls: []*ControlResult{Control(s[1], s[0], Options{Unit: ByRun})}}
			for i, x := range s[2:] {
				if i == 0 {
					x = slower(x, 2)
				}
				m.Comparisons = append(m.Comparisons, Compare(x, s[0], s[1], Options{Unit: ByRun}))
			}
			m.Judge()
			found.add(m.Comparisons[0].PAdjusted < alpha)
			var raw, holm tally
			for _, x := range m.Comparisons[1:] {
				raw.add(x.Decides.P < alpha)
				holm.add(x.PAdjusted < alpha)
				half.add(x.Typical.half())
				halfTotal.add(x.Total.half())
			}
			alarm.add(raw.pct())
			anyHolm.add(holm.hits > 0)
		}
		what := fmt.Sprintf("%d runs: ", c.runs)
		half.near(t, what+"half of typical", c.half)
		halfTotal.near(t, what+"half of total", c.halfTotal)
		alarm.rate(t, what+"alarms of one comparison", 5, 1)
		anyHolm.check(t, what+"any of 7 alarms, Holm", 5, 1)
		found.check(t, what+"2 % found, Holm", c.holm, 3)
	}
}

// The same with starts that were really made: four starts of six equal
// instances, 15 pairs each, generations as replicates. Luck alone makes several
// times the alarms there should be.
func TestEqualInstancesAlarmByGeneration(t *testing.T) {
	var alarms tally
	for _, run := range equalInstances() {
		cells := make([]Sample, len(run[0]))
		for g, slices := range run {
			for c := range cells {
				cells[c] = append(cells[c], Generation{Run: 1, Generation: g + 1, Slices: slices[c]})
			}
		}
		for i := range cells {
			for j := range i {
				alarms.add(Compare(cells[i], cells[j], nil, Options{}).Decides.P < alpha)
			}
		}
	}
	t.Logf("%d of %d pairs of equal instances alarm", alarms.hits, alarms.n)
	if alarms.pct() <= 15 {
		t.Errorf("%d of %d pairs alarm: less than 15 %%, so the run need not be the replicate", alarms.hits, alarms.n)
	}
}

// A cost of 5 % that comes in one slice of 200: typical doesn't see it, total
// does and is not biased, and the cell is marked.
func TestSimulateBursts(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(66, 0))
	var typical, total, decides, marked tally
	var bias average
	for range trials(200) {
		s := resample(rng, 2, 1, 150)
		c := Compare(bursts(rng, s[0], 5), s[1], nil, Options{})
		typical.add(covers(c.Typical, 5))
		total.add(covers(c.Total, 5))
		decides.add(covers(c.Decides, 5))
		marked.add(c.Marked)
		bias.add(c.Total.Pct - 5)
	}
	typical.check(t, "typical covers", 0, 1)
	total.check(t, "total covers", 95, 2)
	decides.check(t, "the deciding one covers", 95, 6)
	bias.unbiased(t, "total", 0.05)
	marked.check(t, "marked", 95, 6)
}

// Estimators that look as good and are not: each is biased, ours on the same
// slices isn't.
func TestSimulateTraps(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(77, 0))
	var ours, logOfMean, total, meanOfLogs average
	for range trials(200) {
		s := resample(rng, 3, 1, 60)
		x, burst := slower(s[0], 2), bursts(rng, s[0], 5)
		ours.add(Compare(x, s[1], s[2], Options{}).Typical.Pct - 2)
		total.add(Compare(burst, s[1], s[2], Options{}).Total.Pct - 5)
		var once, logs average
		for g := range x {
			// Trimmed once, against the mean of both logs.
			var v []float64
			var a, b sum
			for r := range x[g].Slices {
				v = append(v, sum(x[g].Slices[r]).log()-(sum(s[1][g].Slices[r]).log()+sum(s[2][g].Slices[r]).log())/2)
				a.add(sum(burst[g].Slices[r]))
				b.add(sum(s[1][g].Slices[r]))
				b.add(sum(s[2][g].Slices[r]))
			}
			once.add(trimmedMean(v))
			// Mean over generations of the logs of their sums.
			logs.add(a.log() - b.log())
		}
		logOfMean.add(percent(once.mean()) - 2)
		meanOfLogs.add(percent(logs.mean()) - 5)
	}
	ours.unbiased(t, "two trimmed means, 2 %", 0.02)
	total.unbiased(t, "ratio of sums, bursts of 5 %", 0.05)
	for what, biased := range map[string]average{"trimmed once against the mean of logs": logOfMean, "mean of logs of sums, bursts": meanOfLogs} {
		t.Logf("%s: bias %+.2f +- %.2f points", what, biased.mean(), biased.se())
		if biased.mean() > -0.3 {
			t.Errorf("%s: bias %+.2f, known to be about -0.5 or worse", what, biased.mean())
		}
	}
}

// Slices of a few transactions, made up: latencies with a long tail, one in a
// hundred ten times as long, drift between slices. The window ends at the first
// completion past the deadline, as the engine's does.
func TestFewTransactionsPerSlice(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(88, 0))
	for _, planned := range []float64{24, 30} {
		var typical, total average
		for range trials(50) {
			var cells [2]Sample
			for g := range 60 {
				var gen [2]Generation
				for c := range gen {
					gen[c] = Generation{Run: 1, Generation: g + 1}
				}
				for range 20 {
					drift := math.Exp(0.1 * rng.NormFloat64())
					for c := range gen {
						base := 100_000.0
						if c == 0 {
							base *= 1.02
						}
						var s Slice
						for s.Time < planned*100_000*1.2 { // 1.2: about the mean
							x := base * drift * math.Exp(0.4*rng.NormFloat64())
							if rng.IntN(100) == 0 {
								x *= 10
							}
							s.Time += math.Ceil(x)
							s.Count++
						}
						gen[c].Slices = append(gen[c].Slices, s)
					}
				}
				for c := range cells {
					cells[c] = append(cells[c], gen[c])
				}
			}
			r := Compare(cells[0], cells[1], nil, Options{})
			if r.Typical == nil {
				t.Fatalf("typical is nil with %g transactions planned", planned)
			}
			typical.add(r.Typical.Pct - 2)
			total.add(r.Total.Pct - 2)
		}
		typical.unbiased(t, fmt.Sprintf("typical at %g transactions per slice", planned), 0.05)
		total.unbiased(t, "total", 0.05)
	}
}
