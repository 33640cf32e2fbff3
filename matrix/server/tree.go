package server

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// tree is a source tree that is to be built: a git commit, or files as they
// are.
type tree struct {
	spec   Spec
	asked  string   // flag or verb and spec, for messages
	dir    string   // absolute
	commit string   // "": the files as they are
	files  []string // of a tree without commit, relative to dir, sorted
	id     string   // hash of all that is in it
	source string   // for people: the directory, and the commit or part of the hash
}

// tree looks at a source tree. Nothing is ever written into it: what is built
// is a copy.
//
// Files are known by their contents. Their times are no key: a checkout gives
// new times to the same contents, and a copy that keeps times can hide a
// change. It takes half a second for a whole PostgreSQL, and makes clones of
// one tree share a build.
//
// Note: building outside of the tree (VPATH) would not copy it, but make finds
// what was built inside the tree before, with other options, and takes that.
func (r *resolver) tree(ctx context.Context, s Spec) (*tree, error) {
	t := &tree{spec: s, asked: r.asked + " " + s.String()}
	dir := s.Text
	// A shell leaves a ~ behind src: as it is.
	if rest, ok := strings.CutPrefix(dir, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, usagef("%s: %v; write the directory without ~", t.asked, err)
		}
		dir = filepath.Join(home, rest)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.asked, err)
	}
	if st, err := os.Stat(dir); err != nil {
		return nil, usagef("%s: %v; give the top directory of a PostgreSQL source tree", t.asked, err)
	} else if !st.IsDir() {
		return nil, usagef("%s: not a directory; give the top directory of a PostgreSQL source tree", t.asked)
	}
	t.dir = dir
	if s.Ref != "" {
		return t, t.readCommit(ctx, r)
	}
	return t, t.readFiles(ctx, r)
}

// notSource is what to say where neither build system is.
func (t *tree) notSource() error {
	return usagef("%s: neither configure nor meson.build is there; give the top directory of a PostgreSQL source tree", t.asked)
}

// readCommit finds what a ref is.
func (t *tree) readCommit(ctx context.Context, r *resolver) error {
	up, err := t.git(ctx, r, "rev-parse", "--show-cdup")
	if err != nil {
		return err
	}
	if len(up) > 0 {
		return usagef("%s: that is inside a git repository; give its top directory: %s", t.asked, filepath.Join(t.dir, up))
	}
	if t.commit, err = t.git(ctx, r, "rev-parse", "--verify", "--quiet", "--end-of-options", t.spec.Ref+"^{commit}"); err != nil {
		var failed *gitError
		if errors.As(err, &failed) && failed.words == "" {
			return usagef("%s: the repository has no branch, tag or commit %s; see git branch -a and git tag there", t.asked, t.spec.Ref)
		}
		return err
	}
	if t.id, err = t.git(ctx, r, "rev-parse", t.commit+"^{tree}"); err != nil {
		return err
	}
	top, err := t.git(ctx, r, "ls-tree", "--name-only", t.commit)
	if err != nil {
		return err
	}
	names := strings.Split(top, "\n")
	if !slices.Contains(names, "configure") && !slices.Contains(names, "meson.build") {
		return t.notSource()
	}
	t.source = fmt.Sprintf("%s#%s, commit %s", t.dir, t.spec.Ref, t.commit)
	return nil
}

// readFiles lists the files and hashes them. In a git repository they are
// those that git tracks or would add; elsewhere all.
func (t *tree) readFiles(ctx context.Context, r *resolver) error {
	if !exists(filepath.Join(t.dir, "configure")) && !exists(filepath.Join(t.dir, "meson.build")) {
		return t.notSource()
	}
	if exists(filepath.Join(t.dir, ".git")) {
		list, err := t.git(ctx, r, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
		if err != nil {
			return err
		}
		t.files = strings.FieldsFunc(list, func(c rune) bool { return c == 0 })
	} else {
		// What was built there can't be told from the sources.
		if exists(filepath.Join(t.dir, "config.status")) {
			return usagef("%s: that tree was configured in place; run make distclean there, or install that build and give its directory", t.asked)
		}
		err := filepath.WalkDir(t.dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				t.files = append(t.files, strings.TrimPrefix(path, t.dir+"/"))
			}
			return err
		})
		if err != nil {
			return usagef("%s: %v", t.asked, err)
		}
	}
	slices.Sort(t.files)
	t.files = slices.Compact(t.files) // git lists a conflict's versions
	var err error
	if t.id, err = t.read(ctx, nil); err != nil {
		return err
	}
	t.source = fmt.Sprintf("%s, contents %s", t.dir, t.id[:12])
	return nil
}

