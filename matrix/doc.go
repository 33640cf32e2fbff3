// Package matrix turns what was asked into cells, cells into a plan, and the
// plan into a record.
//
// # Words
//
// A [Spec] is what the user asked for: axes with their values. Its product is
// a [Plan]: panels of cells, of which only cells of one panel are compared,
// with the comparisons and controls named before anything is measured. A place
// is what a cell's instance is made on: a server and an environment. A batch is
// the panels whose instances run at once where memory doesn't hold all ("Batches",
// below); its number stands in the header, the table and the JSON. [Run]
// carries the plan out and writes a record of package results; it decides
// nothing about the figures.
//
// # Flow
//
//  1. [NewPlan] (pure: no server, no file but the scripts that were already
//     read): axes -> cells -> panels, baseline first, twins, comparisons.
//  2. [Run]: undo what runs that were killed have left ([Restore]), find the
//     servers, start the instances, probe every cell (a setting
//     that isn't in force is n/a or an error before anything is measured), make
//     each writing cell its own table.
//     Servers are started as they are first, and the plan is worked out again
//     with what they say of the settings: names that no server has any more
//     become today's, each server is given the names that it knows, and where
//     versions differ in how a setting is set, the way is taken that works on
//     all. A setting that one server lacks is n/a there.
//  3. The pilot: some sixty short probe slices for every panel, which set the head,
//     the length of a slice and of a generation. They are frozen then, alike
//     for all cells of a panel, and the probe slices are thrown away.
//  4. The anchor, one unbroken second of each panel's baseline.
//  5. Runs: with instances as an axis, each begins with a new start of every
//     instance, in random order. A run is a number of generations of every
//     panel, panels taking turns in random order. A generation connects, proves
//     the settings in every connection, warms up, and then does its rounds: one
//     slice of every cell, in a fresh random order in which no cell follows
//     itself. The record is synced when a generation ends, never within.
//
// # Isolation and schedule
//
// How a setting is set (its context) does not say where its cells must run.
// [server.Isolation] does, setting by setting and value by value: log_min_duration_statement=100
// costs its own session a reading of the clock, 0 makes everybody wait for the log.
//
//   - session: the cells share an instance, each session gives its settings at
//     connecting, and the replicate is the generation, because a backend is the
//     outermost level of luck that differs between them.
//   - instance: the value stands in the configuration of an instance of its own,
//     where the processes behind the sessions see it, too. The baseline's twin
//     gets an instance as well, all are started anew for every run, and the
//     replicate is the run. So it is between servers, and for NAME=V1,V2@instance.
//   - cluster: the value is given to initdb, and the instance is one of such a
//     cluster (data_checksums, wal_segment_size, locale, encoding; --initdb). In
//     slices where the workload only reads, else in blocks.
//   - panel: modes, protocols and numbers of clients (-M, -c) aren't compared
//     with each other, so each has a panel of its own on the same instances, and
//     one placement holds for all (that of one client only where all have one).
//   - slice: a few ms of one cell, then of the next. Whatever drifts hits all.
//   - block: a whole run of one cell, in random order, after a checkpoint and,
//     where the cell has an instance of its own, a new start of that; its table
//     is new, and those of the other cells are gone. Where it writes, a checkpoint
//     comes at a third and at two thirds of it. For costs that land on what cells have in common
//     (WAL, log, write-back), which slices would spread over their neighbours.
//
// Settings that differ in schedule go to panels of their own, each with its
// baseline and control: a cell in blocks can't be paired with one in slices.
// --schedule overrides the table. What a setting is only a server knows, so the
// plan is worked out twice: by the names (this is what --dry-run prints), and
// again when every server has been started as it is and asked.
//
// A running server that somebody else owns (--server CONNINFO) is one instance,
// whatever the plan has of it: what has to be in its configuration is set there
// for each block in turn, if --allow-alter-system allows it, and put back at the
// end. It can't be started anew, so it is not compared with other servers. After
// each block it is looked whether the configuration is still what was set: what
// somebody else does to it meanwhile is a doubt (configuration-changed) that
// forbids verdicts on that cell.
//
// What a dead pgtare has left on such a server a run undoes by its own session,
// before it changes anything, and refuses to alter the configuration while a
// journal that names it is open or another pgtare's. On servers that it doesn't
// measure a run undoes nothing: they may be gone for good, and their passwords
// with them; pgtare restore does.
//
// A panel of several clients is sampled first: where more than 5 % of its
// sessions wait for locks, slices would break up the queues that the load is
// about, and it is measured in blocks.
//
// What an instance did beside the transactions (CPU of the other processes, WAL,
// pages, checkpoints, autovacuum) is attributed to a cell only in blocks, or
// where the cell had the instance to itself; before PostgreSQL 15 only in
// blocks, since reading the counters takes most of a second there.
//
// What a user wants done around each run, dropping the system's caches, say, is
// a command for the shell: [Hooks].
//
// What acts only while connecting (log_connections, scram_iterations) is refused.
//
// A setting with a dot belongs to a library. Where nobody names that in
// shared_preload_libraries, all instances load it, the baseline's too, so that
// the setting is weighed and not the library; to weigh the library,
// --set shared_preload_libraries=,pg_stat_statements. Sessions of a running
// server load it themselves, where a library can be loaded so.
//
// # Defaults
//
// Comparing versions asks one of two questions. With shipped defaults: what does
// the new version cost as it comes? With aligned ones: what does its code cost?
// Then every setting whose default differs between the servers is written into
// all of them that know it, with the value of the first server: it is the
// baseline, whose figures so are the same under both questions, and what the
// others' figures change by is what their own defaults weigh. (The newest
// server's values would have moved the baseline, and the answer with every
// server that joins.) A value that a server refuses is left at its own. The
// header says what still differs.
//
// # Batches
//
// Instances that are compared in slices run at once. Where memory, of the
// machine or of the control group, doesn't hold all of them with their shared
// buffers, the settings' rows are divided into batches, each of which is a panel
// with its own baseline and control, on instances of its own that run while it
// is measured. Cells of different batches are not compared.
//
// # Environment and clock source
//
// A value of --env gives each server an instance for itself, as a setting in
// the configuration does: a process has its environment from its start. The
// word unset stands for a variable that isn't given; a server has PATH, LC_ALL,
// TZ and LD_LIBRARY_PATH, and otherwise only what --env gives it. The values of
// an axis are names in the table, so they are on record; a single value, which
// is the same everywhere, is not.
//
// The kernel's clock source is the whole machine's, and switching it takes 0.2 to
// 2 ms, in which all CPUs stand still: the cells share an instance, and the
// source is switched before every slice (or block): to another and back, where
// the cell before ran under the same. That lies before the head, whose
// transactions meet cold caches and whatever else a switch leaves behind, and the
// pilot has found the head's length with switches in it. The order of the cells
// stays random.
//
// Note: switching only where the source differs would be half the work. But a
// cell whose source no other has would follow a switch in every round, and the
// baseline, beside its twin, in every other; a cost of the switch that outlasts
// the head would look like one of the source, and no control would show it. Nor
// may cells stand in order of their sources: then one would always come late in a
// round.
//
// pgtare itself reads a clock once per transaction and more, which costs what the
// source costs: tens of ns under one, a system call under another, in the very
// figure that is weighed. With one client the difference could be subtracted,
// with several it depends on who waits for whom. So the load threads read the
// CPU's own counter ([host.Counter]) where sources are compared, at the same
// cost under all of them. Where there is none to rely on, and with the engine
// net, the kernel's clock is read as always, and no verdict is given (the doubt
// own-clock).
//
// Before anything is started the source in use is written into the journal
// ([host.Journal]) and the right to switch taken, which one process can have. It
// is put back when the run ends, by whatever error, signal or panic. After a
// SIGKILL the next run does so, or pgtare restore ([Restore]). A Unix socket may
// be forwarded from another machine, so a server is refused whose processes
// aren't seen here.
//
// What sends the load is an [Engine]: epoll where it can be had, net where the
// connection to an attached server is encrypted (which a look at one shows, whatever
// sslmode says) and on other systems than Linux. There pgtare starts no servers
// ([server.CanStart]), and what the system doesn't tell is null.
//
// # Stopping by width
//
// With --until the runs go on until every deciding interval is narrow enough.
// Looks come at 30 generations (10 runs) and each quarter more, by way of the
// record and the code that prints it. Stopping by a verdict instead would
// raise false alarms fourfold.
//
// # Several settings
//
// They are varied one at a time, and all at their last values together (the sum
// need not be what its parts are). With --combine full every combination is a
// cell, compared with the baseline like the others.
//
// # Note: lengths
//
// A generation has at least 20 rounds, and more until connecting, proof and
// warm-up take a third of its time, but never so many that a run would hold
// fewer than three generations: with few replicates no number of rounds makes
// an interval. Where a slice holds too few transactions for the trimmed
// estimate (above some 4 ms each) it has 4 rounds, for the same reason. Lengths
// follow the slowest cell of the panel, so that a statement made three times as
// long by its setting still fits thirty times into a slice.
//
// A checkpoint of the two in a block begins late where the one before it takes
// longer than a third of the block: then their number may differ between cells,
// which is a doubt of its own.
//
// Predecessors of slices are recorded, for the doubt carry-over. With two cells in a panel (no control) each follows the other within a
// generation, and only the order of the first round is drawn.
//
// # Note: comparisons
//
// A cell is compared with the cell that differs from it in one axis only, at
// that axis's first value: n=2000 with a setting on against n=2000 with it
// off, and against n=1000 with it on. Comparing such a cell with the panel's
// baseline would add up two effects in one figure that nobody asked for.
package matrix
