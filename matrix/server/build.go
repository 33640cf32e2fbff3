package server

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pgtare/matrix/host"
)

// Every tree is built with these options and no others, so that what differs
// between two builds is the tree: a release build, without debugging symbols
// and assertions, that needs nothing of a machine but a compiler, make, perl,
// bison and flex. The user's CC, CFLAGS and the like are not passed on.
var (
	configureOptions = []string{"--without-icu", "--without-readline", "--without-zlib", "CFLAGS=-O2"}
	// For trees without configure.
	mesonOptions = []string{"-Dauto_features=disabled", "-Doptimization=2", "-Ddebug=false", "-Dcassert=false"}
)

// BuildOptions says with which options source trees are built.
func BuildOptions() string { return "configure " + strings.Join(configureOptions, " ") }

// BuildError means that a source tree doesn't build.
type BuildError struct {
	Asked string // what was: "--server src:..."
	Step  string // "make"
	Line  string // what the log says about it
	Log   string // the file with everything that was said
}

func (e *BuildError) Error() string {
	return fmt.Sprintf("%s does not build: %s: %s; all of it is in %s", e.Asked, e.Step, e.Line, e.Log)
}

// built is what is kept beside the files of a build, in buildFacts.
type built struct {
	Source   string   `json:"source"` // the tree, and the commit of a ref
	Tree     string   `json:"tree"`   // its hash: git's, or that of the files
	System   string   `json:"system"` // configure or meson
	Options  []string `json:"options"`
	Compiler string   `json:"compiler"`
}

const buildFacts = "pgtare-build.json"

// build returns the installation of a tree, built now or before:
// CACHE/builds/KEY, with the log in KEY.log. Everything is made in a session
// directory and moved when it is whole, so that a kill leaves nothing that
// looks complete.
func (r *resolver) build(ctx context.Context, t *tree) (Installation, error) {
	cache, err := cacheDir(r.cfg.CacheDir)
	if err != nil {
		return Installation{}, err
	}
	b := &builder{resolver: r, tree: t}
	if b.compiler, b.version, err = r.compiler(ctx); err != nil {
		return Installation{}, err
	}
	b.final = filepath.Join(cache, "builds", b.key())
	if _, err := os.Stat(b.final); err != nil {
		if err := b.once(ctx, cache); err != nil {
			return Installation{}, err
		}
	} else {
		r.cfg.Log(fmt.Sprintf("%s was built before: %s", t.spec, b.final))
	}
	i, err := r.verify(ctx, filepath.Join(b.final, "bin"), "built")
	if err != nil {
		return i, fmt.Errorf("%s, which was built in %s (remove that to build it anew): %w", t.asked, b.final, err)
	}
	if i.VersionNum/10000 < oldest {
		return i, usagef("%s: that is PostgreSQL %s; pgtare runs %d and later", t.asked, i.Version, oldest)
	}
	i.Source = t.source
	return i, nil
}

// compiler returns the C compiler's command and the first line that it says
// of itself.
func (r *resolver) compiler(ctx context.Context) (command, version string, err error) {
	for _, command := range []string{"gcc", "cc"} {
		path, err := exec.LookPath(command)
		if err != nil {
			continue
		}
		out, _, err := r.tell(ctx, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}, path, "--version")
		if err != nil {
			return "", "", fmt.Errorf("ask %s for its version: %w", path, err)
		}
		line, _, _ := strings.Cut(out, "\n")
		return command, line, nil
	}
	return "", "", unavailablef("a source tree can't be built without a C compiler (gcc or cc) in PATH; install one (Debian: apt-get install build-essential bison flex)")
}

// builder makes one build.
type builder struct {
	*resolver
	tree              *tree
	compiler, version string // command and first line of --version
	final             string // where the build will be
	log               *buildLog
	env               []string
}

// key names all that a build depends on: the tree, the options, the compiler.
func (b *builder) key() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q", b.tree.id, configureOptions, mesonOptions, b.compiler, b.version)
	return hex.EncodeToString(h.Sum(nil))[:20]
}

