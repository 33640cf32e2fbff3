package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLocal(t *testing.T) {
	for _, c := range []struct {
		setting Setting
		knows   string
		segment int64
		want    string
	}{
		{set("stats_command_string", "on"), "track_activities", 0, "[track_activities=on]"},
		{set("Stats_Row_Level", "off"), "track_counts", 0, "[track_counts=off]"},
		{set("track_activities", "on"), "track_activities", 0, "[track_activities=on]"},
		{set("force_parallel_mode", "on"), "debug_parallel_query", 0, "[debug_parallel_query=on]"},
		{set("debug_parallel_query", "on"), "force_parallel_mode", 0, "[force_parallel_mode=on]"},
		{set("wal_keep_segments", "32"), "wal_keep_size", 0, "[wal_keep_size=512MB]"},
		{set("wal_keep_size", "1GB"), "wal_keep_segments", 0, "[wal_keep_segments=64]"},
		{set("wal_keep_size", "17"), "wal_keep_segments", 0, "[wal_keep_segments=2]"},
		{set("wal_keep_segments", "32"), "wal_keep_size", 64 << 20, "[wal_keep_size=2048MB]"},
		{set("wal_keep_size", "1GB"), "wal_keep_segments", 64 << 20, "[wal_keep_segments=16]"},
		{set("wal_keep_size", "1025MB"), "wal_keep_segments", 64 << 20, "[wal_keep_segments=17]"},
		{set("wal_keep_size", "1536kB"), "wal_keep_segments", 1 << 20, "[wal_keep_segments=2]"},
		{set("wal_keep_size", "much"), "wal_keep_segments", 64 << 20, "[wal_keep_segments=much]"},
		{Setting{Name: "wal_keep_segments", Default: true}, "wal_keep_size", 0, "[wal_keep_size=default]"},
		{set("io_workers", "5"), "io_min_workers io_max_workers", 0, "[io_min_workers=5 io_max_workers=5]"},
		{set("io_workers", "5"), "io_max_workers", 0, "[]"},
		{set("io_workers", "5"), "io_workers", 0, "[io_workers=5]"},
		{set("stats_start_collector", "on"), "track_counts", 0, "[]"},
	} {
		knows := func(name string) bool { return slices.Contains(strings.Fields(c.knows), strings.ToLower(name)) }
		if got := fmt.Sprint(Local(c.setting, knows, c.segment)); got != c.want {
			t.Errorf("%v where there is %s: %s, want %s", c.setting, c.knows, got, c.want)
		}
	}
	if got := Renaming("STATS_command_string", []Setting{set("track_activities", "on")}); !strings.Contains(got, "called track_activities since 8.3") {
		t.Error(got)
	}
}

func TestSegmentSize(t *testing.T) {
	for text, want := range map[string]int64{"64": 64 << 20, "64MB": 64 << 20, "1GB": 1 << 30, "16777216": 16 << 20, "x": 0, "-1": 0, "0": 0} {
		if got := SegmentSize(text); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
	for f, want := range map[Fact]int64{{Value: "67108864", Unit: "B"}: 64 << 20, {Value: "2048", Unit: "8kB"}: 16 << 20, {}: 0} {
		if got := f.WALSegment(); got != want {
			t.Errorf("%+v: %d, want %d", f, got, want)
		}
	}
}

// testAliases: wherever two versions at hand disagree on a name, one of the two
// names is known to each.
func testAliases(t *testing.T, label string, names []string) {
	t.Helper()
	knows := func(name string) bool { return slices.Contains(names, strings.ToLower(name)) }
	for _, a := range aliases {
		value := "on"
		if strings.HasPrefix(a.from, "wal_keep") || strings.HasPrefix(a.from, "io_") {
			value = "1"
		}
		if local := Local(set(a.from, value), knows, 0); len(local) == 0 && a.from != "io_workers" {
			t.Errorf("%s has nothing for %s", label, a.from)
		}
	}
}
