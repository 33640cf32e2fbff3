package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

const (
	alpha         = 0.05
	controlLevel  = 0.01 // at 0.05 each, 8 controls would lose a third of the good matrices
	defaultMargin = 1.0
	z95           = 1.96
	z80           = 0.84 // normal quantile of the power wanted
	// seenAlone is would-see over half for a single comparison, (1.96 + 0.84) /
	// 1.96: the half-width h sees an effect of 1.43 h in four of five matrices.
	seenAlone = 1.43
)

// Judge fills what depends on the whole matrix: PAdjusted, Verdict, Reason,
// WouldSee and TimeFactor of every comparison, OK and Note of every control.
//
// Comparisons without an interval have no p and don't count for Holm. A panel
// without a control that could be judged gets no verdict: its comparisons are
// Unclear with a Reason, and their estimates and p stand. (Untrusted is kept
// for a control that failed: there something is known to be wrong.)
func (m *Matrix) Judge() Trust {
	margin := m.Margin
	if !(margin > 0) {
		margin = defaultMargin
	}
	trust := m.trust()
	m.holm()

	tests := 0
	controlled := map[string]bool{}
	for _, c := range m.Comparisons {
		if c.Decides != nil {
			tests++
		}
	}
	for _, c := range m.Controls {
		if c.Estimate.DF > 0 {
			controlled[c.Panel] = true
		}
	}
	for _, c := range m.Comparisons {
		c.Verdict, c.Reason, c.WouldSee, c.TimeFactor = Unclear, "", 0, 0
		if c.Decides != nil {
			z := distuv.UnitNormal.Quantile(1 - alpha/2/float64(tests))
			c.WouldSee = c.Decides.half() * (z + z80) / z95
		}
		switch {
		case trust.Whole || slices.Contains(trust.UntrustedPanels, c.Panel):
			c.Verdict = Untrusted
		case c.Replicates < minReplicates:
			c.Reason = "fewer than 3 replicates"
		case c.Decides == nil:
			c.Reason = "too little completed to give an interval"
		case !controlled[c.Panel]:
			c.Reason = "no control in this panel"
		case c.PAdjusted < alpha && c.Decides.Pct > 0:
			c.Verdict = Slower
		case c.PAdjusted < alpha:
			c.Verdict = Faster
		case !c.FewReplicates && c.same(margin):
			c.Verdict = Same
		default:
			c.TimeFactor = c.timeFactor(margin)
		}
	}
	return trust
}

// same is said where both costs are shown to be small. Each interval holds at
// 95 %, so that a cost of exactly the margin is called same in 2.5 % at most
// (two one-sided tests, Schuirmann). Where typical is nil, total is what
// decides and must itself lie within the margin.
func (c *Comparison) same(margin float64) bool {
	return !c.Marked && c.Decides.within(margin) && c.Total.within(2*margin)
}

// timeFactor is by how much longer to measure for a probable verdict: as
// slower or faster if the estimate is right, or as same, whichever comes
// sooner. Half-widths fall with the root of the time. It is at least what
// brings enough replicates, and at least 1: measuring less decides nothing.
func (c *Comparison) timeFactor(margin float64) float64 {
	est := math.Abs(c.Decides.Pct)
	wanted := max(est, margin-est) / seenAlone
	factor := max(1, math.Pow(c.Decides.half()/wanted, 2))
	if c.FewReplicates {
		factor = max(factor, float64(enough(c.Unit))/float64(c.Replicates))
	}
	return factor
}

// trust judges the matrix by its controls (Procedure, 7).
func (m *Matrix) trust() Trust {
	t := Trust{P: 1}
	for _, c := range m.Controls {
		if c.Estimate.DF > 0 {
			t.Controls++
		}
	}
	for _, c := range m.Controls {
		c.OK, c.Note = false, false
		if c.Estimate.DF == 0 {
			continue
		}
		t.ChiSquare += c.Z * c.Z
		t.EqualWithin = max(t.EqualWithin, math.Abs(c.Estimate.Lo), math.Abs(c.Estimate.Hi))
		c.Note = c.Estimate.P < alpha
		c.OK = c.Estimate.P >= controlLevel/float64(t.Controls)
		if !c.OK && !slices.Contains(t.UntrustedPanels, c.Panel) {
			t.UntrustedPanels = append(t.UntrustedPanels, c.Panel)
		}
	}
	t.DF = float64(t.Controls)
	if t.Controls > 0 {
		t.P = distuv.ChiSquared{K: t.DF}.Survival(t.ChiSquare)
		t.Whole = t.P < controlLevel
	}
	t.Trusted = t.Controls > 0 && !t.Whole && len(t.UntrustedPanels) == 0
	return t
}

// holm fills PAdjusted over the comparisons that have a p.
func (m *Matrix) holm() {
	var tests []*Comparison
	var p []float64
	for _, c := range m.Comparisons {
		c.PAdjusted = 1
		if c.Decides != nil {
			tests, p = append(tests, c), append(p, c.Decides.P)
		}
	}
	for i, adjusted := range Holm(p) {
		tests[i].PAdjusted = adjusted
	}
}
