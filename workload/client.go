package workload

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// client is one session and what it is doing: a state machine. Its engine
// drives it: it sends what the client has taken up, and gives it what has come.
//
//	           begin                     (single-transaction mode: BEGIN first)
//	             |
//	idle     choose <-----------------+  a transaction begins; its script is chosen
//	  ^          |                    |
//	  |       command <---------+     |  the next command's message is taken up
//	  |          |              |     |
//	  |        send             |     |  the engine sends it
//	  |          |              |     |
//	  |        await            |     |  the engine receives, until ReadyForQuery
//	  |          |              |     |
//	  |       answered ---------+     |  another command; or the script is over, or
//	  |          |                    |  has failed: then ROLLBACK, by send and await
//	  +-------- end ------------------+  the transaction is counted
//
// send, await and answered serve every message; request says which one it is.
// All but send and await is alike for all engines: see next.
type client struct {
	out     []byte // what is still to be sent
	began   int64  // of the transaction, or of BEGIN and COMMIT
	command int
	state   state
	request request
	window  window
	failure [5]byte

	scanner

	// Of the slice.
	head  int      // transactions until it is past its head
	count int      // measured transactions still to do
	start int64    // of its own window
	pilot *[]int64 // takes its latencies; only client 0's

	index    int
	pid      int
	refused  int            // how often in a row one of the engine's own statements was
	prepared []bool         // by command: its prepared statement exists
	conn     *pgconn.PgConn // taken over: only for CancelRequest
}

type state uint8

const (
	stateIdle state = iota
	stateChoose
	stateCommand
	stateSend
	stateAwait
	stateAnswered
	stateEnd
)

// request is the message that is on its way.
type request uint8

const (
	requestCommand request = iota // of the script
	requestBegin                  // BEGIN, COMMIT of single-transaction mode
	requestCommit
	requestRepair // ROLLBACK (and BEGIN) after a failed transaction
	requestAbort  // ROLLBACK after a COMMIT without effect
)

// window is where a client with a window of its own stands.
type window uint8

const (
	windowBefore window = iota
	windowIn
	windowOver
)

// mayRefuse is how often in a row BEGIN or ROLLBACK may fail before the slice
// does.
const mayRefuse = 10

// begin puts the client at the start of a slice.
func (c *client) begin(w *worker, now int64) {
	s := &w.shared.slice
	c.head, c.count, c.window = s.Head, s.Count, windowBefore
	c.pilot = nil
	if c.index == 0 {
		c.pilot = s.Latencies
	}
	c.began = now
	if w.p.g.single {
		c.send(requestBegin, beginMessage)
		return
	}
	c.state = stateChoose
	if c.head == 0 {
		w.passHead(now)
	}
}

// send takes up a message, for the engine to send.
func (c *client) send(r request, message []byte) {
	c.request, c.out, c.state = r, message, stateSend
	c.reset()
}

// next goes on from an answer, or from the start of a slice, to the next
// message (stateSend). It returns false when there is none: the client is done,
// or the slice has failed.
//
// Note: the cases stand in the order in which the usual transaction meets them,
// and fall through: code that is read straight on takes fewer cache lines, and
// these are cold whenever the server has run in between. It took a tenth of the
// user time away.
func (c *client) next(w *worker) bool {
	g := w.p.g
	for {
		switch c.state {
		case stateAnswered:
			if c.request != requestCommand || c.sqlstate[0] != 0 || c.copied || c.status != g.between {
				if !c.unusual(w) {
					return false
				}
				continue
			}
			if c.parsed {
				c.prepared[c.command] = true
			}
			if c.command++; c.command < len(g.commands) {
				if c.state = stateCommand; !w.goesOn() {
					return false
				}
				continue
			}
			c.state = stateEnd
			fallthrough

		case stateEnd:
			now := w.clock()
			if c.window == windowIn && c.failure[0] == 0 && c.pilot == nil && now-c.start < w.length && now < w.tickAt {
				w.p.all++ // as end does
				w.p.n++
				if w.keeping {
					w.keep(now - c.began)
				}
				c.began = now
			} else {
				again := c.end(w, now)
				c.began = now
				if !again {
					c.state = stateIdle
					w.running--
					return false
				}
				if c.state = stateChoose; now >= w.tickAt {
					if w.tick(now); w.p.err != nil {
						return false
					}
				}
			}
			fallthrough

		case stateChoose:
			c.command, c.failure = 0, [5]byte{}
			if w.own && c.window == windowBefore {
				if w.look(); w.open {
					c.window, c.start = windowIn, c.began
				}
			}
			fallthrough

		case stateCommand:
			command := &g.commands[c.command]
			m := command.message
			if command.prepare != nil && !c.prepared[c.command] {
				m = command.prepare
			}
			c.send(requestCommand, m)
			return true

		default:
			return c.state == stateSend // a message of the engine's own; else there is nothing to do
		}
	}
}

