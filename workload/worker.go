package workload

import (
	"errors"
	"fmt"
	"time"
)

// worker drives some clients through a slice, and counts what they do: a job
// thread, or the goroutine of one client. What each transaction touches stands
// together.
type worker struct {
	p         *part // of the slice that runs
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
	latencies [512]int64
}

// part is the share of one worker in a generation.
type part struct {
	g       *generation
	clients []*client

	tally
}

// tally is what a worker has counted in a slice.
type tally struct {
	n, all        int64
	t             int64 // own windows: their sum
	started, last int64
	// The worker's first completion at or after the deadline of the window that
	// all clients share: the earliest of all workers' ends the window.
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

// errStopped says that a worker let go because shared.stop was set.
var errStopped = errors.New("stopped")

// begin puts the worker and the clients of its part at the start of a slice.
func (w *worker) begin(p *part) {
	s := &p.g.shared.slice
	w.p, w.shared = p, &p.g.shared
	w.own = s.ownWindows(w.shared.clients)
	w.length = int64(s.Length)
	if s.Count > 0 {
		w.length = 0
	}
	w.keeping = s.Histogram != nil
	w.open, w.openedAt = false, 0
	p.tally = tally{failures: p.failures[:0]}
	now := w.clock()
	p.started = now
	w.tickAt = now + tickEvery.Nanoseconds()
	for _, c := range p.clients {
		c.begin(w, now)
	}
	w.running = len(p.clients)
}

// commit has the clients end the SQL transactions of single-transaction mode.
func (w *worker) commit() {
	now := w.clock()
	for _, c := range w.p.clients {
		c.began = now
		c.send(requestCommit, commitMessage)
	}
	w.running = len(w.p.clients)
}

// clock returns ns since the workers' common zero, never 0 in a slice. It reads
// the monotonic clock, without a system call where the kernel's clock source
// allows.
func (w *worker) clock() int64 {
	if w.now != nil {
		return w.now()
	}
	return int64(time.Since(w.base))
}

// tickEvery is how often a worker looks up from its work: has the slice been
// cancelled, has the server been silent for too long?
const tickEvery = 50 * time.Millisecond

// tick looks whether the slice must be given up.
func (w *worker) tick(now int64) {
	w.tickAt = now + tickEvery.Nanoseconds()
	if w.shared.stop.Load() {
		w.fail(errStopped)
		return
	}
	w.look()
	for _, c := range w.p.clients {
		if c.state != stateIdle && now > w.limit(c.began) {
			w.fail(w.late(c, now))
			return
		}
	}
}

// limit is when the slice is given up for a transaction that began then.
// Before the window opens, and where a number of transactions is asked for,
// there is no deadline: each transaction has its own.
func (w *worker) limit(began int64) int64 {
	grace := w.shared.slice.Grace.Nanoseconds()
	switch {
	case w.length == 0:
		return began + grace
	case w.open:
		return max(began, w.openedAt+w.length) + grace
	}
	return began + w.length + grace
}

func (w *worker) late(c *client, now int64) error {
	return fmt.Errorf("client %d waits since %v: %w", c.index, time.Duration(now-c.began).Round(time.Millisecond), ErrGrace)
}

// goesOn counts what happens between the ends of transactions, and looks at the
// clock now and then: results may have no end, and scripts many commands. It
// says whether the slice goes on.
func (w *worker) goesOn() bool {
	if w.steps++; w.steps%64 == 0 {
		if now := w.clock(); now >= w.tickAt {
			w.tick(now)
		}
	}
	return w.p.err == nil
}

func (w *worker) fail(err error) {
	if w.p.err == nil {
		w.p.err = err
	}
}

// look finds out whether the window has opened meanwhile.
func (w *worker) look() {
	if !w.open {
		w.openedAt = w.shared.opened.Load()
		w.open = w.openedAt != 0
	}
}

// passHead says that one more client is past its head. The last one of all
// workers opens the window.
func (w *worker) passHead(now int64) {
	if w.shared.past.Add(1) == int64(w.shared.clients) {
		w.shared.opened.Store(now)
	}
}

// keep notes a latency.
func (w *worker) keep(ns int64) {
	if w.waiting == len(w.latencies) {
		w.flush()
	}
	w.latencies[w.waiting] = ns
	w.waiting++
}

// flush takes the noted latencies over into the slice's histogram, which all
// workers share: hence a lock, once in many transactions.
func (w *worker) flush() {
	if w.waiting == 0 {
		return
	}
	w.shared.histogram.Lock()
	record(w.shared.slice.Histogram, w.latencies[:w.waiting])
	w.shared.histogram.Unlock()
	w.waiting = 0
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
