package workload

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"
)

// NetConfig says what a [Net] is.
type NetConfig struct {
	// Threads is how many clients may be served at the same moment, each by a
	// thread of the Go runtime; 0 means 1. It is GOMAXPROCS until Close.
	Threads int
}

// Net is the engine that speaks over Go's own connections: also encrypted ones,
// and on every system. Each client is a goroutine. One slice runs at a time. It
// is a [Driver].
//
// Its threads are the Go runtime's and can't be pinned; to pin all of a program,
// start it under taskset(1).
type Net struct {
	base    time.Time
	less    int        // taken off GOMAXPROCS
	running sync.Mutex // held during a slice
	open    int        // generations; under running
}

// NewNet sets GOMAXPROCS. Close sets it back.
func NewNet(c NetConfig) *Net {
	if c.Threads < 0 {
		panic(fmt.Sprintf("workload: NetConfig.Threads is %d", c.Threads))
	}
	threads := max(c.Threads, 1)
	return &Net{base: time.Now(), less: runtime.GOMAXPROCS(threads) - threads}
}

// Close implements [Driver].
func (n *Net) Close() error {
	n.running.Lock()
	defer n.running.Unlock()
	if n.open != 0 {
		panic(fmt.Sprintf("workload: Net.Close with %d generations open", n.open))
	}
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0)+n.less, 1))
	n.less = 0
	return nil
}

// Serves is wire/net.
func (n *Net) Serves(int) string { return "wire/net" }

// netGeneration is one cell's clients: a [Generation].
type netGeneration struct {
	generation
	net     *Net
	streams []*stream
	busy    sync.WaitGroup // streams that are at work
}

// stream is a client of the net engine, and its goroutine.
type stream struct {
	client client
	worker worker
	part   part // this client alone
	net.Conn
	g       *netGeneration
	armed   int64              // worker.tickAt when the connection's deadline was set
	work    chan func(*stream) // what to do next; closed: end
	receive [16 << 10]byte     // what a TLS record holds at most
}

// Open connects the clients one after the other.
func (n *Net) Open(ctx context.Context, spec GenerationSpec) (Generation, error) {
	g := &netGeneration{net: n}
	if err := g.prepare(spec); err != nil {
		return nil, err
	}
	n.running.Lock()
	n.open++
	n.running.Unlock()
	for i := range spec.Clients {
		if err := connect(ctx, spec, g.takeOver); err != nil {
			g.Close()
			return nil, fmt.Errorf("connect client %d: %w", i, err)
		}
	}
	return g, nil
}

// takeOver makes a connection, with its TLS, the next client.
func (g *netGeneration) takeOver(conn *pgconn.PgConn) error {
	hijacked, err := conn.Hijack()
	if err != nil {
		return fmt.Errorf("take the connection over: %w", err)
	}
	s := &stream{part: part{g: &g.generation}, worker: worker{base: g.net.base}, Conn: hijacked.Conn, g: g, work: make(chan func(*stream), 1)}
	g.join(&s.client, &s.part, conn, hijacked.PID)
	g.streams, g.parts = append(g.streams, s), append(g.parts, &s.part)
	go s.main()
	return nil
}

// Run implements [Generation].
func (g *netGeneration) Run(ctx context.Context, s Slice) (Result, error) {
	g.net.running.Lock()
	defer g.net.running.Unlock()
	used := int64(-1)
	streams := g.streams // kick may come late, when Close is at work
	r, err := g.run(ctx, s, func() {
		before := processCPU()
		// All, before any goes on: with no head, the window opens at once.
		for _, s := range g.streams {
			s.worker.begin(&s.part)
		}
		g.all((*stream).drive)
		if g.single && !g.shared.stop.Load() {
			g.all((*stream).commit)
		}
		used = processCPU() - before
	}, func() { kick(streams) })
	// What the clients use and what the runtime does for them on other threads
	// can't be told apart. Nothing else is at work in a slice.
	r.ClientCPU, r.ClientWait = time.Duration(used), -1
	return r, err
}

// all has every stream do something, and waits.
func (g *netGeneration) all(what func(*stream)) {
	g.busy.Add(len(g.streams))
	for _, s := range g.streams {
		s.work <- what
	}
	g.busy.Wait()
}

