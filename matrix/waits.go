package matrix

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgtare/matrix/server"
	"pgtare/results"
	"pgtare/workload"
)

const (
	waitsFor    = 700 * time.Millisecond // an unbroken stretch, so that convoys can form
	waitsEvery  = 10 * time.Millisecond
	fewWaits    = 20   // samples of sessions at work below which nothing is said
	convoyShare = 0.05 // of samples that wait for locks: more, and slices would break queues up
	blockRuns   = 10   // blocks are replicated by run
)

// waits looks at what the sessions of each panel's baseline wait for. Queues
// for locks take longer to form than a slice lasts, so a panel in which
// sessions wait for them is measured in blocks, unless slices were asked for.
func (r *runner) waits(ctx context.Context) error {
	if slices.Max(r.plan.Spec.Clients) < 2 {
		return nil // nobody to queue up behind
	}
	r.stage("looking for convoys")
	for i := range r.panels {
		p := &r.panels[i]
		if p.Clients < 2 {
			continue
		}
		for _, k := range p.cells {
			if r.plan.Cells[k].Baseline {
				if err := r.sampleWaits(ctx, p, k); err != nil {
					return err
				}
				break
			}
		}
		r.decideSchedule(p)
	}
	return nil
}

// decideSchedule turns a panel into one of blocks where its sessions queue up.
func (r *runner) decideSchedule(p *panel) {
	total, locks := int64(0), p.Waits["Lock"]+p.Waits["LWLock"]
	for _, n := range p.Waits {
		total += n
	}
	if total < fewWaits || float64(locks) <= convoyShare*float64(total) || p.Schedule == server.BlockSchedule {
		return
	}
	share := fmt.Sprintf("%.0f %% of %d samples of the baseline's sessions were waiting for locks (Lock, LWLock)", 100*float64(locks)/float64(total), total)
	if r.plan.Spec.Schedule == server.SliceSchedule {
		r.warnForbidding(results.ForbidsSame, "convoys", share+": queues for locks take longer to form than a slice lasts", "measure in blocks (--schedule block)", r.cellIDs(p)...)
		return
	}
	r.warn("measured-in-blocks", share+", so the panel is measured in blocks", "none needed; more runs make the intervals narrower", r.cellIDs(p)...)
	p.Schedule = server.BlockSchedule
	r.plan.Panels[p.index].Schedule = server.BlockSchedule
	for k := range r.plan.Cells {
		if r.plan.Cells[k].panel == p.index {
			r.plan.Cells[k].Schedule = server.BlockSchedule
		}
	}
	for i := range r.plan.Comparisons {
		if c := &r.plan.Comparisons[i]; slices.Contains(r.cellIDs(p), c.Cell) {
			c.ReplicateUnit = "run"
		}
	}
	for i := range r.plan.Controls {
		if c := &r.plan.Controls[i]; c.Panel == p.ID {
			c.ReplicateUnit = "run"
		}
	}
	if r.plan.asked.Runs == 0 {
		r.plan.Spec.Runs = max(r.plan.Spec.Runs, blockRuns)
	}
	p.Sessions = r.plan.Sessions(p.index)
}

func (r *runner) cellIDs(p *panel) (ids []string) {
	for _, k := range p.cells {
		ids = append(ids, r.plan.Cells[k].ID)
	}
	return ids
}

// sampleWaits fills p.Waits from an unbroken stretch of one cell.
func (r *runner) sampleWaits(ctx context.Context, p *panel, cell int) error {
	conn, err := r.connect(ctx, r.plan.Cells[cell].instance)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	l, err := r.openCell(ctx, p, cell, 0)
	if err != nil {
		return r.lost(err)
	}
	defer l.close()
	if _, err := r.slice(ctx, &l, workload.Slice{Count: minWarmup}); err != nil {
		return r.lost(err)
	}
	pids := make([]string, len(l.Backends()))
	for i, pid := range l.Backends() {
		pids[i] = strconv.Itoa(pid)
	}
	sql := "SELECT coalesce(wait_event_type, ''), count(*) FROM pg_catalog.pg_stat_activity WHERE state = 'active' AND pid IN (" + strings.Join(pids, ",") + ") GROUP BY 1"

	sampling, stop := context.WithCancel(ctx)
	waits, done := map[string]int64{}, make(chan error)
	go func() {
		tick := time.NewTicker(waitsEvery)
		defer tick.Stop()
		for {
			select {
			case <-sampling.Done():
				done <- nil
				return
			case <-tick.C:
			}
			limited, cancel := r.bounded(ctx)
			res, err := conn.Exec(limited, sql).ReadAll()
			cancel()
			if err != nil {
				done <- fmt.Errorf("look what the sessions of %s wait for: %w", r.plan.Cells[cell].Server, err)
				return
			}
			for _, row := range res[0].Rows {
				n, _ := strconv.ParseInt(string(row[1]), 10, 64)
				waits[string(row[0])] += n
			}
		}
	}()
	_, err = r.slice(ctx, &l, workload.Slice{Length: waitsFor})
	stop()
	if sampled := <-done; err == nil {
		err = sampled
	}
	if err != nil {
		return r.lost(err)
	}
	p.Waits = waits
	return nil
}
