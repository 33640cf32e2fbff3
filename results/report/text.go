package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
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
	t.undecided()
	t.bursts()
	t.cpu()
	t.background()
	t.fileIO()
	t.latency()
	t.percentiles()
	t.failures()
	t.missing()
	t.notes()
	t.warnings()
	_, err := io.WriteString(w, t.out.String())
	return err
}

// SetColumns chooses the axes, or settings, whose values are the columns of the
// text's table of figures; none leaves it as the record has it.
func (r *Report) SetColumns(names []string) error {
	var known []string
	for _, a := range r.Plan.Axes {
		if len(a.Values) > 1 {
			known = append(known, a.Name)
		}
	}
	values := map[string]string{}
	for i := range r.Cells {
		for _, name := range keys(r.Cells[i].Settings) {
			switch v, seen := values[name]; {
			case !seen:
				values[name] = r.Cells[i].Settings[name]
			case v != r.Cells[i].Settings[name] && !slices.Contains(known, name):
				known = append(known, name)
			}
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no axis %s in the record; there are %s", name, strings.Join(known, ", "))
		}
	}
	if len(names) > 0 {
		r.Plan.Columns = names
	}
	return nil
}

// text is a text in the making.
type text struct {
	*Report
	out    strings.Builder
	titles map[string]string // of the panels
}

// titles names each panel by what tells it from the others.
func (r *Report) titles() map[string]string { return r.titlesWithout(nil) }