// unready decides what follows what has come and is no whole answer; last: the
// engine knows that no more is there yet. It returns false when the client has
// to wait, or the slice has failed.
func (c *client) unready(w *worker, last bool) bool {
	switch {
	case c.broken != "":
		w.fail(c.lost(nil))
		return false
	case c.copyIn:
		c.copyIn = false
		c.out, c.state = w.p.g.copyFail, stateSend
		return true
	case last:
		return false
	}
	return w.goesOn()
}

// unusual decides what follows an answer, other than that a command of the
// script succeeded and left the session as it is between transactions. It
// returns false when the client has nothing more to do, or the slice has failed.
func (c *client) unusual(w *worker) bool {
	g := w.p.g
	switch c.request {
	case requestCommand:
		if c.parsed {
			c.prepared[c.command] = true
		}
		if c.sqlstate[0] == 0 && !c.copied {
			if c.command++; c.command < len(g.commands) {
				c.state = stateCommand
				return w.goesOn()
			}
			copy(c.failure[:], StateOpenTransaction)
		} else if c.copied {
			copy(c.failure[:], StateCopy)
		} else {
			c.failure = c.sqlstate
		}
		c.state = stateEnd
		if c.status != g.between {
			c.send(requestRepair, g.repair)
		}

	case requestRepair:
		if c.status != g.between {
			return c.again(w, "ROLLBACK", g.repair)
		}
		c.refused = 0
		c.state = stateEnd

	case requestBegin:
		if c.sqlstate[0] != 0 {
			w.p.count(c.sqlstate)
			return c.again(w, "BEGIN", beginMessage)
		}
		c.refused = 0
		now := w.clock()
		w.p.begin += now - c.began
		c.began = now
		if c.head == 0 {
			w.passHead(now)
		}
		c.state = stateChoose

	case requestCommit, requestAbort:
		if c.request == requestCommit {
			w.p.commit += w.clock() - c.began
			if c.sqlstate[0] != 0 { // a deferred constraint, a serialization failure
				w.p.count(c.sqlstate)
			}
		}
		if c.status != 'I' { // COMMIT was cancelled before it began
			c.request = requestAbort
			return c.again(w, "ROLLBACK", rollbackMessage)
		}
		c.refused = 0
		c.state = stateIdle
		w.running--
		return false
	}
	return true
}

// again sends once more what did not have its effect: any statement may meet a
// time-out on a machine that was held up. It gives up, and returns false, after
// mayRefuse times in a row.
func (c *client) again(w *worker, what string, message []byte) bool {
	if c.refused++; c.refused == mayRefuse {
		w.fail(fmt.Errorf("client %d: %s was refused %d times in a row, at last with SQLSTATE %q; the session's status is %c", c.index, what, c.refused, c.sqlstate[:], c.status))
		return false
	}
	c.send(c.request, message)
	return true
}

// end counts a transaction that ended at now, and says whether the client
// begins another one.
func (c *client) end(w *worker, now int64) (again bool) {
	w.p.all++
	failed := c.failure[0] != 0
	latency := now - c.began
	if failed {
		w.p.count(c.failure)
	} else if c.pilot != nil && len(*c.pilot) < cap(*c.pilot) {
		*c.pilot = append(*c.pilot, latency)
	}
	if c.head > 0 {
		if c.head--; c.head == 0 {
			w.passHead(now)
		}
	}
	if w.look(); !w.open {
		return true
	}

	in := false
	switch {
	case !w.own:
		passed := now - w.openedAt
		if passed <= 0 { // this is the completion that opened it
			return true
		}
		c.window, c.start = windowIn, w.openedAt
		switch {
		case w.length > 0:
			if in = passed < w.length; !in && w.p.after == 0 {
				w.p.after, w.p.afterLatency, w.p.afterFailed = now, latency, failed
			}
			again = in
		default:
			c.count--
			in, again = true, c.count > 0
			w.p.last = now
		}
	case c.window == windowBefore:
		again = true // it opens with the next transaction
	case c.window == windowIn:
		in = true
		c.count--
		passed := now - c.start
		if w.length > 0 {
			again = passed < w.length
		} else {
			again = c.count > 0
		}
		if !again {
			c.window = windowOver
			w.p.t += passed
			// All clients stay in flight until the last one's window is over.
			again = w.shared.ended.Add(1) < int64(w.shared.clients) && w.length > 0
		}
	default:
		again = w.shared.ended.Load() < int64(w.shared.clients)
	}
	if in && !failed {
		w.p.n++
		if w.keeping {
			w.keep(latency)
		}
	}
	return again
}

// lost is the error of a connection that came to an end.
func (c *client) lost(err error) *LostError {
	e := &LostError{Client: c.index, SQLState: c.last.sqlstate, Message: c.last.message, Err: err}
	switch {
	case e.Message != "":
	case c.broken != "":
		e.Message = "what the server sends is not its protocol: " + c.broken
	case err == io.EOF || err == io.ErrUnexpectedEOF || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET):
		// TLS calls an end without a close_notify unexpected.
		e.Message = "the server closed it without a word"
	}
	return e
}
