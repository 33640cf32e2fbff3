package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5/pgconn"
)

// generation is what the generations of all engines have in common: one cell's
// clients, what they send, and how a slice is begun and its result put together.
type generation struct {
	single   bool // single-transaction mode
	between  byte // status of a session between two transactions
	commands []command
	repair   []byte // what brings it back there
	copyFail []byte
	clients  []*client
	parts    []*part // the clients by worker; workers without a client have none
	broken   error   // of the slice that failed

	shared shared
}

// shared is what the workers of one slice have in common.
type shared struct {
	slice   Slice
	clients int

	past   atomic.Int64 // clients that are past their heads
	opened atomic.Int64 // when the window opened; 0: not yet
	ended  atomic.Int64 // clients whose own window is over (slices with own windows)
	stop   atomic.Bool  // a worker failed, or the context ended: let go of everything

	histogram sync.Mutex // for taking the latencies over
}

// prepare encodes what the clients send.
func (g *generation) prepare(spec GenerationSpec) (err error) {
	if spec.Clients < 1 {
		panic(fmt.Sprintf("workload: GenerationSpec.Clients is %d", spec.Clients))
	}
	g.single, g.between, g.repair, g.copyFail = spec.SingleTransaction, 'I', rollbackMessage, copyFailMessage
	if g.single {
		g.between, g.repair = 'T', restartMessage
	}
	if spec.Protocol != Simple {
		g.copyFail = copyFailSyncMessage
	}
	g.shared.clients = spec.Clients
	g.commands, err = encode(spec.Script, spec.Vars, spec.Protocol)
	return err
}

// join makes c one of the generation's clients, and of p's. Its connection is
// set up and the engine's.
func (g *generation) join(c *client, p *part, conn *pgconn.PgConn, pid uint32) {
	c.index, c.prepared = len(g.clients), make([]bool, len(g.commands))
	c.conn, c.pid = conn, int(pid)
	g.clients = append(g.clients, c)
	p.clients = append(p.clients, c)
}

// connect opens one connection through pgx, lets the caller set it up, and has
// the engine take it over. takeOver leaves conn as it is when it fails.
func connect(ctx context.Context, spec GenerationSpec, takeOver func(*pgconn.PgConn) error) error {
	conn, err := pgconn.ConnectConfig(ctx, spec.Config)
	if err != nil {
		return err
	}
	if err = setUp(ctx, conn, spec.OnConnect); err == nil {
		err = takeOver(conn)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(ctx)
	}
	return err
}

func setUp(ctx context.Context, conn *pgconn.PgConn, onConnect func(context.Context, *pgconn.PgConn) error) error {
	if onConnect != nil {
		if err := onConnect(ctx, conn); err != nil {
			return err
		}
	}
	if s := conn.TxStatus(); s != 'I' {
		return fmt.Errorf("setting the connection up left it inside an SQL transaction (status %c)", s)
	}
	return conn.SyncConn(ctx)
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

// run has the workers do a slice, and waits for them; do returns when all are
// done. Where kick isn't nil, it is called after shared.stop was set, to free
// those that wait.
func (g *generation) run(ctx context.Context, s Slice, do, kick func()) (Result, error) {
	if s.Length <= 0 && s.Count <= 0 || s.Head < 0 {
		panic(fmt.Sprintf("workload: a slice of %v, %d transactions and a head of %d", s.Length, s.Count, s.Head))
	}
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
	release := context.AfterFunc(ctx, func() {
		sh.stop.Store(true)
		if kick != nil {
			kick()
		}
	})
	began := time.Now()
	do()
	elapsed := time.Since(began)
	release()
	r, err := g.result()
	r.Elapsed = elapsed
	if err != nil {
		if errors.Is(err, errStopped) { // no worker failed by itself
			err = context.Cause(ctx)
		}
		g.broken = err
	}
	return r, err
}

// cancel has the server give up what still runs in the sessions, after a slice
// that failed. It takes a second at most.
func (g *generation) cancel() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, c := range g.clients {
		if c.state != stateIdle {
			// The server may be gone: then there is nothing to cancel.
			_ = c.conn.CancelRequest(ctx)
		}
	}
}

// result puts together what the workers have found.
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

// record takes latencies into a slice's histogram.
func record(h *hdrhistogram.Histogram, latencies []int64) {
	highest := h.HighestTrackableValue()
	for _, ns := range latencies {
		if err := h.RecordValue(min(ns, highest)); err != nil {
			panic(fmt.Sprintf("workload: a latency of %d ns is not recorded: %v", ns, err))
		}
	}
}
