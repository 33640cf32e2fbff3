package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/host"
	"pgtare/results"
)

// SchemaName is the schema that pgtare makes on attached servers.
const SchemaName = "pgtare"

// schemaMark is the comment by which pgtare knows its schema again.
const schemaMark = "Made by pgtare, which drops it when it ends."

// schemaLock is the advisory lock that is held as long as pgtare is at work on
// a server: "pgtare" in ASCII.
const schemaLock = 0x706774617265

// Attached is a running server that somebody else owns. One session of pgtare,
// the keeper, stays open on it and holds the lock that tells what is in use from
// what was left over.
type Attached struct {
	inst   Installation
	given  string         // the conninfo as the user gave it, secrets masked
	config *pgconn.Config // the way to the one server that the keeper has reached
	cfg    AttachConfig
	schema string
	system string // system_identifier of the cluster; "" where the role may not see it
	role   string

	postmaster int            // its process ID, where its processes are in this machine's /proc; else 0
	cpuReason  string         // why CPU time can't be had; "" where it can
	cpuMu      sync.Mutex     // of cpu
	cpu        *pgconn.PgConn // reads the server's /proc through the server; nil: it can't

	mu     sync.Mutex
	keeper *pgconn.PgConn
	ousted bool // the keeper was cut off, and the lock not to be had at the last try
	closed bool
	left   *host.Entry // of the schema
	// What Configure has done: altered is what may stand in the server's
	// configuration, alteredAt its entry in the journal; while sure, inForce is
	// in force there and pg_settings shows readback.
	altered   alteration
	alteredAt *host.Entry
	inForce   []Setting
	readback  map[string]string
	sure      bool
	loaded    string // when the configuration was read that has inForce
}

// AttachConfig says what pgtare is going to do on a server.
type AttachConfig struct {
	// Writes names the workload for which tables will be made; "": none are,
	// and so no schema.
	Writes string
	// Journal returns the journal in which is written what must be undone if
	// pgtare should be killed; it is asked for when there is something. nil:
	// only Close undoes it.
	Journal func() (*host.Journal, error)
	// Died says that a pgtare is known to have died at work on some server: this
	// may be the one, where its session has yet to end.
	Died bool
	// Log takes a sentence for each noteworthy step; nil: none.
	Log func(string)
}

