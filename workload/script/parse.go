package script

import (
	"strings"
	"unicode/utf8"
)

// Parse splits the text of a script into commands. name is shown in errors and
// kept in the script; errors are of type *Error. A UTF-8 byte order mark at
// the beginning is passed over.
func Parse(name, text string) (*Script, error) {
	fail := func(pos int, msg string) (*Script, error) {
		return nil, errorAt(name, text, pos, msg)
	}
	if strings.HasPrefix(text, "\xfe\xff") || strings.HasPrefix(text, "\xff\xfe") {
		return nil, &Error{File: name, Line: 1, Column: 1, Msg: "this is UTF-16 text, and scripts are read as UTF-8: save it as UTF-8"}
	}
	text = strings.TrimPrefix(text, "\xef\xbb\xbf")
	if i := strings.IndexByte(text, 0); i >= 0 {
		return fail(i, "a byte of value 0 can't be part of a statement: remove it, or save the file as UTF-8")
	}

	s := &Script{Name: name, Text: text}
	line, counted := 1, 0 // line is that of offset counted
	for pos := 0; pos < len(text); {
		c := cut(text, pos)
		if c.sql != "" {
			line += strings.Count(text[counted:c.start], "\n")
			counted = c.start
			s.Commands = append(s.Commands, Command{SQL: c.sql, Line: line, Vars: references(c.sql)})
		}
		if c.backslash {
			return fail(c.end, "backslash commands are not understood yet, only SQL is accepted for now: remove "+word(text[c.end:]))
		}
		pos = c.end
	}
	if len(s.Commands) == 0 {
		return nil, &Error{File: name, Line: 1, Column: 1, Msg: "the script holds no statement: write at least one, such as SELECT 1;"}
	}
	return s, nil
}

// errorAt makes an Error of an offset into the text.
func errorAt(name, text string, pos int, msg string) *Error {
	begin := strings.LastIndexByte(text[:pos], '\n') + 1
	end := len(text)
	if i := strings.IndexByte(text[pos:], '\n'); i >= 0 {
		end = pos + i
	}
	// Control characters would move the caret, or the terminal's cursor.
	clean := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r < ' ' && r != '\t' || r == 0x7f {
				return ' '
			}
			return r
		}, s)
	}
	return &Error{
		File:   name,
		Line:   1 + strings.Count(text[:pos], "\n"),
		Column: 1 + utf8.RuneCountInString(text[begin:pos]),
		Msg:    msg,
		Source: strings.TrimRight(clean(text[begin:end]), " \t"),
	}
}

// word returns the backslash command that text begins with, for a message.
func word(text string) string {
	if i := strings.IndexAny(text, " \t\r\n\f\v"); i >= 0 {
		text = text[:i]
	}
	if len(text) > 32 {
		text = text[:32] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

// piece is what cut took off a text.
type piece struct {
	sql       string // the command; "": only blanks and -- comments
	start     int    // where it begins in the text
	end       int    // behind it; at the backslash if there is one
	backslash bool   // a backslash command follows
}

// cut takes one command off text, from pos on.
func cut(text string, pos int) piece {
	l := lexer{text: text, pos: pos}
	p := piece{start: -1}
	var sql strings.Builder
	var n nesting
	closed := true
	for {
		t := l.next()
		// Blanks and -- comments count only once there is something else.
		if p.start < 0 {
			if t.kind == tokenBlank {
				continue
			}
			p.start = t.pos
		}
		switch t.kind {
		case tokenEscaped: // \; or \:
			sql.WriteByte(text[t.pos+1])
			if text[t.pos+1] == ';' {
				n.restart()
			}
			continue
		case tokenUnclosed:
			closed = false
		case tokenSemicolon:
			if n.outside() {
				sql.WriteByte(';')
				p.sql, p.end = sql.String(), l.pos
				return p
			}
		case tokenBackslash, tokenEnd:
			p.sql, p.end = sql.String(), t.pos
			p.backslash = t.kind == tokenBackslash
			if closed {
				p.sql = strings.TrimRight(p.sql, blanks)
			}
			return p
		}
		token := text[t.pos:l.pos]
		n.take(t.kind, token)
		sql.WriteString(token)
	}
}

// nesting follows a statement's tokens as far as it takes to know whether a
// semicolon ends it: what psql's own lexer knows of SQL.
type nesting struct {
	depth int // of parentheses
	body  int // of BEGIN ... END and CASE ... END in a routine's body
	// The statement's first words in upper case, four at most: they tell whether
	// it is CREATE [OR REPLACE] {FUNCTION | PROCEDURE}.
	words []string
}

func (n *nesting) take(kind tokenKind, token string) {
	switch kind {
	case tokenOpen:
		n.depth++
	case tokenClose:
		n.depth = max(n.depth-1, 0)
	case tokenName:
		if n.depth == 0 && n.routine() {
			switch {
			case strings.EqualFold(token, "BEGIN"), n.body > 0 && strings.EqualFold(token, "CASE"):
				n.body++
			case n.body > 0 && strings.EqualFold(token, "END"):
				n.body--
			}
		}
		if len(n.words) < 4 {
			n.words = append(n.words, strings.ToUpper(token))
		}
	}
}

func (n *nesting) outside() bool { return n.depth == 0 && n.body == 0 }

// restart begins another statement of the same command.
func (n *nesting) restart() { n.words = nil }

func (n *nesting) routine() bool {
	w := n.words
	if len(w) == 0 || w[0] != "CREATE" {
		return false
	}
	w = w[1:]
	if len(w) >= 2 && w[0] == "OR" && w[1] == "REPLACE" {
		w = w[2:]
	}
	return len(w) > 0 && (w[0] == "FUNCTION" || w[0] == "PROCEDURE")
}

// firstWords returns, for each statement of a command that \; may have put
// together, the words it begins with in upper case, three at most.
func firstWords(sql string) [][]string {
	l := lexer{text: sql}
	var n nesting
	statements := [][]string{nil}
	collecting := true
	for {
		t := l.next()
		last := &statements[len(statements)-1]
		switch t.kind {
		case tokenEnd:
			return statements
		case tokenBlank, tokenComment:
		case tokenName:
			if collecting && len(*last) < 3 {
				*last = append(*last, strings.ToUpper(sql[t.pos:l.pos]))
			}
		case tokenSemicolon:
			if n.outside() {
				statements = append(statements, nil)
				collecting = true
				n.restart()
				continue
			}
			collecting = false
		default:
			collecting = false
		}
		n.take(t.kind, sql[t.pos:l.pos])
	}
}
