package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"pgtare/results"
)

// Text writes the report as a mail to a list has it: plain ASCII, lines of at
// most 78 characters. First what was measured where, then the tables, then
// what they mean, at last the doubts, so that a terminal shows these.
func (r *Report) Text(w io.Writer) error {
	t := &text{Report: r, titles: r.titles()}
	t.header()
	t.main()
	t.overheads()
	t.undecided()
	t.bursts()
	t.cpu()
	t.latency()
	t.failures()
	t.missing()
	t.notes()
	t.warnings()
	_, err := io.WriteString(w, t.out.String())
	return err
}

// text is a text in the making.
type text struct {
	*Report
	out    strings.Builder
	titles map[string]string // of the panels
}

// titles names each panel by what tells it from the others.
func (r *Report) titles() map[string]string {
	titles := map[string]string{}
	differ := func(of func(p *results.Panel) string) bool {
		return slices.ContainsFunc(r.Plan.Panels, func(p results.Panel) bool { return of(&p) != of(&r.Plan.Panels[0]) })
	}
	protocols := differ(func(p *results.Panel) string { return p.Protocol })
	clients := differ(func(p *results.Panel) string { return fmt.Sprint(p.Clients, "/", p.Threads) })
	for i := range r.Plan.Panels {
		p := &r.Plan.Panels[i]
		title := p.Workload
		// A short script says more than its name.
		script := strings.TrimSuffix(strings.TrimSpace(p.Script), ";")
		if script != "" && len(script) <= 40 && !strings.ContainsAny(script, ";\n") {
			title = script
		}
		if r.Plan.Transactions > 0 {
			title = fmt.Sprintf("%d x %s", r.Plan.Transactions, title)
		}
		title += ", " + p.Mode
		if protocols {
			title += ", " + p.Protocol
		}
		if clients {
			title += ", " + count(p.Clients, "client")
			if p.Threads > 1 {
				title += fmt.Sprintf(" in %d threads", p.Threads)
			}
		}
		titles[p.ID] = ascii(title)
	}
	return titles
}

// header says what was measured, where, and how.
func (t *text) header() {
	h := t.Plan
	b := &t.out
	item := func(name, text string) {
		if text != "" {
			paragraph(b, fmt.Sprintf("%-11s", name), ascii(text))
		}
	}
	paragraph(b, "", ascii(strings.TrimSpace("pgtare "+h.Pgtare)+": "+cmp.Or(h.Title, "untitled")))
	b.WriteString("\n")
	if len(h.Args) > 0 {
		item("command", quoteArgs(h.Args))
	}
	for i, s := range h.Servers {
		item(map[bool]string{true: "server"}[i == 0], serverLine(&s))
	}
	item("machine", machineLine(&h.Environment))
	panels := h.Panels
	item("load", t.alike(panels, func(p *results.Panel) string {
		return fmt.Sprintf("%s in %s, %s protocol", count(p.Clients, "client"), count(p.Threads, "thread"), p.Protocol)
	}))
	item("placement", t.alike(panels, func(p *results.Panel) string { return pinLine(p.Pin) }))
	item("measured", t.alike(panels, func(p *results.Panel) string { return measuredLine(h, p) }))
	item("deviations", t.deviations())
	item("baseline", t.baselines())
	item("record", fmt.Sprintf("%s, seed %d, %s", h.ID, h.Seed, h.Started.UTC().Format("2006-01-02 15:04 UTC")))
	b.WriteString("\n")
}

// alike prints what the panels have in common once, else panel by panel.
func (t *text) alike(panels []results.Panel, of func(*results.Panel) string) string {
	var parts, texts []string
	for i := range panels {
		text := of(&panels[i])
		texts = append(texts, text)
		parts = append(parts, t.titles[panels[i].ID]+": "+text)
	}
	if len(unique(texts)) == 1 {
		return texts[0]
	}
	return strings.Join(parts, "; ")
}

func serverLine(s *results.Server) string {
	line := s.Label
	if s.Version != s.Label && s.Version != "" {
		line += ": " + s.Version
	}
	facts := []string{}
	if s.Origin != "" {
		facts = append(facts, s.Origin)
	}
	if s.Compiler != "" {
		facts = append(facts, strings.TrimSpace(s.Compiler+" "+optimization(s.Build["CFLAGS"])))
	}
	if s.Assertions {
		facts = append(facts, "assertions")
	}
	if len(facts) > 0 {
		line += " (" + strings.Join(facts, "; ") + ")"
	}
	return line
}

