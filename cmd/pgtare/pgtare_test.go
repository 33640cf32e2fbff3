package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/host"
	"pgtare/matrix/server/servertest"
	"pgtare/results"
	"pgtare/results/report"
	"pgtare/results/stats"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// asProgram makes the test binary behave as pgtare: the tests of whole
// commands start it in a process of its own, where signals and exit statuses
// are real.
const asProgram = "PGTARE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	servertest.Main(m)
}

// program is a pgtare that was started.
type program struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
	done           chan struct{}
}

func start(t *testing.T, args ...string) *program { return startWith(t, nil, args...) }

func startWith(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{Cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.Env = append(os.Environ(), asProgram+"=1", "XDG_STATE_HOME="+t.TempDir())
	p.Env = append(p.Env, env...)
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.Wait(); close(p.done) }() //nolint:errcheck // the status is in ProcessState
	t.Cleanup(func() { p.Process.Kill(); <-p.done })
	return p
}

// wait returns the exit status as a shell shows it.
func (p *program) wait(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		t.Fatalf("pgtare still runs after %v; standard error:\n%s", limit, p.stderr.String())
	}
	if ws := p.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return p.ProcessState.ExitCode()
}

func (p *program) expect(t *testing.T, status int, message string) {
	t.Helper()
	got := p.wait(t, 4*time.Minute) // against one that hangs; tests beside it may take most of the machine
	if got != status || !strings.Contains(p.stderr.String(), message) {
		t.Errorf("%s\nexit status %d, expected %d; standard error:\n%sexpected in it: %s", strings.Join(p.Args[1:], " "), got, status, p.stderr.String(), message)
	}
	if status != 0 && status < 128 && strings.Contains(p.stderr.String(), "goroutine ") {
		t.Errorf("a panic reached the user:\n%s", p.stderr.String())
	}
}

// quick is a small matrix on the newest local server.
var quick = []string{"run", "--set", "track_activities=off,on", "--runs", "3", "-T", "0.1"}

func with(list []string, more ...string) []string { return append(slices.Clone(list), more...) }

