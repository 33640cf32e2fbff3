package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"pgtare/results"
	"pgtare/results/stats"
)

// GateSpec is what a gate asks: does any cell cost more, along this axis, than
// the limit?
type GateSpec struct {
	Axis string  // "": server where the record has that axis, else setting
	Max  float64 // the limit, in per cent of time per transaction
}

// Gate is the answer.
type Gate struct {
	Axis    string
	Max     float64
	Verdict stats.GateVerdict
	Reason  string // why it can't tell whatever the figures say; ""
	Rows    []GateRow
}

// GateRow is one comparison at the gate.
type GateRow struct {
	Name    string // the cell and what it is compared with
	Pct     *float64
	AtLeast *float64 // ends of the intervals that decide, see stats.Gated
	AtMost  *float64
	Verdict stats.GateVerdict
	Reason  string // why this one can't tell; "" where the figures alone say so
}

// gateRuns is the least number of runs with which own instances are judged.
const gateRuns = 10

// Gate judges the comparisons along an axis that were planned. It can't tell
// where a number could not be relied on for a release: the matrix isn't trusted,
// a cell failed or is n/a, a build has assertions or no optimization, builds
// differ, a client was the bottleneck, a doubt forbids verdicts, or replicates
// are few. A doubt that forbids "same" forbids to pass. The error is for an axis
// that the record doesn't compare along.
func (r *Report) Gate(spec GateSpec) (*Gate, error) {
	var axes []string
	for _, c := range r.Plan.Comparisons {
		if a := c.Axis; a != "control" && !slices.Contains(axes, a) {
			axes = append(axes, a)
		}
	}
	if len(axes) == 0 {
		return nil, fmt.Errorf("the record %s compares nothing: measure at least two servers or two values of a setting", r.Environment.Record)
	}
	if spec.Axis == "" {
		if spec.Axis = "setting"; slices.Contains(axes, "server") || !slices.Contains(axes, "setting") {
			spec.Axis = "server"
		}
		if !slices.Contains(axes, spec.Axis) {
			spec.Axis = axes[0]
		}
	}
	if !slices.Contains(axes, spec.Axis) {
		return nil, fmt.Errorf("nothing is compared along the axis %q; this record compares along %s", spec.Axis, strings.Join(axes, ", "))
	}
	g := &Gate{Axis: spec.Axis, Max: spec.Max}
	switch {
	case r.Trusted == nil:
		g.Reason = "no control could be judged, so that nobody knows how much equal cells differed"
	case !*r.Trusted:
		g.Reason = "the control failed: equal cells differed, so that the figures are not trusted"
	}
	var judged []*stats.Comparison
	var noPass []string // why a row must not pass, whatever else it may say
	for _, p := range r.Plan.Comparisons {
		if p.Axis != spec.Axis {
			continue
		}
		c := r.comparison(p)
		row := GateRow{Name: r.gateName(c), Pct: c.Pct, Reason: r.gateReason(c)}
		g.Rows = append(g.Rows, row)
		judged, noPass = append(judged, c.judged), append(noPass, r.noPass(c))
	}
	list := stats.Gate(spec.Max, judged)
	for i := range list {
		row := &g.Rows[i]
		row.AtLeast, row.AtMost = finite(list[i].AtLeast), finite(list[i].AtMost)
		if list[i].Verdict == stats.Pass && row.Reason == "" {
			row.Reason = noPass[i]
		}
		if row.Reason != "" || g.Reason != "" {
			list[i].Verdict = stats.CantTell
		}
		row.Verdict = list[i].Verdict
	}
	g.Verdict = stats.Together(list)
	return g, nil
}

// comparison finds a planned comparison among those that were judged; one
// without figures where it wasn't, because a cell is n/a.
func (r *Report) comparison(p results.PlannedComparison) *Comparison {
	for i := range r.Comparisons {
		if c := &r.Comparisons[i]; c.Cell == p.Cell && c.Against == p.Against && c.Axis == p.Axis {
			return c
		}
	}
	return &Comparison{Cell: p.Cell, Against: p.Against, Axis: p.Axis, twin: p.Twin}
}

