package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"pgtare/results"
	"pgtare/results/stats"
)

// failuresPct is the share of failed transactions from which on a cell's
// figures are doubtful.
const failuresPct = 1

// latencyApartPct is how far the mean latency may be from clients / tps. They
// are two ways to count the same time; published numbers that were wrong were
// found out by it.
const latencyApartPct = 10

// warnings takes the record's warnings over, in their order.
func warnings(of []results.Warning) []Warning {
	out := []Warning{}
	for _, w := range of {
		out = append(out, Warning{Code: w.Code, Cells: nonNil(w.Cells), Text: w.Text, Remedy: w.Remedy, Forbids: w.Forbids})
	}
	return out
}

// doubts are the warnings that only the whole record can give, the gravest
// first.
func (r *Report) doubts(rec *results.Record, j judgement) []Warning {
	var out []Warning
	add := func(code string, cells []string, remedy, format string, args ...any) {
		out = append(out, Warning{Code: code, Cells: nonNil(cells), Text: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	forbids := func(what string) { out[len(out)-1].Forbids = what }
	where := func(match func(c *Cell) bool) []string {
		var ids []string
		for i := range r.Cells {
			if match(&r.Cells[i]) {
				ids = append(ids, r.Cells[i].ID)
			}
		}
		return ids
	}

	switch {
	case rec.End == nil && rec.Torn:
		add("record-cut", nil, "run the matrix again", "the record breaks off in the middle of a line: pgtare or the machine was stopped, or the disk was full. What is whole was used")
	case rec.End == nil:
		add("record-cut", nil, "run the matrix again", "the record has no end: pgtare or the machine was stopped, or it is still being measured")
	case rec.End.Status == "interrupted":
		add("interrupted", nil, "run the matrix again", "the matrix was interrupted%s", prefixed(": ", rec.End.Reason))
	case rec.End.Status == "failed":
		add("failed", nil, "remove the cause and run the matrix again", "the matrix failed%s", prefixed(": ", rec.End.Reason))
	case rec.Torn:
		add("record-torn", nil, "compare the file with its copy", "something incomplete stands after the end of the record; it was left out")
	}

	// Where each panel's own control failed, that says it all.
	if t := j.trust; t.Whole && len(t.UntrustedPanels) < len(r.Panels) {
		add("untrusted", nil, "measure on a quieter machine, with more runs, or with other placement (--pin)",
			"equal cells differed more than chance allows (chi-square %.1f of %s, p = %.2g): no comparison of this matrix is trusted", t.ChiSquare, count(t.Controls, "control"), t.P)
	}
	for _, panel := range j.trust.UntrustedPanels {
		i := slices.IndexFunc(r.Controls, func(c Control) bool { return c.Panel == panel && c.OK != nil && !*c.OK })
		if i < 0 || r.Controls[i].Pct == nil || r.Controls[i].P == nil {
			continue
		}
		c := r.Controls[i]
		add("control-failed", where(func(c *Cell) bool { return c.Panel == panel }), "measure on a quieter machine, with more runs, or with other placement (--pin)",
			"the control differs from its equal by %+.2f %% (p = %.2g): no comparison of this panel is trusted", *c.Pct, *c.P)
	}
	uncontrolled := map[string]bool{}
	for i := range r.Comparisons {
		panel := r.cell(r.Comparisons[i].Cell).Panel
		uncontrolled[panel] = !slices.ContainsFunc(r.Controls, func(c Control) bool { return c.Panel == panel && c.OK != nil })
	}
	if cells := where(func(c *Cell) bool { return uncontrolled[c.Panel] }); len(cells) > 0 {
		remedy := "ask for a control (--controls 1)"
		if len(r.Plan.Controls) > 0 {
			remedy = "ask for at least 3 replicates (--runs 3)"
		}
		add("no-control", cells, remedy, "no control could be judged, so there is no verdict")
	}

	if cells := where(func(c *Cell) bool { return c.Status == "failed" }); len(cells) > 0 {
		add("cell-failed", cells, "see the SQLSTATEs, and the server's log", "a generation passed without a successful transaction, or none came to its end: these cells failed")
	}
	if cells := where(func(c *Cell) bool { return c.failedPct() > failuresPct }); len(cells) > 0 {
		worst := 0.0
		for _, id := range cells {
			worst = max(worst, r.cell(id).failedPct())
		}
		add("failures", cells, "find out why by the SQLSTATEs and the server's log; the time of failed transactions is in the figures, and only successes are counted",
			"up to %.1f %% of the transactions failed", worst)
		forbids(results.ForbidsVerdict)
	}
	if cells := where(func(c *Cell) bool { return c.lost > 0 && c.Status != "failed" }); len(cells) > 0 {
		add("generations-lost", cells, "see the server's log", "generations ended early and are not in the figures (%s)", r.firstLost(rec, cells))
	}

	apart := 0.0
	cells := where(func(c *Cell) bool {
		d := c.latencyApart(r.panel(c.Panel).Clients)
		if d > latencyApartPct {
			apart = max(apart, d)
		}
		return d > latencyApartPct
	})
	if len(cells) > 0 {
		add("latency-mismatch", cells, "look at the client's share of the CPU, and for stalls between transactions",
			"clients / tps and the mean latency are two measures of one time, but differ by up to %.0f %%", apart)
		forbids(results.ForbidsSame)
	}

	out = append(out, r.comparisonDoubts(j)...)
	out = append(out, r.machineDoubts(rec)...)
	out = append(out, r.buildDoubts()...)
	return out
}

// comparisonDoubts are those about single comparisons.
func (r *Report) comparisonDoubts(j judgement) []Warning {
	var out []Warning
	var few, bursts, bare []string
	unit, fewest := "", math.MaxInt
	for i := range r.Comparisons {
		c, s := &r.Comparisons[i], j.comparisons[i]
		if s == nil || c.Verdict == NotExercised {
			continue
		}
		if s.FewReplicates || s.Replicates < 3 {
			few = append(few, c.Cell)
			if s.Replicates < fewest {
				unit, fewest = c.ReplicateUnit, s.Replicates
			}
		}
		if s.Replicates >= 3 && s.Decides == nil {
			bare = append(bare, c.Cell)
		}
		if c.Bursts != nil {
			bursts = append(bursts, c.Cell)
		}
	}
	if bare != nil {
		out = append(out, Warning{Code: "no-interval", Cells: unique(bare), Remedy: "longer slices (--slice), or a script with shorter transactions",
			Text: "too little completed to give an interval"})
	}
	if few != nil {
		remedy, advised := "measure longer: more --runs, or a greater -T", "15 generations"
		if unit == string(stats.ByRun) {
			remedy, advised = "ask for more runs: at least --runs 10, better 20", "10 runs"
		}
		out = append(out, Warning{Code: "few-replicates", Cells: unique(few), Remedy: remedy,
			Text: fmt.Sprintf("the comparisons rest on %s where at least %s are advised: \"same\" is never said", count(fewest, unit), advised)})
	}
	if bursts != nil {
		out = append(out, Warning{Code: "bursts", Cells: unique(bursts), Remedy: "look at both estimates; a longer measurement meets more of the bursts",
			Text: "typical and total cost disagree (p < 0.01): the cost comes in bursts, and total decides"})
	}
	for i := range r.Comparisons {
		c, s := &r.Comparisons[i], j.comparisons[i]
		if s == nil || len(s.OutlierAt) == 0 {
			continue
		}
		var at []string
		for _, o := range s.OutlierAt {
			if o.Generation == 0 {
				at = append(at, fmt.Sprintf("run %d", o.Run))
			} else {
				at = append(at, fmt.Sprintf("generation %d.%d", o.Run, o.Generation))
			}
		}
		more := ""
		if len(at) > 5 {
			at, more = at[:5], fmt.Sprintf(" and %d more", len(at)-5)
		}
		out = append(out, Warning{Code: "outlier", Cells: []string{c.Cell}, Remedy: "none needed for one; if there are several, look for what else ran on the machine",
			Text: fmt.Sprintf("%s%s: more than 6 robust standard deviations from the rest; kept", strings.Join(at, ", "), more)})
	}
	return out
}

// buildDoubts compare the builds that are weighed against each other.
func (r *Report) buildDoubts() []Warning {
	var out []Warning
	build := map[string]string{}
	for _, s := range r.Environment.Servers {
		build[s.Label] = buildOf(s)
	}
	var pairs, cells []string
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		a, b := r.cell(c.Against).plan.Server, r.cell(c.Cell).plan.Server
		if a == b || build[a] == build[b] {
			continue
		}
		pairs = append(pairs, fmt.Sprintf("%s is %s; %s is %s", a, build[a], b, build[b]))
		cells = append(cells, c.Cell)
	}
	if pairs != nil {
		out = append(out, Warning{Code: "builds-differ", Cells: unique(cells), Remedy: "compare installations of one origin, or build both alike",
			Text: "compilers, flags or options differ between servers that are compared, which alone may cost 15 % and more: " + strings.Join(unique(pairs), "; ")})
	}
	for _, s := range r.Environment.Servers {
		var why []string
		switch level := optimization(s.Build["CFLAGS"]); {
		case s.Build["CFLAGS"] == "":
		case level == "":
			why = append(why, "without optimization")
		case level == "-O0" || level == "-Os" || level == "-Og" || level == "-Oz":
			why = append(why, "with "+level)
		}
		if s.Assertions {
			why = append(why, "with assertions")
		}
		if why == nil {
			continue
		}
		var ids []string
		for i := range r.Cells {
			if r.Cells[i].plan.Server == s.Label {
				ids = append(ids, r.Cells[i].ID)
			}
		}
		out = append(out, Warning{Code: "slow-build", Cells: nonNil(ids), Remedy: "measure a build with -O2 and without assertions",
			Text: fmt.Sprintf("%s was built %s: its costs are not those of a production server", s.Label, strings.Join(why, " and "))})
	}
	return out
}

// buildOf is what of a build bears on speed: the compiler, flags and options,
// without the paths, which differ between any two versions.
func buildOf(s Server) string {
	parts := []string{cmp.Or(s.Compiler, "of an unknown compiler")}
	for _, flag := range strings.Fields(s.Build["CFLAGS"]) {
		if (strings.HasPrefix(flag, "-O") || strings.HasPrefix(flag, "-f") || strings.HasPrefix(flag, "-m")) && !strings.Contains(flag, "=/") && !strings.Contains(flag, "-prefix-map=") {
			parts = append(parts, flag)
		}
	}
	var options []string
	for _, option := range strings.FieldsFunc(s.Build["CONFIGURE"], func(r rune) bool { return r == ' ' || r == '\'' }) {
		name, _, _ := strings.Cut(option, "=")
		switch {
		case strings.HasPrefix(name, "--enable-"), strings.HasPrefix(name, "--disable-"):
			options = append(options, name)
		case name == "--with-llvm", name == "--with-blocksize", name == "--with-segsize", name == "--with-wal-blocksize", name == "--with-liburing":
			options = append(options, option)
		}
	}
	slices.Sort(options)
	return strings.Join(append(parts, unique(options)...), " ")
}

// optimization is the last -O of CFLAGS, which is the one in force.
func optimization(cflags string) string {
	level := ""
	for _, flag := range strings.Fields(cflags) {
		if strings.HasPrefix(flag, "-O") {
			level = flag
		}
	}
	return level
}

// failedPct is the share of transactions that failed, heads included.
func (c *Cell) failedPct() float64 {
	var failed float64
	for _, n := range c.Failures {
		failed += float64(n)
	}
	// A failed BEGIN or COMMIT of single-transaction mode is a failure but no
	// transaction.
	return 100 * failed / max(failed, float64(c.all), 1)
}

// latencyApart is by how many per cent mean latency and clients / tps differ.
func (c *Cell) latencyApart(clients int) float64 {
	if c.TPS == nil || *c.TPS == 0 || c.LatencyUs == nil || c.LatencyUs.Mean == nil || *c.LatencyUs.Mean == 0 {
		return 0
	}
	return 100 * math.Abs(float64(clients)/(*c.TPS)*1e6/(*c.LatencyUs.Mean)-1)
}

// firstLost is why the first lost generation of the cells ended early.
func (r *Report) firstLost(rec *results.Record, cells []string) string {
	for i := range rec.Generations {
		if g := &rec.Generations[i]; g.Lost != "" && slices.Contains(cells, g.Cell) {
			return g.Lost
		}
	}
	return ""
}

func (r *Report) cell(id string) *Cell {
	for i := range r.Cells {
		if r.Cells[i].ID == id {
			return &r.Cells[i]
		}
	}
	panic("report: a comparison of a cell that the reader would have refused: " + id)
}

func (r *Report) panel(id string) *Panel {
	for i := range r.Panels {
		if r.Panels[i].ID == id {
			return &r.Panels[i]
		}
	}
	panic("report: a cell of a panel that the reader would have refused: " + id)
}

// unique drops repetitions and keeps the order.
func unique(s []string) []string {
	seen := map[string]bool{}
	out := []string{}
	for _, v := range s {
		if !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}

// count is "1 run", "12 generations".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// keys of a map in order.
func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