// Mistakes on the command line: one sentence with the remedy, status 2, and no
// server touched.
func TestUsageErrors(t *testing.T) {
	dir := t.TempDir()
	empty, meta, null := filepath.Join(dir, "empty.sql"), filepath.Join(dir, "meta.sql"), filepath.Join(dir, "null.sql")
	copyin, sets, reset := filepath.Join(dir, "copyin.sql"), filepath.Join(dir, "sets.sql"), filepath.Join(dir, "reset.sql")
	for path, text := range map[string]string{copyin: "copy t from\nstdin;", sets: "select 1; SET SESSION Track_Activities = off;", reset: "discard all", empty: "-- nothing\n", meta: "select 1;\n\\set x 1\n", null: "select\x00 1"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{"rum", "did you mean run?"},
		{"run extra", "takes no argument"},
		{"run --mod per-statement", "did you mean mode?"},
		{"run --sets jit=on,off", "did you mean set?"},
		{"run -c x", "expected a number of clients"},
		{"run -c 0", "at least 1"},
		{"run -t 5 -T 5", "give one of them"},
		{"run -T 0", "above 0"},
		{"run -T nan", "above 0"},
		{"run -T inf", "above 0"},
		{"run -t 99999999999", "out of range"},
		{"run --runs 1000001", "out of range"},
		{"run --controls 1000000 --dry-run", "out of range"},
		{"run --slice 0", "500us to 10s"},
		{"run --mode=", "given and empty"},
		{"run --server=", "given and empty"},
		{"run -f " + copyin, "COPY from or to the client"},
		{"run -f " + sets, "changes track_activities"},
		{"run -f " + reset, "changes track_activities"},
		{"run -T 86400", "out of range"},
		{"run -M prepare", "did you mean prepared?"},
		{"run -b select", "did you mean select1?"},
		{"run -b select1 -b insert", "a mix of scripts isn't built yet"},
		{"run -f " + filepath.Join(dir, "none.sql"), "no such file"},
		{"run -f " + dir, "is a directory"},
		{"run -f " + empty, "empty.sql"},
		{"run -f " + meta, "meta.sql:2:1"},
		{"run -f " + null, "null.sql:1"},
		{"run --set jit", "expected NAME=VALUE"},
		{"run -c 1,x", "several separated by commas"},
		{"run -M simple,extend", "did you mean extended?"},
		{"run --combine fully", "there are one-at-a-time and full"},
		{"run --columns mod", "did you mean mode?"},
		{"run --clocksource sundial", "clock source"},
		{"run --clocksource tsc --server postgres://me:sesame@127.0.0.1:1/db", "reached over TCP (127.0.0.1:1)"},
		{"run --env A=1 --server host=/tmp", "environment of a running server"},
		{"run --set none --set jit=on,off", "others are given"},
		{"run --conf port=5433", "needs this setting to run its servers"},
		{"run --conf primary_conninfo", "expected NAME=VALUE"},
		{"run --initdb data-checksum=on,off", "did you mean data_checksums?"},
		{"run --set data_checksums=on,maybe", "expected on or off"},
		{"run --set wal_block_size=8192,16384", "name each build as a --server"},
		{"run --set restore_command=x,y", "may hold secrets"},
		{"run --defaults align", "did you mean aligned?"},
		{"run --defaults=", "given and empty"},
		{"run --mode both", "unknown mode"},
		{"run --pin everywhere", "expected none, core"},
		{"run --engine nett", "did you mean net?"},
		{"run --engine=", "given and empty"},
		{"run --engine net --pin core", "can't be pinned alone"},
		{"run --server 18 --server 18", "18"},
		{"run --server 18 --server 18 --dry-run", "would both be called 18"},
		{"run --server a=/x --server a=src:/y --dry-run", "would both be called a"},
		{"run --server src:/x/pg --server src:/y/pg --dry-run", "would both be called pg"},
		{"run --server 11", "12 and later"},
		{"run --server src:", "expected src:DIRECTORY"},
		{"run --server src:/none/such", "no such file"},
		{"servers now", "no such verb below servers"},
		{"servers fetsh", "did you mean fetch?"},
		{"servers --format yaml", "there are text and json"},
		{"servers fetch", "name at least one"},
		{"servers fetch 11", "12 and later"},
		{"servers fetch ./x", "expected a major"},
		{"run --slice 5", "missing unit"},
		{"run --format yaml", "there are text and json"},
		{"run --seed -1", "--seed"},
		{"run -D n", "expected VARIABLE=VALUE"},
		{"run --runs 0", "at least 1"},
		{"show", "takes one record"},
		{"show a b", "takes one record"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			p := start(t, strings.Fields(c.args)...)
			p.expect(t, 2, c.want)
			if p.stdout.Len() > 0 {
				t.Errorf("standard output:\n%s", p.stdout.String())
			}
		})
	}
}