func machineLine(e *results.Environment) string {
	var facts []string
	add := func(known bool, format string, args ...any) {
		if known {
			facts = append(facts, fmt.Sprintf(format, args...))
		}
	}
	add(e.CPU != "", "%s", e.CPU)
	add(e.CPUs > 0, "%s", count(e.CPUs, "CPU"))
	add(e.MemoryBytes > 0, "%.1f GiB", float64(e.MemoryBytes)/(1<<30))
	add(e.OS+e.Kernel != "", "%s", strings.TrimSpace(e.OS+" "+e.Kernel))
	add(e.Virtualization != "", "%s", e.Virtualization)
	switch {
	case e.Clocksource != "" && e.ClockReadNs > 0:
		add(true, "clock %s, %s ns a read", e.Clocksource, fixed(e.ClockReadNs, 0))
	case e.Clocksource != "":
		add(true, "clock %s", e.Clocksource)
	}
	add(e.Governor != "", "governor %s", e.Governor)
	return strings.Join(facts, ", ")
}

func pinLine(pin string) string {
	switch core, pinned := strings.CutPrefix(pin, "core:"); {
	case pinned:
		return fmt.Sprintf("%s (client and backends on core %s)", pin, core)
	case pin == "none":
		return "none (where the kernel likes)"
	}
	return pin
}

func measuredLine(h *results.Header, p *results.Panel) string {
	long := ""
	switch {
	case h.Transactions > 0:
		long = fmt.Sprintf(" of %d transactions per client", h.Transactions)
	case h.RunSeconds > 0:
		long = fmt.Sprintf(" of %s", duration(h.RunSeconds*1e9))
	}
	if p.Schedule == "block" {
		return fmt.Sprintf("%s%s per cell, each in one block", count(h.Runs, "run"), long)
	}
	return fmt.Sprintf("%s%s per cell; a run is %s of %s, slices of %s after a head of %d", count(h.Runs, "run"), long,
		count(p.Generations, "generation"), count(p.Rounds, "round"), duration(float64(p.SliceNs)), p.Head)
}

// deviations are what pgtare set other than PostgreSQL's defaults.
func (t *text) deviations() string {
	var texts, parts []string
	for _, s := range t.Plan.Servers {
		text := cmp.Or(strings.Join(s.Deviations, ", "), "none")
		if s.Origin == "attached" {
			text = "as the server is configured"
			if settings := settingsLine(s.Settings); settings != "" {
				text += ": " + settings
			}
		}
		texts = append(texts, text)
		parts = append(parts, s.Label+": "+text)
	}
	if len(unique(texts)) == 1 {
		return texts[0]
	}
	return strings.Join(parts, "; ")
}

// baselines spells the settings of the baselines out, once.
func (t *text) baselines() string {
	var texts []string
	for _, c := range t.Plan.Cells {
		if c.Baseline {
			texts = append(texts, cmp.Or(settingsLine(c.Settings), "the servers' settings as they are"))
		}
	}
	return strings.Join(unique(texts), "; or ")
}

// settingsLine writes settings as --set takes them, in order of their names.
func settingsLine(settings map[string]string) string {
	var parts []string
	for _, name := range keys(settings) {
		parts = append(parts, name+"="+quote(settings[name]))
	}
	return strings.Join(parts, ", ")
}

// quoteArgs writes a command line so that a shell would read it back.
func quoteArgs(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = quote(a)
	}
	return strings.Join(quoted, " ")
}

