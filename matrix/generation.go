package matrix

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/host"
	"pgtare/matrix/server"
	"pgtare/results"
	"pgtare/workload"
)

// load is one cell's clients on one set of connections, with what is needed to
// weigh their backends.
type load struct {
	workload.Generation
	spec    workload.GenerationSpec
	cell    int              // index into plan.Cells
	procs   []*host.Proc     // of the backends; nil: not ours to see
	remote  *server.Attached // reads their CPU time through the server where they aren't; nil: it can't
	connect time.Duration
}

// cpu is the CPU time of all backends so far, 0 where it isn't known.
func (l *load) cpu() time.Duration { run, _ := l.times(); return max(run, 0) }

// times is the time that the backends ran, and were runnable but did not; -1
// where it isn't known.
func (l *load) times() (run, wait time.Duration) {
	if l.procs == nil && l.remote != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		run, wait, err := l.remote.BackendCPU(ctx, l.Backends())
		if err != nil {
			return -1, -1
		}
		return run, wait
	}
	if l.procs == nil {
		return -1, -1
	}
	for _, p := range l.procs {
		r, w, err := p.CPU()
		if err != nil {
			return -1, -1
		}
		run, wait = run+r, wait+w
	}
	return run, wait
}

func (l *load) faults() int64 { return l.sum((*host.Proc).Faults) }

func (l *load) sum(read func(*host.Proc) (int64, error)) (total int64) {
	if l.procs == nil {
		return -1
	}
	for _, p := range l.procs {
		n, err := read(p)
		if err != nil {
			return -1
		}
		total += n
	}
	return total
}

func (l *load) close() {
	for _, p := range l.procs {
		p.Close()
	}
	l.Generation.Close()
}

// session is the loads of one generation of a panel, as panel.cells, and the
// idle sessions that make their number equal on all instances.
type session struct {
	loads []load
	idle  []*pgconn.PgConn
}

func (s *session) close() {
	for i := range s.loads {
		if s.loads[i].Generation != nil {
			s.loads[i].close()
			s.loads[i].Generation = nil
		}
	}
	for _, c := range s.idle {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		c.Close(ctx)
		cancel()
	}
	s.idle = nil
}

// open connects cells of a panel, in random order, and the idle sessions that
// make their number equal on all instances.
func (r *runner) open(ctx context.Context, p *panel, cells []int, generation int) (_ *session, err error) {
	s := &session{loads: make([]load, len(cells))}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	perInstance := make([]int, len(r.instances))
	for _, i := range r.rng.Perm(len(cells)) {
		if s.loads[i], err = r.openCell(ctx, p, cells[i], generation); err != nil {
			return nil, r.lost(err)
		}
		perInstance[r.plan.Cells[cells[i]].instance] += p.Clients
	}
	for i, n := range perInstance {
		if in := r.instances[i].planned; in.Blocks || in.Batch != r.plan.Panels[p.index].Batch {
			continue
		}
		for ; n < p.Sessions; n++ {
			c, err := r.connect(ctx, i)
			if err != nil {
				return nil, err
			}
			s.idle = append(s.idle, c)
		}
	}
	return s, nil
}

func (r *runner) openCell(ctx context.Context, p *panel, cell, generation int) (load, error) {
	c := r.plan.Cells[cell]
	if err := r.configure(ctx, c.instance); err != nil {
		return load{}, err
	}
	inst := &r.instances[c.instance]
	l := load{cell: cell, spec: workload.GenerationSpec{
		Config: inst.target.Config(), Script: r.script(p, cell, generation), Vars: c.Vars, Protocol: workload.Protocol(p.Protocol),
		Clients: p.Clients, SingleTransaction: Mode(p.Mode) == SingleTransaction, OnConnect: r.onConnect(p, cell),
	}}
	server.Apply(l.spec.Config, c.Settings)
	began := time.Now()
	// All clients connect in turn.
	ctx, cancel := context.WithTimeout(ctx, r.grace()+time.Duration(p.Clients)*100*time.Millisecond)
	defer cancel()
	g, err := r.driver.Open(ctx, l.spec)
	if err != nil {
		return load{}, fmt.Errorf("open %d sessions of cell %s (%s) on %s: %w", p.Clients, c.ID, c.name(), c.Server, err)
	}
	l.Generation, l.connect = g, time.Since(began)
	if inst.target.LocalPID() {
		for _, pid := range g.Backends() {
			proc, err := host.OpenProc(pid)
			if err != nil {
				for _, p := range l.procs {
					p.Close()
				}
				l.procs = nil // the backend may be gone already; the next slice will say so
				break
			}
			l.procs = append(l.procs, proc)
		}
	} else if source, _ := inst.attached.CPUSource(); source == "server" {
		l.remote = inst.attached
	}
	return l, nil
}

