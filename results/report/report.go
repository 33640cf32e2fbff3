package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"pgtare/results"
	"pgtare/results/stats"
)

// Schema is the version of the JSON form.
const Schema = 1

// Report is everything that a record says, computed once. It is plain data in
// the shape of the JSON form: [Report.JSON] and [Report.Text] only format it.
// A nil pointer is what wasn't measured.
type Report struct {
	Schema      int          `json:"schema"`
	Pgtare      string       `json:"pgtare"` // version of the program that measured
	Title       string       `json:"title"`
	Seed        int64        `json:"seed"`
	Environment Environment  `json:"environment"`
	Trusted     *bool        `json:"trusted"` // nil: no control could be judged
	Margin      float64      `json:"margin"`  // per cent
	Warnings    []Warning    `json:"warnings"`
	Controls    []Control    `json:"controls"`
	Panels      []Panel      `json:"panels"`
	Cells       []Cell       `json:"cells"`
	Comparisons []Comparison `json:"comparisons"`

	// Plan is the record's header, for what the text says about the matrix.
	Plan *results.Header `json:"-"`
	// EqualWithin is by how many per cent equal cells differed at most; nil: no
	// control could be judged.
	EqualWithin *float64 `json:"-"`
}

// Environment is the machine, and what was measured on it.
type Environment struct {
	results.Environment
	Record  string    `json:"record"` // its id
	Started time.Time `json:"started"`
	Args    []string  `json:"args"`
	Servers []Server  `json:"servers"`
	// Defaults is null where there is one server.
	Defaults *results.Defaults `json:"defaults"`
}

// Server is what a number needs to be judged by: versions, builds, settings.
type Server struct {
	Label       string            `json:"label"`
	Origin      string            `json:"origin"`
	Source      string            `json:"source,omitempty"` // of one that pgtare built
	Version     string            `json:"version"`
	FullVersion string            `json:"full_version"`
	Compiler    string            `json:"compiler"`
	Build       map[string]string `json:"build"`
	Assertions  bool              `json:"assertions"`
	Settings    map[string]string `json:"settings"`
	Deviations  []string          `json:"deviations"`
}

// Warning is a doubt about numbers, of the record or found in it.
type Warning struct {
	Code   string   `json:"code"`
	Cells  []string `json:"cells"` // empty: all
	Text   string   `json:"text"`
	Remedy string   `json:"remedy"`
	// Forbids is what isn't said of these cells because of it: results.ForbidsSame,
	// results.ForbidsVerdict, "" nothing.
	Forbids string `json:"forbids,omitempty"`
}

// Control is a twin against its baseline.
type Control struct {
	Panel      string   `json:"panel"`
	Cell       string   `json:"cell"`
	Against    string   `json:"against"`
	Pct        *float64 `json:"pct"`
	Lo         *float64 `json:"lo"`
	Hi         *float64 `json:"hi"`
	T          *float64 `json:"t"`
	P          *float64 `json:"p"`
	Replicates int      `json:"replicates"`
	OK         *bool    `json:"ok"` // nil: too few replicates to judge it
}

// Panel is what the cells of a panel share.
type Panel struct {
	ID            string         `json:"id"`
	Workload      string         `json:"workload"`
	Mode          string         `json:"mode"`
	Protocol      string         `json:"protocol"`
	Clients       int            `json:"clients"`
	Threads       int            `json:"threads"`
	Schedule      string         `json:"schedule"`
	Pin           string         `json:"pin"`
	Engine        string         `json:"engine"`
	Head          int            `json:"head"`
	SliceNs       int64          `json:"slice_ns"`
	Rounds        int            `json:"rounds"`
	Generations   int            `json:"generations"` // per run
	Heterogeneity *Heterogeneity `json:"heterogeneity"`
	Anchor        *Anchor        `json:"anchor"`  // of the baseline on the first server
	Anchors       []Anchor       `json:"anchors"` // on all servers
	// Waits are samples of what the baseline's backends waited for, by type of
	// wait event ("" is running); nil: not sampled.
	Waits map[string]int64 `json:"waits"`
}

// Heterogeneity is the F test between runs.
type Heterogeneity struct {
	F float64 `json:"f"`
	P float64 `json:"p"`
}

// Anchor is one unbroken second of a panel's baseline.
type Anchor struct {
	Server  string  `json:"server"`
	TPS     float64 `json:"tps"`
	Seconds float64 `json:"seconds"`
}

