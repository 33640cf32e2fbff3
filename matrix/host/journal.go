package host

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Journal is what this process has changed outside of itself and must undo:
// a file that outlives it. Each change has an [Entry], written and synced
// before the change is made, and crossed out when it has been undone. The
// file's lock says that its process lives; what a process left that is dead,
// [Leftover] finds. A Journal may be used by several goroutines.
//
// The file is named undo-NAME.journal and holds lines of JSON:
//
//	{"journal":"pgtare","format":1}
//	{"entry":1,"kind":"clocksource","time":"2026-07-06T15:20:00Z","data":{...}}
//	{"done":1}
//
// Note: the lock and not a process ID in the file, since an ID is another
// process's before long.
type Journal struct {
	mu      sync.Mutex
	path    string
	file    *os.File // nil: closed
	size    int64    // of what is whole
	last    int      // entry
	pending int
}

// Entry is one change that must be undone.
type Entry struct {
	journal *Journal
	number  int
	done    bool
}

// Pending is a change that a process has left which is dead. It is the
// caller's alone until Done or Release: to others it looks like a living
// process's. Of one from [Standing] these two do nothing.
type Pending struct {
	Kind string
	Data json.RawMessage
	Time time.Time // when it was written down
	File string    // in which
	Held bool      // another process has it; only from Standing

	number int
	left   *left
}

// left is the file of a dead process, locked.
type left struct {
	mu      sync.Mutex
	journal Journal
	holders int // Pendings that are neither done nor released
}

// The limits of a journal that was written by this package, far above need.
const (
	maxJournal = 4 << 20 // bytes
	maxEntries = 10000
)

const (
	journalFormat = 1
	journalHeader = `{"journal":"pgtare","format":1}`
	journalPrefix = "undo-"
	journalSuffix = ".journal"
)

