// Package servertest gives tests a real PostgreSQL.
//
// Start returns one server per test binary, shared by its tests and started
// when the first asks for it; Fresh one of the test's own, that may be
// stopped and killed. Both are the newest local PostgreSQL, else a fetched
// one. Where there is none, a test is skipped, and fails under CI=true.
//
// A package whose tests use either should have
//
//	func TestMain(m *testing.M) { servertest.Main(m) }
//
// which removes the servers' files at the end. Without it the processes end
// with the test binary all the same, and the next start removes the files.
package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/server"
)

// Server is a running PostgreSQL.
type Server struct {
	target server.Target
}

// Config returns a copy of how to connect: a superuser, database postgres
// (with PGTARE_TEST_SERVER, what that says).
func (s *Server) Config() *pgconn.Config { return s.target.Config() }

// Target returns the server as the runner sees it.
func (s *Server) Target() server.Target { return s.target }

// Instance returns the managed instance. It panics on the server that
// PGTARE_TEST_SERVER names; one from Fresh always is managed.
func (s *Server) Instance() *server.Instance { return s.target.(*server.Instance) }

// PID returns the postmaster's process ID, as Instance's.
func (s *Server) PID() int { return s.Instance().PID() }

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
	var errs []error
	if one.shared != nil {
		errs = append(errs, one.shared.target.Close())
	}
	if one.manager != nil {
		errs = append(errs, one.manager.Close())
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "servertest:", err)
		code = max(code, 1)
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
	if one.shared != nil {
		if err := one.shared.target.Alive(t.Context()); err != nil {
			t.Fatalf("the shared server: %v", err)
		}
		return one.shared
	}
	if conninfo := os.Getenv("PGTARE_TEST_SERVER"); conninfo != "" {
		a, err := attach(t.Context(), conninfo)
		if err != nil {
			t.Fatalf("PGTARE_TEST_SERVER: %v", err)
		}
		one.shared = &Server{a}
		return one.shared
	}
	in := start(t, "shared")
	one.shared = &Server{in}
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
	return &Server{in}
}

func attach(ctx context.Context, conninfo string) (*server.Attached, error) {
	spec, err := server.ParseSpec(conninfo)
	if err != nil {
		return nil, err
	}
	insts, err := server.Resolve(ctx, []server.Spec{spec}, server.ResolveConfig{})
	if err != nil {
		return nil, err
	}
	return server.Attach(ctx, insts[0])
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

// lack ends a test that has no server.
func lack(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("no PostgreSQL for the tests: %v", err)
		return
	}
	t.Skipf("no PostgreSQL for the tests: %v", err)
}