// --help names every flag; a change of the command line shows as a change of
// its golden.
func TestHelp(t *testing.T) {
	for _, args := range []string{"help", "help run", "help show", "help gate", "help servers", "help servers fetch", "help restore", "help version"} {
		t.Run(args, func(t *testing.T) {
			var out bytes.Buffer
			if status := pgtare(t.Context(), strings.Fields(args), nil, &out, &out); status != 0 {
				t.Errorf("status %d", status)
			}
			golden(t, strings.ReplaceAll(args, " ", "-"), out.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".stdout")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got:\n%s\nwant (%s):\n%s", got, path, want)
	}
}

// --dry-run touches no server, fetches nothing and makes no file.
func TestDryRun(t *testing.T) {
	home := t.TempDir()
	p := startWith(t, []string{"PATH=", "HOME=" + home, "XDG_STATE_HOME=", "XDG_CACHE_HOME="},
		"run", "--dry-run", "--seed", "1", "--server", "13", "--server", "18", "--cache-dir", filepath.Join(home, "cache"))
	p.expect(t, 0, "")
	golden(t, "dry-run", p.stdout.Bytes())
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("files were made: %v, %v", left, err)
	}
}

// A run prints from its record through the code of show; nothing is left
// behind, and progress is silent where there is no terminal.
func TestRun(t *testing.T) {
	servertest.Start(t) // skips, or fails in CI, where no PostgreSQL is to be had
	t.Parallel()
	cache := cacheDir(t)
	record := filepath.Join(t.TempDir(), "r.jsonl")
	p := start(t, with(quick, "-o", record, "--cache-dir", cache, "--mode", "per-statement,single-transaction")...)
	p.expect(t, 0, "")
	if got, want := p.stderr.String(), "record: "+record+"\n"; !strings.HasSuffix(got, want) || strings.ContainsAny(got, "\r\x1b") {
		t.Errorf("standard error %q, expected %q at its end, and no progress", got, want)
	}
	for _, want := range []string{"track_activities=on", "SELECT 1", "control"} {
		if !strings.Contains(p.stdout.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, p.stdout.String())
		}
	}
	for i, l := range strings.Split(p.stdout.String(), "\n") {
		if len(l) > 78 {
			t.Errorf("line %d has %d columns: %s", i+1, len(l), l)
		}
	}
	again := start(t, "show", record)
	again.expect(t, 0, "")
	if again.stdout.String() != p.stdout.String() {
		t.Errorf("show prints:\n%s\nand run printed:\n%s", again.stdout.String(), p.stdout.String())
	}
	nothingLeft(t, cache)

	rec, err := results.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if rec.End == nil || rec.End.Status != "complete" {
		t.Errorf("the record ends with %+v", rec.End)
	}
	if len(rec.Header.Cells) != 6 || len(rec.Header.Panels) != 2 {
		t.Errorf("%d cells in %d panels, expected 6 in 2", len(rec.Header.Cells), len(rec.Header.Panels))
	}
	for _, c := range rec.Header.Cells {
		if got := c.ReadBack["track_activities"]; !strings.HasPrefix(got, c.Settings["track_activities"]) {
			t.Errorf("cell %s: track_activities read back as %q, set to %q", c.ID, got, c.Settings["track_activities"])
		}
	}
	for _, g := range rec.Generations {
		transactions := int64(0)
		for i, n := range g.Slices.N {
			transactions += n
			if g.Slices.ServerCPU[i] <= 0 || g.Slices.ClientCPU[i] <= 0 || g.Slices.All[i] < n {
				t.Fatalf("cell %s, run %d, generation %d, slice %d: server CPU %d, client CPU %d, %d transactions of which %d in the window",
					g.Cell, g.Run, g.Generation, i, g.Slices.ServerCPU[i], g.Slices.ClientCPU[i], g.Slices.All[i], n)
			}
		}
		h, err := results.DecodeHistogram(g.Histogram)
		if err != nil {
			t.Fatal(err)
		}
		if h.TotalCount() != transactions {
			t.Errorf("cell %s: the histogram holds %d of %d transactions", g.Cell, h.TotalCount(), transactions)
		}
	}

	asJSON := start(t, "show", record, "--format", "json")
	asJSON.expect(t, 0, "")
	var doc struct {
		Schema      int
		Cells       []struct{ Unit, Status string }
		Comparisons []struct {
			Verdict     string
			Pct, Lo, Hi *float64
		}
	}
	if err := json.Unmarshal(asJSON.stdout.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Schema != 1 || len(doc.Cells) != 6 || len(doc.Comparisons) != 2 || doc.Comparisons[0].Pct == nil {
		t.Errorf("JSON: %+v", doc)
	}
}

// cacheDir is a cache directory of the test's own that a server's user can
// reach, so that what is left there is this test's.
func cacheDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgtare-cache-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// Templates are shared with everybody's: an initdb per test would be most
	// of its time.
	base := "/var/cache"
	if os.Geteuid() != 0 {
		if base, err = os.UserCacheDir(); err != nil {
			t.Fatal(err)
		}
	}
	templates := filepath.Join(base, "pgtare", "templates")
	if err := os.MkdirAll(templates, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(templates, filepath.Join(dir, "templates")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// postmasters lists the processes that serve a data directory under cache.
func postmasters(t *testing.T, cache string) (pids []int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		cwd, err := os.Readlink(d)
		if err != nil || !strings.HasPrefix(cwd, cache+"/") {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(d, "/")[2])
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}

// nothingLeft checks that no process and no instance's directory remains.
func nothingLeft(t *testing.T, cache string) {
	t.Helper()
	var pids []int
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if pids = postmasters(t, cache); len(pids) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("processes are left: %v", pids)
			break
		}
	}
	left, err := filepath.Glob(filepath.Join(cache, "run", "[^.]*"))
	if err != nil || len(left) > 0 {
		t.Errorf("directories are left: %v %v", left, err)
	}
}

// measuring waits until a run has written a generation, so that it is in the
// middle of measuring.
func measuring(t *testing.T, p *program, record string) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if text, err := os.ReadFile(record); err == nil && bytes.Contains(text, []byte("\n{\"type\":\"generation\"")) {
			return
		}
		select {
		case <-p.done:
			t.Fatalf("pgtare ended early: %s", p.stderr.String())
		default:
		}
	}
	t.Fatalf("no generation within a minute: %s", p.stderr.String())
}

