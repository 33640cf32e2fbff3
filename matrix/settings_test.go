package matrix

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgtare/matrix/server"
	"pgtare/matrix/server/servertest"
)

// Names that no server has any more stand for today's, each server gets its
// own, and what --conf says is in force in every instance and among the
// deviations.
func TestOldNames(t *testing.T) {
	t.Parallel()
	rec, _ := run(t, Spec{Workload: builtinWorkload(t, "select1"), Servers: fetched(t), Runs: 1, Duration: 10 * time.Millisecond, Schedule: "slice",
		Settings: []SettingAxis{set("stats_command_string", "off", "on"), set("debug_parallel_query", "off", "on")},
		Conf:     []server.Setting{{Name: "wal_keep_segments", Value: "4"}, {Name: "io_method", Value: "sync"}}})
	if axis := rec.Header.Axes[len(rec.Header.Axes)-1].Values; !slices.Equal(axis, []string{"", "track_activities=on", "debug_parallel_query=on", "all"}) {
		t.Errorf("the settings are %q", axis)
	}
	old := rec.Header.Servers[0].Label
	for _, c := range rec.Header.Cells {
		parallel := map[bool]string{true: "force_parallel_mode", false: "debug_parallel_query"}[c.Server == old]
		want := map[string]string{"wal_keep_size": "64 MB", "track_activities": "off", parallel: "off"}
		if c.Server != old {
			want["io_method"] = "sync"
		}
		switch c.Label {
		case "all":
			want["track_activities"], want[parallel] = "on", "on"
		case "track_activities=on":
			want["track_activities"] = "on"
		case "debug_parallel_query=on":
			want[parallel] = "on"
		}
		if len(c.ReadBack) != len(want) || c.Status != "ok" {
			t.Errorf("cell %s (%s on %s) is %s, read back %v, expected %v", c.ID, c.Label, c.Server, c.Status, c.ReadBack, want)
		}
		for name, value := range want {
			if c.ReadBack[name] != value {
				t.Errorf("cell %s (%s on %s): %s is %s, expected %s", c.ID, c.Label, c.Server, name, c.ReadBack[name], value)
			}
		}
	}
	for _, s := range rec.Header.Servers {
		if got := slices.Contains(s.Deviations, "wal_keep_size=64MB"); !got {
			t.Errorf("deviations of %s: %q", s.Label, s.Deviations)
		}
		if got := slices.Contains(s.Deviations, "io_method=sync"); got != (s.Label != old) {
			t.Errorf("deviations of %s: %q", s.Label, s.Deviations)
		}
	}
	said := func(code, text string) {
		t.Helper()
		n := 0
		for _, w := range rec.Warnings {
			if w.Code == code && strings.Contains(w.Text, text) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d warnings %s with %q in %v", n, code, text, rec.Warnings)
		}
	}
	said("setting-renamed", "stats_command_string: it is called track_activities")
	said("setting-renamed", "debug_parallel_query: it is called force_parallel_mode before 16")
	said("setting-absent", old+" has no setting io_method")
}

// Each value of an option of initdb is a cluster of its own, proven to be what
// was asked; where initdb refuses it is n/a in its words.
func TestClusterAxis(t *testing.T) {
	t.Parallel()
	rec, _ := run(t, Spec{Workload: builtinWorkload(t, "select1"), Servers: fetched(t), Runs: 1, Duration: 10 * time.Millisecond,
		Settings: []SettingAxis{set("data_checksums", "off", "on"), {Name: "locale_provider", Values: []string{"default", "builtin"}, Cluster: true},
			{Name: "wal_segment_size", Values: []string{"1MB"}, Cluster: true}},
		Conf: []server.Setting{{Name: "wal_keep_segments", Value: "4"}}})
	old := rec.Header.Servers[0].Label
	for _, c := range rec.Header.Cells {
		builtin := strings.Contains(c.Label, "builtin") || c.Label == "all"
		want := "ok"
		if builtin && c.Server == old {
			want = "n/a"
		}
		if c.Status != want || want == "n/a" && !strings.Contains(c.Reason, "initdb refuses: unrecognized option") {
			t.Errorf("cell %s (%s on %s) is %s (%s)", c.ID, c.Label, c.Server, c.Status, c.Reason)
			continue
		}
		if want == "n/a" {
			continue
		}
		checksums := map[bool]string{true: "on", false: "off"}[c.Label == "all" || c.Label == "data_checksums=on"]
		if c.ReadBack["data_checksums"] != checksums || c.ReadBack["wal_segment_size"] != "1MB" || c.ReadBack["wal_keep_size"] != "4 MB" || builtin && c.ReadBack["locale_provider"] != "builtin" || c.Schedule != "slice" {
			t.Errorf("cell %s (%s on %s), schedule %s: read back %v", c.ID, c.Label, c.Server, c.Schedule, c.ReadBack)
		}
		if isolation := map[bool]string{true: "session", false: "cluster"}[c.Label == "" || strings.HasPrefix(c.Label, "control")]; c.Label != "" && c.ControlOf == "" && c.Isolation != isolation {
			t.Errorf("cell %s (%s): isolation %s", c.ID, c.Label, c.Isolation)
		}
		if reason := c.NotExercised; c.Label == "data_checksums=on" && !strings.Contains(reason, "0 pages were read") {
			t.Errorf("cell %s: data checksums are exercised by SELECT 1 (%q)", c.ID, reason)
		}
	}
}

// What no server takes is a mistake, in one sentence, before anything is
// measured.
func TestRefusedEverywhere(t *testing.T) {
	t.Parallel()
	servertest.Start(t)
	select1 := builtinWorkload(t, "select1")
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Workload: select1, Conf: []server.Setting{{Name: "work_mim", Value: "1MB"}}}, "did you mean work_mem?"},
		{Spec{Workload: select1, Conf: []server.Setting{{Name: "work_mem", Value: "much"}}}, "refuses it"},
		{Spec{Workload: select1, Settings: []SettingAxis{set("stats_row_level", "off", "on"), set("track_counts", "off", "on")}}, "once by an older name"},
		{Spec{Workload: select1, Settings: []SettingAxis{set("stats_start_collector", "off", "on")}}, "it is gone since 8.3"},
		{Spec{Workload: select1, Settings: []SettingAxis{{Name: "encoding", Values: []string{"UTF8", "klingon"}, Cluster: true}}}, `--initdb encoding=klingon: initdb refuses: `},
		{Spec{Workload: select1, Settings: []SettingAxis{set("wal_segment_size", "3MB", "16MB")}}, "use another first value"},
		{Spec{Workload: select1, Settings: []SettingAxis{set("wal_segment_size", "1MB", "16MB")}, Conf: []server.Setting{{Name: "wal_keep_segments", Value: "4"}}},
			"depends on the size of WAL segments, of which --initdb wal_segment_size has several"},
	} {
		plan, err := NewPlan(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Run(t.Context(), plan, RunConfig{Record: filepath.Join(t.TempDir(), "r.jsonl")})
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v: %v, expected %q", c.spec.Settings, c.spec.Conf, err, c.want)
		}
	}
}
