package script

import (
	"fmt"
	"strings"
)

// Script is a parsed script: a list of commands.
type Script struct {
	Name     string // as shown: a built-in's name or the file's name
	Text     string
	Commands []Command
}

// Command is one command of a script.
type Command struct {
	Kind Kind
	SQL  string   // its text, final semicolon included as it is sent
	Line int      // where it begins, from 1
	Vars []string // names of the variables it refers to, in order, once per occurrence
}

// Kind tells commands apart. The zero value is SQL.
type Kind int

// SQL is a command that is sent to the server.
const SQL Kind = 0

// MaxPlaceholders is how many references one command may hold when they become
// parameters: pgbench's limit, so that a script accepted here runs there too.
const MaxPlaceholders = 255

// Error is a mistake in a script's text.
type Error struct {
	File   string // the script's name
	Line   int    // from 1
	Column int    // from 1, in characters
	Msg    string
	Source string // the line it is about; "" where no single line is to blame
}

// Error returns the place and the message, and beneath it the line with a
// caret where there is one to show.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg)
	if e.Source != "" {
		b.WriteString("\n  " + e.Source + "\n  ")
		n := 1
		for _, r := range e.Source {
			if n == e.Column {
				break
			}
			if r == '\t' {
				b.WriteByte('\t') // keeps the caret under its character
			} else {
				b.WriteByte(' ')
			}
			n++
		}
		b.WriteByte('^')
	}
	return b.String()
}

// Substitute returns the command's text with the value of every variable put
// in place of its reference, as the simple protocol has it: plain text, no
// quoting, and what was put in is not looked at again. References to variables
// that vars lacks stay as they are.
func Substitute(c Command, vars map[string]string) string {
	if len(c.Vars) == 0 {
		return c.SQL
	}
	return replace(c.SQL, func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	})
}

// Placeholders returns the command's text with every reference replaced by a
// parameter, as the extended protocol has it, and the variables' names in the
// order of the parameters: one parameter per occurrence. Undefined variables
// are replaced too; NULL is bound to them. A command with more than
// [MaxPlaceholders] references should not be sent that way.
func Placeholders(c Command) (sql string, names []string) {
	n := 0
	sql = replace(c.SQL, func(string) (string, bool) {
		n++
		return fmt.Sprintf("$%d", n), true
	})
	return sql, c.Vars
}

// ValidName says whether name can be the name of a variable: letters, digits
// and underscores, no digit first; all bytes outside ASCII count as letters.
func ValidName(name string) bool {
	for i := 0; i < len(name); i++ {
		if !nameStart(name[i]) && (i == 0 || !digit(name[i])) {
			return false
		}
	}
	return name != ""
}

// Reference is a variable's name and where it is first used.
type Reference struct {
	Name string
	Line int // of the command
}

// Undefined returns the variables that the script refers to and vars lacks,
// each once, in the order of their first use. A colon in a literal ('http:x')
// is a reference too, so that this is a hint and not always a mistake.
func Undefined(s *Script, vars map[string]string) []Reference {
	var refs []Reference
	seen := make(map[string]bool)
	for _, c := range s.Commands {
		for _, name := range c.Vars {
			if _, ok := vars[name]; !ok && !seen[name] {
				seen[name] = true
				refs = append(refs, Reference{name, c.Line})
			}
		}
	}
	return refs
}

// Control is a statement that begins or ends an SQL transaction.
type Control struct {
	Keyword string // in upper case: BEGIN, START TRANSACTION, COMMIT, ...
	Line    int    // of the command
}

// TransactionControl returns the first statement of the script that begins or
// ends an SQL transaction. SAVEPOINT, RELEASE and ROLLBACK TO are not meant,
// since they stay inside. Scripts that control transactions can't be run in
// single-transaction mode.
func TransactionControl(s *Script) (Control, bool) {
	for _, c := range s.Commands {
		for _, words := range firstWords(c.SQL) {
			if controlsTransaction(words) {
				keyword := words[0]
				if keyword == "START" || keyword == "PREPARE" {
					keyword += " " + words[1]
				}
				return Control{keyword, c.Line}, true
			}
		}
	}
	return Control{}, false
}

// controlsTransaction looks at the first words of a statement, in upper case.
func controlsTransaction(words []string) bool {
	word := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch word(0) {
	case "BEGIN", "COMMIT", "END", "ABORT":
		return true
	case "START", "PREPARE":
		return word(1) == "TRANSACTION"
	case "ROLLBACK":
		next := word(1)
		if next == "WORK" || next == "TRANSACTION" {
			next = word(2)
		}
		return next != "TO"
	}
	return false
}

// replace calls value for every reference in text and puts in what it returns;
// false leaves the reference as it is.
func replace(text string, value func(name string) (string, bool)) string {
	var b strings.Builder
	done := 0
	eachReference(text, func(from, to int) {
		if v, ok := value(text[from+1 : to]); ok {
			b.WriteString(text[done:from])
			b.WriteString(v)
			done = to
		}
	})
	b.WriteString(text[done:])
	return b.String()
}

// references returns the names referred to in text, once per occurrence.
func references(text string) []string {
	var names []string
	eachReference(text, func(from, to int) { names = append(names, text[from+1:to]) })
	return names
}

// eachReference calls f with the bounds of every :name in text, colon
// included. A colon that no name follows is passed over together with the
// colons directly behind it: that is what keeps casts (x::int) whole.
func eachReference(text string, f func(from, to int)) {
	for i := 0; i < len(text); {
		if text[i] != ':' {
			next := strings.IndexByte(text[i:], ':')
			if next < 0 {
				return
			}
			i += next
			continue
		}
		end := i + 1
		if end < len(text) && nameStart(text[end]) {
			for end < len(text) && (nameStart(text[end]) || digit(text[end])) {
				end++
			}
			f(i, end)
		} else {
			for end < len(text) && text[end] == ':' {
				end++
			}
		}
		i = end
	}
}

// nameStart and digit make up the names of variables and SQL identifiers. Text
// is taken byte by byte; all bytes outside ASCII are letters.
func nameStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
