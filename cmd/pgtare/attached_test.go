package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/server/servertest"
	"pgtare/results"
)

func conninfo(s *servertest.Server, user string) string {
	c := s.Config()
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", c.Host, c.Port, user, c.Database)
}

// sql runs statements in a new session of a superuser, and returns the first
// value of the last one's result.
func sql(t *testing.T, s *servertest.Server, statements ...string) string {
	t.Helper()
	conn, err := pgconn.ConnectConfig(t.Context(), s.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // it has served
	value := ""
	for _, text := range statements {
		all, err := conn.Exec(t.Context(), text).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if rows := all[len(all)-1].Rows; len(rows) > 0 {
			value = string(rows[0][0])
		}
	}
	return value
}

// state is all that pgtare may have changed on a server.
func state(t *testing.T, s *servertest.Server) string {
	t.Helper()
	return sql(t, s, `SELECT pg_read_file('postgresql.auto.conf') || current_setting('autovacuum_naptime') || ' '
		|| (SELECT count(*) FROM pg_namespace WHERE nspname = 'pgtare')`)
}

// A setting that needs a reload is set on a running server only when that is
// allowed, in blocks, and however pgtare ends it is put back.
func TestAlterSystem(t *testing.T) {
	t.Parallel()
	s := servertest.Fresh(t)
	sql(t, s, "ALTER SYSTEM SET autovacuum_naptime = '50s'", "SELECT pg_reload_conf()")
	for deadline := time.Now().Add(10 * time.Second); sql(t, s, "SHOW autovacuum_naptime") != "50s"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server does not reload")
		}
	}
	before := state(t, s)
	dir, home := t.TempDir(), t.TempDir()
	env := []string{"XDG_STATE_HOME=" + home}
	cache := cacheDir(t)
	matrix := []string{"run", "--server", conninfo(s, "postgres"), "--set", "autovacuum_naptime=default,20s", "-b", "insert", "--cache-dir", cache}

	startWith(t, env, matrix...).expect(t, 2, "--allow-alter-system")
	startWith(t, env, "run", "--cache-dir", cache, "--server", conninfo(s, "postgres"), "--set", "shared_buffers=16MB,32MB", "--allow-alter-system").
		expect(t, 2, "name its installation instead")
	if got := state(t, s); got != before {
		t.Fatalf("a refused matrix changed\n%s\ninto\n%s", before, got)
	}

	record := filepath.Join(dir, "whole.jsonl")
	startWith(t, env, with(matrix, "--allow-alter-system", "-T", "0.1", "--runs", "2", "-o", record)...).expect(t, 0, "")
	if got := state(t, s); got != before {
		t.Errorf("a whole matrix changed\n%s\ninto\n%s", before, got)
	}
	rec, err := results.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{"": "", "control instance": "", "autovacuum_naptime=20s": "20 s"}
	for _, c := range rec.Header.Cells {
		if want, known := shown[c.Label]; !known || c.Status != "ok" || c.Schedule != "block" || c.ReadBack["autovacuum_naptime"] != want {
			t.Errorf("cell %s (%s) is %s, schedule %s, read back %v", c.ID, c.Label, c.Status, c.Schedule, c.ReadBack)
		}
	}
	if len(rec.Generations) != 6 {
		t.Errorf("%d blocks, expected two of each of three cells", len(rec.Generations))
	}

	for _, c := range []struct {
		signal syscall.Signal
		undo   []string // what comes after
		status int
		says   string
	}{
		{syscall.SIGTERM, nil, 0, ""},
		{syscall.SIGKILL, []string{"run", "--cache-dir", cache, "--server", conninfo(s, "postgres"), "--set", "none", "-T", "0.05", "--runs", "1"}, 0, "put autovacuum_naptime back"},
	} {
		record := filepath.Join(dir, fmt.Sprintf("%v%d.jsonl", c.signal, len(c.undo)))
		p := startWith(t, env, with(matrix, "--allow-alter-system", "-T", "0.3", "--runs", "100", "-o", record)...)
		measuring(t, p, record)
		for deadline := time.Now().Add(20 * time.Second); sql(t, s, "SHOW autovacuum_naptime") != "20s"; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the setting is not seen in force")
			}
		}
		if state(t, s) == before {
			t.Error("nothing is changed in the middle; then this shows nothing")
		}
		if err := p.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		p.expect(t, 128+int(c.signal), "")
		if c.undo != nil {
			if state(t, s) == before {
				t.Error("nothing was left by SIGKILL; then this shows nothing")
			}
			undo := startWith(t, env, c.undo...)
			undo.expect(t, c.status, "")
			if !strings.Contains(undo.stdout.String()+undo.stderr.String(), c.says) {
				t.Errorf("%v says\n%s%s", c.undo, undo.stdout.String(), undo.stderr.String())
			}
		}
		if got := state(t, s); got != before {
			t.Errorf("after %v and %v the state is\n%s\nit was\n%s", c.signal, c.undo, got, before)
		}
		if left, err := os.ReadDir(filepath.Join(home, "pgtare", "undo")); err != nil || len(left) > 0 {
			t.Errorf("after %v the journals hold %v, %v", c.signal, left, err)
		}
	}
}

