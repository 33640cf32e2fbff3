package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// alias is a name that versions disagree on. A server that has all of to and
// not from is given to instead, each with the value.
type alias struct {
	from  string
	to    []string
	value func(string) string // nil: as it is
}

// aliases in both directions where versions at hand may be on either side. The
// servers themselves map only sort_mem, vacuum_mem and (18 and later)
// ssl_ecdh_curve, and pg_settings shows none of these three.
var aliases = []alias{
	{"stats_command_string", []string{"track_activities"}, nil},
	{"stats_row_level", []string{"track_counts"}, nil},
	{"stats_block_level", []string{"track_counts"}, nil},
	{"sort_mem", []string{"work_mem"}, nil},
	{"vacuum_mem", []string{"maintenance_work_mem"}, nil},
	{"force_parallel_mode", []string{"debug_parallel_query"}, nil},
	{"debug_parallel_query", []string{"force_parallel_mode"}, nil},
	{"ssl_ecdh_curve", []string{"ssl_groups"}, nil},
	{"ssl_groups", []string{"ssl_ecdh_curve"}, nil},
	{"wal_keep_segments", []string{"wal_keep_size"}, segmentsToSize},
	{"wal_keep_size", []string{"wal_keep_segments"}, sizeToSegments},
	{"io_workers", []string{"io_min_workers", "io_max_workers"}, nil},
}

// LibraryOf is the library that a setting with a dot in its name belongs to,
// which bears the name before the dot; "" for PostgreSQL's own settings. (What
// is no library can't be loaded, which the server says.)
func LibraryOf(name string) string {
	library, _, dotted := strings.Cut(strings.ToLower(name), ".")
	if !dotted {
		return ""
	}
	return library
}

// Libraries reads a list of libraries as shared_preload_libraries has it, and
// returns their bare names.
func Libraries(value string) (list []string) {
	for _, l := range strings.Split(value, ",") {
		l = strings.Trim(strings.TrimSpace(l), `"`)
		l = strings.TrimSuffix(l[strings.LastIndexByte(l, '/')+1:], ".so")
		if l != "" {
			list = append(list, l)
		}
	}
	return list
}

// walSegment is the size of a WAL segment that initdb chooses, in megabytes.
const walSegment = 16

func segmentsToSize(v string) string {
	n, err := strconv.Atoi(strings.TrimSpace(v))
	if err != nil {
		return v // the server's to refuse
	}
	return strconv.Itoa(n*walSegment) + "MB"
}

func sizeToSegments(v string) string {
	n, err := strconv.Atoi(segmentMB(v))
	if err != nil {
		return v
	}
	return strconv.Itoa((n + walSegment - 1) / walSegment)
}

// Aliases returns the other names that a setting has or had.
func Aliases(name string) (others []string) {
	for _, a := range aliases {
		if strings.EqualFold(a.from, name) {
			others = append(others, a.to...)
		}
	}
	return others
}

// Local returns what a setting is on a server: itself where the server knows it,
// else what it is called there, with the value as that wants it. None: the
// server has nothing of the kind.
func Local(s Setting, knows func(name string) bool) []Setting {
	if knows(s.Name) {
		return []Setting{s}
	}
	for _, a := range aliases {
		if !strings.EqualFold(a.from, s.Name) || slices.ContainsFunc(a.to, func(n string) bool { return !knows(n) }) {
			continue
		}
		var local []Setting
		for _, name := range a.to {
			x := Setting{Name: name, Value: s.Value, Default: s.Default}
			if a.value != nil && !s.Default {
				x.Value = a.value(s.Value)
			}
			local = append(local, x)
		}
		return local
	}
	return nil
}

// Renaming says what became of a setting by the name of from, for the user who
// wrote it: "stats_command_string: it is called track_activities since 8.3".
func Renaming(from string, to []Setting) string {
	if why, ok := renamed[strings.ToLower(from)]; ok {
		return from + ": " + why
	}
	names := make([]string, len(to))
	for i, s := range to {
		names[i] = s.Name
	}
	return fmt.Sprintf("%s: it is called %s", from, strings.Join(names, " and "))
}