// journalLine is any line of the file.
type journalLine struct {
	Journal string          `json:"journal,omitempty"`
	Format  int             `json:"format,omitempty"`
	Entry   int             `json:"entry,omitempty"`
	Kind    string          `json:"kind,omitempty"`
	Time    *time.Time      `json:"time,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	Done    int             `json:"done,omitempty"`
}

// OpenJournal makes a journal in dir, and dir if need be, readable for this
// user only. The caller must Close it.
func OpenJournal(dir string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the undo journal: %w", err)
	}
	for {
		var name [6]byte
		rand.Read(name[:])
		path := filepath.Join(dir, journalPrefix+hex.EncodeToString(name[:])+journalSuffix)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("make the undo journal: %w", err)
		}
		if err := Lock(f, unix.LOCK_EX); err != nil {
			f.Close()
			os.Remove(path)
			return nil, fmt.Errorf("lock the undo journal %s: %w", path, err)
		}
		if !named(f, path) { // another pgtare looked before there was a lock, and tidied it away
			f.Close()
			continue
		}
		j := &Journal{path: path, file: f}
		err = j.write(journalLine{Journal: "pgtare", Format: journalFormat})
		if err == nil {
			err = syncDir(dir)
		}
		if err != nil {
			j.Close()
			return nil, err
		}
		return j, nil
	}
}

// Begin writes down what must be undone, by its kind and whatever undoing it
// takes, which is kept as JSON. It returns when that is on the disk, so that the
// change may be made. Data must hold no secret.
func (j *Journal) Begin(kind string, data any) (*Entry, error) {
	if kind == "" {
		panic("host: a journal entry without a kind")
	}
	b, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("write %s into the undo journal: %w", kind, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now().UTC()
	if err := j.write(journalLine{Entry: j.last + 1, Kind: kind, Time: &now, Data: b}); err != nil {
		return nil, err
	}
	j.last++
	j.pending++
	return &Entry{journal: j, number: j.last}, nil
}

// Done crosses the entry out: its change has been undone, or was never made. It
// may be called twice.
func (e *Entry) Done() error {
	e.journal.mu.Lock()
	defer e.journal.mu.Unlock()
	if e.done {
		return nil
	}
	if err := e.journal.write(journalLine{Done: e.number}); err != nil {
		return err
	}
	e.done = true
	e.journal.pending--
	return nil
}

// Close lets go of the journal. The file goes if all entries are done; else it
// stays for [Leftover].
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	var err error
	if j.pending == 0 { // under the lock: whoever waits for it sees that the file is gone
		err = os.Remove(j.path)
	}
	err = errors.Join(err, j.file.Close())
	j.file = nil
	if err != nil {
		return fmt.Errorf("close the undo journal: %w", err)
	}
	return nil
}

// write appends a line and syncs it. What could not be written whole is taken
// back, so that the next line doesn't continue it.
func (j *Journal) write(l journalLine) error {
	if j.file == nil {
		return fmt.Errorf("write the undo journal %s: it is closed", j.path)
	}
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("write the undo journal %s: %w", j.path, err)
	}
	b = append(b, '\n')
	if _, err = j.file.WriteAt(b, j.size); err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the undo journal: %w", err), j.file.Truncate(j.size))
	}
	j.size += int64(len(b))
	return nil
}

// NotOurs is the error of undoing what somebody else has changed meanwhile: it is
// left as it is, and there is nothing to try again.
type NotOurs struct{ Msg string }

func (e *NotOurs) Error() string { return e.Msg }

// Leftover returns what processes that are dead left to be undone in dir, in
// the order in which it should be: the latest change first, whosever it was,
// since a later process may have taken for the former state what an earlier one
// had left. What it can't read it leaves where it is and says so in the error,
// beside which the list is good.
func Leftover(dir string) ([]Pending, error) {
	return read(dir, false)
}

// Standing returns all that is to be undone by dir's journals, in the order of
// [Leftover] and without taking it: also what another process has, a living one
// or one that is undoing what a dead one left. own, if not nil, is this process's
// journal and left out.
func Standing(dir string, own *Journal) ([]Pending, error) {
	all, err := read(dir, true)
	if own != nil {
		all = slices.DeleteFunc(all, func(p Pending) bool { return p.File == own.path })
	}
	return all, err
}

func read(dir string, look bool) ([]Pending, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for undo journals: %w", err)
	}
	var all []Pending
	var errs []error
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), journalPrefix) || !strings.HasSuffix(e.Name(), journalSuffix) {
			continue
		}
		pending, err := leftIn(filepath.Join(dir, e.Name()), look)
		all = append(all, pending...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	// Those of one file are in order already, and stay so in the same instant.
	slices.SortStableFunc(all, func(a, b Pending) int { return b.Time.Compare(a.Time) })
	return all, errors.Join(errs...)
}

// leftIn reads one file: a dead process's and takes it, or any and only looks. One
// that was just tidied away holds nothing.
func leftIn(path string, look bool) ([]Pending, error) {
	refuse := func(format string, args ...any) ([]Pending, error) {
		return nil, fmt.Errorf("the undo journal %s is not used: %s; see what it says and remove it", path, fmt.Sprintf(format, args...))
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		return refuse("it belongs to another user, who can undo what it holds")
	case err != nil:
		return refuse("%v", errors.Unwrap(err))
	}
	keep := false
	defer func() {
		if !keep {
			f.Close()
		}
	}()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return refuse("%v", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return refuse("it is no file")
	case int(st.Uid) != os.Geteuid(): // root must not do what somebody else writes down
		return refuse("it belongs to user %d, who can undo what it holds", st.Uid)
	}
	held := false
	if err := Lock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if held = errors.Is(err, unix.EWOULDBLOCK); !held {
			return refuse("it can't be locked: %v", err)
		}
		if !look {
			return nil, nil // alive
		}
	}
	if !named(f, path) {
		return nil, nil
	}
	if err := unix.Fstat(int(f.Fd()), &st); err != nil { // again: its writer may have lived until now
		return refuse("%v", err)
	}
	if st.Size > maxJournal {
		return refuse("it is larger than %d MiB", maxJournal>>20)
	}
	text := make([]byte, st.Size)
	n, err := f.ReadAt(text, 0)
	if err != nil && n < len(text) {
		return refuse("%v", err)
	}
	pending, size, msg := parseJournal(text)
	if msg != "" {
		return refuse("%s", msg)
	}
	if look {
		for i := range pending {
			pending[i].File, pending[i].Held = path, held
		}
		return pending, nil
	}
	if err := f.Truncate(size); err != nil { // without what was never whole
		return refuse("%v", err)
	}
	l := &left{holders: len(pending), journal: Journal{path: path, file: f, size: size, pending: len(pending)}}
	keep = true
	if len(pending) == 0 {
		return nil, l.journal.Close() // which removes it
	}
	for i := range pending {
		pending[i].File, pending[i].left = path, l
	}
	return pending, nil
}

// parseJournal reads the text of a journal: what is not done, the latest
// first, and how much of it is whole. A last line without its end was never
// acted on and doesn't count. msg says what is wrong; "" nothing.
func parseJournal(text []byte) (pending []Pending, size int64, msg string) {
	done := map[int]bool{}
	for number := 1; ; number++ {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole && number == 1 && !bytes.HasPrefix([]byte(journalHeader), line) {
			return nil, 0, "it is no undo journal of pgtare"
		}
		if !whole {
			break
		}
		var l journalLine
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields() // what another version wrote there may be what matters
		err := d.Decode(&l)
		if err == nil && d.More() {
			err = errors.New("more than one value")
		}
		header := number == 1
		switch {
		case header && (err != nil || l.Journal != "pgtare"):
			return nil, 0, "it is no undo journal of pgtare"
		case header && l.Format != journalFormat:
			return nil, 0, fmt.Sprintf("its format %d is not this pgtare's (%d): use the pgtare that wrote it", l.Format, journalFormat)
		case err != nil:
			return nil, 0, fmt.Sprintf("line %d is damaged: %v", number, err)
		case header:
		case l.Entry > 0 && l.Kind != "" && l.Time != nil && l.Data != nil && l.Done == 0:
			if len(pending) >= maxEntries {
				return nil, 0, fmt.Sprintf("it has more than %d entries", maxEntries)
			}
			if n := len(pending); n > 0 && l.Entry <= pending[n-1].number {
				return nil, 0, fmt.Sprintf("line %d is damaged: entry %d after %d", number, l.Entry, pending[n-1].number)
			}
			pending = append(pending, Pending{Kind: l.Kind, Data: l.Data, Time: *l.Time, number: l.Entry})
		case l.Done > 0 && l.Entry == 0 && l.Kind == "":
			done[l.Done] = true
		default:
			return nil, 0, fmt.Sprintf("line %d is damaged: neither an entry nor the end of one", number)
		}
		size += int64(len(line)) + 1
		text = rest
	}
	var open []Pending
	for i := len(pending) - 1; i >= 0; i-- {
		if !done[pending[i].number] {
			open = append(open, pending[i])
		}
	}
	return open, size, ""
}

// Done crosses it out, once it has been undone. With the last one the file
// goes.
func (p *Pending) Done() error {
	if p.left == nil {
		return nil
	}
	l := p.left
	l.mu.Lock()
	defer l.mu.Unlock()
	p.left = nil
	err := l.journal.write(journalLine{Done: p.number})
	if err == nil {
		l.journal.pending--
	}
	return errors.Join(err, l.release())
}

// Release leaves it for a later [Leftover], of whatever process.
func (p *Pending) Release() error {
	if p.left == nil {
		return nil
	}
	l := p.left
	l.mu.Lock()
	defer l.mu.Unlock()
	p.left = nil
	return l.release()
}

// release closes the file when nobody holds a part of it any more.
func (l *left) release() error {
	if l.holders--; l.holders > 0 {
		return nil
	}
	return l.journal.Close()
}

// Lock is flock(2) of an open file, LOCK_EX, say, and begun again where a signal
// cut it short. The lock is the process's until it closes the file or ends,
// however it ends. With LOCK_NB the error of a lock that another has is
// EWOULDBLOCK.
func Lock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			return err
		}
	}
}

// named tells whether an open file still has its name.
func named(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	err = d.Sync()
	if err = errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
