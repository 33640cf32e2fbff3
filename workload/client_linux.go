package workload

import (
	"fmt"
	"io"
	"syscall"
	"unsafe"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"
)

// client is one session and what it is doing: a state machine that its thread
// drives from one wait for the server to the next.
//
//	           begin                     (single-transaction mode: BEGIN first)
//	             |
//	idle     choose <-----------------+  a transaction begins; its script is chosen
//	  ^          |                    |
//	  |       command <---------+     |  the next command's message is taken up
//	  |          |              |     |
//	  |        send             |     |  what the socket takes of it goes out
//	  |          |              |     |
//	  |        await            |     |  until ReadyForQuery
//	  |          |              |     |
//	  |       answered ---------+     |  another command; or the script is over, or
//	  |          |                    |  has failed: then ROLLBACK, by send and await
//	  +-------- end ------------------+  the transaction is counted
//
// send, await and answered serve every message; request says which one it is.
type client struct {
	fd      int
	out     []byte // what is still to be sent
	began   int64  // of the transaction, or of BEGIN and COMMIT
	command int
	state   state
	request request
	window  window
	pollOut bool // the epoll watches for room to send, too
	hangup  bool // the peer has closed: read to the end
	failure [5]byte

	scanner

	// Of the slice.
	head  int      // transactions until it is past its head
	count int      // measured transactions still to do
	start int64    // of its own window
	pilot *[]int64 // takes its latencies; only client 0's

	index    int
	place    int   // among the clients of its part
	over     error // how its connection has ended, found by the ring
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

const (
	eventsIn  = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET
	eventsOut = eventsIn | unix.EPOLLOUT

	// eventTick stands for the thread's timer, where a client's place would be.
	eventTick = -1
)

// forever is epoll_wait's time-out of -1.
const forever = ^uintptr(0)

// begin puts the client at the start of a slice.
func (c *client) begin(t *thread, now int64) {
	s := &t.shared.slice
	c.head, c.count, c.window = s.Head, s.Count, windowBefore
	c.pilot = nil
	if c.index == 0 {
		c.pilot = s.Latencies
	}
	c.began = now
	if t.p.g.single {
		c.send(requestBegin, beginMessage)
		return
	}
	c.state = stateChoose
	if c.head == 0 {
		t.passHead(now)
	}
}

// send takes up a message. It goes out when the client advances.
func (c *client) send(r request, message []byte) {
	c.request, c.out, c.state = r, message, stateSend
	c.reset()
}

// advance goes on until the client must wait for the server, is done, or has
// failed. Its thread calls it at the start and whenever the socket has news.
//
// Note: the cases stand in the order in which the usual transaction meets them,
// from one wait to the next, and fall through: code that is read straight on
// takes fewer cache lines, and these are cold whenever the server has run in
// between. It took a tenth of the user time away.
func (c *client) advance(t *thread) {
	g := t.p.g
	for {
		switch c.state {
		case stateAwait:
			b := t.arrived
			last := true // nothing more has come
			if t.p.ring != nil {
				if t.arrived = nil; b == nil {
					return
				}
			} else {
				n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(c.fd), uintptr(unsafe.Pointer(&t.receive[0])), uintptr(len(t.receive)), 0, 0, 0)
				switch {
				case errno == unix.EAGAIN:
					return
				case errno != 0:
					t.fail(c.lost(errno))
					return
				case n == 0:
					t.fail(c.lost(io.EOF))
					return
				}
				b = t.receive[:n]
				// A short read has emptied the socket; epoll will tell of more.
				last = len(b) < len(t.receive) && !c.hangup
			}
			if !c.scan(b) {
				switch {
				case c.broken != "":
					t.fail(c.lost(nil))
					return
				case c.copyIn:
					c.copyIn = false
					c.out, c.state = g.copyFail, stateSend
				case last, !t.goesOn():
					return
				}
				continue
			}
			c.state = stateAnswered
			fallthrough

		case stateAnswered:
			if c.request != requestCommand || c.sqlstate[0] != 0 || c.copied || c.status != g.between {
				if !c.unusual(t) {
					return
				}
				continue
			}
			if c.parsed {
				c.prepared[c.command] = true
			}
			if c.command++; c.command < len(g.commands) {
				if c.state = stateCommand; !t.goesOn() {
					return
				}
				continue
			}
			c.state = stateEnd
			fallthrough

		case stateEnd:
			now := t.clock()
			if c.window == windowIn && c.failure[0] == 0 && c.pilot == nil && now-c.start < t.length && now < t.tickAt {
				t.p.all++ // as end does
				t.p.n++
				if t.keeping {
					t.keep(now - c.began)
				}
				c.began = now
			} else {
				again := c.end(t, now)
				c.began = now
				if !again {
					c.state = stateIdle
					t.running--
					return
				}
				if c.state = stateChoose; now >= t.tickAt {
					if t.tick(now); t.p.err != nil {
						return
					}
				}
			}
			fallthrough

		case stateChoose:
			c.command, c.failure = 0, [5]byte{}
			if t.own && c.window == windowBefore {
				if t.look(); t.open {
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
			fallthrough

		case stateSend:
			if t.p.ring != nil {
				t.p.ring.send(uint64(c.place), c.out)
				if c.state = stateAwait; c.over != nil {
					t.fail(c.lost(c.over))
				}
				return
			}
			n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(unsafe.SliceData(c.out))), uintptr(len(c.out)), unix.MSG_NOSIGNAL, 0, 0)
			switch {
			case errno == 0:
				if c.out = c.out[n:]; len(c.out) > 0 {
					continue
				}
				c.state = stateAwait
				if c.pollOut {
					c.watchOut(t, false)
				}
				return
			case errno == unix.EAGAIN:
				c.watchOut(t, true)
				return
			default:
				// The server has hung up. Its last words may still be there.
				c.state, c.hangup = stateAwait, true
			}

		case stateIdle:
			return // news on a session that has nothing to do: it is read with the next answer
		}
	}
}

