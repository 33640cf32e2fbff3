package server

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// conninfoOf writes how to reach a managed instance as a user would.
func conninfoOf(in *Instance, more string) string {
	return fmt.Sprintf("host='%s' port=%d user=postgres dbname=postgres %s", in.sockets, port, more)
}

// attachTo resolves and attaches as the runner does.
func attachTo(t *testing.T, conninfo string) (*Attached, error) {
	t.Helper()
	spec, err := ParseSpec(conninfo)
	if err != nil {
		return nil, err
	}
	found, err := Resolve(t.Context(), []Spec{spec}, ResolveConfig{})
	if err != nil {
		return nil, err
	}
	return Attach(t.Context(), found[0])
}

func TestAttach(t *testing.T) {
	in := scratch.get(t)
	watch := connect(t, in.Config())
	schemas := func() string {
		t.Helper()
		return ask(t, watch, "SELECT coalesce(string_agg(nspname, ' '), '') FROM pg_namespace WHERE nspname = 'pgtare'")[0][0]
	}
	a, err := attachTo(t, conninfoOf(in, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.Managed() || a.Label() != shared.install.Version || a.Schema() != "pgtare" || !a.LocalPID() || schemas() != "pgtare" {
		t.Errorf("managed %v, label %q, schema %q (%q), local %v", a.Managed(), a.Label(), a.Schema(), schemas(), a.LocalPID())
	}
	if err := a.Alive(t.Context()); err != nil {
		t.Error(err)
	}
	s, err := a.Describe(t.Context())
	if err != nil || s.Origin != "attached" || s.Version != shared.install.Version || s.Compiler == "" || len(s.Deviations) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	// A second pgtare must not take the first's tables away.
	if _, err := attachTo(t, conninfoOf(in, "")); !isUsage(err) || !strings.Contains(err.Error(), "another pgtare") {
		t.Errorf("a second pgtare: %v", err)
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
}

// TestAttachLeftOver: a pgtare that died leaves a marked schema.
func TestAttachLeftOver(t *testing.T) {
	in := scratch.get(t)
	watch := connect(t, in.Config())
	a, err := attachTo(t, conninfoOf(in, ""))
	if err != nil {
		t.Fatal(err)
	}
	ask(t, watch, "CREATE TABLE pgtare.t()")
	closeConn(a.keeper) // it dies
	waitFor(t, "the lock to go", func() bool {
		return ask(t, watch, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")[0][0] == "0"
	})
	b, err := attachTo(t, conninfoOf(in, ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, watch, "SELECT to_regclass('pgtare.t')")[0][0]; got != "" {
		t.Error("the table of the dead one is still there")
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
	if got := ask(t, watch, "SELECT count(*) FROM pg_namespace WHERE nspname = 'pgtare'")[0][0]; got != "0" {
		t.Error("Close left the schema")
	}
}

func TestAttachRefuses(t *testing.T) {
	in := scratch.get(t)
	watch := connect(t, in.Config())
	refused := func(conninfo, want string) {
		t.Helper()
		a, err := attachTo(t, conninfo)
		if err == nil {
			a.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	ask(t, watch, "CREATE SCHEMA pgtare; CREATE TABLE pgtare.users()")
	refused(conninfoOf(in, ""), "pgtare did not make")
	if got := ask(t, watch, "SELECT to_regclass('pgtare.users')")[0][0]; got == "" {
		t.Fatal("a user's schema was dropped")
	}
	ask(t, watch, "DROP SCHEMA pgtare CASCADE")

	ask(t, watch, "DROP ROLE IF EXISTS poor; CREATE ROLE poor LOGIN")
	// A role that may make no schema can still be measured with what needs none.
	poor, err := attachTo(t, strings.Replace(conninfoOf(in, ""), "user=postgres", "user=poor", 1))
	if err != nil || poor.Schema() != "" {
		t.Fatalf("a role without CREATE: %v", err)
	}
	if err := poor.Close(); err != nil {
		t.Error(err)
	}
	refused(strings.Replace(conninfoOf(in, "password=hunter2"), "dbname=postgres", "dbname=none", 1), `database "none" does not exist`)
	refused("host=/tmp/none port=1 password=hunter2", "/tmp/none")
	refused("postgres://me:hunter2@127.0.0.1:1/x", "refused")
}

// TestAttachReadOnly: such a server can be measured, without tables.
func TestAttachReadOnly(t *testing.T) {
	in := scratch.get(t)
	a, err := attachTo(t, conninfoOf(in, "options='-c default_transaction_read_only=on'"))
	if err != nil {
		t.Fatal(err)
	}
	if a.Schema() != "" {
		t.Errorf("schema %q", a.Schema())
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func TestIsBackend(t *testing.T) {
	in := sharedInstance(t)
	conn := connect(t, in.Config())
	var pid int
	var started float64
	fmt.Sscan(strings.Join(ask(t, conn, "SELECT pid, extract(epoch FROM backend_start) FROM pg_stat_activity WHERE pid = pg_backend_pid()")[0], " "), &pid, &started)
	check := func(pid int, started float64, want bool) {
		t.Helper()
		if got := isBackend(pid, started); got != want {
			t.Errorf("isBackend(%d, %f) = %v", pid, started, got)
		}
	}
	check(pid, started, true)
	check(pid, started-60, false) // a PID of another namespace, by chance a postgres here
	check(os.Getpid(), started, false)
	check(1<<30, started, false)
	if int(conn.PID()) != pid {
		t.Errorf("PID %d by the protocol, %d by the server", conn.PID(), pid)
	}
}
