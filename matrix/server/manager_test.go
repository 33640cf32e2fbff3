package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestInstance(t *testing.T) {
	in := configured.get(t)
	conn := connect(t, in.Config())
	if got := ask(t, conn, "SELECT current_user, current_database(), current_setting('max_connections'), current_setting('work_mem'), current_setting('application_name')")[0]; strings.Join(got, "|") != `postgres|postgres|37|7MB|it's a \ test` {
		t.Errorf("got %q", got)
	}
	if got := ask(t, conn, "SELECT pg_encoding_to_char(encoding), datcollate, datctype, current_setting('TimeZone'), current_setting('lc_messages') FROM pg_database WHERE datname = 'postgres'")[0]; strings.Join(got, "|") != "UTF8|C|C|UTC|C" {
		t.Errorf("encoding, locales, time zone: %q", got)
	}
	if !strings.HasPrefix(in.config.Host, "/") {
		t.Errorf("reached by %s", in.config.Host)
	}
	st, err := os.Stat(in.sockets)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the socket's directory: %v, %v", st.Mode(), err)
	}
	if got := ask(t, conn, "SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes')")[0]; strings.Join(got, "|") != "on|on|on" {
		t.Errorf("durability: %q", got)
	}

	// The server runs in a session of its own, so that Ctrl-C at the terminal
	// doesn't reach it.
	if sid, _ := getsid(in.PID()); sid != in.PID() {
		t.Errorf("the postmaster's session is %d, its PID %d", sid, in.PID())
	}
	first := in.PID()
	if err := in.Start(t.Context()); err == nil {
		t.Error("started twice")
	}
	if err := in.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.Alive(t.Context()); err == nil || !strings.Contains(err.Error(), "not running") {
		t.Errorf("a stopped instance: %v", err)
	}
	if in.PID() != 0 || in.Stop(t.Context()) != nil {
		t.Error("stopped twice")
	}
	if log := in.LogTail(5); !strings.Contains(log, "database system is shut down") {
		t.Errorf("not a shutdown in order:\n%s", log)
	}
	if err := in.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if in.PID() == first || in.PID() == 0 {
		t.Errorf("PID %d, then %d", first, in.PID())
	}
}

func getsid(pid int) (int, error) {
	id, _, e := syscall.RawSyscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(id), nil
}

// TestDeviations: what pg_settings shows as configured, other than initdb's
// own choices, is what Deviations tells.
func TestDeviations(t *testing.T) {
	in := configured.get(t)
	told := strings.Join(in.Deviations(), "\n")
	conn := connect(t, in.Config())
	for _, r := range ask(t, conn, "SELECT name, setting FROM pg_settings WHERE source = 'configuration file' AND setting IS DISTINCT FROM boot_val AND sourcefile LIKE '%pgtare.conf'") {
		if !strings.Contains(told, r[0]) && !strings.Contains(strings.ToLower(told), strings.ToLower(r[0])) {
			t.Errorf("%s = %s is not told", r[0], r[1])
		}
	}
	for _, want := range []string{"max_connections=37", "autovacuum=off", "archive_command=***", "synchronize_seqscans=off", "--locale=C"} {
		if !strings.Contains(told, want) {
			t.Errorf("%s is not told in:\n%s", want, told)
		}
	}
	// And postgresql.conf is what initdb wrote, for everything else.
	for _, r := range ask(t, conn, "SELECT name, setting FROM pg_settings WHERE source NOT IN ('default', 'override', 'client') AND sourcefile IS NOT NULL AND sourcefile NOT LIKE '%pgtare.conf'") {
		if !slices.Contains(strings.Fields("max_connections shared_buffers dynamic_shared_memory_type max_wal_size min_wal_size log_timezone DateStyle TimeZone lc_messages lc_monetary lc_numeric lc_time default_text_search_config"), r[0]) {
			t.Errorf("%s = %s is configured, not by pgtare and not as initdb does", r[0], r[1])
		}
	}
}

