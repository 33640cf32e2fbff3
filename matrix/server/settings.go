package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Setting is a value that a cell asks for.
type Setting struct {
	Name  string
	Value string
	// Default asks for the server's own value: the setting is not sent, and
	// must not come from anywhere else in the session. Value is then ignored.
	Default bool
}

// ShownValue returns the value, or stars where it may be a secret.
func (s Setting) ShownValue() string { return maskSetting(s.Name, s.Value) }

// String returns NAME=VALUE, stars in place of a value that may be a secret.
func (s Setting) String() string {
	if s.Default {
		return s.Name + "=default"
	}
	return s.Name + "=" + maskSetting(s.Name, s.Value)
}

// Fact is what pg_settings says of a setting.
type Fact struct {
	Name     string
	Context  string // how it can be set: user, superuser, sighup, postmaster, ...
	Category string
	VarType  string // bool, integer, real, string, enum
	Unit     string // "ms", "8kB", ...; "" for none
	EnumVals string // as PostgreSQL writes an array: {off,on}
	BootVal  string // in the unit
	Value    string // the present value, in the unit
	Source   string // where that comes from: default, configuration file, client, ...
}

// Facts returns what conn's session knows of the named settings, by the name
// that was asked for (names are compared as PostgreSQL does, in lower case).
// What it doesn't know, or doesn't show to this role, is left out.
func Facts(ctx context.Context, conn *pgconn.PgConn, names []string) (map[string]Fact, error) {
	facts := map[string]Fact{}
	if len(names) == 0 {
		return facts, nil
	}
	rows, err := lookUp(ctx, conn, `SELECT name, context, category, vartype, unit, enumvals, boot_val, setting, source FROM pg_catalog.pg_settings WHERE lower(name) IN (`+literals(lower(names))+`)`)
	if err != nil {
		return nil, fmt.Errorf("look up settings: %w", err)
	}
	for _, r := range rows {
		f := Fact{r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8]}
		for _, n := range names {
			if strings.EqualFold(n, f.Name) {
				facts[n] = f
			}
		}
	}
	return facts, nil
}

