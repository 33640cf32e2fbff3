//go:build linux

package workload

import (
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/server/servertest"
)

// Those of the tests of every engine in which the connection matters, over TLS.
func TestOverTLS(t *testing.T) {
	ofTest.net = true
	ofTest.encrypted, _ = servertest.Encrypted(t)
	defer func() { ofTest.net, ofTest.encrypted = false, nil }()
	a := connectAdmin(t, ofTest.encrypted)
	if got := a.text("SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"); !strings.HasPrefix(got, "TLSv1.") {
		t.Fatalf("the server says that the connection is encrypted by %q", got)
	}
	a.conn.Close(t.Context())
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"SingleTransactionMode", testSingleTransactionMode},
		{"LargeCommand", testLargeCommand},
		{"AnswersLargerThanTheBuffers", testAnswersLargerThanTheBuffers},
		{"NoAllocationPerTransaction", testNoAllocationPerTransaction},
		{"NothingIsLeft", testNothingIsLeft},
		{"CancelledSliceEndsAtOnce", testCancelledSliceEndsAtOnce},
		{"LostServer", testLostServer},
		{"SessionEndedBetweenSlices", testSessionEndedBetweenSlices},
		{"StoppedServer", testStoppedServer},
	} {
		t.Run(c.name, c.test)
	}
}

func TestTLSIsVerified(t *testing.T) {
	_, verified := servertest.Encrypted(t)
	n := NewNet(NetConfig{})
	defer n.Close()
	spec := GenerationSpec{Script: mustParse(t, "SELECT 1"), Protocol: Simple, Clients: 2}
	for _, c := range []struct{ name, change, to, want string }{
		{"as it is", "", "", ""},
		{"sslmode=require", "sslmode=verify-full", "sslmode=require", ""},
		{"another name", "host=127.0.0.1", "host=localhost", "certificate"},
		{"nobody's certificate", verified[strings.Index(verified, "sslrootcert="):], "", "certificate"},
		{"another password", "secret", "wrong", "28P01"},
		{"no TLS", "sslmode=verify-full", "sslmode=disable", "28000"},
	} {
		conninfo := strings.Replace(verified, c.change, c.to, 1)
		if c.name == "sslmode=require" { // with a root certificate, it would be verify-ca
			conninfo = conninfo[:strings.Index(conninfo, "sslrootcert=")]
		}
		var err error
		if spec.Config, err = pgconn.ParseConfig(conninfo); err != nil {
			t.Fatal(err)
		}
		g, err := n.Open(t.Context(), spec)
		switch {
		case err == nil:
			if r := slice(t, g, Slice{Head: 1, Count: 5}); r.N != 10 || c.want != "" {
				t.Errorf("%s: N %d, want %s", c.name, r.N, c.want)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		case c.want == "" || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "it's wrong"):
			t.Errorf("%s: the error shows the password: %v", c.name, err)
		}
	}
}

// The epoll engine refuses an encrypted connection, and closes it.
func TestEncryptedConnectionIsRefused(t *testing.T) {
	s, _ := servertest.Encrypted(t)
	w, err := NewWire(WireConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	_, err = w.Open(t.Context(), GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT 1"), Protocol: Simple, Clients: 1})
	if err == nil || !strings.Contains(err.Error(), "use the engine net") {
		t.Errorf("%v, want a refusal that names the remedy", err)
	}
}

// Over TCP without TLS, every engine does.
func TestPlainTCP(t *testing.T) {
	s, _ := servertest.Encrypted(t)
	c := s.Config()
	a := connectAdmin(t, s)
	if err := os.WriteFile(a.text("SHOW hba_file"), []byte("host all all 127.0.0.1/32 scram-sha-256\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.exec("SELECT pg_reload_conf()")
	c.TLSConfig = nil
	everyEngine(t, func(t *testing.T) {
		g := open(t, engine(t, 1), GenerationSpec{Config: c, Script: mustParse(t, "SELECT 1"), Protocol: Simple, Clients: 2})
		if r := slice(t, g, Slice{Head: 2, Count: 20}); r.N != 40 {
			t.Errorf("N %d, want 40", r.N)
		}
	})
}
