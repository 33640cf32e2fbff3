package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// asChild is what this binary does instead of its tests when a test has
// started it with such a variable, whose value is a directory.
var asChild = map[string]func(dir string) int{"PGTARE_TEST_VICTIM": victim}

func TestMain(m *testing.M) {
	for name, what := range asChild {
		if dir := os.Getenv(name); dir != "" {
			os.Exit(what(dir))
		}
	}
	if args := os.Getenv("PGTARE_TEST_BUILDING"); args != "" {
		os.Exit(building(args))
	}
	if conninfo := os.Getenv("PGTARE_TEST_NAMESPACE"); conninfo != "" {
		os.Exit(otherNamespace(conninfo))
	}
	code := m.Run()
	if shared.manager != nil {
		if err := shared.manager.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// shared is a manager with one instance of the newest local PostgreSQL, else
// of a fetched one, for the tests that change nothing.
var shared struct {
	once     sync.Once
	err      error
	manager  *Manager
	install  Installation
	instance *Instance
}

func sharedInstance(t *testing.T) *Instance {
	t.Helper()
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		found, err := Resolve(ctx, []Spec{{}}, ResolveConfig{})
		if err != nil {
			shared.err = err
			return
		}
		shared.install = found[0]
		if shared.manager, err = NewManager(ctx, ManagerConfig{}); err != nil {
			shared.err = err
			return
		}
		shared.instance, err = shared.manager.Create(ctx, shared.install, InstanceConfig{ID: "shared"})
		if err == nil {
			err = shared.instance.Start(ctx)
		}
		shared.err = err
	})
	if shared.err != nil {
		lack(t, shared.err)
	}
	return shared.instance
}

// lack skips a test that lacks what it needs; in CI it fails.
func lack(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// The instances that tests use besides the shared one; each is made once.
var (
	configured = &oneInstance{cfg: InstanceConfig{ID: "configured", MaxConnections: 37, Settings: map[string]string{
		"work_mem": "7MB", "application_name": `it's a \ test`, "autovacuum": "off", "archive_command": "secret %p",
		"primary_conninfo": "host=x password=hunter2", "shared_preload_libraries": "auto_explain",
	}}}
	scratch = &oneInstance{cfg: InstanceConfig{ID: "scratch"}} // may be stopped and killed
)

type oneInstance struct {
	cfg InstanceConfig
	in  *Instance
}

// get returns the instance, running.
func (o *oneInstance) get(t *testing.T) *Instance {
	t.Helper()
	sharedInstance(t)
	if o.in == nil {
		var err error
		if o.in, err = shared.manager.Create(t.Context(), shared.install, o.cfg); err != nil {
			t.Fatal(err)
		}
	}
	if o.in.Alive(t.Context()) != nil {
		if err := o.in.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return o.in
}

// openCache returns a cache directory with the shared manager's templates.
func openCache(t *testing.T) string {
	t.Helper()
	sharedInstance(t)
	dir := openTempDir(t)
	if err := os.Symlink(shared.manager.templates.dir, filepath.Join(dir, "templates")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// openTempDir is t.TempDir that the server user may pass.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func connect(t *testing.T, cfg *pgconn.Config, settings ...Setting) *pgconn.PgConn {
	t.Helper()
	Apply(cfg, settings)
	conn, err := pgconn.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeConn(conn) })
	return conn
}

func ask(t *testing.T, conn *pgconn.PgConn, sql string) [][]string {
	t.Helper()
	rows, err := query(t.Context(), conn, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

// isUsage reports whether err is the user's mistake.
func isUsage(err error) bool {
	var u *UsageError
	return errors.As(err, &u)
}
