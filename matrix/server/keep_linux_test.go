package server

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// dirtyPages counts the pages of files in dir that the disk doesn't have yet.
func dirtyPages(t *testing.T, dir string) (n uint64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		var of unix.Cachestat_t
		if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &of, 0); err != nil {
			return err
		}
		n += of.Dirty + of.Writeback
		return nil
	})
	if err != nil {
		lack(t, errors.Join(errors.New("the kernel does not say what is on disk (cachestat, Linux 6.5)"), err))
	}
	return n
}

// What is kept is on disk before it has its name.
func TestKeep(t *testing.T) {
	base := t.TempDir()
	dir, final := filepath.Join(base, "made"), filepath.Join(base, "kept")
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bin/postgres", "facts"} {
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte("x"), 100_000), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := dirtyPages(t, dir)
	if before == 0 {
		lack(t, errors.New("files of the temporary directory are written at once"))
	}
	if err := keep(dir, final); err != nil {
		t.Fatal(err)
	}
	if n := dirtyPages(t, final); n != 0 {
		t.Errorf("%d of %d pages are still to be written", n, before)
	}
	if err := keep(dir, final); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what isn't there is kept: %v", err)
	}
}