// Names returns the names of all settings that conn's session knows.
func Names(ctx context.Context, conn *pgconn.PgConn) ([]string, error) {
	rows, err := query(ctx, conn, `SELECT name FROM pg_catalog.pg_settings ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("list settings: %w", err)
	}
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r[0]
	}
	return names, nil
}

// NotApplicable means that a server won't have a setting. It is no failure:
// the cell is n/a on that server.
type NotApplicable struct {
	Setting Setting
	Unknown bool   // the server has no setting of that name
	Words   string // the server's words, or what was found instead
}

func (e *NotApplicable) Error() string {
	return e.Setting.String() + ": " + hiderOf(nil, map[string]string{e.Setting.Name: e.Setting.Value}).hide(e.Words)
}

// Apply adds settings to the start-up parameters of cfg, each as its own.
func Apply(cfg *pgconn.Config, settings []Setting) {
	for _, s := range settings {
		if !s.Default {
			cfg.RuntimeParams[s.Name] = s.Value
		}
	}
}

// Probe connects with the settings as start-up parameters and proves that each
// is in force: pg_settings shows it with source "client" and the value that
// this server makes of the given text, in the setting's unit. A default must
// not come from the session. It returns for each name the value as pg_settings
// shows it, with the unit: "100 ms"; stars where it may be a secret.
//
// SHOW would prove nothing: a name with a dot that no loaded library has
// defined is taken as a placeholder, and shown.
//
// The error is a *NotApplicable where the server refuses a setting, doesn't
// know it, or would take it without effect; anything else is a failure.
func Probe(ctx context.Context, cfg *pgconn.Config, settings []Setting) (readback map[string]string, err error) {
	plain := cfg.Copy()
	with := cfg.Copy()
	Apply(with, settings)
	conn, err := pgconn.ConnectConfig(ctx, with)
	if err != nil {
		return nil, blame(ctx, cfg, settings, err)
	}
	defer closeConn(conn)
	facts, err := Facts(ctx, conn, names(settings))
	if err != nil {
		return nil, err
	}
	// What this server makes of the values is asked in a session of its own,
	// so that the proof doesn't test a value against itself. It must know the
	// settings of the libraries that the other session loads.
	for _, s := range settings {
		if name := strings.ToLower(s.Name); name == "session_preload_libraries" || name == "local_preload_libraries" {
			Apply(plain, []Setting{s})
		}
	}
	judge, err := pgconn.ConnectConfig(ctx, plain)
	if err != nil {
		return nil, fmt.Errorf("connect for the probe of settings: %w", err)
	}
	defer closeConn(judge)
	readback = map[string]string{}
	for _, s := range settings {
		f, ok := facts[s.Name]
		if !ok {
			return nil, noRow(ctx, judge, s)
		}
		if s.Default {
			if f.Source == "client" || f.Source == "session" {
				return nil, fmt.Errorf("probe %s: the connection itself sets it to %s", s, f.shown())
			}
			readback[s.Name] = f.shown()
			continue
		}
		if strings.EqualFold(s.Name, "log_connections") {
			return nil, &NotApplicable{Setting: s, Words: "given at connecting it is accepted and shown, but the server has logged the connection by then, or not; it acts from the server's configuration, and only on connecting"}
		}
		if f.Source != "client" {
			return nil, &NotApplicable{Setting: s, Words: fmt.Sprintf("given at connecting, but pg_settings shows %s from source %q", f.shown(), f.Source)}
		}
		want, err := f.normalize(ctx, judge, s.Value)
		if err != nil {
			return nil, fmt.Errorf("probe %s: ask the server what it makes of the value: %w", s, err)
		}
		if f.Value != want {
			return nil, &NotApplicable{Setting: s, Words: fmt.Sprintf("the server shows %s where the value means %s", f.shown(), Fact{Name: f.Name, Value: want, Unit: f.Unit}.shown())}
		}
		if err := effect(ctx, conn, s, f); err != nil {
			return nil, err
		}
		readback[s.Name] = f.shown()
	}
	return readback, nil
}

// effect asks, where there is a way to ask, whether a setting that is in force
// can have an effect in this session. f is its row there.
func effect(ctx context.Context, conn *pgconn.PgConn, s Setting, f Fact) error {
	sql, words := "", ""
	switch {
	case f.Name == "jit" && f.Value == "on":
		sql = "SELECT pg_catalog.pg_jit_available()"
		words = "it was built without LLVM, or its JIT library is not installed (pg_jit_available() is false)"
	case f.Name == "io_method" && f.Value == "worker":
		sql = "SELECT count(*) > 0 FROM pg_catalog.pg_stat_activity WHERE backend_type = 'io worker'"
		words = "no process of type io worker runs"
	default:
		return nil
	}
	rows, err := query(ctx, conn, sql)
	if err != nil {
		return fmt.Errorf("probe %s: %w", s, err)
	}
	if rows[0][0] != "t" {
		return &NotApplicable{Setting: s, Words: "the server accepts it without effect: " + words}
	}
	return nil
}

// blame finds the setting for which a connection failed, by trying each alone.
func blame(ctx context.Context, cfg *pgconn.Config, settings []Setting, failed error) error {
	fail := fmt.Errorf("connect with settings %v: %w", settings, failed)
	if pg := (*pgconn.PgError)(nil); !errors.As(failed, &pg) {
		return fail
	}
	plain, err := pgconn.ConnectConfig(ctx, cfg.Copy())
	if err != nil {
		return fmt.Errorf("connect: %w", err) // not the settings' fault
	}
	defer closeConn(plain)
	for _, s := range settings {
		if s.Default {
			continue
		}
		one := cfg.Copy()
		Apply(one, []Setting{s})
		conn, err := pgconn.ConnectConfig(ctx, one)
		if err == nil {
			closeConn(conn)
			continue
		}
		if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
			const undefinedObject, invalidName = "42704", "42602"
			words := pgWords(pg)
			if denied(err) {
				words += fmt.Sprintf("; role %s may set it after GRANT SET ON PARAMETER %s TO %s (15 and later), or use a superuser", cfg.User, s.Name, quoteIdent(cfg.User))
			}
			return &NotApplicable{Setting: s, Unknown: pg.Code == undefinedObject || pg.Code == invalidName, Words: words}
		}
		return fmt.Errorf("connect with %s: %w", s, err)
	}
	return fail // only together
}

// pgWords returns what the server said, detail and hint included.
func pgWords(pg *pgconn.PgError) string {
	w := pg.Message
	for _, more := range []string{pg.Detail, pg.Hint} {
		if more != "" {
			w += " (" + strings.TrimSuffix(more, ".") + ")"
		}
	}
	return w
}

// noRow explains why the server accepted a setting that pg_settings lacks.
func noRow(ctx context.Context, conn *pgconn.PgConn, s Setting) error {
	prefix, _, custom := strings.Cut(s.Name, ".")
	if !custom {
		if s.Default {
			return &NotApplicable{Setting: s, Unknown: true, Words: fmt.Sprintf("unrecognized configuration parameter %q", s.Name)}
		}
		return &NotApplicable{Setting: s, Words: "pg_settings does not show it, so it can't be proven to be in force"}
	}
	rows, err := query(ctx, conn, `SELECT (SELECT count(*) FROM pg_catalog.pg_settings WHERE name LIKE `+literal(likePrefix(prefix)+".%")+`), current_setting('shared_preload_libraries')`)
	if err != nil {
		return fmt.Errorf("look up the library of %s: %w", s.Name, err)
	}
	if rows[0][0] != "0" {
		return &NotApplicable{Setting: s, Unknown: true, Words: fmt.Sprintf("the library %s is loaded and has no setting of this name; the server takes it as a placeholder without effect", prefix)}
	}
	return &NotApplicable{Setting: s, Unknown: true, Words: fmt.Sprintf("no library that defines it is loaded (shared_preload_libraries = '%s'); the server takes it as a placeholder without effect", rows[0][1])}
}

func likePrefix(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s)
}

// shown returns the value with its unit, for somebody to see: stars where it
// may be a secret.
func (f Fact) shown() string {
	switch {
	case f.Unit == "":
		return maskSetting(f.Name, f.Value)
	case f.Unit[0] >= '0' && f.Unit[0] <= '9': // 8kB
		return f.Value + " x " + f.Unit
	}
	return f.Value + " " + f.Unit
}

// normalize returns what the server makes of text, as pg_settings.setting
// would show it. conn's session doesn't keep the value: it lasts for the one
// transaction that a simple query of several statements is.
func (f Fact) normalize(ctx context.Context, conn *pgconn.PgConn, text string) (string, error) {
	rows, err := query(ctx, conn, fmt.Sprintf(`SELECT pg_catalog.set_config(%s, %s, true); SELECT setting FROM pg_catalog.pg_settings WHERE name = %[1]s`, literal(f.Name), literal(text)))
	if err == nil {
		if len(rows) != 2 {
			return "", fmt.Errorf("pg_settings has %d rows for %s", len(rows)-1, f.Name)
		}
		return rows[1][0], nil
	}
	if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) {
		return "", err
	}
	// A session can't set it (context backend), or not there (the
	// transaction_ settings). There are few of those, and none has a unit.
	if f.VarType == "bool" {
		if b, ok := parseBool(text); ok {
			return map[bool]string{true: "on", false: "off"}[b], nil
		}
	}
	return text, nil
}

// parseBool reads a boolean by PostgreSQL's rule: any unique prefix of true,
// false, yes, no, on, off, or 1 and 0.
func parseBool(s string) (value, ok bool) {
	s = strings.ToLower(s)
	if s == "1" || s == "0" {
		return s == "1", true
	}
	if s == "" || s == "o" {
		return false, false
	}
	for _, w := range []string{"true", "yes", "on"} {
		if strings.HasPrefix(w, s) {
			return true, true
		}
	}
	for _, w := range []string{"false", "no", "off"} {
		if strings.HasPrefix(w, s) {
			return false, true
		}
	}
	return false, false
}

// Proof returns the check that runs on every measured connection before it is
// used. settings are the cell's, readback is what Probe returned for them, and
// names are all names that occur in the panel: the check is one query of the
// same text in all cells, so that their backends have the same history. A name
// that the cell doesn't set must not come from the session.
func Proof(settings []Setting, readback map[string]string, panelNames []string) func(context.Context, *pgconn.PgConn) error {
	sorted := slices.Compact(slices.Sorted(slices.Values(lower(panelNames))))
	if len(sorted) == 0 {
		return func(context.Context, *pgconn.PgConn) error { return nil }
	}
	want := map[string]string{}
	for _, s := range settings {
		back, ok := readback[s.Name]
		if !ok {
			panic("server: Proof of " + s.Name + ", which was not probed")
		}
		if !slices.Contains(sorted, strings.ToLower(s.Name)) {
			panic("server: Proof of " + s.Name + ", which is not of the panel")
		}
		if !s.Default {
			want[strings.ToLower(s.Name)] = back
		}
	}
	sql := `SELECT lower(name), setting, unit, source FROM pg_catalog.pg_settings WHERE lower(name) IN (` + literals(sorted) + `)`
	return func(ctx context.Context, conn *pgconn.PgConn) error {
		rows, err := lookUp(ctx, conn, sql)
		if err != nil {
			return fmt.Errorf("prove the settings: %w", err)
		}
		proven := 0
		for _, r := range rows {
			back, set := want[r[0]]
			shown := Fact{Name: r[0], Value: r[1], Unit: r[2]}.shown() // of a secret its source is the proof
			fromSession := r[3] == "client" || r[3] == "session"
			switch {
			case set && (!fromSession || shown != back):
				return fmt.Errorf("prove the settings: %s is %s from source %q, not %s from the client", r[0], shown, r[3], back)
			case !set && fromSession:
				return fmt.Errorf("prove the settings: %s is %s from source %q, though this cell does not set it", r[0], shown, r[3])
			case set:
				proven++
			}
		}
		if proven != len(want) {
			return fmt.Errorf("prove the settings: pg_settings shows %d of %d", proven, len(want))
		}
		return nil
	}
}

func names(settings []Setting) []string {
	out := make([]string, len(settings))
	for i, s := range settings {
		out[i] = s.Name
	}
	return out
}

func lower(ss []string) []string {
	out := make([]string, len(ss))
	for i, s := range ss {
		out[i] = strings.ToLower(s)
	}
	return out
}