// once builds, or waits for another pgtare that builds the same. The log is
// the lock: it is kept in any case.
func (b *builder) once(ctx context.Context, cache string) (err error) {
	name := b.final + ".log"
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("begin the log of a build: %w", err)
	}
	defer f.Close()
	for waiting := false; host.Lock(f, unix.LOCK_EX|unix.LOCK_NB) != nil; waiting = true {
		if !waiting {
			b.cfg.Log(fmt.Sprintf("waiting for another pgtare that builds %s", b.tree.spec))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	if _, err := os.Stat(b.final); err == nil {
		return nil
	}
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("begin the log of a build: %w", err)
	}
	s, err := openSession(cache, b.cfg.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	b.log = &buildLog{f: f, name: b.tree.spec.String(), say: b.cfg.Log, began: time.Now()}
	b.cfg.Log(fmt.Sprintf("building %s, which takes minutes; log: %s", b.tree.spec, name))
	if err := b.make(ctx, s.dir); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	b.cfg.Log(fmt.Sprintf("built %s: %s", b.tree.spec, b.final))
	return nil
}

// make builds inside dir and moves the result to where it belongs.
func (b *builder) make(ctx context.Context, dir string) error {
	src, tmp, dest := filepath.Join(dir, "tree"), filepath.Join(dir, "tmp"), filepath.Join(dir, "dest")
	for _, d := range []string{src, tmp, dest} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return fmt.Errorf("prepare a build: %w", err)
		}
		if err := b.user.give(d); err != nil {
			return fmt.Errorf("prepare a build: %w", err)
		}
	}
	if err := b.tree.copyTo(ctx, b.resolver, src); err != nil {
		return err
	}
	b.env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + tmp, "TMPDIR=" + tmp}
	facts := built{Source: b.tree.source, Tree: b.tree.id, Compiler: b.version}
	jobs := "-j" + strconv.Itoa(runtime.GOMAXPROCS(0))
	var steps [][]string
	if exists(filepath.Join(src, "configure")) {
		facts.System, facts.Options = "configure", append(configureOptions[:len(configureOptions):len(configureOptions)], "CC="+b.compiler)
		steps = [][]string{
			append([]string{"sh", "./configure", "--prefix=" + b.final}, facts.Options...),
			{"make", jobs}, {"make", jobs, "-C", "contrib"},
			{"make", "install", "DESTDIR=" + dest}, {"make", "-C", "contrib", "install", "DESTDIR=" + dest},
		}
	} else {
		facts.System, facts.Options = "meson", mesonOptions
		b.env = append(b.env, "CC="+b.compiler)
		steps = [][]string{
			append([]string{"meson", "setup", "build", "--prefix=" + b.final, "--libdir=lib"}, facts.Options...),
			{"meson", "compile", "-C", "build", jobs},
			{"meson", "install", "-C", "build", "--no-rebuild", "--destdir", dest},
		}
	}
	for _, argv := range steps {
		if err := b.step(ctx, src, argv); err != nil {
			return err
		}
	}
	made := filepath.Join(dest, b.final)
	if _, ok := binDir(filepath.Join(made, "bin")); !ok {
		return b.failed("install", "no bin/postgres with initdb beside it was installed")
	}
	text, err := json.MarshalIndent(facts, "", "  ")
	if err != nil {
		return fmt.Errorf("describe a build: %w", err)
	}
	if err := writeBelow(dest, filepath.Join(b.final, buildFacts), append(text, '\n')); err != nil {
		return fmt.Errorf("describe a build: %w", err)
	}
	if err := keep(made, b.final); err != nil {
		return fmt.Errorf("keep a build: %w", err)
	}
	return nil
}

// keep moves a directory that is whole to where it will be taken for that. Its
// files are on disk by then: a name that outlives a power cut without the
// contents would be a build of empty files for ever.
func keep(dir, final string) error {
	if err := syncFiles(dir); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return os.Rename(dir, final)
}

