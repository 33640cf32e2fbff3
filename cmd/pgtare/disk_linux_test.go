package main

import (
	"path/filepath"
	"syscall"
	"testing"

	"pgtare/matrix/server/servertest"
	"pgtare/results"
)

// A full disk under the record: what was written can be read.
func TestDiskFull(t *testing.T) {
	servertest.Start(t)
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		servertest.Lack(t, "needs a small file system of its own: mount: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) }) //nolint:errcheck // a leftover shows as a failing TempDir
	cache := cacheDir(t)
	record := filepath.Join(dir, "r.jsonl")
	p := start(t, with(long, "-o", record, "--cache-dir", cache)...)
	p.expect(t, 1, "no space left on device")
	nothingLeft(t, cache)
	rec, err := results.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if len(rec.Generations) == 0 {
		t.Error("no generation is kept")
	}
	start(t, "show", record).expect(t, 0, "")
}
