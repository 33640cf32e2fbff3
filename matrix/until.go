package matrix

import (
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"pgtare/results"
	"pgtare/results/report"
	"pgtare/results/stats"
)

// enough says whether the matrix ends with this run.
func (r *runner) enough(run int, passed time.Duration) (over bool, err error) {
	s := r.plan.Spec
	timeOver := s.MaxTime > 0 && passed >= s.MaxTime
	if s.Until == 0 {
		if timeOver && run < s.Runs {
			r.warn("time-over", fmt.Sprintf("%d of %d runs were measured in the time that --max-time gives (%v)", run, s.Runs, s.MaxTime), "a longer --max-time")
		}
		return timeOver || run >= s.Runs, nil
	}
	if timeOver {
		widest, err := r.widest()
		if err != nil {
			return false, err
		}
		if widest > s.Until {
			r.warn("until-not-reached", fmt.Sprintf("the time was over (--max-time %v) when the widest interval was still +-%.2g %%, not %g %%", s.MaxTime, widest, s.Until),
				"a longer --max-time, a quieter machine, or fewer cells")
		}
		return true, nil
	}
	if run < s.Runs || !r.timeToLook(run) {
		return false, nil
	}
	widest, err := r.widest()
	return err == nil && widest <= s.Until, err
}

// timeToLook says whether every comparison has the replicates of its next look
// ([stats.NextLook]). Stopping goes by width and never by a verdict,
// which would raise false alarms fourfold.
func (r *runner) timeToLook(run int) bool {
	have := map[string]int{} // by panel and unit
	for _, c := range r.plan.Comparisons {
		p := r.panelOf(c)
		if p == nil {
			continue
		}
		n, key := run, p.ID+c.ReplicateUnit
		if stats.Unit(c.ReplicateUnit) == stats.ByGeneration {
			n *= p.Generations
		}
		if n < stats.NextLook(r.looked[key], stats.Unit(c.ReplicateUnit)) {
			return false
		}
		have[key] = n
	}
	r.looked = have
	return true
}

// panelOf is the panel of a comparison; nil where one of its cells is n/a.
func (r *runner) panelOf(c results.PlannedComparison) *panel {
	cell := func(id string) *Cell {
		return &r.plan.Cells[slices.IndexFunc(r.plan.Cells, func(x Cell) bool { return x.ID == id })]
	}
	if cell(c.Cell).Status != "ok" || cell(c.Against).Status != "ok" {
		return nil
	}
	return &r.panels[cell(c.Cell).panel]
}

// widest is the largest half-width of the matrix's deciding intervals so far,
// in per cent: by the record and the code that will print it.
func (r *runner) widest() (float64, error) {
	// measure has switched the collector off, and this makes much garbage.
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	rec, err := results.ReadFile(r.writer.Path())
	if err != nil {
		return 0, fmt.Errorf("read the record back: %w", err)
	}
	rep, err := report.Build(rec)
	if err != nil {
		return 0, fmt.Errorf("look how wide the intervals are: %w", err)
	}
	widest, found := rep.Widest()
	if !found {
		return math.Inf(1), nil
	}
	for _, c := range rep.Comparisons {
		// Where runs differ the report takes them for the replicates, and few of
		// these are not enough however narrow the interval is.
		if c.Lo != nil && c.Verdict != report.NotExercised && stats.Unit(c.ReplicateUnit) == stats.ByRun && c.Replicates < stats.NextLook(0, stats.ByRun) {
			return math.Inf(1), nil
		}
	}
	return widest, nil
}
