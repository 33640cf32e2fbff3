package report

import (
	"cmp"
	"strings"
)

// value is what stands in a cell of a table: a level, an estimate or a text.
// The text is printed where the others are nil.
type value struct {
	level    *float64
	estimate *estimate
	text     string
}

// column prints the values of a column under each other.
type column struct {
	heads       string // a line feed parts lines
	left        bool
	significant int                 // digits of levels; 0: 4
	digits      func(*estimate) int // decimals of estimates
}

// sheet is a table of values on its way to a grid: a column is printed as a
// whole, since all its numbers stand at one decimal point.
type sheet struct {
	columns  []column
	rows     []sheetRow
	together bool // the columns can't be parted
}

type sheetRow struct {
	begins bool // a section
	indent int
	label  string
	values []value
	span   string // in place of the values from spanAt on
	spanAt int
}

// begin starts a section with the next row.
func (s *sheet) begin(label string) {
	s.rows = append(s.rows, sheetRow{begins: true, label: label})
}

// add puts a row below the others. The first row of a section that begins with
// the same label gives it its values instead.
func (s *sheet) add(r sheetRow) {
	if last := len(s.rows) - 1; last >= 0 && s.rows[last].begins && s.rows[last].values == nil && s.rows[last].label == r.label {
		r.begins = true
		s.rows[last] = r
		return
	}
	s.rows = append(s.rows, r)
}

// empty tells whether no row has a number or a span.
func (s *sheet) empty() bool {
	for _, r := range s.rows {
		for _, v := range r.values {
			if v.level != nil || v.estimate != nil {
				return false
			}
		}
		if r.span != "" {
			return false
		}
	}
	return true
}

// write prints the sheet under its title, without the columns that hold
// nothing.
func (s *sheet) write(b *strings.Builder, title string) {
	g := &grid{left: map[int]bool{}, together: s.together}
	var printed [][]string
	place := make([]int, len(s.columns)) // where a column of the sheet begins in the grid
	for j, c := range s.columns {
		place[j] = len(g.heads)
		texts, used := c.print(s.rows, j)
		if !used {
			continue
		}
		g.left[len(g.heads)] = c.left
		g.heads, printed = append(g.heads, c.heads), append(printed, texts)
	}
	for i, r := range s.rows {
		if len(g.sections) == 0 || r.begins {
			g.sections = append(g.sections, nil)
		}
		out := row{indent: r.indent, label: r.label, span: r.span, spanAt: place[r.spanAt]}
		for j := range printed {
			out.cells = append(out.cells, printed[j][i])
		}
		last := &g.sections[len(g.sections)-1]
		*last = append(*last, out)
	}
	if title != "" {
		b.WriteString(title + "\n")
	}
	g.write(b)
	b.WriteString("\n")
}

// print prints column j of the rows; used tells whether there is anything in
// it.
func (c column) print(rows []sheetRow, j int) (texts []string, used bool) {
	levelsOf, estimates := make([]*float64, len(rows)), make([]*estimate, len(rows))
	texts = make([]string, len(rows))
	for i, r := range rows {
		used = used || r.span != "" && r.spanAt == j
		if j < len(r.values) {
			levelsOf[i], estimates[i], texts[i] = r.values[j].level, r.values[j].estimate, r.values[j].text
		}
	}
	numbers := levels(levelsOf, cmp.Or(c.significant, 4))
	if c.digits != nil {
		numbers = alignEstimates(estimates, c.digits)
	}
	for i := range texts {
		if levelsOf[i] != nil || estimates[i] != nil {
			texts[i] = numbers[i]
		}
		used = used || texts[i] != ""
	}
	return texts, used
}
