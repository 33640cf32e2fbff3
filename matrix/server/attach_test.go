package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"pgtare/matrix/host"
)

// conninfoOf writes how to reach a managed instance as a user would.
func conninfoOf(in *Instance, more string) string {
	return fmt.Sprintf("host='%s' port=%d user=postgres dbname=postgres %s", in.sockets, port, more)
}

// attachTo resolves and attaches as the runner does.
func attachTo(t *testing.T, conninfo string, cfg AttachConfig) (*Attached, error) {
	t.Helper()
	return attachIn(t.Context(), conninfo, cfg)
}

func attachIn(ctx context.Context, conninfo string, cfg AttachConfig) (*Attached, error) {
	spec, err := ParseSpec(conninfo)
	if err != nil {
		return nil, err
	}
	found, err := Resolve(ctx, []Spec{spec}, ResolveConfig{})
	if err != nil {
		return nil, err
	}
	return Attach(ctx, found[0], cfg)
}

// journalIn returns what opens a journal in dir, once.
func journalIn(t *testing.T, dir string) func() (*host.Journal, error) {
	t.Helper()
	return sync.OnceValues(func() (*host.Journal, error) {
		j, err := host.OpenJournal(dir)
		if err == nil {
			t.Cleanup(func() { j.Close() }) //nolint:errcheck // it may be closed by then
		}
		return j, err
	})
}

var inserts = AttachConfig{Writes: "insert"}

