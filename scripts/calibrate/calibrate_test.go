package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgtare/results"
	"pgtare/results/report"
)

// made describes a record with the truth known: cells of one panel whose
// transactions take base ns times a noise that all cells of a round share half
// of, plus extra ns.
type made struct {
	extra       []int64 // per cell; the last is the baseline's control
	settings    []string
	n           []string // values of the axis n instead of settings
	clients     int
	runs        int
	generations int // per run
	unit        string
	axis        string
	noise       float64
	seed        uint64
}

const (
	madeRounds = 20
	madeTx     = 60
	madeBase   = 30000
)

func (m made) record() *results.Record {
	rng := rand.New(rand.NewPCG(m.seed, 1))
	h := results.Header{
		Type: "header", Format: results.Format, ID: fmt.Sprintf("made-%d", m.seed), Pgtare: "test", Title: "made", Unit: "tps", Margin: 1,
		Started: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Runs: m.runs, RunSeconds: float64(m.generations) * madeRounds * madeTx * madeBase / 1e9,
		Servers:   []results.Server{{Label: "15"}},
		Instances: []results.Instance{{ID: "i1", Server: "15"}},
		Panels: []results.Panel{{ID: "a", Workload: "select1", Mode: "per-statement", Protocol: "simple", Clients: m.clients, Threads: 1, Schedule: "slice",
			SliceNs: madeTx * madeBase, Rounds: madeRounds, Generations: m.generations, TransactionNs: madeBase, Sessions: len(m.extra)}},
	}
	if m.n != nil {
		h.Axes = []results.Axis{{Name: "n", Values: m.n}}
	}
	last := len(m.extra) - 1
	for k := range m.extra {
		c := results.Cell{ID: fmt.Sprintf("a%d", k+1), Panel: "a", Server: "15", Instance: "i1", Isolation: "session", Schedule: "slice", Status: "ok",
			Axes: map[string]string{"server": "15", "mode": "per-statement", "workload": "select1", "setting": ""}, Settings: map[string]string{}}
		switch {
		case k == 0:
			c.Baseline = true
		case k == last:
			c.ControlOf, c.Label = "a1", "control"
		default:
			h.Comparisons = append(h.Comparisons, results.PlannedComparison{Cell: c.ID, Against: "a1", Twin: fmt.Sprintf("a%d", last+1), Axis: m.axis, ReplicateUnit: m.unit})
		}
		if k < len(m.settings) {
			c.Settings["session_preload_libraries"] = m.settings[k]
			c.Axes["setting"] = m.settings[k]
		}
		if m.n != nil {
			c.Axes["n"] = m.n[k%last]
		}
		h.Cells = append(h.Cells, c)
	}
	h.Controls = []results.PlannedControl{{Panel: "a", Cell: h.Cells[last].ID, Against: "a1", ReplicateUnit: m.unit}}

	rec := &results.Record{Header: h, End: &results.End{Type: "end", Status: "complete"}}
	for run := 1; run <= m.runs; run++ {
		for g := 1; g <= m.generations; g++ {
			shared := make([]float64, madeRounds)
			for r := range shared {
				shared[r] = math.Exp(m.noise * rng.NormFloat64())
			}
			for k, extra := range m.extra {
				s := results.Slices{}
				for r := range madeRounds {
					per := madeBase*shared[r]*math.Exp(m.noise*rng.NormFloat64()) + float64(extra)
					t := int64(per * madeTx)
					s.Round, s.Position, s.Predecessor = append(s.Round, int64(r)), append(s.Position, int64(k)), append(s.Predecessor, -1)
					s.StartUs, s.N, s.T = append(s.StartUs, int64(r*1000)), append(s.N, madeTx), append(s.T, t)
					s.HeadNs, s.All, s.ServerCPU = append(s.HeadNs, 1000), append(s.All, madeTx), append(s.ServerCPU, t/2)
					s.ServerWait, s.ClientCPU, s.ClientWait = append(s.ServerWait, -1), append(s.ClientCPU, t/3), append(s.ClientWait, -1)
					s.BeginNs, s.CommitNs = append(s.BeginNs, -1), append(s.CommitNs, -1)
				}
				rec.Generations = append(rec.Generations, results.Generation{Type: "generation", Panel: "a", Cell: h.Cells[k].ID, Run: run, Generation: g,
					Started: h.Started, Slices: s, Failures: map[string]int64{}, Histogram: results.EncodeHistogram(results.NewHistogram()), Faults: -1, Switches: -1, Moves: -1})
			}
		}
	}
	return rec
}

