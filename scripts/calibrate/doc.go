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
// A server that spins pays for more than it adds. Interrupts and other guests of
// the machine use the time, too, and push its data and code out of the caches,
// so that its other work takes longer: a real cost of a slow clock, which the sum
// of what was added doesn't hold. slowclock.c counts what it can see of it: the
// CPU lost while spinning, the time between reads and up to the answer (rest),
// and the time from one answer to the next (whole), which also holds the kernel's
// and the client's part. The last, less that of size 0, is the server's own
// figure for the whole cost, made without slices, pairs or trimming; the column
// "whole" judges pgtare by it. It comes of the same transactions, so that it
// shows an error of method or unit and not how far chance reaches: equal
// cells show that.
//
// Note: on a 2-core virtual machine the rest got longer by 6.6 % of the time
// spun, for spins of 2.4 as of 20 us, so that a baseline that spins as well does
// not take it away.
//
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
