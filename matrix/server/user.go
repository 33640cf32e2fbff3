package server

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// runUser is the user that managed servers run as. PostgreSQL refuses to run
// as root.
type runUser struct {
	Name     string
	UID, GID int
	Groups   []uint32
	switchTo bool // root runs pgtare: children change to this user
}

// findRunUser returns the present user, or for root the user postgres, else
// nobody.
func findRunUser() (runUser, error) {
	uid := os.Geteuid()
	if uid != 0 {
		r := runUser{Name: strconv.Itoa(uid), UID: uid, GID: os.Getegid()}
		if u, err := user.LookupId(r.Name); err == nil {
			r.Name = u.Username
		}
		return r, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		r := runUser{Name: name, switchTo: true}
		if r.UID, err = strconv.Atoi(u.Uid); err != nil {
			return runUser{}, fmt.Errorf("look up user %s: %w", name, err)
		}
		if r.GID, err = strconv.Atoi(u.Gid); err != nil {
			return runUser{}, fmt.Errorf("look up user %s: %w", name, err)
		}
		groups, err := u.GroupIds()
		if err != nil {
			return runUser{}, fmt.Errorf("look up the groups of user %s: %w", name, err)
		}
		for _, g := range groups {
			if n, err := strconv.ParseUint(g, 10, 32); err == nil {
				r.Groups = append(r.Groups, uint32(n))
			}
		}
		return r, nil
	}
	return runUser{}, unavailablef("PostgreSQL refuses to run as root, and this machine has neither a user postgres nor a user nobody; create one (useradd --system postgres) or run pgtare as an ordinary user")
}

// attr returns the process attributes of a child that runs as this user, in a
// session of its own, and gets sig when pgtare dies.
func (r runUser) attr(sig syscall.Signal) *syscall.SysProcAttr {
	a := childOfOurs(sig)
	if r.switchTo {
		a.Credential = &syscall.Credential{Uid: uint32(r.UID), Gid: uint32(r.GID), Groups: r.Groups}
	}
	return a
}

// give makes path the run user's, where pgtare runs as another.
func (r runUser) give(path string) error {
	if !r.switchTo {
		return nil
	}
	return os.Lchown(path, r.UID, r.GID)
}

// obstacle names the first component of path that this user cannot pass or
// read, "" when the mode bits allow it all.
func (r runUser) obstacle(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	var up []string
	for p := path; ; p = filepath.Dir(p) {
		up = append(up, p)
		if p == filepath.Dir(p) {
			break
		}
	}
	slices.Reverse(up)
	for _, p := range up {
		var st syscall.Stat_t
		if err := syscall.Stat(p, &st); err != nil {
			return p
		}
		perm := st.Mode & 7
		switch {
		case int(st.Uid) == r.UID:
			perm = st.Mode >> 6 & 7
		case int(st.Gid) == r.GID || slices.Contains(r.Groups, st.Gid):
			perm = st.Mode >> 3 & 7
		}
		if perm&1 == 0 { // search for a directory, execute for the binary
			return p
		}
	}
	return ""
}
