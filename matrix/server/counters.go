package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Counters are what a database has read and written, since its statistics
// were reset. Compare two readings.
type Counters struct {
	PagesRead    int64   // pages that were not in shared buffers
	BlocksHit    int64   // pages that were
	ReadMs       float64 // time of reading pages, with track_io_timing
	WriteMs      float64 // time of writing pages in backends, with track_io_timing
	TempBytes    int64   // written to temporary files
	WALBytes     int64   // of the whole server, since its cluster was made
	Transactions int64   // committed and rolled back
}

// Sub returns c - before.
func (c Counters) Sub(before Counters) Counters {
	return Counters{
		c.PagesRead - before.PagesRead, c.BlocksHit - before.BlocksHit, c.ReadMs - before.ReadMs, c.WriteMs - before.WriteMs,
		c.TempBytes - before.TempBytes, c.WALBytes - before.WALBytes, c.Transactions - before.Transactions,
	}
}

// IOCounters reads the counters of conn's database. A backend reports what it
// has done when it disconnects, at once, else within a second of going idle:
// read them after the measured connections are closed. Before 15 it takes 0.6
// s, the age that a statistics file may have.
func IOCounters(ctx context.Context, conn *pgconn.PgConn) (Counters, error) {
	if err := freshStatistics(ctx, conn, 0); err != nil {
		return Counters{}, fmt.Errorf("read the I/O counters: %w", err)
	}
	rows, err := query(ctx, conn, `
SELECT blks_read, blks_hit, blk_read_time, blk_write_time, temp_bytes, xact_commit + xact_rollback,
       `+insertedWAL+`
  FROM pg_catalog.pg_stat_database WHERE datname = pg_catalog.current_database()`)
	if err != nil {
		return Counters{}, fmt.Errorf("read the I/O counters: %w", err)
	}
	if len(rows) != 1 {
		return Counters{}, fmt.Errorf("read the I/O counters: pg_stat_database has %d rows for this database", len(rows))
	}
	r := rows[0]
	return Counters{
		PagesRead: num(r[0]), BlocksHit: num(r[1]), ReadMs: float(r[2]), WriteMs: float(r[3]), TempBytes: num(r[4]), Transactions: num(r[5]), WALBytes: num(r[6]),
	}, nil
}

// insertedWAL is the WAL that the cluster has had, in bytes.
const insertedWAL = "CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_insert_lsn() END - '0/0'::pg_lsn"

// freshStatistics makes conn's session see all that processes reported up to
// more after now.
func freshStatistics(ctx context.Context, conn *pgconn.PgConn, more time.Duration) error {
	var sqls []string
	if majorOf(conn) >= 15 {
		sqls = append(sqls, "SELECT pg_catalog.pg_stat_force_next_flush()") // this session's own part
	} else {
		more += 600 * time.Millisecond // a statistics file may be read until it is half a second old
	}
	sqls = append(sqls, fmt.Sprintf("SELECT pg_catalog.pg_sleep(%.3f)", more.Seconds()), "SELECT pg_catalog.pg_stat_clear_snapshot()")
	for _, sql := range sqls {
		if _, err := query(ctx, conn, sql); err != nil {
			return err
		}
	}
	return nil
}

func num(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

func float(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f
}

// majorOf returns the server's major version, as it said at connecting.
func majorOf(conn *pgconn.PgConn) int {
	v := conn.ParameterStatus("server_version")
	end := strings.IndexFunc(v, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(v)
	}
	return atoi(v[:end])
}
