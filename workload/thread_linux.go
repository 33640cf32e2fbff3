package workload

import (
	"fmt"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// thread is a job thread: a goroutine that keeps its OS thread for itself.
type thread struct {
	worker
	share   *share // of the slice that runs
	events  [64]unix.EpollEvent
	arrived []byte         // what the ring has received for the client that advances
	receive [64 << 10]byte // one buffer for all clients of all cells

	index     int
	jobs      chan *share   // a slice to run; closed: end
	done      chan struct{} // the slice is over
	ticker    int           // a timer's descriptor, in every epoll; runs during slices
	schedstat int           // of this thread, open; -1: the kernel doesn't tell
	stat      [96]byte
}

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
	for s := range t.jobs {
		t.slice(s)
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

// slice runs one slice for the clients of a share.
func (t *thread) slice(s *share) {
	t.share = s
	used, wait := t.cpu()
	t.begin(&s.part)
	t.setTicker(tickEvery)
	t.drive()
	if s.g.single && s.err == nil {
		t.commit()
		t.drive()
	}
	t.setTicker(0)
	t.flush()
	u, w := t.cpu()
	s.cpu, s.wait = difference(used, u), difference(wait, w)
	t.share, t.p, t.shared = nil, nil, nil
	if s.err != nil {
		s.g.shared.stop.Store(true)
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
	if t.share.ring != nil {
		t.driveRing()
		return
	}
	for _, c := range t.share.sockets {
		c.advance(t)
	}
	for t.running > 0 && t.p.err == nil {
		n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(t.share.epoll), uintptr(unsafe.Pointer(&t.events[0])), uintptr(len(t.events)), forever, 0, 0)
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
			c := t.share.sockets[e.Fd]
			c.hangup = e.Events&(unix.EPOLLHUP|unix.EPOLLRDHUP|unix.EPOLLERR) != 0
			c.advance(t)
		}
	}
}

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
