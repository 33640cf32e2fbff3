package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// GateVerdict is what a gate says of a comparison, or of all together.
type GateVerdict string

const (
	Pass       GateVerdict = "pass"       // every cost is below the limit
	Regression GateVerdict = "regression" // some cost is above it
	CantTell   GateVerdict = "can't tell"
)

// Gated is a comparison at a gate, in per cent of time per transaction.
type Gated struct {
	Verdict GateVerdict
	// AtLeast is the lower end of the deciding interval, 95 % for all
	// comparisons of the gate together (Bonferroni).
	AtLeast float64
	// AtMost is the larger of the upper ends of typical and total, of 90 %
	// intervals.
	AtMost float64
}

// Gate judges comparisons by a limit in per cent. A regression is a lower end
// above it; with m comparisons each has a share of 1/m of the 2.5 %, so that
// equal builds fail rarely, however many cells there are. To pass, every upper
// end must lie below the limit, typical's and total's; since all must, none
// needs adjusting (intersection-union test: Berger 1982; two one-sided tests at
// 5 %: Schuirmann 1987). nil comparisons and those without an interval can't tell.
func Gate(limit float64, comparisons []*Comparison) []Gated {
	m := float64(len(comparisons))
	out := make([]Gated, len(comparisons))
	for i, c := range comparisons {
		g := &out[i]
		*g = Gated{CantTell, math.NaN(), math.NaN()}
		if c == nil || c.Decides == nil {
			continue
		}
		g.AtLeast = c.Decides.end(0.025 / m)
		g.AtMost = c.Total.end(0.95)
		if c.Typical != nil {
			g.AtMost = max(g.AtMost, c.Typical.end(0.95))
		}
		switch {
		case g.AtLeast > limit:
			g.Verdict = Regression
		case g.AtMost < limit:
			g.Verdict = Pass
		}
	}
	return out
}

// Together is the verdict on a gate: a regression if there is one, a pass if
// all pass and there are any.
func Together(list []Gated) GateVerdict {
	verdict := Pass
	for _, g := range list {
		switch g.Verdict {
		case Regression:
			return Regression
		case CantTell:
			verdict = CantTell
		}
	}
	if len(list) == 0 {
		return CantTell
	}
	return verdict
}

// end is a quantile of the estimate's t distribution, in per cent.
func (e *Estimate) end(p float64) float64 {
	log := math.Log1p(e.Pct / 100)
	return percent(log + distuv.StudentsT{Sigma: 1, Nu: e.DF}.Quantile(p)*e.SE)
}
