package server

import (
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
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"pgtare/matrix/host"
)

// childEnv is the whole environment of initdb and postmasters. It is small
// and fixed because its size moves the stack, and with it the speed; of the
// user's own it holds only where a build may need its libraries from.
func childEnv() []string {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	if v := os.Getenv("LD_LIBRARY_PATH"); v != "" {
		env = append(env, "LD_LIBRARY_PATH="+v)
	}
	return env
}

// templates makes and keeps the results of initdb: CACHE/templates/KEY-BOOT/data.
//
// They are not synced to disk, which would take longer than all the rest of
// initdb. A crash of the machine could tear them, so BOOT names the boot in
// which they were made, and those of an earlier one are made anew.
type templates struct {
	dir  string
	user runUser
	fork *forker

	mu   sync.Mutex
	keys map[string]*sync.Mutex // one initdb at a time for a key
}

// key names what a template depends on: the binary (path, version, size, time
// of change), the options, and the user, whom initdb's files must belong to.
func (t *templates) key(inst Installation, options []string) (string, error) {
	bin := filepath.Join(inst.BinDir, "postgres")
	st, err := os.Stat(bin)
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", bin, err)
	}
	boot := host.BootID()
	if len(boot) < 8 {
		return "", errors.New("tell this boot from others: the kernel does not show its boot_id")
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %d %d %q %d", bin, inst.Version, st.Size(), st.ModTime().UnixNano(), options, t.user.UID)
	return hex.EncodeToString(h.Sum(nil))[:24] + "-" + boot[:8], nil
}

// get returns the data directory of the template that initdb makes of inst with
// these options. A new one is made inside scratch, which belongs to the
// caller's session, and moved into place when it is whole.
func (t *templates) get(ctx context.Context, inst Installation, options []string, scratch string) (string, error) {
	key, err := t.key(inst, options)
	if err != nil {
		return "", err
	}
	t.mu.Lock()
	if t.keys == nil {
		t.keys = map[string]*sync.Mutex{}
	}
	if t.keys[key] == nil {
		t.keys[key] = &sync.Mutex{}
	}
	one := t.keys[key]
	t.mu.Unlock()
	one.Lock()
	defer one.Unlock()

	final := filepath.Join(t.dir, key)
	data := filepath.Join(final, "data")
	if _, err := os.Stat(data); err == nil {
		return data, nil
	}
	tmp := filepath.Join(scratch, "initdb-"+key)
	if err := os.MkdirAll(filepath.Join(tmp, "data"), 0o700); err != nil {
		return "", fmt.Errorf("make a template: %w", err)
	}
	defer os.RemoveAll(tmp)
	for _, d := range []string{tmp, filepath.Join(tmp, "data")} {
		if err := t.user.give(d); err != nil {
			return "", fmt.Errorf("make a template: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(inst.BinDir, "initdb"), append([]string{"--no-sync", "-D", filepath.Join(tmp, "data")}, options...)...)
	cmd.Dir, cmd.Env = tmp, childEnv()
	// initdb's own children read from a pipe of its and end with it.
	cmd.SysProcAttr = t.user.attr(syscall.SIGKILL)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := t.fork.start(cmd); err != nil {
		return "", t.user.startError(cmd.Path, err)
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", &InitdbError{Label: inst.Label, How: err.Error(), Out: tail(out.String(), 15)}
	}
	// Another pgtare may have been quicker; its template is as good.
	if err := os.Rename(tmp, final); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return "", fmt.Errorf("keep a template: %w", err)
	}
	for _, old := range t.ofOtherBoots(key) {
		os.RemoveAll(old) // nobody copies from it now
	}
	return data, nil
}

// ofOtherBoots returns the templates that were made in other boots than key's.
func (t *templates) ofOtherBoots(key string) []string {
	_, boot, _ := strings.Cut(key, "-")
	return slices.DeleteFunc(entries(t.dir), func(p string) bool { return strings.HasSuffix(p, "-"+boot) })
}

// startError explains why a child could not be started.
func (r runUser) startError(path string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		if at := r.obstacle(path); at != "" {
			return usagef("the server would run as user %s, who can't use %s: %s is closed to that user; open it (chmod a+rX) or install the binaries elsewhere", r.Name, path, at)
		}
	}
	return fmt.Errorf("start %s as user %s: %w", path, r.Name, err)
}

// copyTree copies a data directory for the run user, by reference where the
// file system can. Nothing may change src meanwhile.
func copyTree(ctx context.Context, src, dst string, owner runUser) error {
	return filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		to := filepath.Join(dst, strings.TrimPrefix(path, src))
		switch {
		case d.IsDir():
			if err := os.MkdirAll(to, 0o700); err != nil {
				return err
			}
		case d.Type().IsRegular():
			if err := copyFile(path, to); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s: initdb is not known to make such files", path)
		}
		return owner.give(to)
	})
}

func copyFile(src, dst string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if !cloneFile(out, in) {
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
		// Write-back begins now and not in the midst of a measurement, half a
		// minute later. A file system that can't does it when it likes.
		startWriteBack(out)
	}
	return out.Close()
}

// tail returns the last n lines of text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}
