package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Writer writes a record, line by line: one header, then generations and
// warnings as they come, at last the end. It isn't safe for concurrent use.
//
// What is handed to it must be a record that [Read] takes back: a generation
// before the header, or one of a cell that the header doesn't know, is a bug
// of the caller and panics. Errors are those of the file; each names the file
// and says what it still holds. After an error the writer may be tried again:
// the partial line has been cut off. Where that failed too, every later call
// returns the error.
type Writer struct {
	file        file
	path        string
	check       checker
	generations int   // written, lost ones included
	size        int64 // of the whole lines
	stuck       error // a partial line could not be cut off
}

// file is what a Writer needs of an *os.File.
type file interface {
	io.Writer
	io.Closer
	io.Seeker
	Sync() error
	Truncate(size int64) error
}

// Create makes the record path. An existing file is never overwritten, nor
// appended to: the error then wraps [fs.ErrExist].
func Create(path string) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("the record %s exists and is never overwritten: name another file with -o, or move it away: %w", path, fs.ErrExist)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the directory of the record %s does not exist: make it, or name another file with -o: %w", path, fs.ErrNotExist)
	case err != nil:
		return nil, fmt.Errorf("create the record (name another file with -o): %w", err)
	}
	return &Writer{file: f, path: path}, nil
}

// Path is the name of the file.
func (w *Writer) Path() string { return w.path }

// Generations is the number of generations that were written, lost ones
// included.
func (w *Writer) Generations() int { return w.generations }

// WriteHeader writes the first line. Type and Format are filled in.
func (w *Writer) WriteHeader(h *Header) error {
	c := *h
	c.Type, c.Format = "header", Format
	if msg := w.check.header(&c); msg != "" {
		panic("results: header: " + msg)
	}
	if err := w.writeLine(&c); err != nil {
		w.check = checker{}
		return err
	}
	return nil
}

// WriteGeneration writes what one cell did in one generation. Type is filled
// in.
func (w *Writer) WriteGeneration(g *Generation) error {
	c := *g
	c.Type = "generation"
	if msg := w.check.generation(&c); msg != "" {
		panic("results: generation: " + msg)
	}
	if err := w.writeLine(&c); err != nil {
		w.check.forget(&c)
		return err
	}
	w.generations++
	return nil
}

// WriteMachine writes what the machine did in a generation. Type is filled in.
func (w *Writer) WriteMachine(m Machine) error {
	m.Type = "machine"
	if msg := w.check.machine(&m); msg != "" {
		panic("results: machine: " + msg)
	}
	return w.writeLine(&m)
}

// WriteWarning writes a doubt that arose after the header. Type is filled in.
func (w *Writer) WriteWarning(warning Warning) error {
	warning.Type = "warning"
	if msg := w.check.warning(&warning); msg != "" {
		panic("results: warning: " + msg)
	}
	return w.writeLine(&warning)
}

// WriteEnd writes the last line. Type is filled in. A record without it reads
// as cut off.
func (w *Writer) WriteEnd(e End) error {
	e.Type = "end"
	if msg := w.check.end(&e); msg != "" {
		panic("results: end: " + msg)
	}
	if err := w.writeLine(&e); err != nil {
		w.check.ended = false
		return err
	}
	return nil
}

// Sync puts what was written on the disk. The writer never does so itself: a
// sync shares the disk with the WAL, so the caller chooses a moment when
// nothing is measured.
func (w *Writer) Sync() error {
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("sync the record %s, which holds %s: %w", w.path, w.kept(), err)
	}
	return nil
}

// Close closes the file.
func (w *Writer) Close() error {
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("close the record %s, which holds %s: %w", w.path, w.kept(), err)
	}
	return nil
}

// Discard closes the file and, if no generation was written, removes it: a
// record in which nothing was measured is of no use. It tells whether the file
// is gone.
func (w *Writer) Discard() (removed bool, err error) {
	if err := w.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return false, err
	}
	if w.generations > 0 {
		return false, nil
	}
	if err := os.Remove(w.path); err != nil {
		return false, fmt.Errorf("remove the record, in which nothing was measured: %w", err)
	}
	return true, nil
}

// writeLine writes v as one line, whole or not at all.
func (w *Writer) writeLine(v any) error {
	if w.stuck != nil {
		return w.stuck
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic("results: a line can't be written as JSON: " + err.Error())
	}
	text = append(text, '\n')
	if len(text) > maxLine {
		panic(fmt.Sprintf("results: a line of %d bytes: at most %d can be read back", len(text), maxLine))
	}
	n, err := w.file.Write(text)
	if err == nil {
		w.size += int64(n)
		return nil
	}
	remedy := ""
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		remedy = "; make room there, or name another file with -o"
	}
	if w.generations > 0 {
		err = fmt.Errorf("write the record %s: %w; it holds %s and can be read%s", w.path, err, w.kept(), remedy)
	} else {
		err = fmt.Errorf("write the record %s: %w; it holds nothing that was measured%s", w.path, err, remedy)
	}
	if n > 0 {
		cut := w.file.Truncate(w.size)
		if cut == nil {
			_, cut = w.file.Seek(w.size, io.SeekStart)
		}
		if cut != nil {
			// Nothing may follow a torn line: the reader forgives only the last one.
			w.stuck = fmt.Errorf("%w; its incomplete last line could not be cut off: %v", err, cut)
			return w.stuck
		}
	}
	return err
}

// kept says what the file holds, for a message.
func (w *Writer) kept() string {
	switch {
	case w.size == 0:
		return "nothing"
	case w.generations == 0:
		return "the plan and no generation"
	case w.generations == 1:
		return "1 generation"
	}
	return fmt.Sprintf("%d generations", w.generations)
}

// NewID names a record: its second in UTC and four letters of chance, so that
// names sort by time and two of one second differ.
func NewID(now time.Time, rng *rand.Rand) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	id := []byte(now.UTC().Format("20060102-150405-"))
	for range 4 {
		id = append(id, letters[rng.IntN(len(letters))])
	}
	return string(id)
}

// DefaultPath names the file of the record id in the user's state directory
// ([StateDir]), which is made if it lacks.
func DefaultPath(id string) (string, error) {
	dir, err := StateDir()
	if err != nil {
		return "", fmt.Errorf("no place for the record, since %w: name a file with -o", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the directory of records (name a file with -o to do without): %w", err)
	}
	return filepath.Join(dir, id+".jsonl"), nil
}

// StateDir is the user's state directory of pgtare: $XDG_STATE_HOME/pgtare,
// else $HOME/.local/state/pgtare, else, for root, /var/lib/pgtare. It need not
// exist.
func StateDir() (string, error) {
	return stateDir(os.Getenv("XDG_STATE_HOME"), os.Getenv("HOME"), os.Geteuid())
}

// stateDir applies the rule of [StateDir] to the environment. A relative path counts as unset, as the XDG base directory specification asks.
func stateDir(xdg, home string, euid int) (string, error) {
	switch {
	case filepath.IsAbs(xdg):
		return filepath.Join(xdg, "pgtare"), nil
	case filepath.IsAbs(home):
		return filepath.Join(home, ".local", "state", "pgtare"), nil
	case euid == 0:
		return "/var/lib/pgtare", nil
	}
	return "", errors.New("neither XDG_STATE_HOME nor HOME is set")
}
