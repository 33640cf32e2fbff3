package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// minSE is the smallest standard error of a log ratio. Replicates that are
	// alike to the last digit have none of their own, and rounding (about
	// 1e-15) over none would be a finding. So equal cells get p = 1, and cells
	// that differ by exactly 2 % in every replicate a p near 0 and an interval
	// without visible width.
	minSE = 1e-12
	// maxLog bounds what is turned into per cent: a factor of 3e43, far beyond
	// what any two times can differ by, so that the end of a hopeless interval
	// (three replicates that have nothing in common) is still a number.
	maxLog = 100
	// minP keeps the normal quantile of a p finite: about 8.
	minP = 1e-15
)

// estimate is the log ratio est with its t interval.
func estimate(est, se, df float64) *Estimate {
	se = max(se, minSE)
	t := distuv.StudentsT{Sigma: 1, Nu: df}
	half := t.Quantile(0.975) * se
	return &Estimate{
		Pct: percent(est),
		Lo:  percent(est - half),
		Hi:  percent(est + half),
		SE:  se,
		DF:  df,
		T:   est / se,
		P:   min(1, 2*t.CDF(-math.Abs(est/se))),
	}
}

// jackknife is the estimate est whose standard error comes from the estimates
// without each of the replicates (Tukey): se^2 = (n-1)/n * sum of squares about
// their mean. For a mean that is exactly sd^2/n. The estimate itself is left as
// it is: the jackknife's correction of its bias is far below its error here.
func jackknife(est float64, without []float64) *Estimate {
	n := float64(len(without))
	_, variance := stat.PopMeanVariance(without, nil)
	return estimate(est, math.Sqrt((n-1)*variance), n-1)
}

// percent turns a log ratio into per cent.
func percent(log float64) float64 {
	return 100 * math.Expm1(min(max(log, -maxLog), maxLog))
}

// half is the half-width of the interval, in per cent.
func (e *Estimate) half() float64 { return (e.Hi - e.Lo) / 2 }

// within says that the whole interval lies between -pct and pct.
func (e *Estimate) within(pct float64) bool { return e.Lo > -pct && e.Hi < pct }

// twoSidedZ is the normal quantile, at least 0, that a two-sided p belongs to.
func twoSidedZ(p float64) float64 {
	return max(0, -distuv.UnitNormal.Quantile(max(p, minP)/2))
}