func TestAttach(t *testing.T) {
	in := scratch.get(t)
	watch := connect(t, in.Config())
	schemas := func() string {
		t.Helper()
		return ask(t, watch, "SELECT coalesce(string_agg(nspname, ' '), '') FROM pg_namespace WHERE nspname = 'pgtare'")[0][0]
	}
	dir := t.TempDir()
	a, err := attachTo(t, conninfoOf(in, ""), AttachConfig{Writes: "insert", Journal: journalIn(t, dir)})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.Managed() || a.Label() != shared.install.Version || a.Schema() != "" || !a.LocalPID() || schemas() != "" {
		t.Errorf("managed %v, label %q, schema %q (%q), local %v", a.Managed(), a.Label(), a.Schema(), schemas(), a.LocalPID())
	}
	if source, reason := a.CPUSource(); source != "proc" || reason != "" {
		t.Errorf("CPU by %q, %q", source, reason)
	}
	for range 2 {
		if err := a.MakeSchema(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if a.Schema() != "pgtare" || schemas() != "pgtare" {
		t.Errorf("schema %q (%q)", a.Schema(), schemas())
	}
	if err := a.Alive(t.Context()); err != nil {
		t.Error(err)
	}
	s, err := a.Describe(t.Context())
	if err != nil || s.Origin != "attached" || s.Version != shared.install.Version || s.Compiler == "" || len(s.Deviations) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	// A second pgtare must not take the first's tables away, nor measure beside
	// it from another database.
	ask(t, watch, "CREATE DATABASE other")
	defer ask(t, watch, "DROP DATABASE other")
	for _, more := range []string{"", "dbname=other"} {
		if _, err := attachTo(t, conninfoOf(in, more), AttachConfig{}); !isUsage(err) || !strings.Contains(err.Error(), "another pgtare") {
			t.Errorf("a second pgtare, %s: %v", more, err)
		}
	}
	ask(t, watch, "CREATE TABLE pgtare.t()")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if schemas() != "" {
		t.Error("Close left the schema")
	}
	if err := a.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if left := leftIn(t, dir); len(left) > 0 {
		t.Errorf("the journal still holds %v", left)
	}
}

// leftIn returns what a dead process's journals in dir hold: the caller's own
// must be closed.
func leftIn(t *testing.T, dir string) []host.Pending {
	t.Helper()
	left, err := host.Leftover(dir)
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// TestAttachLeftOver: a pgtare that died leaves a marked schema, which the next
// one drops, or restore.
func TestAttachLeftOver(t *testing.T) {
	in := scratch.get(t)
	watch := connect(t, in.Config())
	dies := func(cfg AttachConfig) {
		t.Helper()
		a, err := attachTo(t, conninfoOf(in, "password=hunter2"), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.MakeSchema(t.Context()); err != nil {
			t.Fatal(err)
		}
		ask(t, watch, "CREATE TABLE pgtare.t()")
		closeConn(a.keeper)
	}
	gone := func() bool {
		t.Helper()
		return ask(t, watch, "SELECT to_regnamespace('pgtare')")[0][0] == ""
	}
	dies(inserts)
	b, err := attachTo(t, conninfoOf(in, ""), inserts)
	if err != nil {
		t.Fatal(err)
	}
	if !gone() {
		t.Error("the schema of the dead one is still there")
	}
	if err := b.MakeSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Close after the server was restarted, which cuts its session off.
	if err := in.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	watch = connect(t, in.Config())
	if !gone() {
		t.Error("Close left the schema")
	}

	dir := t.TempDir()
	journal := journalIn(t, dir)
	dies(AttachConfig{Writes: "insert", Journal: journal})
	j, err := journal()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	left := leftIn(t, dir)
	if len(left) != 1 || left[0].Kind != SchemaKind || strings.Contains(string(left[0].Data), "hunter2") {
		t.Fatalf("the journal holds %+v", left)
	}
	busy, err := attachTo(t, conninfoOf(in, ""), AttachConfig{}) // drops it, too
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if did, err := UndoSchema(short, left[0].Data); err == nil || isUsage(err) {
		t.Errorf("undone while another is at work: %q", did)
	}
	if err := busy.Close(); err != nil {
		t.Fatal(err)
	}
	did, err := UndoSchema(t.Context(), left[0].Data)
	if err != nil || !strings.Contains(did, "gone already") {
		t.Errorf("%q, %v", did, err)
	}
	ask(t, watch, "CREATE SCHEMA pgtare; COMMENT ON SCHEMA pgtare IS "+literal(schemaMark))
	if did, err = UndoSchema(t.Context(), left[0].Data); err != nil || !strings.Contains(did, "dropped") || !gone() {
		t.Errorf("%q, %v", did, err)
	}
}

func TestAttachRefuses(t *testing.T) {
	in := scratch.get(t)
	watch := connect(t, in.Config())
	refused := func(usage bool, conninfo, want string, cfg AttachConfig) {
		t.Helper()
		a, err := attachTo(t, conninfo, cfg)
		if err == nil {
			a.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") || isUsage(err) != usage {
			t.Errorf("%v, want %q", err, want)
		}
	}
	ask(t, watch, "CREATE SCHEMA pgtare; CREATE TABLE pgtare.users()")
	refused(true, conninfoOf(in, ""), "pgtare did not make", inserts)
	// Where no table is needed it is not in the way.
	a, err := attachTo(t, conninfoOf(in, ""), AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if got := ask(t, watch, "SELECT to_regclass('pgtare.users')")[0][0]; got == "" {
		t.Fatal("a user's schema was dropped")
	}
	ask(t, watch, "DROP SCHEMA pgtare CASCADE")

	ask(t, watch, "DROP ROLE IF EXISTS poor")
	ask(t, watch, "CREATE ROLE poor LOGIN")
	poor := strings.Replace(conninfoOf(in, ""), "user=postgres", "user=poor", 1)
	refused(true, poor, `GRANT CREATE ON DATABASE "postgres" TO "poor"`, inserts)
	// A role that may make no schema can still be measured with what needs none.
	a, err = attachTo(t, poor, AttachConfig{})
	if err != nil || a.Schema() != "" {
		t.Fatalf("a role without CREATE: %v", err)
	}
	if _, err := Probe(t.Context(), a.Config(), []Setting{set("statement_timeout", "100")}); err != nil {
		t.Error(err)
	}
	var na *NotApplicable
	if _, err := Probe(t.Context(), a.Config(), []Setting{set("track_activities", "off")}); !errors.As(err, &na) || !strings.Contains(na.Error(), `GRANT SET ON PARAMETER track_activities TO "poor"`) {
		t.Errorf("a superuser's setting: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	refused(true, strings.Replace(conninfoOf(in, "password=hunter2"), "dbname=postgres", "dbname=none", 1), `database "none" does not exist`, AttachConfig{})
	refused(true, strings.Replace(conninfoOf(in, ""), "user=postgres", "user=nobody-here", 1), "nobody-here", AttachConfig{})
	refused(false, "host=/tmp/none port=1 password=hunter2", "/tmp/none", AttachConfig{})
	refused(false, "postgres://me:hunter2@127.0.0.1:1/x", "no server takes connections at 127.0.0.1:1", AttachConfig{})
	refused(true, "postgres://me:hunter2@no-such-host.invalid/x", "no-such-host.invalid is not known", AttachConfig{})
	refused(true, conninfoOf(in, "options='-c default_transaction_read_only=on'"), "only read", inserts)

	ask(t, watch, "ALTER ROLE poor CONNECTION LIMIT 0")
	refused(true, poor, "no connection left", AttachConfig{})
	ask(t, watch, "DROP ROLE poor")
}

// onTCP is an instance that listens on the loopback interface and wants
// passwords there.
var onTCP = &oneInstance{cfg: InstanceConfig{ID: "tcp", Settings: map[string]string{"listen_addresses": "127.0.0.1", "password_encryption": "scram-sha-256"}}}

// tcp returns the instance and its port, with the role scram (password
// "tomato") that must give it.
func tcp(t *testing.T) (*Instance, int) {
	t.Helper()
	sharedInstance(t)
	if onTCP.in == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		free := l.Addr().(*net.TCPAddr).Port
		l.Close()
		onTCP.cfg.Settings["port"] = fmt.Sprint(free)
		// The port names the socket, too, by which the instance is reached.
		if onTCP.in, err = shared.manager.Create(t.Context(), shared.install, onTCP.cfg); err != nil {
			t.Fatal(err)
		}
		onTCP.in.config.Port = uint16(free)
		hba := filepath.Join(onTCP.in.data(), "pg_hba.conf")
		if err := os.WriteFile(hba, []byte("local all all trust\nhost all old 127.0.0.1/32 md5\nhost all all 127.0.0.1/32 scram-sha-256\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := onTCP.get(t)
	conn := connect(t, in.Config())
	if ask(t, conn, "SELECT count(*) FROM pg_roles WHERE rolname = 'scram'")[0][0] == "0" {
		ask(t, conn, "CREATE ROLE scram LOGIN PASSWORD 'tomato'")
		ask(t, conn, "SET password_encryption = md5; CREATE ROLE old LOGIN PASSWORD 'leek'")
	}
	return in, int(in.config.Port)
}

// TestPasswords: as libpq, from the conninfo, the environment, a password file
// or a service file; and what is written down of it.
func TestPasswords(t *testing.T) {
	_, port := tcp(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pass := file("pass", fmt.Sprintf("127.0.0.1:%d:*:scram:tomato\n", port))
	wrong := file("wrong", fmt.Sprintf("127.0.0.1:%d:*:scram:cucumber\n", port))
	service := file("services", fmt.Sprintf("[weighed]\nhost=127.0.0.1\nport=%d\nuser=scram\npassword=tomato\ndbname=postgres\n", port))
	for _, c := range []struct {
		name, conninfo string
		env            map[string]string
		refused        string // "" for none
	}{
		{"none", "host=127.0.0.1 port=PORT user=scram dbname=postgres", nil, "wants a password of role scram"},
		{"conninfo", "host=127.0.0.1 port=PORT user=scram dbname=postgres password=tomato", nil, ""},
		{"wrong", "host=127.0.0.1 port=PORT user=scram dbname=postgres password=cucumber", nil, "does not take the password of role scram"},
		{"URI", "postgres://scram:tomato@127.0.0.1:PORT/postgres?sslmode=prefer", nil, ""},
		{"PGPASSWORD", "host=127.0.0.1 port=PORT user=scram dbname=postgres", map[string]string{"PGPASSWORD": "tomato"}, ""},
		{"environment", "connect_timeout=5", map[string]string{"PGHOST": "127.0.0.1", "PGPORT": "PORT", "PGUSER": "scram", "PGDATABASE": "postgres", "PGPASSFILE": pass}, ""},
		{"PGPASSFILE", "host=127.0.0.1 port=PORT user=scram dbname=postgres", map[string]string{"PGPASSFILE": pass}, ""},
		{"wrong file", "host=127.0.0.1 port=PORT user=scram dbname=postgres passfile=" + wrong, nil, "does not take the password of role scram"},
		{"service", "service=weighed", map[string]string{"PGSERVICEFILE": service}, ""},
		{"no such service", "service=unweighed", map[string]string{"PGSERVICEFILE": service}, "unweighed"},
		{"md5", "host=127.0.0.1 port=PORT user=old dbname=postgres password=leek", nil, ""},
		{"md5, wrong", "host=127.0.0.1 port=PORT user=old dbname=postgres password=tomato", nil, "does not take the password of role old"},
		{"no encryption there", "host=127.0.0.1 port=PORT user=scram dbname=postgres password=tomato sslmode=require", nil, "does not encrypt connections"},
		{"several hosts", "host=127.0.0.1,127.0.0.1 port=1,PORT user=scram dbname=postgres password=tomato", nil, ""},
		{"a primary among them", "host=/tmp/none,127.0.0.1 port=1,PORT user=scram dbname=postgres password=tomato target_session_attrs=read-write", nil, ""},
		{"no standby among them", "host=127.0.0.1 port=PORT user=scram dbname=postgres password=tomato target_session_attrs=standby", nil, "hot standby"},
	} {
		t.Run(c.name, func(t *testing.T) {
			with := func(s string) string { return strings.ReplaceAll(s, "PORT", fmt.Sprint(port)) }
			for k, v := range c.env {
				t.Setenv(k, with(v))
			}
			a, err := attachTo(t, with(c.conninfo), AttachConfig{})
			if c.refused != "" {
				if err == nil {
					a.Close()
				}
				if err == nil || !strings.Contains(err.Error(), c.refused) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "tomato") || strings.Contains(err.Error(), "cucumber") {
					t.Errorf("%v, expected %q", err, c.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if a.config.Host != "127.0.0.1" || int(a.config.Port) != port || len(a.config.Fallbacks) > 0 {
				t.Errorf("further sessions go to %s", addressOf(a.config))
			}
			if err := a.Alive(t.Context()); err != nil {
				t.Error(err)
			}
			text := durableConninfo(a.inst.Conninfo, a.config)
			if strings.Contains(text, "tomato") || strings.Contains(text, "leek") || !strings.Contains(text, fmt.Sprintf("port='%d'", port)) {
				t.Errorf("written down: %s", text)
			}
			// With the password from elsewhere it leads there again.
			for _, k := range []string{"PGHOST", "PGPORT", "PGUSER", "PGDATABASE"} {
				t.Setenv(k, "")
			}
			t.Setenv("PGPASSWORD", a.config.Password)
			cfg, err := attachedConfig(text)
			if err != nil || cfg.Host != a.config.Host || cfg.Port != a.config.Port || cfg.User != a.config.User || cfg.Database != a.config.Database || cfg.Password != a.config.Password {
				t.Errorf("%s leads to %+v, %v", text, cfg, err)
			}
		})
	}
}

// proxy stands between clients and a real server as a pooler would: what it
// does to the start-up message and to the server's answers is the case's.
// It returns its port.
func proxy(t *testing.T, in *Instance, startup func(*pgproto3.StartupMessage), key func(*pgproto3.BackendKeyData)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, address := pgconn.NetworkAddress(in.sockets, in.config.Port)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				front := pgproto3.NewBackend(client, client)
				first, err := front.ReceiveStartupMessage()
				if _, ssl := first.(*pgproto3.SSLRequest); err == nil && ssl {
					if _, err = client.Write([]byte("N")); err == nil {
						first, err = front.ReceiveStartupMessage()
					}
				}
				m, ok := first.(*pgproto3.StartupMessage)
				if err != nil || !ok {
					return
				}
				startup(m)
				server, err := net.Dial("unix", address)
				if err != nil {
					return
				}
				defer server.Close()
				text, err := m.Encode(nil)
				if err != nil {
					return
				}
				if _, err := server.Write(text); err != nil {
					return
				}
				go func() {
					io.Copy(server, client) //nolint:errcheck // the end of the session
					server.Close()
				}()
				back := pgproto3.NewFrontend(server, nil)
				for {
					answer, err := back.Receive()
					if err != nil {
						return
					}
					if k, ok := answer.(*pgproto3.BackendKeyData); ok {
						key(k)
					}
					if text, err = answer.Encode(nil); err != nil {
						return
					}
					if _, err := client.Write(text); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// TestPooler: one that drops what is given at connecting, and one that shows its
// own keys in place of a backend's.
func TestPooler(t *testing.T) {
	in := scratch.get(t)
	strip := func(m *pgproto3.StartupMessage) {
		for name := range m.Parameters {
			if !slices.Contains([]string{"user", "database", "client_encoding"}, name) {
				delete(m.Parameters, name)
			}
		}
	}
	keep := func(*pgproto3.StartupMessage) {}
	own := func(k *pgproto3.BackendKeyData) { k.ProcessID = 4711 }
	for name, c := range map[string]struct {
		port int
		sign string // "" for none
	}{
		"drops parameters":     {proxy(t, in, strip, func(*pgproto3.BackendKeyData) {}), "statement_timeout) did not arrive"},
		"keys of its own":      {proxy(t, in, keep, own), "served by process 4711"},
		"passes everything on": {proxy(t, in, keep, func(*pgproto3.BackendKeyData) {}), ""},
	} {
		a, err := attachTo(t, fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres", c.port), AttachConfig{})
		if err == nil {
			a.Close()
		}
		if c.sign == "" && err != nil || c.sign != "" && (!isUsage(err) || !strings.Contains(err.Error(), c.sign) || !strings.Contains(err.Error(), "pooler")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOthers counts sessions at work, and those that a role may not look into.
func TestOthers(t *testing.T) {
	in := scratch.get(t)
	watch := connect(t, in.Config())
	ask(t, watch, "DROP ROLE IF EXISTS blind")
	ask(t, watch, "CREATE ROLE blind LOGIN")
	for user, want := range map[string][2]int{"postgres": {1, 0}, "blind": {0, 2}} { // the sleeper, and watch
		a, err := attachTo(t, strings.Replace(conninfoOf(in, ""), "user=postgres", "user="+user, 1), AttachConfig{})
		if err != nil {
			t.Fatal(err)
		}
		sleeper := connect(t, in.Config())
		asleep := make(chan struct{})
		go func() { sleeper.Exec(t.Context(), "SELECT pg_sleep(100)").Close(); close(asleep) }() //nolint:errcheck // it is cancelled
		waitFor(t, "the sleeper", func() bool {
			return ask(t, watch, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'")[0][0] == "1"
		})
		active, hidden, err := a.Others(t.Context())
		if err != nil || [2]int{active, hidden} != want {
			t.Errorf("%s sees %d at work and %d hidden, %v", user, active, hidden, err)
		}
		ask(t, watch, fmt.Sprintf("SELECT pg_cancel_backend(%d)", sleeper.PID()))
		<-asleep
		closeConn(sleeper)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	ask(t, watch, "DROP ROLE blind")
}

// TestBackendCPU reads CPU time through the server and compares it with this
// machine's /proc.
func TestBackendCPU(t *testing.T) {
	in := scratch.get(t)
	watch := connect(t, in.Config())
	a, err := attachTo(t, conninfoOf(in, ""), AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.postmaster = 0
	a.findCPU(t.Context(), os.Getpid(), 0, 0) // a PID that is none of the server's
	if source, reason := a.CPUSource(); source != "server" {
		t.Fatalf("CPU by %q: %s", source, reason)
	}
	load := connect(t, in.Config())
	pids := []int{int(load.PID()), int(watch.PID())}
	direct := func() (run, wait time.Duration) {
		for _, pid := range pids {
			p, err := host.OpenProc(pid)
			if err != nil {
				t.Fatal(err)
			}
			r, w, err := p.CPU()
			p.Close()
			if err != nil {
				t.Fatal(err)
			}
			run, wait = run+r, wait+w
		}
		return run, wait
	}
	ask(t, load, "SELECT count(*) FROM generate_series(1, 100000)")
	// Once both sleep the kernel's figures are the same, to the ns.
	waitFor(t, "the same figures", func() bool {
		run, wait, err := a.BackendCPU(t.Context(), pids)
		if err != nil {
			t.Fatal(err)
		}
		r, w := direct()
		return r == run && w == wait && run > time.Millisecond
	})
	if _, _, err := a.BackendCPU(t.Context(), []int{1 << 22}); err == nil {
		t.Error("read a process that isn't there")
	}

	ask(t, watch, "DROP ROLE IF EXISTS unread")
	ask(t, watch, "CREATE ROLE unread LOGIN")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := attachTo(t, strings.Replace(conninfoOf(in, ""), "user=postgres", "user=unread", 1), AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	b.postmaster = 0
	b.findCPU(t.Context(), os.Getpid(), 0, 0)
	if source, reason := b.CPUSource(); source != "" || !strings.Contains(reason, `GRANT pg_read_server_files TO "unread"`) {
		t.Errorf("CPU by %q: %s", source, reason)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	ask(t, watch, "DROP ROLE unread")
}

func TestPostmasterOf(t *testing.T) {
	in := sharedInstance(t)
	conn := connect(t, in.Config())
	var pid int
	var started, postmaster float64
	fmt.Sscan(strings.Join(ask(t, conn, "SELECT pid, extract(epoch FROM backend_start), extract(epoch FROM pg_postmaster_start_time()) FROM pg_stat_activity WHERE pid = pg_backend_pid()")[0], " "), &pid, &started, &postmaster)
	check := func(pid int, started, postmaster float64, want bool) {
		t.Helper()
		got, ok := postmasterOf(pid, started, postmaster)
		if ok != want || ok && got != in.PID() {
			t.Errorf("postmasterOf(%d, %f, %f) = %d, %v", pid, started, postmaster, got, ok)
		}
	}
	check(pid, started, postmaster, true)
	check(pid, started-60, postmaster, false) // a PID of another namespace, by chance a postgres here
	check(pid, started, postmaster-60, false) // of another server
	check(pid, started, postmaster+3600, false)
	check(os.Getpid(), started, postmaster, false)
	check(1<<30, started, postmaster, false)
	if int(conn.PID()) != pid {
		t.Errorf("PID %d by the protocol, %d by the server", conn.PID(), pid)
	}
}

// TestStandby: a server in recovery can be read from, not written to.
func TestStandby(t *testing.T) {
	sharedInstance(t)
	in, err := shared.manager.Create(t.Context(), shared.install, InstanceConfig{ID: "standby"})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := os.WriteFile(filepath.Join(in.data(), "standby.signal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := shared.manager.user.give(filepath.Join(in.data(), "standby.signal")); err != nil {
		t.Fatal(err)
	}
	if err := in.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := attachTo(t, conninfoOf(in, ""), inserts); !isUsage(err) || !strings.Contains(err.Error(), "in recovery") {
		t.Errorf("a workload that writes: %v", err)
	}
	a, err := attachTo(t, conninfoOf(in, ""), AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	// Its configuration is its own.
	if _, err := a.Configure(t.Context(), []Setting{set("max_standby_streaming_delay", "7s")}); err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestConfigure: what is put into a server's configuration is in force in new
// sessions, and everything is as it was afterwards, to the byte.
func TestConfigure(t *testing.T) {
	in := scratch.get(t)
	watch := connect(t, in.Config())
	ask(t, watch, "ALTER SYSTEM SET deadlock_timeout = '1500ms'")
	defer ask(t, watch, "SELECT pg_reload_conf()")
	defer ask(t, watch, "ALTER SYSTEM RESET deadlock_timeout")
	ask(t, watch, "SELECT pg_reload_conf()")
	auto := filepath.Join(in.data(), autoConf)
	read := func() string {
		t.Helper()
		text, err := os.ReadFile(auto)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := read()
	shows := func(name, want string) {
		t.Helper()
		conn := connect(t, in.Config())
		defer closeConn(conn)
		if got := ask(t, conn, "SHOW "+name)[0][0]; got != want {
			t.Errorf("%s is %s, expected %s", name, got, want)
		}
	}
	dir := t.TempDir()
	journal := journalIn(t, dir)
	a, err := attachTo(t, conninfoOf(in, ""), AttachConfig{Journal: journal})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	configure := func(want map[string]string, settings ...Setting) {
		t.Helper()
		got, err := a.Configure(t.Context(), settings)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v: %v, %v", settings, got, err)
		}
	}
	configure(map[string]string{})
	configure(map[string]string{"autovacuum_naptime": "17 s", "log_line_prefix": `it's %m \ `}, set("autovacuum_naptime", "17s"), set("log_line_prefix", `it's %m \ `))
	shows("autovacuum_naptime", "17s")
	configure(map[string]string{"deadlock_timeout": "2000 ms", "autovacuum_naptime": "18 s"}, set("deadlock_timeout", "2s"), set("autovacuum_naptime", "18s"), Setting{Name: "log_line_prefix", Default: true})
	shows("autovacuum_naptime", "18s")
	shows("log_line_prefix", "%m [%p] ")
	configure(map[string]string{})
	shows("deadlock_timeout", "1500ms")
	if got := read(); got != before {
		t.Errorf("with nothing configured %s is\n%s\nit was\n%s", autoConf, got, before)
	}
	// A value that the server won't have is its own trouble, and undone.
	var na *NotApplicable
	if _, err := a.Configure(t.Context(), []Setting{set("autovacuum_naptime", "soon")}); !errors.As(err, &na) || na.Setting.Value != "soon" {
		t.Errorf("a wrong value: %v", err)
	}
	configure(map[string]string{"autovacuum_naptime": "17 s"}, set("autovacuum_naptime", "17s"))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	shows("autovacuum_naptime", "1min")
	if got := read(); got != before {
		t.Errorf("after Close %s is\n%s\nit was\n%s", autoConf, got, before)
	}
	j, err := journal()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if left := leftIn(t, dir); len(left) > 0 {
		t.Errorf("the journal still holds %+v", left)
	}
}

// TestUndoAlterSystem: a pgtare that died is undone by the journal, whatever
// part of its work it had done, but for what others have set since.
func TestUndoAlterSystem(t *testing.T) {
	in := scratch.get(t)
	watch := connect(t, in.Config())
	read := func() string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(in.data(), autoConf))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := read()
	conf := filepath.Join(in.data(), "postgresql.conf")
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	for name, meddle := range map[string]func(){
		"as it was left":    func() {},
		"before the reload": func() { ask(t, watch, "ALTER SYSTEM RESET autovacuum_naptime") },
		"somebody else's":   func() { ask(t, watch, "ALTER SYSTEM SET autovacuum_naptime = '33s'") },
		"other file's": func() {
			if err := os.WriteFile(conf, append(slices.Clone(text), "\nautovacuum_naptime = '44s'\n"...), 0o600); err != nil {
				t.Error(err)
			}
		},
		"nothing is left of": func() {
			ask(t, watch, "ALTER SYSTEM RESET autovacuum_naptime")
			ask(t, watch, "SELECT pg_reload_conf()")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			journal := journalIn(t, dir)
			a, err := attachTo(t, conninfoOf(in, ""), AttachConfig{Journal: journal})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.Configure(t.Context(), []Setting{set("autovacuum_naptime", "17s")}); err != nil {
				t.Fatal(err)
			}
			closeConn(a.keeper) // it dies
			j, err := journal()
			if err != nil {
				t.Fatal(err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			meddle()
			left := leftIn(t, dir)
			if len(left) != 1 || left[0].Kind != AlterSystemKind || !a.IsOf(left[0].Kind, left[0].Data) {
				t.Fatalf("the journal holds %+v", left)
			}
			did, err := UndoAlterSystem(t.Context(), left[0].Data)
			theirs := name == "somebody else's"
			var notOurs *host.NotOurs
			if errors.As(err, &notOurs) != theirs || !theirs && err != nil || theirs && !strings.Contains(err.Error(), "it shows 33 s, and did 60 s before pgtare") {
				t.Fatalf("%q, %v", did, err)
			}
			if elsewhere := name == "other file's"; strings.Contains(did, `is put back, but shows 44 s (source "configuration file"), where it was 60 s`) != elsewhere {
				t.Errorf("said %q", did)
			} else if elsewhere {
				if err := os.WriteFile(conf, text, 0o600); err != nil {
					t.Fatal(err)
				}
				ask(t, watch, "SELECT pg_reload_conf()")
				waitFor(t, "the reload", func() bool { return ask(t, watch, "SHOW autovacuum_naptime")[0][0] == "1min" })
			}
			if got := read(); (got != before) != theirs {
				t.Errorf("%s is\n%s\nit was\n%s", autoConf, got, before)
			}
			conn := connect(t, in.Config())
			defer closeConn(conn)
			if got := ask(t, conn, "SHOW autovacuum_naptime")[0][0]; (got != "1min") != theirs {
				t.Errorf("autovacuum_naptime is %s", got)
			}
			ask(t, watch, "ALTER SYSTEM RESET autovacuum_naptime")
			ask(t, watch, "SELECT pg_reload_conf()")
		})
	}
	if _, err := UndoAlterSystem(t.Context(), json.RawMessage(fmt.Sprintf(`{"server": "x", "conninfo": %q, "system": "1", "was": {"jit": {"line": null, "shown": "on"}}}`, conninfoOf(in, "")))); err == nil || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("undone on another cluster: %v", err)
	}
}

// TestOusted: a pgtare whose keeper was ended, and whose place another has taken,
// does nothing there any more, and leaves what it has to undo to restore.
func TestOusted(t *testing.T) {
	in := scratch.get(t)
	watch := connect(t, in.Config())
	dir := t.TempDir()
	journal := journalIn(t, dir)
	a, err := attachTo(t, conninfoOf(in, ""), AttachConfig{Writes: "insert", Journal: journal})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.MakeSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Configure(t.Context(), []Setting{set("autovacuum_naptime", "17s")}); err != nil {
		t.Fatal(err)
	}
	cutOff := func() {
		t.Helper()
		pid := a.keeper.PID()
		ask(t, watch, fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid))
		waitFor(t, "its end", func() bool {
			return ask(t, watch, fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d", pid))[0][0] == "0"
		})
	}
	cutOff()
	// Alone, it goes on as before, under the lock again.
	if _, _, err := a.Others(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := attachTo(t, conninfoOf(in, ""), AttachConfig{}); !isUsage(err) {
		t.Errorf("a second pgtare beside it: %v", err)
	}
	cutOff()
	b, err := attachTo(t, conninfoOf(in, ""), inserts)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.MakeSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it must not take the session without the lock for its keeper
		short, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		_, _, err := a.Others(short)
		cancel()
		if err == nil || isUsage(err) || !strings.Contains(err.Error(), "another pgtare is at work") {
			t.Errorf("beside another: %v", err)
		}
	}
	if err := a.Close(); err == nil || strings.Count(err.Error(), "pgtare restore") != 2 {
		t.Errorf("closed: %v", err)
	}
	if got := strings.Join(ask(t, watch, "SELECT to_regnamespace('pgtare'), pg_read_file('postgresql.auto.conf') LIKE '%17s%'")[0], " "); got != "pgtare t" {
		t.Errorf("the other's schema, and what is altered: %s", got)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	j, err := journal()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	left := leftIn(t, dir)
	if len(left) != 2 {
		t.Fatalf("the journal holds %+v", left)
	}
	// The next one undoes it by its own session.
	c, err := attachTo(t, conninfoOf(in, ""), AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range left {
		if did, mine, err := c.Undo(t.Context(), left[i].Kind, left[i].Data); !mine || err != nil {
			t.Errorf("%q, %v, %v", did, mine, err)
		}
		if did, mine, err := c.Undo(t.Context(), left[i].Kind, json.RawMessage(`{"server": "x", "system": "1"}`)); mine || err != nil {
			t.Errorf("of another server: %q, %v, %v", did, mine, err)
		}
	}
	if got := ask(t, watch, "SELECT pg_read_file('postgresql.auto.conf') LIKE '%17s%'")[0][0]; got != "f" {
		t.Error("the next one left what was altered")
	}
}

// TestMeddled: what somebody does to the configuration in the middle is seen,
// and not written over.
func TestMeddled(t *testing.T) {
	in := scratch.get(t)
	watch := connect(t, in.Config())
	a, err := attachTo(t, conninfoOf(in, ""), AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	meddled := func(want string) {
		t.Helper()
		if what, err := a.Meddled(t.Context()); err != nil || what != want {
			t.Errorf("%q, %v; expected %q", what, err, want)
		}
	}
	configure := func(settings ...Setting) {
		t.Helper()
		if _, err := a.Configure(t.Context(), settings); err != nil {
			t.Fatal(err)
		}
	}
	reload := func(sql, want string) {
		t.Helper()
		ask(t, watch, sql)
		ask(t, watch, "SELECT pg_reload_conf()")
		waitFor(t, "the reload", func() bool {
			conn := connect(t, in.Config())
			defer closeConn(conn)
			return ask(t, conn, "SELECT current_setting('autovacuum_naptime') || current_setting('deadlock_timeout')")[0][0] == want
		})
	}
	meddled("")
	configure(set("autovacuum_naptime", "17s"))
	meddled("")
	reload("ALTER SYSTEM SET deadlock_timeout = '1500ms'", "17s1500ms")
	meddled("the server has read its configuration again, whatever that changed")
	meddled("")
	reload("ALTER SYSTEM RESET deadlock_timeout", "17s1s")
	configure()
	meddled("")
	configure(set("autovacuum_naptime", "18s"))
	ask(t, watch, "ALTER SYSTEM SET autovacuum_naptime = '33s'")
	meddled("autovacuum_naptime was changed by ALTER SYSTEM")
	again := func() error {
		_, err := a.Configure(t.Context(), []Setting{set("autovacuum_naptime", "18s")})
		return err
	}
	if err := again(); err == nil || !strings.Contains(err.Error(), "is not written over") {
		t.Errorf("over somebody else's: %v", err)
	}
	reload("ALTER SYSTEM SET autovacuum_naptime = '18s'", "18s1s")
	if err := again(); err != nil {
		t.Error(err)
	}
	reload("ALTER SYSTEM SET autovacuum_naptime = '17s'", "17s1s")
	meddled("autovacuum_naptime shows 17 s, where it was 18 s")
}

// TestLimits: limits of the role's don't keep what is left from being undone.
func TestLimits(t *testing.T) {
	in := scratch.get(t)
	watch := connect(t, in.Config())
	ask(t, watch, "DROP ROLE IF EXISTS hasty")
	ask(t, watch, "CREATE ROLE hasty LOGIN; GRANT CREATE ON DATABASE postgres TO hasty; ALTER ROLE hasty SET statement_timeout = '100ms'; ALTER ROLE hasty SET lock_timeout = '50ms'")
	defer ask(t, watch, "DROP OWNED BY hasty; DROP ROLE hasty")
	dir := t.TempDir()
	journal := journalIn(t, dir)
	a, err := attachTo(t, strings.Replace(conninfoOf(in, ""), "user=postgres", "user=hasty", 1), AttachConfig{Writes: "insert", Journal: journal})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.MakeSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := a.Config().RuntimeParams; len(got) != 0 {
		t.Errorf("sessions that are measured are given %v", got)
	}
	closeConn(a.keeper) // it dies
	j, err := journal()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	ask(t, watch, "CREATE TABLE pgtare.t()")
	defer ask(t, watch, "DROP SCHEMA IF EXISTS pgtare CASCADE")
	ask(t, watch, "BEGIN; LOCK TABLE pgtare.t")
	committed := make(chan struct{})
	go func() {
		time.Sleep(300 * time.Millisecond)
		watch.Exec(context.Background(), "COMMIT").ReadAll() //nolint:errcheck // then the lock stays, and the test fails
		close(committed)
	}()
	defer func() { <-committed }()
	if did, err := UndoSchema(t.Context(), leftIn(t, dir)[0].Data); err != nil || !strings.Contains(did, "dropped") {
		t.Errorf("%q, %v", did, err)
	}
}

// TestReach: a name may have another address each time it is asked for.
func TestReach(t *testing.T) {
	in := scratch.get(t)
	port := proxy(t, in, func(*pgproto3.StartupMessage) {}, func(*pgproto3.BackendKeyData) {})
	cfg, err := attachedConfig(fmt.Sprintf("host=somewhere port=%d user=postgres dbname=postgres sslmode=allow", port))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	cfg.LookupFunc = func(context.Context, string) ([]string, error) {
		asked++
		return []string{fmt.Sprintf("127.0.0.%d", asked)}, nil
	}
	conn, same, err := reach(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	closeConn(conn)
	if asked < 2 {
		t.Error("it was looked up once; then this shows nothing")
	}
	if ips, err := same.LookupFunc(t.Context(), "somewhere"); err != nil || !slices.Equal(ips, []string{"127.0.0.1"}) {
		t.Errorf("the way back leads to %v, %v", ips, err)
	}
}

// TestConfigureRefuses: what can't be put back, or would change more than asked.
func TestConfigureRefuses(t *testing.T) {
	in := scratch.get(t)
	watch := connect(t, in.Config())
	read := func() string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(in.data(), autoConf))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := read()
	refused := func(user, want string, s Setting) {
		t.Helper()
		a, err := attachTo(t, strings.Replace(conninfoOf(in, ""), "user=postgres", "user="+user, 1), AttachConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = a.Configure(t.Context(), []Setting{s}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, expected %q", s, err, want)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if got := read(); got != before {
			t.Errorf("%s is\n%s\nit was\n%s", autoConf, got, before)
		}
	}
	naptime := set("autovacuum_naptime", "17s")
	refused("postgres", "lists of names", set("search_path", "a, b"))
	refused("postgres", "--set archive_command: such values may hold secrets", set("archive_command", "cat hunter2"))
	ask(t, watch, "DROP ROLE IF EXISTS clerk")
	ask(t, watch, "CREATE ROLE clerk LOGIN")
	refused("clerk", "GRANT EXECUTE ON FUNCTION pg_catalog.pg_reload_conf() TO \"clerk\"", naptime)
	ask(t, watch, "GRANT EXECUTE ON FUNCTION pg_reload_conf() TO clerk")
	refused("clerk", "GRANT SELECT ON pg_catalog.pg_file_settings TO \"clerk\"", naptime)
	ask(t, watch, "GRANT SELECT ON pg_file_settings TO clerk; GRANT EXECUTE ON FUNCTION pg_show_all_file_settings() TO clerk")
	if majorOf(watch) >= 15 {
		refused("clerk", "GRANT ALTER SYSTEM ON PARAMETER autovacuum_naptime TO \"clerk\"", naptime)
		ask(t, watch, "GRANT ALTER SYSTEM ON PARAMETER autovacuum_naptime TO clerk")
		a, err := attachTo(t, strings.Replace(conninfoOf(in, ""), "user=postgres", "user=clerk", 1), AttachConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := a.Configure(t.Context(), []Setting{naptime}); err != nil || got["autovacuum_naptime"] != "17 s" {
			t.Errorf("a role with all rights: %v, %v", got, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		ask(t, watch, "REVOKE ALTER SYSTEM ON PARAMETER autovacuum_naptime FROM clerk")
	}
	ask(t, watch, "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
	refused("clerk", "GRANT EXECUTE ON FUNCTION pg_catalog.pg_control_system() TO \"clerk\"", naptime)
	ask(t, watch, "GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
	ask(t, watch, "DROP OWNED BY clerk; DROP ROLE clerk")

	// A role's own value comes before the server's.
	ask(t, watch, "ALTER ROLE postgres SET deadlock_timeout = '3s'")
	refused("postgres", `from source "user"`, set("deadlock_timeout", "2s"))
	ask(t, watch, "ALTER ROLE postgres RESET deadlock_timeout")

	conf := filepath.Join(in.data(), "postgresql.conf")
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	write := func(more string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(conf, append(slices.Clone(text), more...), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(conf, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("\nwork_mem = '5MB'\n", time.Now().Add(2*time.Second))
	refused("postgres", "was changed since the server read it", naptime)
	write("\nwork_menn = '5MB'\n", time.Now().Add(-time.Hour))
	refused("postgres", "has a mistake", naptime)
	write("", time.Now().Add(-time.Hour))
}

// testAttached does on a version's instance all that is done on an attached
// server: TestProveConfigured calls it for each.
func testAttached(t *testing.T, in *Instance) {
	watch := connect(t, in.Config())
	const state = "SELECT pg_read_file('postgresql.auto.conf') || current_setting('autovacuum_naptime') || coalesce(to_regnamespace('pgtare')::text, '-')"
	before := ask(t, watch, state)[0][0]
	a, err := attachTo(t, conninfoOf(in, ""), AttachConfig{Writes: "insert", Journal: journalIn(t, t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if !a.LocalPID() || a.system == "" {
		t.Errorf("its processes are ours to see: %v; system identifier %q", a.LocalPID(), a.system)
	}
	if err := a.MakeSchema(t.Context()); err != nil {
		t.Error(err)
	}
	if got, err := a.Configure(t.Context(), []Setting{set("autovacuum_naptime", "17s")}); err != nil || got["autovacuum_naptime"] != "17 s" {
		t.Errorf("%v, %v", got, err)
	}
	if active, hidden, err := a.Others(t.Context()); err != nil || active != 0 || hidden != 0 {
		t.Errorf("%d others at work, %d hidden, %v", active, hidden, err)
	}
	if cpu, err := a.CPU(); err != nil || cpu <= 0 {
		t.Errorf("CPU of the server %v, %v", cpu, err)
	}
	a.postmaster = 0
	a.findCPU(t.Context(), os.Getpid(), 0, 0)
	if run, _, err := a.BackendCPU(t.Context(), []int{int(watch.PID())}); err != nil || run <= 0 {
		t.Errorf("CPU of a backend through the server %v, %v", run, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	watch = connect(t, in.Config())
	if got := ask(t, watch, state)[0][0]; got != before {
		t.Errorf("the state is\n%s\nit was\n%s", got, before)
	}
}

// TestGone: a server that is stopped with things of pgtare's on it.
func TestGone(t *testing.T) {
	in := scratch.get(t)
	dir := t.TempDir()
	a, err := attachTo(t, conninfoOf(in, ""), AttachConfig{Writes: "insert", Journal: journalIn(t, dir)})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.MakeSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Configure(t.Context(), []Setting{set("autovacuum_naptime", "17s")}); err != nil {
		t.Fatal(err)
	}
	if err := in.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Alive(t.Context()); err == nil || !strings.Contains(err.Error(), "no server takes connections") {
		t.Errorf("alive: %v", err)
	}
	if err := a.Close(); err == nil || strings.Count(err.Error(), "pgtare restore") != 2 {
		t.Errorf("closed: %v", err)
	}
	if err := in.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	j, err := a.cfg.Journal()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for _, p := range leftIn(t, dir) {
		undo := map[string]func() (string, error){
			SchemaKind:      func() (string, error) { return UndoSchema(t.Context(), p.Data) },
			AlterSystemKind: func() (string, error) { return UndoAlterSystem(t.Context(), p.Data) },
		}[p.Kind]
		if _, err := undo(); err != nil {
			t.Error(err)
		}
	}
	watch := connect(t, in.Config())
	if got := strings.Join(ask(t, watch, "SELECT coalesce(to_regnamespace('pgtare')::text, '-'), current_setting('autovacuum_naptime')")[0], " "); got != "- 1min" {
		t.Errorf("left: %s", got)
	}
}

// TestOtherNamespace: in a PID namespace of its own, where the server's numbers
// are other processes' or none, a server is not taken for this machine's.
func TestOtherNamespace(t *testing.T) {
	in := scratch.get(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--pid", "--fork", "--mount-proc", exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), "PGTARE_TEST_NAMESPACE="+conninfoOf(in, ""))
	out, err := cmd.CombinedOutput()
	if err != nil && strings.HasPrefix(string(out), "unshare: ") || errors.Is(err, exec.ErrNotFound) {
		lack(t, fmt.Errorf("a PID namespace can't be had: %v: %s", err, out))
	}
	if err != nil || !strings.Contains(string(out), "CPU by server") {
		t.Errorf("%v: %s", err, out)
	}
}

// otherNamespace is run by TestOtherNamespace in its namespace.
func otherNamespace(conninfo string) int {
	a, err := attachIn(context.Background(), conninfo, AttachConfig{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer a.Close()
	source, reason := a.CPUSource()
	fmt.Println("CPU by", source, reason)
	return 0
}
