package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clocksourceDir is where Linux shows the clock sources.
const clocksourceDir = "/sys/devices/system/clocksource/clocksource0"

// Clocksources returns the clock source that the kernel uses and those that it
// offers. The error says where there is nothing to be seen.
func Clocksources() (current string, offered []string, err error) {
	return clocksources(clocksourceDir)
}

func clocksources(dir string) (current string, offered []string, err error) {
	current = line(filepath.Join(dir, "current_clocksource"))
	offered = strings.Fields(line(filepath.Join(dir, "available_clocksource")))
	if current == "" || len(offered) == 0 {
		return "", nil, fmt.Errorf("the kernel shows no clock sources in %s: no Linux, or a container that hides them", dir)
	}
	return current, offered, nil
}

// ClocksourceKind is the kind of the journal's entries about the clock source.
const ClocksourceKind = "clocksource"

// clocksourceEntry is the data of such an entry.
type clocksourceEntry struct {
	Before  string   `json:"before"`
	Sources []string `json:"sources"` // that were to be set
	Boot    string   `json:"boot"`    // the kernel chooses anew when it starts
}

// ClockSwitch is the right to switch the machine's clock source, which one
// process can have at a time. It is for one goroutine.
type ClockSwitch struct {
	dir     string
	file    *os.File // current_clocksource, locked; nil: closed
	sources []string
	before  string
	current string // "" after an error of Set
	spent   time.Duration
	entry   *Entry
}

// CheckClocksources says why the kernel's clock source can't be switched among
// these by this process; nil: it can. It changes nothing.
func CheckClocksources(sources []string) error {
	return checkClocksources(clocksourceDir, sources)
}

func checkClocksources(dir string, sources []string) error {
	_, offered, err := clocksources(dir)
	if err != nil {
		return err
	}
	for _, s := range sources {
		if !slices.Contains(offered, s) {
			return fmt.Errorf("this kernel does not offer the clock source %q; it offers %s", s, strings.Join(offered, ", "))
		}
	}
	switch err := unix.Faccessat(unix.AT_FDCWD, filepath.Join(dir, "current_clocksource"), unix.W_OK, unix.AT_EACCESS); {
	case err == nil:
		return nil
	case os.Geteuid() != 0:
		return errors.New("only root may switch the clock source: run pgtare as root (sudo pgtare ...); the servers that it starts run as another user all the same")
	default:
		return fmt.Errorf("root may not switch the clock source here (%w): a container, perhaps; run pgtare on the host", err)
	}
}

// OpenClockSwitch takes the right to switch among these sources, and writes
// the source that is in use into the journal. Close puts it back.
func OpenClockSwitch(sources []string, j *Journal) (*ClockSwitch, error) {
	return openClockSwitch(clocksourceDir, sources, j)
}

func openClockSwitch(dir string, sources []string, j *Journal) (*ClockSwitch, error) {
	if err := checkClocksources(dir, sources); err != nil {
		return nil, err
	}
	f, err := lockClock(dir)
	if err != nil {
		return nil, err
	}
	s := &ClockSwitch{dir: dir, file: f, sources: sources}
	if s.before, _, err = clocksources(dir); err == nil { // under the lock
		s.current = s.before
		s.entry, err = j.Begin(ClocksourceKind, clocksourceEntry{Before: s.before, Sources: sources, Boot: BootID()})
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// lockClock opens the kernel's file for writing and locks it: the lock needs no
// file of its own, and whoever can switch can see it.
func lockClock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "current_clocksource"), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("switch the clock source: %w", err)
	}
	if err := Lock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.New("another pgtare is switching this machine's clock source; wait for its end")
		}
		return nil, fmt.Errorf("lock the clock source: %w", err)
	}
	return f, nil
}

// Spent is the time that switching has taken so far, in which every CPU was
// busy standing still.
func (s *ClockSwitch) Spent() time.Duration { return s.spent }

