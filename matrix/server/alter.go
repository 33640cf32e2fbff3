package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/host"
)

// autoConf is the file that ALTER SYSTEM writes. The server reads it last.
const autoConf = "postgresql.auto.conf"

// AlterSystemKind is the journal's kind of what stands in a server's
// configuration; see [UndoAlterSystem].
const AlterSystemKind = "alter-system"

// alteration is what the journal holds of it.
type alteration struct {
	Server   string `json:"server"`   // as the user called it, for messages
	Conninfo string `json:"conninfo"` // without passwords
	System   string `json:"system"`   // system_identifier; "": not known
	// Was is the state before the first change, by name in lower case.
	Was map[string]formerly `json:"was"`
	// Set are the values of pgtare's that may stand there now. What is neither one
	// of these nor the former is somebody else's by now.
	Set map[string][]string `json:"set"`
}

// formerly is the former state of one setting.
type formerly struct {
	Line  *string `json:"line"`  // value in postgresql.auto.conf; null: it had none
	Shown string  `json:"shown"` // as pg_settings showed it, with the unit
}

// reloadPatience is how long a server may take to read its configuration again:
// a moment, unless its postmaster is held up.
const reloadPatience = 10 * time.Second

// Configure puts settings into the server's configuration, and what it put there
// before and isn't among them back to what it was: with none, all. ALTER SYSTEM
// writes them, a reload puts them in force, and a session that began after the
// reload proves each by pg_settings and pg_file_settings, as
// [ProveConfigured] does. What was there before is in the journal before
// anything is changed. A default is what isn't set: the server's own value.
// It returns for each name the value as pg_settings shows it.
//
// Whatever it fails with, Close still undoes it. The error is a *NotApplicable
// where the server won't have a value, or it does not come into force; a
// *UsageError for what the role may not do, and where a reload would change more
// than these settings.
func (a *Attached) Configure(ctx context.Context, settings []Setting) (readback map[string]string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	want := slices.DeleteFunc(slices.Clone(settings), func(s Setting) bool { return s.Default })
	slices.SortFunc(want, func(x, y Setting) int { return strings.Compare(x.Name, y.Name) })
	if len(want) == 0 && len(a.altered.Was) == 0 {
		return map[string]string{}, nil
	}
	if a.sure && slices.Equal(want, a.inForce) {
		return a.readback, nil
	}
	if a.closed {
		return nil, fmt.Errorf("configure %s: it is closed", a.inst.Label)
	}
	a.sure = false
	if len(want) == 0 { // the journal's entry stays open: there may be more
		if err := a.undo(ctx); err != nil {
			return nil, fmt.Errorf("put the configuration of %s back: %w", a.inst.Label, err)
		}
		return a.readback, nil
	}
	if readback, err = a.alter(ctx, want); err != nil {
		return nil, fmt.Errorf("configure %s with %s: %w", a.inst.Label, strings.Join(names(want), ", "), err)
	}
	a.inForce, a.readback, a.sure = want, readback, true
	return readback, nil
}

// alter does it. a.mu must be held.
func (a *Attached) alter(ctx context.Context, want []Setting) (readback map[string]string, err error) {
	conn, err := a.session(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.alterable(ctx, conn, want); err != nil {
		return nil, err
	}
	if err := a.untouched(ctx, conn); err != nil {
		return nil, err
	}
	if err := a.writeDown(ctx, want); err != nil {
		return nil, err
	}
	given := map[string]bool{}
	for _, s := range want {
		given[strings.ToLower(s.Name)] = true
		if err := alterSystem(ctx, conn, s.Name, &s.Value); err != nil {
			var pg *pgconn.PgError
			if errors.As(err, &pg) && pg.Code == "42501" {
				return nil, usagef("--server %s: role %s may not do ALTER SYSTEM SET %s (%s); it takes a superuser, or GRANT ALTER SYSTEM ON PARAMETER %[3]s TO %[5]s (15 and later)", a.given, a.role, s.Name, pg.Message, quoteIdent(a.role))
			}
			if errors.As(err, &pg) {
				return nil, &NotApplicable{Setting: s, Words: pgWords(pg)}
			}
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.altered.Was)) {
		if !given[name] {
			if _, err := putBack(ctx, conn, a.altered, name); err != nil {
				return nil, err
			}
		}
	}
	proof, err := reload(ctx, conn, a.Config())
	if err != nil {
		return nil, err
	}
	defer closeConn(proof)
	if a.loaded, err = loadTime(ctx, proof); err != nil {
		return nil, err
	}
	return proveIn(ctx, proof, want, autoConf)
}

// untouched refuses to write over what somebody else has set by ALTER SYSTEM
// since pgtare did.
func (a *Attached) untouched(ctx context.Context, conn *pgconn.PgConn) error {
	lines, err := configLines(ctx, conn, slices.Sorted(maps.Keys(a.altered.Was)), autoConf)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(a.altered.Was)) {
		if now := lineOf(lines, name); a.altered.theirs(name, now) {
			return fmt.Errorf("somebody else has changed %s by ALTER SYSTEM since pgtare did, and that is not written over", name)
		}
	}
	return nil
}

