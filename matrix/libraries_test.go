package matrix

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgtare/matrix/server"
	"pgtare/matrix/server/servertest"
	"pgtare/results"
)

// A setting of a library has all instances load it; where the library is an
// axis itself, the setting is for the cells that load it.
func TestLibraries(t *testing.T) {
	t.Parallel()
	spec := Spec{Workload: builtinWorkload(t, "select1"), Controls: 1, Runs: 1, Duration: 10 * time.Millisecond, Conf: []server.Setting{{Name: "pg_stat_statements.max", Value: "200"}}}
	spec.Settings = []SettingAxis{set("pg_stat_statements.track", "none", "top"), set("auto_explain.log_min_duration", "-1", "1h")}
	rec, _ := run(t, spec)
	if !slices.Contains(rec.Header.Servers[0].Deviations, "shared_preload_libraries=auto_explain, pg_stat_statements") {
		t.Errorf("deviations %q", rec.Header.Servers[0].Deviations)
	}
	for _, c := range rec.Header.Cells {
		track := map[bool]string{true: "top", false: "none"}[strings.Contains(c.Label, "track=top") || c.Label == "all"]
		if c.Status != "ok" || c.NotExercised != "" || c.ReadBack["pg_stat_statements.track"] != track || c.ReadBack["pg_stat_statements.max"] != "200" {
			t.Errorf("cell %s (%s) is %s (%s), not exercised %q, read back %v", c.ID, c.Label, c.Status, c.Reason, c.NotExercised, c.ReadBack)
		}
	}

	spec.Settings, spec.Conf = []SettingAxis{set("shared_preload_libraries", "", "pg_stat_statements"), set("pg_stat_statements.track", "top", "none")}, nil
	rec, _ = run(t, spec)
	for _, c := range rec.Header.Cells {
		loads := c.Label == "all" || strings.HasPrefix(c.Label, "shared_preload_libraries")
		status := map[bool]string{true: "n/a", false: "ok"}[c.Label == "pg_stat_statements.track=none"]
		_, track := c.ReadBack["pg_stat_statements.track"]
		if c.Status != status || c.NotExercised != "" || status == "ok" && (track != loads || c.ReadBack["shared_preload_libraries"] != map[bool]string{true: "pg_stat_statements"}[loads]) ||
			status == "n/a" && !strings.Contains(c.Reason, "library pg_stat_statements is not loaded in this cell") {
			t.Errorf("cell %s (%s) is %s (%s), not exercised %q, read back %v", c.ID, c.Label, c.Status, c.Reason, c.NotExercised, c.ReadBack)
		}
	}
}

// What no server can load is a mistake, in the server's words.
func TestNoSuchLibrary(t *testing.T) {
	t.Parallel()
	servertest.Start(t)
	plan, err := NewPlan(Spec{Workload: builtinWorkload(t, "select1"), Settings: []SettingAxis{set("pg_stat_statement.track", "none", "top")}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), plan, RunConfig{Record: filepath.Join(t.TempDir(), "r.jsonl")})
	var usage *UsageError
	if !errors.As(err, &usage) || !strings.Contains(err.Error(), `could not access file "pg_stat_statement"`) {
		t.Error(err)
	}
	_, err = NewPlan(Spec{Workload: builtinWorkload(t, "select1"), Settings: []SettingAxis{set("shared_preload_libraries", "", "auto_explain"), set("pg_stat_statements.track", "none", "top")}})
	if !errors.As(err, &usage) || !strings.Contains(err.Error(), "other settings belong to pg_stat_statements") {
		t.Error(err)
	}
}

// Sessions of a running server load what it hasn't loaded itself.
func TestLibraryOfAttached(t *testing.T) {
	t.Parallel()
	cfg := servertest.Start(t).Config()
	rec, _ := run(t, Spec{Workload: builtinWorkload(t, "select1"), Controls: 1, Runs: 1, Duration: 10 * time.Millisecond,
		Servers:  serverSpecs(t, fmt.Sprintf("host=%s port=%d user=%s dbname=%s", cfg.Host, cfg.Port, cfg.User, cfg.Database)),
		Settings: []SettingAxis{set("auto_explain.log_min_duration", "-1", "1h")}})
	for _, c := range rec.Header.Cells {
		want := map[bool]string{true: "3600000 ms", false: "-1 ms"}[c.Label == "auto_explain.log_min_duration=1h"]
		if c.Status != "ok" || c.ReadBack["session_preload_libraries"] != "auto_explain" || c.ReadBack["auto_explain.log_min_duration"] != want {
			t.Errorf("cell %s (%s) is %s (%s), read back %v", c.ID, c.Label, c.Status, c.Reason, c.ReadBack)
		}
	}
}

// What a value must make the server show is looked for.
func TestEffects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		settings []SettingAxis
		want     string
	}{
		{[]SettingAxis{set("log_min_duration_sample", "-1", "0"), set("log_statement_sample_rate", "0")}, "nothing was written to the server's log"},
		{[]SettingAxis{set("log_min_duration_statement", "-1", "0")}, ""},
		{[]SettingAxis{set("huge_pages", "off", "try")}, "huge pages"},
	} {
		rec, _ := run(t, Spec{Workload: builtinWorkload(t, "select1"), Settings: c.settings, Controls: 1, Runs: 1, Duration: 10 * time.Millisecond})
		i := slices.IndexFunc(rec.Header.Cells, func(x results.Cell) bool { return x.Label != "" && x.ControlOf == "" })
		cell := rec.Header.Cells[i]
		if huge := rec.Header.Environment.HugePages; strings.HasPrefix(cell.Label, "huge_pages") && strings.Contains(huge, "kB: ") && cell.NotExercised == "" {
			continue // this machine has some
		}
		if got := cell.NotExercised; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: not exercised %q, expected %q", cell.Label, got, c.want)
		}
	}
}
