package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// configureScript is a configure whose makefile builds, as the tree's file
// "does" says, something that looks like PostgreSQL to the builder. What is
// tested here is the builder; scripts/build-versions.sh builds real trees.
const configureScript = `#!/bin/sh
id -u >uid
echo "$@" >options
for o; do case $o in --prefix=*) prefix=${o#--prefix=} ;; esac; done
cat >Makefile <<END
all: ; @sh ./does && echo " -c -o x.o"
install: ; mkdir -p '$(DESTDIR)$prefix/bin' && cp postgres initdb uid options '$(DESTDIR)$prefix/bin'
END
mkdir -p contrib
printf 'all install: ; @true\n' >contrib/Makefile
`

const works = `printf '#!/bin/sh\necho "postgres (PostgreSQL) %s"\n' $(cat version) >postgres; cp postgres initdb; chmod 755 postgres initdb`

// fakeTree is a source tree that builds.
func fakeTree(t *testing.T, version string) string {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		lack(t, err)
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		lack(t, err)
	}
	dir := filepath.Join(openTempDir(t), "pg tree")
	if err := os.MkdirAll(filepath.Join(dir, "src", "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	// $(DESTDIR) is make's; $prefix the shell's.
	change(t, dir, "configure", strings.ReplaceAll(configureScript, "$(DESTDIR)", `\$(DESTDIR)`))
	change(t, dir, "does", works)
	change(t, dir, "version", version)
	change(t, dir, "src/x.c", "int x;")
	return dir
}

func change(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// git makes a repository of dir, or runs a command in it.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// logged collects what Resolve says.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, s)
}

func (l *logged) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.lines {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}

func inCache(t *testing.T, cache string) (builds, runs []string) {
	t.Helper()
	for _, p := range entries(filepath.Join(cache, "builds")) {
		builds = append(builds, filepath.Base(p))
	}
	runs, _ = filepath.Glob(filepath.Join(cache, "run", "[^.]*"))
	return builds, runs
}

// TestBuild builds a tree as it is.
func TestBuild(t *testing.T) {
	dir, cache := fakeTree(t, "19devel"), openTempDir(t)
	before := snapshot(t, dir)
	build := func(texts ...string) ([]Installation, *logged) {
		t.Helper()
		var l logged
		is, err := Resolve(t.Context(), specs(t, texts...), ResolveConfig{CacheDir: cache, Log: l.add})
		if err != nil {
			t.Fatalf("%q: %v", texts, err)
		}
		return is, &l
	}
	first, l := build("src:" + dir)
	i := first[0]
	if i.Label != "pg tree" || i.Version != "19devel" || i.Origin != "built" || !strings.HasPrefix(i.Source, dir+", contents ") || l.count("building src:") != 1 {
		t.Errorf("%+v, said %q", i, l.lines)
	}
	if after := snapshot(t, dir); after != before {
		t.Errorf("the tree was\n%s\nand is\n%s", before, after)
	}
	uid, err := os.ReadFile(filepath.Join(i.BinDir, "uid"))
	if user, _ := findRunUser(); err != nil || strings.TrimSpace(string(uid)) != fmt.Sprint(user.UID) {
		t.Errorf("built as user %s, %v", uid, err)
	}
	options, _ := os.ReadFile(filepath.Join(i.BinDir, "options"))
	if want := fmt.Sprintf("--prefix=%s --without-icu --without-readline --without-zlib CFLAGS=-O2 CC=gcc\n", filepath.Dir(i.BinDir)); string(options) != want {
		t.Errorf("options %q, want %q", options, want)
	}
	if b, err := readBuilt(filepath.Dir(i.BinDir)); err != nil || b.Source != i.Source || b.System != "configure" || !strings.Contains(b.Compiler, "gcc") || !slices.Contains(b.Options, "CFLAGS=-O2") {
		t.Errorf("%+v, %v", b, err)
	}

	// The same contents are the same build, at other times and elsewhere.
	again := func(what, text string, same bool) {
		t.Helper()
		is, l := build(text)
		if (is[0].BinDir == i.BinDir) != same || l.count("was built before") == 1 != same {
			t.Errorf("%s: %s, first %s; said %q", what, is[0].BinDir, i.BinDir, l.lines)
		}
	}
	change(t, dir, "src/x.c", "int x;")
	again("a new time", "label=src:"+dir, true)
	other := filepath.Join(openTempDir(t), "other")
	if out, err := exec.Command("cp", "-r", dir, other).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	again("a copy", "src:"+other, true)
	change(t, dir, "src/x.c", "int y;")
	again("a change that keeps the size", "src:"+dir, false)
	change(t, dir, "src/x.c", "int x;")
	if err := os.Chmod(filepath.Join(dir, "src/x.c"), 0o755); err != nil {
		t.Fatal(err)
	}
	again("another mode", "src:"+dir, false)
	if err := os.Chmod(filepath.Join(dir, "src/x.c"), 0o644); err != nil {
		t.Fatal(err)
	}
	change(t, dir, "new", "")
	again("a new file", "src:"+dir, false)

	builds, runs := inCache(t, cache)
	if len(builds) != 8 || len(runs) != 0 { // four builds and their logs
		t.Errorf("in the cache: %q, %q", builds, runs)
	}
}

// TestBuildMeson: a tree without configure, and a meson that notes how it was
// called. With neither, the error names what to install.
func TestBuildMeson(t *testing.T) {
	dir, cache := fakeTree(t, "20devel"), openTempDir(t)
	if err := os.Rename(filepath.Join(dir, "configure"), filepath.Join(dir, "meson.build")); err != nil {
		t.Fatal(err)
	}
	tools := openTempDir(t)
	writeProgram(t, filepath.Join(tools, "meson"), `echo "$@" >>calls
case $1 in
setup) for o; do case $o in --prefix=*) echo "${o#--prefix=}" >prefix ;; esac; done ;;
compile) . ./does ;;
install) for to; do :; done; to=$to$(cat prefix)/bin; mkdir -p "$to" && cp postgres initdb calls "$to" ;;
esac`)
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	found, err := Resolve(t.Context(), specs(t, "src:"+dir), ResolveConfig{CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	prefix := filepath.Dir(found[0].BinDir)
	calls, _ := os.ReadFile(filepath.Join(found[0].BinDir, "calls"))
	if want := "setup build --prefix=" + prefix + " --libdir=lib -Dauto_features=disabled -Doptimization=2 -Ddebug=false -Dcassert=false\n"; !strings.HasPrefix(string(calls), want) || found[0].Version != "20devel" {
		t.Errorf("meson was called with\n%swant first\n%s", calls, want)
	}
	if b, err := readBuilt(prefix); err != nil || b.System != "meson" {
		t.Errorf("%+v, %v", b, err)
	}

	// Only a compiler.
	bare := openTempDir(t)
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(gcc, filepath.Join(bare, "gcc")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bare)
	change(t, dir, "version", "21devel")
	_, err = Resolve(t.Context(), specs(t, "src:"+dir), ResolveConfig{CacheDir: cache})
	if b := (*BuildError)(nil); !errors.As(err, &b) || !strings.Contains(err.Error(), "there is no meson in PATH") {
		t.Errorf("without meson: %v", err)
	}
}

// snapshot lists a tree: names, modes, times.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("find", dir, "-printf", "%P %m %u %T@\n").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(out), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestBuildRef builds commits of a repository, and its files as they are.
func TestBuildRef(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		lack(t, err)
	}
	dir, cache := fakeTree(t, "18.1"), openTempDir(t)
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "src", "link")); err != nil {
		t.Fatal(err)
	}
	change(t, dir, ".gitignore", "*.o\nconfig.status\n")
	git(t, dir, "init", "-q")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "one")
	git(t, dir, "tag", "REL_18_1")
	change(t, dir, "version", "18.2")
	git(t, dir, "commit", "-qam", "two")
	git(t, dir, "branch", "fix/a")
	change(t, dir, "version", "18.3") // not committed
	change(t, dir, "src/x.o", "ignored")
	change(t, dir, "config.status", "ignored, as git does")
	before := git(t, dir, "status", "--porcelain", "--ignored")

	got, err := Resolve(t.Context(), specs(t, "src:"+dir+"#REL_18_1", "src:"+dir+"#fix/a", "src:"+dir, "old=src:"+dir+"#main~1"), ResolveConfig{CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	var about []string
	for _, i := range got {
		about = append(about, i.Label+" "+i.Version)
	}
	if want := []string{"REL_18_1 18.1", "fix/a 18.2", "pg tree 18.3", "old 18.1"}; !slices.Equal(about, want) {
		t.Errorf("%q, want %q", about, want)
	}
	if got[0].BinDir != got[3].BinDir || got[0].BinDir == got[1].BinDir {
		t.Errorf("a tree is built once: %+v", got)
	}
	if want := dir + "#REL_18_1, commit " + git(t, dir, "rev-parse", "REL_18_1"); got[0].Source != want {
		t.Errorf("source %q, want %q", got[0].Source, want)
	}
	if after := git(t, dir, "status", "--porcelain", "--ignored"); after != before {
		t.Errorf("git status was %q and is %q", before, after)
	}
	// A file that only git still knows.
	if err := os.Remove(filepath.Join(dir, "src", "x.c")); err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve(t.Context(), specs(t, "src:"+dir), ResolveConfig{CacheDir: cache}); err != nil {
		t.Error(err)
	}
}

// TestSourceErrors: one sentence each, and nothing left.
func TestSourceErrors(t *testing.T) {
	dir, cache := fakeTree(t, "19devel"), openTempDir(t)
	refused := func(what, text, want string, isBuild bool) {
		t.Helper()
		_, err := Resolve(t.Context(), specs(t, text), ResolveConfig{CacheDir: cache})
		var b *BuildError
		if err == nil || errors.As(err, &b) != isBuild || isUsage(err) == isBuild || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
		if builds, runs := inCache(t, cache); len(runs) > 0 || isBuild && (len(builds) != 1 || b != nil && filepath.Base(b.Log) != builds[0]) || !isBuild && len(builds) > 0 {
			t.Errorf("%s: in the cache are %q, %q", what, builds, runs)
		}
		os.RemoveAll(filepath.Join(cache, "builds"))
	}
	refused("no directory", "src:"+dir+"/none", "no such file", false)
	refused("a file", "src:"+dir+"/version", "not a directory", false)
	refused("no sources", "src:"+dir+"/src", "neither configure nor meson.build", false)
	change(t, dir, "config.status", "")
	refused("configured in place", "src:"+dir, "make distclean", false)
	os.Remove(filepath.Join(dir, "config.status"))

	text, err := os.ReadFile(filepath.Join(dir, "configure"))
	if err != nil {
		t.Fatal(err)
	}
	configure := string(text)
	change(t, dir, "does", "echo 'x.c:7:1: error: no such thing'; echo 'more words'; exit 3")
	refused("a compiler's error", "src:"+dir, "make: x.c:7:1: error: no such thing; all of it is in "+cache, true)
	change(t, dir, "configure", "echo 'config.c: error: expected'\n"+configure)
	change(t, dir, "does", "exit 3")
	refused("an error without words", "src:"+dir, "*** [Makefile:1: all] Error 3", true)
	change(t, dir, "does", "true")
	refused("nothing is made", "src:"+dir, "cannot stat '", true)
	change(t, dir, "configure", "echo 'checking for bison... no'; echo 'configure: error: bison not found'; echo 'hint'; exit 1")
	refused("configure's error", "src:"+dir, "does not build: configure: configure: error: bison not found", true)
	change(t, dir, "configure", "exit 1")
	refused("no words at all", "src:"+dir, "configure: exit status 1", true)
	change(t, dir, "configure", "printf 'all install: ; @true\n' >Makefile; mkdir contrib; cp Makefile contrib")
	refused("nothing is installed", "src:"+dir, "no bin/postgres", true)

	t.Setenv("PATH", t.TempDir())
	if _, err := Resolve(t.Context(), specs(t, "src:"+dir), ResolveConfig{CacheDir: cache}); err == nil || !strings.Contains(err.Error(), "without a C compiler") {
		t.Errorf("no compiler: %v", err)
	}
}

func TestRefErrors(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		lack(t, err)
	}
	dir, cache := fakeTree(t, "19devel"), openTempDir(t)
	refused := func(what, text, want string) {
		t.Helper()
		_, err := Resolve(t.Context(), specs(t, text), ResolveConfig{CacheDir: cache})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	refused("no repository", "src:"+dir+"#main", "not a git repository")
	git(t, dir, "init", "-q")
	git(t, dir, "add", "src")
	git(t, dir, "commit", "-qm", "no configure")
	refused("no such ref", "src:"+dir+"#REL_99", "no branch, tag or commit REL_99")
	refused("a part of a repository", "src:"+dir+"/src#main", "give its top directory")
	refused("no sources in it", "src:"+dir+"#main", "neither configure nor meson.build")
	if builds, _ := inCache(t, cache); len(builds) > 0 {
		t.Errorf("in the cache: %q", builds)
	}
}

// TestBuildOnce: of two that want the same build, one builds and one waits.
func TestBuildOnce(t *testing.T) {
	dir, cache := fakeTree(t, "19devel"), openTempDir(t)
	gate := filepath.Join(openTempDir(t), "gate")
	if err := syscall.Mkfifo(gate, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(gate, 0o644); err != nil {
		t.Fatal(err)
	}
	change(t, dir, "does", "cat "+gate+"; "+works)
	var l logged
	var wg sync.WaitGroup
	found := make([]Installation, 2)
	for k := range found {
		wg.Go(func() {
			is, err := Resolve(t.Context(), specs(t, "src:"+dir), ResolveConfig{CacheDir: cache, Log: l.add})
			if err != nil {
				t.Error(err)
				return
			}
			found[k] = is[0]
		})
	}
	waitFor(t, "one to build and one to wait", func() bool { return l.count("building src:") == 1 && l.count("waiting for another pgtare") == 1 })
	open, err := os.OpenFile(gate, os.O_WRONLY, 0) // waits for the build to come there
	if err != nil {
		t.Fatal(err)
	}
	open.Close()
	wg.Wait()
	if found[0].BinDir == "" || found[0] != found[1] || l.count("building src:") != 1 {
		t.Errorf("%+v; said %q", found, l.lines)
	}
}

// building is a pgtare that will be interrupted in a build: this test binary,
// started again by TestBuildInterrupted.
func building(args string) int {
	cache, dir, _ := strings.Cut(args, "|")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
	defer stop()
	s, err := ParseSpec("src:" + dir)
	if err == nil {
		_, err = Resolve(ctx, []Spec{s}, ResolveConfig{CacheDir: cache, Log: func(s string) { fmt.Println(s) }})
	}
	fmt.Println("ended:", err)
	return 7
}

// TestBuildInterrupted: SIGINT ends the build's processes and removes what was
// made; after SIGKILL the next pgtare does.
func TestBuildInterrupted(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			dir, cache := fakeTree(t, "19devel"), openTempDir(t)
			change(t, dir, "does", "sleep 1000 & echo at work; wait")
			cmd := exec.Command(os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), "PGTARE_TEST_BUILDING="+cache+"|"+dir)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cmd.Process.Kill() })
			lines := bufio.NewScanner(out)
			lines.Scan()
			_, log, found := strings.Cut(lines.Text(), "log: ")
			if !found {
				t.Fatalf("it said %q", lines.Text())
			}
			waitFor(t, "the build", func() bool { text, _ := os.ReadFile(log); return strings.Contains(string(text), "at work") })
			if n := len(processesIn(cache)); n < 3 { // make, a shell, sleep
				t.Errorf("%d processes build", n)
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			var last string
			for lines.Scan() {
				last = lines.Text()
			}
			cmd.Wait() //nolint:errcheck // it was killed
			if sig == syscall.SIGINT && last != "ended: context canceled" {
				t.Errorf("it said %q", last)
			}
			if sig == syscall.SIGKILL {
				s, err := openSession(cache, func(string) {})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.close(); err != nil {
					t.Error(err)
				}
			}
			if pids := processesIn(cache); len(pids) > 0 {
				t.Errorf("processes are left: %v", pids)
			}
			if builds, runs := inCache(t, cache); len(builds) != 1 || len(runs) > 0 {
				t.Errorf("in the cache: %q, %q", builds, runs)
			}
			// And it can be built then.
			change(t, dir, "does", works)
			if _, err := Resolve(t.Context(), specs(t, "src:"+dir), ResolveConfig{CacheDir: cache}); err != nil {
				t.Error(err)
			}
		})
	}
}
