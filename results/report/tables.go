package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"pgtare/results"
)

// line is a row of the tables: the cells of one panel that differ in nothing
// but the server.
type line struct {
	indent int
	label  string
	cells  map[string]*Cell // by server
}

// lines are the rows of a panel in the order of the plan. The baseline gives
// its row to the panel's title, as in the mails; where there is another axis (a
// variable, the clock source), each of its values has a row, and the settings
// stand below.
func (t *text) lines(panel string) []line {
	var groups []string
	byGroup := map[string][]line{}
	for i := range t.Cells {
		c := &t.Cells[i]
		if c.Panel != panel {
			continue
		}
		group := groupLine(t.Plan, c.plan, nil)
		if byGroup[group] == nil {
			groups = append(groups, group)
		}
		label := ""
		if !heads(c) {
			label = ascii(cmp.Or(c.plan.Label, "control"))
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
	for _, group := range groups {
		title, indent := t.titles[panel], 0
		if len(groups) > 1 {
			title, indent = cmp.Or(ascii(group), "(no variable)"), 2
		}
		rows := byGroup[group]
		if at := slices.IndexFunc(rows, func(l line) bool { return l.label == "" }); at >= 0 {
			out = append(out, line{indent: indent, label: title, cells: rows[at].cells})
			rows = slices.Delete(slices.Clone(rows), at, at+1)
		} else if indent > 0 {
			out = append(out, line{indent: indent, label: title})
		}
		for _, l := range rows {
			l.indent = indent + 2
			l.label = cmp.Or(l.label, "(no label)")
			out = append(out, l)
		}
	}
	return out
}

// ownTables are the axes that the tables have a place of their own for: columns
// or sections, or the rows of a group.
var ownTables = []string{"server", "workload", "mode", "protocol", "clients", "setting"}

// groupLine names a cell's values on the axes by which rows are grouped, but
// those left out.
func groupLine(h *results.Header, c *results.Cell, without []string) string {
	var parts []string
	for _, a := range h.Axes {
		if len(a.Values) < 2 || slices.Contains(ownTables, a.Name) || slices.Contains(without, a.Name) {
			continue
		}
		parts = append(parts, a.Name+"="+cmp.Or(c.Axes[a.Name], c.Vars[a.Name]))
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

// several tells whether the table of the figures has several columns of them.
func (t *text) several() bool {
	return len(t.Plan.Columns) > 0 || slices.ContainsFunc(t.Panels, func(p Panel) bool { return len(t.servers(p.ID)) > 1 })
}

// onServers calls begin and then visit for all rows that have figures, panel
// by panel and server by server.
func (t *text) onServers(begin func(title string), visit func(l line, c *Cell)) {
	for _, p := range t.Panels {
		lines, servers := t.lines(p.ID), t.servers(p.ID)
		for _, server := range servers {
			title := t.titles[p.ID]
			if len(servers) > 1 {
				title += ", " + ascii(server)
			}
			begin(title)
			for _, l := range lines {
				c := l.cells[server]
				if c == nil || c.Status == "failed" || c.Status == "n/a" {
					continue
				}
				if l.indent == 0 {
					l.label = title
				}
				visit(l, c)
			}
		}
	}
}

// pairs calls visit for the comparisons of a panel that stand beside no cell,
// by pair of values, in the order of the plan; begin comes before each pair.
func (t *text) pairs(panel string, begin func(title string), visit func(l line, c *Cell, x *Comparison)) {
	var titles []string
	byTitle := map[string][]*Comparison{}
	for i := range t.Comparisons {
		x := &t.Comparisons[i]
		c, against := t.cell(x.Cell), t.cell(x.Against)
		if c.Panel != panel || t.beside(c).comparison == x {
			continue
		}
		title := fmt.Sprintf("%s, %s against %s", t.titles[panel], t.valueOf(c, x.Axis), t.valueOf(against, x.Axis))
		if c.plan.Server == against.plan.Server && len(t.servers(panel)) > 1 {
			title += ", " + ascii(c.plan.Server)
		}
		if byTitle[title] == nil {
			titles = append(titles, title)
		}
		byTitle[title] = append(byTitle[title], x)
	}
	for _, title := range titles {
		begin(title)
		for _, x := range byTitle[title] {
			c := t.cell(x.Cell)
			visit(line{indent: 2, label: t.rowName(c, x.Axis)}, c, x)
		}
	}
}

// weighed is a comparison or a control, as far as both are printed alike.
type weighed struct {
	comparison *Comparison
	control    *Control
}

// beside is what is printed beside a cell: its control, else its comparison
// with the baseline on its own server that it stands below.
func (t *text) beside(c *Cell) weighed {
	for i := range t.Controls {
		if t.Controls[i].Cell == c.ID {
			return weighed{control: &t.Controls[i]}
		}
	}
	for i := range t.Comparisons {
		if x := &t.Comparisons[i]; x.Cell == c.ID && t.above(t.cell(x.Against), c) {
			return weighed{comparison: x}
		}
	}
	return weighed{}
}

// above tells whether the row of base heads that of c: it is the one without
// settings of its own among those with c's variables or, where c is that one
// itself, the panel's baseline.
func (t *text) above(base, c *Cell) bool {
	if base.plan.Server != c.plan.Server || !heads(base) {
		return false
	}
	return groupLine(t.Plan, base.plan, nil) == groupLine(t.Plan, c.plan, nil) || heads(c) && t.first(base)
}

// heads tells whether a cell's row is that of its variables' values or, where
// there are none, that of the panel.
func heads(c *Cell) bool { return c.Baseline || c.plan.Label == "" && !c.Control }

// first tells whether c is the baseline of its panel on its server.
func (t *text) first(c *Cell) bool {
	at := slices.IndexFunc(t.Cells, func(x Cell) bool {
		return x.Baseline && x.Panel == c.Panel && x.plan.Server == c.plan.Server
	})
	return at >= 0 && t.Cells[at].ID == c.ID
}

// unitHead is the head of the column of figures.
func (t *text) unitHead() string {
	if t.Plan.Unit == "s" {
		return "seconds"
	}
	return "tps"
}

// figure is a cell's median, or why there is none.
func figureOf(c *Cell) value {
	switch {
	case c == nil:
		return value{}
	case c.Status == "n/a", c.Status == "failed":
		return value{text: c.Status}
	case c.Median == nil:
		return value{text: "-"}
	}
	return value{level: c.Median}
}

// main writes the table of the mails: the median of the runs, and, where there
// is but one server, the overheads beside it.
func (t *text) main() {
	if t.several() {
		t.figures()
		t.overheads(nil)
		return
	}
	t.overheads(func(c *Cell) value { return figureOf(c) })
}

// figures writes a column per server.
func (t *text) figures() {
	if len(t.Plan.Columns) > 0 {
		t.figuresBy(t.Plan.Columns)
		return
	}
	s := &sheet{}
	for _, server := range t.Plan.Servers {
		s.columns = append(s.columns, column{heads: strings.Join(fold(ascii(server.Label), 12, 0), "\n") + "\n" + t.unitHead()})
	}
	for _, p := range t.Panels {
		s.begin(t.titles[p.ID])
		for _, l := range t.lines(p.ID) {
			r := sheetRow{indent: l.indent, label: l.label}
			for _, server := range t.Plan.Servers {
				r.values = append(r.values, figureOf(l.cells[server.Label]))
			}
			s.add(r)
		}
	}
	s.write(&t.out, "")
}

// figuresBy writes the figures with the values of any axes, or settings, as
// columns. The rows are what these leave open, in the order of the plan.
func (t *text) figuresBy(axes []string) {
	type place struct {
		section, label string
		again          int // of cells that are called the same, as controls are
	}
	var heads []string
	var places []place
	at := map[place]map[string]*Cell{}
	titles := t.titlesWithout(axes)
	for i := range t.Cells {
		c := &t.Cells[i]
		var head []string
		for _, axis := range axes {
			head = append(head, t.columnOf(c, axis))
		}
		column := strings.Join(head, "\n")
		if !slices.Contains(heads, column) {
			heads = append(heads, column)
		}
		p := place{section: titles[c.Panel], label: t.rowWithout(c, axes)}
		for at[p][column] != nil {
			p.again++
		}
		if at[p] == nil {
			places, at[p] = append(places, p), map[string]*Cell{}
		}
		at[p][column] = c
	}
	s := &sheet{}
	for _, head := range heads {
		var lines []string
		for _, l := range strings.Split(head, "\n") {
			lines = append(lines, fold(l, 16, 0)...)
		}
		s.columns = append(s.columns, column{heads: strings.Join(append(lines, t.unitHead()), "\n")})
	}
	// Section by section, the bare row first: it gives its figures to the title.
	var sections []string
	for _, p := range places {
		sections = append(sections, p.section)
	}
	for _, section := range unique(sections) {
		s.begin(section)
		for _, bare := range []bool{true, false} {
			for _, p := range places {
				if p.section != section || (p.label == "") != bare {
					continue
				}
				r := sheetRow{indent: 2, label: p.label}
				if bare {
					r.indent, r.label = 0, section
				}
				for _, head := range heads {
					r.values = append(r.values, figureOf(at[p][head]))
				}
				s.add(r)
			}
		}
	}
	s.write(&t.out, "")
}

// columnOf is a cell's value on an axis, or of a setting, as a column's head has
// it.
func (t *text) columnOf(c *Cell, axis string) string {
	if value, isSetting := c.Settings[axis]; isSetting && !slices.ContainsFunc(t.Plan.Axes, func(a results.Axis) bool { return a.Name == axis }) {
		return ascii(axis + "=" + value)
	}
	switch value := c.Axes[axis]; axis {
	case "clients":
		n, _ := strconv.Atoi(value)
		return count(n, "client")
	case "mode", "workload", "protocol", "clocksource":
		return ascii(value)
	default:
		return t.valueOf(c, axis)
	}
}

// rowWithout names a cell by what its panel and these columns leave open.
func (t *text) rowWithout(c *Cell, columns []string) string {
	var parts []string
	if len(t.servers(c.Panel)) > 1 && !slices.Contains(columns, "server") {
		parts = append(parts, c.plan.Server)
	}
	if group := groupLine(t.Plan, c.plan, columns); group != "" {
		parts = append(parts, group)
	}
	own := slices.DeleteFunc(slices.Clone(columns), func(name string) bool { _, isSetting := c.Settings[name]; return !isSetting })
	switch {
	case slices.Contains(columns, "setting"):
	case len(own) == 0 || c.Control:
		if c.plan.Label != "" {
			parts = append(parts, c.plan.Label)
		}
	default: // what is set beside the settings that are columns
		base := t.Cells[slices.IndexFunc(t.Cells, func(x Cell) bool { return x.Panel == c.Panel && x.Baseline })]
		for _, name := range keys(c.Settings) {
			if c.Settings[name] != base.Settings[name] && !slices.Contains(own, name) {
				parts = append(parts, name+"="+c.Settings[name])
			}
		}
	}
	return ascii(strings.Join(parts, ", "))
}

// overheads writes the overheads in per cent and ns with their verdicts: those
// that stand beside a cell, server by server, then those along further axes.
// figure, where not nil, is a column before them.
func (t *text) overheads(figure func(c *Cell) value) {
	unit, ns := t.nsUnit()
	s := &sheet{together: true}
	if figure != nil {
		s.columns = append(s.columns, column{heads: t.unitHead()})
	}
	s.columns = append(s.columns,
		column{heads: "overhead, %", digits: pctDigits},
		column{heads: unit + " per\ntransaction", digits: intervalDigits(1)},
		column{heads: "verdict", left: true})

	add := func(l line, c *Cell, w weighed) {
		r := sheetRow{indent: l.indent, label: l.label}
		if figure != nil {
			r.values = append(r.values, figure(c))
		}
		if c != nil {
			pct, abs, verdict := t.weights(w)
			switch {
			case w.comparison != nil && w.comparison.Verdict == NotExercised:
				r.span, r.spanAt = "not exercised", len(r.values)
			case c.Status == "failed":
			default:
				r.values = append(r.values, value{estimate: pct}, value{estimate: abs.scaled(ns)}, value{text: verdict})
			}
		}
		s.add(r)
	}
	for _, p := range t.Panels {
		lines, servers := t.lines(p.ID), t.servers(p.ID)
		for _, server := range servers {
			title := t.titles[p.ID]
			if len(servers) > 1 {
				title += ", " + ascii(server)
			}
			begun := false
			for i, l := range lines {
				c := l.cells[server]
				if figure == nil && (c == nil || t.beside(c) == weighed{}) {
					// Its figure stands above. But it may head rows that follow.
					if below := i + 1; l.indent == 0 || below == len(lines) || lines[below].indent <= l.indent {
						continue
					}
				}
				if !begun {
					s.begin(title)
					begun = true
				}
				if l.indent == 0 {
					l.label = title
				}
				var w weighed
				if c != nil {
					w = t.beside(c)
				}
				add(l, c, w)
			}
		}
		t.pairs(p.ID, s.begin, func(l line, c *Cell, x *Comparison) {
			w := weighed{comparison: x}
			if figure != nil {
				pct, abs, verdict := t.weights(w)
				r := sheetRow{indent: l.indent, label: l.label, values: []value{{}, {estimate: pct}, {estimate: abs.scaled(ns)}, {text: verdict}}}
				if x.Verdict == NotExercised {
					r.values, r.span, r.spanAt = r.values[:1], "not exercised", 1
				}
				s.add(r)
				return
			}
			add(l, c, w)
		})
	}
	if len(s.rows) > 0 {
		s.write(&t.out, "")
	}
}

// weights are the overhead of a comparison or a control in per cent and in
// ns, and the word for it.
func (t *text) weights(w weighed) (pct, ns *estimate, verdict string) {
	switch {
	case w.control != nil:
		x := w.control
		pct = estimateOf(x.Pct, x.Lo, x.Hi)
		if base := t.cell(x.Against); pct != nil && base.TPS != nil && *base.TPS > 0 {
			ns = pct.scaled(100 * *base.TPS / float64(t.panel(x.Panel).Clients) / 1e9)
		}
		switch {
		case x.OK == nil:
			verdict = "not judged"
		case *x.OK:
			verdict = "ok"
		default:
			verdict = "FAILED"
		}
	case w.comparison != nil:
		x := w.comparison
		pct, ns, verdict = estimateOf(x.Pct, x.Lo, x.Hi), estimateOf(x.Ns, x.NsLo, x.NsHi), x.Verdict
		if x.Bursts != nil {
			verdict += " (b)"
		}
	}
	return pct, ns, verdict
}

// nsUnit is the unit for the overheads of all comparisons.
func (t *text) nsUnit() (name string, ns float64) {
	most := 0.0
	for _, x := range t.Comparisons {
		for _, v := range []*float64{x.Ns, x.NsLo, x.NsHi} {
			if v != nil {
				most = max(most, *v, -*v)
			}
		}
	}
	return timeUnit(most)
}

// undecided says of comparisons without an effect what they leave open.
func (t *text) undecided() {
	s := &sheet{together: true, columns: []column{
		{heads: "at most:\ntypical"}, {heads: "total"}, {heads: "would\nsee"}, {heads: "time to\ndecide"}, {heads: "verdict", left: true},
	}}
	atMost := func(i *Interval) value {
		if i == nil {
			return value{}
		}
		return value{text: signed(i.Hi, pctDigits(&estimate{i.Pct, &i.Lo, &i.Hi}))}
	}
	for _, p := range t.Panels {
		begun := false
		for i := range t.Comparisons {
			x := &t.Comparisons[i]
			c := t.cell(x.Cell)
			if c.Panel != p.ID || !open(*x) {
				continue
			}
			if !begun {
				s.begin(t.titles[p.ID])
				begun = true
			}
			label := t.rowName(c, "")
			switch {
			case x.Axis == "server":
				label += ", " + t.valueOf(c, x.Axis) + " against " + t.valueOf(t.cell(x.Against), x.Axis)
			case len(t.servers(p.ID)) > 1:
				label += ", " + ascii(c.plan.Server)
			}
			r := sheetRow{indent: 2, label: label, values: []value{atMost(x.Typical), atMost(x.Total), {}, {}, {text: x.Verdict}}}
			if x.WouldSee != nil {
				r.values[2].text = fixed(*x.WouldSee, 1)
			}
			if x.TimeFactor != nil {
				digits := 0
				if *x.TimeFactor < 10 {
					digits = 1
				}
				r.values[3].text = "x " + fixed(*x.TimeFactor, digits)
			}
			s.add(r)
		}
	}
	if len(s.rows) > 0 {
		s.write(&t.out, "Where no cost is shown, in % of time per transaction")
	}
}

// open tells whether a comparison shows no effect, by its figures and for no
// other reason.
func open(x Comparison) bool {
	return (x.Verdict == "unclear" || x.Verdict == "same") && x.Reason == nil && (x.Typical != nil || x.Total != nil)
}

// bursts prints both estimates of what is marked.
func (t *text) bursts() {
	s := &sheet{together: true, columns: []column{
		{heads: "typical, %", digits: pctDigits}, {heads: "total, %", digits: pctDigits}, {heads: "bursts, %", digits: pctDigits},
	}}
	for i := range t.Comparisons {
		x := &t.Comparisons[i]
		if x.Bursts == nil || x.Typical == nil || x.Total == nil || x.Verdict == NotExercised {
			continue
		}
		s.add(sheetRow{indent: 2, label: t.describe([]string{x.Cell}), values: []value{
			{estimate: &estimate{x.Typical.Pct, &x.Typical.Lo, &x.Typical.Hi}},
			{estimate: &estimate{x.Total.Pct, &x.Total.Lo, &x.Total.Hi}},
			{estimate: &estimate{point: x.Bursts.Pct}},
		}})
	}
	if len(s.rows) > 0 {
		s.write(&t.out, "(b) Costs that come in bursts")
	}
}

// cpu writes the CPU time of the backends, and what of it a setting costs.
func (t *text) cpu() {
	most := 0.0
	for i := range t.Cells {
		if v := t.Cells[i].ServerCPUNs; v != nil {
			most = max(most, *v)
		}
	}
	unit, ns := timeUnit(most)
	s := &sheet{together: true, columns: []column{
		{heads: "backends\n" + unit}, {heads: "overhead,\n%", digits: pctDigits}, {heads: unit, digits: intervalDigits(1)}, {heads: "client /\nserver, %"},
	}}
	in := func(v *float64) value {
		if v == nil {
			return value{}
		}
		return value{level: ptr(*v / ns)}
	}
	// As the mail of 2006 has it: 45 / 55.
	share := func(client *float64) value {
		if client == nil {
			return value{}
		}
		whole := math.Round(*client)
		return value{text: fmt.Sprintf("%.0f / %.0f", whole, 100-whole)}
	}
	overhead := func(x *Comparison) (pct, abs value) {
		if x == nil || x.CPU == nil || x.Verdict == NotExercised {
			return
		}
		return value{estimate: &estimate{x.CPU.Pct, x.CPU.Lo, x.CPU.Hi}}, value{estimate: (&estimate{x.CPU.Ns, x.CPU.NsLo, x.CPU.NsHi}).scaled(ns)}
	}
	t.onServers(s.begin, func(l line, c *Cell) {
		pct, abs := overhead(t.beside(c).comparison)
		s.add(sheetRow{indent: l.indent, label: l.label, values: []value{in(c.ServerCPUNs), pct, abs, share(c.ClientSharePct)}})
	})
	for _, p := range t.Panels {
		t.pairs(p.ID, s.begin, func(l line, c *Cell, x *Comparison) {
			pct, abs := overhead(x)
			s.add(sheetRow{indent: l.indent, label: l.label, values: []value{{}, pct, abs}})
		})
	}
	if !s.empty() {
		s.write(&t.out, "CPU time per transaction")
	}
}

// background writes what instances did beside the transactions of cells that
// had them to themselves.
func (t *text) background() {
	most := 0.0
	for i := range t.Cells {
		if b := t.Cells[i].Background; b != nil && b.CPUNs != nil {
			most = max(most, *b.CPUNs)
		}
	}
	unit, ns := timeUnit(most)
	s := &sheet{together: true, columns: []column{
		{heads: "CPU,\n" + unit, significant: 3}, {heads: "WAL,\nbytes"}, {heads: "pages\nread", significant: 3}, {heads: "pages\nwritten", significant: 3},
		{heads: "check-\npoints"}, {heads: "autovac.\nruns"},
	}}
	times := func(n *int64) value {
		if n == nil {
			return value{}
		}
		return value{text: fmt.Sprint(*n)}
	}
	t.onServers(s.begin, func(l line, c *Cell) {
		r := sheetRow{indent: l.indent, label: l.label}
		if b := c.Background; b != nil {
			cpu := b.CPUNs
			if cpu != nil {
				cpu = ptr(*cpu / ns)
			}
			r.values = []value{{level: cpu}, {level: b.WALBytes}, {level: b.PagesRead}, {level: b.PagesWritten}, times(b.Checkpoints), times(b.Vacuums)}
		}
		s.add(r)
	})
	if !s.empty() {
		s.write(&t.out, "Background per transaction (checkpoints and autovacuum runs: in all)")
	}
}

// fileIO writes what backends read and wrote, where any of them did so in one
// transaction of a hundred.
func (t *text) fileIO() {
	some := false
	s := &sheet{together: true, columns: []column{{heads: "read", significant: 3}, {heads: "written", significant: 3}}}
	t.onServers(s.begin, func(l line, c *Cell) {
		r := sheetRow{indent: l.indent, label: l.label}
		if io := c.FileIO; io != nil {
			r.values = []value{{level: &io.ReadBytes}, {level: &io.WrittenBytes}}
			some = some || max(io.ReadBytes, io.WrittenBytes) >= pageShare
		}
		s.add(r)
	})
	if some {
		s.write(&t.out, "Bytes per transaction that backends read from and wrote to files")
	}
}

// percentiles writes the overheads in the quantiles of the latencies.
func (t *text) percentiles() {
	var quantiles []float64
	for _, x := range t.Comparisons {
		for _, p := range x.Percentiles {
			if !slices.Contains(quantiles, p.Q) {
				quantiles = append(quantiles, p.Q)
			}
		}
	}
	if quantiles == nil {
		return
	}
	slices.Sort(quantiles)
	s := &sheet{}
	for _, q := range quantiles {
		s.columns = append(s.columns, column{heads: fmt.Sprintf("p%.4g", q), digits: pctDigits})
	}
	values := func(x *Comparison) []value {
		out := make([]value, len(quantiles))
		if x == nil || x.Verdict == NotExercised {
			return out
		}
		for _, p := range x.Percentiles {
			out[slices.Index(quantiles, p.Q)].estimate = &estimate{p.Pct, &p.Lo, &p.Hi}
		}
		return out
	}
	known := func(x *Comparison) bool { return x != nil && len(x.Percentiles) > 0 && x.Verdict != NotExercised }
	for _, p := range t.Panels {
		begun := false
		begin := func(title string) {
			s.begin(title)
			begun = true
		}
		for _, server := range t.servers(p.ID) {
			begun = false
			for _, l := range t.lines(p.ID) {
				c := l.cells[server]
				if c == nil || !known(t.beside(c).comparison) {
					continue
				}
				if !begun {
					title := t.titles[p.ID]
					if len(t.servers(p.ID)) > 1 {
						title += ", " + ascii(server)
					}
					begin(title)
				}
				s.add(sheetRow{indent: max(l.indent, 2), label: l.label, values: values(t.beside(c).comparison)})
			}
		}
		title := ""
		t.pairs(p.ID, func(of string) { title = of }, func(l line, c *Cell, x *Comparison) {
			if !known(x) {
				return
			}
			if title != "" {
				begin(title)
				title = ""
			}
			s.add(sheetRow{indent: max(l.indent, 2), label: l.label, values: values(x)})
		})
	}
	if !s.empty() {
		s.write(&t.out, "Overhead in latency percentiles, %")
	}
}

// latency writes the spread of the runs, the anchors and the percentiles.
func (t *text) latency() {
	s := &sheet{together: true, columns: []column{
		{heads: "min"}, {heads: "max"}, {heads: "anchor"}, {heads: "p50", significant: 3}, {heads: "p95", significant: 3}, {heads: "p99", significant: 3},
	}}
	t.onServers(s.begin, func(l line, c *Cell) {
		latency := c.LatencyUs
		if latency == nil {
			latency = &Latency{}
		}
		r := sheetRow{indent: l.indent, label: l.label}
		for _, v := range []*float64{c.Min, c.Max, t.anchor(c), latency.P50, latency.P95, latency.P99} {
			r.values = append(r.values, value{level: v})
		}
		s.add(r)
	})
	if !s.empty() {
		s.write(&t.out, fmt.Sprintf("Runs (%s), and latency (us)", t.unitHead()))
	}
}

// anchor is what one unbroken second of a panel's baseline gave, in the unit
// of the figures; nil for other cells.
func (t *text) anchor(c *Cell) *float64 {
	if !t.first(c) {
		return nil
	}
	for _, a := range t.panel(c.Panel).Anchors {
		switch {
		case a.Server != c.plan.Server || a.TPS == 0:
		case t.Plan.Unit == "s":
			return finite(float64(t.Plan.Transactions) * float64(t.panel(c.Panel).Clients) / a.TPS)
		default:
			return ptr(a.TPS)
		}
	}
	return nil
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
			t.out.WriteString("Failed transactions, by SQLSTATE\n")
			first = false
		}
		var parts []string
		for _, code := range keys(c.Failures) {
			parts = append(parts, fmt.Sprintf("%s: %d", cmp.Or(ascii(code), "none"), c.Failures[code]))
		}
		paragraph(&t.out, "  ", fmt.Sprintf("%s: %s (%.3g %%)", t.describe([]string{c.ID}), strings.Join(parts, ", "), c.failedPct()))
	}
	if !first {
		t.out.WriteString("\n")
	}
}

// missing gives the reason of each cell that has no figure, or one that means
// little.
func (t *text) missing() {
	type key struct{ state, reason string }
	var order []key
	cells := map[key][]string{}
	for i := range t.Cells {
		c := &t.Cells[i]
		k := key{state: c.Status}
		switch {
		case c.Status == "ok" && c.notExercised == "":
			continue
		case c.Status == "ok", c.Status == "partial" && c.notExercised != "":
			k.state = "not exercised"
		}
		if c.Reason != nil {
			k.reason = ascii(*c.Reason)
		}
		if cells[k] == nil {
			order = append(order, k)
		}
		cells[k] = append(cells[k], c.ID)
	}
	for _, k := range order {
		paragraph(&t.out, k.state+": ", t.describe(cells[k])+prefixed(": ", k.reason))
	}
	if len(order) > 0 {
		t.out.WriteString("\n")
	}
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

// rowName names a cell by all that its panel, server and the axis leave open.
func (t *text) rowName(c *Cell, axis string) string {
	var parts []string
	if s := groupLine(t.Plan, c.plan, []string{axis}); s != "" {
		parts = append(parts, s)
	}
	if label := c.plan.Label; label != "" && axis != "setting" && !c.Baseline {
		parts = append(parts, label)
	}
	return ascii(cmp.Or(strings.Join(parts, ", "), "baseline"))
}

// describe names cells in a sentence, with their panels and servers where not
// all have a part in it.
func (t *text) describe(ids []string) string {
	if len(ids) == len(t.Cells) && len(ids) > 1 {
		return "all cells"
	}
	// The names of a place (panel and server), then the places of equal names.
	type place struct{ panel, server string }
	var places []place
	names := map[place][]string{}
	for _, id := range ids {
		c := t.cell(id)
		p := place{c.Panel, c.plan.Server}
		if names[p] == nil {
			places = append(places, p)
		}
		names[p] = append(names[p], t.rowName(c, ""))
	}
	var order []string
	alike := map[string][]place{}
	for _, p := range places {
		s := few(unique(names[p]), 4)
		if alike[s] == nil {
			order = append(order, s)
		}
		alike[s] = append(alike[s], p)
	}
	var parts []string
	for _, s := range order {
		var panels, servers []string
		for _, p := range alike[s] {
			panels, servers = append(panels, t.titles[p.panel]), append(servers, ascii(p.server))
		}
		panels, servers = unique(panels), unique(servers)
		switch {
		case len(panels)*len(servers) != len(alike[s]): // no product of both: name the places
			var where []string
			for _, p := range alike[s] {
				where = append(where, t.titles[p.panel]+" on "+ascii(p.server))
			}
			s += " (" + few(where, 4) + ")"
		default:
			var where []string
			if len(panels) < len(t.Panels) {
				where = append(where, few(panels, 4))
			}
			if len(servers) < len(t.Plan.Servers) {
				where = append(where, "on "+few(servers, 4))
			}
			if where != nil {
				s += " (" + strings.Join(where, "; ") + ")"
			}
		}
		parts = append(parts, s)
	}
	return few(parts, 4)
}

// few lists at most n names.
func few(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}