// Meddled looks, in a session of its own, whether what [Attached.Configure] left
// in force still is, and says what is not; "" for nothing, or where Configure
// has changed nothing so far. Ask it after each stretch that was measured: that a
// setting was proven before says nothing of a reload since.
func (a *Attached) Meddled(ctx context.Context) (what string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.sure || len(a.altered.Was) == 0 {
		return "", nil
	}
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("look whether the configuration of %s is still in force: %w", a.inst.Label, err)
	}
	conn, err := pgconn.ConnectConfig(ctx, a.Config())
	if err != nil {
		return fail(noConnection(ctx, a.given, a.config, err))
	}
	defer closeConn(conn)
	loaded, err := loadTime(ctx, conn)
	if err != nil {
		return fail(err)
	}
	names := slices.Sorted(maps.Keys(a.altered.Was))
	now, err := formerStates(ctx, conn, names)
	if err != nil {
		return fail(err)
	}
	for _, name := range names {
		want := a.altered.Was[name]
		if i := slices.IndexFunc(a.inForce, func(s Setting) bool { return strings.EqualFold(s.Name, name) }); i >= 0 {
			want = formerly{&a.inForce[i].Value, a.readback[a.inForce[i].Name]}
		}
		switch is := now[name]; {
		case is.Shown != want.Shown:
			a.sure = false // to be proven anew
			return fmt.Sprintf("%s shows %s, where it was %s", name, is.Shown, want.Shown), nil
		case !same(is.Line, want.Line):
			a.sure = false
			return name + " was changed by ALTER SYSTEM", nil
		}
	}
	if loaded != a.loaded {
		a.loaded = loaded
		return "the server has read its configuration again, whatever that changed", nil
	}
	return "", nil
}

// writeDown brings the journal up to what stands in the configuration, and what
// may stand there from now on. The former entry is crossed out when the new one
// is on the disk, so there is always one; it needs a new one only for settings
// and values that it hasn't had.
func (a *Attached) writeDown(ctx context.Context, want []Setting) error {
	next := alteration{a.given, durableConninfo(a.inst.Conninfo, a.config), a.system, map[string]formerly{}, map[string][]string{}}
	maps.Copy(next.Was, a.altered.Was)
	for name, values := range a.altered.Set {
		next.Set[name] = slices.Clone(values)
	}
	var fresh []string
	more := false
	for _, s := range want {
		name := strings.ToLower(s.Name)
		if _, known := next.Was[name]; !known {
			fresh = append(fresh, name)
		}
		if !slices.Contains(next.Set[name], s.Value) {
			next.Set[name], more = append(next.Set[name], s.Value), true
		}
	}
	if !more {
		return nil
	}
	// Not the keeper's, which has settings of its own.
	plain, err := pgconn.ConnectConfig(ctx, a.Config())
	if err != nil {
		return noConnection(ctx, a.given, a.config, err)
	}
	defer closeConn(plain)
	former, err := formerStates(ctx, plain, fresh)
	if err != nil {
		return err
	}
	maps.Copy(next.Was, former)
	entry, err := a.begin(AlterSystemKind, next)
	if err != nil {
		return err
	}
	before := a.alteredAt
	a.altered, a.alteredAt = next, entry
	return done(before)
}

