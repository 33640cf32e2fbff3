package workload

import (
	"fmt"
	"io"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ringFrom is what WireConfig.RingFrom 0 means. The package comment has the
// figures.
const ringFrom = 16

// ringTo is how many clients of a thread a ring can serve: four completions for
// each place of its queue are asked for, and the kernel gives 65536.
const ringTo = 8191

// ring is an io_uring (io_uring(7)) that serves the clients of one part in
// place of epoll_wait, recv and send. A recv is armed for each client once and
// for all; what it brings lies in one of the buffers, which goes back when it
// is scanned. Sends are queued, and handed over by the call that waits: one
// call for all clients whose answers had come. It is made by Open and used by
// the part's thread alone.
//
// DEFER_TASKRUN: what an arriving answer has to do for the ring is done by the
// waiting thread when it looks, not in the middle of whatever runs.
type ring struct {
	fd      int
	enabled bool   // the thread has taken it over
	tail    uint32 // of the submission queue, as we have filled it
	sqMask  uint32
	cqMask  uint32
	sqHead  *uint32
	sqTail  *uint32
	cqHead  *uint32
	cqTail  *uint32
	sqes    *[1 << 16]submission
	cqes    *[1 << 17]completion

	given    uint32 // buffers given to the kernel so far
	ringMask uint32
	slots    *[1 << 15]slot
	buffers  []byte

	memory [][]byte // mapped
}

// Structures of linux/io_uring.h.
type (
	ringParams struct {
		sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFd uint32
		_                                                                      [3]uint32
		sq                                                                     struct{ head, tail, ringMask, ringEntries, flags, dropped, array, _, _, _ uint32 }
		cq                                                                     struct{ head, tail, ringMask, ringEntries, overflow, cqes, flags, _, _, _ uint32 }
	}
	submission struct {
		opcode   uint8
		flags    uint8
		ioprio   uint16
		fd       int32
		_        uint64 // offset
		addr     uint64
		len      uint32
		opFlags  uint32
		userData uint64
		_        [24]byte // the buffers' group, 0, and what isn't used here
	}
	completion struct {
		userData uint64
		res      int32
		flags    uint32
	}
	// slot offers a buffer. In the first one, its last two bytes are the ring's
	// tail.
	slot struct {
		addr uint64
		len  uint32
		id   uint16
		_    uint16
	}
	bufferReg struct {
		addr         uint64
		entries      uint32
		group, flags uint16
		_            [3]uint64
	}
)

const (
	setupFlags = 1<<3 | 1<<6 | 1<<7 | 1<<12 | 1<<13 // CQSIZE, R_DISABLED, SUBMIT_ALL, SINGLE_ISSUER, DEFER_TASKRUN

	opPoll, opSend, opRecv = 6, 26, 27

	fixedFile, bufferSelect, skipSuccess = 1 << 0, 1 << 5, 1 << 6 // flags of a submission
	recvMultishot                        = 1 << 1                 // its ioprio
	pollMulti                            = 1 << 0                 // its len
	hasBuffer, hasMore                   = 1 << 0, 1 << 1         // flags of a completion
	getEvents                            = 1 << 0                 // a flag of io_uring_enter

	registerFiles, registerEnable, registerBuffers = 2, 12, 22

	offsetRings, offsetEntries = 0, 0x10000000 // what to map

	// User data: the client's place in its part, and what completed.
	dataSend = 1 << 32
	dataTick = 1 << 33
)

// ringBuffer is the size of one buffer. Larger answers come in several. They lie
// ringStride apart, so that their beginnings, all that a short answer fills,
// don't compete for the same few places in the CPU's caches.
const (
	ringBuffer = 4096
	ringStride = ringBuffer + 64
)

// ringsWork says whether this system lets us have rings as we use them: not
// before Linux 6.1, and not where a container's seccomp profile, or the sysctl
// kernel.io_uring_disabled, forbids them.
func ringsWork() bool {
	r, err := newRing(-1, nil)
	if err != nil {
		return false
	}
	r.close()
	return true
}

// newRing makes the ring of some clients, and arms it with their recvs. Nothing
// happens in it before enable.
func newRing(ticker int, clients []*socket) (r *ring, err error) {
	size := uint32(16)
	for int(size) < 2*len(clients)+1 { // a recv and a send for each, and the timer
		size *= 2
	}
	p := ringParams{flags: setupFlags, cqEntries: 4 * size}
	fd, _, errno := syscall.Syscall(unix.SYS_IO_URING_SETUP, uintptr(size), uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, fmt.Errorf("create an io_uring: %w", errno)
	}
	r = &ring{fd: int(fd)}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	unix.CloseOnExec(r.fd)

	// Both queues have been in one mapping since Linux 5.4.
	queues, err := r.mmap(r.fd, offsetRings, max(int(p.sq.array+4*p.sqEntries), int(p.cq.cqes+16*p.cqEntries)))
	if err != nil {
		return nil, err
	}
	entries, err := r.mmap(r.fd, offsetEntries, int(p.sqEntries)*int(unsafe.Sizeof(submission{})))
	if err != nil {
		return nil, err
	}
	at := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&queues[offset])) }
	r.sqHead, r.sqTail, r.sqMask = at(p.sq.head), at(p.sq.tail), *at(p.sq.ringMask)
	r.cqHead, r.cqTail, r.cqMask = at(p.cq.head), at(p.cq.tail), *at(p.cq.ringMask)
	r.sqes = (*[1 << 16]submission)(unsafe.Pointer(&entries[0]))
	r.cqes = (*[1 << 17]completion)(unsafe.Pointer(&queues[p.cq.cqes]))
	for i := range p.sqEntries {
		*at(p.sq.array + 4*i) = i
	}

	buffers := size / 2 // one for each client at least, so that a round of short answers fits
	slots, err := r.mmap(-1, 0, int(buffers)*int(unsafe.Sizeof(slot{})))
	if err != nil {
		return nil, err
	}
	// Mapped, not allocated: should the kernel still be at it when the ring is
	// closed, it meets nothing rather than somebody else's memory.
	if r.buffers, err = r.mmap(-1, 0, int(buffers)*ringStride); err != nil {
		return nil, err
	}
	r.slots, r.ringMask = (*[1 << 15]slot)(unsafe.Pointer(&slots[0])), buffers-1
	reg := bufferReg{addr: uint64(uintptr(unsafe.Pointer(&slots[0]))), entries: buffers}
	if err := r.register(registerBuffers, unsafe.Pointer(&reg), 1); err != nil {
		return nil, err
	}
	for id := range buffers {
		r.give(uint16(id))
	}

	if len(clients) == 0 {
		return r, nil
	}
	fds := make([]int32, len(clients))
	for i, c := range clients {
		fds[i] = int32(c.fd)
	}
	if err := r.register(registerFiles, unsafe.Pointer(&fds[0]), len(fds)); err != nil {
		return nil, err
	}
	*r.next() = submission{opcode: opPoll, fd: int32(ticker), len: pollMulti, opFlags: unix.POLLIN, userData: dataTick}
	for i := range clients {
		r.arm(uint64(i))
	}
	return r, nil
}