// An ordinary role can measure what its sessions may set; what takes more is
// refused with the right to grant.
func TestOrdinaryRole(t *testing.T) {
	t.Parallel()
	s := servertest.Fresh(t)
	sql(t, s, "CREATE ROLE clerk LOGIN")
	before := state(t, s)
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--set", "statement_timeout=0,100s", "-b", "select1"}, 0, ""},
		{[]string{"--set", "statement_timeout=0,100s", "-b", "insert"}, 2, `GRANT CREATE ON DATABASE "postgres" TO "clerk"`},
		{[]string{"--set", "track_activities=on,off", "-b", "select1"}, 2, `GRANT SET ON PARAMETER track_activities TO "clerk"`},
		{[]string{"--set", "autovacuum_naptime=60s,20s", "--allow-alter-system"}, 2, "pg_reload_conf() TO \"clerk\""},
	} {
		p := start(t, append([]string{"run", "--server", conninfo(s, "clerk"), "-T", "0.1", "--runs", "3"}, c.args...)...)
		p.expect(t, c.status, c.want)
		if c.status != 0 && (strings.Count(p.stderr.String(), "\n") != 1 || p.stdout.Len() > 0) {
			t.Errorf("%v: more than a sentence:\n%s%s", c.args, p.stderr.String(), p.stdout.String())
		}
		if got := state(t, s); got != before {
			t.Errorf("%v changed\n%s\ninto\n%s", c.args, before, got)
		}
	}
}

// What can't be trusted is refused in a sentence; with a reload setting an
// encrypted connection serves as others do, and what is written down of it lets
// restore in again, but for the password.
func TestEncryptedAttached(t *testing.T) {
	t.Parallel()
	s, verified := servertest.Encrypted(t)
	untrusted := start(t, with(quick, "--server", verified[:strings.Index(verified, "sslrootcert=")])...)
	untrusted.expect(t, 2, "is not trusted")
	if strings.Count(untrusted.stderr.String(), "\n") != 1 {
		t.Errorf("more than a sentence:\n%s", untrusted.stderr.String())
	}
	home, record := t.TempDir(), filepath.Join(t.TempDir(), "r.jsonl")
	before := state(t, s)
	p := startWith(t, []string{"XDG_STATE_HOME=" + home}, "run", "--server", verified, "--set", "autovacuum_naptime=30s,20s", "-b", "insert", "--allow-alter-system",
		"-T", "0.2", "--runs", "100", "-o", record)
	measuring(t, p, record)
	p.Process.Kill() //nolint:errcheck // its end is waited for
	<-p.done
	if state(t, s) == before {
		t.Error("nothing was left by SIGKILL; then this shows nothing")
	}
	startWith(t, []string{"XDG_STATE_HOME=" + home, "PGPASSFILE=/nonexistent"}, "restore").expect(t, 1, "wants a password of role encrypted")
	if state(t, s) == before {
		t.Error("undone without a password")
	}
	startWith(t, []string{"XDG_STATE_HOME=" + home, "PGPASSWORD=it's secret"}, "restore").expect(t, 0, "")
	if got := state(t, s); got != before {
		t.Errorf("the state is\n%s\nit was\n%s", got, before)
	}
}

