// Package results holds the record: the file that keeps everything a matrix
// measured, so that its table can be printed, questioned and compared later
// without the servers. [Create] begins one, [Writer] adds to it while the
// matrix runs, [ReadFile] gives it back as a [Record]; package report turns
// that into tables.
//
// # The file
//
// A record is JSON lines: one object per line, UTF-8, each with a key "type".
// This is format 1.
//
//	{"type":"header", "format":1, ...}     once, first
//	{"type":"generation", ...}             one per generation and cell
//	{"type":"machine", ...}                what the machine did meanwhile, one per generation of a panel or block of a cell
//	{"type":"warning", ...}                a doubt that came up on the way
//	{"type":"end", ...}                    once, last
//
// Lines are only ever appended. So a record that was cut off, by a crash or a
// full disk, is still a record: it has no end, and an incomplete last line is
// left out (Torn). Anything else that isn't as described here is refused with
// file and line, since a number from a damaged file is worse than none. A
// reader passes over keys that it doesn't know; a change that an old reader
// would misread takes a new format number.
//
// Times of day are RFC 3339. Durations are ns unless the key names another
// unit. -1 stands for "not measured" where the key allows it, and 0 or "" for
// "not known" in the header's facts.
//
// # header
//
// It is written after the probe and before anything is measured, and says all
// that is needed to read the rest.
//
//	id, pgtare, title, started, seed, args   the record's name, the program that wrote it, what was asked
//	spec           the matrix as asked, for a rerun; its form is that of package matrix
//	runs           runs asked for
//	run_seconds    measured seconds per cell and run, 0 where transactions is given
//	transactions   measured transactions per client and run, 0 where not asked
//	unit           of the figures: tps, or s for the time that so many transactions take
//	until          half-width in per cent at which the matrix was to stop; runs is then the least number; 0: not asked
//	max_seconds    after which no run begins; 0: no limit
//	margin         per cent within which two cells are called the same
//	environment    the machine: [Environment]
//	axes           name and values; the first value is the baseline's
//	columns        axes or settings that stand as columns of the table; lacking: the servers
//	servers        what was found: [Server]
//	defaults       of several servers: whether each had its own, and what still differs: [Defaults]; null: one server
//	instances      the running servers, each of one of these: [Instance]
//	panels         what may be compared, with the lengths in force: [Panel]
//	cells          in the order of the table: [Cell]
//	comparisons    which cell will be compared with which: [PlannedComparison]
//	controls       which equal cells decide about trust: [PlannedControl]
//	warnings       doubts that were known by then: [Warning]
//
// Labels of servers and ids of instances, panels and cells are unique; what
// refers to one must find it. Only cells of one panel are compared. A panel has
// at most one baseline per server and set of variables. Comparisons stand in
// the header so that nobody, the program included, can choose them by their
// results.
//
// # generation
//
// What one cell did on one set of backends.
//
//	panel, cell, run, generation   which; both count from 1
//	started                        before connecting and warm-up; start_us counts from it
//	slices                         columns of equal length, one value per slice
//	  round          from 0, increasing: slices of one round are compared
//	  position       within the round, from 0
//	  predecessor    index into the header's cells of the cell before it, or -1
//	  start_us       since started
//	  n              transactions completed in the window
//	  t              time they took: one client, last completion - window start; several, clients x window
//	  head_ns        from the start of the slice to the start of the window, or -1
//	  elapsed_ns     of the whole slice; the column may be missing
//	  all            transactions of head, window and drain, failed ones included
//	  server_cpu, server_wait   of the backends over the whole slice: running, and runnable but not running; or -1
//	  client_cpu, client_wait   of the job threads, the same
//	  begin, commit  ns of BEGIN and COMMIT in single-transaction mode, mean over the clients; else -1
//	histogram        latencies in ns: HdrHistogram V2, compressed, base64, 1 ns to 1 h, 3 digits; "" where there are none
//	mean_ns, p50_ns, p95_ns, p99_ns, p999_ns, max_ns   beside it, for readers without HdrHistogram
//	failures         SQLSTATE -> failed transactions
//	connect_ns, warmup_ns, warmup_tx   what came before the first slice
//	minor_faults, involuntary_switches   of the backends, or -1
//	moves            of the backends from CPU to CPU, or -1
//	file_io          what the backends read and wrote in the slices ([FileIO]); missing where it isn't known
//	background       what the cell's instance did beside its transactions ([Background]); missing where other cells were served meanwhile
//	lost             why it ended early; "" where it did not. The slices of a lost generation are not used
//
// In the block schedule a cell's generation is one run of it, in one slice.
//
// Time per transaction is sum of t / sum of n, of a client: c clients complete
// c * n / t transactions per ns.
//
// # machine
//
// What the machine did while a generation of a panel, or a block of a cell, was
// measured, set-up included: [Machine]. For doubts, not for figures.
//
//	panel, run, generation   as in the lines of generations
//	cell           of a block; "" for all cells of the panel
//	started, elapsed_ns
//	cpus           that clients and backends may use
//	busy_ns, steal_ns   of these CPUs: at work; wanted, but given to other virtual machines
//	own_ns         of the work, on whatever CPU: pgtare's and its servers'
//	throttled_ns   for which the control group's CPU quota held everything up
//	min_khz, max_khz   frequencies of the CPUs
//	clocksource    at the end; "" where not known. One of environment.clocks where the matrix switches it
//
// # warning
//
//	code     a word that programs know it by
//	cells    which it is about; none: all
//	text, remedy   for people
//	forbids  what must not be said because of it: "same", "verdict"; missing: nothing
//
// # end
//
//	ended
//	status   complete, interrupted, failed
//	reason
package results
