package workload

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"
)

// WireConfig says what the wire engine's job threads are.
type WireConfig struct {
	Threads int   // how many, as pgbench's -j; 0 means 1
	CPUs    []int // the CPUs that they may run on; nil: not pinned
	// RingFrom is from how many clients per job thread on they are served
	// through io_uring, where the system has it; 0 means 16, -1 never.
	RingFrom int
	// Clock is what the threads read, in ns from a zero in the past; nil: the
	// monotonic clock. Another one keeps the cost of reading equal where the
	// kernel's clock source differs between cells.
	Clock func() int64
}

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
		t := &thread{index: i, base: base, now: c.Clock, jobs: make(chan *part), done: make(chan struct{})}
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

// generation is one cell's clients: a [Generation].
type generation struct {
	wire     *Wire
	single   bool // single-transaction mode
	between  byte // status of a session between two transactions
	commands []command
	repair   []byte // what brings it back there
	copyFail []byte
	clients  []*client
	parts    []*part // the clients by thread; threads without a client have none
	broken   error   // of the slice that failed

	shared shared
}

// shared is what the threads of one slice have in common.
type shared struct {
	slice   Slice
	clients int

	past   atomic.Int64 // clients that are past their heads
	opened atomic.Int64 // when the window opened; 0: not yet
	ended  atomic.Int64 // clients whose own window is over (slices with own windows)
	stop   atomic.Bool  // a thread failed, or the context ended: let go of everything

	histogram sync.Mutex // for taking the latencies over
}

// part is the share of one thread in a generation.
type part struct {
	g       *generation
	thread  *thread
	clients []*client
	// epoll watches these clients and no others, so that whatever happens on
	// idle connections of other cells (a notice, a parameter's new value after
	// a reload) costs this one nothing.
	epoll int
	ring  *ring // in place of the epoll; nil: none

	tally
}

// Open connects the clients one after the other, client i for thread i mod j.
func (w *Wire) Open(ctx context.Context, spec GenerationSpec) (Generation, error) {
	if spec.Clients < 1 {
		panic(fmt.Sprintf("workload: GenerationSpec.Clients is %d", spec.Clients))
	}
	g := &generation{wire: w, single: spec.SingleTransaction, between: 'I', repair: rollbackMessage, copyFail: copyFailMessage}
	if g.single {
		g.between, g.repair = 'T', restartMessage
	}
	if spec.Protocol != Simple {
		g.copyFail = copyFailSyncMessage
	}
	var err error
	if g.commands, err = encode(spec.Script, spec.Vars, spec.Protocol); err != nil {
		return nil, err
	}
	g.shared.clients = spec.Clients
	for i := range min(len(w.threads), spec.Clients) {
		g.parts = append(g.parts, &part{g: g, thread: w.threads[i], epoll: -1})
	}
	w.running.Lock()
	w.open++
	w.running.Unlock()
	for i := range spec.Clients {
		c, err := connect(ctx, spec)
		if err != nil {
			g.Close()
			return nil, fmt.Errorf("connect client %d: %w", i, err)
		}
		c.index = i
		c.prepared = make([]bool, len(g.commands))
		g.clients = append(g.clients, c)
		p := g.parts[i%len(g.parts)]
		c.place = len(p.clients)
		p.clients = append(p.clients, c)
	}
	for _, p := range g.parts {
		if err := p.watch(g.wire.Ring(spec.Clients)); err != nil {
			g.Close()
			return nil, err
		}
	}
	return g, nil
}

// connect opens one connection through pgx, lets the caller set it up, and
// takes the socket over.
func connect(ctx context.Context, spec GenerationSpec) (*client, error) {
	conn, err := pgconn.ConnectConfig(ctx, spec.Config)
	if err != nil {
		return nil, err
	}
	c, err := takeOver(ctx, conn, spec.OnConnect)
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(ctx)
		return nil, err
	}
	return c, nil
}

