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
// The record brings its own warnings. These are found here: record-cut,
// record-torn, interrupted, failed, untrusted, control-failed, no-control,
// cell-failed, failures (above 1 %), generations-lost, latency-mismatch (mean
// latency and clients / tps are 10 % apart), no-interval, few-replicates, bursts, outlier,
// builds-differ (compiler, optimization or options of servers that are
// compared), slow-build (-O0, -Os, assertions).
//
// # JSON, schema 1
//
// One object. Percentages are of time per transaction, plus is slower; null is
// what wasn't measured, with a reason near it (in reason, or in warnings).
//
//	schema, pgtare, title, seed
//	environment   the machine, the record's id and start, the command line, the servers with their builds
//	trusted       whether all controls held; null where none could be judged
//	margin        per cent: within it, "same"
//	warnings[]    code, cells (empty: all), text, remedy
//	controls[]    panel, cell, against, pct, lo, hi, t, p, replicates, ok
//	panels[]      id, head, slice_ns, rounds, heterogeneity{f,p}, anchor{tps,seconds} of the baseline on the
//	              first server, anchors[] on all; beside these what the panel is: workload, mode, protocol,
//	              clients, threads, schedule, pin, generations
//	cells[]       id, panel, axes{}, settings{}, isolation, schedule, baseline, control, status, reason, runs[],
//	              unit, median, min, max, tps (over all runs), transactions, failures{},
//	              latency_us{mean, stddev, p50, p95, p99, p99.9, max} (the last two null under slices: a slice
//	              ends with its window, so that a stall is met more rarely than in unbroken load),
//	              head_ns, begin_ns, commit_ns (means of a slice), server_cpu_ns, client_cpu_ns (per transaction)
//	comparisons[] cell, against, axis, pct, lo, hi, ns, ns_lo, ns_hi, typical{pct,lo,hi}, total{pct,lo,hi},
//	              bursts{pct,p} (null where typical and total agree), cpu{pct,lo,hi,ns,ns_lo,ns_hi}, p,
//	              p_adjusted, replicates, replicate_unit, would_see, time_factor, verdict, reason
//
// pct is typical, or total where bursts is set or typical is null. heterogeneity
// is null as long as no test for it is made.
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
// "+5.0 +- 0.4" is an estimate with half its 95 % interval; where the interval
// is lopsided by more than a tenth of that, its ends stand there instead. A
// percentage has one decimal, two where half the interval is below 0.05, none
// from 10 on; ns have the two digits that the interval supports.
package report
