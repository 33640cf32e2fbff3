package server

import (
	"errors"
	"strings"
	"testing"
)

func TestParseSpec(t *testing.T) {
	check := func(in string, kind Kind, label, text, shown string) {
		t.Helper()
		s, err := ParseSpec(in)
		if err != nil {
			t.Errorf("ParseSpec(%q): %v", in, err)
			return
		}
		if s.Kind != kind || s.Label != label || s.Text != text || s.String() != shown {
			t.Errorf("ParseSpec(%q) = kind %d, label %q, text %q, shown %q", in, s.Kind, s.Label, s.Text, s)
		}
	}
	same := func(in string, kind Kind) { t.Helper(); check(in, kind, "", in, in) }
	same("", Default)
	same("18", Major)
	same("12", Major)
	same("18.4", Version)
	same("/usr/lib/postgresql/15/bin", Directory)
	same("./pg", Directory)
	same("../pg=x", Directory)
	same(".", Directory)
	same("host=/tmp", Conninfo)
	same("host=a port=5433 dbname=b", Conninfo)
	same("postgres://h/d", Conninfo)
	same("postgresql:///d?host=/tmp&connect_timeout=3", Conninfo)
	check("old=/opt/pg", Directory, "old", "/opt/pg", "old=/opt/pg")
	check("v18-O0=./build", Directory, "v18-O0", "./build", "v18-O0=./build")
	check("prod=host=db user=me", Conninfo, "prod", "host=db user=me", "prod=host=db user=me")
	check("prod=postgres://db/x", Conninfo, "prod", "postgres://db/x", "prod=postgres://db/x")
	check("src:postgres", Source, "", "postgres", "src:postgres")
	check("src:../pg#REL_18_1", Source, "", "../pg", "src:../pg#REL_18_1")
	check("mine=src:/pg#fix/a#b", Source, "mine", "/pg", "mine=src:/pg#fix/a#b")
	// Secrets are kept for connecting and not shown.
	check("host=a password=hunter2", Conninfo, "", "host=a password=hunter2", "host=a password=***")
	check(`host = 'a b' password = 'x\'y z' sslpassword=q`, Conninfo, "", `host = 'a b' password = 'x\'y z' sslpassword=q`, `host='a b' password=*** sslpassword=***`)
	check("postgres://u:hunter2@h:5/d", Conninfo, "", "postgres://u:hunter2@h:5/d", "postgres://u:***@h:5/d")
	check("postgres://u:p@ss:w@h/d?password=x&sslmode=disable", Conninfo, "", "postgres://u:p@ss:w@h/d?password=x&sslmode=disable", "postgres://u:***@h/d?password=***&sslmode=disable")
	check("l=postgres://u@h,h2/d", Conninfo, "l", "postgres://u@h,h2/d", "l=postgres://u@h,h2/d")
}

// TestName: what a server is called before it is found.
func TestName(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "18": "", "./pg": "", "host=a": "", "a=./pg": "a", "a=src:/pg#b": "a",
		"src:/x/postgres": "postgres", "src:postgres/": "postgres", "src:/x#fix/a": "fix/a", "src:.": "src:.", "src:..": "src:..", "src:/": "src:/",
	} {
		s, err := ParseSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Name(); got != want {
			t.Errorf("%q is called %q, want %q", text, got, want)
		}
	}
}

func TestParseFetch(t *testing.T) {
	for text, want := range map[string]string{"17": "", "17.4": "", "src:x": "", "src:": "src:DIRECTORY", "11": "servers fetch 11: pgtare runs PostgreSQL 12", "./x": "expected a major", "": "expected a major", "17.4.1": "expected a major", "host=a": "expected a major"} {
		s, err := ParseFetch(text)
		if want == "" && (err != nil || s.String() != text) || want != "" && (!isUsage(err) || !strings.Contains(err.Error(), want)) {
			t.Errorf("ParseFetch(%q): %v, %v", text, s, err)
		}
	}
}

func TestParseSpecErrors(t *testing.T) {
	check := func(in, want string) {
		t.Helper()
		_, err := ParseSpec(in)
		if !isUsage(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseSpec(%q): %v, want a usage error with %q", in, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("ParseSpec(%q): the error tells a password: %v", in, err)
		}
	}
	check("src:", "src:DIRECTORY")
	check("src:#REL_18_STABLE", "src:.#REF here")
	check("src:postgres#", "src:DIRECTORY#REF")
	check("src:postgres#--output=x", "src:DIRECTORY#REF")
	check("9", "12 and later")
	check("9.6", "12 and later")
	check("11.22", "12 and later")
	check("pg", "./pg")
	check("18beta1", "neither")
	check("18.4.1", "neither")
	check("mine=18", "its own label")
	check("mine=pg", "after the label")
	check("hots=a", "after the label")
	check("hots=a password=hunter2", "did you mean host")
	check("host=a passwrod=hunter2", "did you mean password")
	check("host=a statement_timeout=5", "--set")
	check("host=a hostaddr=10.0.0.1", "hostaddr")
	check("host", "neither")
	check("host=a port", `missing "="`)
	check("password='hunter2", "does not end")
	check("postgres://u:hunter2@h/d?statement_timeout=1", "statement_timeout")
	check("postgres://u:hunter2@h/d?%zz=1", "not well escaped")
	check("=x", "neither")
}

func FuzzParseSpec(f *testing.F) {
	for _, s := range []string{"", "18", "18.4", "./x", "a=./x", "host=a password=b", `host='a\'b'`, "postgres://u:p@h/d?password=x", "src:x", "a=src:x#y", "a=b=c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		s, err := ParseSpec(in)
		if err != nil {
			if u := (*UsageError)(nil); !errors.As(err, &u) {
				t.Fatalf("%q: not a usage error: %v", in, err)
			}
			return
		}
		// What is shown means the same server, if there was no secret in it.
		if shown := s.String(); !strings.Contains(shown, "***") {
			again, err := ParseSpec(shown)
			if err != nil || again.Kind != s.Kind || again.Label != s.Label {
				t.Fatalf("%q is shown as %q, which parses as %v, %v", in, shown, again, err)
			}
		}
	})
}

func TestSuggest(t *testing.T) {
	known := []string{"statement_timeout", "lock_timeout", "track_activities", "track_counts", "track_io_timing", "work_mem"}
	check := func(in, want string) {
		t.Helper()
		if got := Suggest(in, known); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", in, got, want)
		}
	}
	check("statment_timeout", "did you mean statement_timeout?")
	check("Track_IO_timing", "did you mean track_io_timing?")
	check("track_activites", "did you mean track_activities?")
	check("wrok_mem", "did you mean work_mem?")
	check("stats_command_string", "it is called track_activities since 8.3")
	check("stats_row_level", "it is called track_counts since 8.3")
	check("force_parallel_mode", "it is called debug_parallel_query since 16")
	check("shared_preload_libraries", "")
	check("x", "")
}

func TestEditDistance(t *testing.T) {
	check := func(a, b string, want int) {
		t.Helper()
		if got := editDistance(a, b, 100); got != want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", a, b, got, want)
		}
	}
	check("", "", 0)
	check("abc", "", 3)
	check("abc", "abd", 1)
	check("abc", "acb", 1) // neighbours exchanged
	check("abcd", "bcd", 1)
	check("kitten", "sitting", 3)
}