// alterable refuses what would fail halfway, and a reload that would do more
// than asked: of a file that somebody has changed since the server read it.
func (a *Attached) alterable(ctx context.Context, conn *pgconn.PgConn, want []Setting) error {
	for _, s := range want {
		if maskSetting(s.Name, "x") != "x" {
			return usagef("--set %s: such values may hold secrets, and to put the former one back after a crash pgtare would have to write it down; name an installation instead of a running server", s.Name)
		}
		if slices.Contains(quotedLists, strings.ToLower(s.Name)) {
			return usagef("--set %s: ALTER SYSTEM takes lists of names apart, so pgtare can't put it back exactly; set it for sessions (without @instance), or name an installation instead of a running server", s)
		}
	}
	if a.system == "" {
		return usagef("--server %s: role %s may not see the server's system identifier, by which pgtare makes sure that it puts back the configuration of this server and no other; it takes GRANT EXECUTE ON FUNCTION pg_catalog.pg_control_system() TO %s",
			a.given, a.role, quoteIdent(a.role))
	}
	rows, err := query(ctx, conn, `
SELECT pg_catalog.has_function_privilege('pg_catalog.pg_reload_conf()', 'EXECUTE'),
       pg_catalog.has_table_privilege('pg_catalog.pg_file_settings', 'SELECT') AND pg_catalog.has_function_privilege('pg_catalog.pg_show_all_file_settings()', 'EXECUTE'),
       pg_catalog.has_function_privilege('pg_catalog.pg_stat_file(text, boolean)', 'EXECUTE') AND pg_catalog.pg_has_role('pg_read_all_settings', 'USAGE')`)
	if err != nil {
		return fmt.Errorf("look at the rights of role %s: %w", a.role, err)
	}
	role := quoteIdent(a.role)
	switch r := rows[0]; {
	case r[0] != "t":
		return usagef("--server %s: role %s may not reload the configuration; it takes a superuser, or GRANT EXECUTE ON FUNCTION pg_catalog.pg_reload_conf() TO %s", a.given, a.role, role)
	case r[1] != "t":
		return usagef("--server %s: role %s may not see what the configuration files say, so nothing could be put back; it takes a superuser, or GRANT SELECT ON pg_catalog.pg_file_settings TO %s and GRANT EXECUTE ON FUNCTION pg_catalog.pg_show_all_file_settings() TO %[3]s",
			a.given, a.role, role)
	}
	// A name that the server doesn't know, or a line that it can't read, makes a
	// reload apply nothing at all. With other errors it applies the rest.
	broken, err := query(ctx, conn, `
SELECT sourcefile, sourceline, error FROM pg_catalog.pg_file_settings
 WHERE error IS NOT NULL AND (name IS NULL OR error = 'unrecognized configuration parameter') ORDER BY seqno LIMIT 1`)
	if err != nil {
		return fmt.Errorf("read the configuration as the server sees it: %w", err)
	}
	if len(broken) > 0 {
		return usagef("--server %s: the server's configuration has a mistake (%s, line %s: %s), with which a reload applies nothing; mend it first", a.given, broken[0][0], broken[0][1], broken[0][2])
	}
	if rows[0][2] != "t" || len(a.altered.Was) > 0 {
		return nil // not to be seen, or pgtare's own change
	}
	// Times of files come in whole seconds.
	edited, err := query(ctx, conn, `
SELECT f FROM (SELECT current_setting('config_file') UNION SELECT current_setting('hba_file') UNION SELECT current_setting('ident_file')
               UNION SELECT current_setting('data_directory') || '/`+autoConf+`' UNION SELECT sourcefile FROM pg_catalog.pg_file_settings) x(f)
 WHERE (pg_catalog.pg_stat_file(f, true)).modification >= date_trunc('second', pg_catalog.pg_conf_load_time()) + interval '1 second' LIMIT 1`)
	if err != nil {
		return fmt.Errorf("look whether the configuration was changed: %w", err)
	}
	if len(edited) > 0 {
		return usagef("--server %s: %s was changed since the server read it, and a reload would put that in force, too; reload it yourself (SELECT pg_reload_conf()) or put the file back, then measure", a.given, edited[0][0])
	}
	return nil
}

// quotedLists are the settings whose value ALTER SYSTEM takes for one name of a
// list when it is given as one string.
var quotedLists = []string{"local_preload_libraries", "search_path", "session_preload_libraries", "shared_preload_libraries", "temp_tablespaces", "unix_socket_directories", "oauth_validator_libraries"}

