package results

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCreateNeverOverwrites: a record is made once.
func TestCreateNeverOverwrites(t *testing.T) {
	path := write(t, made())
	before := contents(t, path)
	_, err := Create(path)
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "-o") {
		t.Errorf("error is %v", err)
	}
	if contents(t, path) != before {
		t.Error("the record was changed")
	}
	missing := filepath.Join(t.TempDir(), "nowhere", "record.jsonl")
	if _, err := Create(missing); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("error is %v", err)
	}
}

// small is a file on a disk with room for so many bytes.
type small struct {
	*os.File
	room  int
	stuck bool // it can't be truncated either
}

func (f *small) Write(p []byte) (int, error) {
	if len(p) <= f.room {
		f.room -= len(p)
		return f.File.Write(p)
	}
	n, err := f.File.Write(p[:f.room])
	if err != nil {
		return n, err
	}
	f.room = 0
	return n, syscall.ENOSPC
}

func (f *small) Truncate(size int64) error {
	if f.stuck {
		return syscall.EIO
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	f.room += int(at - size)
	return f.File.Truncate(size)
}

// TestDiskFull fills the disk at every line: the record can be read, holds all
// that was written before, and goes on once there is room.
func TestDiskFull(t *testing.T) {
	rec := made()
	// Of what is written now, not of the golden file: a header that has grown
	// since would not fit into the room that its older form took.
	var sizes []int
	for _, line := range strings.SplitAfter(strings.TrimSuffix(contents(t, write(t, rec)), "\n"), "\n") {
		sizes = append(sizes, len(line))
	}
	for full := 0; full <= len(rec.Generations); full++ {
		for _, partial := range []int{0, 1, 500} {
			path := filepath.Join(t.TempDir(), "record.jsonl")
			w, err := Create(path)
			if err != nil {
				t.Fatal(err)
			}
			disk := &small{File: w.file.(*os.File), room: partial}
			for _, n := range sizes[:full] {
				disk.room += n
			}
			w.file = disk
			err = w.WriteHeader(&rec.Header)
			next := 0
			for err == nil && next < len(rec.Generations) {
				if err = w.WriteGeneration(&rec.Generations[next]); err == nil {
					next++
				}
			}
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
				t.Fatalf("full after %d lines: error is %v", full, err)
			}
			if full == 0 {
				if size := len(contents(t, path)); size != 0 || !strings.Contains(err.Error(), "nothing") {
					t.Fatalf("%d bytes of a header stayed: %v", size, err)
				}
			} else if back, err := ReadFile(path); err != nil || len(back.Generations) != full-1 || back.Torn {
				t.Fatalf("full after %d lines: read %v", full, err)
			}
			if w.Generations() != next {
				t.Fatalf("%d generations were written, the writer says %d", next, w.Generations())
			}

			disk.room = 1 << 20
			if full == 0 {
				if err := w.WriteHeader(&rec.Header); err != nil {
					t.Fatal(err)
				}
			}
			for ; next < len(rec.Generations); next++ {
				if err := w.WriteGeneration(&rec.Generations[next]); err != nil {
					t.Fatal(err)
				}
			}
			if back, err := ReadFile(path); err != nil || len(back.Generations) != len(rec.Generations) {
				t.Fatalf("with room again: %v", err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestTornLineStays: where the partial line can't be cut off, nothing follows
// it, so that the record can be read.
func TestTornLineStays(t *testing.T) {
	rec := made()
	path := filepath.Join(t.TempDir(), "record.jsonl")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.WriteHeader(&rec.Header); err != nil {
		t.Fatal(err)
	}
	disk := &small{File: w.file.(*os.File), room: 100, stuck: true}
	w.file = disk
	err = w.WriteGeneration(&rec.Generations[0])
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "nothing that was measured") || !strings.Contains(err.Error(), "incomplete last line") {
		t.Fatalf("error is %v", err)
	}
	disk.room = 1 << 20
	if again := w.WriteEnd(*rec.End); again != err {
		t.Errorf("the writer went on: %v", again)
	}
	back, err := ReadFile(path)
	if err != nil || !back.Torn || len(back.Generations) != 0 {
		t.Errorf("read %v", err)
	}
}

// TestDiskFullForReal does the same on a file system of 16 KiB.
func TestDiskFullForReal(t *testing.T) {
	if dir := os.Getenv("PGTARE_SMALL_DISK"); dir != "" {
		fillForReal(t, dir)
		return
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		lack(t, "no unshare(1) to mount a small file system with")
	}
	dir := t.TempDir()
	mount := exec.Command(unshare, "--user", "--map-root-user", "--mount", "sh", "-c",
		`mount -t tmpfs -o size=16k none "$0" && exec "$1" -test.run '^TestDiskFullForReal$' -test.v`, dir, os.Args[0])
	mount.Env = append(os.Environ(), "PGTARE_SMALL_DISK="+dir)
	out, err := mount.CombinedOutput()
	if err != nil && !strings.Contains(string(out), "FAIL") {
		lack(t, fmt.Sprintf("no small file system could be mounted: %s", out))
	}
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v: %s", err, out)
	}
}

func fillForReal(t *testing.T, dir string) {
	rec := made()
	path := filepath.Join(dir, "record.jsonl")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.WriteHeader(&rec.Header); err != nil {
		t.Fatal(err)
	}
	g := rec.Generations[0]
	for g.Generation = 1; ; g.Generation++ {
		if g.Generation > 1000 {
			t.Fatal("16 KiB are never full")
		}
		if err = w.WriteGeneration(&g); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error is %v", err)
	}
	back, err := ReadFile(path)
	if err != nil || back.Torn || len(back.Generations) != g.Generation-1 || len(back.Generations) == 0 {
		t.Errorf("after %d generations: %v", g.Generation-1, err)
	}
}

// TestDiscard removes what holds nothing, and only that.
func TestDiscard(t *testing.T) {
	rec := made()
	for generations := range 2 {
		path := filepath.Join(t.TempDir(), "record.jsonl")
		w, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteHeader(&rec.Header); err != nil {
			t.Fatal(err)
		}
		for i := range generations {
			if err := w.WriteGeneration(&rec.Generations[i]); err != nil {
				t.Fatal(err)
			}
		}
		removed, err := w.Discard()
		if err != nil || removed != (generations == 0) {
			t.Errorf("%d generations: removed %v, %v", generations, removed, err)
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) != removed {
			t.Errorf("%d generations: %v", generations, err)
		}
	}
}

// TestWriterPanics: what could not be read back is a bug of the caller.
func TestWriterPanics(t *testing.T) {
	rec := made()
	check := func(name string, part string, call func(w *Writer) error) {
		t.Helper()
		w, err := Create(filepath.Join(t.TempDir(), "record.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		defer func() {
			t.Helper()
			if msg, _ := recover().(string); !strings.Contains(msg, part) {
				t.Errorf("%s: panic %q", name, msg)
			}
		}()
		t.Errorf("%s: no panic but %v", name, call(w))
	}
	begun := func(call func(w *Writer) error) func(w *Writer) error {
		return func(w *Writer) error {
			if err := w.WriteHeader(&rec.Header); err != nil {
				t.Error(err)
			}
			return call(w)
		}
	}
	check("no header", "before the header", func(w *Writer) error { return w.WriteGeneration(&rec.Generations[0]) })
	check("two headers", "second header", begun(func(w *Writer) error { return w.WriteHeader(&rec.Header) }))
	check("unknown cell", "unknown cell", begun(func(w *Writer) error {
		g := rec.Generations[0]
		g.Cell = "c9"
		return w.WriteGeneration(&g)
	}))
	check("machine of an unknown panel", "unknown panel", begun(func(w *Writer) error { return w.WriteMachine(Machine{Panel: "p9", Run: 1, Generation: 1}) }))
	check("after the end", "after the end", begun(func(w *Writer) error {
		if err := w.WriteEnd(*rec.End); err != nil {
			t.Error(err)
		}
		return w.WriteWarning(Warning{Code: "late"})
	}))
}

// TestNewID: names sort by time, are files' names, and differ within a second.
func TestNewID(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	at := time.Date(2026, 7, 6, 17, 20, 1, 999, time.FixedZone("CEST", 7200))
	a, b := NewID(at, rng), NewID(at, rng)
	if !regexp.MustCompile(`^20260706-152001-[a-z0-9]{4}$`).MatchString(a) || a == b {
		t.Errorf("%q, %q", a, b)
	}
}

func TestStateDir(t *testing.T) {
	for _, c := range []struct {
		xdg, home string
		euid      int
		want      string
	}{
		{"/state", "/home/u", 1000, "/state/pgtare"},
		{"relative", "/home/u", 1000, "/home/u/.local/state/pgtare"},
		{"", "/home/u", 1000, "/home/u/.local/state/pgtare"},
		{"", "/root", 0, "/root/.local/state/pgtare"},
		{"", "", 0, "/var/lib/pgtare"},
		{"", "", 1000, ""},
	} {
		got, err := stateDir(c.xdg, c.home, c.euid)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

// TestDefaultPath makes the directory, so that Create finds it.
func TestDefaultPath(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", filepath.Join(t.TempDir(), "state"))
	path, err := DefaultPath("20260706-152000-k3f9")
	if err != nil {
		t.Fatal(err)
	}
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Sync(); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Sync(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error is %v", err)
	}
	if filepath.Base(path) != "20260706-152000-k3f9.jsonl" {
		t.Error(path)
	}
}

// lack skips a test for want of something, and fails it in CI, where that must
// be there.
func lack(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}
