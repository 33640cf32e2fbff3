package report

import (
	"fmt"
	"slices"
	"strings"
)

// width is what a mail may hold: 78 columns, as quoting adds some.
const width = 78

// ordinary is how long a label may be to have its figures beside it.
const ordinary = 44

// grid is a table of the text form: sections of rows under heads. Everything
// in it is plain ASCII already.
//
// Note: general table writers draw frames, and wrap or cut cells where a line
// gets too long. What a mail needs is a label that takes a line of its own where
// it is long, and columns that continue below.
type grid struct {
	heads    []string     // one per column; a line feed parts lines
	left     map[int]bool // columns that are aligned to the left
	sections [][]row
	together bool // the columns can't be parted, if they fit at all
}

// row is a line: its label and one text per column, or, where there is nothing
// to put into the columns from some on, a span.
type row struct {
	indent int
	label  string
	cells  []string
	span   string // stands in place of the cells from spanAt on
	spanAt int
}

// write renders the grid.
func (g *grid) write(b *strings.Builder) {
	widths := make([]int, len(g.heads))
	label := 0
	for j, head := range g.heads {
		for _, line := range strings.Split(head, "\n") {
			widths[j] = max(widths[j], len(line))
		}
	}
	for _, rows := range g.sections {
		for _, r := range rows {
			if r.span != "" || slices.ContainsFunc(r.cells, func(s string) bool { return s != "" }) {
				// A bare heading may run on, and a label beyond the ordinary has
				// lines of its own.
				if n := r.indent + len(r.label); n <= ordinary {
					label = max(label, n)
				}
			}
			for j, text := range r.cells {
				widths[j] = max(widths[j], len(text))
			}
		}
	}
	used := 0
	for _, w := range widths {
		used += 1 + w
	}
	if g.together && used <= width {
		g.writeColumns(b, 0, len(g.heads), widths, label)
		return
	}
	// As many columns as fit beside the labels; then the next.
	for from := 0; from < len(g.heads); {
		to, used := from, label
		for to < len(g.heads) && (to == from || used+2+widths[to] <= width) {
			used += 2 + widths[to]
			to++
		}
		if from > 0 {
			b.WriteString("\n")
		}
		g.writeColumns(b, from, to, widths, label)
		from = to
	}
}

// writeColumns renders the columns from up to to.
func (g *grid) writeColumns(b *strings.Builder, from, to int, widths []int, label int) {
	gap, used := 2, 0
	for j := from; j < to; j++ {
		used += widths[j]
	}
	n := to - from
	if label+used+gap*n > width { // the air between columns gives way first, then the labels
		gap = max(1, min(gap, (width-label-used)/max(n, 1)))
	}
	label = max(min(label, width-used-gap*n), 0)
	g.writeHeads(b, g.heads[from:to], from, widths, label, gap)
	for i, rows := range g.sections {
		if i > 0 {
			b.WriteString("\n")
		}
		for _, r := range rows {
			g.writeRow(b, r, from, to, widths, label, gap)
		}
	}
}

// writeHeads renders the heads, the last line of each at the bottom.
func (g *grid) writeHeads(b *strings.Builder, heads []string, from int, widths []int, label, gap int) {
	height := 0
	for _, head := range heads {
		height = max(height, 1+strings.Count(head, "\n"))
	}
	for y := range height {
		line := strings.Repeat(" ", label)
		for j, head := range heads {
			lines := strings.Split(head, "\n")
			text := ""
			if k := y - (height - len(lines)); k >= 0 {
				text = lines[k]
			}
			line += strings.Repeat(" ", gap) + g.align(from+j, text, widths)
		}
		writeLine(b, line)
	}
}

// writeRow renders a row; a label that is too long takes lines of its own.
func (g *grid) writeRow(b *strings.Builder, r row, from, to int, widths []int, label, gap int) {
	text := strings.Repeat(" ", r.indent) + r.label
	rest := ""
	for j := from; j < to; j++ {
		if r.span != "" && j >= r.spanAt {
			if j == max(r.spanAt, from) {
				rest += strings.Repeat(" ", gap) + r.span
			}
			continue
		}
		cell := ""
		if j < len(r.cells) {
			cell = r.cells[j]
		}
		rest += strings.Repeat(" ", gap) + g.align(j, cell, widths)
	}
	if len(text) > label && (strings.TrimSpace(rest) != "" || len(text) > width) {
		for _, line := range fold(text, width, r.indent+4) {
			writeLine(b, line)
		}
		text = ""
		if strings.TrimSpace(rest) == "" {
			return
		}
	}
	line := fmt.Sprintf("%-*s%s", label, text, rest)
	if len(strings.TrimRight(line, " ")) > width { // a span that doesn't fit
		line = fmt.Sprintf("%*s", width, strings.TrimSpace(rest))
	}
	writeLine(b, line)
}

func (g *grid) align(j int, text string, widths []int) string {
	if g.left[j] {
		return fmt.Sprintf("%-*s", widths[j], text)
	}
	return fmt.Sprintf("%*s", widths[j], text)
}

// writeLine writes a line without the blanks at its end.
func writeLine(b *strings.Builder, line string) {
	b.WriteString(strings.TrimRight(line, " "))
	b.WriteString("\n")
}

// fold breaks text into lines of at most limit bytes, at blanks or after
// marks where there are some, anywhere else where not. The second line and those
// after it are indented.
func fold(text string, limit, indent int) []string {
	var lines []string
	indent = min(indent, limit/2)
	for {
		text = strings.TrimRight(text, " ")
		if len(text) <= limit {
			return append(lines, text)
		}
		lead := len(text) - len(strings.TrimLeft(text, " "))
		at := strings.LastIndexByte(text[:limit+1], ' ')
		if at <= lead || at < limit/3 {
			if at = strings.LastIndexAny(text[:limit], ",-/_") + 1; at <= lead || at < limit/3 {
				at = limit
			}
		}
		lines = append(lines, strings.TrimRight(text[:at], " "))
		text = strings.Repeat(" ", indent) + strings.TrimLeft(text[at:], " ")
	}
}

// paragraph writes text folded behind a lead-in, which stands on the first
// line and indents the others.
func paragraph(b *strings.Builder, lead, text string) {
	for _, line := range fold(lead+text, width, len(lead)) {
		writeLine(b, line)
	}
}

// ascii writes what isn't printable ASCII as an escape, so that a mail shows
// it and a terminal doesn't obey it.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r >= ' ' && r <= '~':
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}