// formerStates reads what stands in postgresql.auto.conf and what is in force.
func formerStates(ctx context.Context, conn *pgconn.PgConn, names []string) (map[string]formerly, error) {
	lines, err := configLines(ctx, conn, names, autoConf)
	if err != nil {
		return nil, err
	}
	facts, err := Facts(ctx, conn, names)
	if err != nil {
		return nil, err
	}
	out := map[string]formerly{}
	for _, name := range names {
		f, ok := facts[name]
		if !ok {
			return nil, noRow(ctx, conn, Setting{Name: name})
		}
		out[name] = formerly{lineOf(lines, name), f.shown()}
	}
	return out, nil
}

// alterSystem writes one line of postgresql.auto.conf, or with nil removes it.
func alterSystem(ctx context.Context, conn *pgconn.PgConn, name string, value *string) error {
	sql := "ALTER SYSTEM RESET " + settingName(name)
	if value != nil {
		sql = "ALTER SYSTEM SET " + settingName(name) + " = " + literal(*value)
	}
	_, err := query(ctx, conn, sql)
	return err
}

// settingName quotes a setting's name, part by part.
func settingName(name string) string {
	parts := strings.Split(name, ".")
	for i, p := range parts {
		parts[i] = quoteIdent(strings.ToLower(p))
	}
	return strings.Join(parts, ".")
}

// putBack gives one setting its former line, unless what stands there is neither
// that nor pgtare's: then it is somebody else's, and left.
func putBack(ctx context.Context, conn *pgconn.PgConn, a alteration, name string) (left bool, err error) {
	lines, err := configLines(ctx, conn, []string{name}, autoConf)
	if err != nil {
		return false, err
	}
	now, was := lineOf(lines, name), a.Was[name].Line
	if same(now, was) {
		return false, nil
	}
	if a.theirs(name, now) {
		return true, nil
	}
	if err := alterSystem(ctx, conn, name, was); err != nil {
		return false, fmt.Errorf("put %s back: %w", name, err)
	}
	return false, nil
}

// theirs says whether a line of a setting is neither the former one nor pgtare's.
func (a alteration) theirs(name string, now *string) bool {
	return !same(now, a.Was[name].Line) && (now == nil || !slices.Contains(a.Set[name], *now))
}

// lineOf is the value on a setting's line; nil: it has none.
func lineOf(lines map[string]configLine, name string) *string {
	if l, ok := lines[name]; ok {
		return &l.text
	}
	return nil
}

func same(x, y *string) bool { return x == y || x != nil && y != nil && *x == *y }

