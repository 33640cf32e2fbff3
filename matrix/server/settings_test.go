package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

func set(name, value string) Setting { return Setting{Name: name, Value: value} }

func TestProbe(t *testing.T) {
	in := sharedInstance(t)
	good := func(name, value, want string) {
		t.Helper()
		back, err := Probe(t.Context(), in.Config(), []Setting{set(name, value)})
		if err != nil || back[name] != want {
			t.Errorf("%s=%s: %q, %v; want %q", name, value, back[name], err, want)
		}
	}
	good("track_activities", "off", "off")
	good("track_activities", "0", "off")
	good("Track_Activities", "TRUE", "on")
	good("statement_timeout", "100", "100 ms")
	good("statement_timeout", "100s", "100000 ms")
	good("statement_timeout", "1.5 min", "90000 ms")
	good("work_mem", "1MB", "1024 kB")
	good("temp_buffers", "1MB", "128 x 8kB")
	good("search_path", `"a b", c`, `"a b", c`)
	good("log_statement", "MOD", "mod")
	good("random_page_cost", "1.10", "1.1")
	good("default_transaction_isolation", "serializable", "serializable")
	good("DateStyle", "German", "German, DMY")
	good("log_disconnections", "yes", "on") // only at connecting: set_config can't
	good("jit", "off", "off")
	if shared.install.VersionNum >= 120000 {
		good("plan_cache_mode", "force_generic_plan", "force_generic_plan")
	}

	// A default is not sent.
	back, err := Probe(t.Context(), in.Config(), []Setting{{Name: "statement_timeout", Default: true}, set("lock_timeout", "5s")})
	if err != nil || back["statement_timeout"] != "0 ms" || back["lock_timeout"] != "5000 ms" {
		t.Errorf("default and another: %v, %v", back, err)
	}
	// It must not come from the connection either.
	cfg := in.Config()
	cfg.RuntimeParams["statement_timeout"] = "7"
	if _, err := Probe(t.Context(), cfg, []Setting{{Name: "statement_timeout", Default: true}}); err == nil || !strings.Contains(err.Error(), "7 ms") {
		t.Errorf("a default that the connection sets: %v", err)
	}

	bad := func(unknown bool, words string, settings ...Setting) {
		t.Helper()
		_, err := Probe(t.Context(), in.Config(), settings)
		var na *NotApplicable
		if !errors.As(err, &na) {
			t.Errorf("%v: %v, want NotApplicable", settings, err)
			return
		}
		if last := settings[len(settings)-1]; na.Setting != last || na.Unknown != unknown || !strings.Contains(na.Words, words) {
			t.Errorf("%v: %+v, want %v unknown=%v with %q", settings, na, last, unknown, words)
		}
	}
	bad(true, "unrecognized configuration parameter", set("stats_command_string", "on"))
	bad(true, "unrecognized configuration parameter", Setting{Name: "stats_command_string", Default: true})
	bad(false, "requires a Boolean value", set("track_activities", "perhaps"))
	bad(false, "outside the valid range", set("statement_timeout", "-5"))
	bad(false, "Valid units", set("statement_timeout", "5 lightyears"))
	bad(false, "cannot be changed", set("shared_buffers", "1GB"))
	bad(false, "cannot be changed", set("autovacuum", "off"))
	bad(false, "cannot be changed", set("server_version_num", "1"))
	bad(true, "no library that defines it is loaded", set("pg_stat_statements.trak", "all"))
	bad(true, "no library that defines it is loaded", set("pg_stat_statements.track", "all"))
	bad(false, "accepted and shown", set("log_connections", "on"))
	bad(false, "can't be proven", set("role", "postgres"))
	// The guilty one is found among several.
	bad(true, "unrecognized", set("track_activities", "on"), set("statement_timeout", "100"), set("nonsense", "1"))

	// A server that can't be reached is no n/a.
	cfg = in.Config()
	cfg.Host += "-gone"
	var na *NotApplicable
	if _, err := Probe(t.Context(), cfg, []Setting{set("track_activities", "on")}); err == nil || errors.As(err, &na) {
		t.Errorf("no server: %v", err)
	}
	cfg = in.Config()
	cfg.Database = "none"
	if _, err := Probe(t.Context(), cfg, []Setting{set("nonsense", "on")}); err == nil || errors.As(err, &na) {
		t.Errorf("no database: %v", err)
	}
}

