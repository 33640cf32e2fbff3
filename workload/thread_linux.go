package workload

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// thread is a job thread: a goroutine that keeps its OS thread for itself.
type thread struct {
	// The slice that runs. What each transaction touches stands together.
	p         *part
	shared    *shared
	openedAt  int64
	length    int64 // of the window, ns; 0: the slice's Count decides
	tickAt    int64 // when to look whether the slice must be given up
	running   int   // clients that still have something to do
	steps     int   // see goesOn
	waiting   int   // latencies kept back
	own       bool  // clients have windows of their own
	keeping   bool  // latencies are wanted
	open      bool  // the window has opened; set late, by looking at shared.opened
	base      time.Time
	now       func() int64 // instead of the monotonic clock; nil: that
	events    [64]unix.EpollEvent
	latencies [512]int64
	arrived   []byte         // what the ring has received for the client that advances
	receive   [64 << 10]byte // one buffer for all clients of all cells

	index     int
	jobs      chan *part    // a slice to run; closed: end
	done      chan struct{} // the slice is over
	ticker    int           // a timer's descriptor, in every epoll; runs during slices
	schedstat int           // of this thread, open; -1: the kernel doesn't tell
	stat      [96]byte
}

// tally is what a thread has counted in a slice. It lies in the part and not
// in the thread, so that Run can read it after done.
type tally struct {
	n, all        int64
	t             int64 // own windows: their sum
	started, last int64
	// The thread's first completion at or after the deadline of the window that
	// all clients share: the earliest of all threads' ends the window.
	after         int64 // when; 0: none
	afterLatency  int64
	afterFailed   bool
	begin, commit int64 // sums over the clients
	cpu, wait     int64 // -1: not known
	failures      []failure
	err           error
}

// failure counts the transactions that failed with one SQLSTATE.
type failure struct {
	sqlstate [5]byte
	n        int64
}

// errStopped says that a thread let go because shared.stop was set.
var errStopped = errors.New("stopped")

// main is the thread's life.
func (t *thread) main(cpus []int, started chan<- error) {
	// Never unlocked: the OS thread ends with the goroutine and takes its
	// affinity with it.
	runtime.LockOSThread()
	if cpus != nil {
		var set unix.CPUSet
		for _, cpu := range cpus {
			set.Set(cpu)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			started <- fmt.Errorf("pin it to CPUs %v: %w", cpus, err)
			return
		}
	}
	var err error
	if t.ticker, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		started <- fmt.Errorf("create a timer: %w", err)
		return
	}
	if t.schedstat, err = unix.Open("/proc/thread-self/schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		t.schedstat = -1 // this kernel keeps no such statistics
	}
	started <- nil
	for p := range t.jobs {
		t.slice(p)
		t.done <- struct{}{}
	}
	unix.Close(t.ticker)
	if t.schedstat >= 0 {
		unix.Close(t.schedstat)
	}
	t.done <- struct{}{}
}

// end lets the thread end, and waits for it.
func (t *thread) end() {
	close(t.jobs)
	<-t.done
}

// clock returns ns since the threads' common zero, never 0 in a slice. It reads
// the monotonic clock, without a system call where the kernel's clock source
// allows.
func (t *thread) clock() int64 {
	if t.now != nil {
		return t.now()
	}
	return int64(time.Since(t.base))
}

// cpu returns the CPU time that this thread has used, and how long it was
// runnable without running; -1: not known.
func (t *thread) cpu() (used, wait int64) {
	used, wait = -1, -1
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) == nil {
		used = ts.Nano()
	}
	if t.schedstat < 0 {
		return used, wait
	}
	// Its first number would be the CPU time too, but as of the last tick.
	n, err := unix.Pread(t.schedstat, t.stat[:], 0)
	if err != nil {
		return used, wait
	}
	field := 0
	for _, c := range t.stat[:n] {
		switch {
		case c == ' ':
			field++
		case field == 1:
			wait = max(wait, 0)*10 + int64(c-'0')
		}
	}
	return used, wait
}

