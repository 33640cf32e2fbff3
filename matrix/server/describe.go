package server

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/results"
)

// describe connects and asks what the server is. What the role may not see
// (the pg_config view, settings of superusers) is left out.
func describe(ctx context.Context, cfg *pgconn.Config, inst Installation) (results.Server, error) {
	s := results.Server{Label: inst.Label, Origin: inst.Origin, Source: inst.Source, Version: inst.Version, VersionNum: inst.VersionNum}
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return s, fmt.Errorf("describe server %s: %w", inst.Label, err)
	}
	defer closeConn(conn)
	rows, err := query(ctx, conn, `SELECT version(), current_setting('server_version'), current_setting('server_version_num'), current_setting('debug_assertions'), pg_catalog.has_function_privilege('pg_catalog.pg_config()', 'EXECUTE')`)
	if err != nil {
		return s, fmt.Errorf("describe server %s: %w", inst.Label, err)
	}
	r := rows[0]
	s.FullString, s.Assertions = r[0], r[3] == "on"
	s.Version, s.VersionNum = bareVersion(r[1]), atoi(r[2])
	if m := compiledBy.FindStringSubmatch(s.FullString); m != nil {
		s.Compiler = m[1]
	}
	if r[4] == "t" {
		rows, err = query(ctx, conn, `SELECT name, setting FROM pg_catalog.pg_config ORDER BY name`)
		if err != nil {
			return s, fmt.Errorf("describe server %s: %w", inst.Label, err)
		}
		s.Build = map[string]string{}
		for _, r := range rows {
			s.Build[r[0]] = r[1]
		}
	}
	// Not this session's own, nor where the files lie: a managed instance has
	// a new random path each time. Some stand there as they are, whatever their
	// default: they decide about levels, and differ between versions.
	rows, err = query(ctx, conn, `
SELECT name, coalesce(pg_catalog.current_setting(name, true), '')
  FROM pg_catalog.pg_settings
 WHERE (setting IS DISTINCT FROM boot_val AND source NOT IN ('client', 'session')
        OR name IN ('shared_buffers', 'huge_pages', 'huge_pages_status', 'io_method', 'data_checksums', 'wal_level', 'fsync', 'synchronous_commit', 'full_page_writes', 'jit'))
   AND name NOT IN ('data_directory', 'config_file', 'hba_file', 'ident_file', 'external_pid_file', 'unix_socket_directories')
 ORDER BY name`)
	if err != nil {
		return s, fmt.Errorf("describe server %s: %w", inst.Label, err)
	}
	s.Settings = map[string]string{}
	for _, r := range rows {
		s.Settings[r[0]] = maskSetting(r[0], r[1])
	}
	return s, nil
}

var compiledBy = regexp.MustCompile(`compiled by (.*?)(?:, \d+-bit)?$`)

// bareVersion cuts what packagers add: "15.18 (Debian 15.18-0+deb12u1)".
func bareVersion(v string) string {
	v, _, _ = strings.Cut(strings.TrimSpace(v), " ")
	return v
}
