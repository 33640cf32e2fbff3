package matrix

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"pgtare/matrix/server"
	"pgtare/results"
	"pgtare/workload"
)

// Lengths. A slice takes the largest of these.
const (
	minSlice        = 2 * time.Millisecond
	minSliceShared  = 10 * time.Millisecond // when clients share CPUs
	maxSlice        = 100 * time.Millisecond
	headsPerSlice   = 8  // the head is at most an eighth of the slice
	minTransactions = 30 // per client and slice, in the slowest cell: what the trimmed estimate needs
	// A slice of 30 medians holds fewer in a slow moment; package stats takes
	// an average of 24.
	enoughTransactions = 24
	minRounds          = 20 // per generation
	fewRounds          = 4  // where slices hold too few transactions for the trimmed estimate: backends are worth more than rounds
	maxSetupShare      = 1.0 / 3
	minGenerations     = 3  // per run, where the measured time allows
	minWarmup          = 10 // plan_cache_mode settles at the 6th execution
	settledPlan        = 6
	warmupParts        = 4
	faultlessDoublings = 5
	maxWarmup          = 100000
	manyWarmup         = 200                    // short transactions are not called flat before,
	shortWarmup        = 100 * time.Millisecond // nor any in less time: a single stall would decide
	longWarmup         = time.Second
	maxWarmupTime      = 10 * time.Second
	probeSlices        = 60 // in all of a panel
	probeLength        = 40 // transactions of a probe slice
	maxHead            = 20
)

// panel is a panel on its way: what the pilot froze, and what a generation needs.
type panel struct {
	results.Panel
	index     int
	cells     []int // indices into plan.Cells, those that are measured
	perClient bool  // slices hold too few transactions for a common window
}

// pilot finds the lengths of every panel with probe slices that are thrown
// away, and freezes them, alike for all cells of the panel.
func (r *runner) pilot(ctx context.Context) error {
	r.stage("pilot")
	for i := range r.panels {
		if err := r.pilotPanel(ctx, &r.panels[i]); err != nil {
			return err
		}
	}
	return r.checkTimers()
}

func (r *runner) pilotPanel(ctx context.Context, p *panel) error {
	began := time.Now()
	blocks := p.Schedule == server.BlockSchedule
	cells := p.cells
	if blocks { // no lengths depend on the others
		cells = r.baselines(p)
	}
	open, err := r.open(ctx, p, cells, 0)
	if err != nil {
		return err
	}
	defer func() { open.close() }()
	connect := time.Since(began) / time.Duration(len(open.loads))

	// The baselines' warm-up shows how long one takes, and how long a
	// transaction does.
	var warmup int
	var warmupTime time.Duration
	for i := range open.loads {
		if !r.plan.Cells[open.loads[i].cell].Baseline {
			continue
		}
		n, took, err := r.warmupLength(ctx, p, &open.loads[i])
		if err != nil {
			return r.lost(err)
		}
		warmup, warmupTime = max(warmup, n), max(warmupTime, took)
	}
	for i := range open.loads {
		if !r.plan.Cells[open.loads[i].cell].Baseline {
			if _, err := r.slice(ctx, &open.loads[i], workload.Slice{Count: warmup}); err != nil {
				return r.lost(err)
			}
		}
	}

	transactions := probeLength
	if single := warmupTime / time.Duration(warmup); single > maxSlice/minTransactions {
		transactions = int(max(1, maxSlice/single))
	}
	var latencies [][]int64
	perTransaction := make([][]float64, len(open.loads))
	failures := map[string]int64{}
	for range max(2, probeSlices/len(open.loads)) {
		for _, k := range r.rng.Perm(len(open.loads)) {
			buf := make([]int64, 0, transactions)
			res, err := r.slice(ctx, &open.loads[k], workload.Slice{Count: transactions, PerClient: true, Latencies: &buf})
			if err != nil {
				return r.lost(err)
			}
			latencies = append(latencies, buf)
			for state, n := range res.Failures {
				failures[state] += n
			}
			if res.N > 0 {
				perTransaction[k] = append(perTransaction[k], float64(res.T)/float64(res.N))
			}
		}
		if time.Since(began) > 2*time.Second+2*time.Duration(len(open.loads))*warmupTime {
			break // long transactions: what is there must do
		}
	}
	single := median(slices.Concat(perTransaction...))
	if single == 0 {
		return fmt.Errorf("pilot of %s, %s: the script went through once, and then no transaction succeeded: %s; see what a second pass of it runs into (an object that exists already, an SQL transaction left open, prepared statements gone)",
			p.Workload, p.Mode, codes(failures))
	}
	slowest := single // of the cells
	for _, v := range perTransaction {
		slowest = max(slowest, median(v))
	}
	r.longest = max(r.longest, slowest)

	head, headTime := headLength(latencies)
	p.Warmup, p.Head, p.TransactionNs = warmup, head, int64(single)
	perRun := r.plan.Spec.Duration
	if n := r.plan.Spec.Transactions; n > 0 {
		perRun = time.Duration(n) * single
	}
	length := r.plan.Spec.Slice
	switch {
	case blocks:
		length = perRun
	case length == 0:
		length = sliceLength(slowest, headTime, p.Clients > 1 && r.shareCPUs(p.Clients))
	}
	p.SliceNs, p.perClient = int64(length), p.Clients > 1 && float64(length) < enoughTransactions*float64(slowest)
	if blocks {
		p.Rounds, p.Generations = 1, 1
		writes, err := r.writesWAL(ctx, p, open)
		if writes && !r.noCheckpoint {
			p.Checkpoints = forcedCheckpoints
		}
		return err
	}
	p.Rounds = r.plan.Spec.Rounds
	if p.Rounds == 0 {
		p.Rounds = roundsOf(length, slowest, connect+warmupTime, perRun)
	}
	slice := max(length, slowest) // a transaction longer than the slice is its own slice
	p.Generations = max(1, int(math.Ceil(float64(perRun)/float64(time.Duration(p.Rounds)*slice)-1e-9)))
	return nil
}

