// Package report makes tables of a record. [Build] does all computing, once;
// what it returns is plain data in the shape of the JSON form, and
// [Report.Text] and [Report.JSON] only format it. So no format can know a
// number that another doesn't.
//
//	record -> figures per run and cell -> comparisons and controls (package stats) -> doubts -> text, JSON
//
// # Figures
//
// A run's figure comes from sums over its slices: n transactions took t ns,
// where t is summed over the clients, so that t / n is what one client spends
// per transaction. c clients do c * n / t per ns (unit tps). With -t, one
// client's N transactions take N * t / n, and all clients take as long, since
// they run side by side (unit s). The table shows the median of the runs. The
// mean of the slices' own ratios would be wrong: a stall in a slice of two
// transactions would weigh as much as sixty good ones.
//
// Percentiles are those of a cell's histograms, added up. CPU time per
// transaction is that of whole slices over all their transactions. A
// generation that was lost counts nowhere.
//
// A cell's status is n/a where the server refused it, failed where a
// generation passed without a success or none came to its end, and partial
// where runs, or generations of a run, are fewer than were asked. Comparisons
// with a cell that is n/a are left out. With a failed cell they have no figure
// and the verdict unclear. Where the setting could not act the verdict is
// not-exercised; the comparison has its figures in JSON, but it doesn't count
// for the adjustment of the others, and the text doesn't print them.
//
// # Doubts
//
// The record brings its own warnings. Others are found here; what one forbids is
// not said of its cells: same, or any verdict.
//
// Of the record and the comparisons: record-cut, record-torn, interrupted,
// failed, untrusted, control-failed, no-control, cell-failed, failures (above
// 1 %; forbids any verdict: what fails takes another time than what succeeds),
// generations-lost, latency-mismatch (mean latency and clients / tps are 10 %
// apart; forbids same), no-interval, few-replicates, bursts, outlier,
// runs-differ, carry-over, bimodal (both forbid same), first-run (the last four
// are explained in package stats), builds-differ (compiler, optimization or
// options of servers that are compared), slow-build (-O0, -Os, assertions).
//
// Of the machine. Where a share is given, it is that of all generations of a
// cell, panel or block, and the text adds how many were above the limit and the
// worst. "Here" is a virtual machine with two CPUs.
//
//   - client-bound: job threads busy for more than 90 % of the time, or more than
//     half of the CPU time the clients' where they share CPUs with the backends
//     and both together are at work for a quarter of the time
//     (21 to 32 % here; 45 % in the mail of 2006 that this table is modelled on).
//     A thread without idle time is what limits; and of a cost in the server less
//     than half shows. Forbids same.
//   - preempted: one client or its backend was ready to run for more than 10 % of
//     the time and did not get a CPU: the waits, less what the job thread used, for
//     which its backend waits as a matter of course on a shared core.
//     Here 2 % (pinned) and 9 % (free) beside light load, 36 % and more beside
//     processes that took a part of each CPU, 81 to 87 % beside ones that took all
//     they got. Several clients wait for each other; for them other-load speaks.
//   - moved: backends that may run anywhere changed CPU more than 100 times per
//     second of their CPU time: 7 to 60 times here, under load. In index look-ups
//     over 100,000 rows a move cost no more than 50 us (350 of them in 1.4 s of CPU
//     time could not be seen), so that 100 are at most 0.5 %.
//   - steal: more than 2 % of the CPUs. Slices meet it alike, so it widens
//     intervals rather than moves them; this machine lost 1.3 % in three hours of
//     work, so that less is how such machines are.
//   - other-load: BusyNs less OwnNs above 10 % of the CPUs. The kernel books busy
//     time by ticks of 10 ms and its own work for the servers (interrupts,
//     write-back) to nobody: a CPU filled by one thread showed 6 % that was not the
//     thread's.
//   - throttled: the control group was held up for more than 0.1 % of the time. It
//     is 0 without a quota, and half of the time with a fifth of a CPU; a single
//     hold-up of a ms per second is too little to tell. Forbids same: the quota, not
//     the work, sets the pace.
//   - governor: it is known, and not performance. No threshold.
//   - frequency: the fastest CPU of each line varied by more than 10 %: an idle
//     CPU's says nothing. Not seen here, where virtual machines show none; a
//     speed that much apart is ten times the margin of 1 %.
//   - slow-clock: a read takes more than 100 ns (32 ns here, by tsc and the vDSO),
//     or the source is one that Linux reads by a system call.
//     Where clock sources are compared it is what is weighed, and no doubt.
//   - own-clock: clock sources are compared, and pgtare's own timing reads them,
//     too, for want of a counter of the CPU's. Forbids any verdict.
//   - clocksource-changed: the kernel's, while the matrix ran, to one that the
//     matrix does not switch to.
//   - unequal-checkpoints, unequal-vacuums: cells that are compared had them
//     equally often neither per transaction (as where WAL brings them) nor per
//     block (as where time does, or pgtare), by more than where blocks begin within
//     the interval explains (two standard deviations of at most 1/2 per block).
//     Forbids same.
//
// Note: involuntary context switches were to be the sign of preemption. They
// show the contrary: on a shared core the client's wake-up takes the backend off
// nearly once per transaction, 26,000 times per second when all was quiet and 53
// times with the core kept busy by another process. They are given in the text,
// and decide nothing.
//
// # JSON, schema 1
//
// One object. Percentages are of time per transaction, plus is slower; null is
// what wasn't measured, with a reason near it (in reason, or in warnings).
//
//	schema, pgtare, title, seed
//	environment   the machine, the record's id and start, the command line, the servers with their builds; where
//	              clock sources are compared, clocks[]{source,read_ns} and own_clock: counter where pgtare's own
//	              timing costs the same under each, else clocksource
//	trusted       whether all controls held; null where none could be judged
//	margin        per cent: within it, "same"
//	warnings[]    code, cells (empty: all), text, remedy, forbids (same, verdict; lacking: nothing)
//	controls[]    panel, cell, against, pct, lo, hi, t, p, replicates, ok
//	panels[]      id, head, slice_ns, rounds, heterogeneity{f,p}, anchor{tps,seconds} of the baseline on the
//	              first server, anchors[] on all; beside these what the panel is: workload, mode, protocol,
//	              clients, threads, schedule, pin, engine, generations, waits (samples by type of wait event,
//	              "" is running; null: not sampled)
//	cells[]       id, panel, axes{}, settings{}, isolation, schedule, baseline, control, status, reason, runs[],
//	              unit, median, min, max, tps (over all runs), transactions, failures{},
//	              latency_us{mean, stddev, p50, p95, p99, p99.9, max} (the last two null under slices: a slice
//	              ends with its window, so that a stall is met more rarely than in unbroken load),
//	              head_ns, begin_ns, commit_ns (means of a slice), server_cpu_ns, client_cpu_ns (per transaction),
//	              client_share_pct (of the CPU time of clients and backends),
//	              background{cpu_ns, wal_bytes, pages_read, pages_written (per transaction), checkpoints, vacuums
//	              (counts)}: what the cell's instance did beside; null where it served other cells meanwhile
//	comparisons[] cell, against, axis, pct, lo, hi, ns, ns_lo, ns_hi, typical{pct,lo,hi}, total{pct,lo,hi},
//	              bursts{pct,p} (null where typical and total agree), cpu{pct,lo,hi,ns,ns_lo,ns_hi},
//	              percentiles[{q,pct,lo,hi}], p, p_adjusted, replicates, replicate_unit, would_see, time_factor, verdict, reason
//
// pct is typical, or total where bursts is set or typical is null. heterogeneity
// is the F test between runs with the smallest p, adjusted for the tests of the
// panel, and null where none can be made (own instances, blocks, one run). Below
// 0.05 all comparisons of the panel take the run for the replicate, and
// replicate_unit says so. percentiles[] is empty where fewer than 100
// transactions lie beyond a quantile; p99.9 is there for blocks only. A warning
// that has the key forbids takes verdicts back: "same" the verdict same,
// "verdict" slower and faster too; the comparison is unclear then, and reason
// names the doubt.
//
// # Text
//
// Plain ASCII, at most 78 columns, so that it can be pasted into a mail and
// quoted. The shape is that of the tables on pgsql-hackers since 2006: a
// section per workload and mode, whose first row is the baseline, the settings
// indented below, a column per server. With one server the overheads stand
// beside the figures, with several below them. What isn't ASCII in a name is
// written as an escape.
//
// Where the record, or --columns, names other axes or settings, their values
// are the columns of the figures; the overheads below stay as they are.
//
// "+5.0 +- 0.4" is an estimate with half its 95 % interval; where the interval
// is lopsided by more than a tenth of that, its ends stand there instead. A
// percentage has one decimal, two where half the interval is below 0.05, none
// from 10 on; ns have the two digits that the interval supports.
package report