// Attach connects to a running server, and changes nothing there but that it
// drops a schema pgtare that a dead pgtare left; one that isn't pgtare's is
// refused where tables are to be made. Only one pgtare at a time works on a
// server.
//
// Errors: *UsageError for what the user gave or may not do, another pgtare that
// is at work, a pooler in between; *UnavailableError for a server that can't be
// reached.
func Attach(ctx context.Context, inst Installation, cfg AttachConfig) (*Attached, error) {
	if inst.Conninfo == "" {
		panic("server: Attach without a conninfo")
	}
	if cfg.Log == nil {
		cfg.Log = func(string) {}
	}
	a := &Attached{inst: inst, given: inst.Label, cfg: cfg}
	if masked, err := checkConninfo(inst.Conninfo); err == nil {
		a.given = masked
	}
	pg, err := attachedConfig(inst.Conninfo)
	if err != nil {
		return nil, fmt.Errorf("--server %s: %w", a.given, err)
	}
	// That what is given at connecting arrives shows that there is no pooler.
	a.keeper, a.config, err = reach(ctx, unlimited(pg))
	if err != nil {
		return nil, noConnection(ctx, a.given, pg, err)
	}
	a.config.RuntimeParams = maps.Clone(pg.RuntimeParams)
	if err := a.prepare(ctx); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// keeperSetting is given to the keeper at connecting. Any role may, and all
// versions have it.
const keeperSetting = "statement_timeout"

// unlimited is the way to a session that no limit of the role's or the server's
// ends in the midst of its work, beside those that are for unlimit.
func unlimited(cfg *pgconn.Config) *pgconn.Config {
	cfg = cfg.Copy()
	cfg.RuntimeParams[keeperSetting] = "0"
	cfg.RuntimeParams["lock_timeout"] = "0"
	return cfg
}

// unlimit lifts, in a session of unlimited's, the limits that not all versions
// have.
func unlimit(ctx context.Context, conn *pgconn.PgConn) error {
	for _, limit := range []struct {
		since int
		name  string
	}{{14, "idle_session_timeout"}, {17, "transaction_timeout"}} {
		if majorOf(conn) < limit.since {
			continue
		}
		if _, err := query(ctx, conn, "SET "+limit.name+" = 0"); err != nil {
			return fmt.Errorf("keep a session open: %w", err)
		}
	}
	return nil
}

func (a *Attached) prepare(ctx context.Context) error {
	rows, err := query(ctx, a.keeper, `
SELECT pg_catalog.pg_is_in_recovery(), current_setting('transaction_read_only')::bool,
       pg_catalog.pg_backend_pid(), extract(epoch FROM backend_start), extract(epoch FROM pg_catalog.pg_postmaster_start_time()),
       session_user, pg_catalog.current_database(), pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
       (SELECT source FROM pg_catalog.pg_settings WHERE name = '`+keeperSetting+`')
  FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid()`)
	if err != nil {
		return fmt.Errorf("--server %s: look at the server: %w", a.given, err)
	}
	if len(rows) != 1 {
		return pooler(a.given, "pg_stat_activity does not show the session that asks")
	}
	r := rows[0]
	a.role = r[5]
	switch {
	case r[8] != "client":
		return pooler(a.given, fmt.Sprintf("a setting given at connecting (%s) did not arrive", keeperSetting))
	case atoi(r[2]) != int(a.keeper.PID()):
		return pooler(a.given, fmt.Sprintf("the session was said to be served by process %d, and is by %s", a.keeper.PID(), r[2]))
	}
	if err := unlimit(ctx, a.keeper); err != nil {
		return fmt.Errorf("--server %s: %w", a.given, err)
	}
	// No right is needed for it, unless somebody has taken it away.
	if rows, err := query(ctx, a.keeper, "SELECT system_identifier FROM pg_catalog.pg_control_system()"); err == nil {
		a.system = rows[0][0]
	}
	patience := lockGrace
	if a.cfg.Died {
		patience = lockPatience
	}
	if err := alone(ctx, a.keeper, a.given, patience); err != nil {
		return err
	}
	a.findCPU(ctx, atoi(r[2]), float(r[3]), float(r[4]))
	recovery, readOnly, create := r[0] == "t", r[1] == "t", r[7] == "t"
	switch w := a.cfg.Writes; {
	case w == "":
	case recovery:
		return usagef("--server %s: the server is in recovery (a standby) and takes no writes, and the workload %s writes; use -b select1 or a script that only reads, or the primary", a.given, w)
	case readOnly:
		return usagef("--server %s: sessions of role %s only read (default_transaction_read_only), and the workload %s writes; use -b select1 or a script that only reads, or another role", a.given, a.role, w)
	case !create:
		return usagef("--server %s: the workload %s needs a table, for which pgtare makes a schema, and role %s may not; it takes GRANT CREATE ON DATABASE %s TO %s, or use -b select1 or a script that only reads",
			a.given, w, a.role, quoteIdent(r[6]), quoteIdent(a.role))
	}
	if recovery || readOnly {
		return nil
	}
	return a.tidySchema(ctx)
}

// How long it is waited for a lock to go: that of a session of this process or of
// one that is known to be dead, which may be in the midst of what it was told;
// and that of somebody of whom nothing is known.
const (
	lockPatience = 10 * time.Second
	lockGrace    = time.Second
)

// alone takes the lock that only one pgtare has on a server, in this database
// and by looking into those of the others. Of a context that ends sooner than
// patience it leaves enough to say why.
func alone(ctx context.Context, conn *pgconn.PgConn, server string, patience time.Duration) error {
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(end)-time.Second)
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		// Looked after taking it: of two at once at least one sees the other.
		rows, err := query(ctx, conn, fmt.Sprintf("SELECT pg_catalog.pg_try_advisory_lock(%d)", schemaLock))
		var others [][]string
		if err == nil {
			others, err = query(ctx, conn, fmt.Sprintf("SELECT pid FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND classid = %d AND objid = %d AND objsubid = 1 AND granted AND pid <> pg_catalog.pg_backend_pid()",
				schemaLock>>32, schemaLock&0xffffffff))
		}
		switch {
		case err != nil:
			return fmt.Errorf("--server %s: take the lock that only one pgtare has: %w", server, err)
		case rows[0][0] == "t" && len(others) == 0:
			return nil
		case time.Since(began) > patience && len(others) > 0:
			return usagef("--server %s: another pgtare is at work on this server, and two would measure each other; wait for its end (if there is none any more: SELECT pg_terminate_backend(%s))", server, others[0][0])
		case time.Since(began) > patience:
			return usagef("--server %s: another pgtare is at work on this server, and two would measure each other; wait for its end", server)
		}
	}
}