// baselines are a panel's, one per server that has it.
func (r *runner) baselines(p *panel) (list []int) {
	for _, k := range p.cells {
		if r.plan.Cells[k].Baseline {
			list = append(list, k)
		}
	}
	return list
}

// writesWAL says whether the baseline's transactions write WAL: some bytes of
// the background processes' are not theirs.
func (r *runner) writesWAL(ctx context.Context, p *panel, open *session) (bool, error) {
	l := &open.loads[0]
	side, err := r.connect(ctx, r.plan.Cells[l.cell].instance)
	if err != nil {
		return false, err
	}
	defer side.Close(context.WithoutCancel(ctx))
	before, err := r.backgroundCounters(ctx, side)
	if err != nil {
		return false, r.lost(err)
	}
	res, err := r.slice(ctx, l, workload.Slice{Count: probeLength, PerClient: true})
	if err != nil {
		return false, r.lost(err)
	}
	after, err := r.backgroundCounters(ctx, side)
	if err != nil {
		return false, r.lost(err)
	}
	return after.Sub(before).WALBytes > 10*res.All, nil
}

// median of times in ns, 0 where there are none.
func median(ns []float64) time.Duration {
	if len(ns) == 0 {
		return 0
	}
	slices.Sort(ns)
	return time.Duration(stat.Quantile(0.5, stat.Empirical, ns, nil))
}

// warmupLength sends transactions until minor faults and CPU per transaction
// are flat, in stretches that double, and returns how many that took.
//
// Flat is, twice in a row: a doubled stretch takes no more than 3 % less CPU
// than the one before it (the cheapest of its four parts, since others on the
// machine only ever add), and pages are touched for the first time hardly ever,
// or as often as before (memory that is given back and taken again). Five
// doublings with faults alone like that are enough, too: on a noisy machine CPU
// per transaction never looks flat. Where
// 10 transactions take over a second, that second must do (six transactions
// with prepared statements, whose plans settle then).
func (r *runner) warmupLength(ctx context.Context, p *panel, l *load) (n int, took time.Duration, err error) {
	type stretch struct{ faults, cpu float64 }
	var last stretch
	flat, faultless, began := 0, 0, time.Now()
	for size := 1; ; {
		faults, done := l.faults(), int64(0)
		now := stretch{cpu: math.Inf(1)}
		for part := range warmupParts {
			count := (part+1)*size/warmupParts - part*size/warmupParts
			if count == 0 {
				continue
			}
			cpu := l.cpu()
			res, err := r.slice(ctx, l, workload.Slice{Count: count})
			if err != nil {
				return 0, 0, err
			}
			now.cpu = min(now.cpu, float64(l.cpu()-cpu)/float64(max(1, res.All)))
			done += res.All
		}
		n += size
		took = time.Since(began)
		r.longest = max(r.longest, took/time.Duration(n))
		now.faults = float64(l.faults()-faults) / float64(max(1, done))
		settled := now.faults <= 0.05 || now.faults >= 0.95*last.faults
		if faultless++; !settled {
			faultless = 0
		}
		if flat++; !settled || now.cpu < 0.97*last.cpu {
			flat = 0
		}
		switch enough := n >= minWarmup || p.Protocol != string(workload.Prepared) || n >= settledPlan; {
		case n >= maxWarmup, took > maxWarmupTime, took > longWarmup && enough, n >= minWarmup && (n >= manyWarmup || took > shortWarmup) && (flat >= 2 || faultless >= faultlessDoublings):
			return n, took, nil
		}
		last = now
		if n >= minWarmup/2 {
			size = n
		}
	}
}

