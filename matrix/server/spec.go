package server

import (
	"path/filepath"
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
	Source                // a source tree to be built, as it is or at a git ref
	Conninfo              // a running server
)

// Spec is what the user wrote after --server.
type Spec struct {
	Kind  Kind
	Label string // given by the user: label=...
	Text  string // the major, version, directory or conninfo; conninfo with its secrets
	Ref   string // of a Source: branch, tag or commit; "": the tree as it is
	// masked is Text of a conninfo without secrets.
	masked string
}

// String returns the Spec as it was written, passwords masked.
func (s Spec) String() string {
	text := s.Text
	switch s.Kind {
	case Conninfo:
		text = s.masked
	case Source:
		text = "src:" + s.Text
		if s.Ref != "" {
			text += "#" + s.Ref
		}
	}
	if s.Label != "" {
		return s.Label + "=" + text
	}
	return text
}

// Name returns what the server will be called, as far as that is known before
// it is found: the user's label; of a source tree the ref, else the name of its
// directory. "" where its version will say.
func (s Spec) Name() string {
	switch {
	case s.Label != "" || s.Kind != Source:
		return s.Label
	case s.Ref != "":
		return s.Ref
	}
	if name := filepath.Base(s.Text); name != "." && name != ".." && name != "/" && name != "~" {
		return name
	}
	return s.String()
}

var (
	majorSpec   = regexp.MustCompile(`^\d+$`)
	versionSpec = regexp.MustCompile(`^\d+\.\d+$`)
	labelSpec   = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9_.+-]*)=(.*)$`)
)

// oldest is the oldest major that pgtare knows: its settings and counters are
// known from 12 on.
const oldest = 12

// ParseSpec reads what the user wrote after --server: "" (the default), "18",
// "18.4", DIRECTORY, src:DIRECTORY, src:DIRECTORY#REF, CONNINFO, or label= with
// one of the last four. (A # in the name of a source directory can't be told
// from a ref's.) It looks at nothing but the text. Errors are a *UsageError.
func ParseSpec(text string) (Spec, error) {
	s, err := parseSpec(text)
	if err != nil && mayHoldSecret(err.Error()) {
		return Spec{}, usagef("--server: what is given is neither a version, a directory, src:DIRECTORY, label=DIRECTORY nor a conninfo that can be read " +
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
		return Spec{}, usagef("--server %s: neither a major (18), a version (18.4), a directory (with a slash: ./%[1]s), a source tree (src:DIRECTORY), label=DIRECTORY nor a conninfo", text)
	}
	label, rest := m[1], m[2]
	s, err = parseBare(rest)
	if err != nil {
		return Spec{}, err
	}
	switch s.Kind {
	case Directory, Source, Conninfo:
		s.Label = label
		return s, nil
	case unknownKind:
		// A misspelt keyword is likelier than a label where = follows twice.
		if near := nearest(label, conninfoKeywords); near != "" && strings.Contains(rest, "=") {
			return Spec{}, usagef("--server: unknown connection keyword %q; did you mean %s?", label, near)
		}
		return Spec{}, usagef("--server %s=...: after the label, write a directory with a slash in it, src:DIRECTORY or a conninfo", label)
	}
	return Spec{}, usagef("--server %s: a version is its own label; a label names a directory, a source tree or a conninfo", text)
}

const unknownKind Kind = -1

func parseBare(text string) (Spec, error) {
	switch {
	case text == "":
		return Spec{Kind: Default}, nil
	case strings.HasPrefix(text, "src:"):
		dir, ref, at := strings.Cut(strings.TrimPrefix(text, "src:"), "#")
		if dir == "" || at && ref == "" || strings.HasPrefix(ref, "-") {
			return Spec{}, usagef("--server %s: expected src:DIRECTORY, or src:DIRECTORY#REF with a branch, tag or commit (src:.#REF here)", text)
		}
		return Spec{Kind: Source, Text: dir, Ref: ref}, nil
	case majorSpec.MatchString(text), versionSpec.MatchString(text):
		return parseRelease("--server", text)
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

// ParseFetch reads what `pgtare servers fetch` takes: a major, a version, or a
// source tree. Errors are a *UsageError.
func ParseFetch(text string) (Spec, error) {
	switch {
	case strings.HasPrefix(text, "src:"):
		return parseBare(text)
	case majorSpec.MatchString(text), versionSpec.MatchString(text):
		return parseRelease("servers fetch", text)
	}
	return Spec{}, usagef("servers fetch %s: expected a major (18), a version (18.4) or a source tree (src:DIRECTORY)", text)
}

// parseRelease reads what looks like a major or a version.
func parseRelease(asked, text string) (Spec, error) {
	major, _, isVersion := strings.Cut(text, ".")
	if atoi(major) < oldest {
		return Spec{}, usagef("%s %s: pgtare runs PostgreSQL %d and later", asked, text, oldest)
	}
	if isVersion {
		return Spec{Kind: Version, Text: text}, nil
	}
	return Spec{Kind: Major, Text: text}, nil
}