// Cell is one combination of the axes' values and its figures.
type Cell struct {
	ID           string            `json:"id"`
	Panel        string            `json:"panel"`
	Axes         map[string]string `json:"axes"`
	Settings     map[string]string `json:"settings"`
	Isolation    string            `json:"isolation"`
	Schedule     string            `json:"schedule"`
	Baseline     bool              `json:"baseline"`
	Control      bool              `json:"control"`
	Status       string            `json:"status"` // ok, n/a, failed, partial
	Reason       *string           `json:"reason"` // of a status other than ok, or why the setting can't act
	Runs         []*float64        `json:"runs"`   // the run's figure; nil: nothing succeeded in it
	Unit         string            `json:"unit"`   // s, tps
	Median       *float64          `json:"median"`
	Min          *float64          `json:"min"`
	Max          *float64          `json:"max"`
	TPS          *float64          `json:"tps"`          // over all runs
	Transactions int64             `json:"transactions"` // measured
	Failures     map[string]int64  `json:"failures"`     // by SQLSTATE
	LatencyUs    *Latency          `json:"latency_us"`
	HeadNs       *float64          `json:"head_ns"` // mean of a slice
	BeginNs      *float64          `json:"begin_ns"`
	CommitNs     *float64          `json:"commit_ns"`
	ServerCPUNs  *float64          `json:"server_cpu_ns"` // per transaction
	ClientCPUNs  *float64          `json:"client_cpu_ns"`
	// ClientSharePct is the clients' part of the CPU time of clients and backends.
	ClientSharePct *float64    `json:"client_share_pct"`
	Background     *Background `json:"background"` // nil: other cells were served meanwhile
	FileIO         *FileIO     `json:"file_io"`    // nil: not known

	plan         *results.Cell
	all          int64 // transactions of the slices, heads and failed ones included
	lost         int   // generations
	notExercised string
}

// Latency is the latency of the successful transactions, in us.
type Latency struct {
	Mean   *float64 `json:"mean"`
	Stddev *float64 `json:"stddev"`
	P50    *float64 `json:"p50"`
	P95    *float64 `json:"p95"`
	P99    *float64 `json:"p99"`
	P999   *float64 `json:"p99.9"` // nil under slices: a stall that ends a slice is cut short
	Max    *float64 `json:"max"`   // the same
}

// Comparison is a cell against another one.
type Comparison struct {
	Cell    string    `json:"cell"`
	Against string    `json:"against"`
	Axis    string    `json:"axis"`
	Pct     *float64  `json:"pct"` // of time per transaction, plus is slower
	Lo      *float64  `json:"lo"`
	Hi      *float64  `json:"hi"`
	Ns      *float64  `json:"ns"`
	NsLo    *float64  `json:"ns_lo"`
	NsHi    *float64  `json:"ns_hi"`
	Typical *Interval `json:"typical"`
	Total   *Interval `json:"total"`
	Bursts  *Bursts   `json:"bursts"` // nil: typical and total agree
	CPU     *CPU      `json:"cpu"`    // of the backends
	// Percentiles are those of the latencies; empty where too little was
	// measured. No verdict rests on them.
	Percentiles   []Percentile `json:"percentiles"`
	P             *float64     `json:"p"`
	PAdjusted     *float64     `json:"p_adjusted"`
	Replicates    int          `json:"replicates"`
	ReplicateUnit string       `json:"replicate_unit"`
	WouldSee      *float64     `json:"would_see"`
	TimeFactor    *float64     `json:"time_factor"` // nil: decided, or time won't decide it
	Verdict       string       `json:"verdict"`
	Reason        *string      `json:"reason"` // why unclear whatever the figures say

	twin   string            // whose data join the reference; ""
	judged *stats.Comparison // what the figures come from
}

// NotExercised is the verdict where a setting couldn't act.
const NotExercised = "not-exercised"

// Interval is an estimate with its 95 % interval, in per cent.
type Interval struct {
	Pct float64 `json:"pct"`
	Lo  float64 `json:"lo"`
	Hi  float64 `json:"hi"`
}

// Percentile is a quantile of the latencies against the reference's.
type Percentile struct {
	Q float64 `json:"q"` // in per cent
	Interval
}

// Bursts is by how much total exceeds typical.
type Bursts struct {
	Pct float64 `json:"pct"`
	P   float64 `json:"p"`
}

// CPU is the overhead in CPU time of the backends.
type CPU struct {
	Pct  float64  `json:"pct"`
	Lo   *float64 `json:"lo"`
	Hi   *float64 `json:"hi"`
	Ns   float64  `json:"ns"` // per transaction
	NsLo *float64 `json:"ns_lo"`
	NsHi *float64 `json:"ns_hi"`
}

