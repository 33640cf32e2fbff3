package workload

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/workload/script"
)

// Driver opens generations. It is the seam between the runner, which knows
// cells and rounds, and whatever sends the load: wire (this package's engines,
// [Wire] and [Net]), later pgx, pgbench and psql.
type Driver interface {
	// Open connects all clients of one cell, and returns when every connection
	// is ready for its first transaction. Errors of the server come as
	// *pgconn.PgError or *pgconn.ConnectError, wrapped.
	Open(ctx context.Context, g GenerationSpec) (Generation, error)
	// Serves names what sends the load of so many clients, and how it waits for
	// answers: wire/epoll, wire/io_uring or wire/net. That must be stated beside
	// their figures.
	Serves(clients int) string
	// Close ends the job threads. All generations must be closed before.
	Close() error
}

// Generation is one cell's clients on one set of connections.
type Generation interface {
	// Backends returns the process IDs of the server's backends, client by client.
	Backends() []int
	// Run sends one slice and returns when nothing is in flight any more. It
	// fails with *LostError, with an error that wraps ErrGrace, or with the
	// cause of ctx's end; then the generation can only be closed. A transaction
	// that fails is no error, but counted in the result.
	Run(ctx context.Context, s Slice) (Result, error)
	// Close ends the sessions; what still runs in them is cancelled.
	Close() error
}

// GenerationSpec says what one cell's clients are.
type GenerationSpec struct {
	Config   *pgconn.Config    // address, user, database, start-up parameters: the cell's settings
	Script   *script.Script    // one pass through it is a transaction
	Vars     map[string]string // values of the script's variables
	Protocol Protocol
	Clients  int
	// SingleTransaction: each slice is one SQL transaction per client. BEGIN is
	// sent in the head, COMMIT after the drain; neither is measured. The script
	// must not control transactions itself (script.TransactionControl). After a
	// failed transaction ROLLBACK and BEGIN are sent, within T.
	SingleTransaction bool
	// OnConnect is called with every new connection before it is handed to the
	// engine: the proof that the settings are in force, pinning the backend.
	OnConnect func(context.Context, *pgconn.PgConn) error
}

// WireConfig says what the job threads of [Wire] are.
type WireConfig struct {
	Threads int   // how many, as pgbench's -j; 0 means 1
	CPUs    []int // the CPUs that they may run on; nil: not pinned
	// RingFrom is from how many clients per job thread on they are served
	// through io_uring, where the system has it; 0 means 16, -1 never.
	RingFrom int
	// Clock is what the threads read, in ns from a zero in the past; nil: the
	// monotonic clock. Another one keeps the cost of reading equal where the
	// kernel's clock source differs between cells.
	Clock func() int64
}

// Protocol is how a statement is sent, as in pgbench.
type Protocol string

const (
	Simple   Protocol = "simple"
	Extended Protocol = "extended"
	Prepared Protocol = "prepared"
)

// Slice is one stretch of load. Head transactions per client are sent first
// and not measured; a client that is done with its head goes on, still not
// measured, until all are. Then the window opens, for Length; or, when Count is
// set, for Count transactions per client, failed ones included. Nothing new is
// sent after it, and all in flight comes home (drain). One of Length and Count
// must be positive; Count goes first.
type Slice struct {
	Head   int
	Length time.Duration
	Count  int
	// PerClient gives each client a window of its own: from its first
	// completion when all are past their heads to its first completion Length
	// later, or after Count transactions; T is the sum over clients. That is
	// right where a slice holds few transactions per client, for each such
	// window holds whole transactions. With Length, clients whose window is
	// over go on, not measured, until all are, so that every transaction
	// measured had as many neighbours. With one client it is always so.
	PerClient bool
	// Grace is how long after the deadline an answer is waited for; then the
	// slice fails with ErrGrace. Before the window opens it is Length + Grace,
	// and with Count it is Grace, for each transaction. 0: 10 s.
	Grace time.Duration
	// Histogram takes the latency (ns) of every successful transaction that
	// completes in the window, from when its first command could be sent; nil:
	// not kept. What exceeds its range is recorded as its highest value.
	Histogram *hdrhistogram.Histogram
	// Latencies, when not nil, takes the latencies (ns) of client 0's
	// successful transactions in the order of the slice, head included, up to
	// its capacity: for the pilot.
	Latencies *[]int64
}

// Result is what a slice did.
type Result struct {
	N int64 // successful transactions completed in the window
	// T is the clients' time in the window, that of failed transactions
	// included. One client or PerClient: last completion - window start, summed;
	// else clients x window, the window reaching from its opening to the first
	// completion at or after its deadline, or with Count to the last completion.
	T        time.Duration
	Head     time.Duration // start of the slice to start of the window
	Elapsed  time.Duration // of the whole slice, to the end of the drain
	All      int64         // transactions of head, window and drain, failed ones included
	Begin    time.Duration // SingleTransaction: mean over clients
	Commit   time.Duration
	Failures map[string]int64 // SQLSTATE -> transactions in the whole slice; nil when none

	// ClientCPU is the CPU time of the job threads over the whole slice, with Net
	// that of the whole process; -1: not known.
	ClientCPU  time.Duration
	ClientWait time.Duration // runnable, not running; -1: not known
}