// writeBelow makes a file below dir, and never elsewhere: the scripts of a tree
// could have left a link there, and root would follow it.
func writeBelow(dir, path string, text []byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.OpenFile(strings.TrimPrefix(path, "/"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// step runs one command of a build in dir, as the user that servers run as:
// whatever a tree's scripts do, they do it without root's rights.
func (b *builder) step(ctx context.Context, dir string, argv []string) error {
	before, err := b.log.f.Stat()
	if err != nil {
		return fmt.Errorf("write %s: %w", b.log.f.Name(), err)
	}
	if _, err := fmt.Fprintf(b.log.f, "$ %s\n", strings.Join(argv, " ")); err != nil {
		return fmt.Errorf("write %s: %w", b.log.f.Name(), err)
	}
	b.log.step = argv[0]
	if argv[0] == "sh" {
		b.log.step = "configure"
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return b.failed(b.log.step, fmt.Sprintf("there is no %s in PATH (Debian: apt-get install build-essential bison flex; without configure, meson)", argv[0]))
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Dir, cmd.Env = dir, b.env
	// make ends its children when it is told to end; SIGKILL would leave
	// compilers behind.
	cmd.SysProcAttr = b.user.attr(syscall.SIGTERM)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdout, cmd.Stderr = b.log, b.log
	if err := b.fork.start(cmd); err != nil {
		return fmt.Errorf("start %s as user %s: %w", path, b.user.Name, err)
	}
	if err := cmd.Wait(); err != nil {
		if b.log.err != nil {
			return fmt.Errorf("write %s: %w", b.log.f.Name(), b.log.err)
		}
		return b.failed(b.log.step, cmp.Or(tellingLine(b.log.f.Name(), before.Size()), err.Error()))
	}
	return nil
}

func (b *builder) failed(step, line string) error {
	return &BuildError{Asked: b.tree.asked, Step: step, Line: line, Log: b.log.f.Name()}
}

// buildLog writes a build's output to its log and says from time to time how
// far it is.
type buildLog struct {
	f     *os.File
	err   error
	name  string
	step  string
	say   func(string)
	began time.Time
	said  time.Duration // after began
	n     int           // files compiled
}

func (l *buildLog) Write(p []byte) (int, error) {
	l.n += bytes.Count(p, []byte(" -c ")) + bytes.Count(p, []byte("Compiling C object"))
	if age := time.Since(l.began); age-l.said >= 15*time.Second {
		l.said = age
		l.say(fmt.Sprintf("building %s: %s, %d files compiled in %v", l.name, l.step, l.n, age.Round(time.Second)))
	}
	n, err := l.f.Write(p)
	if err != nil && l.err == nil {
		l.err = err
	}
	return n, err
}

// Lines that tell why a build failed, the best first: what a compiler, a
// linker or configure says, then what make says about that.
var telling = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(fatal )?error:|undefined reference|: cannot |No such file or directory|: (command )?not found`),
	regexp.MustCompile(`\*\*\*`),
	regexp.MustCompile(`\S`),
}

// tellingLine returns the last line of a log that tells most, of what is there
// from a byte on, shortened; "" if there is none.
func tellingLine(path string, from int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const enough = 256 << 10 // of parallel jobs, what came after the error
	if st, err := f.Stat(); err == nil {
		from = max(from, st.Size()-enough)
	}
	f.Seek(from, io.SeekStart) //nolint:errcheck // then it reads from the start
	last := make([]string, len(telling))
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadString('\n')
		line = strings.TrimSpace(line)
		for i, t := range telling {
			if t.MatchString(line) && !strings.HasPrefix(line, "$ ") {
				last[i] = line
			}
		}
		if err != nil {
			break
		}
	}
	line := cmp.Or(last...)
	if len(line) > 300 {
		line = strings.ToValidUTF8(line[:300], "") + " ..."
	}
	return line
}

// readBuilt returns what is known of the build in dir.
func readBuilt(dir string) (b built, err error) {
	text, err := os.ReadFile(filepath.Join(dir, buildFacts))
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	return b, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
