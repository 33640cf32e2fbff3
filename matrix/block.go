package matrix

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/server"
	"pgtare/results"
	"pgtare/workload"
)

// block measures a whole run of one cell in one piece: on its own instance,
// which is started for it, or on the one that the panel shares. What was left
// by others is put away first: its table is made anew and a checkpoint written.
func (r *runner) block(ctx context.Context, p *panel, cell, run int) error {
	c := r.plan.Cells[cell]
	inst := &r.instances[c.instance]
	r.trace("run %d: block %s", run, c.ID)
	runtime.GC()
	if err := r.lookForOthers(ctx); err != nil {
		return err
	}
	if inst.planned.Blocks {
		if err := r.wake(ctx, c.instance); err != nil {
			return err
		}
		defer func() {
			if (inst.managed == nil || inst.managed.PID() != 0) && ctx.Err() == nil {
				if err := r.stop(ctx, c.instance); err != nil {
					r.log("%v", err)
				}
			}
		}()
	}
	if b := r.plan.Spec.Workload.Builtin; b != nil && b.Writes {
		// Those that other cells have filled go, too: autovacuum would come for
		// them in this cell's block.
		if err := r.makeTable(ctx, c.instance, inst.tables[p.index][r.tableOf(p, cell)], inst.tables[p.index]); err != nil {
			return err
		}
	}
	side, err := r.connect(ctx, c.instance)
	if err != nil {
		return err
	}
	defer side.Close(context.WithoutCancel(ctx))
	if err := r.checkpoint(ctx, side, c.Server); err != nil {
		return err
	}

	before, err := r.backgroundCounters(ctx, side)
	if err != nil {
		return err
	}
	watch, started := r.watch(), time.Now()
	l, err := r.openCell(ctx, p, cell, 0)
	if err != nil {
		return r.lost(err)
	}
	line := r.line(p, cell, run, 1, started, l.connect)
	r.histograms[0].Reset()
	beside, lost := r.blockLoad(ctx, p, &l, side, &line, started)
	m := watch.since(line.Cell)
	l.close()
	if lost == nil {
		lost = r.stillConfigured(ctx, c.ID)
	}
	if lost == nil { // sessions report all that they have done when they end
		var after server.BackgroundCounters
		if after, lost = r.backgroundCounters(ctx, side); lost == nil {
			line.Background = background(after.Sub(before), beside, transactionsOf(&line), transactionsOf(&line)-line.WarmupTx)
		}
	}
	return r.keep(p, []int{cell}, run, 1, []results.Generation{line}, m, lost)
}

// blockLoad warms a block's cell up and runs the load. beside is the CPU time
// that the instance's other processes took meanwhile.
func (r *runner) blockLoad(ctx context.Context, p *panel, l *load, side *pgconn.PgConn, line *results.Generation, started time.Time) (beside time.Duration, err error) {
	inst := &r.instances[r.plan.Cells[l.cell].instance]
	if err := r.warmUp(ctx, p, l, line, inst.planned.Blocks); err != nil {
		return -1, err
	}
	count, at := l.counts(), time.Since(started)
	cpu, wait := l.times()
	others := inst.beside(l)
	slice := workload.Slice{Head: p.Head, Length: time.Duration(p.SliceNs), PerClient: p.perClient, Histogram: r.histograms[0]}
	stop := r.forceCheckpoints(ctx, p, side, time.Duration(p.SliceNs))
	res, err := r.slice(ctx, l, slice)
	if failed := stop(); err == nil {
		err = failed
	}
	cpuAfter, waitAfter := l.times()
	if err != nil {
		return -1, err
	}
	beside = since(others, inst.beside(l))
	appendSlice(line, 0, 0, -1, at, res, since(cpu, cpuAfter), since(wait, waitAfter), l.spec.SingleTransaction)
	count.since(l.counts(), line)
	return beside, nil
}

func (r *runner) backgroundCounters(ctx context.Context, side *pgconn.PgConn) (server.BackgroundCounters, error) {
	limited, cancel := r.bounded(ctx)
	defer cancel()
	c, err := server.Background(limited, side)
	return c, r.lost(err)
}

// cpu is the CPU time of all processes of an instance; -1: not known.
func (inst *instance) cpu() time.Duration {
	var t time.Duration
	var err error
	switch {
	case inst.managed != nil:
		t, err = inst.managed.CPU()
	case inst.attached.LocalPID():
		t, err = inst.attached.CPU()
	default:
		return -1
	}
	if err != nil {
		return -1
	}
	return t
}

// checkpoint puts what others have left on the disk. A role that may not do
// so leaves the blocks to their luck, which is said once.
func (r *runner) checkpoint(ctx context.Context, side *pgconn.PgConn, label string) error {
	if r.noCheckpoint {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	_, err := side.Exec(limited, "CHECKPOINT").ReadAll()
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		r.noCheckpoint = true
		r.warn("no-checkpoint", fmt.Sprintf("%s lets this role write no checkpoint (%s), so that blocks begin with what earlier ones left to be written", label, pg.Message),
			"use a superuser, or GRANT pg_checkpoint (15 and later)")
		return nil
	}
	if err != nil {
		return r.lost(fmt.Errorf("write a checkpoint on %s: %w", label, err))
	}
	return nil
}

// forcedCheckpoints is how many are written in a block whose transactions write
// WAL.
const forcedCheckpoints = 2

// forceCheckpoints writes one checkpoint at a third and one at two thirds of a
// block that writes, so that each holds two cycles at fixed points, however
// long it is. The function returned waits for their end.
func (r *runner) forceCheckpoints(ctx context.Context, p *panel, side *pgconn.PgConn, length time.Duration) (wait func() error) {
	if p.Checkpoints == 0 || r.noCheckpoint {
		return func() error { return nil }
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		began := time.Now()
		for n := range p.Checkpoints {
			select {
			case <-ctx.Done():
				done <- nil
				return
			case <-time.After(time.Until(began.Add(time.Duration(n+1) * length / time.Duration(p.Checkpoints+1)))):
			}
			if ctx.Err() != nil { // both were ready: the block is over
				done <- nil
				return
			}
			limited, cancel := context.WithTimeout(outer, tryLimit)
			_, err := side.Exec(limited, "CHECKPOINT").ReadAll()
			cancel()
			if err != nil {
				done <- fmt.Errorf("write a checkpoint in a block: %w", err)
				return
			}
		}
		done <- nil
	}()
	return func() error {
		cancel()
		return <-done
	}
}