// gateName is the panel, the cell and what it is compared with.
func (r *Report) gateName(c *Comparison) string {
	p := r.panel(r.cell(c.Cell).Panel)
	parts := []string{p.Workload, p.Mode}
	if label := r.cell(c.Cell).plan.Label; label != "" && c.Axis != "setting" {
		parts = append(parts, label)
	}
	if server := r.cell(c.Cell).plan.Server; c.Axis != "server" && len(r.Environment.Servers) > 1 {
		parts = append(parts, server)
	}
	return strings.Join(parts, ", ") + ": " + r.gateSide(c.Axis, c.Cell) + " against " + r.gateSide(c.Axis, c.Against)
}

func (r *Report) gateSide(axis, id string) string {
	if axis == "setting" {
		return r.name(id)
	}
	return r.cell(id).Axes[axis]
}

// gateReason says why a comparison can't be relied on; "".
func (r *Report) gateReason(c *Comparison) string {
	for _, id := range []string{c.Cell, c.Against} {
		if cell := r.cell(id); cell.Status != "ok" {
			why := ""
			if cell.Reason != nil {
				why = ": " + *cell.Reason
			}
			return fmt.Sprintf("%s is %s%s", r.nameOn(c.Axis, id), cell.Status, why)
		}
	}
	if c.Verdict == NotExercised {
		return "the setting can't act on this workload"
	}
	for _, w := range r.Warnings {
		stops := w.Forbids == results.ForbidsVerdict || slices.Contains([]string{"slow-build", "builds-differ", "client-bound"}, w.Code)
		if stops && w.meets(c) {
			return w.Code + ": " + w.Text
		}
	}
	if !slices.ContainsFunc(r.Controls, func(x Control) bool { return x.Panel == r.cell(c.Cell).Panel && x.OK != nil }) {
		return "no control of its panel could be judged"
	}
	if c.ReplicateUnit == string(stats.ByRun) && c.Replicates < gateRuns {
		return fmt.Sprintf("%d runs, and a gate needs %d where each is a new start", c.Replicates, gateRuns)
	}
	return ""
}

// noPass says why a comparison must not pass although it may be a regression;
// "".
func (r *Report) noPass(c *Comparison) string {
	for _, w := range r.Warnings {
		if w.Forbids == results.ForbidsSame && w.meets(c) {
			return w.Code + ": " + w.Text
		}
	}
	if c.judged != nil && c.judged.FewReplicates {
		return fmt.Sprintf("%s are too few to say that there is no cost", count(c.Replicates, c.ReplicateUnit))
	}
	return ""
}

// Text writes a line for each comparison and one that sums up.
func (g *Gate) Text(w io.Writer) error {
	var b strings.Builder
	failed := 0
	for _, row := range g.Rows {
		fmt.Fprintf(&b, "%-10s  %s: ", row.Verdict, ascii(row.Name))
		switch {
		case row.Pct == nil:
			b.WriteString("not measured")
		case row.AtLeast == nil:
			fmt.Fprintf(&b, "%s %%", signed(*row.Pct, 1))
		default:
			fmt.Fprintf(&b, "%s %% (at least %s, at most %s)", signed(*row.Pct, 1), signed(*row.AtLeast, 1), signed(*row.AtMost, 1))
		}
		if row.Reason != "" {
			b.WriteString("; " + ascii(row.Reason))
		}
		b.WriteString("\n")
		if row.Verdict == g.Verdict {
			failed++
		}
	}
	fmt.Fprintf(&b, "gate: %s", g.Verdict)
	switch {
	case g.Verdict == stats.Pass:
		fmt.Fprintf(&b, ": %s of axis %s, none costs %g %% or more", count(len(g.Rows), "comparison"), ascii(g.Axis), g.Max)
	case g.Verdict == stats.Regression:
		fmt.Fprintf(&b, ": %d of %s of axis %s above %g %%", failed, count(len(g.Rows), "comparison"), ascii(g.Axis), g.Max)
	case g.Reason != "":
		b.WriteString(": " + ascii(g.Reason))
	default:
		fmt.Fprintf(&b, ": %d of %s of axis %s neither above nor below %g %%; more runs make the intervals narrower", failed, count(len(g.Rows), "comparison"), ascii(g.Axis), g.Max)
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}
