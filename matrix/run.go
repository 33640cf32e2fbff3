package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"pgtare/matrix/host"
	"pgtare/matrix/server"
	"pgtare/results"
	"pgtare/workload"
)

// RunConfig says where and how a plan is carried out.
type RunConfig struct {
	Record   string         // path of the record; "": a new file in the user's state directory
	CacheDir string         // of installations, templates and instances; "": the user's
	Pgtare   string         // version of the program, for the record
	Args     []string       // the command line, for the record
	Progress func(Progress) // nil: none
	Log      func(string)   // one line about something slow or remarkable; nil: dropped
	Trace    func(string)   // every step in the order it is taken, down to generations (slices are in the record); nil: none
}

// Progress is how far a run has come.
type Progress struct {
	Stage string
	Done  int // ms measured, of Total
	Total int // 0 before the runs begin
	Left  time.Duration
}

// Run carries out a plan and returns the path of the record. With an error the
// path is "" when nothing was measured, else the record holds what was. Errors
// of the user's are *UsageError; a cancelled context is returned as such.
func Run(ctx context.Context, plan *Plan, cfg RunConfig) (path string, err error) {
	r := &runner{plan: plan, cfg: cfg, tables: map[int][]string{}, failed: map[string]string{}, loglines: map[string]*loglines{},
		rng: rand.New(rand.NewPCG(uint64(plan.Spec.Seed), 0)), interrupted: func() bool { return ctx.Err() != nil }}
	defer func() {
		left := r.close()
		if left != nil && r.interrupted() { // a signal's message takes the error's place
			r.log("%v", left)
		}
		err = errors.Join(err, left)
	}()
	for _, stage := range []func(context.Context) error{
		r.create,     // the record's file, so that a bad path is found now
		r.undoBefore, // what pgtares that died have left
		r.takeClock,  // the right to switch the kernel's clock source
		r.start,      // installations and instances
		r.probe,      // every setting, on every server
		r.prepare,    // tables
		r.try,        // the script, once
		r.exercise,   // can the settings act at all?
		r.waits,      // do sessions queue up for locks?
		r.pilot,      // head, slice, generation
		r.anchor,     // one unbroken second
		r.retire,     // instances that run in blocks only
		r.begin,      // the record's header
		r.measure,    // runs of generations of rounds of slices
	} {
		if err = stage(ctx); err != nil {
			break
		}
	}
	return r.finish(ctx, err)
}

// runner is a plan on its way.
type runner struct {
	plan    *Plan
	cfg     RunConfig
	rng     *rand.Rand
	started time.Time

	id          string
	writer      *results.Writer
	failed      map[string]string    // cells without a success in a generation, and why
	interrupted func() bool          // the context is over
	loglines    map[string]*loglines // by server
	labels      []string             // of plan.Spec.Servers

	journal      *host.Journal     // of what must be undone; nil: nothing
	clock        *host.ClockSwitch // nil: nothing is switched
	counter      *host.Counter     // the engine's clock where the kernel's is switched; nil: the kernel's
	manager      *server.Manager
	launched     int                     // instances so far
	attached     *server.Attached        // the only server, where it is somebody else's; else nil
	died         bool                    // a pgtare has died that was at work on some server
	undone       bool                    // nothing of earlier pgtares is left in its configuration
	others       others                  // sessions of others on it
	tables       map[int][]string        // panel -> tables of the cells that write there, whatever their instance
	group        int                     // of the instances that run, where there are batches (groupOf)
	found        []server.Installation   // as in plan.Spec.Servers
	shipped      [][]server.DefaultValue // the same servers' defaults, where there are several
	aligned      [][]server.Setting      // what the servers were given in place of theirs
	defaults     *results.Defaults       // for the record; nil: one server
	servers      []results.Server        // the same, as they said themselves
	instances    []instance              // as in plan.Instances
	engine       Engine                  // never AutoEngine, once chosen
	tls          string                  // version on the connections to an attached server; "": plain
	driver       workload.Driver
	pin          Pin   // in force
	clientCPUs   []int // of the job threads; nil: not pinned
	serverCPUs   []int // of the backends; nil: not pinned
	panels       []panel
	histograms   []*hdrhistogram.Histogram // of a generation's cells, used again and again
	warnings     []results.Warning
	parallel     bool           // warned of parallel workers
	noCheckpoint bool           // warned that the role may not
	owned        []owned        // instances of cells that have one to themselves
	lostInARow   int            // generations
	looked       map[string]int // replicates at the last look at the intervals, by panel and unit
	longest      time.Duration  // the longest transaction seen, for the grace
}

// instance is a running PostgreSQL of the plan.
type instance struct {
	planned       Instance
	configuration // all that it was started with
	config        server.InstanceConfig
	proven        map[string]string // its configuration, as pg_settings shows it
	target        server.Target
	managed       *server.Instance // nil: attached
	attached      *server.Attached // nil: managed; all instances of the plan are this one server, which is configured for each in turn
	facts         results.Server
	logSeen       int64            // how far its log was read
	tables        map[int][]string // panel -> tables of the cells that write
}

