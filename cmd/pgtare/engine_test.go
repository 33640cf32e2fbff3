package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgtare/matrix/server/servertest"
	"pgtare/results"
)

// A server that takes TLS and a SCRAM password only is measured by the engine
// net, and says so; the password shows nowhere.
func TestEncrypted(t *testing.T) {
	t.Parallel()
	_, verified := servertest.Encrypted(t)
	required := strings.Replace(verified[:strings.Index(verified, "sslrootcert=")], "verify-full", "require", 1)
	for _, conninfo := range []string{required, verified} {
		record := filepath.Join(t.TempDir(), "r.jsonl")
		p := start(t, with(quick, "--server", conninfo, "--mode", "per-statement,single-transaction", "-c", "2", "-o", record)...)
		p.expect(t, 0, "record: ")
		if out := strings.Join(strings.Fields(p.stdout.String()), " "); !strings.Contains(out, "2 clients in 1 thread, simple protocol, by net with TLS 1.") || !strings.Contains(out, "track_activities=on") {
			t.Errorf("the table does not say what sent the load:\n%s", p.stdout.String())
		}
		rec, err := results.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		if e := rec.Header.Panels[0].Engine; !strings.HasPrefix(e, "wire/net with TLS 1.") {
			t.Errorf("the record says that the engine is %q", e)
		}
		text, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		for what, text := range map[string]string{"record": string(text), "table": p.stdout.String(), "standard error": p.stderr.String()} {
			if strings.Contains(text, "s secret") {
				t.Errorf("the %s shows the password:\n%s", what, text)
			}
		}
	}
	for _, c := range []struct{ args, want string }{
		{"--engine epoll", "use --engine net"},
		{"--pin core", "which can't be pinned alone; use --pin none"},
		{"--engine net --pin core:0", "which can't be pinned alone; use --pin none"},
	} {
		start(t, with(quick, append([]string{"--server", required}, strings.Fields(c.args)...)...)...).expect(t, 2, c.want)
	}
	plan := start(t, with(quick, "--server", required, "--dry-run")...)
	plan.expect(t, 0, "")
	if !strings.Contains(plan.stdout.String(), "engine epoll, or net if the connection is encrypted,") {
		t.Errorf("the plan does not say what may send the load:\n%s", plan.stdout.String())
	}
}

// The engine net on a server of pgtare's own.
func TestEngineNet(t *testing.T) {
	servertest.Start(t) // skips, or fails in CI, where no PostgreSQL is to be had
	t.Parallel()
	cache := cacheDir(t)
	p := start(t, with(quick, "--engine", "net", "--cache-dir", cache)...)
	p.expect(t, 0, "record: ")
	out := strings.Join(strings.Fields(p.stdout.String()), " ")
	if !strings.Contains(out, "by net placement") || !strings.Contains(out, "control") {
		t.Errorf("the table:\n%s", p.stdout.String())
	}
	nothingLeft(t, cache)
}