// long is a run that a test puts an end to.
var long = []string{"run", "--set", "track_activities=off,on", "--runs", "100", "-T", "10"}

// However pgtare ends, the servers are gone at once, and the directories too,
// or on the next start after a SIGKILL; the record is kept and named.
func TestSignals(t *testing.T) {
	servertest.Start(t)
	for _, c := range []struct {
		signal  syscall.Signal
		message string
	}{{syscall.SIGINT, "interrupted"}, {syscall.SIGTERM, "terminated"}, {syscall.SIGKILL, ""}} {
		t.Run(c.signal.String(), func(t *testing.T) {
			t.Parallel()
			cache := cacheDir(t)
			record := filepath.Join(t.TempDir(), "r.jsonl")
			p := start(t, with(long, "-o", record, "--cache-dir", cache)...)
			measuring(t, p, record)
			if len(postmasters(t, cache)) == 0 {
				t.Fatal("no server process seen while measuring")
			}
			if err := p.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			p.expect(t, 128+int(c.signal), c.message)
			if c.signal == syscall.SIGKILL {
				for deadline := time.Now().Add(10 * time.Second); len(postmasters(t, cache)) > 0; time.Sleep(20 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("servers outlive pgtare: %v", postmasters(t, cache))
					}
				}
				start(t, with(quick, "-T", "0.01", "--runs", "1", "--cache-dir", cache)...).expect(t, 0, "")
			} else if want := "pgtare show " + record; !strings.Contains(p.stderr.String(), want) {
				t.Errorf("standard error does not name the record:\n%s", p.stderr.String())
			}
			nothingLeft(t, cache)
			rec, err := results.ReadFile(record)
			if err != nil {
				t.Fatal(err)
			}
			if len(rec.Generations) == 0 {
				t.Error("the record holds no generation")
			}
			if c.signal != syscall.SIGKILL && (rec.End == nil || rec.End.Status != "interrupted") {
				t.Errorf("the record ends with %+v, expected interrupted", rec.End)
			}
			start(t, "show", record).expect(t, 0, "")
		})
	}
}

