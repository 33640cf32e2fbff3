package workload

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/workload/script"
)

// Driver opens generations. It is the seam between the runner, which knows
// cells and rounds, and whatever sends the load: wire (this package's engine),
// later pgx, pgbench and psql.
type Driver interface {
	// Open connects all clients of one cell, and returns when every connection
	// is ready for its first transaction. Errors of the server come as
	// *pgconn.PgError or *pgconn.ConnectError, wrapped.
	Open(ctx context.Context, g GenerationSpec) (Generation, error)
	// Close ends the job threads. All generations must be closed before.
	Close() error
}

// Generation is one cell's clients on one set of connections.
type Generation interface {
	// Backends returns the process IDs of the server's backends, client by client.
	Backends() []int
	// Run sends one slice and returns when nothing is in flight any more.
	// After an error the generation can only be closed.
	Run(ctx context.Context, s Slice) (Result, error)
	Close() error
}

// GenerationSpec says what one cell's clients are.
type GenerationSpec struct {
	Config   *pgconn.Config // address, user, database, start-up parameters: the cell's settings
	Script   *script.Script
	Vars     map[string]string // values of the script's variables
	Protocol Protocol
	Clients  int
	// SingleTransaction: each slice is one SQL transaction per client. BEGIN is
	// sent in the head, COMMIT after the drain; neither is measured.
	SingleTransaction bool
	// OnConnect is called with every new connection before it is handed to the
	// engine: the proof that the settings are in force, pinning the backend.
	OnConnect func(context.Context, *pgconn.PgConn) error
}

// Protocol is how a statement is sent, as in pgbench.
type Protocol string

const (
	Simple   Protocol = "simple"
	Extended Protocol = "extended"
	Prepared Protocol = "prepared"
)

// Slice is one stretch of load. Head transactions per client are sent first
// and not measured. Then the window opens, for Length; or, when Count is set,
// for Count transactions per client. Nothing new is sent after it, and all in
// flight comes home (drain).
type Slice struct {
	Head   int
	Length time.Duration
	Count  int
	// PerClient ends each client's window with its own first completion at or
	// after the deadline, and T is the sum over clients: right where a slice
	// holds few transactions per client. With one client it is always so.
	PerClient bool
	// Grace is how long after the deadline an answer is waited for; then the
	// slice fails with ErrGrace.
	Grace time.Duration
	// Histogram takes the latency (ns) of every successful transaction that
	// completes in the window; nil: not kept.
	Histogram *hdrhistogram.Histogram
	// Latencies, when not nil, takes the latencies (ns) of client 0 in the
	// order of the slice, head included, up to its capacity: for the pilot.
	Latencies *[]int64
}

// Result is what a slice did.
type Result struct {
	N        int64         // successful transactions completed in the window
	T        time.Duration // one client or PerClient: last completion - window start (summed); else clients x window
	Head     time.Duration // start of the slice to start of the window
	All      int64         // transactions of head, window and drain, failed ones included
	Begin    time.Duration // SingleTransaction: mean over clients
	Commit   time.Duration
	Failures map[string]int64 // SQLSTATE -> transactions in the whole slice; nil when none

	ClientCPU  time.Duration // job threads, whole slice; -1: not known
	ClientWait time.Duration // runnable, not running; -1: not known
}