// Build computes the report of a record. A record that was cut off, or in
// which cells failed, gives a report all the same; the error is for a record
// that says nothing at all.
func Build(rec *results.Record) (*Report, error) {
	h := &rec.Header
	if len(h.Cells) == 0 {
		return nil, errors.New("the record plans no cell: there is nothing to report")
	}
	r := &Report{
		Schema: Schema, Pgtare: h.Pgtare, Title: h.Title, Seed: h.Seed, Margin: cmp.Or(h.Margin, 1),
		Environment: Environment{Environment: h.Environment, Record: h.ID, Started: h.Started.UTC(), Args: nonNil(h.Args), Defaults: h.Defaults},
		Warnings:    []Warning{}, Controls: []Control{}, Panels: []Panel{}, Cells: []Cell{}, Comparisons: []Comparison{},
		Plan: h,
	}
	r.Environment.Clocksources = nonNil(r.Environment.Clocksources)
	for _, s := range h.Servers {
		r.Environment.Servers = append(r.Environment.Servers, Server{
			Label: s.Label, Origin: s.Origin, Source: s.Source, Version: s.Version, FullVersion: s.FullString, Compiler: s.Compiler,
			Build: nonNilMap(s.Build), Assertions: s.Assertions, Settings: nonNilMap(s.Settings), Deviations: nonNil(s.Deviations),
		})
	}
	for _, p := range h.Panels {
		r.Panels = append(r.Panels, panel(h, p))
	}
	data, err := collect(rec)
	if err != nil {
		return nil, err
	}
	for i := range h.Cells {
		r.Cells = append(r.Cells, data.cell(h, &h.Cells[i]))
	}
	found := r.judge(data)
	r.Warnings = append(warnings(rec.Warnings), r.doubts(rec, found)...)
	r.Warnings = append(r.Warnings, r.statisticsDoubts(data, found)...)
	r.forbid()
	return r, nil
}

// forbid takes the verdicts back that a warning forbids: "same" asserts that
// there is no cost, which a doubt may make impossible where a cost that was
// found still stands. A comparison is met through its cell, its baseline or the
// twin in its reference. The figures stay as they are, and so do the verdicts of
// the others: that p was adjusted for a comparison which is blocked only makes
// it larger.
func (r *Report) forbid() {
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		for _, w := range r.Warnings {
			if w.meets(c) && forbids(w.Forbids, stats.Verdict(c.Verdict)) {
				c.Reason = ptr(fmt.Sprintf("not called %s because of the doubt %s", c.Verdict, w.Code))
				c.Verdict = string(stats.Unclear)
			}
		}
	}
}

// meets says whether a warning is about a comparison: about its cell, its
// baseline or the twin in its reference.
func (w *Warning) meets(c *Comparison) bool {
	return len(w.Cells) == 0 || slices.ContainsFunc(w.Cells, func(id string) bool {
		return id == c.Cell || id == c.Against || c.twin != "" && id == c.twin
	})
}

// forbids says whether a verdict must not stand beside a warning that blocks
// what it names.
func forbids(blocks string, v stats.Verdict) bool {
	switch blocks {
	case results.ForbidsSame:
		return v == stats.Same
	case results.ForbidsVerdict:
		return v == stats.Same || v == stats.Slower || v == stats.Faster
	}
	return false
}

// Widest is the largest half-width, in per cent, among the intervals of the
// overheads; found is false where one that could have an interval has none yet.
// Cells that failed and settings that can't act never will.
func (r *Report) Widest() (pct float64, found bool) {
	found = true
	for _, c := range r.Comparisons {
		switch {
		case c.Verdict == NotExercised, r.cell(c.Cell).Status == "failed", r.cell(c.Against).Status == "failed":
		case c.Lo == nil || c.Hi == nil:
			found = false
		default:
			pct = max(pct, (*c.Hi-*c.Lo)/2)
		}
	}
	return pct, found
}

// panel copies what is reported of a panel.
func panel(h *results.Header, p results.Panel) Panel {
	out := Panel{
		ID: p.ID, Workload: p.Workload, Mode: p.Mode, Protocol: p.Protocol, Clients: p.Clients, Threads: p.Threads,
		Schedule: p.Schedule, Pin: p.Pin, Engine: p.Engine, Head: p.Head, SliceNs: p.SliceNs, Rounds: p.Rounds, Generations: p.Generations,
		Anchors: []Anchor{}, Waits: p.Waits,
	}
	for _, a := range p.Anchors {
		out.Anchors = append(out.Anchors, Anchor{Server: a.Server, TPS: a.TPS, Seconds: a.Seconds})
	}
	if i := slices.IndexFunc(out.Anchors, func(a Anchor) bool { return a.Server == h.Servers[0].Label }); i >= 0 {
		a := out.Anchors[i]
		out.Anchor = &a
	}
	return out
}

