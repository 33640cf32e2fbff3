package script

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// A script and the commands that pgbench makes of it.
var splitCases = []struct {
	name string
	text string
	want []string
}{
	{"one", "SELECT 1;", []string{"SELECT 1;"}},
	{"without its semicolon", "SELECT 1", []string{"SELECT 1"}},
	{"blanks around", "\n\t SELECT 1 ;\n\n", []string{"SELECT 1 ;"}},
	{"two", "SELECT 1; SELECT 2;", []string{"SELECT 1;", "SELECT 2;"}},
	{"last without semicolon", "SELECT 1;\nSELECT 2\n", []string{"SELECT 1;", "SELECT 2"}},
	{"empty queries", ";;", []string{";", ";"}},
	{"carriage returns", "SELECT 1;\r\nSELECT\r\n2;\r\n", []string{"SELECT 1;", "SELECT\r\n2;"}},
	{"byte order mark", "\xef\xbb\xbfSELECT 1;", []string{"SELECT 1;"}},

	{"string", "SELECT ';'; SELECT 2;", []string{"SELECT ';';", "SELECT 2;"}},
	{"doubled quote", "SELECT 'it''s;'; SELECT 2;", []string{"SELECT 'it''s;';", "SELECT 2;"}},
	{"backslash in a string", `SELECT '\'; SELECT 2;`, []string{`SELECT '\';`, "SELECT 2;"}},
	{"escape string", `SELECT E'\';'; SELECT 2;`, []string{`SELECT E'\';';`, "SELECT 2;"}},
	{"escape string, doubled quote", `SELECT e'a''\';'; SELECT 2;`, []string{`SELECT e'a''\';';`, "SELECT 2;"}},
	{"escape string on the next line", "SELECT E'a'\n  '\\';'; SELECT 2;", []string{"SELECT E'a'\n  '\\';';", "SELECT 2;"}},
	{"escape string behind a comment", "SELECT E'a' -- x\n '\\';'; SELECT 2;", []string{"SELECT E'a' -- x\n '\\';';", "SELECT 2;"}},
	{"string on the same line is another", `SELECT E'a' '\'; SELECT 2;`, []string{`SELECT E'a' '\';`, "SELECT 2;"}},
	{"a name that ends in e", `SELECT date'\'; SELECT 2;`, []string{`SELECT date'\';`, "SELECT 2;"}},
	{"quoted identifier", `SELECT ";""'"; SELECT 2;`, []string{`SELECT ";""'";`, "SELECT 2;"}},
	{"string without end", "SELECT 'a;\nSELECT 2; \n", []string{"SELECT 'a;\nSELECT 2; \n"}},

	{"dollar quote", "SELECT $$;'$$; SELECT 2;", []string{"SELECT $$;'$$;", "SELECT 2;"}},
	{"tagged dollar quote", "SELECT $a$;$$;$b$;$a$; SELECT 2;", []string{"SELECT $a$;$$;$b$;$a$;", "SELECT 2;"}},
	{"tag with digits", "SELECT $a1$;$a1$; SELECT 2;", []string{"SELECT $a1$;$a1$;", "SELECT 2;"}},
	{"parameters are no quotes", "SELECT $1, $2; SELECT $1$;$1$;", []string{"SELECT $1, $2;", "SELECT $1$;", "$1$;"}},
	{"dollars in names", "SELECT a$b$; SELECT c$b$;", []string{"SELECT a$b$;", "SELECT c$b$;"}},
	{"dollar quote without end", "SELECT $$;", []string{"SELECT $$;"}},

	{"comment before", "-- first;\n-- second\nSELECT 1;", []string{"SELECT 1;"}},
	{"comment inside", "SELECT -- not yet;\n1;", []string{"SELECT -- not yet;\n1;"}},
	{"comment behind", "SELECT 1; -- done\n", []string{"SELECT 1;"}},
	{"comment behind, no semicolon", "SELECT 1 -- done", []string{"SELECT 1 -- done"}},
	{"block comment", "/* a; */ SELECT /* b;\n */ 1;", []string{"/* a; */ SELECT /* b;\n */ 1;"}},
	{"block comments nest", "/* /* ; */ ; */ SELECT 1;", []string{"/* /* ; */ ; */ SELECT 1;"}},
	{"block comment alone", "/* nothing */", []string{"/* nothing */"}},
	{"block comment without end", "SELECT 1 /* ;", []string{"SELECT 1 /* ;"}},
	{"comment behind an operator", "SELECT 1+--;\n2;", []string{"SELECT 1+--;\n2;"}},
	{"quote in a comment", "SELECT 1 -- it's\n; SELECT 2;", []string{"SELECT 1 -- it's\n;", "SELECT 2;"}},

	{"parentheses", "CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); SELECT 3;", []string{"CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2);", "SELECT 3;"}},
	{"parenthesis too many", "SELECT 1); SELECT 2;", []string{"SELECT 1);", "SELECT 2;"}},
	{"routine's body", "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END; SELECT 3;",
		[]string{"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END;", "SELECT 3;"}},
	{"routine's body with CASE", "create or replace procedure p() begin atomic select case when true then 1 end; select 2; end; SELECT 3;",
		[]string{"create or replace procedure p() begin atomic select case when true then 1 end; select 2; end;", "SELECT 3;"}},
	{"BEGIN elsewhere", "BEGIN; SELECT 1; END;", []string{"BEGIN;", "SELECT 1;", "END;"}},
	{"a table named function", "CREATE TABLE function (i int); BEGIN; END;", []string{"CREATE TABLE function (i int);", "BEGIN;", "END;"}},
	{"BEGIN as an argument's name", "CREATE FUNCTION f(begin int) RETURNS int LANGUAGE sql AS 'SELECT 1'; SELECT 2;",
		[]string{"CREATE FUNCTION f(begin int) RETURNS int LANGUAGE sql AS 'SELECT 1';", "SELECT 2;"}},

	{"combined", `SELECT 1\; SELECT 2; SELECT 3;`, []string{"SELECT 1; SELECT 2;", "SELECT 3;"}},
	{"combined routines", `CREATE FUNCTION f() RETURNS int RETURN 1\; BEGIN; SELECT 2;`, []string{"CREATE FUNCTION f() RETURNS int RETURN 1; BEGIN;", "SELECT 2;"}},
	{"escaped colon", `SELECT 1\:\:int;`, []string{"SELECT 1::int;"}},
	{"escape in a string", `SELECT '\;';`, []string{`SELECT '\;';`}},
}