func TestDescribe(t *testing.T) {
	in := configured.get(t)
	s, err := in.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := shared.install
	if s.Label != i.Label || s.Version != i.Version || s.VersionNum != i.VersionNum || !strings.HasPrefix(s.FullString, "PostgreSQL "+i.Version) {
		t.Errorf("%+v", s)
	}
	if s.Compiler == "" || s.Build["CC"] == "" || s.Build["CFLAGS"] == "" || s.Build["VERSION"] == "" {
		t.Errorf("compiler %q, build %v", s.Compiler, s.Build)
	}
	if s.Settings["work_mem"] != "7MB" || s.Settings["primary_conninfo"] != "***" || s.Settings["synchronize_seqscans"] != "off" {
		t.Errorf("settings %v", s.Settings)
	}
	if s.Settings["fsync"] != "on" || s.Settings["shared_buffers"] == "" {
		t.Errorf("settings that bear on levels are not told: %v", s.Settings)
	}
	for name := range s.Settings {
		if name == "data_directory" || name == "lock_timeout" {
			t.Errorf("%s is told as different from its default", name)
		}
	}
	if len(s.Deviations) == 0 {
		t.Error("no deviations")
	}
}

func TestMaskSetting(t *testing.T) {
	check := func(name, value, want string) {
		t.Helper()
		if got := maskSetting(name, value); got != want {
			t.Errorf("maskSetting(%s, %q) = %q, want %q", name, value, got, want)
		}
	}
	check("primary_conninfo", "x", "***")
	check("archive_command", "x", "***")
	check("archive_command", "", "")
	check("ssl_passphrase_command", "x", "***")
	check("my.password", "x", "***")
	check("my.api_token", "x", "***")
	check("password_encryption", "md5", "md5")
	check("work_mem", "4MB", "4MB")
	check("ssl_passphrase_command_supports_reload", "on", "***") // rather one too many
}

func TestAlive(t *testing.T) {
	in := scratch.get(t)
	if err := in.Alive(t.Context()); err != nil {
		t.Fatal(err)
	}
	dead := func(want string) {
		t.Helper()
		waitFor(t, want, func() bool {
			err := in.Alive(t.Context())
			return err != nil && strings.Contains(err.Error(), want)
		})
	}
	syscall.Kill(in.PID(), syscall.SIGSTOP)
	dead("SIGSTOP")
	syscall.Kill(in.PID(), syscall.SIGCONT)
	waitFor(t, "life", func() bool { return in.Alive(t.Context()) == nil })

	// A single backend that is stopped.
	idle := connect(t, in.Config())
	syscall.Kill(int(idle.PID()), syscall.SIGSTOP)
	dead(fmt.Sprintf("process %d got a SIGSTOP", idle.PID()))
	syscall.Kill(int(idle.PID()), syscall.SIGCONT)
	waitFor(t, "life", func() bool { return in.Alive(t.Context()) == nil })

	// Its backend lives on for a while; a new start must come over it.
	conn := connect(t, in.Config())
	go conn.Exec(context.Background(), "SELECT count(*) FROM generate_series(1, 1000000000)").Close()
	before := in.PID()
	syscall.Kill(before, syscall.SIGKILL)
	dead("SIGKILL")
	if err := in.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.Alive(t.Context()); err != nil || in.PID() == before {
		t.Errorf("after a new start: %v, PID %d then %d", err, before, in.PID())
	}
	// A fast shutdown from outside.
	syscall.Kill(in.PID(), syscall.SIGINT)
	dead("ended with status 0")
}

// TestStopStopped: a stopped server is ended all the same.
func TestStopStopped(t *testing.T) {
	in := scratch.get(t)
	pid := in.PID()
	for _, p := range processesIn(in.data()) {
		syscall.Kill(p, syscall.SIGSTOP)
	}
	if err := in.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if syscall.Kill(pid, 0) == nil {
		t.Error("the stopped postmaster is still there")
	}
}

