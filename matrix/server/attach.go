package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/results"
)

// SchemaName is the schema that pgtare makes on attached servers.
const SchemaName = "pgtare"

// schemaMark is the comment by which pgtare knows its schema again.
const schemaMark = "Made by pgtare, which drops it when it ends."

// schemaLock is the advisory lock that is held while a schema is in use: "pgtare" in ASCII.
const schemaLock = 0x706774617265

// Attached is a running server that somebody else owns. One session of pgtare
// stays open on it, and holds the lock that tells a schema in use from one
// that was left over.
type Attached struct {
	inst   Installation
	config *pgconn.Config
	schema string
	local  bool

	mu     sync.Mutex
	keeper *pgconn.PgConn
	closed bool
}

// Attach connects to a running server and makes the schema pgtare there; one
// that a dead pgtare left is dropped first, one that isn't pgtare's is
// refused. A server that takes no writes (a standby, or
// default_transaction_read_only) gets no schema.
func Attach(ctx context.Context, inst Installation) (*Attached, error) {
	if inst.Conninfo == "" {
		panic("server: Attach without a conninfo")
	}
	cfg, err := attachedConfig(inst.Conninfo)
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", inst.Label, err)
	}
	a := &Attached{inst: inst, config: cfg}
	a.keeper, err = pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", inst.Label, err)
	}
	if err := a.prepare(ctx); err != nil {
		closeConn(a.keeper)
		return nil, fmt.Errorf("attach to %s: %w", inst.Label, err)
	}
	return a, nil
}

// attachedConfig reads a conninfo as libpq would, environment included.
func attachedConfig(conninfo string) (*pgconn.Config, error) {
	cfg, err := pgconn.ParseConfig(conninfo)
	if err != nil {
		// pgconn's text repeats the conninfo with what it takes for the
		// password removed; ours shows a masked one already.
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		} else {
			err = errors.New("the conninfo can't be read")
		}
		return nil, usagef("%v", err)
	}
	return cfg, nil
}

func (a *Attached) prepare(ctx context.Context) error {
	rows, err := query(ctx, a.keeper, `
SELECT pg_catalog.pg_is_in_recovery() OR current_setting('transaction_read_only')::bool,
       pg_catalog.pg_backend_pid(), extract(epoch FROM backend_start)
  FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid()`)
	if err != nil {
		return fmt.Errorf("look at the server: %w", err)
	}
	if len(rows) != 1 {
		return errors.New("look at the server: pg_stat_activity does not show this session")
	}
	started, _ := strconv.ParseFloat(rows[0][2], 64)
	a.local = isBackend(atoi(rows[0][1]), started)
	if rows[0][0] == "t" {
		return nil
	}
	return a.makeSchema(ctx)
}

func (a *Attached) makeSchema(ctx context.Context) error {
	rows, err := query(ctx, a.keeper, fmt.Sprintf("SELECT pg_catalog.pg_try_advisory_lock(%d)", schemaLock))
	if err != nil {
		return fmt.Errorf("lock the schema %s: %w", SchemaName, err)
	}
	if rows[0][0] != "t" {
		return usagef("another pgtare is at work in this database; wait for its end or use another database")
	}
	rows, err = query(ctx, a.keeper, fmt.Sprintf("SELECT pg_catalog.obj_description(oid, 'pg_namespace') FROM pg_catalog.pg_namespace WHERE nspname = %s", literal(SchemaName)))
	if err != nil {
		return fmt.Errorf("look for the schema %s: %w", SchemaName, err)
	}
	if len(rows) > 0 {
		if rows[0][0] != schemaMark {
			return usagef("the database has a schema %s that pgtare did not make; rename it or use another database", SchemaName)
		}
		if err := a.dropSchema(ctx, a.keeper); err != nil {
			return fmt.Errorf("drop the schema %s that an earlier pgtare left: %w", SchemaName, err)
		}
	}
	// One simple query is one transaction: never a schema without its mark.
	_, err = query(ctx, a.keeper, fmt.Sprintf("CREATE SCHEMA %s; COMMENT ON SCHEMA %[1]s IS %s", SchemaName, literal(schemaMark)))
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == "42501" {
		return nil // good enough for what needs no table
	}
	if err != nil {
		return fmt.Errorf("make the schema %s: %w", SchemaName, err)
	}
	a.schema = SchemaName
	return nil
}

