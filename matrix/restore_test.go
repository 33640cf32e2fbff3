package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/host"
	"pgtare/matrix/server"
	"pgtare/matrix/server/servertest"
	"pgtare/results"
)

// leavesOn writes down, as a pgtare does that then dies, that autovacuum_naptime
// was was ("" for no line) and may be set now.
func leavesOn(t *testing.T, conninfo, system, was, set string) *host.Journal {
	t.Helper()
	dir, err := journalDir()
	if err != nil {
		t.Fatal(err)
	}
	j, err := host.OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() }) //nolint:errcheck // it may be closed by then
	former := map[string]any{"shown": "60 s", "line": nil}
	if was != "" {
		former = map[string]any{"shown": was, "line": was}
	}
	if _, err := j.Begin(server.AlterSystemKind, map[string]any{"server": conninfo, "conninfo": conninfo, "system": system,
		"was": map[string]any{"autovacuum_naptime": former}, "set": map[string]any{"autovacuum_naptime": []string{set}}}); err != nil {
		t.Fatal(err)
	}
	return j
}

// What was left on a server is undone by restore, the latest first; by a run only
// where it measures that server; and never taken for the server's own.
func TestUndoLeftover(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s := servertest.Fresh(t)
	cfg := s.Config()
	conninfo := fmt.Sprintf("host=%s port=%d user=%s dbname=%s", cfg.Host, cfg.Port, cfg.User, cfg.Database)
	conn, err := pgconn.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // it has served
	ask := func(sql string) string {
		t.Helper()
		all, err := conn.Exec(t.Context(), sql).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if rows := all[len(all)-1].Rows; len(rows) > 0 {
			return string(rows[0][0])
		}
		return ""
	}
	const file = "SELECT pg_read_file('postgresql.auto.conf')"
	system, before := ask("SELECT system_identifier FROM pg_control_system()"), ask(file)
	var said []string
	did := func(text string) { said = append(said, text) }
	dir, err := journalDir()
	if err != nil {
		t.Fatal(err)
	}

	// Two died on it, and the second took what the first had left for the server's
	// own.
	first, second := leavesOn(t, conninfo, system, "", "17s"), leavesOn(t, conninfo, system, "17s", "18s")
	ask("ALTER SYSTEM SET autovacuum_naptime = '18s'")
	if err := Restore(t.Context(), RestoreConfig{Did: did}); err != nil || strings.Count(strings.Join(said, "\n"), "another pgtare holds the journal") != 2 || ask(file) == before {
		t.Errorf("while they live: %v, %v", said, err)
	}
	for _, j := range []*host.Journal{first, second} {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := undoLeftover(t.Context(), dir, did); err != nil || ask(file) != before {
		t.Errorf("%v, %v: left is\n%s\nit was\n%s", said, err, ask(file), before)
	}

	// Somebody else's value stays, which is an error, once.
	if err := leavesOn(t, conninfo, system, "", "17s").Close(); err != nil {
		t.Fatal(err)
	}
	ask("ALTER SYSTEM SET autovacuum_naptime = '33s'")
	for _, want := range []string{"it shows 33 s, and did 60 s before pgtare", ""} {
		if err := undoLeftover(t.Context(), dir, did); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("somebody else's: %v, expected %q", err, want)
		}
	}
	ask("ALTER SYSTEM RESET autovacuum_naptime")

	// Before a run.
	spec, err := server.ParseSpec(conninfo)
	if err != nil {
		t.Fatal(err)
	}
	var logged []string
	r := &runner{plan: &Plan{Spec: Spec{Servers: []server.Spec{spec}, Workload: builtinWorkload(t, "select1")}}, interrupted: func() bool { return false },
		cfg: RunConfig{Log: func(text string) { logged = append(logged, text) }}}
	if r.found, err = server.Resolve(t.Context(), r.plan.Spec.Servers, server.ResolveConfig{}); err != nil {
		t.Fatal(err)
	}
	gone := leavesOn(t, "host=192.0.2.1 user=nobody", "1", "", "17s") // an address that nobody has
	held := leavesOn(t, conninfo, system, "", "17s")
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := r.undoBefore(t.Context()); err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("before a run: %v after %v", err, time.Since(began))
	}
	a, err := r.attach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close() //nolint:errcheck // nothing is changed
	if text := strings.Join(logged, "\n"); text != "a pgtare that died has left something on host=192.0.2.1 user=nobody; pgtare restore undoes it" {
		t.Errorf("said\n%s", text)
	}
	if err := r.undoneFirst(a); err == nil || !strings.Contains(err.Error(), "another pgtare holds a journal") {
		t.Errorf("while another undoes it: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.undoneFirst(a); err == nil || !strings.Contains(err.Error(), "must be put back first") {
		t.Errorf("before it is undone: %v", err)
	}
	ask("ALTER SYSTEM SET autovacuum_naptime = '17s'")
	logged = nil
	if err := r.undoOn(t.Context(), a); err != nil || ask(file) != before || !strings.Contains(strings.Join(logged, "\n"), "left by a pgtare that died: put autovacuum_naptime back") {
		t.Errorf("%v, %v: left is\n%s\nit was\n%s", logged, err, ask(file), before)
	}
	if err := r.undoneFirst(a); err != nil {
		t.Errorf("when it is undone: %v", err)
	}
	if left, err := host.Leftover(dir); err != nil || len(left) != 1 || server.LeftOn(left[0].Kind, left[0].Data) != "host=192.0.2.1 user=nobody" {
		t.Errorf("the journals hold %+v, %v", left, err)
	} else if err := left[0].Done(); err != nil {
		t.Error(err)
	}

	// What is changed in the middle is a doubt.
	if _, err := a.Configure(t.Context(), []server.Setting{{Name: "autovacuum_naptime", Value: "17s"}}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(a.Close(), r.journal.Close()); err != nil {
			t.Error(err)
		}
	}()
	r.warnings = nil
	if err := r.stillConfigured(t.Context(), "c1"); err != nil || len(r.warnings) != 0 {
		t.Errorf("nothing was changed: %v, %v", r.warnings, err)
	}
	ask("ALTER SYSTEM RESET autovacuum_naptime")
	if err := r.stillConfigured(t.Context(), "c1"); err != nil || len(r.warnings) != 1 {
		t.Fatalf("%v, %v", r.warnings, err)
	}
	if w := r.warnings[0]; w.Code != "configuration-changed" || w.Forbids != results.ForbidsVerdict || !slices.Equal(w.Cells, []string{"c1"}) {
		t.Errorf("%+v", w)
	}
}
