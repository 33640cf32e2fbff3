package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// attachedConfig reads a conninfo as libpq would: environment, service file and
// password file included.
func attachedConfig(conninfo string) (*pgconn.Config, error) {
	cfg, err := pgconn.ParseConfig(conninfo)
	if err != nil {
		// pgconn's text repeats the conninfo with what it takes for the
		// password removed; ours shows a masked one already.
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		} else {
			err = errors.New("the conninfo can't be read")
		}
		return nil, usagef("%v", err)
	}
	return cfg, nil
}

// reach connects, and returns beside the session how to reach the same server
// in the same way again. A conninfo may name several hosts, a name have several
// addresses, and sslmode leave it open whether the connection is encrypted: of
// all that only what the first session got is kept, since the sessions of a
// matrix must be alike.
func reach(ctx context.Context, cfg *pgconn.Config) (*pgconn.PgConn, *pgconn.Config, error) {
	var mu sync.Mutex
	dialled, looked := "", map[string][]string{}
	open := cfg.Copy()
	open.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		dialled = address // they are tried one after the other, so the last one is it
		mu.Unlock()
		return cfg.DialFunc(ctx, network, address)
	}
	open.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		ips, err := cfg.LookupFunc(ctx, host)
		mu.Lock()
		// Once for each way that sslmode leaves open, and it may answer otherwise.
		looked[host] = append(looked[host], ips...)
		mu.Unlock()
		return ips, err
	}
	conn, err := pgconn.ConnectConfig(ctx, open)
	if err != nil {
		return nil, nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	_, encrypted := conn.Conn().(*tls.Conn)
	ways := append([]*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}}, cfg.Fallbacks...)
	for _, w := range ways {
		if (w.TLSConfig != nil) != encrypted {
			continue
		}
		same := cfg.Copy()
		same.Host, same.Port, same.TLSConfig, same.Fallbacks = w.Host, w.Port, w.TLSConfig, nil
		same.ValidateConnect = nil // target_session_attrs has chosen
		if network, address := pgconn.NetworkAddress(w.Host, w.Port); network == "unix" {
			if address == dialled {
				return conn, same, nil
			}
			continue
		}
		for _, ip := range looked[w.Host] {
			if net.JoinHostPort(ip, strconv.Itoa(int(w.Port))) == dialled {
				same.LookupFunc = func(context.Context, string) ([]string, error) { return []string{ip}, nil }
				return conn, same, nil
			}
		}
	}
	closeConn(conn)
	return nil, nil, fmt.Errorf("a session was opened to %s, which is none of the addresses that were looked up", dialled)
}

// noConnection says in one sentence why a server can't be reached, with the
// remedy. server names it as the user did, secrets masked.
func noConnection(ctx context.Context, server string, cfg *pgconn.Config, err error) error {
	if ctx.Err() == context.Canceled {
		return fmt.Errorf("--server %s: %w", server, ctx.Err())
	}
	var (
		pg    *pgconn.PgError
		dns   *net.DNSError
		errno syscall.Errno
		at    = addressOf(cfg)
	)
	certificate := func() bool {
		var v *tls.CertificateVerificationError
		var u x509.UnknownAuthorityError
		var h x509.HostnameError
		return errors.As(err, &v) || errors.As(err, &u) || errors.As(err, &h)
	}
	switch {
	case errors.As(err, &pg):
		return refusedBy(server, cfg, pg)
	case errors.As(err, &dns):
		return usagef("--server %s: the host %s is not known (%s); see its spelling, or name an address", server, dns.Name, dns.Err)
	case certificate():
		return usagef("--server %s: the certificate of the server at %s is not trusted (%s); see sslrootcert and sslmode", server, at, innermost(err))
	case onlyEncrypted(cfg) && strings.Contains(err.Error(), "server refused TLS connection"):
		return usagef("--server %s: the server at %s does not encrypt connections; use sslmode=prefer or disable, or turn ssl on there", server, at)
	case errors.As(err, &errno) && (errno == syscall.ECONNREFUSED || errno == syscall.ENOENT):
		return unavailablef("--server %s: no server takes connections at %s (%v); see whether it runs, and host and port", server, at, errno)
	case errors.As(err, &errno) && (errno == syscall.EACCES || errno == syscall.EPERM):
		return unavailablef("--server %s: this user may not connect to %s (%v); use a user that may, or TCP (host=localhost)", server, at, errno)
	case pgconn.Timeout(err) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &errno) && errno == syscall.ETIMEDOUT:
		return unavailablef("--server %s: no answer from %s; see host, port and firewall, and whether the server hangs", server, at)
	}
	return unavailablef("--server %s: can't connect to %s: %s", server, at, strings.Join(strings.Fields(innermost(err)), " "))
}

// onlyEncrypted says whether no way of cfg leads to a server without TLS.
func onlyEncrypted(cfg *pgconn.Config) bool {
	return cfg.TLSConfig != nil && !slices.ContainsFunc(cfg.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil })
}