// slice runs one slice for the part's clients.
func (t *thread) slice(p *part) {
	s := &p.g.shared.slice
	t.p, t.shared = p, &p.g.shared
	t.own = s.ownWindows(t.shared.clients)
	t.length = int64(s.Length)
	if s.Count > 0 {
		t.length = 0
	}
	t.keeping = s.Histogram != nil
	t.open, t.openedAt = false, 0
	p.tally = tally{failures: p.failures[:0]}
	used, wait := t.cpu()

	now := t.clock()
	p.started = now
	t.tickAt = now + tickEvery.Nanoseconds()
	for _, c := range p.clients {
		c.begin(t, now)
	}
	t.running = len(p.clients)
	t.setTicker(tickEvery)
	t.drive()
	if p.g.single && p.err == nil {
		t.running = len(p.clients)
		now := t.clock()
		for _, c := range p.clients {
			c.began = now
			c.send(requestCommit, commitMessage)
		}
		t.drive()
	}

	t.setTicker(0)
	t.flush()
	u, w := t.cpu()
	p.cpu, p.wait = difference(used, u), difference(wait, w)
	t.p, t.shared = nil, nil
	if p.err != nil {
		p.g.shared.stop.Store(true)
	}
}

func difference(from, to int64) int64 {
	if from < 0 || to < 0 {
		return -1
	}
	return to - from
}

// drive lets the clients go on until none has anything to do, or one fails.
//
// Note: the system calls on this path are raw: the runtime is not told that
// the thread is in the kernel. Sockets don't block, so only epoll_wait and
// io_uring_enter wait.
// That is safe because nothing here can hold the rest of the program up: NewWire
// has added a processor for each job thread, and when the runtime wants the
// thread (to stop the world; or because it has run for 10 ms, for so it seems)
// it sends signals until it has it. epoll_wait ends with EINTR at a signal
// whatever SA_RESTART says (signal(7)), and interrupted then yields. With
// asynchronous preemption switched off (GODEBUG=asyncpreemptoff=1) the thread's
// timer, tickEvery, bounds the wait. Measured on one CPU, 11 runs of
// 1 s in turn on a loaded machine, medians against this: all calls through
// Syscall 1.5 and 1.1 times the CPU per transaction with 1 and 8 clients, 2.1
// and 1.6 times the user CPU; epoll_wait alone through it 1.3 and 1.2 times the
// CPU.
//
// Note: a single client could do without epoll: send, and a recv that waits,
// two system calls in place of three. On Unix sockets that is slower by a
// sixth, with a fifth more CPU (10.1 against 8.2 us, a bare C loop): a sleeper
// in recv is also woken when the server takes the command off the socket, since
// that makes room to write, and finds nothing: 1.7 switches of context per
// transaction. epoll filters that out. Over TCP there was no difference.
func (t *thread) drive() {
	if t.p.ring != nil {
		t.driveRing()
		return
	}
	for _, c := range t.p.clients {
		c.advance(t)
	}
	for t.running > 0 && t.p.err == nil {
		n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_WAIT, uintptr(t.p.epoll), uintptr(unsafe.Pointer(&t.events[0])), uintptr(len(t.events)), forever, 0, 0)
		if errno != 0 {
			if errno == unix.EINTR {
				if !t.interrupted() {
					return
				}
				continue
			}
			t.fail(fmt.Errorf("wait for the server: %w", errno))
			return
		}
		for i := range t.events[:n] {
			e := &t.events[i]
			if e.Fd == eventTick {
				t.tick(t.clock())
				continue
			}
			c := t.p.clients[e.Fd]
			c.hangup = e.Events&(unix.EPOLLHUP|unix.EPOLLRDHUP|unix.EPOLLERR) != 0
			c.advance(t)
		}
	}
}

// tickEvery is how often a thread looks up from its work: has the slice been
// cancelled, has the server been silent for too long?
const tickEvery = 50 * time.Millisecond