// SchemaKind is the journal's kind of a schema; see [UndoSchema].
const SchemaKind = "schema"

// leftSchema is what the journal holds of a schema.
type leftSchema struct {
	Server   string `json:"server"`   // as the user called it, for messages
	Conninfo string `json:"conninfo"` // without passwords
	System   string `json:"system"`   // system_identifier; "": not known
}

// tidySchema drops what a dead pgtare has left. The lock says that no living one
// has it.
func (a *Attached) tidySchema(ctx context.Context) error {
	mark, found, err := findSchema(ctx, a.keeper)
	switch {
	case err != nil:
		return fmt.Errorf("--server %s: %w", a.given, err)
	case !found, mark != schemaMark && a.cfg.Writes == "":
		return nil
	case mark != schemaMark:
		return usagef("--server %s: the database has a schema %s that pgtare did not make; rename it (ALTER SCHEMA %[2]s RENAME TO ...) or use another database", a.given, SchemaName)
	}
	err = dropSchema(ctx, a.keeper)
	switch {
	case err == nil:
		a.cfg.Log("dropped the schema " + SchemaName + " that a dead pgtare left on " + a.inst.Label)
	case denied(err) && a.cfg.Writes == "": // another role's, and not in the way
	case denied(err):
		return usagef("--server %s: an earlier pgtare left the schema %s, which role %s may not drop (%s); drop it as its owner: DROP SCHEMA %[2]s CASCADE", a.given, SchemaName, a.role, pgMessage(err))
	default:
		return fmt.Errorf("--server %s: drop the schema %s that an earlier pgtare left: %w", a.given, SchemaName, err)
	}
	return nil
}

// MakeSchema makes the schema, where [AttachConfig] asked for tables. It may be
// called again.
func (a *Attached) MakeSchema(ctx context.Context) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cfg.Writes == "" {
		panic("server: a schema for a matrix that makes no tables")
	}
	if a.schema != "" {
		return nil
	}
	conn, err := a.session(ctx)
	if err != nil {
		return err
	}
	if a.left, err = a.begin(SchemaKind, leftSchema{a.given, durableConninfo(a.inst.Conninfo, a.config), a.system}); err != nil {
		return fmt.Errorf("--server %s: %w", a.given, err)
	}
	a.schema = SchemaName // from here on Close drops it
	// One simple query is one transaction: never a schema without its mark.
	if _, err = query(ctx, conn, fmt.Sprintf("CREATE SCHEMA %s; COMMENT ON SCHEMA %[1]s IS %s", SchemaName, literal(schemaMark))); err != nil {
		return fmt.Errorf("--server %s: make the schema %s: %w", a.given, SchemaName, err)
	}
	return nil
}

// begin writes down what must be undone; nil where nothing is to be written.
func (a *Attached) begin(kind string, data any) (*host.Entry, error) {
	if a.cfg.Journal == nil {
		return nil, nil
	}
	j, err := a.cfg.Journal()
	if err != nil {
		return nil, err
	}
	return j.Begin(kind, data)
}

// done crosses out an entry of begin.
func done(e *host.Entry) error {
	if e == nil {
		return nil
	}
	return e.Done()
}

// findSchema looks for the schema pgtare and its comment.
func findSchema(ctx context.Context, conn *pgconn.PgConn) (mark string, found bool, err error) {
	rows, err := query(ctx, conn, "SELECT pg_catalog.obj_description(oid, 'pg_namespace') FROM pg_catalog.pg_namespace WHERE nspname = "+literal(SchemaName))
	if err != nil {
		return "", false, fmt.Errorf("look for the schema %s: %w", SchemaName, err)
	}
	if len(rows) == 0 {
		return "", false, nil
	}
	return rows[0][0], true, nil
}

func dropSchema(ctx context.Context, conn *pgconn.PgConn) error {
	_, err := query(ctx, conn, "SET client_min_messages = warning; DROP SCHEMA "+SchemaName+" CASCADE")
	return err
}

