package server

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// victim is a pgtare that is about to be killed: this test binary, started
// again by TestKilled. It runs an instance, one backend that computes and one
// that sleeps, and cleans up on SIGINT and SIGTERM as pgtare does.
func victim(cache string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	fail := func(err error) int {
		fmt.Println("error", err)
		return 1
	}
	found, err := Resolve(ctx, []Spec{{}}, ResolveConfig{})
	if err != nil {
		return fail(err)
	}
	m, err := NewManager(ctx, ManagerConfig{CacheDir: cache})
	if err != nil {
		return fail(err)
	}
	in, err := m.Create(ctx, found[0], InstanceConfig{ID: "a"})
	if err == nil {
		err = in.Start(ctx)
	}
	if err != nil {
		return fail(err)
	}
	for _, sql := range []string{"SELECT count(*) FROM generate_series(1, 1000000000)", "SELECT pg_sleep(1000)"} {
		conn, err := pgconn.ConnectConfig(ctx, in.Config())
		if err != nil {
			return fail(err)
		}
		go conn.Exec(context.Background(), sql).Close()
	}
	// postmaster, checkpointer, writers, launchers; and the queries must run.
	for len(processesIn(m.session.dir)) < 1+5+2 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("ready", m.session.dir)
	<-ctx.Done()
	if err := m.Close(); err != nil {
		return fail(err)
	}
	return 128
}

func startVictim(t *testing.T, cache string) (cmd *exec.Cmd, dir string) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "PGTARE_TEST_VICTIM="+cache)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if dir, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
			return cmd, dir
		}
		t.Fatal(lines.Text())
	}
	t.Fatal("the victim did not start")
	return nil, ""
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for start := time.Now(); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// TestKilled kills a real process that owns an instance.
func TestKilled(t *testing.T) {
	cache := openCache(t)
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			cmd, dir := startVictim(t, cache)
			segments := segmentsOf(t, dir)
			// While it lives, a second one must leave it alone.
			m, err := NewManager(t.Context(), ManagerConfig{CacheDir: cache})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			if len(processesIn(dir)) < 8 {
				t.Fatal("a second manager ended the first's processes")
			}
			start := time.Now()
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the processes to end", func() bool { return len(processesIn(dir)) == 0 })
			t.Logf("all processes ended %v after the signal", time.Since(start).Round(time.Millisecond))
			if d := time.Since(start); d > 3*time.Second {
				t.Errorf("the processes took %v to end", d)
			}
			cmd.Wait()
			orderly := sig == syscall.SIGTERM || sig == syscall.SIGINT
			if orderly && (cmd.ProcessState.ExitCode() != 128 || exists(dir)) {
				t.Errorf("after %v: %v, directory there: %v", sig, cmd.ProcessState, exists(dir))
			}
			if !orderly && !exists(dir) {
				t.Error("the directory is gone; then the next step shows nothing")
			}
			m, err = NewManager(t.Context(), ManagerConfig{CacheDir: cache})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if exists(dir) {
				t.Errorf("the next start left %s", dir)
			}
			if left := remaining(segments); len(left) > 0 {
				t.Errorf("shared memory left: %q of %q", left, segments)
			}
		})
	}
}

// TestKilledWithStoppedServer: a stopped postmaster doesn't see the signal of
// its parent's death; the next start ends it.
func TestKilledWithStoppedServer(t *testing.T) {
	cache := openCache(t)
	cmd, dir := startVictim(t, cache)
	segments := segmentsOf(t, dir)
	for _, pid := range processesIn(dir) {
		syscall.Kill(pid, syscall.SIGSTOP)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if len(processesIn(dir)) == 0 {
		t.Fatal("stopped servers ended by themselves; then this test shows nothing")
	}
	var log []string
	m, err := NewManager(t.Context(), ManagerConfig{CacheDir: cache, Log: func(s string) { log = append(log, s) }})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if pids := processesIn(dir); len(pids) > 0 || exists(dir) {
		t.Errorf("left: processes %v, directory %v", pids, exists(dir))
	}
	if len(log) != 1 || !strings.Contains(log[0], "dead pgtare") {
		t.Errorf("said %q", log)
	}
	if left := remaining(segments); len(left) > 0 {
		t.Errorf("shared memory left: %q of %q", left, segments)
	}
}

// segmentsOf returns the shared memory of the processes that work in dir: the
// IDs of System V segments and the files in /dev/shm.
func segmentsOf(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	for _, pid := range processesIn(dir) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(text)) {
			// address perms offset device inode path
			f := strings.Fields(l)
			if len(f) < 6 {
				continue
			}
			s := ""
			if strings.HasPrefix(f[5], "/SYSV") {
				s = f[4] // the inode is the ID
			} else if strings.HasPrefix(f[5], "/dev/shm/PostgreSQL.") {
				s = f[5]
			}
			if s != "" && !slices.Contains(found, s) {
				found = append(found, s)
			}
		}
	}
	if len(found) < 2 {
		t.Fatalf("a server has at least two shared memory segments; found %q", found)
	}
	return found
}

// remaining returns those that are still there.
func remaining(segments []string) []string {
	text, _ := os.ReadFile("/proc/sysvipc/shm")
	return slices.DeleteFunc(slices.Clone(segments), func(s string) bool {
		if strings.HasPrefix(s, "/") {
			return !exists(s)
		}
		for l := range strings.Lines(string(text)) {
			if f := strings.Fields(l); len(f) > 1 && f[1] == s {
				return false
			}
		}
		return true
	})
}