// titlesWithout leaves out the axes whose values stand elsewhere.
func (r *Report) titlesWithout(columns []string) map[string]string {
	titles := map[string]string{}
	differ := func(of func(p *results.Panel) string) bool {
		return slices.ContainsFunc(r.Plan.Panels, func(p results.Panel) bool { return of(&p) != of(&r.Plan.Panels[0]) })
	}
	protocols := differ(func(p *results.Panel) string { return p.Protocol })
	schedules := differ(func(p *results.Panel) string { return p.Schedule })
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
		if !slices.Contains(columns, "mode") {
			title += ", " + p.Mode
		}
		if protocols && !slices.Contains(columns, "protocol") {
			title += ", " + p.Protocol
		}
		if schedules {
			title += ", by " + map[string]string{"slice": "slices", "block": "blocks"}[p.Schedule]
		}
		if clients && !slices.Contains(columns, "clients") {
			title += ", " + count(p.Clients, "client")
			if p.Threads > 1 {
				title += fmt.Sprintf(" in %d threads", p.Threads)
			}
		}
		if p.Batch > 0 {
			title += fmt.Sprintf(", batch %d", p.Batch)
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
		item("command", "pgtare "+quoteArgs(h.Args))
	}
	for i, s := range h.Servers {
		item(map[bool]string{true: "server"}[i == 0], serverLine(&s))
	}
	item("machine", machineLine(&h.Environment))
	panels := h.Panels
	item("load", t.alike(panels, func(p *results.Panel) string {
		line := fmt.Sprintf("%s in %s, %s protocol", count(p.Clients, "client"), count(p.Threads, "thread"), p.Protocol)
		if _, how, found := strings.Cut(p.Engine, "/"); found {
			line += ", by " + how
		}
		return line
	}))
	item("placement", t.alike(panels, func(p *results.Panel) string { return pinLine(p.Pin) }))
	item("schedule", t.schedules(panels))
	item("waits", t.waits(panels))
	item("measured", t.alike(panels, func(p *results.Panel) string { return measuredLine(h, p) }))
	item("defaults", t.defaults())
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

// schedules says of each panel how its cells share time and instances; "" where
// all do as usual, in turns of slices on one instance.
func (t *text) schedules(panels []results.Panel) string {
	unusual := false
	of := func(p *results.Panel) string {
		var ways []string
		cells := map[string][]string{}
		for i := range t.Cells {
			c := &t.Cells[i]
			if c.Panel != p.ID || c.Status == "n/a" {
				continue
			}
			place := "on one instance with others"
			switch c.Isolation {
			case "instance":
				place = "each cell on an instance of its own"
			case "cluster":
				place = "each cell on a cluster of its own"
			}
			turns := "in turns of slices"
			if c.Schedule == "block" {
				turns = "one after the other, a checkpoint before each block"
				if p.Checkpoints > 0 {
					turns += fmt.Sprintf(" and %d forced in it", p.Checkpoints)
				}
			}
			way := fmt.Sprintf("%s: %s, %s", c.Schedule, place, turns)
			unusual = unusual || c.Schedule == "block" || place != "on one instance with others"
			if cells[way] == nil {
				ways = append(ways, way)
			}
			cells[way] = append(cells[way], t.rowName(c, ""))
		}
		if len(ways) < 2 {
			return strings.Join(ways, "")
		}
		for i, way := range ways {
			ways[i] = fmt.Sprintf("%s (%s)", way, few(unique(cells[way]), 4))
		}
		return strings.Join(ways, "; ")
	}
	text := t.alike(panels, of)
	if !unusual {
		return ""
	}
	return text
}

// waits says what the baselines' backends waited for, where that was sampled.
func (t *text) waits(panels []results.Panel) string {
	sampled := slices.DeleteFunc(slices.Clone(panels), func(p results.Panel) bool { return len(p.Waits) == 0 })
	if len(sampled) == 0 {
		return ""
	}
	return t.alike(sampled, func(p *results.Panel) string {
		all := 0.0
		for _, n := range p.Waits {
			all += float64(n)
		}
		pct := func(kind string) string { return fixed(100*float64(p.Waits[kind])/max(all, 1), 1) }
		return fmt.Sprintf("Lock %s %%, LWLock %s %% of %.0f samples of the baseline's backends", pct("Lock"), pct("LWLock"), all)
	})
}

func serverLine(s *results.Server) string {
	line := s.Label
	if s.Version != s.Label && s.Version != "" {
		line += ": " + s.Version
	}
	facts := []string{}
	switch {
	case s.Source != "":
		facts = append(facts, s.Origin+" from "+s.Source)
	case s.Origin != "":
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
	var clocks []string
	for _, c := range e.Clocks {
		clocks = append(clocks, fmt.Sprintf("%s %s ns", c.Source, fixed(c.ReadNs, 0)))
	}
	switch {
	case len(clocks) > 1:
		add(true, "clocks by turns (a read takes: %s)", strings.Join(clocks, ", "))
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
	if _, apart := strings.CutPrefix(pin, "client="); apart {
		return pin + " (client and backends apart)"
	}
	return pin
}

func measuredLine(h *results.Header, p *results.Panel) string {
	long := ""
	switch {
	case h.Transactions > 0:
		long = fmt.Sprintf(" of %d transactions per client and cell", h.Transactions)
	case h.RunSeconds > 0:
		long = fmt.Sprintf(" of %s per cell", duration(h.RunSeconds*1e9))
	}
	if p.Schedule == "block" {
		return fmt.Sprintf("%s%s, each in one block", count(h.Runs, "run"), long)
	}
	return fmt.Sprintf("%s%s; a run is %s of %s, slices of %s after a head of %s", count(h.Runs, "run"), long,
		count(p.Generations, "generation"), count(p.Rounds, "round"), duration(float64(p.SliceNs)), count(p.Head, "transaction"))
}

// defaults says what differs between servers besides their code; "" with one
// server.
func (t *text) defaults() string {
	d := t.Plan.Defaults
	if d == nil {
		return ""
	}
	list := func(of []results.ServerValues, each func(v *results.ServerValues) string) string {
		var parts []string
		for i := range of {
			parts = append(parts, each(&of[i]))
		}
		return strings.Join(parts, ", ")
	}
	byServer := func(v *results.ServerValues) string {
		var values, parts []string
		on := map[string][]string{}
		for _, s := range t.Plan.Servers {
			if value, found := v.Values[s.Label]; found {
				if on[value] == nil {
					values = append(values, value)
				}
				on[value] = append(on[value], s.Label)
			}
		}
		for _, value := range values {
			parts = append(parts, strings.Join(on[value], " and ")+": "+quote(value))
		}
		return v.Name + " (" + strings.Join(parts, "; ") + ")"
	}
	line := d.Asked + ": each server has its own"
	if d.Asked == "aligned" {
		line = "aligned: where the servers' own differ, all have those of the first that knows the setting"
		if len(d.Aligned) > 0 {
			line += "; own were " + list(d.Aligned, byServer)
		}
		line += ". Still different: "
	} else {
		line += ". Different: "
	}
	line += cmp.Or(list(d.Differ, byServer), "none")
	if len(d.Only) > 0 {
		line += fmt.Sprintf(". %s not on all servers", map[bool]string{true: "1 setting is", false: fmt.Sprintf("%d settings are", len(d.Only))}[len(d.Only) == 1])
	}
	if d.Asked == "shipped" && len(d.Differ) > 0 {
		line += ". (--defaults aligned: what the code alone makes)"
	}
	return line
}

// deviations are what pgtare set other than PostgreSQL's defaults.
func (t *text) deviations() string {
	var texts, parts []string
	aligned := func(deviation string) bool { // the line about defaults has them
		name, _, _ := strings.Cut(deviation, "=")
		return t.Plan.Defaults != nil && slices.ContainsFunc(t.Plan.Defaults.Aligned, func(v results.ServerValues) bool { return v.Name == name })
	}
	for _, s := range t.Plan.Servers {
		text := cmp.Or(strings.Join(slices.DeleteFunc(slices.Clone(s.Deviations), aligned), ", "), "none")
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

// notes are the footnotes: how the figures came about and how to read them.
func (t *text) notes() {
	note := func(lead, format string, args ...any) { paragraph(&t.out, lead, fmt.Sprintf(format, args...)) }

	if t.Plan.Unit == "s" {
		note("seconds: ", "median of the runs, computed from slices: what %d transactions per client take.", t.Plan.Transactions)
	} else {
		note("tps: ", "median of the runs, computed from slices.")
	}
	if slices.ContainsFunc(t.Panels, func(p Panel) bool { return len(p.Anchors) > 0 }) {
		note("anchor: ", "one unbroken second of the baseline, once per matrix.")
	}
	if e := &t.Environment; len(e.Clocks) > 1 {
		own := "pgtare's own timing reads the CPU's counter, whatever the source, so that no cost of its own is in the differences"
		if e.OwnClock != "counter" {
			own = "pgtare's own timing reads the same clock, at least once per transaction, which is in the differences"
		}
		note("clocksource: ", "switched for the whole machine between slices or blocks, outside of what is measured. %s.", own)
	}
	if t.Plan.Until > 0 {
		runs, open := 0, ""
		for _, c := range t.Cells {
			runs = max(runs, len(c.Runs))
		}
		switch widest, found := t.Widest(); {
		case !found:
			open = "one has no interval"
		case widest > t.Plan.Until:
			open = fmt.Sprintf("the widest is %s %%", fixed(widest, 1))
		}
		if open == "" {
			note("until: ", "measured until every overhead's half-width was <= %.3g %%: %s.", t.Plan.Until, count(runs, "run"))
		} else {
			note("until: ", "to be measured until every overhead's half-width is <= %.3g %%; it ended before, after %s: %s.", t.Plan.Until, count(runs, "run"), open)
		}
	}
	judged := 0
	for _, x := range t.Comparisons {
		if x.PAdjusted != nil {
			judged++
		}
	}
	if len(t.Comparisons) > 0 {
		base := "the first row of its section"
		switch {
		case t.several():
			base = "that of its server, or what the heading says"
		case slices.ContainsFunc(t.Plan.Cells, func(c results.Cell) bool { return groupLine(t.Plan, &c, nil) != "" }):
			base = "the row that it is indented below, or the first of its section"
		}
		how := "Paired within rounds, so"
		if !slices.ContainsFunc(t.Panels, func(p Panel) bool { return p.Schedule != "block" }) {
			how = "By the totals of the runs, not their medians:"
		}
		note("overhead: ", "of time per transaction against the baseline (%s), with half its 95 %% interval; plus is slower. %s it is not the ratio of two printed figures.", base, how)
	}
	switch {
	case judged > 1:
		note("verdict: ", "adjusted for %d comparisons (Holm), the intervals are not: one may exclude 0 and the verdict still be unclear. same: within +-%.3g %%.", judged, t.Margin)
	case judged == 1:
		note("verdict: ", "same: within +-%.3g %%.", t.Margin)
	}
	if slices.ContainsFunc(t.Comparisons, open) {
		note("would see: ", "an overhead of so much would be found in four of five such matrices. time to decide: so many times the measuring time, in a new matrix.")
	}
	switch {
	case t.EqualWithin == nil:
	case t.Trusted != nil && !*t.Trusted:
		note("control: ", "the baseline once more. Equal cells differed by up to %s %% here: NOT TRUSTED.", fixed(*t.EqualWithin, 1))
	default:
		low := ""
		for _, c := range t.Controls {
			if c.P != nil && *c.P < 0.05 {
				low += fmt.Sprintf(" (%s: p = %.2g, which alone is no alarm.)", t.titles[c.Panel], *c.P)
			}
		}
		note("control: ", "the baseline once more. Equal cells differed by at most %s %% here.%s", fixed(*t.EqualWithin, 1), low)
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
			about = t.describe(w.Cells) + ": "
		}
		remedy := ""
		if w.Remedy != "" {
			remedy = ". Remedy: " + ascii(w.Remedy)
		}
		paragraph(&t.out, "! ", ascii(w.Code)+": "+about+strings.TrimSuffix(ascii(w.Text), ".")+remedy+".")
	}
}