// takeOver leaves conn as it is when it fails, so that it can be closed.
func takeOver(ctx context.Context, conn *pgconn.PgConn, onConnect func(context.Context, *pgconn.PgConn) error) (*client, error) {
	if onConnect != nil {
		if err := onConnect(ctx, conn); err != nil {
			return nil, err
		}
	}
	if s := conn.TxStatus(); s != 'I' {
		return nil, fmt.Errorf("setting the connection up left it inside an SQL transaction (status %c)", s)
	}
	if err := conn.SyncConn(ctx); err != nil {
		return nil, err
	}
	plain, ok := conn.Conn().(syscall.Conn)
	if !ok {
		return nil, errors.New("the connection is encrypted, and the load engine speaks over plain sockets only: connect with sslmode=disable, or over a Unix socket")
	}
	raw, err := plain.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("take the socket over: %w", err)
	}
	// A duplicate of the descriptor and a close of Go's own: so the runtime's
	// poller lets go of the socket.
	fd := -1
	var dup error
	if err := raw.Control(func(own uintptr) { fd, dup = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, fmt.Errorf("take the socket over: %w", err)
	}
	if dup != nil {
		return nil, fmt.Errorf("take the socket over: %w", dup)
	}
	hijacked, err := conn.Hijack()
	if err == nil {
		err = unix.SetNonblock(fd, true) // as Go has it already, unless a DialFunc of the caller's thinks otherwise
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("take the socket over: %w", err)
	}
	hijacked.Conn.Close()
	return &client{fd: fd, pid: int(hijacked.PID), conn: conn}, nil
}

// Ring says whether generations of so many clients are served through io_uring,
// which must be stated beside their figures; otherwise through epoll.
func (w *Wire) Ring(clients int) bool {
	return w.ring > 0 && clients >= w.ring*len(w.threads) && clients <= ringTo*len(w.threads)
}

// watch makes the part's ring or epoll.
func (p *part) watch(ring bool) error {
	var err error
	if ring {
		p.ring, err = newRing(p.thread.ticker, p.clients)
		return err
	}
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		p.epoll = -1
		return fmt.Errorf("create an epoll: %w", err)
	}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, p.thread.ticker, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: eventTick}); err != nil {
		return fmt.Errorf("add the timer to the epoll: %w", err)
	}
	for i, c := range p.clients {
		if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, c.fd, &unix.EpollEvent{Events: eventsIn, Fd: int32(i)}); err != nil {
			return fmt.Errorf("add client %d to the epoll: %w", c.index, err)
		}
	}
	return nil
}

func (g *generation) Backends() []int {
	pids := make([]int, len(g.clients))
	for i, c := range g.clients {
		pids[i] = c.pid
	}
	return pids
}

// defaultGrace is what Slice.Grace 0 means.
const defaultGrace = 10 * time.Second

