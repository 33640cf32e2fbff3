package workload

import (
	"fmt"
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is a client of the epoll engine. Its thread drives it from one wait
// for the server to the next.
type socket struct {
	fd int
	client
	place   int   // among the clients of its part
	pollOut bool  // the epoll watches for room to send, too
	hangup  bool  // the peer has closed: read to the end
	over    error // how its connection has ended, found by the ring
}

const (
	eventsIn  = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET
	eventsOut = eventsIn | unix.EPOLLOUT

	// eventTick stands for the thread's timer, where a client's place would be.
	eventTick = -1
)

// forever is the time-out of -1 of epoll_wait, here epoll_pwait without a signal
// mask, since arm64 has no other.
const forever = ^uintptr(0)

// advance goes on until the client must wait for the server, is done, or has
// failed. Its thread calls it at the start and whenever the socket has news.
//
// Note: of a session that has nothing to do, news is left where it is: it is read
// with the next answer.
func (c *socket) advance(t *thread) {
	for {
		switch c.state {
		case stateAwait:
			b := t.arrived
			last := true // nothing more has come
			if t.share.ring != nil {
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
				if !c.unready(&t.worker, last) {
					return
				}
				continue
			}
			c.state = stateAnswered
			fallthrough

		default:
			if !c.next(&t.worker) {
				return
			}
			fallthrough

		case stateSend:
			if t.share.ring != nil {
				t.share.ring.send(uint64(c.place), c.out)
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
		}
	}
}

// watchOut makes the epoll watch for room to send, or stops that. It does not
// watch always, because the server makes room whenever it reads a command.
func (c *socket) watchOut(t *thread, on bool) {
	events := uint32(eventsIn)
	if on {
		events = eventsOut
	}
	if err := unix.EpollCtl(t.share.epoll, unix.EPOLL_CTL_MOD, c.fd, &unix.EpollEvent{Events: events, Fd: int32(c.place)}); err != nil {
		t.fail(fmt.Errorf("watch client %d: %w", c.index, err))
	}
	c.pollOut = on
}