// UndoSchema drops the schema of a dead pgtare, by what the journal holds of
// it, and says what it did. A schema that isn't there any more, or is not
// pgtare's, is left.
func UndoSchema(ctx context.Context, data json.RawMessage) (did string, err error) {
	var l leftSchema
	if err := json.Unmarshal(data, &l); err != nil {
		return "", fmt.Errorf("read what the journal holds of a schema: %w", err)
	}
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("drop the schema %s of a dead pgtare on %s: %v", SchemaName, l.Server, err) // whatever it was, it is no mistake in the command line
	}
	conn, _, err := again(ctx, l.Conninfo, l.System)
	if err != nil {
		return fail(err)
	}
	defer closeConn(conn)
	if did, err = undoSchema(ctx, conn, l); err != nil {
		return fail(err)
	}
	return did, nil
}

func undoSchema(ctx context.Context, conn *pgconn.PgConn, l leftSchema) (did string, err error) {
	mark, found, err := findSchema(ctx, conn)
	if err != nil {
		return "", err
	}
	if !found || mark != schemaMark {
		return fmt.Sprintf("the schema %s on %s is gone already", SchemaName, l.Server), nil
	}
	if err := dropSchema(ctx, conn); err != nil {
		return "", err
	}
	return fmt.Sprintf("dropped the schema %s on %s", SchemaName, l.Server), nil
}

// Undo undoes what the journal holds under kind, of the server that a is
// attached to, as [UndoSchema] and [UndoAlterSystem] do, by the way and with
// the password that a has. mine is false where it is of another server, or that
// can't be told, and then nothing is done.
func (a *Attached) Undo(ctx context.Context, kind string, data json.RawMessage) (did string, mine bool, err error) {
	var is leftSchema // alteration begins alike
	if LeftOn(kind, data) == "" || json.Unmarshal(data, &is) != nil || is.System == "" || is.System != a.system {
		return "", false, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	conn, err := a.session(ctx)
	if err != nil {
		return "", true, err
	}
	if kind == AlterSystemKind {
		var x alteration
		if err := json.Unmarshal(data, &x); err != nil {
			return "", true, fmt.Errorf("read what the journal holds of a server's configuration: %w", err)
		}
		did, err = undoAlterSystem(ctx, conn, a.Config(), x)
		return did, true, err
	}
	then, err := attachedConfig(is.Conninfo)
	if err == nil && then.Database != a.config.Database {
		cfg := a.quietConfig()
		cfg.Database = then.Database
		if conn, err = pgconn.ConnectConfig(ctx, cfg); err == nil {
			defer closeConn(conn)
		}
	}
	if err == nil {
		did, err = undoSchema(ctx, conn, is)
	}
	if err != nil {
		err = fmt.Errorf("drop the schema %s of a dead pgtare on %s: %s", SchemaName, is.Server, pgMessage(err))
	}
	return did, true, err
}

// LeftOn names the server, as its user did, on which is what the journal holds
// under kind; "" where that is no matter of a server's.
func LeftOn(kind string, data json.RawMessage) string {
	var is leftSchema
	if kind != SchemaKind && kind != AlterSystemKind || json.Unmarshal(data, &is) != nil {
		return ""
	}
	return is.Server
}

// again connects to the server that a journal names, and takes the lock there:
// what a living pgtare has under way there is its own to undo.
func again(ctx context.Context, conninfo, system string) (*pgconn.PgConn, *pgconn.Config, error) {
	cfg, err := attachedConfig(conninfo)
	if err != nil {
		return nil, nil, err
	}
	conn, err := pgconn.ConnectConfig(ctx, unlimited(cfg))
	if err != nil {
		return nil, nil, noConnection(ctx, conninfo, cfg, err)
	}
	if err = unlimit(ctx, conn); err == nil {
		err = alone(ctx, conn, conninfo, lockPatience)
	}
	if err == nil && system != "" {
		var rows [][]string
		if rows, err = query(ctx, conn, "SELECT system_identifier FROM pg_catalog.pg_control_system()"); err == nil && rows[0][0] != system {
			err = usagef("--server %s: another cluster answers there now (system identifier %s, not %s)", conninfo, rows[0][0], system)
		}
	}
	if err != nil {
		closeConn(conn)
		return nil, nil, err
	}
	return conn, cfg, nil
}

// session returns the keeper, opened anew where the server has cut it off. With
// it the lock is gone, and without the lock nothing here is pgtare's any more: a
// session that doesn't get it is not returned, by this call or a later one.
// a.mu must be held.
func (a *Attached) session(ctx context.Context) (*pgconn.PgConn, error) {
	if !a.keeper.IsClosed() {
		if _, err := query(ctx, a.keeper, "SELECT 1"); err == nil || !a.keeper.IsClosed() {
			return a.keeper, err
		}
	}
	cfg := a.quietConfig()
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, noConnection(ctx, a.given, cfg, err)
	}
	patience := lockPatience // the session that was cut off may still be in its last statement
	if a.ousted {
		patience = lockGrace
	}
	if err := alone(ctx, conn, a.given, patience); err != nil {
		closeConn(conn)
		a.ousted = true
		var usage *UsageError
		if errors.As(err, &usage) { // no mistake in the command line by now
			err = errors.New(usage.Error())
		}
		return nil, fmt.Errorf("the session that kept others away from %s was cut off: %w", a.inst.Label, err)
	}
	a.keeper, a.ousted = conn, false
	return conn, nil
}

