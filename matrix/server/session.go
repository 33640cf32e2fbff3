package server

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pgtare/matrix/host"
)

// cacheDir returns the directory for templates, fetched installations, builds
// and sessions, made if need be. Root's is not in root's home, because the server
// user could not reach it there.
func cacheDir(dir string) (string, error) {
	if dir == "" {
		if os.Geteuid() == 0 {
			dir = "/var/cache/pgtare"
		} else {
			base, err := os.UserCacheDir()
			if err != nil {
				return "", usagef("no cache directory: %v; set XDG_CACHE_HOME to a directory of yours", err)
			}
			dir = filepath.Join(base, "pgtare")
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	for _, d := range []string{dir, filepath.Join(dir, "run"), filepath.Join(dir, "templates"), filepath.Join(dir, "pg"), filepath.Join(dir, "builds")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return "", usagef("no cache directory: %v; choose another with --cache-dir", err)
		}
	}
	return dir, nil
}

// session is what one pgtare process has on disk: CACHE/run/NAME. Its lock is
// held as long as the process lives.
type session struct {
	dir     string
	sockets string // directory for sockets where dir's path is too long; made on demand
	lock    *os.File
}

// openSession makes a session directory and removes those of the dead. cache
// must come from cacheDir.
func openSession(cache string, log func(string)) (*session, error) {
	run := filepath.Join(cache, "run")
	// One at a time: a directory whose lock is not taken yet must not look dead.
	global, err := os.OpenFile(filepath.Join(run, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the cache directory: %w", err)
	}
	defer global.Close()
	if err := host.Lock(global, unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock the cache directory %s: %w", run, err)
	}
	if err := removeDead(run, log); err != nil {
		return nil, err
	}
	var b [4]byte
	rand.Read(b[:])
	s := newSession(filepath.Join(run, hex.EncodeToString(b[:])))
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a session directory: %w", err)
	}
	// A umask of 077 must not keep the server user out.
	if err := os.Chmod(s.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a session directory: %w", err)
	}
	s.lock, err = os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		err = host.Lock(s.lock, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		os.RemoveAll(s.dir)
		return nil, fmt.Errorf("lock the session directory %s: %w", s.dir, err)
	}
	return s, nil
}

func newSession(dir string) *session {
	return &session{dir: dir, sockets: filepath.Join("/tmp", "pgtare-"+filepath.Base(dir))}
}

// makeSockets makes the directory for sockets below /tmp.
func (s *session) makeSockets() error {
	err := os.Mkdir(s.sockets, 0o711)
	if err == nil {
		err = os.Chmod(s.sockets, 0o711) // whatever the umask
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make a socket directory: %w", err)
	}
	return nil
}

// close removes the session and ends what still runs in it.
func (s *session) close() error {
	err := s.remove()
	s.lock.Close() // last: until then the directory is ours
	return err
}

// remove ends every process of the session and removes its files.
func (s *session) remove() error {
	if err := endProcesses(s.dir); err != nil {
		return err
	}
	removeShared(s.dir)
	return errors.Join(removeAll(s.sockets), removeAll(s.dir))
}

// removeAll is os.RemoveAll that tries again when something still writes.
func removeAll(dir string) error {
	var err error
	for range 20 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("remove %s: %w", dir, err)
}

// removeDead removes the sessions in run that no living process holds. What
// belongs to another user is left alone.
func removeDead(run string, log func(string)) error {
	list, err := os.ReadDir(run)
	if err != nil {
		return fmt.Errorf("read the cache directory: %w", err)
	}
	for _, e := range list {
		if !e.IsDir() {
			continue
		}
		s := newSession(filepath.Join(run, e.Name()))
		// No lock file: its maker died before it had one (the caller holds the
		// global lock, so nobody is making one now).
		lock, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR, 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			if host.Lock(lock, unix.LOCK_EX|unix.LOCK_NB) != nil {
				lock.Close()
				continue // alive
			}
		}
		if err := s.remove(); err != nil {
			log(fmt.Sprintf("could not remove what a dead pgtare left: %v", err))
		} else {
			log("removed what a dead pgtare left: " + s.dir)
		}
		lock.Close()
	}
	return nil
}

// entries returns the paths of what is in dir; none if there is no dir.
// (filepath.Glob would take a bracket in the path for a pattern.)
func entries(dir string) []string {
	list, _ := os.ReadDir(dir)
	paths := make([]string, len(list))
	for i, e := range list {
		paths[i] = filepath.Join(dir, e.Name())
	}
	return paths
}

// processesIn returns the processes whose working directory is dir or below.
// PostgreSQL's processes all have theirs in the data directory, so this finds
// the backends of a postmaster that is gone, and a reused PID never looks
// like one of them.
func processesIn(dir string) []int {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // /proc shows real paths
	}
	list, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range list {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if worksIn(pid, dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func worksIn(pid int, dir string) bool {
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	return err == nil && (cwd == dir || strings.HasPrefix(cwd, dir+"/"))
}

// endProcesses ends every process that works in dir, by SIGKILL: nothing there
// is worth an orderly end.
func endProcesses(dir string) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		if signalIn(dir, unix.SIGKILL) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v in %s do not end after SIGKILL", processesIn(dir), dir)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