func TestParseSplits(t *testing.T) {
	for _, c := range splitCases {
		t.Run(c.name, func(t *testing.T) {
			s, err := Parse("f.sql", c.text)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, command := range s.Commands {
				got = append(got, command.SQL)
				if command.Kind != SQL {
					t.Errorf("kind %v", command.Kind)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q is split into\n%q, want\n%q", c.text, got, c.want)
			}
		})
	}
}

func TestParseLines(t *testing.T) {
	s, err := Parse("f.sql", "-- a comment\n\nSELECT 1;SELECT\n2; -- more\n\n\n/* x */\nSELECT 3")
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, c := range s.Commands {
		lines = append(lines, c.Line)
	}
	if want := []int{3, 3, 7}; !slices.Equal(lines, want) {
		t.Errorf("lines %v, want %v", lines, want)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		text string
		want string
	}{
		{"", "f.sql:1:1: the script holds no statement: write at least one, such as SELECT 1;"},
		{" -- only this\n", "f.sql:1:1: the script holds no statement: write at least one, such as SELECT 1;"},
		{"\\set n 1\nSELECT :n;", "f.sql:1:1: backslash commands are not understood yet, only SQL is accepted for now: remove \\set\n  \\set n 1\n  ^"},
		{"SELECT 1;\n\tSELECT ä :n \\gset\nSELECT 2;", "f.sql:2:14: backslash commands are not understood yet, only SQL is accepted for now: remove \\gset\n  \tSELECT ä :n \\gset\n  \t            ^"},
		{"SELECT 1 \\", "f.sql:1:10: backslash commands are not understood yet, only SQL is accepted for now: remove \\\n  SELECT 1 \\\n           ^"},
		{"SELECT 1;\nSELECT\x002;", "f.sql:2:7: a byte of value 0 can't be part of a statement: remove it, or save the file as UTF-8\n  SELECT 2;\n        ^"},
		{"\xff\xfeS\x00E\x00", "f.sql:1:1: this is UTF-16 text, and scripts are read as UTF-8: save it as UTF-8"},
		{"\xfe\xff\x00S\x00E", "f.sql:1:1: this is UTF-16 text, and scripts are read as UTF-8: save it as UTF-8"},
	} {
		_, err := Parse("f.sql", c.text)
		var e *Error
		if !errors.As(err, &e) || err.Error() != c.want {
			t.Errorf("%q:\n%v\nwant\n%s", c.text, err, c.want)
		}
	}
}

var referenceCases = []struct {
	sql          string
	vars         []string
	substituted  string // with a=1, b="it's", ab_2="x y"
	placeholders string
}{
	{"SELECT 1", nil, "SELECT 1", "SELECT 1"},
	{"SELECT :a", []string{"a"}, "SELECT 1", "SELECT $1"},
	{"SELECT :a,:b,:a", []string{"a", "b", "a"}, "SELECT 1,it's,1", "SELECT $1,$2,$3"},
	{"SELECT :ab_2x, :ab_2", []string{"ab_2x", "ab_2"}, "SELECT :ab_2x, x y", "SELECT $1, $2"},
	{"SELECT :nowhere", []string{"nowhere"}, "SELECT :nowhere", "SELECT $1"},
	{"SELECT x::int, a := 1, '12:34', arr[1: n]", nil, "SELECT x::int, a := 1, '12:34', arr[1: n]", "SELECT x::int, a := 1, '12:34', arr[1: n]"},
	{"SELECT :::a, ::a", nil, "SELECT :::a, ::a", "SELECT :::a, ::a"},
	{"SELECT :a::int", []string{"a"}, "SELECT 1::int", "SELECT $1::int"},
	{"SELECT ':a', \":a\", $$:a$$ /* :a */ -- :a", []string{"a", "a", "a", "a", "a"}, "SELECT '1', \"1\", $$1$$ /* 1 */ -- 1", "SELECT '$1', \"$2\", $$$3$$ /* $4 */ -- $5"},
	{`SELECT '{"x":a}', arr[1:a], 'http:a'`, []string{"a", "a", "a"}, `SELECT '{"x"1}', arr[11], 'http1'`, `SELECT '{"x"$1}', arr[1$2], 'http$3'`},
	{"SELECT :A, :1, :ä", []string{"A", "ä"}, "SELECT :A, :1, :ä", "SELECT $1, :1, $2"},
	{"SELECT :'a', :\"a\", :{?a}", nil, "SELECT :'a', :\"a\", :{?a}", "SELECT :'a', :\"a\", :{?a}"},
	{"SELECT :", nil, "SELECT :", "SELECT :"},
}

func TestReferences(t *testing.T) {
	vars := map[string]string{"a": "1", "b": "it's", "ab_2": "x y"}
	for _, c := range referenceCases {
		s, err := Parse("f.sql", c.sql)
		if err != nil {
			t.Errorf("%s: %v", c.sql, err)
			continue
		}
		command := s.Commands[0]
		if !slices.Equal(command.Vars, c.vars) {
			t.Errorf("%s: variables %q, want %q", c.sql, command.Vars, c.vars)
		}
		if got := Substitute(command, vars); got != c.substituted {
			t.Errorf("%s: substituted %s, want %s", c.sql, got, c.substituted)
		}
		got, names := Placeholders(command)
		if got != c.placeholders || !slices.Equal(names, c.vars) {
			t.Errorf("%s: placeholders %s for %q, want %s for %q", c.sql, got, names, c.placeholders, c.vars)
		}
	}
}

// What is put in is not looked at again.
func TestSubstituteOnce(t *testing.T) {
	s, err := Parse("f.sql", "SELECT :a, :b")
	if err != nil {
		t.Fatal(err)
	}
	if got := Substitute(s.Commands[0], map[string]string{"a": ":b", "b": ":a"}); got != "SELECT :b, :a" {
		t.Error(got)
	}
}

func TestEscapedColonCanBeAReference(t *testing.T) {
	s, err := Parse("f.sql", `SELECT \:a`)
	if err != nil {
		t.Fatal(err)
	}
	if got := Substitute(s.Commands[0], map[string]string{"a": "1"}); got != "SELECT 1" {
		t.Error(got)
	}
}

func TestUndefined(t *testing.T) {
	s, err := Parse("f.sql", "SELECT :a;\nSELECT :b, :c, :b;\n\nSELECT :c, :d;")
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(Undefined(s, map[string]string{"a": "", "c": "1"}))
	if want := "[{b 2} {d 4}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if all := Undefined(s, map[string]string{"a": "", "b": "", "c": "", "d": "", "e": ""}); all != nil {
		t.Errorf("%v, want none", all)
	}
}

