package server

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"

	"pgtare/matrix/host"
)

// CPU returns the CPU time of all processes that the running postmaster has
// had, itself included: those that live to the nanosecond, those that have
// ended together in steps of 10 ms. What the server's processes start in their
// turn (an archive_command) counts once it has been waited for. It takes one
// system call per process.
func (in *Instance) CPU() (total time.Duration, err error) {
	p := in.postmaster()
	if p == nil {
		return 0, fmt.Errorf("read the CPU time of instance %s: it is not running", in.id)
	}
	total, err = familyCPU(p.pid, in.data())
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of instance %s: %w", in.id, err)
	}
	return total, nil
}

// familyCPU is the CPU time of a postmaster and of all the children it has had.
// data is as in family.
func familyCPU(postmaster int, data string) (total time.Duration, err error) {
	// A process that ends between two looks would be counted twice or not at
	// all, so the readings must be of one and the same set of processes. On a
	// server that forks and ends all the time that may never be: the last
	// reading is then wrong by what one short-lived process used.
	const tries = 10
	for range tries {
		before, ended, err := family(postmaster, data)
		if err != nil {
			return 0, err
		}
		total = ended
		for _, pid := range before {
			total += processCPU(pid)
		}
		after, endedAfter, err := family(postmaster, data)
		if err != nil {
			return 0, err
		}
		if ended == endedAfter && slices.Equal(before, after) {
			break
		}
	}
	return total, nil
}

// family returns the postmaster and its children, and the CPU time of those
// children that have ended. data is the directory that its processes work in,
// by which they are found where the kernel doesn't list children; "": not known.
func family(postmaster int, data string) (pids []int, ended time.Duration, err error) {
	st, err := host.ReadStat(postmaster)
	if err != nil {
		return nil, 0, err
	}
	ended = st.Children
	pids = []int{postmaster}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", postmaster))
	if err != nil { // a kernel without CONFIG_PROC_CHILDREN
		if data == "" {
			return nil, 0, err
		}
		pids = append(pids, processesIn(data)...)
		slices.Sort(pids)
		return slices.Compact(pids), ended, nil
	}
	for _, f := range strings.Fields(string(children)) {
		if pid, err := strconv.Atoi(f); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, ended, nil
}

// processCPU reads a process's CPU clock, all its threads'; 0 where it has
// been waited for.
func processCPU(pid int) time.Duration {
	var ts unix.Timespec
	const sched = 2 // CPUCLOCK_SCHED, see clock_getcpuclockid(3)
	if unix.ClockGettime(int32(^pid<<3|sched), &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// BackgroundCounters are what an instance has done since its statistics were
// reset, whoever did it. Compare two readings.
type BackgroundCounters struct {
	WALBytes int64 // inserted since the cluster was made
	// PagesRead are pages that were not in shared buffers, of all databases.
	PagesRead int64
	// PagesWritten are pages of shared buffers written by the checkpointer,
	// the background writer and backends, and pages by which files grew.
	PagesWritten int64
	Checkpoints  int64 // begun, timed and requested; of timed ones also those that found nothing to do
	Vacuums      int64 // autovacuum and autoanalyze runs in this database that ended
}

// Sub returns c - before.
func (c BackgroundCounters) Sub(before BackgroundCounters) BackgroundCounters {
	return BackgroundCounters{
		c.WALBytes - before.WALBytes, c.PagesRead - before.PagesRead, c.PagesWritten - before.PagesWritten,
		c.Checkpoints - before.Checkpoints, c.Vacuums - before.Vacuums,
	}
}

// Background reads the counters of conn's server; Vacuums of its database.
// Backends report as they disconnect, else within a second of going idle: read
// them after the measured connections are closed. It takes 0.3 s, before 15
// 0.9 s, so that what the checkpointer and the background writer have done is
// reported, too. The role needs pg_read_all_stats, as a superuser has.
func Background(ctx context.Context, conn *pgconn.PgConn) (BackgroundCounters, error) {
	// The background writer reports every bgwriter_delay, 200 ms; the
	// checkpointer just after it tells the session that it is done.
	const reported = 300 * time.Millisecond
	major := majorOf(conn)
	if err := freshStatistics(ctx, conn, reported); err != nil {
		return BackgroundCounters{}, fmt.Errorf("read the background counters: %w", err)
	}
	written := "(SELECT buffers_checkpoint + buffers_clean + buffers_backend FROM pg_catalog.pg_stat_bgwriter)"
	checkpoints := "(SELECT checkpoints_timed + checkpoints_req FROM pg_catalog.pg_stat_bgwriter)"
	if major >= 17 {
		// pg_stat_io has the checkpointer's and the background writer's, too.
		bytes := "(coalesce(writes, 0) + coalesce(extends, 0)) * op_bytes"
		if major >= 18 {
			bytes = "coalesce(write_bytes, 0) + coalesce(extend_bytes, 0)"
		}
		written = "(SELECT sum(" + bytes + ") / current_setting('block_size')::int FROM pg_catalog.pg_stat_io WHERE object = 'relation')"
		checkpoints = "(SELECT num_timed + num_requested FROM pg_catalog.pg_stat_checkpointer)"
	}
	rows, err := query(ctx, conn, `
SELECT `+insertedWAL+`,
       (SELECT sum(blks_read)::int8 FROM pg_catalog.pg_stat_database),
       `+written+`::int8,
       `+checkpoints+`,
       (SELECT sum(autovacuum_count + autoanalyze_count)::int8 FROM pg_catalog.pg_stat_all_tables)`)
	if err != nil {
		return BackgroundCounters{}, fmt.Errorf("read the background counters: %w", err)
	}
	r := rows[0]
	return BackgroundCounters{num(r[0]), num(r[1]), num(r[2]), num(r[3]), num(r[4])}, nil
}
