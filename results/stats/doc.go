// Package stats turns slices into overheads, intervals and verdicts.
//
// It knows no server, no file and no table. A caller asks [BetweenRuns] whether
// generations may be replicates, hands the slices of two or three cells to
// [Compare], of a control and its baseline to [Control], puts
// what comes back into a [Matrix] and lets [Matrix.Judge] say what may be
// believed. The same functions weigh elapsed time and CPU: a [Slice] is an
// amount of time and the transactions that took it.
//
// # Two costs
//
// What a setting costs has two answers, and each of them alone is wrong.
//
//   - total: the ratio of mean times per transaction, each the sum of time over
//     the sum of transactions. It is what tps shows, and holds what comes in
//     bursts. It is noisy.
//   - typical: what an ordinary slice costs. Inside a generation each round
//     gives the log ratio of the cell's time per transaction to the baseline's;
//     the fifth of them at either end is cut off and the rest averaged. It is
//     quiet, since what slows a whole round cancels and what stalls one slice is
//     cut, and blind to a cost that only comes in bursts.
//
// A cost that every transaction pays shows in both. Typical decides, unless the
// two disagree (p < 0.01 of their difference, [Comparison.Marked]) or there are
// too few rounds or transactions to trim: then total does.
//
// Two more things are easily done wrong. Times per transaction are never
// averaged over slices, for a stall in a slice of two transactions would weigh
// as much as sixty good ones. And with one client a window must end at a
// completion that is counted, or the sum of time over the sum of transactions
// is biased where slices hold few (Wald's identity); that is the engine's part.
//
// # Replicates
//
// An interval is worth what its replicates are. Slices of one backend share the
// luck of that backend, and all backends of one start share the luck of their
// postmaster's memory layout, which they inherit by fork. So cells on one
// instance are replicated by generation ([ByGeneration]: new backends; the
// instance's luck is common to all and cancels), cells on instances of their own
// by run ([ByRun]: a new start of all). The outermost level that differs between
// the cells is the one that counts, and more slices never make up for too few
// starts (Kalibera and Jones).
//
// # Procedure
//
//  1. Samples are matched by run and generation, slices by round. What one side
//     lacks is left out on all ([Compare] says how).
//
//  2. y of a generation: the trimmed mean of ln(x/b) and that of ln(x/c), halved
//     and added, where b is the baseline and c its control. The twin narrows the
//     interval by 15 % at no cost, and makes the control's own test and the
//     verdicts uncorrelated.
//
//  3. typical: the mean of y over the replicates (of runs: over the mean of each
//     first) with Student's t. total: the log of the ratio of sums, baseline and
//     control pooled, with the jackknife's standard error. burst: total less
//     typical, jackknifed as a difference.
//
//  4. p_adjusted: Holm over every comparison of the matrix.
//
//  5. The verdict. slower, faster: p_adjusted < 0.05, which comes first. same:
//     not marked, the deciding interval inside the margin (1 %), and total's
//     inside two. Else unclear. "same" is a finding, not the absence of one, so
//     it needs 15 generations or 10 runs.
//
//  6. What an unclear comparison would have seen: the effect that would be
//     called slower after Holm in four matrices of five; and how much longer to
//     measure. A longer measurement must be a fresh one: to go on until a
//     verdict comes makes 17 to 35 % false alarms.
//
//  7. Trust. Each control's p becomes a normal quantile z. The matrix is not
//     trusted where the sum of z squared passes the 99 % point of chi-square, a
//     panel where its control's p is below 0.01/m. Testing each of m controls at
//     0.05 would lose a third of good matrices at m = 8. A control that passes
//     proves little: equal cells with a luck of 0.8 % pass one in half of the
//     cases. Belief comes from the right replicate.
//
//  8. Heterogeneity: on one instance, y of the generations is tested for a
//     difference between runs ([BetweenRuns], Holm over the panel, p < 0.05).
//     Where there is one, the caller takes the run for the replicate in the whole
//     panel, controls included.
//
//  9. Percentiles ([Percentiles]): the ratio of merged quantiles, jackknifed over
//     15 groups of replicates. No verdict rests on them.
//
//  10. To measure until intervals are narrow: [NextLook] says when to look.
//
// Intervals are not adjusted, so one may exclude 0 and be unclear all the same.
//
// What the procedure assumes of slices is looked at by [CarryOver], [Bimodal] and
// [FirstRuns]. Records that each hold their own baseline are compared by their
// overheads ([WelchDifference]); whether several estimates are of one thing says
// [CochranQ].
//
// # Decisions
//
// Where the procedure leaves room, this is what was chosen.
//
//   - Degenerate input gives a documented answer and never NaN or Inf. Fewer
//     than three replicates: no interval and no p, only [Comparison.Point].
//     Replicates alike to the last digit: a standard error of 1e-12, far above
//     rounding and far below anything measured, so that equal is p = 1 and
//     different is p near 0. Log ratios are cut off at 100.
//   - A slice in which nothing completed counts half a transaction in the rank
//     of typical, and as it is in total; more than a fifth of these, and typical
//     is nil.
//   - The 30 transactions that trimming wants are what slices are *planned* for
//     by the baseline's median. An average of 24 is accepted on each side, so
//     that a cell which is a little slower keeps its typical. Bias there is that
//     of 30 (below).
//   - "same" where typical is nil: the deciding interval, total's, must lie
//     inside one margin. It is the stronger demand of the two.
//   - No control in a panel: Unclear with a Reason, since nothing is known to be
//     wrong. Untrusted is kept for a control that failed.
//   - The time factor is never below 1, brings enough replicates where there are
//     few, and is 0 where time alone decides nothing (no control, not trusted).
//   - A control is judged by typical even where it is marked: a burst that met
//     one of two equal cells is chance.
//
// Note: Dunnett's test instead of Holm's would find 1 to 3 % more effects and
// asks for the correlation between comparisons; not worth its code. A percentile
// bootstrap over generations covers 87 to 91 % at 8 to 15 of them, the
// Hodges-Lehmann estimate is neither typical nor total under bursts, and trimming
// the ratio to the mean of both references' logs is biased by -0.5 %, as is the
// mean of logs of generation sums by -0.9 % under bursts of 5 %
// (TestSimulateTraps).
//
// # Evidence
//
// By simulation from measured slices (testdata/README.md): generations drawn with
// replacement, the cells of each exchanged at random, so that they are equal by
// construction; an effect multiplies the time of every slice, a burst of d %
// that of one slice in 200 by 1 + 200 d. 2000 experiments per figure, whose
// error is 0.5 points at 5 % and 1.1 at 50 %. All in per cent; half is the
// half-width of the 95 % interval. `go test -run 'Simulate|Few|Alarm' -v
// -repeats 2000` prints these figures; the everyday test runs fewer, and holds
// them within four binomial standard errors.
//
// One cell against one reference:
//
//	generations                              30           60           150
//	coverage of typical / total              95.8 / 95.3  95.5 / 94.5  94.3 / 94.8
//	half of typical / total                  1.63 / 2.44  1.13 / 1.70  0.71 / 1.06
//	coverage, effect of 2 %                               95.1 / 95.8
//	bias, effect of 2 %, points                           -0.005, +0.008 (+- 0.02)
//	marked without a burst                   0.8          1.3          1.1
//	bursts of 5 %: coverage of typical / total                         0 / 93.0
//	bursts of 5 %: marked / coverage of what decides                   94.7 / 91.1
//
// Eight cells against baseline and control, one of them slower:
//
//	generations                              30           60           150          250
//	half of typical / total                  1.38 / 2.10  0.96 / 1.47  0.60 / 0.92  0.47 / 0.71
//	false alarms of one comparison           5.2          5.2          5.6          5.8
//	any of seven: raw / Holm                 29 / 4.8     29 / 4.6     30 / 5.7     30 / 5.2
//	slower by 0.5 % found: raw / Holm                     17 / 4       36 / 12
//	slower by 1 % found: raw / Holm                       54 / 24      88 / 68      98 / 92
//	slower by 2 % found: raw / Holm          80 / 51      96 / 86      100 / 100
//	would have seen                          2.5          1.8          1.1          0.9
//	"same": equal / slower by exactly 1 %    0.3          11 / 0.8     78 / 2.5     96 / 2.5
//	matrices not trusted (one control)       0.8          1.1          1.0          0.7
//
// Good matrices lost to their controls: 0.8 with one, 1.2 with four, 1.4 with
// eight; with a note in 4, 17 and 33.
//
// Own instances, a luck of 0.8 % per start added, one reference, 240 generations
// in all, against what generations as replicates would say:
//
//	runs                                     5     10    20
//	false alarms, generations as replicates  35    22    14
//	false alarms, runs as replicates         4.7   5.6   5.2
//	half, runs as replicates                 1.5   1.0   0.79
//
// With baseline and control and 25 generations per run: 10 runs half 0.86 / 1.05,
// alarms 5.2, 2 % found after Holm in 89; 20 runs 0.57 / 0.70, 5.3, 100. Starts
// that were really made, four of six equal instances: 26 of their 60 pairs alarm
// with generations as replicates.
//
// Ten cells on one instance whose runs each have a luck of their own, 150
// generations in all:
//
//	runs, sd of their luck                   5, 0  10, 0  5, 0.3  5, 0.8  10, 0.8
//	panels whose runs are said to differ     4.3   4.2    18      93      85
//	false alarms of one comparison           5.4   5.2    8.1     6.7     6.7
//	the same where rule 8 is left out        5.5   5.2    9.0     25      16
//
// Percentiles of made-up latencies (log sd 0.15, one in 50 much longer, a luck of
// 1 % per backend), 1250 transactions per generation, 2 % slower, 400 experiments:
//
//	                                         60 generations  20 generations  10 runs
//	p50: coverage / half                     95.2 / 0.41     97.0 / 0.73     96.8 / 0.48
//	p95                                      96.8 / 0.77     96.8 / 1.33     96.0 / 0.87
//	p99                                      95.8 / 10.6     97.0 / 18.9     95.0 / 11.8
//
// Noise that is otherwise than measured, put upon the measured one: 60
// generations, baseline and control, 2 % slower. Coverage and half of typical /
// total:
//
//	drift of 30 %                                       95.0 / 95.0  0.98 / 1.50
//	one generation 50 % slow in all cells               95.2 / 95.6  0.99 / 1.50
//	two kinds of generations, 2 % apart                 95.6 / 95.7  1.04 / 1.54
//	two kinds of slices, 50 % apart                     94.9 / 94.6  2.08 / 2.08
//	a slice in 20 longer, Pareto of index 2.5           95.2 / 95.4  1.08 / 2.67
//	the same of index 1.5 (no variance)                 95.0 / 95.2  1.12 / 11.9
//	generations of sd 2 % that resemble the last, 0.06  95.2 / 94.8  1.18 / 1.63
//	the same, 0.5                                       88.1 / 91.1  1.17 / 1.63
//
// The last is where the assumption of independent replicates breaks; 0.06 is the
// most that was measured.
//
// Stopping by NextLook and width, one reference, 1 % slower: coverage 93.2 by
// generation (to 1.0 %, 5 looks), 94.1 by run (to 1.1 %, a luck of 0.8 %, 3
// looks).
//
// Eight clients on one core, 29 transactions of each per slice and 20 rounds per
// generation (testdata/README.md: four measured generations of 5 rounds joined),
// baseline and control, 9.7 s per cell: half 1.01 / 1.19, coverage 95.7 / 95.2,
// marked 0.5. It rests on 19 generations of one loaded record.
//
// Cells that follow others: an effect of 5 % on successors is found without bias
// (+-0.03 points), and held by 95 of 100 intervals, with 3 and with 10 cells. On
// the measured equal cells, 10 of one client and 10 of eight, the smallest of 20 p
// is 0.002. Two groups of slices were seen in none of 1147 looks at measured cells
// (200 slices or more, whole or a part, in panels of 2 to 10) and in no made-up
// noise with one peak; two that are 20 % apart are found, from 15 % of
// the slices on, where the noise of a slice is 3 %, two that are 50 % apart and
// equal in the measured noise. A first run is blamed in 0.3 % of matrices of 6
// equal cells and 5 runs, 0.7 of 3 cells and 10 runs; one 30 % slower is found in
// 98 and 100.
//
// Made-up slices of 24 and of 30 transactions with a long tail, an effect of
// 2 %: bias of typical -0.035 and -0.029 (+- 0.016) points.
//
// Against the figures the procedure was chosen by (same slices, an independent
// program), where these differ by more than chance: under bursts of 5 % total
// covers 93 rather than 95 (rare bursts leave a skewed sum, for which a t
// interval is a little short), and what decides 91, since some bursts stay
// unmarked. Generations as replicates alarm in 35 rather than 31 of 100 with 5
// runs. After Holm, 0.5 % is found with 150 generations in 12 rather than 16, and
// 1 % with 250 in 92 rather than 94. All else agrees.
//
// # References
//
//   - Kalibera, Jones: Quantifying Performance Changes with Effect Size
//     Confidence Intervals, 2012; Rigorous Benchmarking in Reasonable Time, 2013:
//     replicate at the level that varies, report ratios with intervals.
//   - Bulej et al.: Duet Benchmarking, 2020: measure both at once and pair.
//   - Mytkowicz et al.: Producing Wrong Data Without Doing Anything Obviously
//     Wrong, 2009: the luck of a layout.
//   - Tukey, McLaughlin: Less Vulnerable Confidence and Significance Procedures
//     for Location, 1963: the trimmed mean.
//   - Holm: A Simple Sequentially Rejective Multiple Test Procedure, 1979.
//   - Dunnett: A Multiple Comparison Procedure for Comparing Several Treatments
//     with a Control, 1955.
//   - Cochran: The Combination of Estimates from Different Experiments, 1954.
//   - Busing, Meijer, van der Leeden: Delete-m Jackknife for Unequal m, 1999.
//   - Liang, Zeger: Longitudinal Data Analysis Using Generalized Linear Models,
//     1986: errors from the scores of clusters.
//   - Schuirmann: two one-sided tests for equivalence, 1987 ("same").
package stats