// refusedBy is noConnection where the server has answered.
func refusedBy(server string, cfg *pgconn.Config, pg *pgconn.PgError) error {
	const (
		invalidPassword, invalidAuthorization = "28P01", "28000"
		noDatabase, tooMany, mayNotConnect    = "3D000", "53300", "42501"
		protocolViolation                     = "08P01"
	)
	switch {
	case pg.Code == invalidPassword && cfg.Password == "":
		return usagef("--server %s: the server wants a password of role %s, and there is none; give it in PGPASSWORD, in a password file (.pgpass) or a service file", server, cfg.User)
	case pg.Code == invalidPassword:
		return usagef("--server %s: the server does not take the password of role %s (%s); see PGPASSWORD, the password file (.pgpass) and the conninfo", server, cfg.User, pg.Message)
	case pg.Code == invalidAuthorization:
		return usagef("--server %s: the server does not let role %s in (%s); see user and dbname, and the server's pg_hba.conf", server, cfg.User, pg.Message)
	case pg.Code == noDatabase:
		return usagef("--server %s: %s; name one that exists (dbname=)", server, pg.Message)
	case pg.Code == mayNotConnect:
		return usagef("--server %s: %s (role %s); it takes GRANT CONNECT ON DATABASE %s TO %[3]s", server, pg.Message, cfg.User, cfg.Database)
	case pg.Code == tooMany:
		return usagef("--server %s: the server has no connection left for role %s (%s); end others, or raise its max_connections", server, cfg.User, pg.Message)
	case pg.Code == protocolViolation && strings.Contains(pg.Message, "startup parameter"):
		return pooler(server, fmt.Sprintf("it refuses settings given at connecting (%s)", pg.Message))
	}
	return unavailablef("--server %s: the server at %s refuses the connection: %s", server, addressOf(cfg), pgWords(pg))
}

// pooler is the error of a server that sessions don't reach directly.
func pooler(server, sign string) error {
	return usagef("--server %s: this looks like a connection pooler: %s; then no setting of a cell can be proven to be in force, so give the address of the PostgreSQL server itself", server, sign)
}

// addressOf is where a server is, for messages.
func addressOf(cfg *pgconn.Config) string {
	var list []string
	add := func(host string, port uint16) {
		_, address := pgconn.NetworkAddress(host, port)
		if !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	add(cfg.Host, cfg.Port)
	for _, f := range cfg.Fallbacks {
		add(f.Host, f.Port)
	}
	return strings.Join(list, " or ")
}

// innermost is the text of the innermost of the errors that are wrapped, and of
// several that are joined the last: the first may be that there is no TLS, where
// the next one did without.
func innermost(err error) string {
	for {
		var next error
		switch x := err.(type) {
		case interface{ Unwrap() error }:
			next = x.Unwrap()
		case interface{ Unwrap() []error }:
			if list := x.Unwrap(); len(list) > 0 {
				next = list[len(list)-1]
			}
		}
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// durableConninfo is a conninfo by which a later process reaches the server
// that cfg is a session's way to: its address, role and database spelled out,
// and of conninfo and environment what says how to get in, without any
// password. Files are named by their whole path.
func durableConninfo(conninfo string, cfg *pgconn.Config) string {
	given := map[string]string{}
	if isURI(conninfo) {
		_, query, _ := strings.Cut(conninfo, "?")
		values, _ := url.ParseQuery(query) // pgconn has read it already
		for key := range values {
			given[key] = values.Get(key)
		}
		if given["ssl"] == "true" {
			given["sslmode"] = "require"
		}
	} else if pairs, err := parseConninfo(conninfo); err == nil {
		for _, p := range pairs {
			given[p.key] = p.value
		}
	}
	// What a service file says comes before the environment, so with one only
	// the way to the file counts.
	for _, e := range []struct{ key, env string }{{"service", "PGSERVICE"}, {"servicefile", "PGSERVICEFILE"}, {"passfile", "PGPASSFILE"},
		{"sslmode", "PGSSLMODE"}, {"sslcert", "PGSSLCERT"}, {"sslkey", "PGSSLKEY"}, {"sslrootcert", "PGSSLROOTCERT"}} {
		if given["service"] != "" && strings.HasPrefix(e.key, "ssl") {
			continue
		}
		if v := os.Getenv(e.env); v != "" && given[e.key] == "" {
			given[e.key] = v
		}
	}
	pairs := []conninfoPair{{"host", cfg.Host}, {"port", strconv.Itoa(int(cfg.Port))}, {"user", cfg.User}, {"dbname", cfg.Database}}
	for _, key := range []string{"service", "servicefile", "passfile", "sslmode", "sslcert", "sslkey", "sslrootcert", "sslsni", "sslnegotiation", "channel_binding", "require_auth", "krbsrvname"} {
		v := given[key]
		if v == "" {
			continue
		}
		if slices.Contains([]string{"servicefile", "passfile", "sslcert", "sslkey", "sslrootcert"}, key) && v != "system" {
			if abs, err := filepath.Abs(v); err == nil {
				v = abs
			}
		}
		pairs = append(pairs, conninfoPair{key, v})
	}
	var b strings.Builder
	for i, p := range pairs {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s='%s'", p.key, quoteConninfo(p.value))
	}
	return b.String()
}
