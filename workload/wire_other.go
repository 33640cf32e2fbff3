//go:build !linux

package workload

import (
	"context"
	"fmt"
	"runtime"
)

// Wire is the engine that speaks to the server over plain sockets.
type Wire struct{}

// NewWire fails: that engine is made of Linux system calls. [NewNet] makes one
// that isn't.
func NewWire(WireConfig) (*Wire, error) {
	return nil, fmt.Errorf("the engine epoll needs Linux, and this is %s; use the engine net", runtime.GOOS)
}

// Open is not reached, for there is no Wire.
func (*Wire) Open(context.Context, GenerationSpec) (Generation, error) {
	panic("workload: a Wire that NewWire did not make")
}

// Ring is not reached, for there is no Wire.
func (*Wire) Ring(int) bool { panic("workload: a Wire that NewWire did not make") }

// Serves is not reached, for there is no Wire.
func (*Wire) Serves(int) string { panic("workload: a Wire that NewWire did not make") }

// Close is not reached, for there is no Wire.
func (*Wire) Close() error { panic("workload: a Wire that NewWire did not make") }
