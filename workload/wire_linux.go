package workload

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"
)

// Wire is the engine that speaks to the server over plain sockets. Its job
// threads exist once and serve all generations; one slice runs at a time.
// It is a [Driver].
type Wire struct {
	threads []*thread
	ring    int        // WireConfig.RingFrom as it is meant; -1: never
	running sync.Mutex // held during a slice
	open    int        // generations; under running
}

// NewWire starts the job threads. Until Close they count on top of GOMAXPROCS:
// a thread that waits in a raw system call keeps its processor (in the Go
// scheduler's sense), which the rest of the program must not miss.
func NewWire(c WireConfig) (*Wire, error) {
	if c.Threads < 0 {
		panic(fmt.Sprintf("workload: WireConfig.Threads is %d", c.Threads))
	}
	w := &Wire{ring: c.RingFrom}
	if w.ring == 0 {
		w.ring = ringFrom
	}
	// Once for all generations: equal cells must be served alike.
	if w.ring > 0 && !ringsWork() {
		w.ring = -1
	}
	n := max(c.Threads, 1)
	base := time.Now()
	for i := range n {
		t := &thread{worker: worker{base: base, now: c.Clock}, index: i, jobs: make(chan *share), done: make(chan struct{})}
		started := make(chan error)
		go t.main(c.CPUs, started)
		if err := <-started; err != nil {
			for _, t := range w.threads {
				t.end()
			}
			return nil, fmt.Errorf("start job thread %d: %w", i, err)
		}
		w.threads = append(w.threads, t)
	}
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
	return w, nil
}

// Close ends the job threads and takes them off GOMAXPROCS.
func (w *Wire) Close() error {
	w.running.Lock()
	defer w.running.Unlock()
	if w.open != 0 {
		panic(fmt.Sprintf("workload: Wire.Close with %d generations open", w.open))
	}
	for _, t := range w.threads {
		t.end()
	}
	if n := len(w.threads); n > 0 {
		runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0)-n, 1))
		w.threads = nil
	}
	return nil
}

// wireGeneration is one cell's clients: a [Generation].
type wireGeneration struct {
	generation
	wire   *Wire
	shares []*share // the clients by thread; threads without a client have none
}

// share is the part of one thread in a generation.
type share struct {
	part
	thread  *thread
	sockets []*socket // the part's clients
	// epoll watches these clients and no others, so that whatever happens on
	// idle connections of other cells (a notice, a parameter's new value after
	// a reload) costs this one nothing.
	epoll int
	ring  *ring // in place of the epoll; nil: none
}

// Open connects the clients one after the other, client i for thread i mod j.
// An encrypted connection is refused.
func (w *Wire) Open(ctx context.Context, spec GenerationSpec) (Generation, error) {
	g := &wireGeneration{wire: w}
	if err := g.prepare(spec); err != nil {
		return nil, err
	}
	for i := range min(len(w.threads), spec.Clients) {
		s := &share{part: part{g: &g.generation}, thread: w.threads[i], epoll: -1}
		g.shares, g.parts = append(g.shares, s), append(g.parts, &s.part)
	}
	w.running.Lock()
	w.open++
	w.running.Unlock()
	for i := range spec.Clients {
		s := g.shares[i%len(g.shares)]
		if err := connect(ctx, spec, func(conn *pgconn.PgConn) error { return g.takeOver(s, conn) }); err != nil {
			g.Close()
			return nil, fmt.Errorf("connect client %d: %w", i, err)
		}
	}
	for _, s := range g.shares {
		if err := s.watch(w.Ring(spec.Clients)); err != nil {
			g.Close()
			return nil, err
		}
	}
	return g, nil
}

