package server

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
)

// forker starts child processes from one operating system thread that lives
// until close.
//
// The parent-death signal is sent when the *thread* that forked a child ends,
// not its process. Goroutines wander between threads, and threads of the Go
// runtime may end; only a goroutine that has locked its thread says when. When
// it returns without unlocking, the runtime ends the thread, and whatever is
// still running gets its signal.
type forker struct {
	mu     sync.Mutex
	closed bool
	jobs   chan func()
}

func newForker() *forker {
	f := &forker{jobs: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: see above
		for job := range f.jobs {
			job()
		}
	}()
	return f
}

// start is cmd.Start on the forker's thread.
func (f *forker) start(cmd *exec.Cmd) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errors.New("closed")
	}
	done := make(chan error, 1)
	f.jobs <- func() { done <- cmd.Start() }
	return <-done
}

// close ends the thread. It may be called twice.
func (f *forker) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		close(f.jobs)
	}
}