// reload makes the server read its configuration, and returns a session that
// began after it had. Sessions inherit from the postmaster what it has read, and
// when: pg_conf_load_time.
func reload(ctx context.Context, conn *pgconn.PgConn, cfg *pgconn.Config) (*pgconn.PgConn, error) {
	loaded := func() (at string, fresh *pgconn.PgConn, err error) {
		if fresh, err = pgconn.ConnectConfig(ctx, cfg); err != nil {
			return "", nil, err
		}
		if at, err = loadTime(ctx, fresh); err != nil {
			closeConn(fresh)
			return "", nil, err
		}
		return at, fresh, nil
	}
	before, fresh, err := loaded()
	if err != nil {
		return nil, fmt.Errorf("reload the configuration: %w", err)
	}
	closeConn(fresh)
	rows, err := query(ctx, conn, "SELECT pg_catalog.pg_reload_conf()")
	if err != nil {
		return nil, fmt.Errorf("reload the configuration: %w", err)
	}
	if rows[0][0] != "t" {
		return nil, errors.New("reload the configuration: the server could not tell its postmaster")
	}
	for began := time.Now(); time.Since(began) < reloadPatience; {
		now, fresh, err := loaded()
		if err != nil {
			return nil, fmt.Errorf("reload the configuration: %w", err)
		}
		if now != before {
			return fresh, nil
		}
		closeConn(fresh)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil, fmt.Errorf("reload the configuration: new sessions don't see it read again after %v; see the server's log", reloadPatience)
}

// loadTime is when the configuration was last read and applied that a new session
// has.
func loadTime(ctx context.Context, conn *pgconn.PgConn) (string, error) {
	rows, err := query(ctx, conn, "SELECT extract(epoch FROM pg_catalog.pg_conf_load_time())")
	if err != nil {
		return "", fmt.Errorf("ask when the configuration was read: %w", err)
	}
	return rows[0][0], nil
}

// undo puts everything back and proves it. a.mu must be held.
func (a *Attached) undo(ctx context.Context) error {
	conn, err := a.session(ctx)
	if err != nil {
		return err
	}
	u, err := undoAlteration(ctx, conn, a.Config(), a.altered)
	if err != nil {
		return err
	}
	for _, text := range append(u.left, u.differ...) {
		a.cfg.Log(a.inst.Label + ": " + text)
	}
	a.loaded = u.loaded
	a.inForce, a.readback, a.sure = nil, map[string]string{}, true
	return nil
}

// undone is what came of undoing an alteration, beside that it was.
type undone struct {
	left   []string // sentences on settings that somebody else has set meanwhile: they stay
	differ []string // sentences on settings that are put back and show something else all the same
	loaded string   // when the configuration was read that is in force now
}

// undoAlteration does it by what the journal holds. It has succeeded when
// postgresql.auto.conf says what it said and the server has read it. What a
// setting shows then is for others to say, too: postgresql.conf may have been
// changed meanwhile, or the session have a value of its own.
func undoAlteration(ctx context.Context, conn *pgconn.PgConn, cfg *pgconn.Config, a alteration) (u undone, err error) {
	names := slices.Sorted(maps.Keys(a.Was))
	theirs := map[string]bool{}
	for _, name := range names {
		if theirs[name], err = putBack(ctx, conn, a, name); err != nil {
			return u, err
		}
	}
	// Also where the file is as it was: a pgtare may have died before the reload.
	proof, err := reload(ctx, conn, cfg)
	if err != nil {
		return u, err
	}
	defer closeConn(proof)
	if u.loaded, err = loadTime(ctx, proof); err != nil {
		return u, err
	}
	now, err := formerStates(ctx, proof, names)
	if err != nil {
		return u, err
	}
	facts, err := Facts(ctx, proof, names)
	if err != nil {
		return u, err
	}
	for _, name := range names {
		is, was := now[name], a.Was[name]
		switch {
		case theirs[name]:
			u.left = append(u.left, fmt.Sprintf("%s was changed by somebody else's ALTER SYSTEM meanwhile and is left: it shows %s, and did %s before pgtare", name, is.Shown, was.Shown))
		case !same(is.Line, was.Line):
			return u, fmt.Errorf("%s of the server does not say of %s what it said, after that was put back", autoConf, name)
		case is.Shown != was.Shown:
			u.differ = append(u.differ, fmt.Sprintf("%s is put back, but shows %s (source %q), where it was %s: somebody else has changed it meanwhile", name, is.Shown, facts[name].Source, was.Shown))
		}
	}
	return u, nil
}

// UndoAlterSystem puts the configuration back that a dead pgtare has changed, by
// what the journal holds of it, and says what it did. The error is a
// [*host.NotOurs] where a setting was changed by somebody else meanwhile, once
// the others are back.
func UndoAlterSystem(ctx context.Context, data json.RawMessage) (did string, err error) {
	var a alteration
	if err := json.Unmarshal(data, &a); err != nil {
		return "", fmt.Errorf("read what the journal holds of a server's configuration: %w", err)
	}
	conn, cfg, err := again(ctx, a.Conninfo, a.System)
	if err != nil {
		return "", a.notUndone(err)
	}
	defer closeConn(conn)
	return undoAlterSystem(ctx, conn, cfg, a)
}

func (a alteration) notUndone(err error) error {
	return fmt.Errorf("put %s back in the configuration of %s: %v", strings.Join(slices.Sorted(maps.Keys(a.Was)), ", "), a.Server, err) // as in UndoSchema
}

func undoAlterSystem(ctx context.Context, conn *pgconn.PgConn, cfg *pgconn.Config, a alteration) (did string, err error) {
	u, err := undoAlteration(ctx, conn, cfg, a)
	if err != nil {
		return "", a.notUndone(err)
	}
	did = fmt.Sprintf("put %s back in the configuration of %s", strings.Join(slices.Sorted(maps.Keys(a.Was)), ", "), a.Server)
	if len(u.left) == len(a.Was) {
		did = a.Server
	}
	if all := append(u.left, u.differ...); len(all) > 0 {
		did += ": " + strings.Join(all, "; ")
	}
	if len(u.left) > 0 {
		return "", &host.NotOurs{Msg: did}
	}
	return did, nil
}

// IsOf says whether what the journal holds under kind is of the server that a is
// attached to: then a must not take what stands there for the server's own.
func (a *Attached) IsOf(kind string, data json.RawMessage) bool {
	var x alteration
	return kind == AlterSystemKind && json.Unmarshal(data, &x) == nil && (x.System == a.system || x.System == "" || a.system == "")
}