func TestTransactionControl(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT 1":                       "",
		"BEGIN; SELECT 1; END":           "BEGIN in line 1",
		"SELECT 1;\nSELECT 2;\nCOMMIT":   "COMMIT in line 3",
		"-- x\n\n/* y */ begin":          "BEGIN in line 3",
		"start /* z */ transaction":      "START TRANSACTION in line 1",
		"START REPLICATION":              "",
		"END":                            "END in line 1",
		"abort":                          "ABORT in line 1",
		"rollback":                       "ROLLBACK in line 1",
		"ROLLBACK AND CHAIN":             "ROLLBACK in line 1",
		"ROLLBACK TO a":                  "",
		"ROLLBACK WORK TO SAVEPOINT a":   "",
		"rollback transaction to a":      "",
		"ROLLBACK WORK":                  "ROLLBACK in line 1",
		"ROLLBACK PREPARED 'x'":          "ROLLBACK in line 1",
		"SAVEPOINT a; RELEASE a":         "",
		"PREPARE TRANSACTION 'x'":        "PREPARE TRANSACTION in line 1",
		"PREPARE p AS SELECT 1":          "",
		`SELECT 1\; COMMIT\; SELECT 2`:   "COMMIT in line 1",
		`SELECT (1)\; BEGIN`:             "BEGIN in line 1",
		"SELECT 'x; COMMIT'":             "",
		"(BEGIN)":                        "",
		`DO 'BEGIN COMMIT; END'`:         "",
		"SELECT 1 AS begin":              "",
		`SELECT "x" "COMMIT"\; SELECT 1`: "",
		`"BEGIN"`:                        "",
		"CREATE FUNCTION f() BEGIN ATOMIC SELECT 1; END; SELECT 1": "",
	} {
		s, err := Parse("f.sql", text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := ""
		if c, ok := TransactionControl(s); ok {
			got = fmt.Sprintf("%s in line %d", c.Keyword, c.Line)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{"a": true, "_": true, "a1_B": true, "ä": true, "": false, "1a": false, "a-b": false, "a b": false, ":a": false} {
		if ValidName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// Whatever the text, nothing of it is lost or made up: the commands are the
// text, without what stands between them and without escaping backslashes.
func FuzzParse(f *testing.F) {
	for _, c := range splitCases {
		f.Add(c.text)
	}
	for _, c := range referenceCases {
		f.Add(c.sql)
	}
	f.Add("SELECT 1 \\gset\n\\set a 1")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("f.sql", text)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 || e.Msg == "" {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		rest := strings.ReplaceAll(strings.ReplaceAll(s.Text, `\;`, ";"), `\:`, ":")
		for _, c := range s.Commands {
			// Backslashes in quotes are nobody's escapes.
			sql := strings.ReplaceAll(strings.ReplaceAll(c.SQL, `\;`, ";"), `\:`, ":")
			i := strings.Index(rest, sql)
			if i < 0 {
				t.Fatalf("%q is not in %q, or not in that place", c.SQL, text)
			}
			rest = rest[i+len(sql):]
			if c.SQL == "" || c.Line < 1 || c.Line > 1+strings.Count(text, "\n") {
				t.Errorf("command %q in line %d of %q", c.SQL, c.Line, text)
			}

			// A command is one command.
			again, err := Parse("f.sql", c.SQL)
			if err == nil && len(again.Commands) > 1 && !strings.Contains(text, `\;`) {
				t.Errorf("%q is split again into %d commands", c.SQL, len(again.Commands))
			}

			// Both ways of replacing agree on what a reference is.
			vars := map[string]string{}
			for _, name := range c.Vars {
				vars[name] = "<" + name + ">"
			}
			placed, names := Placeholders(c)
			if n := strings.Count(Substitute(c, vars), "<"); n < len(names) || len(vars) == 0 && placed != c.SQL {
				t.Errorf("%q: %d values for %d references: %q", c.SQL, n, len(names), placed)
			}
			if len(Undefined(s, nil)) < len(slices.Collect(maps.Keys(vars))) {
				t.Errorf("%q: not all of %q are undefined", c.SQL, c.Vars)
			}
		}
		if s.Text != "" && len(s.Commands) == 0 {
			t.Errorf("no command and no error for %q", text)
		}
		TransactionControl(s)
	})
}