// TestProbeRole: what only a superuser may set is n/a for others, in the
// server's words.
func TestProbeRole(t *testing.T) {
	in := scratch.get(t)
	ask(t, connect(t, in.Config()), "DROP ROLE IF EXISTS mere; CREATE ROLE mere LOGIN")
	cfg := in.Config()
	cfg.User = "mere"
	_, err := Probe(t.Context(), cfg, []Setting{set("statement_timeout", "5"), set("track_activities", "off")})
	var na *NotApplicable
	if !errors.As(err, &na) || na.Setting.Name != "track_activities" || !strings.Contains(na.Words, "permission denied") {
		t.Errorf("not a superuser: %v", err)
	}
}

// TestProbeLoadedLibrary: a misspelt setting of a library that is loaded, and
// a right one.
func TestProbeLoadedLibrary(t *testing.T) {
	in := configured.get(t)
	back, err := Probe(t.Context(), in.Config(), []Setting{set("auto_explain.log_min_duration", "1h")})
	if err != nil || back["auto_explain.log_min_duration"] != "3600000 ms" {
		t.Errorf("a loaded library's setting: %v, %v", back, err)
	}
	_, err = Probe(t.Context(), in.Config(), []Setting{set("auto_explain.log_min_durration", "1h")})
	var na *NotApplicable
	if !errors.As(err, &na) || !na.Unknown {
		t.Errorf("a loaded library's misspelt setting: %v", err)
	}
}

// TestLogConnectionsTrap shows why Probe refuses log_connections: the server
// takes it from the connection, shows it, and logs nothing more than without.
func TestLogConnectionsTrap(t *testing.T) {
	testLogConnections(t, scratch.get(t))
}

func testLogConnections(t *testing.T, in *Instance) {
	t.Helper()
	_, start, err := in.LogSince(-1)
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, in.Config(), set("log_connections", "on"))
	if got := ask(t, conn, "SELECT setting <> '', source FROM pg_settings WHERE name = 'log_connections'"); got[0][0] != "t" || got[0][1] != "client" {
		t.Errorf("log_connections is not shown as set by the client: %v", got)
	}
	closeConn(conn)
	time.Sleep(200 * time.Millisecond)
	text, _, err := in.LogSince(start)
	if err != nil {
		t.Fatal(err)
	}
	if text != "" {
		t.Errorf("log_connections=on at connecting logged:\n%s", text)
	}
}

func TestProof(t *testing.T) {
	in := sharedInstance(t)
	panel := []string{"statement_timeout", "track_activities", "work_mem"}
	cell := []Setting{set("statement_timeout", "100"), {Name: "track_activities", Default: true}}
	back, err := Probe(t.Context(), in.Config(), cell)
	if err != nil {
		t.Fatal(err)
	}
	proof := Proof(cell, back, panel)
	check := func(want string, settings ...Setting) {
		t.Helper()
		err := proof(t.Context(), connect(t, in.Config(), settings...))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a connection with %v: %v, want %q", settings, err, want)
		}
	}
	check("", set("statement_timeout", "100"))
	check("", set("statement_timeout", "0.1s"), set("lock_timeout", "5")) // not of the panel
	check("statement_timeout is 0 ms", set("lock_timeout", "5"))
	check("statement_timeout is 101 ms", set("statement_timeout", "101"))
	check("track_activities is off", set("statement_timeout", "100"), set("track_activities", "off"))
	check("work_mem is 64 kB", set("statement_timeout", "100"), set("work_mem", "64kB"))

	// A SET that came in between.
	conn := connect(t, in.Config(), set("statement_timeout", "100"))
	ask(t, conn, "SET statement_timeout = 5000")
	if err := proof(t.Context(), conn); err == nil {
		t.Error("a changed setting was proven")
	}
	if err := Proof(nil, nil, nil)(t.Context(), conn); err != nil {
		t.Error(err)
	}
}

