package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Installation is PostgreSQL on this machine that has been seen to run, or a
// server that has been seen to answer.
type Installation struct {
	Label      string // unique within a matrix: the user's, else the version
	BinDir     string // holds postgres and initdb; "" for an attached server
	Origin     string // debian, rpm, ... (as in find.go), path, npm, built, directory, attached
	Version    string // "18.4", "19devel"
	VersionNum int    // as server_version_num: 180004
	Conninfo   string // of an attached server, with its secrets
	Source     string // of one that pgtare built: the tree, and the commit of a ref
}

// ResolveConfig says where Resolve looks and keeps things.
type ResolveConfig struct {
	CacheDir string       // "" as in ManagerConfig
	Root     string       // what is searched instead of /, for installations that are not named; "": /
	Log      func(string) // a sentence per noteworthy step; nil: none
}

// Resolve finds what the specs name. Default is the newest local installation,
// else the newest that can be fetched. Majors and versions come from one
// origin, because builds differ more than versions do: all from one local
// origin where one has them all, else all fetched. Source trees are built, the
// last of all, unless that has been done before.
//
// Errors: *UsageError for a version that does not exist, a directory without
// PostgreSQL or two servers of one label; *UnavailableError where no
// PostgreSQL can be had; *BuildError for a tree that doesn't build; and
// failures.
func Resolve(ctx context.Context, specs []Spec, cfg ResolveConfig) ([]Installation, error) {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name()
	}
	if err := CheckNames(specs, names); err != nil {
		return nil, err
	}
	r, err := newResolver(cfg)
	if err != nil {
		return nil, err
	}
	defer r.fork.close()
	out := make([]Installation, len(specs))
	var bare []int
	trees := map[int]*tree{}
	for i, s := range specs {
		switch s.Kind {
		case Default, Major, Version:
			bare = append(bare, i)
		case Directory:
			out[i], err = r.directory(ctx, s)
		case Source:
			trees[i], err = r.tree(ctx, s)
		case Conninfo:
			out[i], err = r.attached(ctx, s)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(bare) > 0 {
		var names []Spec
		for _, i := range bare {
			names = append(names, specs[i])
		}
		found, err := r.bare(ctx, names)
		if err != nil {
			return nil, err
		}
		for k, i := range bare {
			out[i] = found[k]
		}
	}
	for i, s := range specs {
		if t := trees[i]; t != nil {
			if out[i], err = r.build(ctx, t); err != nil {
				return nil, err
			}
			out[i].Label = s.Name()
		}
		names[i] = out[i].Label
	}
	return out, CheckNames(specs, names)
}

// CheckNames refuses two servers of one name; "" is no name yet.
func CheckNames(specs []Spec, names []string) error {
	for i := range names {
		for k := range i {
			if names[i] != "" && names[k] == names[i] {
				return usagef("--server %s and --server %s would both be called %s in the table; name one: label=DIRECTORY", specs[k], specs[i], names[i])
			}
		}
	}
	return nil
}

// resolver is one search for installations.
type resolver struct {
	cfg    ResolveConfig
	user   runUser
	fork   *forker
	asked  string // who asks, for messages: --server or servers fetch
	newest bool   // of a fetched major the newest, though an older one is here

	offered []packaged // by npm; nil: not asked yet
}

// newResolver makes a resolver, whose fork the caller must close.
func newResolver(cfg ResolveConfig) (*resolver, error) {
	if cfg.Log == nil {
		cfg.Log = func(string) {}
	}
	user, err := findRunUser()
	if err != nil {
		return nil, err
	}
	return &resolver{cfg: cfg, user: user, fork: newForker(), asked: "--server"}, nil
}

// bare resolves defaults, majors and versions from one origin.
func (r *resolver) bare(ctx context.Context, names []Spec) ([]Installation, error) {
	local, left := r.local(ctx)
	for _, l := range left {
		r.cfg.Log(l.String())
	}
	if found, ok := fromOneOrigin(local, names); ok {
		for _, i := range found {
			r.cfg.Log(fmt.Sprintf("PostgreSQL %s from %s", i.Version, i.BinDir))
		}
		return found, nil
	}
	found, err := r.fetchAll(ctx, names)
	if err != nil {
		if u := (*UnavailableError)(nil); errors.As(err, &u) && len(local) > 0 {
			var have []string
			for _, i := range local {
				have = append(have, i.Version+" ("+i.BinDir+")")
			}
			return nil, unavailablef("%s\nThis machine has: %s.", u.Text, strings.Join(have, ", "))
		}
		return nil, err
	}
	return found, nil
}

// fromOneOrigin picks from local, which is sorted by preference, what names
// ask for, all from the first origin that has it all.
func fromOneOrigin(local []Installation, names []Spec) ([]Installation, bool) {
	var origins []string
	for _, i := range local {
		if !slices.Contains(origins, i.Origin) {
			origins = append(origins, i.Origin)
		}
	}
	// The default alone is the newest of all origins.
	if len(names) == 1 && names[0].Kind == Default && len(local) > 0 {
		return []Installation{newest(local)}, true
	}
	for _, o := range origins {
		var found []Installation
		for _, n := range names {
			fits := slices.DeleteFunc(slices.Clone(local), func(i Installation) bool { return i.Origin != o || !n.fits(i.Version) })
			if len(fits) == 0 {
				break
			}
			found = append(found, newest(fits))
		}
		if len(found) == len(names) {
			return found, true
		}
	}
	return nil, false
}

// newest returns the highest version; of equals the first.
func newest(is []Installation) Installation {
	best := is[0]
	for _, i := range is {
		if i.VersionNum > best.VersionNum {
			best = i
		}
	}
	return best
}

// fits reports whether a version is what the spec asks for.
func (s Spec) fits(version string) bool {
	switch s.Kind {
	case Default:
		return true
	case Major:
		major, _, _ := strings.Cut(version, ".")
		return major == s.Text
	default:
		return version == s.Text
	}
}

// directory resolves a directory of the user's: an install prefix, its bin, or
// a file in that (postgres, pg_config).
func (r *resolver) directory(ctx context.Context, s Spec) (Installation, error) {
	dir, err := filepath.Abs(s.Text)
	if err != nil {
		return Installation{}, fmt.Errorf("--server %s: %w", s, err)
	}
	st, err := os.Stat(dir)
	if err != nil {
		return Installation{}, usagef("--server %s: %v", s, err)
	}
	tries := []string{filepath.Join(dir, "bin"), dir}
	if !st.IsDir() {
		tries = []string{filepath.Dir(dir)}
		if filepath.Base(dir) == "pg_config" {
			if bin := r.pgConfigBinDir(ctx, dir); bin != "" {
				tries = []string{bin}
			}
		}
	}
	for _, t := range tries {
		bin, ok := binDir(t)
		if !ok {
			continue
		}
		i, err := r.verify(ctx, bin, "directory")
		if err != nil {
			return Installation{}, fmt.Errorf("--server %s: %w", s, err)
		}
		if i.VersionNum/10000 < oldest {
			return Installation{}, usagef("--server %s: that is PostgreSQL %s; pgtare runs %d and later", s, i.Version, oldest)
		}
		if s.Label != "" {
			i.Label = s.Label
		}
		return i, nil
	}
	return Installation{}, usagef("--server %s: no postgres with initdb beside it, neither there nor in its bin; give the prefix that \"make install\" installed to", s)
}

var postgresVersion = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)(?:\.(\d+))?(\S*)`)

// verify runs bin/postgres --version as the user that servers run as.
func (r *resolver) verify(ctx context.Context, bin, origin string) (Installation, error) {
	path := filepath.Join(bin, "postgres")
	stdout, stderr, err := r.tell(ctx, childEnv(), path, "--version")
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return Installation{}, usagef("%s does not run as user %s (%v): %s", path, r.user.Name, err, tail(stderr, 5))
	}
	if err != nil {
		return Installation{}, err
	}
	m := postgresVersion.FindStringSubmatch(stdout)
	if m == nil {
		return Installation{}, usagef("%s --version said %q, which is not PostgreSQL", path, tail(stdout, 1))
	}
	i := Installation{BinDir: bin, Origin: origin, Version: m[1], VersionNum: atoi(m[1])*10000 + atoi(m[2])}
	if m[2] != "" {
		i.Version += "." + m[2]
	}
	i.Version += m[3] // 19devel, 19beta1
	i.Label = i.Version
	return i, nil
}

// tell runs a program that somebody named, or that was found in PATH, to hear
// what it says of itself: as the user that servers run as, whatever it may be.
// A program that fails gives an *exec.ExitError.
func (r *resolver) tell(ctx context.Context, env []string, path, option string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, option)
	cmd.Dir, cmd.Env = "/", env
	cmd.SysProcAttr = r.user.attr(syscall.SIGKILL)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := r.fork.start(cmd); err != nil {
		return "", "", r.user.startError(path, err)
	}
	if err = cmd.Wait(); ctx.Err() != nil {
		err = ctx.Err()
	}
	return out.String(), said.String(), err
}

// attachPatience is how long a running server may take to answer at first.
const attachPatience = 30 * time.Second

// attached asks a running server for its version.
func (r *resolver) attached(ctx context.Context, s Spec) (Installation, error) {
	i := Installation{Label: s.Label, Origin: "attached", Conninfo: s.Text}
	cfg, err := attachedConfig(s.Text)
	if err != nil {
		return i, fmt.Errorf("--server %s: %w", s.masked, err)
	}
	ctx, cancel := context.WithTimeout(ctx, max(attachPatience, cfg.ConnectTimeout))
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return i, noConnection(ctx, s.masked, cfg, err)
	}
	defer closeConn(conn)
	rows, err := query(ctx, conn, "SELECT current_setting('server_version'), current_setting('server_version_num')")
	if err != nil {
		return i, fmt.Errorf("--server %s: ask for its version: %w", s.masked, err)
	}
	i.Version, i.VersionNum = bareVersion(rows[0][0]), atoi(rows[0][1])
	if i.VersionNum < oldest*10000 {
		return i, usagef("--server %s: that is PostgreSQL %s; pgtare measures %d and later", s.masked, i.Version, oldest)
	}
	if i.Label == "" {
		i.Label = i.Version
	}
	return i, nil
}
