// Command calibrate computes the tables of scripts/calibrate.sh from the files
// that the script left in a directory, and judges what was promised:
//
//	calibrate [-quick] DIRECTORY
//
// It measures nothing. A record holds its longest measuring time; shorter ones
// are its first generations (cut.go), and all of them go through report.Build,
// as they would for a user who measured no longer. Standard errors are over
// matrices: comparisons of one matrix share their references and their hour,
// and don't count for as many.
//
//	DIRECTORY/about          two or three lines about commit and machine, printed as they are
//	a-N.jsonl                ten equal cells                                     equal.go
//	i-N.jsonl                six equal instances
//	e-N.jsonl                ten equal cells, one core kept busy
//	k-N.jsonl, k-N.counts    a slower clock, and what it really added            known.go
//	w-N.jsonl                work of known size in the statement
//	c-KIND-N-VARIANT.jsonl   the same settings by several methods                methods.go
//	d-N.ORDER, d-N.ORDER.SECONDS.csv  pgbench's runs, what benchstat made of them    pgbench.go
//
// # What truth is
//
// The slower clock: what slowclock.c counted, in ns per transaction, measured
// inside the server by the clock itself and independent of pgtare. Each
// transaction pays it, whatever else happens, so that it is another percentage
// for total than for typical: of the mean time for total, and for typical what
// becomes of an ordinary slice when each of its transactions takes so many ns
// more, which is computed from the baseline's own slices ([typicalTruth]). On a
// busy machine the mean is well above the ordinary slice. While the server
// spins it may lose the CPU; what that adds belongs to the mean time and not to
// the ordinary slice ([interruptions]), and where it is more than a few per cent
// the truth is no longer sharp. The ns that pgtare prints are compared with the
// counted ones of the mean.
//
// A spinning server's data are pushed out of the caches by others, so that its
// other work takes longer, too: a real cost of a slow clock, which the sum of
// what was added doesn't hold. slowclock.c counts that apart, and a second
// column, "w. rest", has it in the truth, and the interruptions also for typical:
// ordinary slices meet short ones. On a busy 2-core virtual machine 9.5 us
// added were 12.1 us of CPU: 1.2 us more by interruptions, 1.0 in the rest. The client's part of it (a process
// of its own, some 5 % of what was added on a busy virtual machine) is in neither.
// Counts are of all transactions, the pilot's included. PostgreSQL 15 reads the
// clock four times in SELECT 1, and three times once a backend is more than a
// second old, so that the pilot's differ a little.
//
// Work of known size: there is no truth from outside. The step of the largest
// n is taken as exact but for its own standard error, and smaller steps must
// cost their share of it: a test that pgtare is linear from 0.5 % to 30 %, not
// that its unit is right. Both intervals are added as if they shared nothing,
// which is a little wide, since they share the baseline.
package main