// slice runs a slice under its cell's clock source, with the grace that holds
// now. All CPUs stand still while the source is switched, which is before the
// head, whose transactions meet what that does to caches.
func (r *runner) slice(ctx context.Context, l *load, s workload.Slice) (workload.Result, error) {
	if err := r.useClock(l.cell, s.Length > 0 || s.Latencies != nil); err != nil {
		return workload.Result{}, err
	}
	s.Grace = r.grace()
	return l.Run(ctx, s)
}

// generation measures one generation of a panel and writes a line for every
// cell.
func (r *runner) generation(ctx context.Context, p *panel, run, number int) error {
	r.trace("run %d: generation %s%d", run, p.ID, number)
	runtime.GC() // here, where it is charged to nobody
	if err := r.lookForOthers(ctx); err != nil {
		return err
	}
	if number == 1 {
		if err := r.ownedBefore(ctx, p); err != nil {
			return err
		}
	}
	watch, started := r.watch(), time.Now()
	s, err := r.open(ctx, p, p.cells, (run-1)*p.Generations+number)
	if err != nil {
		return err
	}
	defer s.close()

	lines := make([]results.Generation, len(p.cells))
	for i := range lines {
		lines[i] = r.line(p, p.cells[i], run, number, started, s.loads[i].connect)
		r.histograms[i].Reset()
	}
	lostErr := r.rounds(ctx, p, s, lines, started)
	m := watch.since("")
	s.close() // sessions report all that they have done when they end
	if lostErr != nil {
		r.owned = nil
	}
	for i := range r.owned {
		o := &r.owned[i]
		o.transactions += transactionsOf(&lines[o.line])
		o.measured += transactionsOf(&lines[o.line]) - lines[o.line].WarmupTx
	}
	if number == p.Generations {
		if err := r.ownedAfter(ctx, lines); err != nil {
			return err
		}
	}
	return r.keep(p, p.cells, run, number, lines, m, lostErr)
}

// keep writes what cells did in a generation, or one of them in a block, and
// what the machine did, and says whether the matrix goes on.
func (r *runner) keep(p *panel, cells []int, run, number int, lines []results.Generation, m results.Machine, lost error) error {
	for i := range lines {
		if err := r.complete(&lines[i], cells[i], r.histograms[i], lost); err != nil {
			return err
		}
	}
	m.Panel, m.Run, m.Generation = p.ID, run, number
	if err := r.writer.WriteMachine(m); err != nil {
		return err
	}
	if err := r.writer.Sync(); err != nil {
		return err
	}
	if lost != nil {
		return r.tolerate(lost, p, run, number)
	}
	r.lostInARow = 0
	return nil
}

// line begins the record's line of one cell in one generation.
func (r *runner) line(p *panel, cell, run, number int, started time.Time, connect time.Duration) results.Generation {
	return results.Generation{Panel: p.ID, Cell: r.plan.Cells[cell].ID, Run: run, Generation: number,
		Started: started.UTC(), ConnectNs: int64(connect), Failures: map[string]int64{}}
}

// mayLose is how many generations in a row may be lost before the matrix ends.
const mayLose = 2

// tolerate lets the matrix go on after a generation in which an administrator
// ended a session: the generation isn't used.
func (r *runner) tolerate(lost error, p *panel, run, number int) error {
	err := r.lost(lost)
	var l *workload.LostError
	if !errors.As(err, &l) || l.SQLState != "57P01" || r.lostInARow >= mayLose {
		return err
	}
	r.lostInARow++
	r.warn("generation-lost", fmt.Sprintf("generation %d of run %d of panel %s is not used: %v", number, run, p.ID, lost),
		"find out who ends sessions on this server")
	return nil
}

// rounds warms the cells up and does the generation's slices.
func (r *runner) rounds(ctx context.Context, p *panel, s *session, lines []results.Generation, started time.Time) error {
	before := make([]counts, len(lines))
	for _, i := range r.rng.Perm(len(s.loads)) {
		cold := lines[i].Generation == 1 && r.plan.InstanceAxis()
		if err := r.warmUp(ctx, p, &s.loads[i], &lines[i], cold); err != nil {
			return err
		}
	}
	for i := range s.loads {
		before[i] = s.loads[i].counts()
	}
	for i := range r.owned {
		o := &r.owned[i]
		o.begin(&r.instances[o.instance], &s.loads[o.line])
	}
	last := -1
	for n := range p.Rounds {
		for position, i := range round(r.rng, len(s.loads), last) {
			predecessor := int64(-1)
			if last >= 0 {
				predecessor = int64(p.cells[last])
			}
			l, at := &s.loads[i], time.Since(started)
			cpu, wait := l.times()
			res, err := r.slice(ctx, l, workload.Slice{Head: p.Head, Length: time.Duration(p.SliceNs), PerClient: p.perClient, Histogram: r.histograms[i]})
			if err != nil {
				return err
			}
			cpuAfter, waitAfter := l.times()
			last = i
			appendSlice(&lines[i], n, position, predecessor, at, res, since(cpu, cpuAfter), since(wait, waitAfter), l.spec.SingleTransaction)
		}
	}
	for i := range s.loads {
		before[i].since(s.loads[i].counts(), &lines[i])
	}
	for i := range r.owned {
		o := &r.owned[i]
		o.end(&r.instances[o.instance], &s.loads[o.line])
	}
	return nil
}

