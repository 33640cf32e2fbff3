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
	Done  int // rounds of Total
	Total int // 0 before the runs begin
	Left  time.Duration
}

// Run carries out a plan and returns the path of the record. With an error the
// path is "" when nothing was measured, else the record holds what was. Errors
// of the user's are *UsageError; a cancelled context is returned as such.
func Run(ctx context.Context, plan *Plan, cfg RunConfig) (path string, err error) {
	r := &runner{plan: plan, cfg: cfg, failed: map[string]string{}, loglines: map[string]*loglines{},
		rng: rand.New(rand.NewPCG(uint64(plan.Spec.Seed), 0)), interrupted: func() bool { return ctx.Err() != nil }}
	defer r.close()
	for _, stage := range []func(context.Context) error{
		r.create,   // the record's file, so that a bad path is found now
		r.start,    // installations and instances
		r.probe,    // every setting, on every server
		r.prepare,  // tables
		r.try,      // the script, once
		r.exercise, // can the settings act at all?
		r.pilot,    // head, slice, generation
		r.anchor,   // one unbroken second
		r.begin,    // the record's header
		r.measure,  // runs of generations of rounds of slices
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

	manager    *server.Manager
	instances  []instance // as in plan.Instances
	wire       *workload.Wire
	pin        Pin   // in force
	cpus       []int // of job threads and backends; nil: not pinned
	panels     []panel
	histograms []*hdrhistogram.Histogram // of a generation's cells, used again and again
	warnings   []results.Warning
	parallel   bool          // warned of parallel workers
	lostInARow int           // generations
	longest    time.Duration // the longest transaction seen, for the grace
}

// instance is a running PostgreSQL of the plan.
type instance struct {
	target  server.Target
	managed *server.Instance // nil: attached
	facts   results.Server
	logSeen int64            // how far its log was read
	tables  map[int][]string // panel -> tables of the cells that write
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
	if cells == nil {
		cells = []string{}
	}
	r.warnings = append(r.warnings, results.Warning{Code: code, Cells: cells, Text: text, Remedy: remedy})
}

// grace is how long after a deadline an answer is waited for (DESIGN: 10 s or
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
		Seed: p.Spec.Seed, Args: r.cfg.Args, Spec: spec,
		Runs: p.Spec.Runs, RunSeconds: p.Spec.Duration.Seconds(), Transactions: p.Spec.Transactions, Unit: "tps", Margin: 1,
		Environment: host.Facts(), Axes: p.Axes, Comparisons: p.Comparisons, Controls: p.Controls, Warnings: r.warnings,
	}
	if h.Transactions > 0 {
		h.Unit, h.RunSeconds = "s", 0
	}
	if r.manager != nil {
		h.Environment.User = r.manager.User()
	}
	for i := range p.Spec.Servers {
		h.Servers = append(h.Servers, r.instances[i].facts)
	}
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

// close lets go of everything, whatever happened before.
func (r *runner) close() {
	r.trace("close")
	if r.wire != nil {
		r.wire.Close()
	}
	for _, inst := range r.instances {
		if inst.managed == nil && inst.target != nil {
			if err := inst.target.Close(); err != nil {
				r.log("%v", err)
			}
		}
	}
	if r.manager != nil {
		if err := r.manager.Close(); err != nil {
			r.log("%v", err)
		}
	}
}

// measure does the runs.
func (r *runner) measure(ctx context.Context) error {
	// A collection in the middle of a slice would be charged to its cell, so
	// it happens between generations (see generation).
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	// How often the pilot drew depends on the machine's speed: a stream of its
	// own, so that the seed gives the same orders again.
	r.rng = rand.New(rand.NewPCG(uint64(r.plan.Spec.Seed), 1))
	total := 0
	for _, p := range r.panels {
		total += p.Rounds * p.Generations * r.plan.Spec.Runs
		for len(r.histograms) < len(p.cells) {
			r.histograms = append(r.histograms, results.NewHistogram())
		}
	}
	began, done := time.Now(), 0
	for run := 1; run <= r.plan.Spec.Runs; run++ {
		if r.plan.InstanceAxis() {
			if err := r.restart(ctx); err != nil {
				return err
			}
		}
		for _, p := range r.turns() {
			if r.cfg.Progress != nil {
				left := time.Duration(0)
				if done > 0 {
					left = time.Duration(float64(time.Since(began)) / float64(done) * float64(total-done))
				}
				r.cfg.Progress(Progress{Stage: fmt.Sprintf("run %d of %d", run, r.plan.Spec.Runs), Done: done, Total: total, Left: left})
			}
			if err := r.generation(ctx, &r.panels[p.panel], run, p.number); err != nil {
				return err
			}
			done += r.panels[p.panel].Rounds
		}
		r.readLogs()
	}
	if r.cfg.Progress != nil {
		r.cfg.Progress(Progress{Stage: "done", Done: total, Total: total})
	}
	r.warnOfLogs()
	if len(r.failed) > 0 {
		return r.failure()
	}
	return nil
}

// turn is a panel's generation.
type turn struct{ panel, number int }

// turns lists the generations of a run: panels take turns by generation, in
// random order.
func (r *runner) turns() (list []turn) {
	longest := 0
	for _, p := range r.panels {
		longest = max(longest, p.Generations)
	}
	for g := 1; g <= longest; g++ {
		for _, p := range r.rng.Perm(len(r.panels)) {
			// A panel with fewer generations spreads them over the run.
			n := r.panels[p].Generations
			if g*n/longest > (g-1)*n/longest {
				list = append(list, turn{p, g * n / longest})
			}
		}
	}
	return list
}
