package servertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Encrypted returns a managed server of the test's own that takes nothing but
// TLS and a SCRAM password, over TCP on 127.0.0.1, with a certificate made for
// it, and the conninfo of a superuser: sslmode=verify-full, and last the
// sslrootcert. Config is the same.
func Encrypted(t testing.TB) (s *Server, conninfo string) {
	t.Helper()
	s = Fresh(t)
	conn, err := pgconn.ConnectConfig(t.Context(), s.config)
	if err != nil {
		t.Fatal(err)
	}
	show := func(setting string) string {
		r := conn.ExecParams(t.Context(), "SHOW "+setting, nil, nil, nil, nil).Read()
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return string(r.Rows[0][0])
	}
	root := writeCertificate(t, show("data_directory"))
	if err := os.WriteFile(show("hba_file"), []byte("hostssl all all 127.0.0.1/32 scram-sha-256\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A port that nobody has: other packages' tests run meanwhile.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	for _, sql := range []string{
		"SET password_encryption = 'scram-sha-256'", "CREATE ROLE encrypted SUPERUSER LOGIN PASSWORD 'it''s secret'",
		"ALTER SYSTEM SET listen_addresses = '127.0.0.1'", "ALTER SYSTEM SET ssl = on", fmt.Sprintf("ALTER SYSTEM SET port = %d", port),
	} {
		if _, err := conn.Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	conn.Close(t.Context())
	if err := s.instance.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.instance.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	conninfo = fmt.Sprintf(`host=127.0.0.1 port=%d user=encrypted password='it\'s secret' dbname=postgres sslmode=verify-full sslrootcert='%s'`, port, root)
	if s.config, err = pgconn.ParseConfig(conninfo); err != nil {
		t.Fatal(err)
	}
	return s, conninfo
}

// writeCertificate puts server.crt and server.key into a data directory, owned
// as the directory is, and returns a file that holds the certificate for the
// clients.
func writeCertificate(t testing.TB, data string) (root string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pgtare's tests"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(data)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	write := func(file, kind string, bytes []byte) string {
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, file := range []string{
		write(filepath.Join(data, "server.crt"), "CERTIFICATE", cert),
		write(filepath.Join(data, "server.key"), "PRIVATE KEY", private),
	} {
		if os.Getuid() == 0 {
			if err := os.Chown(file, int(owner.Uid), int(owner.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return write(filepath.Join(t.TempDir(), "root.crt"), "CERTIFICATE", cert)
}
