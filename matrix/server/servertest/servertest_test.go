package servertest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestMain(m *testing.M) { Main(m) }

func TestStartIsShared(t *testing.T) {
	a, b := Start(t), Start(t)
	if a != b {
		t.Fatal("two shared servers")
	}
	conn, err := pgconn.ConnectConfig(t.Context(), a.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "SELECT 1").ReadAll(); err != nil {
		t.Fatal(err)
	}
}

func TestFreshMayBeKilled(t *testing.T) {
	s := Fresh(t)
	if err := s.Instance().Alive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for s.Instance().Alive(t.Context()) == nil {
	}
	if err := s.Instance().Alive(t.Context()); !strings.Contains(err.Error(), "SIGKILL") {
		t.Errorf("a killed server: %v", err)
	}
}

// TestReach: another server, named by conninfo, is used as it is.
func TestReach(t *testing.T) {
	s := Fresh(t)
	c := s.Config()
	config, err := reach(t.Context(), fmt.Sprintf("host='%s' port=%d user=%s dbname=%s", c.Host, c.Port, c.User, c.Database))
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != c.Host || config.Database != c.Database {
		t.Errorf("reached %s %s", config.Host, config.Database)
	}
	if _, err := reach(t.Context(), "host=/none"); err == nil {
		t.Error("reached nothing")
	}
}

// recorder is a testing.TB that notes how a test was ended.
type recorder struct {
	testing.TB
	fatal, skip bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Fatalf(string, ...any) { r.fatal = true }
func (r *recorder) Skipf(string, ...any)  { r.skip = true }

func TestLackFailsInCI(t *testing.T) {
	for _, ci := range []string{"", "true"} {
		t.Setenv("CI", ci)
		r := &recorder{TB: t}
		lack(r, errors.New("none"))
		if r.fatal != (ci == "true") || r.skip == r.fatal {
			t.Errorf("CI=%q: %+v", os.Getenv("CI"), r)
		}
	}
}
