package host

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func openJournal(t *testing.T, dir string) *Journal {
	t.Helper()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func begin(t *testing.T, j *Journal, kind string, data any) *Entry {
	t.Helper()
	e, err := j.Begin(kind, data)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func leftover(t *testing.T, dir string, kinds ...string) []Pending {
	t.Helper()
	list, err := Leftover(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, p := range list {
		got = append(got, p.Kind+string(p.Data))
	}
	if !slices.Equal(got, kinds) && len(got)+len(kinds) > 0 {
		t.Fatalf("left over: %q, expected %q", got, kinds)
	}
	return list
}

func files(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// What lives is nobody else's; what is dead is found, the latest first, once,
// and the file goes with the last entry.
func TestJournal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "undo")
	leftover(t, dir) // no directory yet
	j := openJournal(t, dir)
	a, b := begin(t, j, "a", 1), begin(t, j, "b", map[string]string{"x": "y"})
	begin(t, j, "c", nil)
	leftover(t, dir)
	if err := b.Done(); err != nil {
		t.Error(err)
	}
	if err := b.Done(); err != nil {
		t.Errorf("done twice: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Done(); err == nil {
		t.Error("an entry of a closed journal was crossed out")
	}

	list := leftover(t, dir, "cnull", "a1")
	leftover(t, dir) // this process has it
	if time.Since(list[1].Time) > time.Minute || filepath.Dir(list[1].File) != dir {
		t.Errorf("entry %+v", list[1])
	}
	if err := list[0].Done(); err != nil {
		t.Error(err)
	}
	if err := list[1].Release(); err != nil {
		t.Error(err)
	}
	list = leftover(t, dir, "a1")
	if err := list[0].Done(); err != nil {
		t.Error(err)
	}
	if err := list[0].Done(); err != nil {
		t.Errorf("done twice: %v", err)
	}
	leftover(t, dir)
	if n := files(t, dir); n != 0 {
		t.Errorf("%d files are left", n)
	}

	j = openJournal(t, dir)
	if err := begin(t, j, "d", 0).Done(); err != nil {
		t.Error(err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if n := files(t, dir); n != 0 {
		t.Errorf("%d files are left of a journal in which all is done", n)
	}
}

// Of several that died the latest change comes first, whatever their files are
// called.
func TestLeftoverOrder(t *testing.T) {
	dir := t.TempDir()
	for _, kinds := range [][]string{{"a", "b"}, {"c"}, {"d"}, {"e", "f"}} {
		j := openJournal(t, dir)
		for _, kind := range kinds {
			begin(t, j, kind, 0)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	leftover(t, dir, "f0", "e0", "d0", "c0", "b0", "a0")
}

// What another has can be read, and stays its own.
func TestStanding(t *testing.T) {
	dir := t.TempDir()
	standing := func(own *Journal, kinds ...string) {
		t.Helper()
		list, err := Standing(dir, own)
		got := []string{}
		for i := range list {
			if got = append(got, list[i].Kind); list[i].Held {
				got[i] += " held"
			}
			if err := list[i].Done(); err != nil {
				t.Error(err)
			}
		}
		if err != nil || !slices.Equal(got, kinds) && len(got)+len(kinds) > 0 {
			t.Errorf("standing: %q, %v; expected %q", got, err, kinds)
		}
	}
	standing(nil) // no file yet
	own, dead := openJournal(t, dir), openJournal(t, dir)
	begin(t, own, "own", 0)
	begin(t, dead, "first", 0)
	begin(t, dead, "second", 0)
	standing(own, "second held", "first held")
	standing(nil, "second held", "first held", "own held")
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	standing(own, "second", "first")
	list := leftover(t, dir, "second0", "first0")
	standing(own, "second held", "first held")
	if err := list[0].Done(); err != nil {
		t.Error(err)
	}
	standing(own, "first held")
	if err := list[1].Done(); err != nil {
		t.Error(err)
	}
	standing(own)
}

// An entry is on the disk when Begin returns, and a process that is killed
// leaves it to others.
func TestJournalOfTheKilled(t *testing.T) {
	if dir := os.Getenv("PGTARE_TEST_JOURNAL"); dir != "" {
		j, err := OpenJournal(dir)
		if err == nil {
			_, err = j.Begin("killed", 7)
		}
		if err != nil {
			os.Exit(3)
		}
		os.Stdout.WriteString("ready\n")
		time.Sleep(time.Minute)
		os.Exit(4)
	}
	dir := t.TempDir()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(path, "-test.run=^TestJournalOfTheKilled$")
	c.Env = append(os.Environ(), "PGTARE_TEST_JOURNAL="+dir)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var buf [5]byte
	if _, err := out.Read(buf[:]); err != nil || string(buf[:]) != "ready" {
		t.Errorf("the other process says %q, %v", buf, err)
	}
	leftover(t, dir)
	c.Process.Kill()
	c.Wait() //nolint:errcheck // it was killed
	list := leftover(t, dir, "killed7")
	if err := list[0].Done(); err != nil {
		t.Error(err)
	}
}

// What isn't a journal is named in a sentence and stays; what was cut off in
// the middle of a line is good up to there.
func TestJournalDamaged(t *testing.T) {
	const entry = `{"entry":1,"kind":"k","time":"2026-07-06T15:20:00Z","data":5}` + "\n"
	for _, c := range []struct {
		text string
		want string // the error; or what is left over
	}{
		{"", ""},
		{`{"journal":"pg`, ""},
		{journalHeader, ""},
		{journalHeader + "\n", ""},
		{journalHeader + "\n" + entry, "k5"},
		{journalHeader + "\n" + entry[:30], ""},
		{journalHeader + "\n" + entry + entry[:30], "k5"},
		{journalHeader + "\n" + entry + `{"done":1}`, "k5"},
		{journalHeader + "\n" + entry + `{"done":1}` + "\n", ""},
		{"hello", "no undo journal of pgtare"},
		{"hello\n", "no undo journal of pgtare"},
		{`{"journal":"pgtare","format":2}` + "\n", "format 2"},
		{journalHeader + "\n" + entry + "x\n", "line 3 is damaged"},
		{journalHeader + "\n" + entry + entry, "entry 1 after 1"},
		{journalHeader + "\n" + `{"entry":1}` + "\n", "neither an entry"},
		{journalHeader + "\n" + `{"entry":1,"more":2}` + "\n", "unknown field"},
		{journalHeader + "\n" + strings.Repeat(" ", maxJournal), "larger than"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "undo-1.journal")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := Leftover(dir)
		got := ""
		for _, p := range list {
			got += p.Kind + string(p.Data)
		}
		if strings.Contains(c.want, " ") != (err != nil) || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path)) || err == nil && got != c.want {
			t.Errorf("%.60q: left over %q, error %v; expected %q", c.text, got, err, c.want)
		}
		if _, missing := os.Stat(path); (missing == nil) != (c.want != "") {
			t.Errorf("%.60q: the file's fate: %v", c.text, missing)
		}
		for _, p := range list {
			if err := p.Done(); err != nil {
				t.Error(err)
			}
		}
		if _, missing := os.Stat(path); len(list) > 0 && missing == nil {
			t.Errorf("%.60q: the file stays when all is done", c.text)
		}
	}
}

// What stands in the place of a journal is never followed, waited for or obeyed.
func TestJournalForeign(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, "undo-"+name+".journal") }
	good := journalHeader + "\n" + `{"entry":1,"kind":"k","time":"2026-07-06T15:20:00Z","data":5}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "elsewhere"), []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), at("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at("directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfifo", at("fifo")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := []string{at("link"), at("directory"), at("fifo")}
	if os.Geteuid() == 0 {
		if err := os.WriteFile(at("other"), []byte(good), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(at("other"), 1, 1); err != nil {
			t.Fatal(err)
		}
		want = append(want, at("other"))
	}
	list, err := Leftover(dir)
	if len(list) > 0 || err == nil {
		t.Fatalf("left over %v, error %v", list, err)
	}
	for _, path := range want {
		if !strings.Contains(err.Error(), path) {
			t.Errorf("the error says nothing of %s: %v", path, err)
		}
	}
}

// Whatever is in the file: no panic; and what is found open can be crossed out.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(journalHeader + "\n" + `{"entry":1,"kind":"k","time":"2026-07-06T15:20:00Z","data":{"a":[1]}}` + "\n" + `{"entry":4,"kind":"k","time":"2026-07-06T15:20:00Z","data":null}` + "\n" + `{"done":1}` + "\n" + `{"done"`))
	f.Add([]byte(journalHeader + "\n{}\n"))
	f.Add([]byte("\x00\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		pending, size, msg := parseJournal(text)
		if msg != "" {
			return
		}
		again := slices.Clone(text[:size])
		for i, p := range pending {
			if p.Kind == "" || !json.Valid(p.Data) || i > 0 && p.number >= pending[i-1].number {
				t.Fatalf("entry %+v", p)
			}
			b, err := json.Marshal(journalLine{Done: p.number})
			if err != nil {
				t.Fatal(err)
			}
			again = append(append(again, b...), '\n')
		}
		if size == 0 {
			return
		}
		if rest, n, msg := parseJournal(again); msg != "" || len(rest) > 0 || n != int64(len(again)) {
			t.Fatalf("after all is done: %v, %d of %d bytes, %q", rest, n, len(again), msg)
		}
	})
}
