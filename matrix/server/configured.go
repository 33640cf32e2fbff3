package server

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// ProveConfigured proves in a plain session of a managed instance that the
// settings of its configuration ([InstanceConfig]) are in force, each not a
// default: pg_settings shows it with source "configuration file" and no
// restart pending, and pg_file_settings says that the line which supplies it
// is of pgtare's file, was applied, and holds the given text. So the value in
// force is what this server made of the text as it started or reloaded.
// A source "override" is as good: the server computed the value from the line,
// as it does for wal_buffers=-1. A default must not come from pgtare's file.
// It returns for each name the value as pg_settings shows it, with the unit;
// stars where it may be a secret.
//
// The error is a *NotApplicable where the server doesn't know the setting, took
// it for a placeholder, or has another value in force; anything else is a
// failure. What makes a server refuse to start, see [StartRefusal].
//
// Note: comparing values, as [Probe] does, was left: set_config refuses all
// settings that only the configuration can change, and a table of units here
// would be tested against itself.
func ProveConfigured(ctx context.Context, conn *pgconn.PgConn, settings []Setting) (readback map[string]string, err error) {
	return proveIn(ctx, conn, settings, confName)
}

// proveIn is ProveConfigured of a file of that name.
func proveIn(ctx context.Context, conn *pgconn.PgConn, settings []Setting, file string) (readback map[string]string, err error) {
	facts, err := Facts(ctx, conn, names(settings))
	if err != nil {
		return nil, err
	}
	lines, err := configLines(ctx, conn, names(settings), file)
	if err != nil {
		return nil, err
	}
	readback = map[string]string{}
	for _, s := range settings {
		f, ok := facts[s.Name]
		if !ok {
			return nil, noRow(ctx, conn, s)
		}
		l, ours := lines[strings.ToLower(s.Name)]
		switch {
		case s.Default && ours:
			return nil, fmt.Errorf("prove %s: pgtare's configuration sets it to %s", s, maskSetting(s.Name, l.text))
		case s.Default:
			readback[s.Name] = f.shown()
			continue
		case !ours:
			return nil, &NotApplicable{Setting: s, Words: fmt.Sprintf("pg_settings shows %s from source %q, and %s is not where it comes from", f.shown(), f.Source, file)}
		case l.pending:
			return nil, &NotApplicable{Setting: s, Words: fmt.Sprintf("pg_settings still shows %s: it waits for a restart", f.shown())}
		case l.failed != "":
			return nil, &NotApplicable{Setting: s, Words: l.failed}
		case l.text != s.Value:
			return nil, fmt.Errorf("prove %s: the line of the configuration that is in force says %q", s, maskSetting(s.Name, l.text))
		case f.Source != "configuration file" && f.Source != "override":
			return nil, &NotApplicable{Setting: s, Words: fmt.Sprintf("given in the configuration, but pg_settings shows %s from source %q", f.shown(), f.Source)}
		}
		if err := effect(ctx, conn, s, f); err != nil {
			return nil, err
		}
		readback[s.Name] = f.shown()
	}
	return readback, nil
}

// configLine is a line of a configuration file, as the server reads it.
type configLine struct {
	text    string // the value on it
	failed  string // why it isn't applied; "" where it is
	pending bool   // a restart would change the value
}

// configLines returns the last line of a file for each of the names, in lower
// case, unless another file's overrules it.
func configLines(ctx context.Context, conn *pgconn.PgConn, names []string, file string) (map[string]configLine, error) {
	lines := map[string]configLine{}
	if len(names) == 0 {
		return lines, nil
	}
	// An entry that a later one overrules is not applied, and has no error.
	rows, err := lookUp(ctx, conn, `
SELECT lower(l.name), l.setting, l.applied, l.error, coalesce(s.pending_restart, false), l.sourcefile
  FROM pg_catalog.pg_file_settings l LEFT JOIN pg_catalog.pg_settings s ON lower(s.name) = lower(l.name)
 WHERE lower(l.name) IN (`+literals(lower(names))+`) ORDER BY l.seqno`)
	if err != nil {
		return nil, fmt.Errorf("read the configuration as the server sees it: %w", err)
	}
	for _, r := range rows {
		delete(lines, r[0])
		if !strings.HasSuffix(r[5], "/"+file) {
			continue
		}
		l := configLine{text: r[1], pending: r[4] == "t"}
		if r[2] != "t" {
			l.failed = "the server does not apply it"
			if r[3] != "" {
				l.failed = r[3]
			}
		}
		lines[r[0]] = l
	}
	return lines, nil
}

// StartError means that a server ended before it was ready.
type StartError struct {
	How string // "ended with status 1"
	Log string // the end of what it wrote since it was started
}

func (e *StartError) Error() string {
	return fmt.Sprintf("the server %s; the end of its log:\n%s", e.How, e.Log)
}

var (
	logLine = regexp.MustCompile(`(?m)^.*?\b(LOG|FATAL|DETAIL|HINT):  (.*)$`)
	quoted  = regexp.MustCompile(`parameter "([^"]+)"`)
)

// StartRefusal returns as a *NotApplicable, with the server's words, why a
// server refused to start with settings in its configuration: an unknown name,
// a value that it won't have, a library that it can't load, memory that it
// doesn't get. nil: err, of [Instance.Start], is no refusal, or it can't be
// told which of several settings was meant.
//
// A server that won't start is taken to mean its settings only where it says
// so or nothing else was set; ask this only of servers that start without.
func StartRefusal(err error, settings []Setting) *NotApplicable {
	var start *StartError
	if !errors.As(err, &start) {
		return nil
	}
	var given []Setting
	for _, s := range settings {
		if !s.Default {
			given = append(given, s)
		}
	}
	// The words about a parameter come as LOG, and then a FATAL that the file
	// contains errors; other refusals are FATAL.
	var words, fatal string
	var guilty *Setting
	lines := logLine.FindAllStringSubmatch(start.Log, -1)
	for i, l := range lines {
		more := l[2]
		for _, next := range lines[i+1:] {
			if next[1] != "DETAIL" && next[1] != "HINT" {
				break
			}
			more += " (" + strings.TrimSuffix(next[2], ".") + ")"
		}
		if l[1] == "FATAL" && fatal == "" {
			fatal = more
		}
		for _, q := range quoted.FindAllStringSubmatch(l[2], -1) {
			for j, s := range given {
				if guilty == nil && strings.EqualFold(s.Name, q[1]) {
					guilty, words = &given[j], more
				}
			}
		}
	}
	switch {
	case guilty != nil:
	case fatal == "":
		return nil
	case len(given) == 1:
		guilty, words = &given[0], fatal
	default:
		// could not access file "LIBRARY": No such file or directory
		for i, s := range given {
			_, library, _ := strings.Cut(fatal, `file "`)
			library, _, _ = strings.Cut(library, `"`)
			if strings.HasSuffix(s.Name, "_preload_libraries") && library != "" && strings.Contains(s.Value, library) {
				guilty, words = &given[i], fatal
			}
		}
		if guilty == nil {
			return nil
		}
	}
	// The path of pgtare's file says nothing to the user.
	words = inFile.ReplaceAllString(words, "")
	return &NotApplicable{Setting: *guilty, Unknown: strings.HasPrefix(words, "unrecognized configuration parameter"), Words: words}
}

var inFile = regexp.MustCompile(` in file "[^"]*" line \d+`)
