package report

import "fmt"

// statisticsDoubts are those that the slices themselves raise: what the
// procedure assumes of them, and whether it holds.
func (r *Report) statisticsDoubts(d *data, j judgement) []Warning {
	return r.runsDiffer(j)
}

// runsDiffer says in which panels the run is the replicate although cells share
// an instance.
func (r *Report) runsDiffer(j judgement) []Warning {
	var out []Warning
	for i := range r.Panels {
		h := j.differ[r.Panels[i].ID]
		if h == nil {
			continue
		}
		out = append(out, Warning{Code: "runs-differ", Cells: r.cellsOf(r.Panels[i].ID), Remedy: "ask for more runs: at least --runs 10",
			Text: fmt.Sprintf("overheads differ between runs by more than their generations explain (F = %.1f with %.0f and %.0f degrees of freedom, adjusted p = %.2g): runs are the replicates of this panel",
				h.F, h.DF1, h.DF2, h.P)})
	}
	return out
}

// cellsOf are the cells of a panel that were measured.
func (r *Report) cellsOf(panel string) []string {
	ids := []string{}
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Panel == panel && c.measured() {
			ids = append(ids, c.ID)
		}
	}
	return ids
}
