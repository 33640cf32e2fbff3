package server

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeInstall writes a postgres that tells its version, and an initdb.
func fakeInstall(t *testing.T, bin, version string) {
	t.Helper()
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	writeProgram(t, filepath.Join(bin, "postgres"), "echo 'postgres (PostgreSQL) "+version+"'")
	writeProgram(t, filepath.Join(bin, "initdb"), "exit 1")
}

func writeProgram(t *testing.T, path, commands string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+commands+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestFind looks for installations below a root of its own, one for each way
// to install PostgreSQL.
func TestFind(t *testing.T) {
	root := filepath.Join(openTempDir(t), "a root [*]") // no pattern
	at := func(path string) string { return filepath.Join(root, path) }
	link := func(to, path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, at(path)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", "/home/u")
	t.Setenv("PATH", strings.Join([]string{"/usr/bin", "relative", "/home/u/.asdf/shims", "/home/u/pg/bin", "/home/u/config"}, ":"))
	for _, name := range []string{"PGENV_ROOT", "ASDF_DATA_DIR", "MISE_DATA_DIR", "XDG_DATA_HOME"} {
		t.Setenv(name, "")
	}
	for path, version := range map[string]string{
		"/usr/lib/postgresql/13/bin":                                 "13.23 (Debian 13.23-1)",
		"/usr/lib/postgresql/9.6/bin":                                "9.6.24",
		"/usr/lib/postgresql/15/bin":                                 "15.18 (Debian 15.18-0+deb12u1)",
		"/usr/pgsql-16/bin":                                          "16.11",
		"/usr/bin":                                                   "16.8",
		"/usr/lib/postgresql17/bin":                                  "17.7",
		"/usr/libexec/postgresql18":                                  "18.1",
		"/usr/lib64/postgresql-14/bin":                               "14.20",
		"/opt/homebrew/Cellar/postgresql@17/17.7/bin":                "17.7 (Homebrew)",
		"/usr/local/opt/postgresql@14/bin":                           "14.20",
		"/home/linuxbrew/.linuxbrew/Cellar/postgresql@18/18.1_1/bin": "18.1",
		"/opt/PostgreSQL/16/bin":                                     "16.11",
		"/Library/PostgreSQL/17/bin":                                 "17.7",
		"/Applications/Postgres.app/Contents/Versions/18/bin":        "18.1 (Postgres.app)",
		"/usr/local/pgsql/bin":                                       "19devel",
		"/home/u/.pgenv/pgsql-18.1/bin":                              "18.1",
		"/home/u/.asdf/installs/postgres/15.15/bin":                  "15.15",
		"/home/u/.asdf/shims":                                        "15.15",
		"/home/u/.local/share/mise/installs/postgres/16.4/bin":       "16.4",
		"/home/u/pg/bin":                                             "19beta1",
		"/usr/local/asked/bin":                                       "18rc1",
	} {
		fakeInstall(t, at(path), version)
	}
	link("../Cellar/postgresql@17/17.7", "/opt/homebrew/opt/postgresql@17")
	link("../Cellar/postgresql@17/17.7", "/opt/homebrew/opt/postgresql") // the same again
	link("../Cellar/postgresql@18/18.1_1", "/home/linuxbrew/.linuxbrew/opt/postgresql@18")
	link("16.4", "/home/u/.local/share/mise/installs/postgres/latest")
	if err := os.MkdirAll(at("/home/u/config"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeProgram(t, at("/home/u/config/pg_config"), "echo /usr/local/asked/bin")
	if err := os.MkdirAll(at("/usr/pgsql-17/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeProgram(t, at("/usr/pgsql-17/bin/postgres"), "echo only a client") // no initdb beside it
	fakeInstall(t, at("/usr/lib/postgresql/18/bin"), "18.1")
	writeProgram(t, at("/usr/lib/postgresql/18/bin/postgres"), "echo 'libfoo.so: cannot open' >&2; exit 127")

	find := func() (found, left []string) {
		t.Helper()
		r, err := newResolver(ResolveConfig{Root: root})
		if err != nil {
			t.Fatal(err)
		}
		defer r.fork.close()
		is, skipped := r.local(t.Context())
		for _, i := range is {
			found = append(found, fmt.Sprintf("%s %s %s", i.Origin, i.Version, strings.TrimPrefix(i.BinDir, root)))
		}
		for _, s := range skipped {
			left = append(left, s.String())
		}
		return found, left
	}
	found, left := find()
	want := []string{
		"debian 13.23 /usr/lib/postgresql/13/bin",
		"debian 15.18 /usr/lib/postgresql/15/bin",
		"rpm 16.11 /usr/pgsql-16/bin",
		"distribution 16.8 /usr/bin",
		"distribution 17.7 /usr/lib/postgresql17/bin",
		"distribution 18.1 /usr/libexec/postgresql18",
		"distribution 14.20 /usr/lib64/postgresql-14/bin",
		"homebrew 17.7 /opt/homebrew/Cellar/postgresql@17/17.7/bin",
		"homebrew 14.20 /usr/local/opt/postgresql@14/bin",
		"homebrew 18.1 /home/linuxbrew/.linuxbrew/Cellar/postgresql@18/18.1_1/bin",
		"edb 16.11 /opt/PostgreSQL/16/bin",
		"edb 17.7 /Library/PostgreSQL/17/bin",
		"postgres.app 18.1 /Applications/Postgres.app/Contents/Versions/18/bin",
		"source 19devel /usr/local/pgsql/bin",
		"pgenv 18.1 /home/u/.pgenv/pgsql-18.1/bin",
		"asdf 15.15 /home/u/.asdf/installs/postgres/15.15/bin",
		"mise 16.4 /home/u/.local/share/mise/installs/postgres/16.4/bin",
		"path 19beta1 /home/u/pg/bin",
		"path 18rc1 /usr/local/asked/bin",
	}
	if !slices.Equal(found, want) {
		t.Errorf("found:\n%s\nwant:\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
	if len(left) != 2 || !strings.Contains(left[0], "libfoo.so") || !strings.Contains(left[1], "9.6.24; pgtare runs 12 and later") {
		t.Errorf("left out: %q", left)
	}

	// Managers that keep theirs elsewhere.
	t.Setenv("PATH", "")
	t.Setenv("PGENV_ROOT", "/srv/pgenv")
	t.Setenv("ASDF_DATA_DIR", "/srv/asdf")
	t.Setenv("XDG_DATA_HOME", "/srv/data")
	fakeInstall(t, at("/srv/pgenv/pgsql-17.1/bin"), "17.1")
	fakeInstall(t, at("/srv/asdf/installs/postgres/17.2/bin"), "17.2")
	fakeInstall(t, at("/srv/data/mise/installs/postgres/17.3/bin"), "17.3")
	found, _ = find()
	if got, want := found[len(found)-3:], []string{"pgenv 17.1 /srv/pgenv/pgsql-17.1/bin", "asdf 17.2 /srv/asdf/installs/postgres/17.2/bin", "mise 17.3 /srv/data/mise/installs/postgres/17.3/bin"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	t.Setenv("MISE_DATA_DIR", "/srv/mise")
	fakeInstall(t, at("/srv/mise/installs/postgres/17.4/bin"), "17.4")
	if found, _ = find(); found[len(found)-1] != "mise 17.4 /srv/mise/installs/postgres/17.4/bin" {
		t.Errorf("found %q last", found[len(found)-1])
	}
}

// A pg_config is asked as postgres is: by the servers' user, in a session of its
// own, with none of the caller's environment.
func TestPgConfigWithoutRights(t *testing.T) {
	user, err := findRunUser()
	if err != nil {
		lack(t, err)
	}
	t.Setenv("PGTARE_TEST_SECRET", "sesame")
	dir := openTempDir(t)
	bin := filepath.Join(dir, "lib")
	fakeInstall(t, bin, "18.1")
	config := filepath.Join(dir, "bin", "pg_config")
	if err := os.Mkdir(filepath.Dir(config), 0o755); err != nil {
		t.Fatal(err)
	}
	writeProgram(t, config, fmt.Sprintf(`read pid name state ppid pgrp session rest </proc/$$/stat
if [ "$(id -u)" = %d ] && [ -z "$PGTARE_TEST_SECRET" ] && [ "$session" = $$ ] && [ "$PWD" = / ]; then echo '%s'; fi`, user.UID, bin))
	found, err := Resolve(t.Context(), specs(t, config), ResolveConfig{})
	if err != nil || found[0].BinDir != bin {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestList lists what is found, and says why nothing can be fetched.
func TestList(t *testing.T) {
	sharedInstance(t)
	root := openTempDir(t)
	bin := filepath.Join(root, "usr/lib/postgresql/1/bin")
	if err := os.MkdirAll(filepath.Dir(bin), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(shared.install.BinDir, bin); err != nil {
		t.Fatal(err)
	}
	fakeInstall(t, filepath.Join(root, "usr/pgsql-18/bin"), "18.1") // its initdb fails
	t.Setenv("PATH", t.TempDir())
	l, err := List(t.Context(), ResolveConfig{Root: root, CacheDir: openCache(t)})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Here) != 2 || len(l.Fetchable) != 0 {
		t.Fatalf("%+v", l)
	}
	s := l.Here[0]
	if s.Origin != "debian" || s.Version != shared.install.Version || s.About.Compiler == "" || s.About.Build["CFLAGS"] == "" || s.About.Assertions {
		t.Errorf("%+v", s)
	}
	if l.Here[1].About.Compiler != "" {
		t.Errorf("of one that doesn't start: %+v", l.Here[1])
	}
	notes := strings.Join(l.Notes, "\n")
	if !strings.Contains(notes, "usr/pgsql-18/bin does not start") || !strings.Contains(notes, "what can be fetched isn't known: servers fetch: without the npm client") {
		t.Errorf("notes: %s", notes)
	}
}