// kick frees those that wait for the server, by a deadline in the past.
func kick(streams []*stream) {
	for _, s := range streams {
		_ = s.SetDeadline(time.Unix(1, 0)) // one that is closed waits for nothing
	}
}

// processCPU is the CPU time that this process has used.
func processCPU() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		panic("workload: this process has no CPU clock: " + err.Error())
	}
	return ts.Nano()
}

// Close implements [Generation]; as the epoll engine's, it waits for the
// backends to be gone.
func (g *netGeneration) Close() error {
	g.cancel()
	deadline := time.Now().Add(time.Second)
	for _, s := range g.streams {
		close(s.work)
		_ = s.SetDeadline(deadline)
		_, _ = s.Write(terminateMessage) // where it fails, the server finds the end by itself
	}
	for _, s := range g.streams {
		if !errors.Is(g.broken, ErrGrace) {
			for {
				if _, err := s.Read(s.receive[:]); err != nil {
					break // the server has closed it, or the time is over
				}
			}
		}
		s.hangUp()
	}
	if g.net != nil {
		g.net.running.Lock()
		g.net.open--
		g.net.running.Unlock()
	}
	g.clients, g.parts, g.streams, g.net = nil, nil, nil, nil
	return nil
}

// hangUp closes the connection. TLS would say so to the peer and wait, five
// seconds, for a server that is stopped to take it.
func (s *stream) hangUp() {
	if c, ok := s.Conn.(*tls.Conn); ok {
		c.NetConn().Close()
		return
	}
	s.Conn.Close()
}

// main is the goroutine's life.
func (s *stream) main() {
	for what := range s.work {
		what(s)
		if s.part.err != nil {
			s.g.shared.stop.Store(true)
			kick(s.g.streams)
		}
		s.g.busy.Done()
	}
}

// commit ends the SQL transaction of single-transaction mode, when all clients
// have come home.
func (s *stream) commit() {
	s.worker.commit()
	s.drive()
}

// drive lets the client go on until it has nothing to do, or fails.
func (s *stream) drive() {
	c, w := &s.client, &s.worker
	for goesOn := s.arm(); goesOn && c.next(w); goesOn = s.part.err == nil {
		if w.tickAt == s.armed || s.arm() {
			s.exchange()
		}
	}
	w.flush()
	_ = s.SetDeadline(time.Time{}) // no timer of this client's goes off in another cell's slice
}

// exchange sends the client's message and receives what the server answers, to
// its end.
func (s *stream) exchange() {
	c, w := &s.client, &s.worker
	for {
		switch c.state {
		case stateSend:
			n, err := s.Write(c.out)
			c.out, c.state = c.out[n:], stateAwait
			if errors.Is(err, os.ErrDeadlineExceeded) {
				// It was not set to any earlier time than the limit. And TLS can't
				// take up what it has sent in part.
				if w.tick(w.clock()); s.part.err == nil {
					w.fail(w.late(c, w.clock()))
				}
				return
			}
			// After any other error the server has hung up. Its last words may
			// still be there.

		case stateAwait:
			n, err := s.Read(s.receive[:])
			switch {
			case n > 0: // an error shows again in the next Read
				if c.scan(s.receive[:n]) {
					c.state = stateAnswered
					return
				}
				if !c.unready(w, false) {
					return
				}
			case errors.Is(err, os.ErrDeadlineExceeded):
				// The limit, or the slice is given up; or the window has opened
				// meanwhile, and there is more time.
				if w.tick(w.clock()); s.part.err != nil || !s.arm() {
					return
				}
			case err != nil:
				w.fail(c.lost(err))
				return
			}

		default:
			panic(fmt.Sprintf("workload: client %d of a net engine has nothing to send or to receive: state %d", c.index, c.state))
		}
	}
}

// arm sets the connection's deadline for all until the next tick: a transaction
// that begins before it is not late before the deadline. So a deadline needs
// setting at every tick only, and not with every Read. It says whether the
// slice goes on.
func (s *stream) arm() bool {
	w := &s.worker
	s.armed = w.tickAt
	_ = s.SetDeadline(w.base.Add(time.Duration(w.limit(w.tickAt)))) // a connection that is closed says so when it is used
	// Who sets stop frees those that wait afterwards: either that comes after
	// this deadline, or stop is seen here.
	if w.shared.stop.Load() {
		w.fail(errStopped)
	}
	return s.part.err == nil
}