// takeOver makes a connection the next client, of s.
func (g *wireGeneration) takeOver(s *share, conn *pgconn.PgConn) error {
	plain, ok := conn.Conn().(syscall.Conn)
	if !ok {
		return errors.New("the connection is encrypted, and this engine speaks over plain sockets only: use the engine net, or connect with sslmode=disable or over a Unix socket")
	}
	raw, err := plain.SyscallConn()
	if err != nil {
		return fmt.Errorf("take the socket over: %w", err)
	}
	// A duplicate of the descriptor and a close of Go's own: so the runtime's
	// poller lets go of the socket.
	fd := -1
	var dup error
	if err := raw.Control(func(own uintptr) { fd, dup = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return fmt.Errorf("take the socket over: %w", err)
	}
	if dup != nil {
		return fmt.Errorf("take the socket over: %w", dup)
	}
	hijacked, err := conn.Hijack()
	if err == nil {
		err = unix.SetNonblock(fd, true) // as Go has it already, unless a DialFunc of the caller's thinks otherwise
	}
	if err != nil {
		unix.Close(fd)
		return fmt.Errorf("take the socket over: %w", err)
	}
	hijacked.Conn.Close()
	c := &socket{fd: fd, place: len(s.sockets)}
	s.sockets = append(s.sockets, c)
	g.join(&c.client, &s.part, conn, hijacked.PID)
	return nil
}

// Ring says whether generations of so many clients are served through io_uring,
// which must be stated beside their figures; otherwise through epoll.
func (w *Wire) Ring(clients int) bool {
	return w.ring > 0 && clients >= w.ring*len(w.threads) && clients <= ringTo*len(w.threads)
}

// Serves is wire/io_uring or wire/epoll: see Ring.
func (w *Wire) Serves(clients int) string {
	if w.Ring(clients) {
		return "wire/io_uring"
	}
	return "wire/epoll"
}

// watch makes the share's ring or epoll.
func (s *share) watch(ring bool) error {
	var err error
	if ring {
		s.ring, err = newRing(s.thread.ticker, s.sockets)
		return err
	}
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		s.epoll = -1
		return fmt.Errorf("create an epoll: %w", err)
	}
	if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, s.thread.ticker, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: eventTick}); err != nil {
		return fmt.Errorf("add the timer to the epoll: %w", err)
	}
	for i, c := range s.sockets {
		if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, c.fd, &unix.EpollEvent{Events: eventsIn, Fd: int32(i)}); err != nil {
			return fmt.Errorf("add client %d to the epoll: %w", c.index, err)
		}
	}
	return nil
}

// Run implements [Generation].
func (g *wireGeneration) Run(ctx context.Context, s Slice) (Result, error) {
	g.wire.running.Lock()
	defer g.wire.running.Unlock()
	return g.run(ctx, s, func() {
		for _, s := range g.shares {
			s.thread.jobs <- s
		}
		for _, s := range g.shares {
			<-s.thread.done
		}
	}, nil)
}

// Close ends the sessions and waits for the backends to be gone, one second at
// most: what a backend does when it ends must not fall into the next slice,
// and the next generation may need its place. After a slice that failed, what
// still runs on the server is cancelled first, in another second.
func (g *wireGeneration) Close() error {
	for _, s := range g.shares {
		if s.ring != nil { // first: it must not take the sockets' ends
			s.ring.close()
			s.ring = nil
		}
	}
	g.cancel()
	deadline := time.Now().Add(time.Second)
	for _, s := range g.shares {
		for _, c := range s.sockets {
			_, _ = unix.SendmsgN(c.fd, terminateMessage, nil, nil, unix.MSG_NOSIGNAL)
		}
	}
	var buf [4096]byte
	for _, s := range g.shares {
		for _, c := range s.sockets {
			if !errors.Is(g.broken, ErrGrace) {
				c.awaitEnd(deadline, buf[:])
			}
			unix.Close(c.fd)
		}
		if s.epoll >= 0 {
			unix.Close(s.epoll)
		}
	}
	if g.shares != nil {
		g.wire.running.Lock()
		g.wire.open--
		g.wire.running.Unlock()
	}
	g.clients, g.parts, g.shares = nil, nil, nil
	return nil
}

// awaitEnd reads until the server has closed the connection, which a backend's
// end does, or the deadline.
func (c *socket) awaitEnd(deadline time.Time, buf []byte) {
	for {
		n, err := unix.Read(c.fd, buf)
		if n == 0 && err == nil || err != nil && err != unix.EAGAIN && err != unix.EINTR {
			return
		}
		left := time.Until(deadline)
		if left <= 0 {
			return
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
	}
}
