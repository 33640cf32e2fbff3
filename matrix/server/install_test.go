package server

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func specs(t *testing.T, texts ...string) []Spec {
	t.Helper()
	out := make([]Spec, len(texts))
	for i, s := range texts {
		var err error
		if out[i], err = ParseSpec(s); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestFromOneOrigin(t *testing.T) {
	inst := func(origin, version string, num int) Installation {
		return Installation{Origin: origin, Version: version, VersionNum: num, BinDir: origin + version}
	}
	local := []Installation{
		inst("debian", "13.9", 130009), inst("debian", "15.18", 150018), inst("debian", "15.2", 150002),
		inst("source", "17.1", 170001), inst("path", "18.1", 180001), inst("path", "15.18", 150018), inst("path", "19devel", 190000),
	}
	check := func(want string, names ...string) {
		t.Helper()
		found, ok := fromOneOrigin(local, specs(t, names...))
		var got []string
		for _, f := range found {
			got = append(got, f.BinDir)
		}
		if ok != (want != "") || strings.Join(got, " ") != want {
			t.Errorf("%q: %v, %v; want %q", names, got, ok, want)
		}
	}
	check("path19devel", "")
	check("debian15.18", "15")
	check("debian15.2", "15.2")
	check("debian13.9 debian15.18", "13", "15")
	check("debian15.18 debian13.9", "15.18", "13")
	check("path15.18 path18.1", "15", "18") // both from where both are
	check("source17.1", "17")
	check("", "15", "17") // no one origin has both
	check("", "13", "18")
	check("", "16")
	check("", "18.2")
	check("", "19") // 19devel is asked for by its directory
}

func TestPackaged(t *testing.T) {
	var ps []packaged
	for _, n := range []string{"9.6.0-beta.1", "18.4.0-beta.17", "18.3.0-beta.17", "18.10.0-beta.1", "18.10.0-beta.2", "17.5.1-beta.2", "17.5.0-beta.9", "14.3.0-alpha.21", "14.3.0-beta.6", "16.1.1", "16.1.1-beta.3", "junk", "1.2"} {
		if p, ok := parsePackaged(n); ok {
			ps = append(ps, p)
		}
	}
	check := func(in, want string) {
		t.Helper()
		p, ok := pick(ps, specs(t, in)[0])
		if p.name != want || ok != (want != "") {
			t.Errorf("pick %q: %q, want %q", in, p.name, want)
		}
	}
	check("18", "18.10.0-beta.2") // 10 is more than 4
	check("18.4", "18.4.0-beta.17")
	check("", "18.10.0-beta.2")
	check("17.5", "17.5.1-beta.2")
	check("14", "14.3.0-beta.6")
	check("16.1", "16.1.1")
	check("13", "")
	check("18.5", "")
	list := func(in, want string) {
		t.Helper()
		if got := listVersions(ps, specs(t, in)[0]); got != want {
			t.Errorf("listVersions for %q: %q, want %q", in, got, want)
		}
	}
	list("13", "14, 16, 17, 18")
	list("18.99", "18.3, 18.4, 18.10")
	list("12.1", "14.3, 16.1, 17.5, 18.3, 18.4, 18.10")
}

// TestDirectory: each way to name an installation, and what is none.
func TestDirectory(t *testing.T) {
	sharedInstance(t)
	i := shared.install
	prefix := filepath.Dir(i.BinDir)
	same := func(text string) {
		t.Helper()
		got, err := Resolve(t.Context(), specs(t, text), ResolveConfig{})
		if err != nil || got[0].BinDir != i.BinDir || got[0].Version != i.Version || got[0].VersionNum != i.VersionNum || got[0].Origin != "directory" {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	same(prefix)
	same(i.BinDir)
	same(filepath.Join(i.BinDir, "postgres"))
	if _, err := os.Stat(filepath.Join(i.BinDir, "pg_config")); err == nil {
		same(filepath.Join(i.BinDir, "pg_config"))
	}
	got, err := Resolve(t.Context(), specs(t, "mine="+prefix, prefix), ResolveConfig{})
	if err != nil || got[0].Label != "mine" || got[1].Label != i.Version {
		t.Errorf("labels: %+v, %v", got, err)
	}
	refused := func(want string, texts ...string) {
		t.Helper()
		_, err := Resolve(t.Context(), specs(t, texts...), ResolveConfig{})
		if !isUsage(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", texts, err, want)
		}
	}
	empty := openTempDir(t)
	refused("no such file", filepath.Join(empty, "none"))
	refused("make install", empty)
	refused("label=DIRECTORY", prefix, i.BinDir) // both would be called the same
	refused("both be called a", "a="+prefix, "a="+i.BinDir)

	// Something that is no PostgreSQL.
	fake := filepath.Join(empty, "bin")
	if err := os.Mkdir(fake, 0o755); err != nil {
		t.Fatal(err)
	}
	script := func(text string) {
		t.Helper()
		for _, name := range []string{"postgres", "initdb"} {
			os.Remove(filepath.Join(fake, name))
			if err := os.WriteFile(filepath.Join(fake, name), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	script("#!/bin/sh\necho hello\n")
	refused("not PostgreSQL", empty)
	script("#!/bin/sh\necho 'libfoo.so: cannot open' >&2; exit 127\n")
	refused("libfoo.so", empty)
	script("#!/bin/sh\necho 'postgres (PostgreSQL) 9.6.24'\n")
	refused("12 and later", empty)
	script("#!/bin/sh\necho 'postgres (PostgreSQL) 19devel'\n")
	if got, err := Resolve(t.Context(), specs(t, empty), ResolveConfig{}); err != nil || got[0].Label != "19devel" || got[0].VersionNum != 190000 {
		t.Errorf("19devel: %+v, %v", got, err)
	}
}

// TestUnreadable: a build in a directory that the server user can't pass.
func TestUnreadable(t *testing.T) {
	sharedInstance(t)
	home := filepath.Join(openTempDir(t), "home")
	bin := filepath.Join(home, "build", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "initdb"} {
		copyProgram(t, filepath.Join(shared.install.BinDir, name), filepath.Join(bin, name))
	}
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	user, err := findRunUser()
	if err != nil {
		t.Fatal(err)
	}
	_, err = Resolve(t.Context(), specs(t, filepath.Join(home, "build")), ResolveConfig{})
	if !user.switchTo {
		if err != nil && !strings.Contains(err.Error(), "does not run") {
			t.Errorf("one's own directory: %v", err)
		}
		return
	}
	if !isUsage(err) || !strings.Contains(err.Error(), "user "+user.Name) || !strings.Contains(err.Error(), home+" is closed") {
		t.Errorf("a directory closed to %s: %v", user.Name, err)
	}
	if _, err := NewManager(t.Context(), ManagerConfig{CacheDir: filepath.Join(home, "cache")}); !isUsage(err) || !strings.Contains(err.Error(), home) {
		t.Errorf("a cache closed to %s: %v", user.Name, err)
	}
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// absent is a version that no machine has installed.
const absent = "17.0"

func TestNoNpm(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Resolve(t.Context(), specs(t, absent), ResolveConfig{CacheDir: openTempDir(t)})
	var u *UnavailableError
	if !errors.As(err, &u) || !strings.Contains(err.Error(), "without the npm client") || !strings.Contains(err.Error(), "--server DIRECTORY") || !strings.Contains(err.Error(), "PostgreSQL "+absent) {
		t.Errorf("no npm: %v", err)
	}
}

// TestNoNetwork: npm's way out is a closed port, and it remembers nothing.
func TestNoNetwork(t *testing.T) {
	if _, err := exec.LookPath("npm"); err != nil {
		lack(t, err)
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "npm_config_proxy", "npm_config_https_proxy"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	t.Setenv("npm_config_cache", t.TempDir())
	t.Setenv("npm_config_noproxy", "")
	t.Setenv("NO_PROXY", "")
	cache := openTempDir(t)
	start := time.Now()
	_, err := Resolve(t.Context(), specs(t, absent), ResolveConfig{CacheDir: cache})
	var u *UnavailableError
	if !errors.As(err, &u) || !strings.Contains(err.Error(), "ECONNREFUSED") || !strings.Contains(err.Error(), "see to the network") {
		t.Errorf("no network: %v", err)
	}
	t.Logf("said after %v: %v", time.Since(start).Round(time.Millisecond), err)
	if left, _ := filepath.Glob(filepath.Join(cache, "*", "*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	// A cancelled one says so at once.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Resolve(ctx, specs(t, absent), ResolveConfig{CacheDir: cache}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// fetched resolves by npm; what was fetched stays in the default cache.
func fetched(t *testing.T, names ...string) []Installation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, err := newResolver(ResolveConfig{Log: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.fork.close()
	found, err := r.fetchAll(ctx, specs(t, names...))
	if un := (*UnavailableError)(nil); errors.As(err, &un) {
		lack(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestSideBySide runs 13 and 18 of one origin at the same time.
func TestSideBySide(t *testing.T) {
	sharedInstance(t)
	found := fetched(t, "13", "18")
	var about [][]string
	var targets []*Instance
	for i, f := range found {
		if f.Origin != "npm" || f.VersionNum/10000 != []int{13, 18}[i] || f.Label != f.Version {
			t.Errorf("%+v", f)
		}
		in, err := shared.manager.Create(t.Context(), f, InstanceConfig{ID: fmt.Sprintf("side%d", i), MaxConnections: 60})
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if err := in.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		targets = append(targets, in)
		conn := connect(t, in.Config())
		about = append(about, ask(t, conn, "SELECT current_setting('server_encoding'), datcollate, datctype, current_setting('TimeZone'), current_setting('log_timezone'), current_setting('DateStyle'), current_setting('lc_messages'), current_setting('default_text_search_config'), current_setting('max_connections'), current_setting('shared_buffers') FROM pg_database WHERE datname = current_database()")[0])
	}
	if !slices.Equal(about[0], about[1]) {
		t.Errorf("they differ in what should be alike:\n%q\n%q", about[0], about[1])
	}
	for i, in := range targets {
		s, err := in.Describe(t.Context())
		if err != nil || s.Build["CONFIGURE"] == "" || !strings.HasPrefix(s.Compiler, "gcc") {
			t.Errorf("%+v, %v", s, err)
		}
		// 14 has it, 13 not.
		_, err = Probe(t.Context(), in.Config(), []Setting{set("track_wal_io_timing", "on")})
		if na := (*NotApplicable)(nil); errors.As(err, &na) != (i == 0) || i == 1 && err != nil {
			t.Errorf("track_wal_io_timing on %s: %v", in.Label(), err)
		}
		// The fetched builds have no LLVM.
		_, err = Probe(t.Context(), in.Config(), []Setting{set("jit", "on")})
		if na := (*NotApplicable)(nil); !errors.As(err, &na) || !strings.Contains(na.Words, "LLVM") {
			t.Errorf("jit on %s: %v", in.Label(), err)
		}
		testLogConnections(t, in)
		testIOCounters(t, in.Config())
		_, err = Probe(t.Context(), in.Config(), []Setting{set("auto_explain.log_min_durration", "1h")})
		if na := (*NotApplicable)(nil); !errors.As(err, &na) || !na.Unknown {
			t.Errorf("a setting of no library on %s: %v", in.Label(), err)
		}
	}
	// The second time needs no npm.
	t.Setenv("PATH", t.TempDir())
	again := fetched(t, "18", "13", "18."+strings.TrimPrefix(found[1].Version, "18."))
	var l logged
	if one, err := Fetch(t.Context(), specs(t, "18"), ResolveConfig{Log: l.add}); err != nil || one[0] != found[1] || l.count("no newer one could be asked for") != 1 {
		t.Errorf("servers fetch of one that is here, without npm: %+v, %v; said %q", one, err, l.lines)
	}
	if again[0] != found[1] || again[1] != found[0] || again[2] != found[1] {
		t.Errorf("from the cache: %+v, first %+v", again, found)
	}
}

// pack writes a package as npm would.
func pack(t *testing.T, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.tgz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []io.Closer{w, z, f} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestInstall(t *testing.T) {
	cache, err := cacheDir(openTempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	in := func(tgz, name string) error {
		s, err := openSession(cache, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		return install(t.Context(), tgz, s, filepath.Join(cache, "pg", name))
	}
	good := map[string]string{
		"package/README.md": "no", "package/native/bin/postgres": "P", "package/native/lib/libpq.so.5.18": "L",
		"package/native/pg-symlinks.json": `[{"source":"native/lib/libpq.so.5.18","target":"native/lib/libpq.so.5"},{"source":"native/lib/libpq.so.5.18","target":"native/more/libpq.so"}]`,
	}
	old := syscall.Umask(0o077) // as some have it; the server user must read
	defer syscall.Umask(old)
	tgz := pack(t, good)
	// Several at once, one of them after the others.
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := in(tgz, "p"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := in(tgz, "p"); err != nil {
		t.Error(err)
	}
	root := filepath.Join(cache, "pg", "p")
	for name, mode := range map[string]os.FileMode{"native/bin/postgres": 0o755, "native/lib/libpq.so.5.18": 0o644, "native/bin": os.ModeDir | 0o755, "native": os.ModeDir | 0o755, ".": os.ModeDir | 0o755} {
		if st, err := os.Stat(filepath.Join(root, name)); err != nil || st.Mode() != mode {
			t.Errorf("%s: %v, %v, want %v", name, st.Mode(), err, mode)
		}
	}
	for _, link := range []string{"native/lib/libpq.so.5", "native/more/libpq.so"} {
		if text, err := os.ReadFile(filepath.Join(root, link)); err != nil || string(text) != "L" {
			t.Errorf("%s: %q, %v", link, text, err)
		}
		if to, _ := os.Readlink(filepath.Join(root, link)); filepath.IsAbs(to) {
			t.Errorf("%s is absolute: %s", link, to)
		}
	}
	if exists(filepath.Join(root, "README.md")) {
		t.Error("more than native was unpacked")
	}
	left := func() []string { l, _ := filepath.Glob(filepath.Join(cache, "run", "[^.]*")); return l }
	if l := left(); len(l) > 0 {
		t.Errorf("left %v", l)
	}

	bad := func(want string, change func(map[string]string)) {
		t.Helper()
		files := maps.Clone(good)
		change(files)
		if err := in(pack(t, files), "bad"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if exists(filepath.Join(cache, "pg", "bad")) || len(left()) > 0 {
			t.Errorf("left %v", left())
		}
	}
	bad("leads out", func(m map[string]string) { m["package/native/../../../x"] = "evil" })
	bad("leads out", func(m map[string]string) {
		m["package/native/pg-symlinks.json"] = `[{"source":"../../x","target":"native/y"}]`
	})
	bad("pg-symlinks.json", func(m map[string]string) { m["package/native/pg-symlinks.json"] = "{" })
	bad("pg-symlinks.json", func(m map[string]string) { delete(m, "package/native/pg-symlinks.json") })
	cut := filepath.Join(t.TempDir(), "cut.tgz")
	whole, err := os.ReadFile(tgz)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := in(cut, "bad"); err == nil || exists(filepath.Join(cache, "pg", "bad")) {
		t.Errorf("half a package: %v", err)
	}
}

// TestNoSuchVersion lists what there is.
func TestNoSuchVersion(t *testing.T) {
	_, err := Resolve(t.Context(), specs(t, "13.99"), ResolveConfig{CacheDir: openTempDir(t)})
	if un := (*UnavailableError)(nil); errors.As(err, &un) {
		lack(t, err)
	}
	if !isUsage(err) || !strings.Contains(err.Error(), "13.22, 13.23") || strings.Contains(err.Error(), "14.") {
		t.Errorf("13.99: %v", err)
	}
	_, err = Fetch(t.Context(), specs(t, "99"), ResolveConfig{CacheDir: openTempDir(t)})
	if !isUsage(err) || !strings.HasPrefix(err.Error(), "servers fetch 99: no such version; there are 12, 13, ") || !strings.Contains(err.Error(), "16, 17, 18") {
		t.Errorf("99: %v", err)
	}
}