// interrupted is called when a signal ended a system call: the runtime's, that
// asks for this thread, or another. The thread yields by calling it: the
// runtime looks for that where a function begins, and this one must have such a
// beginning of its own. It says whether the slice goes on.
//
//go:noinline
func (t *thread) interrupted() bool {
	if now := t.clock(); now >= t.tickAt {
		t.tick(now)
	}
	return t.p.err == nil
}

// setTicker starts the thread's timer, or stops it. Its expiry ends epoll_wait.
//
// Note: a time-out of epoll_wait itself sets up and removes a timer at each
// call, which took 1.1 us of 11 per transaction.
func (t *thread) setTicker(every time.Duration) {
	interval := unix.NsecToTimespec(every.Nanoseconds())
	if err := unix.TimerfdSettime(t.ticker, 0, &unix.ItimerSpec{Interval: interval, Value: interval}, nil); err != nil {
		panic(fmt.Sprintf("workload: the timer of job thread %d can't be set: %v", t.index, err))
	}
}

func (t *thread) tick(now int64) {
	t.tickAt = now + tickEvery.Nanoseconds()
	if t.shared.stop.Load() {
		t.fail(errStopped)
		return
	}
	t.look()
	grace := t.shared.slice.Grace.Nanoseconds()
	for _, c := range t.p.clients {
		if c.state == stateIdle {
			continue
		}
		// Before the window opens, and where a number of transactions is asked
		// for, there is no deadline: each transaction has its own.
		limit := c.began + grace
		switch {
		case t.length == 0:
		case t.open:
			limit = max(limit, t.openedAt+t.length+grace)
		default:
			limit += t.length
		}
		if now > limit {
			t.fail(fmt.Errorf("client %d waits since %v: %w", c.index, time.Duration(now-c.began).Round(time.Millisecond), ErrGrace))
			return
		}
	}
}

// goesOn counts what happens between the ends of transactions, and looks at the
// clock now and then: results may have no end, and scripts many commands. It
// says whether the slice goes on.
func (t *thread) goesOn() bool {
	if t.steps++; t.steps%64 == 0 {
		if now := t.clock(); now >= t.tickAt {
			t.tick(now)
		}
	}
	return t.p.err == nil
}

func (t *thread) fail(err error) {
	if t.p.err == nil {
		t.p.err = err
	}
}

// look finds out whether the window has opened meanwhile.
func (t *thread) look() {
	if !t.open {
		t.openedAt = t.shared.opened.Load()
		t.open = t.openedAt != 0
	}
}

// passHead says that one more client is past its head. The last one of all
// threads opens the window.
func (t *thread) passHead(now int64) {
	if t.shared.past.Add(1) == int64(t.shared.clients) {
		t.shared.opened.Store(now)
	}
}

// keep notes a latency.
func (t *thread) keep(ns int64) {
	if t.waiting == len(t.latencies) {
		t.flush()
	}
	t.latencies[t.waiting] = ns
	t.waiting++
}

// flush takes the noted latencies over into the slice's histogram, which all
// threads share: hence a lock, once in many transactions.
func (t *thread) flush() {
	if t.waiting == 0 {
		return
	}
	t.shared.histogram.Lock()
	record(t.shared.slice.Histogram, t.latencies[:t.waiting])
	t.shared.histogram.Unlock()
	t.waiting = 0
}

// count notes a failed transaction.
func (p *part) count(sqlstate [5]byte) {
	for i := range p.failures {
		if p.failures[i].sqlstate == sqlstate {
			p.failures[i].n++
			return
		}
	}
	p.failures = append(p.failures, failure{sqlstate, 1})
}

// lost is the error of a connection that came to an end.
func (c *client) lost(err error) *LostError {
	e := &LostError{Client: c.index, SQLState: c.last.sqlstate, Message: c.last.message, Err: err}
	switch {
	case e.Message != "":
	case c.broken != "":
		e.Message = "what the server sends is not its protocol: " + c.broken
	case err == io.EOF || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET):
		e.Message = "the server closed it without a word"
	}
	return e
}