// mmap maps some of fd; of nothing, anonymous memory, when it is -1.
func (r *ring) mmap(fd int, offset int64, size int) ([]byte, error) {
	flags := unix.MAP_SHARED | unix.MAP_POPULATE
	if fd < 0 {
		flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	}
	b, err := unix.Mmap(fd, offset, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, fmt.Errorf("map an io_uring's memory: %w", err)
	}
	r.memory = append(r.memory, b)
	return b, nil
}

func (r *ring) register(what int, argument unsafe.Pointer, n int) error {
	if _, _, errno := syscall.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), uintptr(what), uintptr(argument), uintptr(n), 0, 0); errno != 0 {
		return fmt.Errorf("set an io_uring up (%d): %w", what, errno)
	}
	return nil
}

// enable makes the ring the calling thread's own.
func (r *ring) enable() error {
	if r.enabled {
		return nil
	}
	r.enabled = true
	return r.register(registerEnable, nil, 0)
}

// close ends the ring and what is armed in it.
func (r *ring) close() {
	unix.Close(r.fd)
	for _, b := range r.memory {
		_ = unix.Munmap(b)
	}
	r.memory = nil
}

// next returns the place for one more submission, of which the queue always has
// one: a client has a recv and a send at most, and enter empties it.
func (r *ring) next() *submission {
	s := &r.sqes[r.tail&r.sqMask]
	r.tail++
	return s
}

// arm has client i's answers received from now on.
func (r *ring) arm(i uint64) {
	*r.next() = submission{opcode: opRecv, flags: fixedFile | bufferSelect, ioprio: recvMultishot, fd: int32(i), userData: i}
}