// read hashes names, modes and contents of the files and hands each to put,
// which may be nil: then nothing is copied.
func (t *tree) read(ctx context.Context, put func(name string, st fs.FileInfo, content io.Reader) error) (string, error) {
	h := sha256.New()
	one := func(name string) error {
		path := filepath.Join(t.dir, name)
		st, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // git still tracks it
		}
		if err != nil {
			return err
		}
		var content io.Reader
		switch st.Mode().Type() {
		case 0:
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			content = f
		case fs.ModeSymlink:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			content = strings.NewReader(to)
		default:
			return nil // a directory that git knows as a repository of its own; a socket
		}
		of := sha256.New()
		content = io.TeeReader(content, of)
		if put == nil {
			_, err = io.Copy(io.Discard, content)
		} else {
			err = put(name, st, content)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %v %v %x\n", name, st.Mode().Type(), st.Mode()&0o100 != 0, of.Sum(nil))
		return nil
	}
	for _, name := range t.files {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if err := one(name); err != nil {
			return "", usagef("%s: %v", t.asked, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// copyTo puts the tree into the directory dst, for the user that builds it.
func (t *tree) copyTo(ctx context.Context, r *resolver, dst string) (err error) {
	root, err := os.OpenRoot(dst)
	if err != nil {
		return fmt.Errorf("copy %s: %w", t.spec, err)
	}
	defer root.Close()
	w := &treeWriter{root: root, owner: r.user, made: map[string]bool{".": true}}
	if t.commit != "" {
		return t.unpackCommit(ctx, r, w)
	}
	id, err := t.read(ctx, func(name string, st fs.FileInfo, content io.Reader) error {
		return w.put(name, st.Mode(), st.ModTime(), content)
	})
	if err == nil && id != t.id {
		err = fmt.Errorf("%s: the tree was changed while it was read; try again", t.asked)
	}
	return err
}

// unpackCommit has git archive the commit.
func (t *tree) unpackCommit(ctx context.Context, r *resolver, w *treeWriter) error {
	cmd, stderr := t.gitCommand(ctx, r, "archive", "--format=tar", t.commit)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("git archive of %s: %w", t.spec, err)
	}
	if err := r.fork.start(cmd); err != nil {
		return fmt.Errorf("start git: %w", err)
	}
	err = func() error {
		for files := tar.NewReader(out); ; {
			h, err := files.Next()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			content := io.Reader(files)
			switch h.Typeflag {
			case tar.TypeReg:
			case tar.TypeSymlink:
				content = strings.NewReader(h.Linkname)
			default:
				continue // directories come with their files
			}
			if err := w.put(filepath.Clean(h.Name), h.FileInfo().Mode(), h.ModTime, content); err != nil {
				return err
			}
		}
	}()
	io.Copy(io.Discard, out) //nolint:errcheck // git must not wait for a reader
	if failed := cmd.Wait(); failed != nil {
		return gitFailed(ctx, t.asked, stderr.String(), failed)
	}
	if err != nil {
		return fmt.Errorf("unpack %s: %w", t.spec, err)
	}
	return nil
}

// treeWriter writes files below a directory, and never elsewhere, whatever
// links a tree holds.
type treeWriter struct {
	root  *os.Root
	owner runUser
	made  map[string]bool // directories
}

// put writes one file or link, whose target is then the content. Times are
// kept: make goes by them, and must not begin to make what a release's tree
// brings along.
func (w *treeWriter) put(name string, mode fs.FileMode, modified time.Time, content io.Reader) error {
	if err := w.mkdir(filepath.Dir(name)); err != nil {
		return err
	}
	if mode.Type() == fs.ModeSymlink {
		to, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		if err := w.root.Symlink(string(to), name); err != nil {
			return err
		}
		return w.give(name)
	}
	f, err := w.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600|mode&0o100)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := w.root.Chtimes(name, modified, modified); err != nil {
		return err
	}
	return w.give(name)
}

func (w *treeWriter) mkdir(dir string) error {
	if w.made[dir] {
		return nil
	}
	if err := w.mkdir(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := w.root.Mkdir(dir, 0o700); err != nil {
		return err
	}
	w.made[dir] = true
	return w.give(dir)
}

func (w *treeWriter) give(name string) error {
	if !w.owner.switchTo {
		return nil
	}
	return w.root.Lchown(name, w.owner.UID, w.owner.GID)
}

// gitError is what git said when it failed.
type gitError struct {
	asked string
	words string
	err   error
}

func (e *gitError) Error() string {
	return fmt.Sprintf("%s: git: %s", e.asked, strings.ReplaceAll(tail(e.words, 3), "\n", "; "))
}

func (e *gitError) Unwrap() error { return e.err }

// git returns what git prints about the tree, without the last line feed.
func (t *tree) git(ctx context.Context, r *resolver, args ...string) (string, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return "", usagef("%s: that is a git repository, and there is no git in PATH; install it (Debian: apt-get install git) or give a tree without .git", t.asked)
	}
	cmd, stderr := t.gitCommand(ctx, r, args...)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	if err := r.fork.start(cmd); err != nil {
		return "", fmt.Errorf("start git: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return "", gitFailed(ctx, t.asked, stderr.String(), err)
	}
	return strings.TrimSuffix(stdout.String(), "\n"), nil
}

func gitFailed(ctx context.Context, asked, words string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &gitError{asked, strings.TrimSpace(words), err}
}

// gitCommand is git on the tree. Root runs it as the owner of the tree: a
// repository's configuration can name programs, and these are its owner's.
func (t *tree) gitCommand(ctx context.Context, r *resolver, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", t.dir}, args...)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0"}
	cmd.SysProcAttr = childOfOurs(syscall.SIGKILL)
	if info, err := os.Stat(t.dir); err == nil && r.user.switchTo {
		if st := info.Sys().(*syscall.Stat_t); st.Uid != 0 {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: st.Uid, Gid: st.Gid}
		}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	return cmd, &stderr
}