func (r *runner) stage(text string) {
	r.trace("%s", text)
	if r.cfg.Progress != nil {
		r.cfg.Progress(Progress{Stage: text})
	}
}

func (r *runner) trace(format string, args ...any) {
	if r.cfg.Trace != nil {
		r.cfg.Trace(fmt.Sprintf(format, args...))
	}
}

func (r *runner) log(format string, args ...any) {
	if r.cfg.Log != nil {
		r.cfg.Log(fmt.Sprintf(format, args...))
	}
}

func (r *runner) warn(code, text, remedy string, cells ...string) {
	r.warnForbidding("", code, text, remedy, cells...)
}

// warnForbidding raises a doubt because of which something must not be said.
func (r *runner) warnForbidding(what, code, text, remedy string, cells ...string) {
	if cells == nil {
		cells = []string{}
	}
	r.warnings = append(r.warnings, results.Warning{Code: code, Cells: cells, Text: text, Remedy: remedy, Forbids: what})
}

// grace is how long after a deadline an answer is waited for (10 s or
// ten of the longest transactions).
func (r *runner) grace() time.Duration { return max(10*time.Second, 10*r.longest) }

func (r *runner) create(context.Context) error {
	r.started = time.Now()
	r.id = results.NewID(r.started, rand.New(rand.NewPCG(uint64(r.started.UnixNano()), uint64(os.Getpid()))))
	path := r.cfg.Record
	if path == "" {
		var err error
		if path, err = results.DefaultPath(r.id); err != nil {
			return err
		}
	}
	w, err := results.Create(path)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return usagef("%v", err)
	}
	if err != nil {
		return err
	}
	r.writer = w
	return nil
}

// begin writes the header: from here on the record explains itself.
func (r *runner) begin(context.Context) error {
	spec, err := json.Marshal(r.plan.Spec.describe())
	if err != nil {
		return fmt.Errorf("describe the matrix for the record: %w", err)
	}
	p := r.plan
	h := results.Header{
		ID: r.id, Pgtare: r.cfg.Pgtare, Title: p.Title(), Started: r.started.UTC(),
		Seed: p.Spec.Seed, Args: r.cfg.Args, Spec: spec, Until: p.Spec.Until, MaxSeconds: p.Spec.MaxTime.Seconds(),
		Runs: p.Spec.Runs, RunSeconds: p.Spec.Duration.Seconds(), Transactions: p.Spec.Transactions, Unit: "tps", Margin: 1,
		Environment: host.Facts(), Axes: p.Axes, Comparisons: p.Comparisons, Controls: p.Controls, Warnings: r.warnings, Columns: p.Spec.Columns,
	}
	if err := r.weighClocks(&h.Environment); err != nil {
		return err
	}
	if h.Transactions > 0 {
		h.Unit, h.RunSeconds = "s", 0
	}
	if r.manager != nil {
		h.Environment.User = r.manager.User()
	}
	h.Servers, h.Defaults = r.servers, r.defaults
	for _, inst := range p.Instances {
		h.Instances = append(h.Instances, results.Instance{ID: inst.ID, Server: r.labels[inst.Server], Control: inst.Control})
	}
	for i := range r.panels {
		h.Panels = append(h.Panels, r.panels[i].Panel)
	}
	for _, c := range p.Cells {
		h.Cells = append(h.Cells, c.Cell)
	}
	if err := r.writer.WriteHeader(&h); err != nil {
		return err
	}
	if err := r.writer.Sync(); err != nil {
		return err
	}
	r.warnings = nil
	r.trace("header")
	return nil
}

// finish closes the record and says what became of it.
func (r *runner) finish(ctx context.Context, err error) (string, error) {
	if r.writer == nil {
		return "", err
	}
	if r.writer.Generations() == 0 {
		_, discarded := r.writer.Discard()
		return "", errors.Join(err, discarded)
	}
	for _, w := range r.warnings {
		err = errors.Join(err, r.writer.WriteWarning(w))
	}
	end := results.End{Ended: time.Now().UTC(), Status: "complete"}
	switch {
	case ctx.Err() != nil:
		end.Status, end.Reason = "interrupted", context.Cause(ctx).Error()
	case err != nil:
		end.Status, end.Reason = "failed", err.Error()
	}
	err = errors.Join(err, r.writer.WriteEnd(end), r.writer.Close())
	return r.writer.Path(), err
}

// close lets go of everything, whatever happened before. The error is of what is
// left on a server that is somebody else's.
func (r *runner) close() (err error) {
	r.trace("close")
	err = r.releaseClock() // first: it is the whole machine's
	if r.driver != nil {
		r.driver.Close()
	}
	if r.attached != nil {
		err = errors.Join(err, r.attached.Close())
	}
	if r.manager != nil {
		if err := r.manager.Close(); err != nil {
			r.log("%v", err)
		}
	}
	if r.journal != nil { // last: what is undone by now is crossed out
		if err := r.journal.Close(); err != nil {
			r.log("%v", err)
		}
	}
	return err
}