// What a killed pgtare left, restore removes and says so; then there is
// nothing more. What the journal holds that can't be undone stays, with status 1.
func TestRestore(t *testing.T) {
	servertest.Start(t)
	t.Parallel()
	cache := cacheDir(t)
	record := filepath.Join(t.TempDir(), "r.jsonl")
	p := start(t, with(long, "-o", record, "--cache-dir", cache)...)
	measuring(t, p, record)
	p.Process.Kill()
	<-p.done
	restore := func(status int, out, message string, env ...string) {
		t.Helper()
		p := startWith(t, env, "restore", "--cache-dir", cache)
		p.expect(t, status, message)
		if got := p.stdout.String(); got != out && (out == "" || !strings.Contains(got, out)) {
			t.Errorf("restore prints %q, expected %q", got, out)
		}
	}
	restore(0, "removed what a dead pgtare left: "+cache, "")
	nothingLeft(t, cache)
	restore(0, "nothing was left to be undone\n", "")

	state := t.TempDir()
	journal := filepath.Join(state, "pgtare", "undo", "undo-1.journal")
	if err := os.MkdirAll(filepath.Dir(journal), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(entry string) {
		t.Helper()
		if err := os.WriteFile(journal, []byte(`{"journal":"pgtare","format":1}`+"\n"+entry+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"entry":1,"kind":"moon","time":"2026-07-06T15:20:00Z","data":{}}`)
	restore(1, "", `something called "moon"`, "XDG_STATE_HOME="+state)
	write("x")
	restore(1, "", "line 2 is damaged", "XDG_STATE_HOME="+state)
	write(`{"entry":1,"kind":"clocksource","time":"2026-07-06T15:20:00Z","data":{"before":"hpet","sources":["tsc"],"boot":"another"}}`)
	// A run begins with the same.
	p = startWith(t, []string{"XDG_STATE_HOME=" + state}, with(quick, "-T", "0.01", "--runs", "1", "--cache-dir", cache)...)
	p.expect(t, 0, "left by a pgtare that died: the machine was started anew")
	if _, err := os.Stat(journal); err == nil {
		t.Error("the journal stays when all is undone")
	}
}

// However pgtare ends, the clock source is what it was: at once, or after a
// SIGKILL by restore, or by the next run.
func TestClocksourceSignals(t *testing.T) {
	servertest.Start(t)
	sources := servertest.Clocksources(t)
	now := func() string { s, _, _ := host.Clocksources(); return s }
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		undo   []string
		says   string
	}{
		{"SIGINT", syscall.SIGINT, nil, ""},
		{"SIGTERM", syscall.SIGTERM, nil, ""},
		{"SIGKILL and restore", syscall.SIGKILL, []string{"restore"}, "put the clock source back from " + sources[1] + " to " + sources[0] + "\n"},
		{"SIGKILL and another run", syscall.SIGKILL, with(quick, "-T", "0.01", "--runs", "1"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache, state, record := cacheDir(t), t.TempDir(), filepath.Join(t.TempDir(), "r.jsonl")
			env := []string{"XDG_STATE_HOME=" + state}
			p := startWith(t, env, with(long, "-o", record, "--cache-dir", cache, "--clocksource", sources[1])...)
			measuring(t, p, record)
			if now() != sources[1] {
				t.Errorf("the clock source is %s while %s is measured", now(), sources[1])
			}
			second := startWith(t, []string{"XDG_STATE_HOME=" + state}, with(quick, "--cache-dir", cache, "--clocksource", sources[1])...)
			second.expect(t, 1, "another pgtare is switching")
			if err := p.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			p.expect(t, 128+int(c.signal), "")
			if c.undo != nil {
				if now() != sources[1] {
					t.Errorf("the clock source is %s after a SIGKILL", now())
				}
				u := startWith(t, env, with(c.undo, "--cache-dir", cache)...)
				u.expect(t, 0, "")
				if !strings.Contains(u.stdout.String(), c.says) || c.says == "" && !strings.Contains(u.stderr.String(), "left by a pgtare that died: put the clock source back") {
					t.Errorf("it says %q and %q", u.stdout.String(), u.stderr.String())
				}
			}
			if now() != sources[0] {
				t.Errorf("the clock source is %s, and was %s", now(), sources[0])
			}
			if list, err := os.ReadDir(filepath.Join(state, "pgtare", "undo")); err != nil || len(list) > 0 {
				t.Errorf("journals are left: %v, %v", list, err)
			}
			nothingLeft(t, cache)
		})
	}
}

// A server that dies or hangs in mid-run ends the run with status 1, says so,
// and keeps the record.
func TestServerLost(t *testing.T) {
	servertest.Start(t)
	for _, c := range []struct {
		name    string
		signal  syscall.Signal
		message string
	}{{"killed", syscall.SIGKILL, "killed"}, {"stopped", syscall.SIGSTOP, "is stopped"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cache := cacheDir(t)
			record := filepath.Join(t.TempDir(), "r.jsonl")
			p := start(t, with(long, "-o", record, "--cache-dir", cache)...)
			measuring(t, p, record)
			pids := postmasters(t, cache)
			if c.signal == syscall.SIGKILL {
				pids = pids[:1] // the postmaster; the others notice
			}
			for _, pid := range pids {
				if err := syscall.Kill(pid, c.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
					t.Fatal(err)
				}
			}
			p.expect(t, 1, c.message)
			if !strings.Contains(p.stderr.String(), "pgtare show "+record) {
				t.Errorf("standard error does not name the record:\n%s", p.stderr.String())
			}
			nothingLeft(t, cache)
			rec, err := results.ReadFile(record)
			if err != nil {
				t.Fatal(err)
			}
			if rec.End == nil || rec.End.Status != "failed" || rec.End.Reason == "" {
				t.Errorf("the record ends with %+v, expected failed with a reason", rec.End)
			}
		})
	}
}

// Mistakes that only a server can see.
func TestServerErrors(t *testing.T) {
	servertest.Start(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	bad := write("bad.sql", "select 1;\nselect * from nowhere;\n")
	variable := write("variable.sql", "select :n;")
	for name, c := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"unknown setting":               {[]string{"--set", "track_io_timinng=off,on"}, 2, "did you mean track_io_timing?"},
		"a value refused":               {[]string{"--set", "statement_timeout=0,-5"}, 2, "outside the valid range"},
		"a value no enum has":           {[]string{"--set", "track_functions=none,some"}, 2, "track_functions"},
		"a value no server starts with": {[]string{"--set", "shared_buffers=128MB,a lot"}, 2, "--set shared_buffers=a lot: "},
		"what a build decides":          {[]string{"--set", "block_size=8192,16384"}, 2, "block_size"},
		"a setting that is gone":        {[]string{"--set", "stats_start_collector=off,on"}, 2, "stats_start_collector"},
		"a schedule that isn't":         {[]string{"--schedule", "blok"}, 2, "slice and block"},
		"a width that isn't":            {[]string{"--until", "0"}, 2, "--until 0"},
		"a timer that fires":            {[]string{"--set", "idle_session_timeout=0,20"}, 2, "ten times"},
		"an SQL error":                  {[]string{"-f", bad, "--set", "none"}, 1, `bad.sql:2: `},
		"an undefined variable":         {[]string{"-f", variable, "--set", "none"}, 1, "--var n="},
		"no such CPU":                   {[]string{"--pin", "core:4000"}, 2, "may use CPUs"},
		"no such version":               {[]string{"--server", "/nowhere/at/all"}, 2, "/nowhere/at/all"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := cacheDir(t)
			record := filepath.Join(t.TempDir(), "r.jsonl")
			p := start(t, append([]string{"run", "-T", "0.05", "--runs", "1", "--cache-dir", cache, "-o", record}, c.args...)...)
			p.expect(t, c.status, c.want)
			nothingLeft(t, cache)
			if _, err := os.Stat(record); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a record without a measurement is left: %v", err)
			}
		})
	}
}

// An attached server keeps its settings, and loses pgtare's schema at the end.
func TestAttached(t *testing.T) {
	s := servertest.Fresh(t)
	cfg := s.Config()
	conninfo := fmt.Sprintf("host=%s port=%d user=%s dbname=%s", cfg.Host, cfg.Port, cfg.User, cfg.Database)
	p := start(t, with(quick, "--server", conninfo, "-b", "insert", "--generation", "4", "--slice", "5ms")...)
	p.expect(t, 0, "record: ")
	if !strings.Contains(p.stdout.String(), "attached") {
		t.Errorf("the table does not say that the server was attached:\n%s", p.stdout.String())
	}
	conn, err := pgconn.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	res := conn.ExecParams(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname = 'pgtare'", nil, nil, nil, nil).Read()
	if res.Err != nil || string(res.Rows[0][0]) != "0" {
		t.Errorf("the schema is left: %v %v", res.Rows, res.Err)
	}
	start(t, with(quick, "--server", conninfo, "-c", "60")...).expect(t, 2, "use fewer clients")
}

// No PostgreSQL of that version, and no way to fetch one.
func TestNoPostgreSQL(t *testing.T) {
	cache := cacheDir(t)
	p := startWith(t, []string{"PATH=/nonexistent"}, "run", "--server", "12", "--cache-dir", cache)
	p.expect(t, 1, "npm")
	if _, err := exec.LookPath("npm"); err != nil {
		t.Logf("npm without a network is left out: %v", err)
		return
	}
	// Nothing listens on the discard port of the loopback interface.
	p = startWith(t, []string{"HTTPS_PROXY=http://127.0.0.1:9", "npm_config_https_proxy=http://127.0.0.1:9", "npm_config_proxy=http://127.0.0.1:9",
		"npm_config_cache=" + t.TempDir(), "npm_config_fetch_retries=0"}, "run", "--server", "12", "--cache-dir", cache)
	p.expect(t, 1, "npm")
}

func TestRecordIsNeverOverwritten(t *testing.T) {
	servertest.Start(t)
	path := filepath.Join(t.TempDir(), "mine")
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, with(quick, "-o", path)...).expect(t, 2, "never overwritten")
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	start(t, with(quick, "-o", filepath.Join(path, "below"))...).expect(t, 1, "")
	start(t, "show", path).expect(t, 1, "mine:1")
	start(t, "show", path+".none").expect(t, 1, "no such file")
}

// A password in a conninfo that can't be read isn't shown, whatever it was
// meant to be.
func TestMistypedSecrets(t *testing.T) {
	for _, text := range []string{
		"db1 password=sesame", "Postgres://me:sesame@host/db", "prod:host=localhost password=sesame", "-c password=sesame",
		"postgres://me:pa?sesame@localhost/db", "host=localhost password='sesame", "label=db password=sesame", "host=localhost,password=sesame", "postgres//me:sesame@host/db",
	} {
		p := start(t, "run", "--server", text)
		if status := p.wait(t, 30*time.Second); status != 2 && status != 1 || strings.Contains(p.stderr.String()+p.stdout.String(), "sesame") {
			t.Errorf("--server %q: status %d\n%s", text, status, p.stderr.String())
		}
	}
}

// Two signals at once, as timeout(1) sends them to the process and its group,
// are one.
func TestSignalTwice(t *testing.T) {
	servertest.Start(t)
	t.Parallel()
	cache, record := cacheDir(t), filepath.Join(t.TempDir(), "r.jsonl")
	p := start(t, with(long, "-o", record, "--cache-dir", cache)...)
	measuring(t, p, record)
	for range 2 {
		if err := p.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	p.expect(t, 143, "pgtare show "+record)
	nothingLeft(t, cache)
}

// Passwords don't reach the record.
func TestWithoutSecrets(t *testing.T) {
	got := withoutSecrets([]string{"run", "--server", "postgres://me:sesame@localhost/db", "--server=host=/tmp password=sesame user=me", "--set", "jit=on,off", "--conf", "archive_command=sesame %p", "--conf=primary_conninfo=password=sesame", "--conf", "sesame"})
	if text := strings.Join(got, " "); strings.Contains(text, "sesame") || !strings.Contains(text, "jit=on,off") || !strings.Contains(text, "user=me") {
		t.Errorf("%q", got)
	}
}

// Nor do the values of settings that may be secrets, by any way from the
// configuration of a server to the record, the terminal and the JSON.
func TestSecretsOfConf(t *testing.T) {
	servertest.Start(t)
	t.Parallel()
	secrets := []string{
		"--conf", "primary_conninfo=host=127.0.0.1 password=sesame", "--conf", "archive_command=cp %p /sesame/%f", "--conf=restore_command=curl -u me:sesame http://h/%f -o %p",
		"--conf", "ssl_passphrase_command=echo sesame", "--env", "HUSH=sesame", "--cache-dir", cacheDir(t),
	}
	said := func(what string, text []byte) {
		t.Helper()
		for l := range strings.Lines(string(text)) {
			if strings.Contains(l, "sesame") {
				t.Errorf("%s holds a secret: %.2000s", what, l)
			}
		}
	}
	record := filepath.Join(t.TempDir(), "r.jsonl")
	p := start(t, with(quick, with(secrets, "-o", record)...)...)
	p.expect(t, 0, "")
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"primary_conninfo", "archive_command", "restore_command", "ssl_passphrase_command"} {
		if !strings.Contains(string(text), `"`+name+`":"***"`) {
			t.Errorf("%s was not read back", name)
		}
	}
	asJSON := start(t, "show", record, "--format", "json")
	asJSON.expect(t, 0, "")
	said("the record", text)
	said("standard output", p.stdout.Bytes())
	said("standard error", p.stderr.Bytes())
	said("the JSON", asJSON.stdout.Bytes())

	refused := start(t, with(quick, with(secrets, "--conf", "work_mem=5 lightyears", "-o", filepath.Join(t.TempDir(), "r.jsonl"))...)...)
	refused.expect(t, 2, "work_mem=5 lightyears")
	said("standard error", refused.stderr.Bytes())
}

// Every `pgtare run` of the README is a plan: what it says can be typed.
func TestREADMECommands(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^(pgtare run.*|echo .*)$`).FindAllString(string(text), -1)
	if len(lines) < 6 {
		t.Fatalf("only %d commands found", len(lines))
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := "set -e\npgtare() { \"$PROGRAM\" \"$@\"; }\n"
	for _, l := range lines {
		if strings.HasPrefix(l, "pgtare run") && !strings.Contains(l, "--dry-run") {
			l += " --dry-run"
		}
		script += "echo " + "'" + strings.ReplaceAll(l, "'", `'\''`) + "' >&2\n" + l + " >/dev/null\n"
	}
	sh := exec.Command("sh", "-c", script)
	sh.Dir = t.TempDir()
	sh.Env = append(os.Environ(), asProgram+"=1", "PROGRAM="+exe)
	// The redirection of the scripts that echo writes is the README's own.
	sh.Args[2] = strings.ReplaceAll(sh.Args[2], "sql >/dev/null", "sql")
	if out, err := sh.CombinedOutput(); err != nil {
		t.Errorf("%v, after:\n%s", err, out)
	}
}

// The README's main command is the one that CI runs.
func TestREADME(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"go run ./cmd/pgtare run", "go test ./..."} {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(command) + `$`).Match(text) {
			t.Errorf("the README does not have the line %q", command)
		}
		ci, err := os.ReadFile("../../.ci/run")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(ci, []byte(command)) {
			t.Errorf(".ci/run does not call %q", command)
		}
	}
}

// The exit status of gate, as a shell and as git bisect see it. One matrix has
// no cost, one a large one, one no control.
func TestGate(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "sum.sql")
	if err := os.WriteFile(script, []byte("select sum(n) from (select generate_series(1, :k) n) s;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	small := []string{"run", "--set", "none", "--runs", "3", "-T", "0.1"}
	record := func(name string, args ...string) string {
		path := filepath.Join(dir, name)
		start(t, append(with(small, "-o", path), args...)...).expect(t, 0, "")
		return path
	}
	costly := record("costly", "-f", script, "--var", "k=1,20000")
	unknown := record("unknown", "-f", script, "--var", "k=1,20000", "--controls", "0")
	cheap := filepath.Join(dir, "cheap")
	start(t, with(quick, "-o", cheap, "--slice", "2ms", "--generation", "10", "-T", "0.2")...).expect(t, 0, "") // 30 generations
	// A busy machine gives rise to doubts, with which nothing passes.
	passes := struct {
		status, bisect int
		stdout         string
	}{0, 0, "gate: pass: 1 comparison of axis setting"}
	read, err := results.ReadFile(cheap)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := report.Build(read)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := rep.Gate(report.GateSpec{Max: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if gate.Verdict == stats.CantTell {
		passes.status, passes.bisect, passes.stdout = 4, 125, "gate: can't tell: "
		t.Logf("%+v", gate)
	}
	for _, c := range []struct {
		args           []string
		status, bisect int
		stdout, stderr string
	}{
		{[]string{cheap, "--max", "1000%"}, passes.status, passes.bisect, passes.stdout, ""},
		{[]string{costly, "--axis", "k"}, 3, 1, "gate: regression: 1 of 1 comparison of axis k above 2 %", ""},
		{[]string{unknown}, 4, 125, "gate: can't tell: no control could be judged", ""},
		{[]string{costly, "--axis", "server"}, 2, 128, "", "this record compares along k"},
		{[]string{cheap, "--max", "0"}, 2, 128, "", "--max 0: "},
		{[]string{cheap, "--nonsense"}, 2, 128, "", "unknown flag"},
		{[]string{}, 2, 128, "", "takes one record"},
		{[]string{script}, 1, 125, "", "sum.sql"},
		{[]string{script + ".none"}, 1, 125, "", "no such file"},
	} {
		for _, more := range [][]string{{}, {"--bisect=false"}, {"--bisect"}, {"--bisect=true"}} {
			want := c.status
			if len(more) > 0 && more[0] != "--bisect=false" {
				want = c.bisect
			}
			p := start(t, append(append([]string{"gate"}, c.args...), more...)...)
			p.expect(t, want, c.stderr)
			if !strings.Contains(p.stdout.String(), c.stdout) || c.stderr == "" && p.stderr.Len() > 0 {
				t.Errorf("gate %q: standard output %q, standard error %q; expected %q", c.args, p.stdout.String(), p.stderr.String(), c.stdout)
			}
		}
	}
}