func (g *generation) Run(ctx context.Context, s Slice) (Result, error) {
	if s.Length <= 0 && s.Count <= 0 || s.Head < 0 {
		panic(fmt.Sprintf("workload: a slice of %v, %d transactions and a head of %d", s.Length, s.Count, s.Head))
	}
	g.wire.running.Lock()
	defer g.wire.running.Unlock()
	if g.broken != nil {
		return Result{}, fmt.Errorf("run a slice after one that failed: %w", g.broken)
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	if s.Grace == 0 {
		s.Grace = defaultGrace
	}
	sh := &g.shared
	sh.slice = s
	sh.past.Store(0)
	sh.opened.Store(0)
	sh.ended.Store(0)
	sh.stop.Store(false)
	release := context.AfterFunc(ctx, func() { sh.stop.Store(true) })
	began := time.Now()
	for _, p := range g.parts {
		p.thread.jobs <- p
	}
	for _, p := range g.parts {
		<-p.thread.done
	}
	elapsed := time.Since(began)
	release()
	r, err := g.result()
	r.Elapsed = elapsed
	if err != nil {
		if errors.Is(err, errStopped) { // no thread failed by itself
			err = context.Cause(ctx)
		}
		g.broken = err
	}
	return r, err
}

// result puts together what the threads have found.
func (g *generation) result() (Result, error) {
	s := &g.shared.slice
	r := Result{ClientCPU: 0, ClientWait: 0}
	opened := g.shared.opened.Load()
	started, last := int64(0), opened
	var err error
	for i, p := range g.parts {
		if p.err != nil && (err == nil || errors.Is(err, errStopped)) {
			err = p.err
		}
		r.N += p.n
		r.All += p.all
		r.T += time.Duration(p.t)
		r.Begin += time.Duration(p.begin)
		r.Commit += time.Duration(p.commit)
		if i == 0 || p.started < started {
			started = p.started
		}
		last = max(last, p.last)
		for _, f := range p.failures {
			if r.Failures == nil {
				r.Failures = make(map[string]int64)
			}
			r.Failures[string(f.sqlstate[:])] += f.n
		}
		r.ClientCPU = sum(r.ClientCPU, p.cpu)
		r.ClientWait = sum(r.ClientWait, p.wait)
	}
	n := time.Duration(len(g.clients))
	if g.single {
		r.Begin /= n
		r.Commit /= n
	}
	r.Head = time.Duration(opened - started)
	if err == nil && !s.ownWindows(len(g.clients)) {
		if s.Count == 0 {
			last = g.closeWindow(&r)
		}
		r.T = n * time.Duration(last-opened)
	}
	return r, err
}

// closeWindow finds the completion that ended the window which all clients
// share, counts it, and returns when it was.
//
// Note: a window of exactly Length opens at a completion but ends anywhere
// between two, and so leaves half a transaction out: simulated, 0.4 % of
// the time per transaction with two clients and 120 transactions in the
// window, 4 % with a dozen. That is alike for equal cells and wrong for others.
func (g *generation) closeWindow(r *Result) (at int64) {
	var ended *part
	for _, p := range g.parts {
		if p.after != 0 && (ended == nil || p.after < ended.after) {
			ended = p
		}
	}
	if ended == nil {
		panic("workload: all clients came home, and none after the deadline")
	}
	if !ended.afterFailed {
		r.N++
		if h := g.shared.slice.Histogram; h != nil {
			record(h, []int64{ended.afterLatency})
		}
	}
	return ended.after
}

// sum adds b to a; -1, not known, wins.
func sum(a time.Duration, b int64) time.Duration {
	if a < 0 || b < 0 {
		return -1
	}
	return a + time.Duration(b)
}

// ownWindows says whether each client has a window of its own, that begins and
// ends with its transactions.
func (s *Slice) ownWindows(clients int) bool { return s.PerClient || clients == 1 }

// Close ends the sessions and waits for the backends to be gone, one second at
// most: what a backend does when it ends must not fall into the next slice,
// and the next generation may need its place. After a slice that failed, what
// still runs on the server is cancelled first.
func (g *generation) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, p := range g.parts {
		if p.ring != nil { // first: it must not take the sockets' ends
			p.ring.close()
			p.ring = nil
		}
	}
	for _, c := range g.clients {
		if c.state != stateIdle {
			// The server may be gone: then there is nothing to cancel.
			_ = c.conn.CancelRequest(ctx)
		}
	}
	for _, c := range g.clients {
		_, _ = unix.SendmsgN(c.fd, terminateMessage, nil, nil, unix.MSG_NOSIGNAL)
	}
	var buf [4096]byte
	for _, c := range g.clients {
		if !errors.Is(g.broken, ErrGrace) {
			c.awaitEnd(ctx, buf[:])
		}
		unix.Close(c.fd)
	}
	for _, p := range g.parts {
		if p.epoll >= 0 {
			unix.Close(p.epoll)
			p.epoll = -1
		}
	}
	if g.parts != nil {
		g.wire.running.Lock()
		g.wire.open--
		g.wire.running.Unlock()
	}
	g.clients, g.parts = nil, nil
	return nil
}

// awaitEnd reads until the server has closed the connection, which a backend's
// end does, or ctx is over.
func (c *client) awaitEnd(ctx context.Context, buf []byte) {
	deadline, _ := ctx.Deadline()
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

// record takes latencies into a slice's histogram.
func record(h *hdrhistogram.Histogram, latencies []int64) {
	highest := h.HighestTrackableValue()
	for _, ns := range latencies {
		if err := h.RecordValue(min(ns, highest)); err != nil {
			panic(fmt.Sprintf("workload: a latency of %d ns is not recorded: %v", ns, err))
		}
	}
}
