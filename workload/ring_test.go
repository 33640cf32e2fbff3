//go:build linux

package workload

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"pgtare/matrix/server/servertest"
)

func TestRingFrom(t *testing.T) {
	if !ringsWork() {
		servertest.Lack(t, "this system has no io_uring for us")
	}
	for _, c := range []struct {
		from, threads, clients int
		want                   bool
	}{
		{0, 1, 15, false},
		{0, 1, 16, true},
		{0, 2, 31, false},
		{0, 2, 32, true},
		{4, 1, 3, false},
		{4, 1, 4, true},
		{-1, 1, 64, false},
		{1, 1, ringTo, true},
		{1, 1, ringTo + 1, false},
	} {
		w, err := NewWire(WireConfig{Threads: c.threads, RingFrom: c.from})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Ring(c.clients); got != c.want {
			t.Errorf("%d clients on %d threads, RingFrom %d: a ring: %t, want %t", c.clients, c.threads, c.from, got, c.want)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The kernel must take a ring of the largest size that Ring allows.
func TestLargestRing(t *testing.T) {
	if !ringsWork() {
		servertest.Lack(t, "this system has no io_uring for us")
	}
	clients := make([]*socket, ringTo)
	for i := range clients {
		clients[i] = &socket{fd: 0}
	}
	r, err := newRing(0, clients)
	if err != nil {
		t.Fatal(err)
	}
	r.close()
}

// Answers that don't fit into all the buffers of a ring end its recvs, which
// must be armed again.
func TestAnswersLargerThanTheBuffers(t *testing.T) { everyEngine(t, testAnswersLargerThanTheBuffers) }

func testAnswersLargerThanTheBuffers(t *testing.T) {
	s := sharedServer(t)
	for _, protocol := range []Protocol{Simple, Prepared} {
		for _, clients := range []int{1, 20} {
			g := open(t, engine(t, 1), GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT repeat('x', 300000); SELECT 1"), Protocol: protocol, Clients: clients})
			if r := slice(t, g, Slice{Count: 2}); r.N != int64(2*clients) || r.Failures != nil {
				t.Errorf("%d clients, %s: %+v", clients, protocol, r)
			}
		}
	}
}

// Where io_uring is refused, epoll serves as many clients. The refusal is real:
// a seccomp filter on this thread, as containers have it.
func TestRefusedRing(t *testing.T) {
	s := servertest.Start(t)
	made := make(chan *Wire)
	go func() {
		defer close(made)
		runtime.LockOSThread() // for good: the thread ends with the goroutine, and the filter with it
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_IO_URING_SETUP, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			t.Errorf("give up privileges: %v", err)
			return
		}
		if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
			t.Errorf("set the filter: %v", err)
			return
		}
		w, err := NewWire(WireConfig{})
		if err != nil {
			t.Error(err)
			return
		}
		made <- w
	}()
	w, ok := <-made
	if !ok {
		t.FailNow()
	}
	t.Cleanup(func() { _ = w.Close() })
	if w.Ring(64) {
		t.Error("a ring, where io_uring is refused")
	}
	g := open(t, w, GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT 1"), Protocol: Simple, Clients: 20})
	if r := slice(t, g, Slice{Head: 1, Count: 5}); r.N < 100 {
		t.Errorf("%+v", r)
	}
}
