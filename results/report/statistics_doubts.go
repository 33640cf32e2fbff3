package report

import (
	"fmt"
	"math"
	"strings"

	"pgtare/results"
	"pgtare/results/stats"
)

// statisticsDoubts are those that the slices themselves raise: what the
// procedure assumes of them, and whether it holds.
func (r *Report) statisticsDoubts(d *data, j judgement) []Warning {
	out := r.runsDiffer(j)
	for i := range r.Panels {
		panel := &r.Panels[i]
		cells := r.cellsOf(panel.ID)
		var samples []stats.Sample
		for _, id := range cells {
			samples = append(samples, d.elapsed(id))
		}
		if panel.Schedule != "block" {
			out = append(out, r.carryOver(d, j, cells, samples)...)
			out = append(out, bimodal(cells, samples)...)
		}
		out = append(out, firstRuns(cells, samples)...)
	}
	return out
}

// carryOverLevel is the p, adjusted for the cells of the panel, below which a
// cell slows what comes after it.
const carryOverLevel = 0.01

// carryOver names comparisons that are off because a cell never follows itself:
// with k cells, one that slows its successors by c is itself spared what all
// others get of it, and looks too cheap by c/(k-1). That bears on a comparison
// by the difference between its cell and its reference.
func (r *Report) carryOver(d *data, j judgement, cells []string, samples []stats.Sample) []Warning {
	index := map[string]int{}
	for i, id := range cells {
		index[id] = i
	}
	for i, id := range cells {
		d.after(id, samples[i], r.Plan, index)
	}
	if len(cells) == 0 {
		return nil
	}
	o := j.options(string(stats.ByGeneration), r.cell(cells[0]))
	effects := stats.CarryOver(samples, o)
	p := make([]float64, len(effects))
	for i, e := range effects {
		if e == nil { // all of them are, then
			return nil
		}
		p[i] = e.P
	}
	p = stats.Holm(p)

	var met, why []string
	worst := 0.0
	for i := range r.Comparisons {
		c, s := &r.Comparisons[i], j.comparisons[i]
		x, ok := index[c.Cell]
		base, okBase := index[c.Against]
		if !ok || !okBase || s == nil || s.Decides == nil {
			continue
		}
		reference := []int{base}
		if twin, ok := index[c.twin]; ok {
			reference = append(reference, twin)
		}
		sure := p[x] < carryOverLevel
		bias := effects[x].Pct
		for _, b := range reference {
			sure = sure || p[b] < carryOverLevel
			bias -= effects[b].Pct / float64(len(reference))
		}
		bias = math.Abs(bias) / float64(len(cells)-1)
		if half := (s.Decides.Hi - s.Decides.Lo) / 2; sure && bias > half/2 {
			met = append(met, c.Cell)
			worst = max(worst, bias)
		}
	}
	if met == nil {
		return nil
	}
	for i, id := range cells {
		if p[i] < carryOverLevel {
			why = append(why, fmt.Sprintf("what follows %s takes %+.1f %%", r.name(id), effects[i].Pct))
		}
	}
	return []Warning{{Code: "carry-over", Cells: unique(met), Forbids: results.ForbidsSame, Remedy: "measure these cells by blocks (--schedule block), or longer slices (--slice)",
		Text: fmt.Sprintf("cells cost those that come after them: %s. A cell never follows itself, so overheads here are off by up to %.2f %%", strings.Join(why, ", "), worst)}}
}

// bimodal names cells whose slices fall into two groups.
func bimodal(cells []string, samples []stats.Sample) []Warning {
	var out []Warning
	for i, m := range stats.Bimodal(samples) {
		if m != nil {
			out = append(out, Warning{Code: "bimodal", Cells: []string{cells[i]}, Forbids: results.ForbidsSame, Remedy: "look for backends that move between CPUs (--pin), or a plan that changes",
				Text: fmt.Sprintf("slices fall into two groups, one of them %.0f %% slower (%.0f %% of the slices): another matrix may meet them in other shares", m.ApartPct, 100*m.Slower)})
		}
	}
	return out
}

// firstRuns names cells whose first run is apart from the others.
func firstRuns(cells []string, samples []stats.Sample) []Warning {
	var out []Warning
	for i, f := range stats.FirstRuns(samples) {
		if f != nil {
			out = append(out, Warning{Code: "first-run", Cells: []string{cells[i]}, Remedy: "warm up for longer, or find out what the first run met that the others didn't",
				Text: fmt.Sprintf("the first run took %+.1f %% against the others, beside what all cells did (adjusted p = %.2g); it is in the figures", f.Pct, f.P)})
		}
	}
	return out
}

// after fills in which cell of the panel each slice of a sample came after.
func (d *data) after(cell string, sample stats.Sample, h *results.Header, index map[string]int) {
	for i, g := range d.cells[cell].generations {
		after := make([]int, len(sample[i].Slices))
		for r := range after {
			after[r] = -1
		}
		for s, round := range g.Slices.Round {
			if p := g.Slices.Predecessor[s]; p >= 0 {
				if at, ok := index[h.Cells[p].ID]; ok {
					after[round] = at
				}
			}
		}
		sample[i].After = after
	}
}

// name is a cell as the table calls it.
func (r *Report) name(id string) string {
	if c := r.cell(id); c.plan.Label != "" {
		return c.plan.Label
	}
	return "the baseline"
}

// nameOn is a cell as a comparison along an axis calls it.
func (r *Report) nameOn(axis, id string) string {
	if value := r.cell(id).Axes[axis]; value != "" && axis != "setting" {
		return axis + " " + value
	}
	return r.name(id)
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