// measure does the runs.
func (r *runner) measure(ctx context.Context) error {
	// A collection in the middle of a slice would be charged to its cell, so
	// it happens between generations (see generation).
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	// How often the pilot drew depends on the machine's speed: a stream of its
	// own, so that the seed gives the same orders again.
	r.rng = rand.New(rand.NewPCG(uint64(r.plan.Spec.Seed), 1))
	for _, p := range r.panels {
		for len(r.histograms) < len(p.cells) {
			r.histograms = append(r.histograms, results.NewHistogram())
		}
	}
	progress := r.newProgress()
	for run := 1; ; run++ {
		if err := r.leave(ctx); err != nil {
			return err
		}
		if r.plan.InstanceAxis() && r.plan.batches() == 1 {
			if err := r.restart(ctx); err != nil {
				return err
			}
		}
		if err := r.hook(ctx, "before-run", r.plan.Spec.Hooks.Before, run); err != nil {
			return err
		}
		for _, t := range r.turns() {
			progress.show(run)
			p := &r.panels[t.panel]
			first := t.cell
			if first < 0 {
				first = p.cells[0]
			}
			if err := r.enterFor(ctx, r.plan.Cells[first].instance); err != nil {
				return err
			}
			var err error
			if t.cell >= 0 {
				err = r.block(ctx, p, t.cell, run)
			} else {
				err = r.generation(ctx, p, run, t.number)
			}
			if err != nil {
				return err
			}
			progress.done += p.measured(t)
		}
		r.readLogs()
		if err := r.hook(ctx, "after-run", r.plan.Spec.Hooks.After, run); err != nil {
			return err
		}
		over, err := r.enough(run, time.Since(progress.began))
		if err != nil {
			return err
		}
		if over {
			break
		}
	}
	if r.cfg.Progress != nil {
		r.cfg.Progress(Progress{Stage: "done", Done: 1, Total: 1})
	}
	r.warnOfLogs()
	r.warnOfOthers()
	if len(r.failed) > 0 {
		return r.failure()
	}
	return nil
}

// progress tells how much of the measured time is over.
type progress struct {
	r           *runner
	began       time.Time
	done, total time.Duration
}

func (r *runner) newProgress() *progress {
	p := &progress{r: r, began: time.Now()}
	for i := range r.panels {
		n := &r.panels[i]
		p.total += time.Duration(n.Generations*r.plan.Spec.Runs*len(n.cells)*n.Rounds) * time.Duration(n.SliceNs)
	}
	return p
}

func (p *progress) show(run int) {
	if p.r.cfg.Progress == nil {
		return
	}
	passed := time.Since(p.began)
	stage, total, left := fmt.Sprintf("run %d of %d", run, p.r.plan.Spec.Runs), p.total, time.Duration(0)
	if p.r.plan.Spec.Until > 0 {
		stage = fmt.Sprintf("run %d, until +-%g %%", run, p.r.plan.Spec.Until)
		total = max(p.total, p.done)
	}
	if p.done > 0 && total > p.done {
		left = time.Duration(float64(passed) / float64(p.done) * float64(total-p.done))
	}
	if limit := p.r.plan.Spec.MaxTime; limit > 0 && p.r.plan.Spec.Until > 0 {
		left = max(0, limit-passed)
	}
	p.r.cfg.Progress(Progress{Stage: stage, Done: int(p.done.Milliseconds()), Total: max(1, int(total.Milliseconds())), Left: left})
}

// measured is the time that a turn measures.
func (p *panel) measured(t turn) time.Duration {
	if t.cell >= 0 {
		return time.Duration(p.SliceNs)
	}
	return time.Duration(p.Rounds*len(p.cells)) * time.Duration(p.SliceNs)
}

// turn is a panel's generation, or the block of one cell.
type turn struct {
	panel, number int
	cell          int // index into plan.Cells; -1: all of the panel, in slices
}

// turns lists the generations of a run: panels take turns by generation, in
// random order. The blocks follow, of all panels in random order.
func (r *runner) turns() (list []turn) {
	longest := 0
	for _, p := range r.panels {
		if p.Schedule == server.SliceSchedule {
			longest = max(longest, p.Generations)
		}
	}
	batches := []int{0}
	if n := r.plan.batches(); n > 1 {
		batches = r.rng.Perm(n)
	}
	for _, batch := range batches {
		for g := 1; g <= longest; g++ {
			for _, p := range r.rng.Perm(len(r.panels)) {
				if r.panels[p].Schedule == server.BlockSchedule || r.plan.Panels[p].Batch != batch {
					continue
				}
				// A panel with fewer generations spreads them over the run.
				n := r.panels[p].Generations
				if g*n/longest > (g-1)*n/longest {
					list = append(list, turn{p, g * n / longest, -1})
				}
			}
		}
	}
	var blocks []turn
	for i, p := range r.panels {
		if p.Schedule == server.BlockSchedule {
			for _, k := range p.cells {
				blocks = append(blocks, turn{i, 1, k})
			}
		}
	}
	r.rng.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
	return append(list, blocks...)
}