// unusual decides what follows an answer, other than that a command of the
// script succeeded and left the session as it is between transactions. It
// returns false when the client has nothing more to do, or the slice has failed.
func (c *client) unusual(t *thread) bool {
	g := t.p.g
	switch c.request {
	case requestCommand:
		if c.parsed {
			c.prepared[c.command] = true
		}
		if c.sqlstate[0] == 0 && !c.copied {
			if c.command++; c.command < len(g.commands) {
				c.state = stateCommand
				return t.goesOn()
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
			return c.again(t, "ROLLBACK", g.repair)
		}
		c.refused = 0
		c.state = stateEnd

	case requestBegin:
		if c.sqlstate[0] != 0 {
			t.p.count(c.sqlstate)
			return c.again(t, "BEGIN", beginMessage)
		}
		c.refused = 0
		now := t.clock()
		t.p.begin += now - c.began
		c.began = now
		if c.head == 0 {
			t.passHead(now)
		}
		c.state = stateChoose

	case requestCommit, requestAbort:
		if c.request == requestCommit {
			t.p.commit += t.clock() - c.began
			if c.sqlstate[0] != 0 { // a deferred constraint, a serialization failure
				t.p.count(c.sqlstate)
			}
		}
		if c.status != 'I' { // COMMIT was cancelled before it began
			c.request = requestAbort
			return c.again(t, "ROLLBACK", rollbackMessage)
		}
		c.refused = 0
		c.state = stateIdle
		t.running--
		return false
	}
	return true
}

// again sends once more what did not have its effect: any statement may meet a
// time-out on a machine that was held up. It gives up, and returns false, after
// mayRefuse times in a row.
func (c *client) again(t *thread, what string, message []byte) bool {
	if c.refused++; c.refused == mayRefuse {
		t.fail(fmt.Errorf("client %d: %s was refused %d times in a row, at last with SQLSTATE %q; the session's status is %c", c.index, what, c.refused, c.sqlstate[:], c.status))
		return false
	}
	c.send(c.request, message)
	return true
}

// end counts a transaction that ended at now, and says whether the client
// begins another one.
func (c *client) end(t *thread, now int64) (again bool) {
	t.p.all++
	failed := c.failure[0] != 0
	latency := now - c.began
	if failed {
		t.p.count(c.failure)
	} else if c.pilot != nil && len(*c.pilot) < cap(*c.pilot) {
		*c.pilot = append(*c.pilot, latency)
	}
	if c.head > 0 {
		if c.head--; c.head == 0 {
			t.passHead(now)
		}
	}
	if t.look(); !t.open {
		return true
	}

	in := false
	switch {
	case !t.own:
		passed := now - t.openedAt
		if passed <= 0 { // this is the completion that opened it
			return true
		}
		c.window, c.start = windowIn, t.openedAt
		switch {
		case t.length > 0:
			if in = passed < t.length; !in && t.p.after == 0 {
				t.p.after, t.p.afterLatency, t.p.afterFailed = now, latency, failed
			}
			again = in
		default:
			c.count--
			in, again = true, c.count > 0
			t.p.last = now
		}
	case c.window == windowBefore:
		again = true // it opens with the next transaction
	case c.window == windowIn:
		in = true
		c.count--
		passed := now - c.start
		if t.length > 0 {
			again = passed < t.length
		} else {
			again = c.count > 0
		}
		if !again {
			c.window = windowOver
			t.p.t += passed
			// All clients stay in flight until the last one's window is over.
			again = t.shared.ended.Add(1) < int64(t.shared.clients) && t.length > 0
		}
	default:
		again = t.shared.ended.Load() < int64(t.shared.clients)
	}
	if in && !failed {
		t.p.n++
		if t.keeping {
			t.keep(latency)
		}
	}
	return again
}

// watchOut makes the epoll watch for room to send, or stops that. It does not
// watch always, because the server makes room whenever it reads a command.
func (c *client) watchOut(t *thread, on bool) {
	events := uint32(eventsIn)
	if on {
		events = eventsOut
	}
	if err := unix.EpollCtl(t.p.epoll, unix.EPOLL_CTL_MOD, c.fd, &unix.EpollEvent{Events: events, Fd: int32(c.place)}); err != nil {
		t.fail(fmt.Errorf("watch client %d: %w", c.index, err))
	}
	c.pollOut = on
}
