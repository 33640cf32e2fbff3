package server

import (
	"cmp"
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
	value func(value string, walSegment int64) string // nil: as it is
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

// defaultSegment is the size of a WAL segment that initdb chooses, in bytes.
const defaultSegment = 16 << 20

func segmentsToSize(v string, segment int64) string {
	n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 32)
	if err != nil {
		return v // the server's to refuse
	}
	return strconv.FormatInt(n*(segment>>20), 10) + "MB"
}

// sizeToSegments rounds up: what was to be kept is kept.
func sizeToSegments(v string, segment int64) string {
	size, ok := memoryText(v, 1<<20)
	if !ok {
		return v
	}
	return strconv.FormatInt((size+segment-1)/segment, 10)
}

// SegmentSize reads the size of WAL segments as --initdb has it, in bytes; 0
// where it is none.
func SegmentSize(text string) int64 {
	mb, err := strconv.ParseInt(segmentMB(text), 10, 32)
	if err != nil || mb < 1 {
		return 0
	}
	return mb << 20
}

// WALSegment is the size of WAL segments, in bytes, by what a server says of
// wal_segment_size; 0 where it doesn't.
func (f Fact) WALSegment() int64 {
	unit, ok := int64(1), true
	if f.Unit != "" && f.Unit != "B" { // 8kB before 11
		unit, ok = memoryText(f.Unit, 0)
	}
	n, err := strconv.ParseInt(f.Value, 10, 32)
	if err != nil || !ok {
		return 0
	}
	return n * unit
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
// else what it is called there, with the value as that wants it. walSegment is
// the size of the server's WAL segments in bytes, 0 for initdb's own. None: the
// server has nothing of the kind.
func Local(s Setting, knows func(name string) bool, walSegment int64) []Setting {
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
				x.Value = a.value(s.Value, cmp.Or(walSegment, defaultSegment))
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
