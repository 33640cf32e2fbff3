package server

import (
	"strings"
	"testing"
	"time"
)

func TestIsolation(t *testing.T) {
	check := func(name, value, context, category, isolation, schedule string, assumed bool) {
		t.Helper()
		i, s, a, reason := Isolation(name, value, context, category)
		if i != isolation || s != schedule || a != assumed || reason == "" {
			t.Errorf("%s=%s (%s, %s): %s, %s, assumed %v (%s)", name, value, context, category, i, s, a, reason)
		}
	}
	session := func(name, value string) {
		t.Helper()
		check(name, value, "superuser", "", "session", "slice", false)
	}
	instance := func(name, value, schedule string) {
		t.Helper()
		check(name, value, "sighup", "", "instance", schedule, false)
	}
	session("track_activities", "on")
	session("TRACK_IO_TIMING", "on")
	session("statement_timeout", "100")
	session("plan_cache_mode", "auto")
	session("auto_explain.log_analyze", "on")
	// The same setting, by its value.
	session("log_min_duration_statement", "-1")
	session("log_min_duration_statement", "100")
	session("log_min_duration_statement", "100s")
	instance("log_min_duration_statement", "0", "block")
	instance("log_min_duration_statement", "0ms", "block")
	session("log_min_duration_sample", "-1")
	instance("log_min_duration_sample", "0", "block")
	session("auto_explain.log_min_duration", "1h")
	instance("auto_explain.log_min_duration", "0", "block")
	session("log_transaction_sample_rate", "0")
	session("log_transaction_sample_rate", "0.0")
	instance("log_transaction_sample_rate", "0.01", "block")
	session("log_duration", "off")
	session("log_duration", "no")
	instance("log_duration", "on", "block")
	instance("log_duration", "what", "block") // in doubt, as if it acted
	session("log_executor_stats", "false")
	instance("log_executor_stats", "true", "block")
	session("log_statement", "none")
	instance("log_statement", "mod", "block")
	session("default_transaction_isolation", "repeatable read")
	instance("default_transaction_isolation", "serializable", "slice")
	instance("synchronous_commit", "off", "block")
	instance("wal_compression", "lz4", "block")
	instance("commit_delay", "10", "block")
	instance("backend_flush_after", "1MB", "block")
	instance("pg_stat_statements.track", "all", "slice")
	instance("track_activity_query_size", "1MB", "slice")
	check("data_checksums", "on", "internal", "Preset Options", "cluster", "block", false)
	check("log_connections", "on", "superuser-backend", "", "connection", "block", false)
	check("scram_iterations", "1", "user", "", "connection", "block", false)
	// Not in the table.
	check("enable_seqscan", "off", "user", "Query Tuning / Planner Method Configuration", "session", "slice", true)
	check("work_mem", "1MB", "user", "Resource Usage / Memory", "session", "slice", true)
	check("gin_fuzzy_search_limit", "5", "user", "Client Connection Defaults / Other Defaults", "session", "slice", true)
	check("vacuum_cost_delay", "5", "user", "Resource Usage / Cost-Based Vacuum Delay", "instance", "block", false)
	check("session_replication_role", "replica", "superuser", "Client Connection Defaults / Statement Behavior", "instance", "block", false)
	check("shared_buffers", "1GB", "postmaster", "Resource Usage / Memory", "instance", "block", false)
	check("foo.bar", "1", "user", "Customized Options", "instance", "block", false)
	check("block_size", "8192", "internal", "Preset Options", "cluster", "block", false)
}

// TestIsolationOfRealSettings holds the table against a server: every name in
// it that the server lacks must be one that another version has.
func TestIsolationOfRealSettings(t *testing.T) {
	conn := connect(t, sharedInstance(t).Config())
	var all []string
	for name := range landingsByName {
		if option, setting := ClusterOption(name); setting {
			t.Errorf("%s is given to initdb as %s, and nobody looks it up here", name, option)
		}
		all = append(all, name)
	}
	facts, err := Facts(t.Context(), conn, all)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := "log_autoanalyze_min_duration io_method io_workers io_min_workers io_max_workers timing_clock_source track_cost_delay_timing transaction_timeout " +
		"summarize_wal scram_iterations old_snapshot_threshold track_wal_io_timing compute_query_id idle_session_timeout client_connection_check_interval huge_page_size log_min_duration_sample log_statement_sample_rate log_transaction_sample_rate plan_cache_mode wal_init_zero wal_recycle"
	for _, name := range all {
		if _, ok := facts[name]; !ok && !strings.HasPrefix(name, "auto_explain.") && !strings.Contains(" "+elsewhere+" ", " "+name+" ") {
			t.Errorf("no server has the setting %s", name)
		}
	}
}