// send queues a message, which must stay where it is until it is answered. It
// goes out whole; a completion comes only if that fails.
func (r *ring) send(i uint64, message []byte) {
	*r.next() = submission{opcode: opSend, flags: fixedFile | skipSuccess, fd: int32(i),
		addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(message)))), len: uint32(len(message)),
		opFlags: unix.MSG_NOSIGNAL | unix.MSG_WAITALL, userData: dataSend | i}
}

// give lets the kernel have a buffer, again.
func (r *ring) give(id uint16) {
	place := r.given & r.ringMask
	s := &r.slots[place]
	s.addr, s.len = uint64(uintptr(unsafe.Pointer(&r.buffers[int(id)*ringStride]))), ringBuffer
	// The tail is two bytes beside the first slot's id, and Go has no atomic
	// stores of two bytes: both are stored together.
	first := &r.slots[0]
	if place != 0 {
		s.id = id
		id = first.id
	}
	r.given++
	both := [2]uint16{id, uint16(r.given)}
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&first.id)), *(*uint32)(unsafe.Pointer(&both)))
}

// enter hands over what is queued and waits for a completion.
func (r *ring) enter() syscall.Errno {
	atomic.StoreUint32(r.sqTail, r.tail)
	_, _, errno := syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(r.tail-atomic.LoadUint32(r.sqHead)), 1, getEvents, 0, 0)
	return errno
}

// driveRing is drive for the clients of a ring.
//
// Note: what gave nothing with 64 clients on one CPU. Batches were no trouble:
// epoll_wait, too, brought 36 to 41 answers at a time. SCHED_BATCH, under which
// an answer that arrives doesn't preempt a backend, 11 pairs: CPU 0.99 and tps
// 0.98 of those without. Shorter scheduler slices for the thread (sched_setattr)
// made more switches and no more tps. With epoll, all recvs first and then all
// sends: no difference beyond the noise in a C loop. A recv submitted with every
// send, in place of one that stays armed: a tenth to a sixth more CPU (C loop).
// With a single client io_uring took 4 to 14 % more CPU than epoll (C loop).
func (t *thread) driveRing() {
	r := t.share.ring
	if err := r.enable(); err != nil {
		t.fail(err)
		return
	}
	for _, c := range t.share.sockets {
		c.advance(t)
	}
	head := *r.cqHead // only we move it
	for t.running > 0 && t.p.err == nil {
		errno := r.enter()
		tail := atomic.LoadUint32(r.cqTail)
		switch {
		case errno != 0 && errno != unix.EINTR && errno != unix.EBUSY:
			t.fail(fmt.Errorf("wait for the server: %w", errno))
			return
		case head == tail: // a signal, maybe after something was handed over
			if !t.interrupted() {
				return
			}
			continue
		}
		for ; head != tail; head++ {
			e := r.cqes[head&r.cqMask]
			if e.userData == dataTick {
				t.tick(t.clock())
				continue
			}
			t.completed(r, t.share.sockets[uint32(e.userData)], e)
		}
		atomic.StoreUint32(r.cqHead, head)
	}
}

// completed takes what a client's recv has brought, or how its send has failed.
func (t *thread) completed(r *ring, c *socket, e completion) {
	if e.userData&dataSend != 0 {
		// When the server has hung up, its last words may still come, and then
		// the recv that finds the end.
		if errno := syscall.Errno(-e.res); e.res < 0 && errno != unix.EPIPE && errno != unix.ECONNRESET {
			t.fail(c.lost(errno))
		}
		return
	}
	again := e.flags&hasMore == 0
	switch {
	case e.res > 0:
		id := uint16(e.flags >> 16)
		b := r.buffers[int(id)*ringStride:][:e.res]
		if c.state == stateAwait {
			t.arrived = b
			c.advance(t)
		} else if c.scan(b); c.broken != "" { // news on a session that has nothing to do
			t.fail(c.lost(nil))
		}
		r.give(id)
	case e.res == -int32(unix.ENOBUFS), e.res == -int32(unix.EINTR), e.res == -int32(unix.EAGAIN):
	default:
		again = false
		if c.over = io.EOF; e.res < 0 {
			c.over = syscall.Errno(-e.res)
		}
		if c.state != stateIdle {
			t.fail(c.lost(c.over))
		}
	}
	if again {
		r.arm(uint64(c.place))
	}
}
