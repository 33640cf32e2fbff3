package host

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Proc reads the counters of one process (of its first thread, which is all
// there is of a PostgreSQL process) or of one thread, by its TID. Its open
// files belong to that process and not to its number, so a reused PID is never
// read by mistake. It is not for several goroutines at once.
type Proc struct {
	pid   int
	dir   int // /proc/PID
	sched int // /proc/PID/schedstat
	buf   [4096]byte
}

// OpenProc opens the counters of pid. It fails where there is no such process,
// or the kernel keeps no schedstat.
func OpenProc(pid int) (*Proc, error) {
	p := &Proc{pid: pid}
	var err error
	if p.dir, err = unix.Open(fmt.Sprintf("/proc/%d", pid), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open the counters of process %d: %w", pid, err)
	}
	if p.sched, err = unix.Openat(p.dir, "schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		unix.Close(p.dir)
		return nil, fmt.Errorf("open the counters of process %d: schedstat: %w", pid, err)
	}
	return p, nil
}

var errCounters = errors.New("not the format that is known")

// CPU returns the time that the process has run, and the time that it was
// ready to run and had to wait for a CPU. Both are exact for a process that
// sleeps; of one that runs, the kernel adds at its next tick or switch. It
// fails once the process has ended.
func (p *Proc) CPU() (run, wait time.Duration, err error) {
	n, err := pread(p.sched, p.buf[:])
	if err != nil {
		return 0, 0, fmt.Errorf("read the CPU time of process %d: %w", p.pid, err)
	}
	r, rest, ok1 := leadingNumber(p.buf[:n])
	w, _, ok2 := leadingNumber(rest)
	if !ok1 || !ok2 {
		return 0, 0, fmt.Errorf("read the CPU time of process %d: %w", p.pid, errCounters)
	}
	return time.Duration(r), time.Duration(w), nil
}

// Faults returns how many page faults the process has had that needed no I/O.
func (p *Proc) Faults() (minor int64, err error) {
	b, err := p.read("stat")
	if err != nil {
		return 0, fmt.Errorf("read the page faults of process %d: %w", p.pid, err)
	}
	s, ok := parseStat(b)
	if !ok {
		return 0, fmt.Errorf("read the page faults of process %d: %w", p.pid, errCounters)
	}
	return s.MinorFaults, nil
}

// Switches returns how often the process was taken off its CPU against its
// will.
func (p *Proc) Switches() (involuntary int64, err error) {
	n, err := p.keyed("status", "\nnonvoluntary_ctxt_switches")
	if err != nil {
		return 0, fmt.Errorf("read the switches of process %d: %w", p.pid, err)
	}
	return n, nil
}

// Moves returns how often the scheduler has moved the process from one CPU to
// another. It fails where the kernel doesn't tell (it was built without
// CONFIG_SCHED_DEBUG).
func (p *Proc) Moves() (int64, error) {
	n, err := p.keyed("sched", "\nse.nr_migrations")
	if err != nil {
		return 0, fmt.Errorf("read the moves of process %d: %w", p.pid, err)
	}
	return n, nil
}

// BytesRead returns how many bytes the process has read from files, from the
// system's cache as from the disk (rchar of proc(5); sockets don't count).
func (p *Proc) BytesRead() (int64, error) {
	n, err := p.keyed("io", "rchar")
	if err != nil {
		return 0, fmt.Errorf("read the I/O of process %d: %w", p.pid, err)
	}
	return n, nil
}

// BytesWritten returns how many bytes the process has written to files, whether
// they have reached the disk or not (wchar of proc(5)).
func (p *Proc) BytesWritten() (int64, error) {
	n, err := p.keyed("io", "wchar")
	if err != nil {
		return 0, fmt.Errorf("read the I/O of process %d: %w", p.pid, err)
	}
	return n, nil
}

// keyed returns the number that follows a key, blanks and a colon in a file of
// the process.
func (p *Proc) keyed(name, key string) (int64, error) {
	b, err := p.read(name)
	if err != nil {
		return 0, err
	}
	_, b, _ = bytes.Cut(b, []byte(key)) // nothing where the key isn't there
	n, _, ok := leadingNumber(bytes.TrimLeft(b, " \t:"))
	if !ok {
		return 0, errCounters
	}
	return n, nil
}

// Close closes the files. It may be called twice.
func (p *Proc) Close() {
	if p.dir >= 0 {
		unix.Close(p.sched)
		unix.Close(p.dir)
		p.dir, p.sched = -1, -1
	}
}

// read opens, reads and closes a file of the process: these are read once in a
// generation, and a file descriptor each for some hundred backends would cost
// more than it saves.
func (p *Proc) read(name string) ([]byte, error) {
	fd, err := unix.Openat(p.dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := pread(fd, p.buf[:])
	return p.buf[:n], err
}

func pread(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Pread(fd, b, 0)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// leadingNumber reads a decimal number after blanks.
func leadingNumber(b []byte) (n int64, rest []byte, ok bool) {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	for ; i < len(b) && '0' <= b[i] && b[i] <= '9'; i++ {
		n, ok = n*10+int64(b[i]-'0'), true
	}
	return n, b[i:], ok
}
