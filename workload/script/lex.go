package script

import "strings"

// blanks are what separates tokens of SQL.
const blanks = " \t\n\r\f\v"

// token is a stretch of SQL that is alike for the purpose of finding the ends
// of statements.
type token struct {
	kind tokenKind
	pos  int // where it begins; it ends at the lexer's pos
}

type tokenKind int

const (
	tokenOther     tokenKind = iota // operators, numbers, parameters
	tokenEnd                        // of the text
	tokenBlank                      // blanks and -- comments
	tokenComment                    // the nesting kind
	tokenName                       // keyword or identifier, not quoted
	tokenQuoted                     // string, quoted identifier, dollar quote
	tokenUnclosed                   // a quote or comment that the text's end cut off
	tokenOpen                       // (
	tokenClose                      // )
	tokenSemicolon                  // ;
	tokenEscaped                    // \; or \:
	tokenBackslash                  // a backslash before anything else
)

// lexer cuts SQL into tokens, byte by byte, with standard_conforming_strings
// on. It never fails: what it does not know is tokenOther.
type lexer struct {
	text string
	pos  int
}

func (l *lexer) next() token {
	t := token{pos: l.pos}
	if l.pos == len(l.text) {
		t.kind = tokenEnd
		return t
	}
	c := l.text[l.pos]
	switch {
	case strings.IndexByte(blanks, c) >= 0:
		l.skip(blanks)
		t.kind = tokenBlank
	case l.at("--"):
		l.line()
		t.kind = tokenBlank
	case l.at("/*"):
		t.kind = l.comment()
	case c == '\'':
		t.kind = l.quoted('\'', false)
	case c == '"':
		t.kind = l.quoted('"', false)
	case (c == 'e' || c == 'E') && l.peek(1) == '\'':
		// Only a whole token: in type'x' the lexer has passed the e already.
		l.pos++
		t.kind = l.quoted('\'', true)
	case nameStart(c):
		// A dollar may stand inside a name: a$b$ opens no dollar quote.
		for l.pos < len(l.text) && (nameStart(l.text[l.pos]) || digit(l.text[l.pos]) || l.text[l.pos] == '$') {
			l.pos++
		}
		t.kind = tokenName
	case c == '$':
		t.kind = l.dollar()
	case digit(c):
		// A number and what sticks to it. The dollar of 1$a$ still opens a quote.
		for l.pos < len(l.text) && (digit(l.text[l.pos]) || l.text[l.pos] == '.') {
			l.pos++
		}
	case c == '\\':
		t.kind = tokenBackslash
		if n := l.peek(1); n == ';' || n == ':' {
			t.kind = tokenEscaped
			l.pos++
		}
		l.pos++
	default:
		l.pos++
		switch c {
		case '(':
			t.kind = tokenOpen
		case ')':
			t.kind = tokenClose
		case ';':
			t.kind = tokenSemicolon
		}
	}
	return t
}

func (l *lexer) at(s string) bool { return strings.HasPrefix(l.text[l.pos:], s) }

// peek returns the byte n further on, 0 behind the end (texts hold no 0).
func (l *lexer) peek(n int) byte {
	if l.pos+n < len(l.text) {
		return l.text[l.pos+n]
	}
	return 0
}

func (l *lexer) skip(set string) {
	for l.pos < len(l.text) && strings.IndexByte(set, l.text[l.pos]) >= 0 {
		l.pos++
	}
}

// line passes the rest of the line, without its end.
func (l *lexer) line() {
	if n := strings.IndexAny(l.text[l.pos:], "\r\n"); n >= 0 {
		l.pos += n
	} else {
		l.pos = len(l.text)
	}
}

func (l *lexer) comment() tokenKind {
	depth := 0
	for l.pos < len(l.text) {
		switch {
		case l.at("/*"):
			depth++
			l.pos += 2
		case l.at("*/"):
			l.pos += 2
			if depth--; depth == 0 {
				return tokenComment
			}
		default:
			l.pos++
		}
	}
	return tokenUnclosed
}

// quoted passes a string or quoted identifier. A doubled quote ends it and
// opens the next, which comes to the same. With escapes, a backslash protects
// the next byte, also in a continuation on a later line.
func (l *lexer) quoted(quote byte, escapes bool) tokenKind {
	for {
		l.pos++ // the opening quote
		for {
			if l.pos >= len(l.text) {
				l.pos = len(l.text)
				return tokenUnclosed
			}
			c := l.text[l.pos]
			if c == quote {
				break
			}
			if c == '\\' && escapes {
				l.pos++
			}
			l.pos++
		}
		l.pos++
		if !escapes {
			return tokenQuoted
		}
		if l.peek(0) != quote && !l.continued(quote) {
			return tokenQuoted
		}
	}
}

// continued says whether a string goes on behind blanks with a line end in
// them, and moves there if so.
func (l *lexer) continued(quote byte) bool {
	ahead := lexer{text: l.text, pos: l.pos}
	for {
		t := ahead.pos
		switch {
		case ahead.at("--"):
			ahead.line()
		default:
			ahead.skip(blanks)
		}
		if ahead.pos == t {
			break
		}
	}
	if ahead.peek(0) != quote || !strings.ContainsAny(l.text[l.pos:ahead.pos], "\r\n") {
		return false
	}
	l.pos = ahead.pos
	return true
}

// dollar passes $$...$$, $tag$...$tag$, or a lone dollar.
func (l *lexer) dollar() tokenKind {
	end := l.pos + 1
	for end < len(l.text) && (nameStart(l.text[end]) || end > l.pos+1 && digit(l.text[end])) {
		end++
	}
	if end == len(l.text) || l.text[end] != '$' {
		l.pos++ // a parameter, or nothing that SQL knows
		return tokenOther
	}
	tag := l.text[l.pos : end+1]
	l.pos = end + 1
	n := strings.Index(l.text[l.pos:], tag)
	if n < 0 {
		l.pos = len(l.text)
		return tokenUnclosed
	}
	l.pos += n + len(tag)
	return tokenQuoted
}
