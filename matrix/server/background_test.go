package server

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/host"
)

// allVersions are the shared installation and, fetched, the oldest and the
// newest whose statistics have other places.
func allVersions(t *testing.T) []Installation {
	t.Helper()
	sharedInstance(t)
	return append([]Installation{shared.install}, fetched(t, "13", "18")...)
}

// startNew starts an instance that ends with the test.
func startNew(t *testing.T, inst Installation, id string, settings map[string]string) *Instance {
	t.Helper()
	in, err := shared.manager.Create(t.Context(), inst, InstanceConfig{ID: id, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	if err := in.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return in
}

func TestBackground(t *testing.T) {
	for i, inst := range allVersions(t) {
		t.Run(inst.Label, func(t *testing.T) {
			t.Parallel() // it mostly waits for statistics
			in := startNew(t, inst, fmt.Sprintf("background%d", i), map[string]string{
				"shared_buffers": "1MB", "autovacuum_naptime": "1", "checkpoint_timeout": "1h", "max_wal_size": "10GB",
				"bgwriter_delay": "200ms",
			})
			testBackground(t, in)
		})
	}
}

func testBackground(t *testing.T, in *Instance) {
	watch := connect(t, in.Config())
	read := func() BackgroundCounters {
		t.Helper()
		c, err := Background(t.Context(), watch)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	during := func(sqls ...string) BackgroundCounters {
		t.Helper()
		before := read()
		conn := connect(t, in.Config())
		for _, sql := range sqls {
			ask(t, conn, sql)
		}
		closeConn(conn)
		waitFor(t, "the backend to end", func() bool {
			return ask(t, watch, fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d", conn.PID()))[0][0] == "0"
		})
		return read().Sub(before)
	}
	// About 1430 pages: seven rows of 1 kB in each.
	during("CREATE TABLE big (t text) WITH (autovacuum_enabled = off)", "ALTER TABLE big ALTER t SET STORAGE PLAIN")
	c := during("INSERT INTO big SELECT repeat('x', 1000) FROM generate_series(1, 10000)", "CHECKPOINT", "CHECKPOINT")
	t.Logf("10000 rows of 1 kB, two checkpoints: %+v", c)
	if c.WALBytes < 10_000_000 || c.WALBytes > 60_000_000 || c.PagesWritten < 1430 || c.PagesWritten > 8000 || c.Checkpoints != 2 {
		t.Errorf("10000 rows of 1 kB, two checkpoints: %+v", c)
	}
	c = during("SELECT count(*) FROM big", "SELECT count(*) FROM big") // sets hint bits, so it writes pages, too, and WAL where these have checksums
	t.Logf("two scans: %+v", c)
	if c.PagesRead < 2*1430-2*128 || c.PagesRead > 3*1430 || c.Checkpoints != 0 || c.WALBytes > 20_000_000 {
		t.Errorf("two scans of 1430 pages past 128 buffers: %+v", c)
	}
	before := read()
	during("CREATE TABLE dead AS SELECT i FROM generate_series(1, 1000) i", "DELETE FROM dead")
	for deadline := time.Now().Add(20 * time.Second); ; {
		c = read().Sub(before)
		if c.Vacuums > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("autovacuum has run for 20 s and no run is seen")
		}
	}
	var shown int64
	fmt.Sscan(ask(t, watch, "SELECT autovacuum_count + autoanalyze_count FROM pg_stat_all_tables WHERE relname = 'dead'")[0][0], &shown)
	if shown < 1 || c.Vacuums < shown {
		t.Errorf("%d runs on the table, %+v", shown, c)
	}
}

// TestInstanceCPU burns time in a backend, which is then counted once, while
// it lives and after it has ended.
func TestInstanceCPU(t *testing.T) {
	in := scratch.get(t)
	cpu := func() time.Duration {
		t.Helper()
		d, err := in.CPU()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	before := cpu()
	conn := connect(t, in.Config())
	proc, err := host.OpenProc(int(conn.PID()))
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	ask(t, conn, "SELECT count(*) FROM generate_series(1, 3000000)")
	time.Sleep(20 * time.Millisecond) // it goes to sleep
	burnt, _, err := proc.CPU()
	if err != nil {
		t.Fatal(err)
	}
	alive := cpu()
	// The grain of those that have ended, and what the others do meanwhile.
	const slack = 60 * time.Millisecond
	if d := alive - before - burnt; burnt < 2*slack || d < -20*time.Millisecond || d > slack {
		t.Errorf("a backend used %v, the instance %v", burnt, alive-before)
	}
	closeConn(conn)
	waitFor(t, "the backend to end", func() bool { return !exists(fmt.Sprintf("/proc/%d", conn.PID())) })
	if d := cpu() - alive; d < -20*time.Millisecond || d > slack {
		t.Errorf("when the backend ended the sum moved by %v", d)
	}
	if !exists(fmt.Sprintf("/proc/%d/task/%[1]d/children", in.PID())) {
		t.Log("this kernel lists no children")
	}
	// Both ways to find the processes see the same.
	a, _, err := family(in.PID(), in.data())
	if err != nil || len(a) < 5 {
		t.Fatalf("%v, %v", a, err)
	}
	for _, pid := range a {
		if !worksIn(pid, in.data()) {
			t.Errorf("process %d is counted, and not of the instance", pid)
		}
	}
	if _, _, err := family(1<<30, os.TempDir()); err == nil {
		t.Error("no process, no error")
	}
	// A stopped instance has none, a new start begins anew.
	if err := in.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := in.CPU(); err == nil {
		t.Error("CPU() of a stopped instance")
	}
	if err := in.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cpu(); d <= 0 || d > alive {
		t.Errorf("just started: %v", d)
	}
}

func BenchmarkInstanceCPU(b *testing.B) {
	if scratch.in == nil {
		b.Skip("runs beside the tests")
	}
	if scratch.in.Alive(b.Context()) != nil {
		b.Skip("the instance has been stopped")
	}
	for range 100 {
		conn, err := pgconn.ConnectConfig(b.Context(), scratch.in.Config())
		if err != nil {
			break // no more connections to be had
		}
		defer closeConn(conn)
	}
	for b.Loop() {
		if _, err := scratch.in.CPU(); err != nil {
			b.Fatal(err)
		}
	}
}