func TestCanAct(t *testing.T) {
	sel := Workload{Protocol: "simple", Clients: 1, Statements: []string{"SELECT 1"}, Builtin: "select1"}
	ins := Workload{Protocol: "prepared", Clients: 8, Statements: []string{"INSERT INTO t DEFAULT VALUES"}, Builtin: "insert"}
	tx := sel
	tx.SingleTransaction = true
	own := Workload{Protocol: "simple", Clients: 2, Statements: []string{"BEGIN;", "SELECT f(:x)", "COMMIT;"}, Parameters: true}
	check := func(name string, w Workload, acts bool, needs Needs) {
		t.Helper()
		reason, n := CanAct(name, w)
		if (reason == "") != acts || n != needs {
			t.Errorf("%s under %+v: %q, needs %q", name, w, reason, n)
		}
	}
	for _, name := range []string{"track_activities", "statement_timeout", "log_min_duration_statement", "no_such_setting"} {
		for _, w := range []Workload{sel, ins, tx, own} {
			check(name, w, true, "")
		}
	}
	check("idle_in_transaction_session_timeout", sel, false, "")
	check("idle_in_transaction_session_timeout", tx, true, "")
	check("idle_in_transaction_session_timeout", own, true, "")
	check("idle_session_timeout", sel, true, "")
	check("idle_session_timeout", tx, false, "")
	check("lock_timeout", sel, false, "")
	check("deadlock_timeout", ins, true, "") // clients wait to extend the table
	check("plan_cache_mode", ins, false, "")
	check("plan_cache_mode", own, true, "") // f may be PL
	check("plan_cache_mode", Workload{Protocol: "prepared", Parameters: true, Statements: []string{"SELECT :a"}}, true, "")
	check("plan_cache_mode", Workload{Protocol: "extended", Parameters: true, Statements: []string{"SELECT :a"}}, false, "")
	check("track_functions", sel, false, "")
	check("track_functions", ins, false, "")
	check("track_functions", own, true, "")
	check("Track_IO_Timing", sel, true, NeedsIO)
	check("track_wal_io_timing", ins, true, NeedsWAL)
	check("synchronous_commit", ins, true, NeedsWAL)
	check("checkpoint_flush_after", ins, true, NeedsWAL)
	check("log_autovacuum_min_duration", ins, false, "") // no autovacuum comes in no time
	long := ins
	long.Longest = 2 * time.Minute
	check("log_autovacuum_min_duration", long, true, "")

	unmet := func(n Needs, c Counters, want bool) {
		t.Helper()
		if got := n.Unmet(c) != ""; got != want {
			t.Errorf("%q.Unmet(%+v) = %v", n, c, got)
		}
	}
	unmet(NeedsNothing, Counters{}, false)
	unmet(NeedsIO, Counters{BlocksHit: 5, WALBytes: 100}, true)
	unmet(NeedsIO, Counters{PagesRead: 1}, false)
	unmet(NeedsIO, Counters{PagesRead: 50, Transactions: 100_000}, true) // catalogs
	unmet(NeedsIO, Counters{PagesRead: 50_000, Transactions: 100_000}, false)
	unmet(NeedsIO, Counters{TempBytes: 1 << 20, Transactions: 100}, false)
	unmet(NeedsWAL, Counters{PagesRead: 5}, true)
	unmet(NeedsWAL, Counters{WALBytes: 5000, Transactions: 100_000}, true) // the checkpointer
	unmet(NeedsWAL, Counters{WALBytes: 100_000, Transactions: 1000}, false)
}