// Set switches to a source, if another is in use. All CPUs stand still
// meanwhile: 0.2 to 2 ms were seen.
func (s *ClockSwitch) Set(source string) error {
	if source == s.current {
		return nil
	}
	s.current = "" // whatever it is, if this fails
	began := time.Now()
	defer func() { s.spent += time.Since(began) }()
	if err := setClocksource(s.file, source); err != nil {
		return err
	}
	s.current = source
	return nil
}

// SetAnew is Set that switches in any case where there is more than one source:
// to another and back, if the source is in use already. So whatever a switch
// leaves behind, it leaves behind it always.
func (s *ClockSwitch) SetAnew(source string) error {
	if i := slices.IndexFunc(s.sources, func(other string) bool { return other != source }); i >= 0 && source == s.current {
		if err := s.Set(s.sources[i]); err != nil {
			return err
		}
	}
	return s.Set(source)
}

// setClocksource writes a source into the kernel's file. Instead of one that
// the kernel doesn't know, or doesn't want by now, it takes the one that it
// likes best, without a word: so it is read back.
func setClocksource(f *os.File, source string) error {
	if _, err := f.WriteAt([]byte(source+"\n"), 0); err != nil {
		return fmt.Errorf("switch the clock source to %s: %w", source, err)
	}
	var buf [64]byte
	n, err := f.ReadAt(buf[:], 0)
	if n == 0 && err != nil {
		return fmt.Errorf("read the clock source back: %w", err)
	}
	if now := strings.TrimSpace(string(buf[:n])); now != source {
		return fmt.Errorf("switch the clock source to %s: the kernel took %s; it may have found %[1]s unstable (see dmesg)", source, now)
	}
	return nil
}

// Close puts back what was in use at first. It may be called twice. An error
// leaves the journal's entry for `pgtare restore`.
func (s *ClockSwitch) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.Set(s.before)
	if err == nil {
		err = s.entry.Done()
	}
	s.file.Close()
	s.file = nil
	if err != nil {
		return fmt.Errorf("put the clock source back: %w", err)
	}
	return nil
}

// UndoClocksource puts the clock source back that a dead process has left
// switched, by the data of its journal's entry, and says what it did. The error
// is a [*NotOurs] where somebody else has set another one meanwhile.
func UndoClocksource(data json.RawMessage) (did string, err error) {
	return undoClocksource(clocksourceDir, data)
}

func undoClocksource(dir string, data json.RawMessage) (did string, err error) {
	var e clocksourceEntry
	if err := json.Unmarshal(data, &e); err != nil || e.Before == "" {
		return "", errors.New("put the clock source back: the journal's entry does not say which it was")
	}
	if boot := BootID(); e.Boot != boot {
		return fmt.Sprintf("the machine was started anew since the clock source was switched (it was %s): nothing to put back", e.Before), nil
	}
	if err := checkClocksources(dir, nil); err != nil {
		return "", fmt.Errorf("put the clock source back to %s: %w", e.Before, err)
	}
	// First the lock: what is in use while another pgtare switches says nothing.
	f, err := lockClock(dir)
	if err != nil {
		return "", fmt.Errorf("put the clock source back to %s: %w", e.Before, err)
	}
	defer f.Close()
	now, offered, err := clocksources(dir)
	switch {
	case err != nil:
		return "", err
	case now == e.Before:
		return fmt.Sprintf("the clock source is %s, as it was", now), nil
	case !slices.Contains(e.Sources, now):
		return "", &NotOurs{fmt.Sprintf("the clock source is %s, which this pgtare has not set: left as it is (it was %s)", now, e.Before)}
	case !slices.Contains(offered, e.Before): // it never does again
		return fmt.Sprintf("the clock source was %s, which this kernel no longer offers: left at %s", e.Before, now), nil
	}
	if err := setClocksource(f, e.Before); err != nil {
		return "", err
	}
	return fmt.Sprintf("put the clock source back from %s to %s", now, e.Before), nil
}
