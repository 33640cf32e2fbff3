//go:build !linux

package workload

import (
	"context"
	"errors"
)

// WireConfig says what the wire engine's job threads are.
type WireConfig struct {
	Threads int   // how many, as pgbench's -j; 0 means 1
	CPUs    []int // the CPUs that they may run on; nil: not pinned
	// RingFrom is from how many clients per job thread on they are served
	// through io_uring, where the system has it; 0 means 16, -1 never.
	RingFrom int
}

// Wire is the engine that speaks to the server over plain sockets.
type Wire struct{}

// NewWire fails: the engine is made of Linux system calls.
func NewWire(WireConfig) (*Wire, error) {
	return nil, errors.New("the load engine needs Linux: run pgtare there")
}

// Open is not reached, for there is no Wire.
func (*Wire) Open(context.Context, GenerationSpec) (Generation, error) {
	panic("workload: a Wire that NewWire did not make")
}

// Ring is not reached, for there is no Wire.
func (*Wire) Ring(int) bool { panic("workload: a Wire that NewWire did not make") }

// Close is not reached, for there is no Wire.
func (*Wire) Close() error { panic("workload: a Wire that NewWire did not make") }
