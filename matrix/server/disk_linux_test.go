package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func init() { asChild["PGTARE_TEST_FULL"] = fullDisk }

// fullDisk is run by TestDiskFull in a mount namespace of its own, so that the
// small disk ends with it.
func fullDisk(cache string) int {
	ctx := context.Background()
	if err := syscall.Mount("none", cache, "tmpfs", 0, "size=8m,mode=755"); err != nil {
		fmt.Println("can't mount:", err)
		return 2
	}
	found, err := Resolve(ctx, []Spec{{}}, ResolveConfig{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	// The templates are elsewhere: copying one is what must fail.
	if err := os.Symlink(os.Getenv("PGTARE_TEST_TEMPLATES"), filepath.Join(cache, "templates")); err != nil {
		fmt.Println(err)
		return 1
	}
	m, err := NewManager(ctx, ManagerConfig{CacheDir: cache})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, err = m.Create(ctx, found[0], InstanceConfig{ID: "a"})
	fmt.Println(err)
	if u := (*UnavailableError)(nil); !errors.As(err, &u) || exists(filepath.Join(m.session.dir, "a")) {
		return 1
	}
	if err := m.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func TestDiskFull(t *testing.T) {
	sharedInstance(t)
	if os.Geteuid() != 0 {
		lack(t, errors.New("only root may mount a small disk"))
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "PGTARE_TEST_FULL="+openTempDir(t), "PGTARE_TEST_TEMPLATES="+shared.manager.templates.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() == 2 {
		lack(t, errors.New(string(out)))
	}
	if err != nil || !strings.Contains(string(out), "no space left in") {
		t.Errorf("%v:\n%s", err, out)
	}
}