func quote(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n'\"\\$&|;<>()*?[]{}~#!`") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// line is a row of the tables: the cells of one panel that differ in nothing
// but the server.
type line struct {
	indent int
	label  string
	cells  map[string]*Cell // by server
}

// lines are the rows of a panel in the order of the plan. The baseline gives
// its row to the panel's title, as in the mails; where a variable is an axis,
// each of its values has a row, and the settings stand below.
func (t *text) lines(panel string) []line {
	var groups []string
	byGroup := map[string][]line{}
	for i := range t.Cells {
		c := &t.Cells[i]
		if c.Panel != panel {
			continue
		}
		group := varsLine(t.Plan, c.plan.Vars)
		if byGroup[group] == nil {
			groups = append(groups, group)
		}
		label := ascii(c.plan.Label)
		if c.Baseline {
			label = ""
		} else if label == "" && c.Control {
			label = "control"
		}
		rows := byGroup[group]
		at := slices.IndexFunc(rows, func(l line) bool { return l.label == label && l.cells[c.plan.Server] == nil })
		if at < 0 {
			at = len(rows)
			rows = append(rows, line{label: label, cells: map[string]*Cell{}})
		}
		rows[at].cells[c.plan.Server] = c
		byGroup[group] = rows
	}
	var out []line
	if len(groups) != 1 {
		out = append(out, line{label: t.titles[panel]})
	}
	for _, group := range groups {
		title, indent := t.titles[panel], 0
		if len(groups) > 1 {
			title, indent = cmp.Or(ascii(group), "(no variable)"), 2
		}
		rows := byGroup[group]
		if at := slices.IndexFunc(rows, func(l line) bool { return l.label == "" }); at >= 0 {
			out = append(out, line{indent: indent, label: title, cells: rows[at].cells})
			rows = slices.Delete(slices.Clone(rows), at, at+1)
		} else {
			out = append(out, line{indent: indent, label: title})
		}
		for _, l := range rows {
			l.indent = indent + 2
			if l.label == "" { // a second cell without a label of its own
				l.label = "(baseline)"
			}
			out = append(out, l)
		}
	}
	return out
}

// varsLine names the values of script variables that are axes.
func varsLine(h *results.Header, vars map[string]string) string {
	var parts []string
	for _, name := range keys(vars) {
		axis := slices.IndexFunc(h.Axes, func(a results.Axis) bool { return a.Name == name && len(a.Values) > 1 })
		if axis >= 0 || len(h.Axes) == 0 {
			parts = append(parts, name+"="+vars[name])
		}
	}
	return strings.Join(parts, ", ")
}

// servers are the labels of the servers that have cells in a panel, in order.
func (t *text) servers(panel string) []string {
	var out []string
	for _, s := range t.Plan.Servers {
		if slices.ContainsFunc(t.Cells, func(c Cell) bool { return c.Panel == panel && c.plan.Server == s.Label }) {
			out = append(out, s.Label)
		}
	}
	return out
}

// several tells whether tables have a column per server.
func (t *text) several() bool {
	return slices.ContainsFunc(t.Panels, func(p Panel) bool { return len(t.servers(p.ID)) > 1 })
}

// unitHead is the head of the column of figures.
func (t *text) unitHead() string {
	if t.Plan.Unit == "s" {
		return "seconds"
	}
	return "tps"
}

// main writes the table of the mails: the median of the runs, and, where there
// is but one server, the overheads beside it.
func (t *text) main() {
	if !t.several() {
		g := &grid{columns: 4, left: map[int]bool{3: true}, together: true}
		var rows []overhead
		for _, p := range t.Panels {
			for _, l := range t.lines(p.ID) {
				var cell *Cell
				for _, c := range l.cells {
					cell = c
				}
				rows = append(rows, t.overhead(p.ID, l, cell, t.beside(cell)))
			}
		}
		t.fill(g, rows, true)
		g.write(&t.out)
		return
	}
	g := &grid{}
	servers := t.Plan.Servers
	g.columns = len(servers)
	columns := make([][]*float64, len(servers))
	var all []line
	var ends []int
	for _, p := range t.Panels {
		for _, l := range t.lines(p.ID) {
			all = append(all, l)
			for j, s := range servers {
				var v *float64
				if c := l.cells[s.Label]; c != nil {
					v = c.Median
				}
				columns[j] = append(columns[j], v)
			}
		}
		ends = append(ends, len(all))
	}
	printed := make([][]string, len(servers))
	for j := range servers {
		printed[j] = levels(columns[j])
	}
	heads := make([]string, len(servers))
	for j, s := range servers {
		heads[j] = strings.Join(fold(ascii(s.Label), 12, 0), "\n") + "\n" + t.unitHead()
	}
	from := 0
	for _, to := range ends {
		s := section{heads: heads}
		for i := from; i < to; i++ {
			l := all[i]
			r := row{indent: l.indent, label: l.label}
			for j, server := range servers {
				text := printed[j][i]
				if c := l.cells[server.Label]; text == "" && c != nil {
					text = absent(c)
				}
				r.cells = append(r.cells, text)
			}
			s.rows = append(s.rows, r)
		}
		g.sections = append(g.sections, s)
		from = to
	}
	g.write(&t.out)
}

// absent is what stands in place of a figure.
func absent(c *Cell) string {
	switch c.Status {
	case "n/a", "failed":
		return c.Status
	}
	return "-"
}

// overhead is a row of the overheads: a figure, and what it is compared with.
type overhead struct {
	panel   string
	heading bool // begins a section
	indent  int
	label   string
	figure  *float64
	absent  string
	pct, ns *estimate
	verdict string
	span    string
}

// weighed is a comparison or a control, as far as both are printed alike.
type weighed struct {
	comparison *Comparison
	control    *Control
}

// beside is what is printed beside a cell: its control, else its first
// comparison on its own server.
func (t *text) beside(c *Cell) weighed {
	if c == nil {
		return weighed{}
	}
	for i := range t.Controls {
		if t.Controls[i].Cell == c.ID {
			return weighed{control: &t.Controls[i]}
		}
	}
	for i := range t.Comparisons {
		if x := &t.Comparisons[i]; x.Cell == c.ID && t.cell(x.Against).plan.Server == c.plan.Server {
			return weighed{comparison: x}
		}
	}
	return weighed{}
}

// overhead prints a cell with what it is compared with.
func (t *text) overhead(panel string, l line, c *Cell, w weighed) overhead {
	o := overhead{panel: panel, indent: l.indent, label: l.label}
	if c != nil {
		o.figure = c.Median
		if c.Median == nil {
			o.absent = absent(c)
		}
	}
	switch {
	case w.control != nil:
		x := w.control
		o.pct = estimateOf(x.Pct, x.Lo, x.Hi)
		if base := t.reference(x.Against); base != nil && x.Pct != nil && x.Lo != nil && x.Hi != nil {
			o.ns = (&estimate{*x.Pct, x.Lo, x.Hi}).scaled(100 / *base)
		}
		switch {
		case x.OK == nil:
			o.verdict = "not judged"
		case !*x.OK:
			o.verdict = "FAILED"
		case x.P != nil && *x.P < 0.05:
			o.verdict = fmt.Sprintf("ok, p=%.3f", *x.P)
		default:
			o.verdict = "ok"
		}
	case w.comparison != nil:
		x := w.comparison
		if x.Verdict == NotExercised {
			o.span = "not exercised"
			break
		}
		o.pct, o.ns = estimateOf(x.Pct, x.Lo, x.Hi), estimateOf(x.Ns, x.NsLo, x.NsHi)
		o.verdict = x.Verdict
		if x.Bursts != nil {
			o.verdict += ", bursts"
		}
	}
	return o
}

// reference is the ns per transaction of a cell.
func (t *text) reference(cell string) *float64 {
	c := t.cell(cell)
	if c.TPS == nil || *c.TPS == 0 {
		return nil
	}
	return finite(float64(t.panel(c.Panel).Clients) / *c.TPS * 1e9)
}

// fill turns overheads into sections of a grid, one per panel or heading.
func (t *text) fill(g *grid, rows []overhead, figures bool) {
	unit, ns := timeUnit(largest(rows))
	var figure []*float64
	var pct, abs []*estimate
	for _, o := range rows {
		figure = append(figure, o.figure)
		pct, abs = append(pct, o.pct), append(abs, o.ns.scaled(ns))
	}
	figureTexts, pctTexts, nsTexts := levels(figure), alignEstimates(pct, pctDigits), alignEstimates(abs, intervalDigits(1))
	heads := []string{"time, %", unit + " per transaction", "verdict"}
	if width := len(longest(nsTexts)); width < len(heads[1]) {
		heads = []string{"time, %", unit + " per\ntransaction", "verdict"}
	}
	if figures {
		heads = append([]string{t.unitHead()}, heads...)
	}
	last := ""
	for i, o := range rows {
		if len(g.sections) == 0 || o.panel != last || o.heading {
			g.sections = append(g.sections, section{heads: heads})
			last = o.panel
		}
		r := row{indent: o.indent, label: o.label}
		if figures {
			text := figureTexts[i]
			if strings.TrimSpace(text) == "" {
				text = o.absent
			}
			r.cells = append(r.cells, text)
		}
		r.cells = append(r.cells, pctTexts[i], nsTexts[i], o.verdict)
		if o.span != "" {
			r.span, r.spanAt = o.span, len(heads)-3
		}
		s := &g.sections[len(g.sections)-1]
		s.rows = append(s.rows, r)
	}
}

func largest(rows []overhead) float64 {
	most := 0.0
	for _, o := range rows {
		if o.ns != nil {
			most = max(most, o.ns.point, -o.ns.point)
		}
	}
	return most
}

func longest(texts []string) string {
	out := ""
	for _, s := range texts {
		if len(s) > len(out) {
			out = s
		}
	}
	return out
}

// overheads writes what stands beside no cell: with several servers all
// comparisons, server by server, then those along the further axes.
func (t *text) overheads() {
	several := t.several()
	var rows []overhead
	heading := func(panel, title string) {
		rows = append(rows, overhead{panel: panel, heading: true, label: title})
	}
	for _, p := range t.Panels {
		lines := t.lines(p.ID)
		if several {
			for _, server := range t.servers(p.ID) {
				first := true
				for _, l := range lines {
					c := l.cells[server]
					w := t.beside(c)
					if w == (weighed{}) {
						continue
					}
					if first {
						heading(p.ID, t.titles[p.ID]+", "+ascii(server))
						first = false
					}
					o := t.overhead(p.ID, l, c, w)
					o.indent = max(o.indent, 2)
					rows = append(rows, o)
				}
			}
		}
		// By pair of values, in the order of the plan.
		var pairs []string
		byPair := map[string][]overhead{}
		for i := range t.Comparisons {
			x := &t.Comparisons[i]
			c, against := t.cell(x.Cell), t.cell(x.Against)
			if c.Panel != p.ID || t.beside(c).comparison == x {
				continue
			}
			pair := fmt.Sprintf("%s against %s", t.valueOf(c, x.Axis), t.valueOf(against, x.Axis))
			if x.Axis != "server" && several {
				pair += ", " + ascii(c.plan.Server)
			}
			if byPair[pair] == nil {
				pairs = append(pairs, pair)
			}
			o := t.overhead(p.ID, line{indent: 2, label: t.rowName(c, x.Axis)}, c, weighed{comparison: x})
			byPair[pair] = append(byPair[pair], o)
		}
		for _, pair := range pairs {
			heading(p.ID, t.titles[p.ID]+", "+pair)
			rows = append(rows, byPair[pair]...)
		}
	}
	if len(rows) == 0 {
		return
	}
	t.out.WriteString("\n")
	g := &grid{columns: 3, left: map[int]bool{2: true}, together: true}
	t.fill(g, rows, false)
	g.write(&t.out)
}

// valueOf is a cell's value on an axis, as a heading has it.
func (t *text) valueOf(c *Cell, axis string) string {
	switch value, ok := c.Axes[axis]; {
	case axis == "server":
		return ascii(c.plan.Server)
	case axis == "setting" || !ok:
		return ascii(cmp.Or(c.plan.Label, "baseline"))
	default:
		return ascii(axis + "=" + value)
	}
}

// rowName names a cell by all that its panel and the axis leave open.
func (t *text) rowName(c *Cell, axis string) string {
	var parts []string
	vars := map[string]string{}
	for name, value := range c.plan.Vars {
		if name != axis {
			vars[name] = value
		}
	}
	if s := varsLine(t.Plan, vars); s != "" {
		parts = append(parts, s)
	}
	if label := c.plan.Label; label != "" && axis != "setting" && !c.Baseline {
		parts = append(parts, label)
	}
	return ascii(cmp.Or(strings.Join(parts, ", "), "baseline"))
}

// name is a cell in a sentence: its row, and what else tells it from others.
func (t *text) name(id string) string {
	c := t.cell(id)
	parts := []string{t.rowName(c, "")}
	if len(t.Panels) > 1 {
		parts = append(parts, t.titles[c.Panel])
	}
	if len(t.Plan.Servers) > 1 {
		parts = append(parts, ascii(c.plan.Server))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return parts[0] + " (" + strings.Join(parts[1:], "; ") + ")"
}

// undecided says of comparisons without an effect what they leave open.
func (t *text) undecided() {
	g := &grid{columns: 5, left: map[int]bool{4: true}, together: true}
	heads := []string{"at most, %\ntypical", "\ntotal", "would have\nseen, %", "time to\ndecide", "\nverdict"}
	for _, p := range t.Panels {
		s := section{heads: heads}
		for i := range t.Comparisons {
			x := &t.Comparisons[i]
			c := t.cell(x.Cell)
			if c.Panel != p.ID || x.Verdict != "unclear" && x.Verdict != "same" || x.Typical == nil && x.Total == nil {
				continue
			}
			if s.rows == nil {
				s.rows = append(s.rows, row{label: t.titles[p.ID]})
			}
			atMost := func(i *Interval) string {
				if i == nil {
					return ""
				}
				return signed(i.Hi, pctDigits(&estimate{i.Pct, &i.Lo, &i.Hi}))
			}
			label := t.rowName(c, "")
			switch {
			case x.Axis == "server":
				label += ", " + t.valueOf(c, x.Axis) + " against " + t.valueOf(t.cell(x.Against), x.Axis)
			case len(t.Plan.Servers) > 1:
				label += ", " + ascii(c.plan.Server)
			}
			cells := []string{atMost(x.Typical), atMost(x.Total), "", "", x.Verdict}
			if x.WouldSee != nil {
				cells[2] = fixed(*x.WouldSee, 1)
			}
			if x.TimeFactor != nil {
				cells[3] = "x " + fixed(*x.TimeFactor, intervalDigits(1)(&estimate{point: *x.TimeFactor})-1)
			}
			s.rows = append(s.rows, row{indent: 2, label: label, cells: cells})
		}
		if s.rows != nil {
			g.sections = append(g.sections, s)
		}
	}
	if g.sections != nil {
		t.out.WriteString("\nWhere no cost is shown\n")
		g.write(&t.out)
	}
}

// bursts prints both estimates of what is marked.
func (t *text) bursts() {
	var rows []row
	var typical, all, burst []*estimate
	for i := range t.Comparisons {
		x := &t.Comparisons[i]
		if x.Bursts == nil || x.Typical == nil || x.Total == nil || x.Verdict == NotExercised {
			continue
		}
		rows = append(rows, row{indent: 2, label: t.name(x.Cell)})
		typical = append(typical, &estimate{x.Typical.Pct, &x.Typical.Lo, &x.Typical.Hi})
		all = append(all, &estimate{x.Total.Pct, &x.Total.Lo, &x.Total.Hi})
		burst = append(burst, &estimate{point: x.Bursts.Pct})
	}
	if rows == nil {
		return
	}
	columns := [][]string{alignEstimates(typical, pctDigits), alignEstimates(all, pctDigits), alignEstimates(burst, pctDigits)}
	for i := range rows {
		rows[i].cells = []string{columns[0][i], columns[1][i], columns[2][i]}
	}
	t.out.WriteString("\nCosts that come in bursts\n")
	g := &grid{columns: 3, together: true, sections: []section{{heads: []string{"typical, %", "total, %", "bursts, %"}, rows: rows}}}
	g.write(&t.out)
}

// each calls visit for all rows of all panels, server by server; begin comes
// before the first of each.
func (t *text) each(begin func(title string), visit func(l line, c *Cell)) {
	for _, p := range t.Panels {
		lines := t.lines(p.ID)
		servers := t.servers(p.ID)
		for _, server := range servers {
			title := t.titles[p.ID]
			if len(servers) > 1 {
				title += ", " + ascii(server)
			}
			begin(title)
			for _, l := range lines {
				if c := l.cells[server]; c != nil {
					if l.label == t.titles[p.ID] {
						l.label = title
					}
					visit(l, c)
				}
			}
		}
	}
}

// details writes a table with a section per panel and server; columns gives
// the figures of a cell.
func (t *text) details(title string, heads []string, columns func(c *Cell) []*float64) {
	g := &grid{columns: len(heads), together: true}
	values := make([][]*float64, len(heads))
	known := false
	begun := ""
	t.each(func(title string) {
		g.sections = append(g.sections, section{heads: heads})
		begun = title
	}, func(l line, c *Cell) {
		s := &g.sections[len(g.sections)-1]
		if len(s.rows) == 0 && l.label != begun {
			s.rows = append(s.rows, row{label: begun})
			for j := range heads {
				values[j] = append(values[j], nil)
			}
		}
		for j, v := range columns(c) {
			values[j] = append(values[j], v)
			known = known || v != nil
		}
		s.rows = append(s.rows, row{indent: l.indent, label: l.label})
	})
	if !known {
		return
	}
	printed := make([][]string, len(heads))
	for j := range heads {
		printed[j] = levels(values[j])
	}
	i := 0
	for k := range g.sections {
		for m := range g.sections[k].rows {
			for j := range heads {
				g.sections[k].rows[m].cells = append(g.sections[k].rows[m].cells, printed[j][i])
			}
			i++
		}
	}
	t.out.WriteString("\n" + title + "\n")
	g.write(&t.out)
}

// latency writes the spread of the runs and the percentiles.
func (t *text) latency() {
	unit := t.unitHead()
	t.details("Runs, and latency in us", []string{unit + "\nlowest", "\nhighest", "latency\np50", "\np95", "\np99"}, func(c *Cell) []*float64 {
		l := c.LatencyUs
		if l == nil {
			l = &Latency{}
		}
		return []*float64{c.Min, c.Max, l.P50, l.P95, l.P99}
	})
}

// cpu writes the CPU time of the backends, and what of it a setting costs.
func (t *text) cpu() {
	g := &grid{columns: 4, together: true}
	var levelsNs, clientNs []*float64
	var pct, abs []*estimate
	known := false
	add := func(server, client *float64, p, n *estimate) {
		levelsNs, clientNs = append(levelsNs, server), append(clientNs, client)
		pct, abs = append(pct, p), append(abs, n)
	}
	begun := ""
	t.each(func(title string) {
		g.sections = append(g.sections, section{})
		begun = title
	}, func(l line, c *Cell) {
		s := &g.sections[len(g.sections)-1]
		if len(s.rows) == 0 && l.label != begun {
			s.rows = append(s.rows, row{label: begun})
			add(nil, nil, nil, nil)
		}
		var p, n *estimate
		if x := t.beside(c).comparison; x != nil && x.CPU != nil && x.Verdict != NotExercised {
			p = &estimate{x.CPU.Pct, x.CPU.Lo, x.CPU.Hi}
			n = &estimate{x.CPU.Ns, x.CPU.NsLo, x.CPU.NsHi}
		}
		known = known || c.ServerCPUNs != nil
		add(c.ServerCPUNs, c.ClientCPUNs, p, n)
		s.rows = append(s.rows, row{indent: l.indent, label: l.label})
	})
	if !known {
		return
	}
	most := 0.0
	for _, v := range levelsNs {
		if v != nil {
			most = max(most, *v)
		}
	}
	unit, ns := timeUnit(most)
	scale := func(column []*float64) []string {
		out := make([]*float64, len(column))
		for i, v := range column {
			if v != nil {
				out[i] = ptr(*v / ns)
			}
		}
		return levels(out)
	}
	for i := range abs {
		abs[i] = abs[i].scaled(ns)
	}
	columns := [][]string{scale(levelsNs), alignEstimates(pct, pctDigits), alignEstimates(abs, intervalDigits(1)), scale(clientNs)}
	i := 0
	for k := range g.sections {
		g.sections[k].heads = []string{"backends\n" + unit, "\n%", "\n" + unit, "client\n" + unit}
		for m := range g.sections[k].rows {
			for j := range columns {
				g.sections[k].rows[m].cells = append(g.sections[k].rows[m].cells, columns[j][i])
			}
			i++
		}
	}
	t.out.WriteString("\nCPU time per transaction\n")
	g.write(&t.out)
}

// failures lists failed transactions by SQLSTATE.
func (t *text) failures() {
	first := true
	for i := range t.Cells {
		c := &t.Cells[i]
		if len(c.Failures) == 0 {
			continue
		}
		if first {
			t.out.WriteString("\nFailed transactions, by SQLSTATE\n")
			first = false
		}
		var parts []string
		for _, code := range keys(c.Failures) {
			parts = append(parts, fmt.Sprintf("%s: %d", cmp.Or(ascii(code), "none"), c.Failures[code]))
		}
		paragraph(&t.out, "  ", fmt.Sprintf("%s: %s (%.2g %%)", t.name(c.ID), strings.Join(parts, ", "), c.failedPct()))
	}
}

// missing gives the reason of each cell that has no figure, or one that means
// little.
func (t *text) missing() {
	var order []string
	cells := map[string][]string{}
	for i := range t.Cells {
		c := &t.Cells[i]
		state := c.Status
		if state == "ok" || state == "partial" {
			if c.notExercised == "" {
				continue
			}
			state = "not exercised"
		}
		reason := ""
		if c.Reason != nil {
			reason = *c.Reason
		}
		key := state + "\x00" + ascii(reason)
		if cells[key] == nil {
			order = append(order, key)
		}
		cells[key] = append(cells[key], t.name(c.ID))
	}
	if len(order) > 0 {
		t.out.WriteString("\n")
	}
	for _, key := range order {
		state, reason, _ := strings.Cut(key, "\x00")
		paragraph(&t.out, state+": ", few(cells[key], 4)+prefixed(": ", reason))
	}
}

// few lists at most n names.
func few(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

// notes are the footnotes: how the figures came about and how to read them.
func (t *text) notes() {
	b := &t.out
	b.WriteString("\n")
	note := func(format string, args ...any) { paragraph(b, "- ", fmt.Sprintf(format, args...)) }

	what := "tps: computed from slices"
	if t.Plan.Unit == "s" {
		what = "seconds: computed from slices, for all transactions of a client"
	}
	anchors := ""
	for _, p := range t.Panels {
		for _, a := range p.Anchors {
			name := ""
			if len(t.Panels) > 1 {
				name = t.titles[p.ID] + " "
			}
			if len(p.Anchors) > 1 {
				name += "on " + ascii(a.Server) + " "
			}
			if anchors != "" {
				anchors += "; "
			}
			anchors += fmt.Sprintf("%s%s tps", name, level(&a.TPS))
		}
	}
	if anchors != "" {
		anchors = ". One unbroken second of the baseline gave: " + anchors
	}
	note("%s, median of the runs%s.", what, anchors)
	if len(t.Comparisons) > 0 {
		note("time: overhead per transaction against the baseline, plus is slower, with half its 95 %% interval. It is paired within rounds and is not the ratio of two printed figures.")
		note("Intervals are unadjusted; the verdict is adjusted for all %s (Holm). So an interval may exclude 0 and the verdict still be unclear. \"same\": within +-%s %%.", count(len(t.Comparisons), "comparison"), strconv.FormatFloat(t.Margin, 'g', 3, 64))
	}
	if t.EqualWithin != nil {
		verb := "equal cells differed by at most %s %% here."
		if t.Trusted != nil && !*t.Trusted {
			verb = "equal cells differed by up to %s %% here: NOT TRUSTED."
		}
		note("control: the baseline once more; "+verb, fixed(*t.EqualWithin, 1))
	}
}

// warnings prints the doubts with their remedies.
func (t *text) warnings() {
	if len(t.Warnings) == 0 {
		return
	}
	t.out.WriteString("\n")
	for _, w := range t.Warnings {
		about := ""
		if n := len(w.Cells); n > 0 && n < len(t.Cells) {
			var names []string
			for _, id := range w.Cells {
				names = append(names, t.name(id))
			}
			about = few(names, 3) + ": "
		}
		remedy := ""
		if w.Remedy != "" {
			remedy = ". Remedy: " + ascii(w.Remedy)
		}
		paragraph(&t.out, "! ", ascii(w.Code)+": "+about+strings.TrimSuffix(ascii(w.Text), ".")+remedy+".")
	}
}