// Close undoes what is in the server's configuration, drops the schema and
// leaves. It takes no context, because it must also run after the caller's has
// been cancelled; it takes at most half a minute. What it can't undo the journal
// keeps, and the error says so.
func (a *Attached) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	defer func() {
		closeConn(a.keeper)
		if a.cpu != nil {
			closeConn(a.cpu)
		}
	}()
	later := "; undo it by hand"
	if a.cfg.Journal != nil {
		later = "; pgtare restore does it later"
	}
	var errs []error
	if len(a.altered.Was) > 0 {
		var err error
		if !a.sure || len(a.inForce) > 0 {
			err = a.undo(ctx)
		}
		if err == nil {
			err = done(a.alteredAt)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("put the configuration of %s back: %w%s", a.inst.Label, err, later))
		}
	}
	if a.schema != "" {
		conn, err := a.session(ctx)
		if err == nil {
			var mark string
			var found bool // not where making it has failed
			if mark, found, err = findSchema(ctx, conn); err == nil && found && mark == schemaMark {
				err = dropSchema(ctx, conn)
			}
		}
		if err == nil {
			err = done(a.left)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("drop the schema %s on %s: %w%s", SchemaName, a.inst.Label, err, later))
		}
	}
	return errors.Join(errs...)
}

// ID is the label: an attached server runs once.
func (a *Attached) ID() string { return a.inst.Label }

// Label returns the installation's label.
func (a *Attached) Label() string { return a.inst.Label }

// Managed is false.
func (a *Attached) Managed() bool { return false }

// LocalPID reports whether the server's processes have been found in this
// machine's /proc: see [Attached.CPU].
func (a *Attached) LocalPID() bool { return a.postmaster != 0 }

// Schema is pgtare once [Attached.MakeSchema] was called, before "".
func (a *Attached) Schema() string { return a.schema }

// Config returns how to connect, as the user said.
func (a *Attached) Config() *pgconn.Config { return a.config.Copy() }

// Alive connects. A server that doesn't answer within ctx is not alive.
func (a *Attached) Alive(ctx context.Context) error {
	conn, err := pgconn.ConnectConfig(ctx, a.Config())
	if err != nil {
		return fmt.Errorf("server %s does not answer: %w", a.inst.Label, noConnection(ctx, a.given, a.config, err))
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

// Others counts the sessions of others, at this moment: those that are at work,
// and those of which this role may not see whether they are (that takes
// pg_read_all_stats). None of pgtare's own may be at work meanwhile.
func (a *Attached) Others(ctx context.Context) (active, hidden int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	conn, err := a.session(ctx)
	if err != nil {
		return 0, 0, err
	}
	rows, err := query(ctx, conn, `
SELECT count(*) FILTER (WHERE backend_type = 'client backend' AND state IN ('active', 'fastpath function call')),
       count(*) FILTER (WHERE backend_type IS NULL AND datid IS NOT NULL)
  FROM pg_catalog.pg_stat_activity WHERE pid <> pg_catalog.pg_backend_pid()`)
	if err != nil {
		return 0, 0, fmt.Errorf("look for sessions of others on %s: %w", a.inst.Label, err)
	}
	return atoi(rows[0][0]), atoi(rows[0][1]), nil
}

// denied says whether the server said that the role may not.
func denied(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "42501"
}

// pgMessage is what the server said, else the error's text.
func pgMessage(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Message
	}
	return err.Error()
}
