// Package workload is the load engine: it sends the scripts of a cell's clients
// to a server and counts what comes back.
//
// A [Driver] opens generations: the clients of one cell on fresh connections
// ([GenerationSpec]). Many are open at once, one per cell of a panel. A
// [Generation] runs slices ([Slice]): a few milliseconds of load, then the
// runner goes on to the next cell's. What a slice did is a [Result]. That is
// the seam. Two engines are behind it: [Wire] is for plain sockets on Linux,
// [Net] for encrypted connections and other systems.
//
// # The anatomy of a slice
//
//	|-- head --|---------- window ----------|- drain -|
//	 sent, not   measured, all clients are    nothing new is sent, all
//	 measured    in flight                    in flight comes home
//
// The first transactions after a switch between cells are slow (caches, the
// branch predictor, a sleeping CPU), hence the head. A client that has done its
// head keeps sending until all clients of all threads have: so the window opens
// for all at once, and nobody is measured with fewer neighbours than clients.
//
// One client: the first completion at or after the deadline is the last one,
// and counted, so that the window holds whole transactions and T / N has no
// bias however short the slice is. Several clients: the window is the same for
// all, from the completion that opened it to the first one of any client at or
// after the deadline; T is clients x window and N the completions inside. Where
// a window holds few transactions of each client, Slice.PerClient gives each
// client a window of the first kind. A failed transaction takes time in T, and is not in N nor in the
// histogram; it is data, counted by SQLSTATE, and its client goes on.
//
// In single-transaction mode a slice is one SQL transaction per client: BEGIN
// goes out before the head, COMMIT after the drain, their means are in the
// Result.
//
// # What the engines share
//
// Connections are opened, authenticated and set up by pgx; then the engine takes
// them over. Messages are encoded when the generation opens (type command), and
// answers are scanned where they lie (type scanner). Each client is a state
// machine (type client) that takes up a message, is given what has come, and
// says what follows; it does no input or output itself. What drives it is a
// worker, which knows where the slice stands and counts. Per transaction there
// is one reading of the clock, and nothing is allocated, locked or looked up.
// Every worker begins its part of the slice at once; the opening of the window,
// which waits for the last client's head, is what keeps them together. So all
// but the waiting is the same code, and the same tests run over both.
//
// # The engine for Linux
//
// Job threads exist once, each a goroutine that keeps its OS thread, and serve
// all generations in turn; client i belongs to thread i mod j, as in pgbench.
// They take over the sockets themselves (and Go's poller lets go of them). A
// thread drives its clients from one wait for the server to the next. The Notes
// at thread.drive tell why the system calls are raw.
//
// # The engine for all else
//
// [Net] takes over Go's connection, with the TLS in it. Each client is a
// goroutine (type stream), which is its own worker and waits in Read; the
// runtime's poller wakes it. NetConfig.Threads, pgbench's -j, is how many may run
// at the same moment: GOMAXPROCS as long as the engine lives. A connection's
// deadline is set when a worker looks up (see below) and not with every Read;
// who cancels a slice sets it to the past. Beside TLS it costs what waiting in
// the runtime costs, in CPU and in time, so figures of the two engines must not
// be compared; the engine stands in every plan, table and record. The client's
// CPU time is the process's, since the runtime waits on threads of its own, and
// its wait for a CPU is not known. Its threads can't be pinned.
//
// # Two ways to wait
//
// A thread of fewer than 16 clients ([WireConfig].RingFrom) waits in epoll_wait;
// each command then is a recv and a send of its own. From 16 on an io_uring
// serves them (type ring): the recvs stay armed, and the sends queue up until
// the thread has scanned all that had come; they go out with the call that waits
// again. Nothing is held back for the sake of it: the thread sends as soon as it
// has looked at what is there, and a latency runs from the moment at which its
// answer was seen to that at which the next one is, so that queueing is inside,
// with either way. An answer waits until those that came with it are received
// and scanned, with epoll until those before it are received and answered.
// Which way is taken hangs on the number of clients and on the system alone,
// never on the cell, so that equal cells are served alike; [Wire].Ring tells.
//
// Measured in pairs of 1 s, all on one CPU of a loaded machine (AMD EPYC VM,
// Linux 6.18, PostgreSQL 15, SELECT 1, simple protocol), io_uring against epoll,
// medians of 11 [quartiles]:
//
//	clients  CPU of the thread    tps                  median latency       99 %
//	16       0.78 [0.71 0.86]     1.07 [0.93 1.14]     0.96 [0.89 1.07]     1.13 [0.87 1.31]
//	64       0.73 [0.67 0.75]     1.01 [0.95 1.05]     1.01 [0.97 1.06]     0.98 [0.91 1.01]
//
// With one client a bare C loop costs more with io_uring, with 8 the same. What
// remains with 64 is the kernel's: by samples a half of the thread's time is
// sending, of which two thirds wake the backend, three tenths are receiving, and
// less than a tenth is ours. The 64 backends, whose caches are cold, take seven
// eighths of the CPU that they share with the client, so that tps says little
// about the client there: pgbench takes a sixth, and a client for nothing would
// get 1.2 times its tps.
//
// Where the kernel is older than 6.1, kernel.io_uring_disabled is set or a
// container's seccomp profile forbids io_uring, epoll serves all.
//
// # When something goes wrong
//
// A worker looks up every 50 ms: then it notices that the slice was cancelled,
// that another worker has failed, or that the server has not answered in time
// ([ErrGrace]). A connection that ends is a [*LostError] with the server's last
// words.
//
// # Scripts
//
// Package workload/script parses scripts; [Builtins] come with pgtare.
package workload
