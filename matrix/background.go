package matrix

import (
	"context"
	"time"

	"pgtare/matrix/server"
	"pgtare/results"
)

// owned is what a cell's own instance does beside its transactions, during a
// generation in slices.
type owned struct {
	line     int // of the cell among the panel's
	instance *instance
	before   server.BackgroundCounters
	cpu      time.Duration // of all processes but the cell's backends; -1: not known
}

// quickCounters is the version from which on reading the counters takes no
// waiting (see server.Background); before, it is left to the block schedule.
const quickCounters = 150000

// ownedBefore reads the counters of the instances that hold but one cell of a
// panel: elsewhere nobody knows whose work it is.
func (r *runner) ownedBefore(ctx context.Context, p *panel) (list []owned, err error) {
	cells := map[int]int{}
	for _, k := range p.cells {
		cells[r.plan.Cells[k].instance]++
	}
	for line, k := range p.cells {
		i := r.plan.Cells[k].instance
		inst := &r.instances[i]
		if cells[i] > 1 || len(cells) == 1 || inst.managed == nil || inst.facts.VersionNum < quickCounters {
			continue
		}
		o := owned{line: line, instance: inst}
		if o.before, err = r.countersOf(ctx, i); err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

// ownedAfter writes the differences into the lines. The measured sessions must
// be closed.
func (r *runner) ownedAfter(ctx context.Context, p *panel, list []owned, lines []results.Generation) error {
	for _, o := range list {
		after, err := r.countersOf(ctx, r.plan.Cells[p.cells[o.line]].instance)
		if err != nil {
			return err
		}
		g := &lines[o.line]
		g.Background = background(after.Sub(o.before), o.cpu, g)
	}
	return nil
}

// background is the record's form of what was counted beside a cell.
func background(d server.BackgroundCounters, cpu time.Duration, g *results.Generation) *results.Background {
	b := &results.Background{Transactions: g.WarmupTx, CPUNs: int64(cpu), WALBytes: d.WALBytes,
		BlocksRead: d.BlocksRead, BlocksWritten: d.BlocksWritten, Checkpoints: d.Checkpoints, Vacuums: d.Vacuums}
	for _, n := range g.Slices.All {
		b.Transactions += n
	}
	return b
}

func (r *runner) countersOf(ctx context.Context, i int) (server.BackgroundCounters, error) {
	conn, err := r.connect(ctx, i)
	if err != nil {
		return server.BackgroundCounters{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	c, err := r.backgroundCounters(ctx, conn)
	return c, r.lost(err)
}

// begin and end take the CPU time between them.
func (o *owned) begin(l *load) { o.cpu = o.beside(l) }

func (o *owned) end(l *load) { o.cpu = since(o.cpu, o.beside(l)) }

// beside is the CPU time of an instance without the backends of a load; -1:
// not known.
func (o *owned) beside(l *load) time.Duration {
	all := o.instance.cpu()
	own, _ := l.times()
	if all < 0 || own < 0 {
		return -1
	}
	return max(0, all-own)
}
