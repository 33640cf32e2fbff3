package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// DefaultValue is what a setting is on a server where nobody has set it: the
// built-in value, or what initdb wrote into the configuration.
type DefaultValue struct {
	Name     string
	Value    string // as postgresql.conf would have it: 128MB
	Internal bool   // of the cluster or the build
}

// Defaults reads the defaults of a server that runs as it starts by itself, in
// order of names. Left out is what tells one server from another by nature
// (version, paths), what a session sets, and what is computed from the rest.
func Defaults(ctx context.Context, conn *pgconn.PgConn) ([]DefaultValue, error) {
	// A value that is computed from others' (-1: by the size of shared buffers)
	// is an override before 14, later a default; its default is what it was
	// computed for.
	rows, err := lookUp(ctx, conn, `
SELECT name, CASE WHEN context <> 'internal' AND (source = 'override' OR source = 'default' AND setting IS DISTINCT FROM boot_val) THEN coalesce(boot_val, '') ELSE coalesce(pg_catalog.current_setting(name, true), '') END, context = 'internal'
  FROM pg_catalog.pg_settings
 WHERE name NOT IN (`+literals(ownByNature)+`) AND source NOT IN ('client', 'session') AND category <> 'Customized Options' AND name NOT LIKE '%.%'
 ORDER BY name COLLATE "C"`)
	if err != nil {
		return nil, fmt.Errorf("read the defaults: %w", err)
	}
	list := make([]DefaultValue, len(rows))
	for i, r := range rows {
		list[i] = DefaultValue{Name: r[0], Value: r[1], Internal: r[2] == "t"}
	}
	return list, nil
}

// ownByNature are settings in which servers differ by being servers of their
// own, or in consequence of other settings.
var ownByNature = []string{
	"server_version", "server_version_num", "data_directory", "config_file", "hba_file", "ident_file", "external_pid_file", "unix_socket_directories", "port",
	"krb_server_keyfile", "application_name", "in_hot_standby", "is_superuser", "session_authorization", "role", "transaction_isolation", "transaction_read_only",
	"transaction_deferrable", "seed", "shared_memory_size", "shared_memory_size_in_huge_pages", "num_os_semaphores", "huge_pages_status", "max_connections",
}

// changedDefaults are defaults of PostgreSQL that differ between versions,
// and since when. Only the servers say what differs between them; this says
// to the reader which of it is the version's doing.
var changedDefaults = map[string]string{
	"autovacuum_vacuum_insert_threshold": "new in 13",
	"checkpoint_completion_target":       "0.5 before 14, then 0.9",
	"vacuum_cost_page_miss":              "10 before 14, then 2",
	"password_encryption":                "md5 before 14, then scram-sha-256",
	"log_checkpoints":                    "off before 15, then on",
	"log_autovacuum_min_duration":        "-1 before 15, then 10min",
	"hash_mem_multiplier":                "1 before 15, then 2",
	"vacuum_buffer_usage_limit":          "256kB in 16, then 2MB",
	"effective_io_concurrency":           "1 before 18, then 16",
	"maintenance_io_concurrency":         "10 before 18, then 16",
	"data_checksums":                     "off before 18, then on",
	"io_method":                          "new in 18",
	"log_lock_waits":                     "off before 19, then on",
	"jit":                                "on before 19, then off",
	"max_locks_per_transaction":          "64 before 19, then 128",
}

// DefaultChanged says when PostgreSQL changed the default of a setting, "" where
// it isn't known to have.
func DefaultChanged(name string) string { return changedDefaults[strings.ToLower(name)] }

// Aligned returns, by server, what its configuration must hold, and what its
// cluster must be made with, so that servers differ in nothing but their code:
// every setting whose defaults differ between them, as far as it has the
// setting, with the value of the first server that has it.
//
// Why the first: it is the baseline. Its figures are then the same whether its
// defaults are written out or not, and what the other servers' change by is what
// their own defaults weigh.
func Aligned(servers [][]DefaultValue) (conf, initdb [][]Setting) {
	conf, initdb = make([][]Setting, len(servers)), make([][]Setting, len(servers))
	for _, name := range differing(servers) {
		var first *DefaultValue
		for i, defaults := range servers {
			d, found := defaultOf(defaults, name)
			if !found {
				continue
			}
			if first == nil {
				first = &d
			}
			switch {
			case !first.Internal && !d.Internal:
				conf[i] = append(conf[i], Setting{Name: name, Value: first.Value})
			case name == "data_checksums": // of the rest initdb is told alike, or the build decides
				initdb[i] = append(initdb[i], Setting{Name: name, Value: first.Value})
			}
		}
	}
	return conf, initdb
}

// Differing returns the names that two servers or more have with different
// values, and those that not all of them have.
func Differing(servers [][]DefaultValue) (values, only []string) {
	values = differing(servers)
	for _, name := range allNames(servers) {
		if slices.ContainsFunc(servers, func(d []DefaultValue) bool { _, found := defaultOf(d, name); return !found }) {
			only = append(only, name)
		}
	}
	return values, only
}

func differing(servers [][]DefaultValue) (names []string) {
	for _, name := range allNames(servers) {
		seen := map[string]bool{}
		for _, defaults := range servers {
			if d, found := defaultOf(defaults, name); found {
				seen[d.Value] = true
			}
		}
		if len(seen) > 1 {
			names = append(names, name)
		}
	}
	return names
}

func allNames(servers [][]DefaultValue) (names []string) {
	for _, defaults := range servers {
		for _, d := range defaults {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// defaultOf finds a name in a list in order of names.
func defaultOf(defaults []DefaultValue, name string) (DefaultValue, bool) {
	i, found := slices.BinarySearchFunc(defaults, name, func(d DefaultValue, n string) int { return strings.Compare(d.Name, n) })
	if !found {
		return DefaultValue{}, false
	}
	return defaults[i], true
}
