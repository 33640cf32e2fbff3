package server

import (
	"regexp"
	"slices"
	"strings"
)

// Kind is the kind of a Spec.
type Kind int

const (
	Default   Kind = iota // the newest local installation, else the newest that can be fetched
	Major                 // the newest minor release of a major
	Version               // a release
	Directory             // an installation of the user's
	Conninfo              // a running server
)

// Spec is what the user wrote after --server.
type Spec struct {
	Kind  Kind
	Label string // given by the user: label=...
	Text  string // the major, version, directory or conninfo; conninfo with its secrets
	// masked is Text of a conninfo without secrets.
	masked string
}

// String returns the Spec as it was written, passwords masked.
func (s Spec) String() string {
	text := s.Text
	if s.Kind == Conninfo {
		text = s.masked
	}
	if s.Label != "" {
		return s.Label + "=" + text
	}
	return text
}

var (
	majorSpec   = regexp.MustCompile(`^\d+$`)
	versionSpec = regexp.MustCompile(`^\d+\.\d+$`)
	labelSpec   = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9_.+-]*)=(.*)$`)
)

// oldest is the oldest major that pgtare starts: from 10 on, postmaster.pid
// says when a server is ready.
const oldest = 10

// ParseSpec reads what the user wrote after --server: "" (the default), "18",
// "18.4", DIRECTORY, CONNINFO, or label=DIRECTORY or label=CONNINFO. It looks
// at nothing but the text. Errors are a *UsageError.
func ParseSpec(text string) (Spec, error) {
	s, err := parseSpec(text)
	if err != nil && mayHoldSecret(err.Error()) {
		return Spec{}, usagef("--server: what is given is neither a version, a directory, label=DIRECTORY nor a conninfo that can be read " +
			"(keyword=value with blanks between, or postgresql://user@host/db, special characters of a password as %%XX); it is not shown here, because it may hold a password")
	}
	return s, err
}

// mayHoldSecret says whether a message quotes so much of what was given that
// it may show a password.
func mayHoldSecret(message string) bool {
	return quotedSecret.MatchString(message)
}

var quotedSecret = regexp.MustCompile(`(?i)password\s*=\s*[^\s*]|[^*]@`)

func parseSpec(text string) (Spec, error) {
	s, err := parseBare(text)
	if err != nil || s.Kind != unknownKind {
		return s, err
	}
	m := labelSpec.FindStringSubmatch(text)
	if m == nil {
		return Spec{}, usagef("--server %s: neither a major (18), a version (18.4), a directory (with a slash: ./%[1]s), label=DIRECTORY nor a conninfo", text)
	}
	label, rest := m[1], m[2]
	s, err = parseBare(rest)
	if err != nil {
		return Spec{}, err
	}
	switch s.Kind {
	case Directory, Conninfo:
		s.Label = label
		return s, nil
	case unknownKind:
		// A misspelt keyword is likelier than a label where = follows twice.
		if near := nearest(label, conninfoKeywords); near != "" && strings.Contains(rest, "=") {
			return Spec{}, usagef("--server: unknown connection keyword %q; did you mean %s?", label, near)
		}
		return Spec{}, usagef("--server %s=...: after the label, write a directory with a slash in it or a conninfo", label)
	}
	return Spec{}, usagef("--server %s: a version is its own label; a label names a directory or a conninfo", text)
}

const unknownKind Kind = -1

func parseBare(text string) (Spec, error) {
	switch {
	case text == "":
		return Spec{Kind: Default}, nil
	case strings.HasPrefix(text, "src:"):
		return Spec{}, usagef("--server %s: building from source comes later; build it yourself and give its directory", text)
	case majorSpec.MatchString(text):
		if atoi(text) < oldest {
			return Spec{}, usagef("--server %s: pgtare runs PostgreSQL %d and later", text, oldest)
		}
		return Spec{Kind: Major, Text: text}, nil
	case versionSpec.MatchString(text):
		if major, _, _ := strings.Cut(text, "."); atoi(major) < oldest {
			return Spec{}, usagef("--server %s: pgtare runs PostgreSQL %d and later", text, oldest)
		}
		return Spec{Kind: Version, Text: text}, nil
	case text == "." || text == ".." || slices.ContainsFunc([]string{"/", "./", "../"}, func(p string) bool { return strings.HasPrefix(text, p) }):
		return Spec{Kind: Directory, Text: text}, nil
	case isConninfo(text):
		masked, err := checkConninfo(text)
		if err != nil {
			return Spec{}, err
		}
		return Spec{Kind: Conninfo, Text: text, masked: masked}, nil
	}
	return Spec{Kind: unknownKind}, nil
}