func (a *Attached) dropSchema(ctx context.Context, conn *pgconn.PgConn) error {
	_, err := query(ctx, conn, "SET client_min_messages = warning; DROP SCHEMA "+SchemaName+" CASCADE")
	return err
}

// Close drops the schema and leaves. It takes no context, because it must also
// run after the caller's has been cancelled; it takes at most ten seconds.
func (a *Attached) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	defer func() { closeConn(a.keeper) }()
	if a.schema == "" {
		return nil
	}
	err := a.dropSchema(ctx, a.keeper)
	if err != nil && a.keeper.IsClosed() {
		// The server was restarted, or cut this session off.
		conn, cerr := pgconn.ConnectConfig(ctx, a.config)
		if cerr != nil {
			return fmt.Errorf("drop the schema %s on %s: %w; drop it by hand", SchemaName, a.inst.Label, cerr)
		}
		defer closeConn(conn)
		err = a.dropSchema(ctx, conn)
	}
	if err != nil {
		return fmt.Errorf("drop the schema %s on %s: %w; drop it by hand", SchemaName, a.inst.Label, err)
	}
	return nil
}

// ID is the label: an attached server runs once.
func (a *Attached) ID() string { return a.inst.Label }

// Label returns the installation's label.
func (a *Attached) Label() string { return a.inst.Label }

// Managed is false.
func (a *Attached) Managed() bool { return false }

// LocalPID reports whether a backend's PID has been found to be one of this
// machine's postgres processes with the right start time. It isn't where the
// server is elsewhere, or in a PID namespace of its own.
func (a *Attached) LocalPID() bool { return a.local }

// Schema is pgtare, or "" on a server that takes no writes.
func (a *Attached) Schema() string { return a.schema }

// Config returns how to connect, as the user said.
func (a *Attached) Config() *pgconn.Config { return a.config.Copy() }

// Alive connects. A server that doesn't answer within ctx is not alive.
func (a *Attached) Alive(ctx context.Context) error {
	conn, err := pgconn.ConnectConfig(ctx, a.Config())
	if err != nil {
		return fmt.Errorf("server %s does not answer: %w", a.inst.Label, err)
	}
	defer closeConn(conn)
	if _, err := query(ctx, conn, "SELECT 1"); err != nil {
		return fmt.Errorf("server %s does not answer: %w", a.inst.Label, err)
	}
	return nil
}

// Describe asks the server what it is.
func (a *Attached) Describe(ctx context.Context) (results.Server, error) {
	return describe(ctx, a.Config(), a.inst)
}

// isBackend reports whether PID pid of this machine is a postgres process that
// started at the given time (seconds since 1970), to within two seconds: the
// kernel counts from boot in ticks, and the time of boot is kept in seconds.
func isBackend(pid int, started float64) bool {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil || !slices.Contains([]string{"postgres", "postmaster"}, strings.TrimSpace(string(comm))) {
		return false
	}
	boot, ok := bootTime()
	if !ok {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	i := strings.LastIndexByte(string(text), ')')
	fields := strings.Fields(string(text[i+1:]))
	const starttime = 22 - 3 // field 22, counted from 1; the state, field 3, comes first here
	if len(fields) <= starttime {
		return false
	}
	ticks, err := strconv.ParseFloat(fields[starttime], 64)
	if err != nil {
		return false
	}
	d := started - (boot + ticks/userHz)
	return -2 < d && d < 2
}

// userHz is the ticks per second in /proc, of all Linux ports that PostgreSQL is
// measured on.
const userHz = 100

func bootTime() (float64, bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	for l := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(l, "btime "); ok {
			s, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			return s, err == nil
		}
	}
	return 0, false
}