// judgement is what the statistics say beside what the JSON form holds.
type judgement struct {
	trust       stats.Trust
	comparisons map[int]*stats.Comparison       // by index into Report.Comparisons
	differ      map[string]*stats.Heterogeneity // panels whose runs differ: their runs are the replicates
}

// judge compares what was planned to be compared.
func (r *Report) judge(d *data) judgement {
	j := judgement{comparisons: map[int]*stats.Comparison{}, differ: r.heterogeneity(d)}
	m := stats.Matrix{Margin: r.Margin}
	index := map[string]*Cell{}
	for i := range r.Cells {
		index[r.Cells[i].ID] = &r.Cells[i]
	}
	for _, p := range r.Plan.Controls {
		cell, against := index[p.Cell], index[p.Against]
		if cell.Status == "n/a" || against.Status == "n/a" {
			continue
		}
		c := &stats.ControlResult{}
		if cell.Status != "failed" && against.Status != "failed" {
			c = stats.Control(d.elapsed(p.Cell), d.elapsed(p.Against), j.options(p.ReplicateUnit, cell))
		}
		c.Panel = p.Panel
		m.Controls = append(m.Controls, c)
		r.Controls = append(r.Controls, Control{Panel: p.Panel, Cell: p.Cell, Against: p.Against})
	}
	for _, p := range r.Plan.Comparisons {
		cell, against := index[p.Cell], index[p.Against]
		if cell.Status == "n/a" || against.Status == "n/a" {
			continue
		}
		o := j.options(p.ReplicateUnit, cell)
		out := Comparison{Cell: p.Cell, Against: p.Against, Axis: p.Axis, ReplicateUnit: string(o.Unit), Percentiles: []Percentile{}, twin: p.Twin}
		if cell.Status == "failed" || against.Status == "failed" {
			out.Verdict, out.Reason = string(stats.Unclear), ptr("a cell failed")
			r.Comparisons = append(r.Comparisons, out)
			continue
		}
		c := stats.Compare(d.elapsed(p.Cell), d.elapsed(p.Against), r.twin(d.elapsed, p.Twin), o)
		c.Panel = cell.Panel
		out.Percentiles = d.percentiles(p.Cell, p.Against, r.usable(p.Twin), o)
		out.CPU = cpu(stats.Compare(d.cpu(p.Cell), d.cpu(p.Against), r.twin(d.cpu, p.Twin), o))
		switch {
		case p.Axis == "setting" && cell.notExercised != "":
			// Along another axis both cells carry the setting that can't act.
			out.Verdict, out.Reason = NotExercised, ptr(cell.notExercised)
		default:
			m.Comparisons = append(m.Comparisons, c)
		}
		j.comparisons[len(r.Comparisons)] = c
		r.Comparisons = append(r.Comparisons, out)
	}

	j.trust = m.Judge()
	for i, c := range m.Controls {
		out := &r.Controls[i]
		out.Replicates = c.Replicates
		if c.Estimate.DF > 0 {
			out.Pct, out.Lo, out.Hi = finite(c.Estimate.Pct), finite(c.Estimate.Lo), finite(c.Estimate.Hi)
			out.T, out.P, out.OK = finite(c.T), finite(c.Estimate.P), ptr(c.OK)
		}
	}
	if j.trust.Controls > 0 {
		r.Trusted, r.EqualWithin = ptr(j.trust.Trusted), finite(j.trust.EqualWithin)
	}
	for i, c := range j.comparisons {
		r.Comparisons[i].fill(c)
	}
	return j
}

// heterogeneity tests in every panel whether its runs differ and says
// where they do. What is drawn anew at each run meets all cells of a panel, so
// it is answered for the panel and not for each comparison. Panel.Heterogeneity
// is the test with the smallest p, adjusted for the number of tests.
func (r *Report) heterogeneity(d *data) map[string]*stats.Heterogeneity {
	tests := map[string][]*stats.Heterogeneity{}
	test := func(unit, id, against, twin string) {
		cell, base := r.cell(id), r.cell(against)
		if !cell.measured() || !base.measured() {
			return
		}
		if h := stats.BetweenRuns(d.elapsed(id), d.elapsed(against), r.twin(d.elapsed, twin), planned(unit, cell)); h != nil {
			tests[cell.Panel] = append(tests[cell.Panel], h)
		}
	}
	for _, p := range r.Plan.Controls {
		test(p.ReplicateUnit, p.Cell, p.Against, "")
	}
	for _, p := range r.Plan.Comparisons {
		test(p.ReplicateUnit, p.Cell, p.Against, p.Twin)
	}
	differ := map[string]*stats.Heterogeneity{}
	for i := range r.Panels {
		panel := &r.Panels[i]
		var p []float64
		for _, h := range tests[panel.ID] {
			p = append(p, h.P)
		}
		if p == nil {
			continue
		}
		h := *tests[panel.ID][slices.Index(p, slices.Min(p))]
		h.P = slices.Min(stats.Holm(p))
		panel.Heterogeneity = &Heterogeneity{F: h.F, P: h.P}
		if h.P < heterogeneityLevel {
			differ[panel.ID] = &h
		}
	}
	return differ
}

