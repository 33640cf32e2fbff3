package server

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Shows is what a server must show while a workload runs because a setting has
// this value: no proof of the value is one of its effect. NeedsNothing where
// there is nothing to see.
func Shows(name, value string) Needs {
	name = strings.ToLower(name)
	p, known := landingsByName[name]
	switch {
	case name == "track_io_timing" && isOn(value):
		return NeedsTimes
	case name == "pg_stat_statements.track" && !strings.EqualFold(value, "none"),
		name == "shared_preload_libraries" && slices.Contains(Libraries(value), "pg_stat_statements"):
		return NeedsStatements
	case name == "jit" && isOn(value):
		return NeedsJIT
	case name == "huge_pages" && !strings.EqualFold(value, "off"):
		return NeedsHugePages
	case strings.HasPrefix(name, "log_auto"), name == "log_checkpoints", name == "log_lock_waits":
		// Their lines come with what autovacuum, checkpoints and waits do.
	case known && p.reason == inLog && (p.acts == nil || p.acts(value)):
		return NeedsLog
	}
	return NeedsNothing
}

// LogBytes is the size of all that the server has logged: its own log, and what
// its logging collector writes.
func (in *Instance) LogBytes() (n int64) {
	for _, path := range append(entries(filepath.Join(in.data(), "log")), in.logPath()) {
		if st, err := os.Stat(path); err == nil { // a log that is being rotated may be gone
			n += st.Size()
		}
	}
	return n
}

// StatementsCounted returns how many executions pg_stat_statements has counted
// on a managed instance since it started. The extension's view is made in
// template1, so that the catalogs of the database that is measured stay as they
// are in instances without it; what is counted is counted for all databases.
func (in *Instance) StatementsCounted(ctx context.Context) (calls int64, err error) {
	cfg := in.Config()
	cfg.Database = "template1"
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return 0, fmt.Errorf("look at pg_stat_statements: %w", err)
	}
	defer closeConn(conn)
	rows, err := query(ctx, conn, "SELECT count(*) FROM pg_catalog.pg_settings WHERE name = 'pg_stat_statements.max'")
	if err != nil {
		return 0, fmt.Errorf("look at pg_stat_statements: %w", err)
	}
	if rows[0][0] == "0" { // not loaded
		return 0, nil
	}
	if _, err := query(ctx, conn, "SET client_min_messages = error; CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err != nil {
		return 0, fmt.Errorf("look at pg_stat_statements: %w", err)
	}
	rows, err = query(ctx, conn, "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements")
	if err != nil {
		return 0, fmt.Errorf("look at pg_stat_statements: %w", err)
	}
	return num(rows[0][0]), nil
}

// HugePages says whether the shared memory of conn's server is in huge pages:
// by huge_pages_status from 17 on, before by what the kernel shows of process
// pid, the postmaster. known is false where neither tells.
func HugePages(ctx context.Context, conn *pgconn.PgConn, pid int) (huge, known bool, err error) {
	rows, err := query(ctx, conn, "SELECT coalesce(pg_catalog.current_setting('huge_pages_status', true), '')")
	if err != nil {
		return false, false, fmt.Errorf("ask for huge pages: %w", err)
	}
	if status := rows[0][0]; status == "on" || status == "off" {
		return status == "on", true, nil
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return false, false, nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		kB, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		if err == nil && key == "KernelPageSize" && kB > 64 { // ordinary pages have 4 to 64 kB
			return true, true, nil
		}
	}
	return false, true, nil
}
