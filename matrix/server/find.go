package server

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// packagers are where packagers put PostgreSQL, in the order in which they are
// preferred as the one origin of several versions: what a production server
// would run first, builds of one's own last.
var packagers = []struct{ origin, pattern string }{
	{"debian", "/usr/lib/postgresql/*/bin"}, // Debian, Ubuntu; PGDG's for them
	{"rpm", "/usr/pgsql-*/bin"},             // PGDG's for RHEL, Fedora, SUSE
	// The distribution's own. Where it has several at once, they carry the
	// major in the directory's name.
	{"distribution", "/usr/bin"},                      // Fedora, RHEL, Arch
	{"distribution", "/usr/lib/postgresql[0-9]*/bin"}, // SUSE
	{"distribution", "/usr/libexec/postgresql[0-9]*"}, // Alpine
	{"distribution", "/usr/lib64/postgresql-*/bin"},   // Gentoo
	{"homebrew", "/opt/homebrew/opt/postgresql*/bin"},
	{"homebrew", "/usr/local/opt/postgresql*/bin"},
	{"homebrew", "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin"},
	{"edb", "/opt/PostgreSQL/*/bin"},
	{"edb", "/Library/PostgreSQL/*/bin"},
	{"postgres.app", "/Applications/Postgres.app/Contents/Versions/*/bin"},
	{"source", "/usr/local/pgsql/bin"}, // where "make install" puts it
}

// managers are programs with which a user keeps several versions, built by
// themselves: below the first of these variables that is set, else below the
// home directory.
var managers = []struct {
	origin    string
	variables []managedBy
	home      string
	pattern   string
}{
	{"pgenv", []managedBy{{"PGENV_ROOT", ""}}, ".pgenv", "/pgsql-*/bin"},
	{"asdf", []managedBy{{"ASDF_DATA_DIR", ""}}, ".asdf", "/installs/postgres/*/bin"},
	{"mise", []managedBy{{"MISE_DATA_DIR", ""}, {"XDG_DATA_HOME", "mise"}}, ".local/share/mise", "/installs/postgres/*/bin"},
}

type managedBy struct{ variable, below string }

// skipped is PostgreSQL that was found and can't be used.
type skipped struct{ Dir, Why string }

func (s skipped) String() string { return fmt.Sprintf("left out %s: %s", s.Dir, s.Why) }

// local returns the installations of this machine that run, by preference, and
// those that don't or are too old.
func (r *resolver) local(ctx context.Context) (found []Installation, left []skipped) {
	var seen []string
	for _, p := range r.candidates(ctx) {
		bin, ok := binDir(p.dir)
		if !ok || slices.Contains(seen, bin) {
			continue
		}
		seen = append(seen, bin)
		i, err := r.verify(ctx, bin, p.origin)
		switch {
		case err != nil:
			left = append(left, skipped{bin, err.Error()})
		case i.VersionNum/10000 < oldest:
			left = append(left, skipped{bin, fmt.Sprintf("PostgreSQL %s; pgtare runs %d and later", i.Version, oldest)})
		default:
			found = append(found, i)
		}
	}
	return found, left
}

type candidate struct{ dir, origin string }

// candidates are the directories that may hold postgres.
func (r *resolver) candidates(ctx context.Context) (list []candidate) {
	root := cmp.Or(r.cfg.Root, "/")
	glob := func(origin, dir, pattern string) {
		dirs, _ := filepath.Glob(quotePattern(filepath.Join(root, dir)) + pattern)
		for _, d := range dirs {
			list = append(list, candidate{d, origin})
		}
	}
	for _, p := range packagers {
		glob(p.origin, "", p.pattern)
	}
	home, _ := os.UserHomeDir()
	for _, m := range managers {
		dir := ""
		if home != "" {
			dir = filepath.Join(home, m.home)
		}
		for _, v := range slices.Backward(m.variables) {
			if set := os.Getenv(v.variable); filepath.IsAbs(set) {
				dir = filepath.Join(set, v.below)
			}
		}
		if dir != "" {
			glob(m.origin, dir, m.pattern)
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		// Shims are the managers' scripts, which choose a version by the
		// working directory.
		if !filepath.IsAbs(dir) || filepath.Base(dir) == "shims" {
			continue
		}
		dir = filepath.Join(root, dir)
		list = append(list, candidate{dir, "path"})
		if bin := r.pgConfigBinDir(ctx, filepath.Join(dir, "pg_config")); bin != "" {
			list = append(list, candidate{filepath.Join(root, bin), "path"})
		}
	}
	return list
}

// quotePattern makes a path stand for itself in a pattern of filepath.Glob;
// "/" becomes "", since the pattern begins with it.
func quotePattern(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(strings.TrimSuffix(path, "/"))
}

// pgConfigBinDir asks a pg_config where its server is; "" where it isn't said.
func (r *resolver) pgConfigBinDir(ctx context.Context, path string) string {
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	out, _, err := r.tell(ctx, childEnv(), path, "--bindir")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// binDir returns the real directory of the postgres in dir, if initdb is with
// it.
func binDir(dir string) (string, bool) {
	real, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil {
		return "", false
	}
	bin := filepath.Dir(real)
	if st, err := os.Stat(filepath.Join(bin, "initdb")); err != nil || st.IsDir() {
		return "", false
	}
	return bin, true
}
