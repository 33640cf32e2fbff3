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
		want    string
	}{
		{set("stats_command_string", "on"), "track_activities", "[track_activities=on]"},
		{set("Stats_Row_Level", "off"), "track_counts", "[track_counts=off]"},
		{set("track_activities", "on"), "track_activities", "[track_activities=on]"},
		{set("force_parallel_mode", "on"), "debug_parallel_query", "[debug_parallel_query=on]"},
		{set("debug_parallel_query", "on"), "force_parallel_mode", "[force_parallel_mode=on]"},
		{set("wal_keep_segments", "32"), "wal_keep_size", "[wal_keep_size=512MB]"},
		{set("wal_keep_size", "1GB"), "wal_keep_segments", "[wal_keep_segments=64]"},
		{set("wal_keep_size", "17"), "wal_keep_segments", "[wal_keep_segments=2]"},
		{Setting{Name: "wal_keep_segments", Default: true}, "wal_keep_size", "[wal_keep_size=default]"},
		{set("io_workers", "5"), "io_min_workers io_max_workers", "[io_min_workers=5 io_max_workers=5]"},
		{set("io_workers", "5"), "io_max_workers", "[]"},
		{set("io_workers", "5"), "io_workers", "[io_workers=5]"},
		{set("stats_start_collector", "on"), "track_counts", "[]"},
	} {
		knows := func(name string) bool { return slices.Contains(strings.Fields(c.knows), strings.ToLower(name)) }
		if got := fmt.Sprint(Local(c.setting, knows)); got != c.want {
			t.Errorf("%v where there is %s: %s, want %s", c.setting, c.knows, got, c.want)
		}
	}
	if got := Renaming("STATS_command_string", []Setting{set("track_activities", "on")}); !strings.Contains(got, "called track_activities since 8.3") {
		t.Error(got)
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
		if local := Local(set(a.from, value), knows); len(local) == 0 && a.from != "io_workers" {
			t.Errorf("%s has nothing for %s", label, a.from)
		}
	}
}