// Other sessions at work are a doubt.
func TestOtherSessions(t *testing.T) {
	t.Parallel()
	s := servertest.Fresh(t)
	conn, err := pgconn.ConnectConfig(t.Context(), s.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())                              //nolint:errcheck // it has served
	go conn.Exec(t.Context(), "SELECT pg_sleep(1000)").Close() //nolint:errcheck // the server's end ends it
	p := start(t, "run", "--server", conninfo(s, "postgres"), "--set", "none", "-T", "0.1", "--runs", "3")
	p.expect(t, 0, "")
	if !strings.Contains(p.stdout.String(), "other sessions were at work") {
		t.Errorf("no doubt about other sessions:\n%s", p.stdout.String())
	}
}

// Where the server's processes are not in this machine's /proc, here because
// pgtare runs in a PID namespace of its own, their CPU time is read through the
// server, for a role that may.
func TestCPUThroughServer(t *testing.T) {
	t.Parallel()
	s := servertest.Fresh(t)
	sql(t, s, "CREATE ROLE clerk LOGIN")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for user, known := range map[string]bool{"postgres": true, "clerk": false} {
		record := filepath.Join(t.TempDir(), "r.jsonl")
		cmd := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", exe,
			"run", "--server", conninfo(s, user), "--set", "none", "-c", "2", "-T", "0.1", "--runs", "3", "-o", record)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		out, err := cmd.CombinedOutput()
		if errors.Is(err, exec.ErrNotFound) || strings.HasPrefix(string(out), "unshare: ") {
			servertest.Lack(t, "needs a PID namespace: %v: %s", err, out)
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		rec, err := results.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range rec.Generations {
			for i, cpu := range g.Slices.ServerCPU {
				// Two backends can't have run longer than the slice took; 10 ms are for
				// what a loaded machine makes of the moments of reading.
				if known && (cpu <= 0 || cpu > 2*g.Slices.ElapsedNs[i]+10e6) || !known && cpu != -1 {
					t.Fatalf("%s: slice %d of cell %s took %d ns of CPU and %d ns", user, i, g.Cell, cpu, g.Slices.ElapsedNs[i])
				}
			}
		}
		if doubt := strings.Contains(string(out), "pg_read_server_files"); doubt == known {
			t.Errorf("%s: a doubt about CPU time: %v\n%s", user, doubt, out)
		}
	}
}

// A Unix socket may lead elsewhere: the clock source is switched only for a server
// whose processes are seen.
func TestClocksourceElsewhere(t *testing.T) {
	sources := servertest.Clocksources(t)
	s := servertest.Fresh(t)
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--pid", "--fork", "--mount-proc", path, "run", "--server", conninfo(s, "postgres"), "--clocksource", strings.Join(sources, ","))
	cmd.Env = append(os.Environ(), asProgram+"=1", "XDG_STATE_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil && strings.HasPrefix(string(out), "unshare: ") || errors.Is(err, exec.ErrNotFound) {
		servertest.Lack(t, "a PID namespace can't be had: %v: %s", err, out)
	}
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "are not to be seen on this machine") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A server that goes away in the middle: one sentence, and what is left on it is
// undone when it is back.
func TestAttachedGone(t *testing.T) {
	t.Parallel()
	s := servertest.Fresh(t)
	home, record := t.TempDir(), filepath.Join(t.TempDir(), "r.jsonl")
	env := []string{"XDG_STATE_HOME=" + home}
	before := state(t, s)
	p := startWith(t, env, with(long, "--server", conninfo(s, "postgres"), "-b", "insert", "-o", record)...)
	measuring(t, p, record)
	pid := s.PID()
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	p.expect(t, 1, "does not answer")
	for deadline := time.Now().Add(20 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server does not end")
		}
	}
	if !strings.Contains(p.stderr.String(), "pgtare restore") {
		t.Errorf("standard error does not say how the schema goes:\n%s", p.stderr.String())
	}
	startWith(t, env, "restore").expect(t, 1, "no server takes connections")
	if err := s.Instance().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	startWith(t, env, "restore").expect(t, 0, "")
	if got := state(t, s); got != before {
		t.Errorf("the state is\n%s\nit was\n%s", got, before)
	}
}
