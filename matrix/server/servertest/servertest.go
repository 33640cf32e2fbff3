package servertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"

	"pgtare/matrix/host"
	"pgtare/matrix/server"
)

// Server is a running PostgreSQL.
type Server struct {
	config   *pgconn.Config
	instance *server.Instance // nil: the one that PGTARE_TEST_SERVER names
}

// Config returns a copy of how to connect: a superuser, database postgres
// (with PGTARE_TEST_SERVER, what that says).
func (s *Server) Config() *pgconn.Config { return s.config.Copy() }

// Instance returns the managed instance, nil for the server that
// PGTARE_TEST_SERVER names. One from Fresh always is managed.
func (s *Server) Instance() *server.Instance { return s.instance }

// PID returns the postmaster's process ID of a managed server.
func (s *Server) PID() int { return s.instance.PID() }

// one holds what the tests of this binary share.
var one struct {
	sync.Mutex
	manager *server.Manager
	shared  *Server
	err     error // why there is no PostgreSQL; asked for once
	install server.Installation
	fresh   int
}

// Main runs the tests and then removes every server. It does not return.
func Main(m *testing.M) {
	code := m.Run()
	one.Lock()
	defer one.Unlock()
	if one.manager != nil {
		if err := one.manager.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "servertest:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Start returns the server that the tests of this binary share: a managed one,
// or the one that the conninfo in PGTARE_TEST_SERVER names. Nobody may stop
// it, or change it for others.
func Start(t testing.TB) *Server {
	t.Helper()
	one.Lock()
	defer one.Unlock()
	switch conninfo := os.Getenv("PGTARE_TEST_SERVER"); {
	case one.shared != nil && one.shared.instance != nil:
		if err := one.shared.instance.Alive(t.Context()); err != nil {
			t.Fatalf("the shared server: %v", err)
		}
	case one.shared != nil:
	case conninfo != "":
		config, err := reach(t.Context(), conninfo)
		if err != nil {
			t.Fatalf("PGTARE_TEST_SERVER: %v", err)
		}
		one.shared = &Server{config: config}
	default:
		in := start(t, "shared")
		one.shared = &Server{in.Config(), in}
	}
	return one.shared
}

// Fresh returns a managed server of the test's own, removed when it ends.
func Fresh(t testing.TB) *Server {
	t.Helper()
	one.Lock()
	defer one.Unlock()
	one.fresh++
	in := start(t, fmt.Sprintf("fresh%d", one.fresh))
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Errorf("remove a server: %v", err)
		}
	})
	return &Server{in.Config(), in}
}

// reach parses a conninfo and tries it. It doesn't attach as the runner would:
// the schema that makes is for one process, and test binaries run in parallel.
func reach(ctx context.Context, conninfo string) (*pgconn.Config, error) {
	config, err := pgconn.ParseConfig(conninfo)
	if err != nil {
		return nil, err
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return config, conn.Close(ctx)
}

// start starts a managed instance; the caller holds the lock.
func start(t testing.TB, id string) *server.Instance {
	t.Helper()
	if one.manager == nil && one.err == nil {
		one.err = open()
	}
	if one.err != nil {
		lack(t, one.err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	in, err := one.manager.Create(ctx, one.install, server.InstanceConfig{ID: id})
	if err != nil {
		t.Fatalf("start a server: %v", err)
	}
	if err := in.Start(ctx); err != nil {
		t.Fatalf("start a server: %v", err)
	}
	return in
}

func open() error {
	// Not the test's context: what is fetched serves all tests.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	insts, err := server.Resolve(ctx, []server.Spec{{}}, server.ResolveConfig{})
	if err != nil {
		return err
	}
	m, err := server.NewManager(ctx, server.ManagerConfig{})
	if err != nil {
		return err
	}
	one.install, one.manager = insts[0], m
	return nil
}

// Clocksources returns two clock sources of this kernel, the one in use first,
// and keeps the tests of other packages from switching them until the test ends,
// which fails if another is in use then. Where this process can't switch between
// two, the test is skipped; in CI too, whose machines may have but one.
func Clocksources(t testing.TB) []string {
	t.Helper()
	turn, err := os.OpenFile(filepath.Join(os.TempDir(), "pgtare-test-clocksource"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { turn.Close() })
	if err := host.Lock(turn, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	current, offered, err := host.Clocksources()
	if err != nil {
		t.Skip(err)
	}
	for _, s := range offered {
		if s == current {
			continue
		}
		if err := host.CheckClocksources([]string{current, s}); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() {
			if now, _, _ := host.Clocksources(); now != current {
				t.Errorf("the clock source is %s after the test, and was %s", now, current)
			}
		})
		return []string{current, s}
	}
	t.Skipf("this kernel offers no clock source but %s", current)
	return nil
}

// lack ends a test that has no server.
func lack(t testing.TB, err error) {
	t.Helper()
	Lack(t, "no PostgreSQL for the tests: %v", err)
}

// Lack skips a test of a real server that can't be made here, and says why; in
// CI, where nothing of the kind may be skipped, it fails.
func Lack(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
		return
	}
	t.Skipf(format, args...)
}
