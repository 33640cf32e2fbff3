package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgtare/matrix/server"
	"pgtare/matrix/server/servertest"
	"pgtare/results"
)

// listing has one server of each kind.
func listing() *server.Listing {
	of := func(version, origin, dir, source, compiler, cflags, configure string) server.Listed {
		l := server.Listed{Installation: server.Installation{Version: version, VersionNum: 150018, Origin: origin, BinDir: dir, Source: source, Label: version}}
		if compiler != "" {
			l.About = results.Server{Compiler: compiler, Build: map[string]string{"CFLAGS": cflags, "CONFIGURE": configure}}
		}
		return l
	}
	asserting := of("19devel", "source", "/usr/local/pgsql/bin", "", "gcc 14.2.0", "-Wall -O0 -ggdb", "'--enable-cassert' '--prefix=/usr/local/pgsql'")
	asserting.About.Assertions = true
	return &server.Listing{
		Here: []server.Listed{
			of("15.18", "debian", "/usr/lib/postgresql/15/bin", "", "gcc (Debian 12.2.0-14+deb12u1) 12.2.0", "-Wall -Wmissing-prototypes -fno-strict-aliasing -g -g -O2 -fstack-protector-strong -ffile-prefix-map=/x=. -Wformat",
				"'--build=x86_64-linux-gnu' '--with-tcl' '--with-perl' '--with-pam' '--with-openssl' '--with-libxml' '--with-libxslt' '--mandir=/usr/share/postgresql/15/man' '--with-pgport=5432' '--enable-nls' '--enable-thread-safety' '--enable-debug' '--disable-rpath' '--with-uuid=e2fs' '--with-gnu-ld' '--with-systemd' '--with-system-tzdata=/usr/share/zoneinfo' 'CFLAGS=-g -O2' '--with-gssapi' '--with-ldap' '--with-includes=/usr/include/mit-krb5' '--with-selinux'"),
			asserting,
			of("18.1", "rpm", "/usr/pgsql-18/bin", "", "", "", ""),
			of("13.23", "npm", "/var/cache/pgtare/pg/a/native/bin", "", "gcc 7.5.0", "-Os", "'--with-openssl'"),
			of("18.4", "npm", "/var/cache/pgtare/pg/b/native/bin", "", "gcc 7.5.0", "-Os", "'--with-openssl'"),
			of("20devel", "built", "/var/cache/pgtare/builds/0123/bin", "/src/pg#master, commit 5f3c", "gcc 14.2.0", "-O2", "'--without-icu'"),
		},
		Fetchable: []string{"12.22", "14.20"},
		Notes:     []string{"left out /usr/lib/postgresql/9.6/bin: PostgreSQL 9.6.24; pgtare runs 12 and later", "/usr/pgsql-18/bin does not start: said\nmore"},
	}
}

func TestServersText(t *testing.T) {
	var b bytes.Buffer
	if err := printServers(listing(), &b); err != nil {
		t.Fatal(err)
	}
	golden(t, "servers", b.Bytes())
	b.Reset()
	if err := printServers(&server.Listing{Notes: []string{"offline"}}, &b); err != nil {
		t.Fatal(err)
	}
	if want := "no PostgreSQL was found on this machine\n\nnote: offline\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestServersJSON(t *testing.T) {
	var b bytes.Buffer
	if err := printServersJSON(listing(), &b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Schema  int
		Servers []struct {
			Version, Origin, Directory, Source, Compiler, Flags, Options string
			Assertions                                                   bool
		}
		Fetchable, Notes []string
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Schema != 1 || len(got.Servers) != 6 || len(got.Fetchable) != 2 || len(got.Notes) != 2 {
		t.Fatalf("%+v", got)
	}
	if s := got.Servers[5]; s.Origin != "built" || s.Source != "/src/pg#master, commit 5f3c" || s.Flags != "-O2" || s.Options != "'--without-icu'" || s.Assertions {
		t.Errorf("%+v", s)
	}
	if !got.Servers[1].Assertions || got.Servers[2].Compiler != "" {
		t.Errorf("%+v", got.Servers[1:3])
	}
	b.Reset()
	if err := printServersJSON(&server.Listing{}, &b); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b.Bytes(), []byte("null")) {
		t.Errorf("null for an empty list: %s", b.String())
	}
}

// sourceTree is a tree whose configure runs the commands.
func sourceTree(t *testing.T, commands string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "configure"), []byte("#!/bin/sh\n"+commands+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A source tree that doesn't build: one sentence that names the log.
func TestBuildFails(t *testing.T) {
	t.Parallel()
	cache := cacheDir(t)
	p := start(t, "run", "--server", "src:"+sourceTree(t, "echo 'configure: error: bison not found'; exit 1"), "--cache-dir", cache)
	p.expect(t, 1, "does not build: configure: configure: error: bison not found; all of it is in "+cache+"/builds/")
	nothingLeft(t, cache)
}

// An interrupted build ends its children and leaves only its log.
func TestBuildInterrupted(t *testing.T) {
	t.Parallel()
	cache := cacheDir(t)
	p := start(t, "servers", "fetch", "src:"+sourceTree(t, "echo at work; sleep 1000"), "--cache-dir", cache)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		logs, err := filepath.Glob(filepath.Join(cache, "builds", "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		if len(logs) == 1 {
			if text, err := os.ReadFile(logs[0]); err == nil && bytes.Contains(text, []byte("at work")) {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the build did not begin; standard error:\n%s", p.stderr.String())
		}
	}
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.expect(t, 130, "interrupted")
	nothingLeft(t, cache)
}

// Two source trees in one matrix, from building to the table. What make
// installs here are links to a real PostgreSQL.
func TestRunSource(t *testing.T) {
	t.Parallel()
	servertest.Start(t) // there is one
	found, err := server.Resolve(t.Context(), []server.Spec{{}}, server.ResolveConfig{})
	if err != nil {
		t.Fatal(err)
	}
	tree := sourceTree(t, `prefix=${1#--prefix=}; mkdir contrib; printf 'all install: ; @true\n' >contrib/Makefile
printf 'all: ; @true\ninstall: ; mkdir -p "$(DESTDIR)%s/bin" && ln -s "%s"/* "$(DESTDIR)%s/bin"\n' "$prefix" "`+found[0].BinDir+`" "$prefix" >Makefile`)
	cache := cacheDir(t)
	// A template of a build that is gone after the test is nobody else's.
	if err := os.Remove(filepath.Join(cache, "templates")); err != nil {
		t.Fatal(err)
	}
	p := start(t, "run", "--server", "one=src:"+tree, "--server", "two=src:"+tree, "--set", "none", "--runs", "1", "-T", "0.05", "--slice", "2ms", "--generation", "4", "--controls", "0", "--format", "json", "--cache-dir", cache)
	p.expect(t, 0, "built one=src:")
	if n := strings.Count(p.stderr.String(), "takes minutes"); n != 1 {
		t.Errorf("one tree was built %d times:\n%s", n, p.stderr.String())
	}
	var got struct {
		Environment struct {
			Servers []struct{ Label, Origin, Source, Version string }
		}
		Comparisons []json.RawMessage
	}
	if err := json.Unmarshal(p.stdout.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for i, s := range got.Environment.Servers {
		if s.Label != []string{"one", "two"}[i] || s.Origin != "built" || s.Version != found[0].Version || !strings.HasPrefix(s.Source, tree+", contents ") {
			t.Errorf("%+v", s)
		}
	}
	if len(got.Environment.Servers) != 2 || len(got.Comparisons) != 1 {
		t.Errorf("%+v", got)
	}
	nothingLeft(t, cache)
}
