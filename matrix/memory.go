package matrix

import (
	"context"
	"fmt"
	"slices"

	"pgtare/matrix/server"
)

// sessionMemory is what a session takes of its own, about.
const sessionMemory = 4 << 20

// need is what the instances of a batch take that run at once, in bytes: of
// ordinary memory, and of reserved huge pages. Blocks run one at a time.
func (p *Plan) need(batch int) (ordinary, huge int64) {
	var block, blockHuge int64
	for i, in := range p.Instances {
		if p.Spec.Servers[in.Server].Kind == server.Conninfo {
			continue // it runs anyway
		}
		f := server.FootprintOf(p.configurationOf(in).conf)
		own, reserved := f.Shared+f.Own, int64(0)
		if f.Huge {
			own, reserved = f.Own, f.Shared
		}
		switch {
		case in.Blocks:
			own += int64(slices.Max(p.Spec.Clients)) * sessionMemory
			block, blockHuge = max(block, own), max(blockHuge, reserved)
		case in.Batch == batch:
			ordinary += own + int64(p.sessionsOf(i))*sessionMemory
			huge += reserved
		}
	}
	// No instance of the slices runs during a block where there are batches.
	if p.batches() > 1 {
		return max(ordinary, block), max(huge, blockHuge)
	}
	return ordinary + block, huge + blockHuge
}

// fits says whether a batch can run.
func (p *Plan) fits(batch int) bool {
	m := p.Spec.Memory
	ordinary, huge := p.need(batch)
	return m == nil || (m.Available < 0 || ordinary <= m.Available) && (huge == 0 || huge <= m.HugeFree)
}

// sessionsOf is the number of sessions of an instance, over its panels the most.
func (p *Plan) sessionsOf(instance int) (n int) {
	for k := range p.Panels {
		here := 0
		for _, c := range p.panelCells(k) {
			if p.Cells[c].instance == instance {
				here += p.Panels[k].Clients
			}
		}
		n = max(n, here)
	}
	return n
}

// batches is the number of parts of the matrix that aren't in memory at once.
func (p *Plan) batches() int {
	n := 1
	for _, in := range p.Instances {
		n = max(n, in.Batch+1)
	}
	return n
}

// checkMemory refuses a matrix of which not even the smallest part that can be
// compared has room.
func (p *Plan) checkMemory() error {
	for batch := range p.batches() {
		if p.fits(batch) {
			continue
		}
		ordinary, huge := p.need(batch)
		count := 0
		for _, in := range p.Instances {
			if !in.Blocks && in.Batch == batch {
				count++
			}
		}
		remedy := "use smaller shared buffers (--conf shared_buffers=32MB), fewer servers, or --schedule block, which runs one instance at a time"
		if p.Spec.Schedule == server.BlockSchedule {
			remedy = "use smaller shared buffers (--conf shared_buffers=32MB)"
		}
		m, who := p.Spec.Memory, fmt.Sprintf("%d instances must run at once and take", count)
		if count == 0 {
			who = "an instance takes"
		}
		if huge > m.HugeFree {
			return usagef("%s about %s of huge pages (huge_pages=on), of which %s are free: reserve more (sysctl vm.nr_hugepages), or %s",
				who, size(huge), size(m.HugeFree), remedy)
		}
		return usagef("%s about %s of memory (shared buffers and processes), and %s leaves %s: %s", who, size(ordinary), m.Limit, size(m.Available), remedy)
	}
	return nil
}

// size writes bytes for a message.
func size(bytes int64) string {
	if bytes >= 10<<30 {
		return fmt.Sprintf("%d GB", bytes>>30)
	}
	if bytes >= 1<<30 {
		return fmt.Sprintf("%.1f GB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%d MB", bytes>>20)
}

// batchRows divides the rows of the slice schedule so that the instances of
// each part, all of which hold the baseline, its control and their own, have
// room at once. One part where all fit.
func (p *Plan) batchRows(panel Panel, variants []variant, rows []int) [][]int {
	if p.Spec.Memory == nil {
		return [][]int{rows}
	}
	try := func(rows []int) bool {
		q := &Plan{Spec: p.Spec, asked: p.asked, known: p.known}
		q.addPanel(panel, variants, rows)
		ordinary, _ := q.need(0)
		p.together = max(p.together, ordinary)
		return q.fits(0)
	}
	if try(rows) {
		return [][]int{rows}
	}
	var parts [][]int
	part := rows[:1]
	for _, row := range rows[1:] {
		if more := append(slices.Clone(part), row); len(part) == 1 || try(more) {
			part = more
			continue
		}
		parts, part = append(parts, part), []int{rows[0], row}
	}
	return append(parts, part)
}

// batchLine says why there are batches, "" where there are none.
func (p *Plan) batchLine() string {
	n := p.batches()
	if n == 1 {
		return ""
	}
	return fmt.Sprintf("%d batches, each with its baseline and control: all instances at once would take about %s of memory, and %s leaves %s",
		n, size(p.together), p.Spec.Memory.Limit, size(p.Spec.Memory.Available))
}

// enter has the instances run that instance i runs together with, and no
// others, where there are batches: those of its batch, all started anew in
// random order, or an instance of the blocks alone.
func (r *runner) enter(ctx context.Context, i int) error {
	group := r.groupOf(i)
	if r.plan.batches() == 1 || group == r.group {
		return nil
	}
	if err := r.leave(ctx); err != nil {
		return err
	}
	r.group = group
	for _, k := range r.rng.Perm(len(r.instances)) {
		if r.groupOf(k) != group || r.instances[k].managed == nil || r.instances[k].managed.PID() != 0 {
			continue
		}
		if err := r.wake(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// enterFor makes room for a turn; an instance of the blocks is left for its block
// to start.
func (r *runner) enterFor(ctx context.Context, i int) error {
	if r.plan.batches() == 1 || !r.instances[i].planned.Blocks {
		return r.enter(ctx, i)
	}
	err := r.leave(ctx)
	r.group = r.groupOf(i)
	return err
}

// groupOf is 0 for no instance, above it the batch, below it an instance of the
// blocks.
func (r *runner) groupOf(i int) int {
	if in := r.instances[i].planned; !in.Blocks {
		return in.Batch + 1
	}
	return -1 - i
}

// leave stops the instances that run, where there are batches.
func (r *runner) leave(ctx context.Context) error {
	if r.plan.batches() == 1 {
		return nil
	}
	r.group = 0
	for k := range r.instances {
		if m := r.instances[k].managed; m != nil && m.PID() != 0 {
			if err := r.stop(ctx, k); err != nil {
				return err
			}
		}
	}
	return nil
}