// warmUp sends a cell's warm-up: as long as the pilot's was or, on an instance
// that has just been started, until faults and CPU are flat there. What is
// touched for the first time must not fall into a window, least of all where
// the cells differ in how much of that there is.
func (r *runner) warmUp(ctx context.Context, p *panel, l *load, line *results.Generation, cold bool) error {
	began := time.Now()
	if cold {
		n, _, err := r.warmupLength(ctx, p, l)
		line.WarmupNs, line.WarmupTx = int64(time.Since(began)), int64(n*p.Clients)
		return err
	}
	res, err := r.slice(ctx, l, workload.Slice{Count: p.Warmup})
	line.WarmupNs, line.WarmupTx = int64(time.Since(began)), res.All
	return err
}

// counts are what the kernel counts of a load's backends; -1: not known.
type counts struct{ faults, switches, moves, read, written int64 }

func (l *load) counts() counts {
	return counts{l.faults(), l.sum((*host.Proc).Switches), l.sum((*host.Proc).Moves), l.sum((*host.Proc).BytesRead), l.sum((*host.Proc).BytesWritten)}
}

// since writes what was counted between two readings into a line.
func (c counts) since(later counts, g *results.Generation) {
	g.Faults, g.Switches, g.Moves = since(c.faults, later.faults), since(c.switches, later.switches), since(c.moves, later.moves)
	if read, written := since(c.read, later.read), since(c.written, later.written); read >= 0 && written >= 0 {
		g.FileIO = &results.FileIO{Transactions: transactionsOf(g) - g.WarmupTx, ReadBytes: read, WrittenBytes: written}
	}
}

// since is after - before, -1 where either isn't known.
func since[T ~int64](before, after T) T {
	if before < 0 || after < 0 {
		return -1
	}
	return after - before
}

func appendSlice(g *results.Generation, round, position int, predecessor int64, at time.Duration, res workload.Result, cpu, wait time.Duration, single bool) {
	begin, commit := int64(-1), int64(-1)
	if single {
		begin, commit = int64(res.Begin), int64(res.Commit)
	}
	s := &g.Slices
	for _, column := range []struct {
		to    *[]int64
		value int64
	}{
		{&s.Round, int64(round)},
		{&s.Position, int64(position)},
		{&s.Predecessor, predecessor},
		{&s.StartUs, at.Microseconds()},
		{&s.N, res.N},
		{&s.T, int64(res.T)},
		{&s.HeadNs, int64(res.Head)},
		{&s.ElapsedNs, int64(res.Elapsed)},
		{&s.All, res.All},
		{&s.ServerCPU, int64(cpu)},
		{&s.ServerWait, int64(wait)},
		{&s.ClientCPU, int64(res.ClientCPU)},
		{&s.ClientWait, int64(res.ClientWait)},
		{&s.BeginNs, begin},
		{&s.CommitNs, commit},
	} {
		*column.to = append(*column.to, column.value)
	}
	for state, n := range res.Failures {
		g.Failures[state] += n
	}
}

// complete adds the histogram to a line and writes it.
func (r *runner) complete(g *results.Generation, cell int, h *hdrhistogram.Histogram, lost error) error {
	if lost != nil {
		if r.interrupted() {
			g.Lost = "interrupted"
		} else {
			g.Lost = lost.Error()
		}
	}
	g.Histogram, g.MeanNs, g.MaxNs = results.EncodeHistogram(h), h.Mean(), h.Max()
	g.P50Ns, g.P95Ns, g.P99Ns, g.P999Ns = h.ValueAtQuantile(50), h.ValueAtQuantile(95), h.ValueAtQuantile(99), h.ValueAtQuantile(99.9)
	if lost == nil && h.TotalCount() == 0 {
		r.failed[r.plan.Cells[cell].ID] = codes(g.Failures)
	}
	return r.writer.WriteGeneration(g)
}

// codes lists failures by SQLSTATE.
func codes(failures map[string]int64) string {
	var states []string
	for _, s := range slices.Sorted(maps.Keys(failures)) {
		states = append(states, fmt.Sprintf("SQLSTATE %s (%d)", s, failures[s]))
	}
	return cmp.Or(strings.Join(states, ", "), "none came to its end within a slice")
}

// failure is the error of cells that had a generation without a success.
func (r *runner) failure() error {
	var parts []string
	for _, c := range r.plan.Cells {
		if why, failed := r.failed[c.ID]; failed {
			parts = append(parts, fmt.Sprintf("%s (%s) on %s: %s", c.ID, c.name(), c.Server, why))
		}
	}
	return &FailedCells{"no transaction of a whole generation succeeded in cell " + strings.Join(parts, "; ")}
}
