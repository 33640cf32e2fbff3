package server

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/results"
)

// Target is a running PostgreSQL, managed or attached.
type Target interface {
	// ID is unique among the targets of a matrix.
	ID() string
	// Label is the installation's.
	Label() string
	// Config returns a fresh copy of how to connect. RuntimeParams holds only
	// what every session needs; a cell's settings are added to the copy.
	Config() *pgconn.Config
	// Alive returns nil, or an error that says how the server died.
	Alive(ctx context.Context) error
	// Describe asks the server what it is.
	Describe(ctx context.Context) (results.Server, error)
	// Managed: pgtare owns the server, may pin, stop and configure it.
	Managed() bool
	// LocalPID: pg_backend_pid() is the process ID in this machine's /proc.
	LocalPID() bool
	// Schema is where tables may be made. It is pgtare's alone and goes with
	// Close; "" where an attached server has none: see
	// Attached.MakeSchema.
	Schema() string
	// Close gives the server up: a managed one is stopped and removed, an
	// attached one is left as it was found. It may be called twice.
	Close() error
}

// UsageError is a mistake of the user's. Its text names the remedy.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

func usagef(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...)}
}

// UnavailableError means that no PostgreSQL could be had. Its text names the
// remedy.
type UnavailableError struct{ Text string }

func (e *UnavailableError) Error() string { return e.Text }

func unavailablef(format string, args ...any) error {
	return &UnavailableError{fmt.Sprintf(format, args...)}
}

var (
	_ Target = (*Instance)(nil)
	_ Target = (*Attached)(nil)
)