// heterogeneityLevel is the adjusted p below which the runs of a panel differ.
const heterogeneityLevel = 0.05

// measured says whether a cell has figures to be compared.
func (c *Cell) measured() bool { return c.Status != "n/a" && c.Status != "failed" }

// twin is the sample of a comparison's twin; nil where there is none to use.
func (r *Report) twin(sample func(cell string) stats.Sample, id string) stats.Sample {
	if id = r.usable(id); id == "" {
		return nil
	}
	return sample(id)
}

// usable is the twin itself, or "" where it has no figures.
func (r *Report) usable(twin string) string {
	if twin == "" || !r.cell(twin).measured() {
		return ""
	}
	return twin
}

// options of a comparison as they are in force.
func (j judgement) options(unit string, cell *Cell) stats.Options {
	o := planned(unit, cell)
	if j.differ[cell.Panel] != nil {
		o.Unit = stats.ByRun
	}
	return o
}

// planned are the options of a comparison as planned.
func planned(unit string, cell *Cell) stats.Options {
	return stats.Options{Unit: stats.Unit(unit), Block: cell.Schedule == "block"}
}

// fill takes the figures over from a judged comparison. A verdict that stands
// already (not-exercised) stays, and was not adjusted for the others.
func (out *Comparison) fill(c *stats.Comparison) {
	out.judged = c
	out.Replicates = c.Replicates
	if c.Unit != "" {
		out.ReplicateUnit = string(c.Unit)
	}
	out.Typical, out.Total = interval(c.Typical), interval(c.Total)
	if c.Marked && c.Burst != nil && isFinite(c.Burst.Pct, c.Burst.P) {
		out.Bursts = &Bursts{Pct: c.Burst.Pct, P: c.Burst.P}
	}
	if c.Point != nil {
		out.Pct = finite(*c.Point)
		out.Ns = finite(*c.Point / 100 * c.ReferenceNs)
	}
	if d := interval(c.Decides); d != nil {
		out.Pct, out.Lo, out.Hi, out.P = &d.Pct, &d.Lo, &d.Hi, finite(c.Decides.P)
		ns, lo, hi := c.Ns()
		out.Ns, out.NsLo, out.NsHi = finite(ns), finite(lo), finite(hi)
	}
	if out.Verdict == NotExercised {
		return
	}
	if out.P != nil {
		out.PAdjusted = finite(c.PAdjusted)
	}
	if c.WouldSee > 0 {
		out.WouldSee = finite(c.WouldSee)
	}
	if c.TimeFactor > 0 {
		out.TimeFactor = finite(c.TimeFactor)
	}
	out.Verdict = string(c.Verdict)
	if c.Reason != "" {
		out.Reason = ptr(c.Reason)
	}
}

// cpu takes over a comparison of CPU times; nil where they weren't measured.
func cpu(c *stats.Comparison) *CPU {
	if c.Point == nil || !isFinite(*c.Point, c.ReferenceNs) || c.ReferenceNs == 0 {
		return nil
	}
	out := &CPU{Pct: *c.Point, Ns: *c.Point / 100 * c.ReferenceNs}
	if d := interval(c.Decides); d != nil {
		ns, lo, hi := c.Ns()
		out.Pct, out.Lo, out.Hi = d.Pct, &d.Lo, &d.Hi
		out.Ns, out.NsLo, out.NsHi = ns, &lo, &hi
	}
	return out
}

func interval(e *stats.Estimate) *Interval {
	if e == nil || !isFinite(e.Pct, e.Lo, e.Hi) {
		return nil
	}
	return &Interval{Pct: e.Pct, Lo: e.Lo, Hi: e.Hi}
}

func ptr[T any](v T) *T { return &v }

// finite is nil where v is no number: the JSON form knows neither NaN nor Inf.
func finite(v float64) *float64 {
	if !isFinite(v) {
		return nil
	}
	return &v
}

func isFinite(values ...float64) bool {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func nonNilMap[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return m
}