func TestStartFails(t *testing.T) {
	sharedInstance(t)
	in, err := shared.manager.Create(t.Context(), shared.install, InstanceConfig{ID: "bad", Settings: map[string]string{"shared_buffers": "lots"}})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	err = in.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "shared_buffers"`) {
		t.Errorf("the server's own words are lacking: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := in.Start(ctx); err == nil {
		t.Error("started with a cancelled context")
	}
}

func TestLogSince(t *testing.T) {
	in := scratch.get(t)
	_, end, err := in.LogSince(-1)
	if err != nil || end == 0 {
		t.Fatal(end, err)
	}
	conn := connect(t, in.Config())
	ask(t, conn, "DO $$ BEGIN RAISE LOG 'heard'; END $$")
	var text string
	var next int64
	waitFor(t, "the line", func() bool {
		text, next, err = in.LogSince(end)
		return err != nil || strings.Contains(text, "heard")
	})
	if err != nil || next != end+int64(len(text)) || strings.Contains(text, "ready to accept") {
		t.Errorf("since %d: %q, %d, %v", end, text, next, err)
	}
	if tail := in.LogTail(1); strings.Count(tail, "\n") != 0 || tail == "" {
		t.Errorf("LogTail(1) = %q", tail)
	}
}

// TestManager: cache and session directories of its own, templates kept,
// nothing left by Close, and no goroutine.
func TestManager(t *testing.T) {
	sharedInstance(t)
	goroutines := runtime.NumGoroutine()
	cache := openTempDir(t)
	m, err := NewManager(t.Context(), ManagerConfig{CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	if m.User() == "root" || m.User() == "" {
		t.Errorf("servers run as %q", m.User())
	}
	begin := func(id string) (*Instance, time.Duration) {
		t.Helper()
		start := time.Now()
		in, err := m.Create(t.Context(), shared.install, InstanceConfig{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		created := time.Since(start)
		if err := in.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: create %v, start %v", id, created.Round(time.Millisecond), (time.Since(start) - created).Round(time.Millisecond))
		return in, created
	}
	// Another needs the same template at the same time, when there is none.
	second := make(chan error)
	go func() {
		second <- func() error {
			m, err := NewManager(t.Context(), ManagerConfig{CacheDir: cache})
			if err != nil {
				return err
			}
			defer m.Close()
			_, err = m.Create(t.Context(), shared.install, InstanceConfig{ID: "a"})
			return err
		}()
	}()
	a, _ := begin("a")
	if err := <-second; err != nil {
		t.Error(err)
	}
	stamp := func() string {
		t.Helper()
		got, _ := filepath.Glob(filepath.Join(cache, "templates", "*"))
		if len(got) != 1 {
			t.Fatalf("templates: %v", got)
		}
		st, err := os.Stat(filepath.Join(got[0], "data", "global", "pg_control"))
		if err != nil {
			t.Fatal(err)
		}
		return got[0] + st.ModTime().String()
	}
	made := stamp()
	b, _ := begin("b")
	if stamp() != made {
		t.Error("the template was made again")
	}
	// Two copies are two servers.
	ask(t, connect(t, a.Config()), "CREATE TABLE mine()")
	if got := ask(t, connect(t, b.Config()), "SELECT to_regclass('mine')"); got[0][0] != "" {
		t.Error("two instances share data")
	}
	if _, err := m.Create(t.Context(), shared.install, InstanceConfig{ID: "a"}); err == nil {
		t.Error("two instances of one ID")
	}
	dir := m.session.dir
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Create(ctx, shared.install, InstanceConfig{ID: "c"}); err == nil {
		t.Error("created with a cancelled context")
	}
	start := time.Now()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("close %v", time.Since(start).Round(time.Millisecond))
	if err := m.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if exists(dir) || len(processesIn(dir)) > 0 {
		t.Error("Close left something")
	}
	if _, err := m.Create(t.Context(), shared.install, InstanceConfig{ID: "d"}); err == nil {
		t.Error("created after Close")
	}
	if err := a.Start(t.Context()); err == nil {
		t.Error("started after Close")
	}
	waitFor(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// TestCloseCancels: Close doesn't wait for what is under way, and nothing of
// that is left.
func TestCloseCancels(t *testing.T) {
	cache := openCache(t)
	for _, patience := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond} {
		m, err := NewManager(t.Context(), ManagerConfig{CacheDir: cache})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			for i := 0; ; i++ {
				in, err := m.Create(t.Context(), shared.install, InstanceConfig{ID: fmt.Sprint(i)})
				if err == nil {
					err = in.Start(t.Context())
				}
				if err != nil {
					done <- err
					return
				}
			}
		}()
		time.Sleep(patience)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := m.Close(); err != nil {
					t.Error(err)
				}
				if exists(m.session.dir) || len(processesIn(m.session.dir)) > 0 {
					t.Errorf("Close after %v left something", patience)
				}
			})
		}
		wg.Wait()
		if err := <-done; !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "closed") {
			t.Errorf("after %v: %v", patience, err)
		}
	}
}

// TestOldTemplates: templates of an earlier boot may be torn.
func TestOldTemplates(t *testing.T) {
	sharedInstance(t)
	ts := &templates{dir: t.TempDir(), user: shared.manager.user}
	key, err := ts.key(shared.install, nil)
	if err != nil {
		t.Fatal(err)
	}
	name, boot, _ := strings.Cut(key, "-")
	for _, d := range []string{key, name + "-00000000", "other-00000000", "other-" + boot} {
		if err := os.Mkdir(filepath.Join(ts.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, p := range ts.ofOtherBoots(key) {
		got = append(got, filepath.Base(p))
	}
	slices.Sort(got)
	if want := []string{name + "-00000000", "other-00000000"}; !slices.Equal(got, want) {
		t.Errorf("to be removed: %v, want %v", got, want)
	}
	other := shared.install
	other.Version = "1.2"
	if k, err := ts.key(other, nil); err != nil || k == key {
		t.Errorf("the key doesn't tell versions apart: %s, %v", k, err)
	}
}

// TestOddPaths: a socket address holds 107 bytes, and some characters mean
// something to configuration files, conninfos and patterns.
func TestOddPaths(t *testing.T) {
	sharedInstance(t)
	for _, c := range []struct {
		name  string
		under func(cache string) string // where the socket must be
	}{
		{strings.Repeat("long", 25), func(string) string { return "/tmp/pgtare-" }},
		{`o'd,d "[* \`, func(cache string) string { return cache }},
	} {
		cache := filepath.Join(openTempDir(t), c.name)
		if err := os.Mkdir(cache, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(shared.manager.templates.dir, filepath.Join(cache, "templates")); err != nil {
			t.Fatal(err)
		}
		m, err := NewManager(t.Context(), ManagerConfig{CacheDir: cache})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		in, err := m.Create(t.Context(), shared.install, InstanceConfig{ID: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		connect(t, in.Config())
		if !strings.HasPrefix(in.sockets, c.under(cache)) {
			t.Errorf("the socket is in %s", in.sockets)
		}
		// As after a kill: the shared memory must be found below this path.
		segments := segmentsOf(t, in.dir)
		signalIn(in.dir, syscall.SIGKILL)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if exists(in.sockets) || exists(m.session.sockets) || exists(m.session.dir) {
			t.Error("Close left a directory")
		}
		if left := remaining(segments); len(left) > 0 {
			t.Errorf("shared memory left: %q of %q", left, segments)
		}
	}
}

// TestCleanEnvironment: nothing of the user's environment may get into a
// measured session or a server.
func TestCleanEnvironment(t *testing.T) {
	for name, v := range map[string]string{"PGOPTIONS": "-c work_mem=64kB", "PGTZ": "Asia/Tokyo", "PGAPPNAME": "mine", "PGPASSWORD": "x", "PGDATABASE": "none", "PGUSER": "none", "PGPORT": "1", "PGSSLMODE": "require", "TZ": "Asia/Tokyo", "LC_ALL": "de_DE.UTF-8", "PGDATA": "/none"} {
		t.Setenv(name, v)
	}
	in := scratch.get(t)
	if err := in.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, in.Config())
	if got := ask(t, conn, "SELECT current_setting('work_mem'), current_setting('TimeZone'), current_setting('application_name'), current_setting('lc_messages')")[0]; strings.Join(got, "|") != "4MB|UTC||C" {
		t.Errorf("got %q", got)
	}
	if got := ask(t, conn, "SELECT name, setting FROM pg_settings WHERE source IN ('client', 'environment variable', 'session')"); len(got) != 0 {
		// client_encoding is not sent either.
		t.Errorf("the session has settings of its own: %v", got)
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", in.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for v := range strings.SplitSeq(string(env), "\x00") {
		// PG_GRANDPARENT_PID and the like are the server's own.
		if !regexp.MustCompile(`^(PATH|LC_ALL|TZ|LD_LIBRARY_PATH)=|^$`).MatchString(v) {
			t.Errorf("the postmaster has %q in its environment", v)
		}
	}
}
