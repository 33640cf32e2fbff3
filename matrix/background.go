package matrix

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/server"
	"pgtare/results"
)

// owned is what a cell's own instance does beside its transactions, in one run
// in slices.
type owned struct {
	line         int // of the cell among the panel's
	instance     int // index into runner.instances
	before       server.BackgroundCounters
	transactions int64         // of the run so far, warm-ups included
	measured     int64         // the same without them
	cpu          time.Duration // of all processes but the cell's backends, during rounds; -1: not known
	at           time.Duration // the same since the instance's start, when the rounds began
}

// quickCounters is the version from which on reading the counters takes a
// third of a second; before, it takes three times that and is left to blocks.
const quickCounters = 150000

// ownedBefore reads the counters of the instances that hold but one cell of
// the only panel: elsewhere nobody knows whose work it is.
func (r *runner) ownedBefore(ctx context.Context, p *panel) error {
	r.owned = nil
	cells := map[int]int{}
	for _, k := range p.cells {
		cells[r.plan.Cells[k].instance]++
	}
	for line, k := range p.cells {
		i := r.plan.Cells[k].instance
		inst := &r.instances[i]
		if len(r.panels) == 1 && cells[i] == 1 && len(cells) > 1 && inst.managed != nil && inst.facts.VersionNum >= quickCounters {
			r.owned = append(r.owned, owned{line: line, instance: i})
		}
	}
	counters, err := r.countersOf(ctx)
	for i := range counters {
		r.owned[i].before = counters[i]
	}
	return err
}

// ownedAfter writes what the run has added into the lines of its last
// generation. The measured sessions must be closed.
func (r *runner) ownedAfter(ctx context.Context, lines []results.Generation) error {
	counters, err := r.countersOf(ctx)
	for i, after := range counters {
		o := &r.owned[i]
		lines[o.line].Background = background(after.Sub(o.before), o.cpu, o.transactions, o.measured)
	}
	return err
}

// countersOf reads the counters of the owned instances, all at once, since
// most of it is waiting.
func (r *runner) countersOf(ctx context.Context) ([]server.BackgroundCounters, error) {
	list, errs := make([]server.BackgroundCounters, len(r.owned)), make([]error, len(r.owned))
	var wg sync.WaitGroup
	for i, o := range r.owned {
		wg.Go(func() {
			errs[i] = r.ask(ctx, o.instance, func(ctx context.Context, conn *pgconn.PgConn) (err error) {
				list[i], err = server.Background(ctx, conn)
				return err
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, r.lost(err)
	}
	return list, nil
}

// background is the record's form of what was counted beside a cell.
func background(d server.BackgroundCounters, cpu time.Duration, transactions, measured int64) *results.Background {
	return &results.Background{Transactions: transactions, Measured: measured, CPUNs: int64(cpu), WALBytes: d.WALBytes,
		PagesRead: d.PagesRead, PagesWritten: d.PagesWritten, Checkpoints: d.Checkpoints, Vacuums: d.Vacuums}
}

// begin and end take the CPU time between them.
func (o *owned) begin(inst *instance, l *load) { o.at = inst.beside(l) }

func (o *owned) end(inst *instance, l *load) {
	if d := since(o.at, inst.beside(l)); d < 0 || o.cpu < 0 {
		o.cpu = -1
	} else {
		o.cpu += d
	}
}

// beside is the CPU time of an instance without the backends of a load; -1:
// not known.
func (inst *instance) beside(l *load) time.Duration {
	all := inst.cpu()
	own, _ := l.times()
	if all < 0 || own < 0 {
		return -1
	}
	return max(0, all-own)
}

// transactionsOf is the number of transactions of a line, the warm-up's included.
func transactionsOf(g *results.Generation) int64 {
	n := g.WarmupTx
	for _, all := range g.Slices.All {
		n += all
	}
	return n
}