// write puts a record where study finds it.
func write(t *testing.T, path string, rec *results.Record) {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	lines := []any{rec.Header}
	for _, g := range rec.Generations {
		lines = append(lines, g)
	}
	for _, l := range append(lines, rec.End) {
		if err := e.Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func writeCounts(t *testing.T, path string, counts []counted) {
	t.Helper()
	data := make([]byte, 4096)
	for i, c := range counts {
		for k, v := range []uint64{c.ns, c.reads, c.interrupted, c.added, c.sends, c.lost, c.rest, c.whole, c.intervals} {
			binary.NativeEndian.PutUint64(data[128*i+8*k:], v)
		}
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCut(t *testing.T) {
	// A generation holds 20 x 60 x 30 us = 36 ms per cell.
	const generation = 0.036
	for _, c := range []struct {
		name     string
		clients  int
		unit     string
		schedule string
		seconds  float64
		want     at // the last one kept
	}{
		{"the first alone", 1, "generation", "slice", 0.01, at{1, 1}},
		{"just reached", 1, "generation", "slice", 2*generation - 1e-3, at{1, 2}},
		{"into the second run", 1, "generation", "slice", 4.5 * generation, at{2, 2}},
		{"all", 1, "generation", "slice", 100, at{4, 3}},
		{"eight clients share the time", 8, "generation", "slice", 4.5 * generation / 8, at{2, 2}},
		{"runs stay whole", 1, "run", "slice", 4.5 * generation, at{2, 3}},
		{"blocks, too", 1, "generation", "block", 4.5 * generation, at{2, 3}},
		{"a whole run is enough", 1, "run", "slice", 3*generation - 1e-3, at{1, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := made{extra: []int64{0, 0, 0}, clients: c.clients, runs: 4, generations: 3, unit: c.unit, axis: "control"}.record()
			rec.Header.Panels[0].Schedule = c.schedule
			rec.Machine = []results.Machine{{Panel: "a", Run: 1, Generation: 1}, {Panel: "a", Run: 4, Generation: 3}}
			got := cut(rec, c.seconds)
			var last at
			per := map[string]int{}
			for _, g := range got.Generations {
				if a := (at{g.Run, g.Generation}); a.compare(last) > 0 {
					last = a
				}
				per[g.Cell]++
			}
			if last != c.want {
				t.Errorf("the last generation kept is %v, want %v", last, c.want)
			}
			if want := (c.want.run-1)*3 + c.want.generation; per["a1"] != want || per["a3"] != want {
				t.Errorf("generations per cell %v, want %d each", per, want)
			}
			if got.Header.Runs != c.want.run {
				t.Errorf("%d runs are asked for, want %d", got.Header.Runs, c.want.run)
			}
			if want := map[bool]int{true: 2, false: 1}[c.want == at{4, 3}]; len(got.Machine) != want {
				t.Errorf("%d lines about the machine, want %d", len(got.Machine), want)
			}
			if len(rec.Generations) != 36 || rec.Header.Runs != 4 {
				t.Error("the record itself was changed")
			}
		})
	}
}

// A lost generation counts for nothing.
func TestCutLost(t *testing.T) {
	rec := made{extra: []int64{0, 0}, clients: 1, runs: 1, generations: 4, unit: "generation", axis: "control"}.record()
	for i := range rec.Generations {
		if rec.Generations[i].Generation == 1 {
			rec.Generations[i].Lost = "backend gone"
		}
	}
	got := cut(rec, 0.07)
	if g := got.Generations[len(got.Generations)-1]; g.Generation != 3 {
		t.Errorf("the last generation kept is %d, want 3: the first was lost", g.Generation)
	}
}

func TestByGeneration(t *testing.T) {
	rec := made{extra: []int64{0, 0, 0}, clients: 1, runs: 4, generations: 6, unit: "run", axis: "server", noise: 0.02, seed: 3}.record()
	for i := range rec.Generations { // every other start has luck, in one cell
		if g := &rec.Generations[i]; g.Run%2 == 1 && g.Cell == rec.Header.Comparisons[0].Cell {
			for k := range g.Slices.T {
				g.Slices.T[k] += g.Slices.T[k] / 10
			}
		}
	}
	for want, rec := range map[int]*results.Record{4: rec, 24: byGeneration(rec), 12: byGeneration(firstRuns(rec, 2))} {
		r, err := report.Build(rec)
		if err != nil {
			t.Fatal(err)
		}
		if r.Comparisons[0].Replicates != want {
			t.Errorf("%d replicates, want %d", r.Comparisons[0].Replicates, want)
		}
	}
	if rec.Header.Comparisons[0].ReplicateUnit != "run" {
		t.Error("the record itself was changed")
	}
}

func TestTypicalTruth(t *testing.T) {
	even := []float64{1000, 1000, 1000, 1000, 1000}
	stalled := []float64{1000, 1000, 1e9, 1000, 1000}
	for _, c := range []struct {
		name        string
		ns          float64
		generations [][]float64
		want        float64
	}{
		{"even", 100, [][]float64{even, even}, 10},
		{"a stall is cut off", 100, [][]float64{stalled}, 10},
		{"nothing added", 0, [][]float64{even, stalled}, 0},
		{"two levels", 100, [][]float64{{1000}, {500}}, 100 * (math.Sqrt(1.1*1.2) - 1)},
	} {
		if got := typicalTruth(c.ns, c.generations); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestTypicalShare(t *testing.T) {
	even := [][]float64{{1000, 1000}, {1000}}
	if got := typicalShare(0.1, 50, even); math.Abs(got-5) > 1e-6 {
		t.Errorf("a tenth of 50 %% of even slices: %v", got)
	}
	// 100 ns of two levels, and 1000: not ten times as many per cent.
	levels := [][]float64{{1000}, {500}}
	if got, want := typicalShare(0.1, typicalTruth(1000, levels), levels), typicalTruth(100, levels); math.Abs(got-want) > 1e-6 {
		t.Errorf("a tenth of two levels: %v, want %v", got, want)
	}
	if got := typicalShare(0.5, -3, even); math.Abs(got) > 1e-6 {
		t.Errorf("less than nothing: %v, want 0", got)
	}
	if got := typicalShare(0.5, 3, nil); !math.IsNaN(got) {
		t.Errorf("no slices: %v", got)
	}
}

func TestCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counts")
	writeCounts(t, path, []counted{{0, 4000, 0, 120000, 1000, 0, 20000000, 29970000, 999}, {500, 3990, 10, 2074800, 1000, 109740, 21000000, 33000000, 1000}})
	counts, err := readCounts(path)
	if err != nil {
		t.Fatal(err)
	}
	// 4 reads of 520 ns, of which 10 in 4000 were interrupted, against 4 of 30.
	if got := counts[500].perTransaction(); math.Abs(got-2080) > 1e-9 {
		t.Errorf("%v ns per transaction, want 2080", got)
	}
	if got := counts[0].perTransaction(); math.Abs(got-120) > 1e-9 {
		t.Errorf("size 0: %v ns per transaction, want 120", got)
	}
	if got := counts[500].restPerTransaction() - counts[0].restPerTransaction(); got != 1000 {
		t.Errorf("the rest took %v ns longer, want 1000", got)
	}
	if got := counts[500].wholePerTransaction() - counts[0].wholePerTransaction(); got != 3000 {
		t.Errorf("the whole took %v ns longer, want 3000", got)
	}
	if got := interruptions(counts); math.Abs(got-0.05) > 1e-9 {
		t.Errorf("interruptions %v, want 0.05", got)
	}
	writeCounts(t, path, []counted{{0, 4000, 0, 100000, 1000, 0, 1, 1, 1}, {0, 4000, 0, 120000, 1000, 0, 1, 1, 1}, {500, 1, 0, 1, 1, 0, 0, 1, 1}})
	if counts, err = readCounts(path); err != nil || counts[0].added != 120000 {
		t.Errorf("of two of size 0: %+v, %v", counts[0], err)
	}
	if !math.IsNaN((counted{ns: 5}).perTransaction()) {
		t.Error("nothing counted has a time per transaction")
	}
	writeCounts(t, path, []counted{{500, 1, 0, 1, 1, 0, 0, 1, 1}})
	if _, err := readCounts(path); err == nil || !strings.Contains(err.Error(), "size 0") {
		t.Errorf("a file without size 0: %v", err)
	}
}

func TestSlowSize(t *testing.T) {
	for text, want := range map[string]int64{"/a/b/slow500-1.so": 500, "/a/b/slow500.so": 500, "slow0.so": 0, "default": -1, "": -1, "slowclock.so": -1, "slow5": -1, "/slow1.so/x": -1} {
		n, ok := slowSize(text)
		if ok != (want >= 0) || ok && int64(n) != want {
			t.Errorf("%q: %d %v, want %d", text, n, ok, want)
		}
	}
}

// A cost that is in the slices, and counted, is covered; counted twice as
// large, it isn't.
func TestClockOutcomes(t *testing.T) {
	m := made{extra: []int64{0, 300, 9000, 0}, settings: []string{"/x/slow0.so", "/x/slow100.so", "/x/slow2000.so", "/x/slow0.so"},
		clients: 1, runs: 5, generations: 20, unit: "generation", axis: "setting", noise: 0.03, seed: 11}
	counts := map[uint64]counted{0: {0, 4000, 0, 120000, 1000, 0, 0, 30000000, 1000}, 100: {100, 4000, 0, 420000, 1000, 0, 0, 30300000, 1000},
		2000: {2000, 4000, 0, 9120000, 1000, 0, 0, 39000000, 1000}}
	for factor, want := range map[uint64]bool{1: true, 2: false} {
		scaled := map[uint64]counted{}
		for k, c := range counts {
			if k == 2000 {
				c.added = 120000 + factor*(c.added-120000)
			}
			scaled[k] = c
		}
		list, err := clockOutcomes(m.record(), scaled)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != 2 {
			t.Fatalf("%d outcomes, want 2", len(list))
		}
		o := list[1]
		for name, v := range map[string]*verdictOn{"deciding": o.estimate, "typical": o.typical, "total": o.total, "ns": o.ns} {
			if v == nil {
				t.Fatalf("%s: no interval", name)
			}
			if v.holds != want {
				t.Errorf("truth times %d: %s holds it: %v (%+v)", factor, name, v.holds, *v)
			}
		}
		if wantEffect := 30 * float64(factor); math.Abs(o.effect-wantEffect) > 0.3*float64(factor) {
			t.Errorf("effect %.2f %%, want about %g", o.effect, wantEffect)
		}
		if !o.found {
			t.Error("30 % were not found")
		}
		if factor == 1 {
			continue
		}
		// The whole doesn't depend on what the reads added.
		if list[1].whole == nil || !list[1].whole.holds {
			t.Errorf("the whole is 9 us, as it was measured: %+v", list[1].whole)
		}
		c := scaled[2000]
		c.whole = 48000000
		scaled[2000] = c
		if list, err = clockOutcomes(m.record(), scaled); err != nil {
			t.Fatal(err)
		}
		if list[1].whole == nil || list[1].whole.holds {
			t.Errorf("the whole is twice what was measured: %+v", list[1].whole)
		}
	}
}

func TestWorkOutcomes(t *testing.T) {
	m := made{extra: []int64{0, 3000, 30000, 0}, n: []string{"1000", "1100", "2000"}, clients: 1, runs: 5, generations: 20, unit: "generation", axis: "n", noise: 0.03, seed: 12}
	for extra, want := range map[int64]bool{3000: true, 6000: false} {
		m.extra[1] = extra
		list, err := workOutcomes(m.record())
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != 1 || list[0].size != "100 rows" {
			t.Fatalf("outcomes %+v, want one of 100 rows", list)
		}
		if o := list[0]; o.total.holds != want || o.ns.holds != want {
			t.Errorf("a step that costs %d: total %+v, ns %+v, want held: %v", extra, *o.total, *o.ns, want)
		}
	}
}

func TestAgainst(t *testing.T) {
	for _, c := range []struct {
		truth, uncertain, estimate, lo, hi float64
		want                               bool
	}{
		{1, 0, 1.5, 1, 2, true},
		{0.99, 0, 1.5, 1, 2, false},
		{2.01, 0, 1.5, 1, 2, false},
		{2.01, 0.3, 1.5, 1, 2, true},
		{1, 0, 1.2, 1.1, 9, false}, // lopsided: the near end counts
	} {
		if got := against(c.truth, c.uncertain, c.estimate, c.lo, c.hi); got.holds != c.want {
			t.Errorf("%+v: holds %v", c, got.holds)
		}
	}
}

func TestSummarize(t *testing.T) {
	equal := made{extra: []int64{0, 0, 0, 0, 0}, clients: 1, runs: 5, generations: 10, unit: "generation", axis: "control", noise: 0.03, seed: 6}
	unequal := equal
	unequal.extra = []int64{0, 0, 0, 3000, 0}
	for name, c := range map[string]struct {
		m            made
		alarms, holm float64
	}{"equal": {equal, 0, 0}, "one of three differs": {unequal, 100. / 3, 100}} {
		r, err := report.Build(c.m.record())
		if err != nil {
			t.Fatal(err)
		}
		got := summarize(r)
		if got.group != firstGroup || got.missing != 0 || len(got.typical) != 3 || len(got.total) != 3 || len(got.cpu) != 3 {
			t.Errorf("%s: %+v", name, got)
		}
		if math.Abs(got.alarms-c.alarms) > 1e-9 || got.holm != c.holm {
			t.Errorf("%s: %g %% alarms, %g after Holm, want %g and %g", name, got.alarms, got.holm, c.alarms, c.holm)
		}
		if math.Abs(got.seconds-50*0.036) > 0.1 {
			t.Errorf("%s: %g s per cell, want about 1.8", name, got.seconds)
		}
	}
	// Standard errors are over matrices.
	s := pool([]equalMatrix{{alarms: 0, holm: 100}, {alarms: 10}, {alarms: 20}})
	if s.alarms.mean != 10 || math.Abs(s.alarms.se-10/math.Sqrt(3)) > 1e-9 || s.matrices != 3 {
		t.Errorf("pooled: %+v", s)
	}
}

func TestBenchstat(t *testing.T) {
	for name, c := range map[string]struct {
		csv   string
		half  float64
		alarm bool
		fails bool
	}{
		"no difference": {",a,,b,,,\n,sec/op,CI,sec/op,CI,vs base,P\nSelect1,3.3e-05,15%,3.7e-05,19%,~,p=0.321 n=7\ngeomean,3e-05,,3e-05,,+12.12%,\n", 17, false, false},
		"difference":    {",a,,b,,,\n,sec/op,CI,sec/op,CI,vs base,P\nSelect1,3.3e-05,1%,3.7e-05,2%,+12.12%,p=0.001 n=7\n", 1.5, true, false},
		"too few":       {",a,,b,,,\n,sec/op,CI,sec/op,CI,vs base,P\nSelect1,3.3e-05,∞,3.7e-05,∞,~,p=1.000 n=3\n", math.NaN(), false, false},
		"empty":         {"", 0, false, true},
	} {
		path := filepath.Join(t.TempDir(), "x.csv")
		if err := os.WriteFile(path, []byte(c.csv), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := readBenchstat(path)
		if (err != nil) != c.fails {
			t.Fatalf("%s: %v", name, err)
		}
		if err == nil && (got.alarm != c.alarm || got.half != c.half && !(math.IsNaN(got.half) && math.IsNaN(c.half))) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestPairedRatio(t *testing.T) {
	a, b := prefix([]stretch{{"a", 110}, {"b", 100}, {"b", 100}, {"a", 121}, {"a", 500}, {"b", 1}}, 2)
	pct, half := pairedRatio(a, b)
	// Logs ln 1.1 and ln 1.21: mean 1.5 ln 1.1, s.e. half of ln 1.1, t of one degree.
	if want := 100 * (math.Pow(1.1, 1.5) - 1); math.Abs(pct-want) > 1e-9 {
		t.Errorf("ratio %v, want %v", pct, want)
	}
	if want := 100 * (math.Pow(1.1, 12.706204736/2) - 1); math.Abs(half-want) > 1e-5 {
		t.Errorf("half %v, want %v", half, want)
	}
}

// The whole: a directory with every kind of file, and the judgement at its end.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("about"), []byte("a machine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		equal := made{extra: []int64{0, 0, 0, 0}, clients: 1, runs: 10, generations: 3, unit: "generation", axis: "control", noise: 0.02, seed: uint64(20 + i)}
		write(t, path(fmt.Sprintf("a-%03d.jsonl", i+1)), equal.record())
		write(t, path(fmt.Sprintf("e-%03d.jsonl", i+1)), equal.record())
		instances := equal
		instances.unit, instances.axis, instances.runs = "run", "server", 20
		write(t, path(fmt.Sprintf("i-%03d.jsonl", i+1)), instances.record())
		clock := made{extra: []int64{0, 9000, 0}, settings: []string{"slow0.so", "slow2000.so", "slow0.so"}, clients: 1, runs: 10, generations: 6,
			unit: "generation", axis: "setting", noise: 0.02, seed: uint64(30 + i)}
		write(t, path(fmt.Sprintf("k-%03d.jsonl", i+1)), clock.record())
		writeCounts(t, path(fmt.Sprintf("k-%03d.counts", i+1)), []counted{{0, 4000, 0, 120000, 1000, 0, 0, 30000000, 1000}, {2000, 4000, 0, 9120000, 1000, 0, 0, 39000000, 1000}})
		work := made{extra: []int64{0, 3000, 30000, 0}, n: []string{"1000", "1100", "2000"}, clients: 1, runs: 10, generations: 6, unit: "generation", axis: "n", noise: 0.02, seed: uint64(40 + i)}
		write(t, path(fmt.Sprintf("w-%03d.jsonl", i+1)), work.record())
	}
	for k, variant := range []string{"slice", "block"} {
		// Wide apart: 3 % by slices and 20 % by blocks don't agree.
		m := made{extra: []int64{0, int64(900 + 5100*k), 0}, settings: []string{"off", "on", "off"}, clients: 1, runs: 10, generations: 6, unit: "generation", axis: "setting", noise: 0.02, seed: uint64(50 + k)}
		write(t, path("c-schedule-001-"+variant+".jsonl"), m.record())
	}
	for name, text := range map[string]string{
		"d-001.abba": "a 100\nb 101\nb 100\na 101\n", "d-001.serial": "a 100\na 101\nb 90\nb 91\n",
		"d-001.abba.2.csv":   ",sec/op,CI,sec/op,CI,vs base,P\nSelect1,3.3e-05,∞,3.7e-05,∞,~,p=1.000 n=2\n",
		"d-001.serial.2.csv": ",sec/op,CI,sec/op,CI,vs base,P\nSelect1,3.3e-05,1%,3.7e-05,3%,+11.00%,p=0.010 n=2\n",
	} {
		if err := os.WriteFile(path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := run(dir, false, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`(?m)^a machine$`,
		`(?m)^select1, 1 client, simple +2 +1\.1 `,
		`(?m)^10 runs as replicates +2 `, `(?m)^20 runs as replicates +2 `, `(?m)^the same data by generation +2 `,
		`(?m)^2000 ns a read +29\.\d+ .* 100$`, `(?m)^2000 ns a read +9000 +0 +0 +9000 +\d+$`, `(?m)^100 rows +10\.\d+ `,
		`(?m)^in turn \(ABBA\), paired +2 `, `(?m)^one after the other, benchstat +2 +2\.0 +100\.0`,
		`(?m)^false alarms of a comparison.*found .* met +2 matrices`,
		`(?m)^intervals that hold a known cost.*found 100\.0 \(0\.0\) +met +2 matrices`,
		`(?m)^half-width of typical, own instances, 20 runs.*found .* met`,
		`(?m)^half-width of typical, 8 clients.*not measured`,
		`(?m)^agree \(Cochran's Q\), p above: slices against blocks, SELECT 1 .*MISSED`,
		`(?m)^agree \(Cochran's Q\), p above: number of cells .*not measured`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no line like %s", want)
		}
	}
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
		t.Error("the tables hold NaN or Inf")
	}
	if t.Failed() {
		t.Log(out.String())
	}

	write(t, path("a-003.jsonl"), &results.Record{Header: made{extra: []int64{0, 0}, clients: 1, runs: 1, generations: 1}.record().Header, End: &results.End{Type: "end", Status: "interrupted"}})
	if err := run(dir, false, &out); err == nil || !strings.Contains(err.Error(), "a-003.jsonl") {
		t.Errorf("a record that was interrupted: %v", err)
	}
}