// TestProofIsOneText: all cells of a panel send the same query.
func TestProofIsOneText(t *testing.T) {
	in := sharedInstance(t)
	panel := []string{"work_mem", "Track_Activities"}
	var texts []string
	for _, cell := range [][]Setting{nil, {set("work_mem", "1MB")}, {set("Track_Activities", "on"), set("work_mem", "2MB")}} {
		back, err := Probe(t.Context(), in.Config(), cell)
		if err != nil {
			t.Fatal(err)
		}
		conn := connect(t, in.Config(), cell...)
		if err := Proof(cell, back, panel)(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		other := connect(t, in.Config())
		// The last query of an idle session.
		texts = append(texts, ask(t, other, "SELECT query FROM pg_stat_activity WHERE pid = "+fmt.Sprint(conn.PID()))[0][0])
	}
	if texts[0] == "" || texts[0] != texts[1] || texts[0] != texts[2] {
		t.Errorf("the cells' proofs differ:\n%s", strings.Join(texts, "\n"))
	}
}

func TestFacts(t *testing.T) {
	conn := connect(t, sharedInstance(t).Config())
	facts, err := Facts(t.Context(), conn, []string{"statement_timeout", "timezone", "log_statement", "none.such", "it's"})
	if err != nil {
		t.Fatal(err)
	}
	if len(facts) != 3 {
		t.Fatalf("facts of %d settings, want 3", len(facts))
	}
	if f := facts["statement_timeout"]; f.Context != "user" || f.VarType != "integer" || f.Unit != "ms" || f.BootVal != "0" || f.Source != "default" || !strings.HasPrefix(f.Category, "Client Connection Defaults") {
		t.Errorf("statement_timeout: %+v", f)
	}
	if f := facts["timezone"]; f.Name != "TimeZone" || f.Source != "configuration file" || f.Value != "UTC" {
		t.Errorf("timezone: %+v", f)
	}
	if f := facts["log_statement"]; f.VarType != "enum" || f.EnumVals != "{none,ddl,mod,all}" || f.Context != "superuser" {
		t.Errorf("log_statement: %+v", f)
	}
	names, err := Names(t.Context(), conn)
	if err != nil || len(names) < 250 {
		t.Errorf("%d names, %v", len(names), err)
	}
}

func TestIOCounters(t *testing.T) {
	in := scratch.get(t)
	testIOCounters(t, in.Config())
}

// testIOCounters reads and writes known amounts in a session that is then
// closed.
func testIOCounters(t *testing.T, cfg *pgconn.Config) {
	t.Helper()
	watch := connect(t, cfg.Copy())
	read := func() Counters {
		t.Helper()
		c, err := IOCounters(t.Context(), watch)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	during := func(settings []Setting, sqls ...string) Counters {
		t.Helper()
		before := read()
		conn := connect(t, cfg.Copy(), settings...)
		for _, sql := range sqls {
			ask(t, conn, sql)
		}
		closeConn(conn)
		// The backend reports as it ends, which the client doesn't wait for.
		waitFor(t, "the backend to end", func() bool {
			return ask(t, watch, fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d", conn.PID()))[0][0] == "0"
		})
		return read().Sub(before)
	}
	c := during(nil, "DROP TABLE IF EXISTS big", "CREATE TABLE big AS SELECT repeat('x', 1000) t FROM generate_series(1, 10000)")
	if c.WALBytes < 5_000_000 || c.Transactions < 1 {
		t.Errorf("a written table: %+v", c)
	}
	if NeedsWAL.Unmet(c) != "" {
		t.Error("written WAL is not seen")
	}
	c = during(nil, "SET work_mem = '64kB'; SELECT count(*) FROM (SELECT t || i FROM big, generate_series(1, 1) i ORDER BY 1) s")
	if c.TempBytes < 1_000_000 || c.BlocksHit+c.PagesRead < 1000 {
		t.Errorf("a sort on disk: %+v", c)
	}
	// Reading only what is in shared buffers.
	c = during(nil, "SELECT count(*) FROM big", "SELECT count(*) FROM big")
	if c.BlocksHit < 1000 {
		t.Errorf("a cached scan: %+v", c)
	}
	if NeedsIO.Unmet(c) == "" {
		t.Errorf("a cached scan has read: %+v", c)
	}
}