// headLength is the number of transactions after a switch to a cell until the
// median latency, pooled over slices, stays within 5 % of that of transactions
// 20 and up (or within its error), and the time they take.
func headLength(probes [][]int64) (n int, took time.Duration) {
	pooled := func(from, to int) float64 {
		var values []float64
		for _, s := range probes {
			for i := from; i < to && i < len(s); i++ {
				values = append(values, float64(s[i]))
			}
		}
		return float64(median(values))
	}
	length := 0
	for _, s := range probes {
		length = max(length, len(s))
	}
	if length <= maxHead {
		return 0, 0 // long transactions: a switch is a small part of one
	}
	settled := pooled(maxHead, length)
	// Within 5 %, or as near as the median of so many probes can be: with several
	// clients on one CPU a latency is anything up to all their turns.
	near := max(0.05*settled, 2*medianError(probes, length))
	// Three medians in a row, since one may be that near by chance.
	for n = 1; n < maxHead; n++ {
		if worst := max(pooled(n, n+1), pooled(n+1, n+2), pooled(n+2, n+3)); worst <= settled+near {
			break
		}
	}
	total := 0.0
	for i := range n {
		total += pooled(i, i+1)
	}
	return n, time.Duration(total)
}

// medianError is the standard error of the median latency of one transaction
// over the probes, by those past the longest head: 1.25 standard deviations over
// the root of their number, the deviation by the quartiles, as for a normal
// distribution.
func medianError(probes [][]int64, length int) float64 {
	var values []float64
	for _, s := range probes {
		for i := maxHead; i < length && i < len(s); i++ {
			values = append(values, float64(s[i]))
		}
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	quartile := func(q float64) float64 { return stat.Quantile(q, stat.Empirical, values, nil) }
	return 1.25 * (quartile(0.75) - quartile(0.25)) / 1.349 / math.Sqrt(float64(len(probes)))
}

// sliceLength is the largest of what a slice must hold, within bounds.
func sliceLength(single, head time.Duration, sharedCPUs bool) time.Duration {
	length := max(minSlice, headsPerSlice*head, minTransactions*single)
	if sharedCPUs {
		length = max(length, minSliceShared)
	}
	return min(length, maxSlice)
}

// roundsOf is the number of rounds of a generation: more than the least where
// connecting, proof and warm-up would take over a third of its time, but not so
// many that a run holds fewer than three generations, because replicates are
// worth more than the time they cost.
func roundsOf(slice, single, setup, perRun time.Duration) int {
	least := minRounds
	if slice < minTransactions*single {
		least = fewRounds
	}
	perRound := float64(max(slice, single))
	wanted := math.Ceil(float64(setup) * (1 - maxSetupShare) / maxSetupShare / perRound)
	return max(least, int(min(wanted, float64(perRun)/minGenerations/perRound)))
}

// shareCPUs says whether clients and backends have to share CPUs; where each
// side has its own, whether backends have to share theirs.
func (r *runner) shareCPUs(clients int) bool {
	if r.pin.Kind == "split" {
		return clients > len(r.serverCPUs)
	}
	return 2*clients > len(r.usable())
}

// anchor measures one unbroken second of each panel's baseline per server.
func (r *runner) anchor(ctx context.Context) error {
	r.stage("anchor")
	for i := range r.panels {
		p := &r.panels[i]
		for _, k := range p.cells {
			c := r.plan.Cells[k]
			if !c.Baseline {
				continue
			}
			l, err := r.openCell(ctx, p, k, 0)
			if err != nil {
				return r.lost(err)
			}
			_, err = r.slice(ctx, &l, workload.Slice{Count: p.Warmup})
			var res workload.Result
			if err == nil {
				res, err = r.slice(ctx, &l, workload.Slice{Head: p.Head, Length: time.Second, PerClient: p.perClient})
			}
			l.close()
			if err != nil {
				return r.lost(err)
			}
			seconds := res.T.Seconds() / float64(p.Clients)
			a := results.Anchor{Server: c.Server, Transactions: res.N, Seconds: seconds}
			if seconds > 0 {
				a.TPS = float64(res.N) / seconds
			}
			p.Anchors = append(p.Anchors, a)
		}
	}
	return nil
}
