package results

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// made is a small record that uses every key.
func made() *Record {
	at := time.Date(2026, 7, 6, 15, 20, 0, 0, time.UTC)
	cell := func(id, label string) Cell {
		return Cell{ID: id, Panel: "p1", Server: "15.18", Instance: "i1", Label: label, Axes: map[string]string{"server": "15.18", "mode": "per-statement", "setting": label},
			Settings: map[string]string{"track_activities": "off"}, Vars: map[string]string{}, ReadBack: map[string]string{"track_activities": "off"},
			Isolation: "session", Schedule: "slice", Status: "ok"}
	}
	base, on, control := cell("c1", ""), cell("c2", "track_activities=on"), cell("c3", "control")
	base.Baseline, control.ControlOf = true, "c1"
	on.Settings = map[string]string{"track_activities": "on"}
	na := cell("c4", "nonesuch=on")
	na.Status, na.Reason, na.Instance = "n/a", `unrecognized configuration parameter "nonesuch"`, ""
	early := Warning{Code: "isolation-assumed", Cells: []string{"c2"}, Text: "not in the table of settings", Remedy: "say @session"}
	rec := &Record{
		Header: Header{
			Type: "header", Format: Format, ID: "20260706-152000-k3f9", Pgtare: "0.1.0", Title: "one setting on SELECT 1", Started: at, Seed: 42, Args: []string{"pgtare", "run"},
			Spec: []byte(`{"sets":["track_activities=off,on"]}`), Runs: 2, RunSeconds: 1, Unit: "tps", Margin: 1, Until: 0.5, MaxSeconds: 600,
			Environment: Environment{OS: "Debian 12", CPUs: 2, Clocksource: "tsc", Clocksources: []string{"tsc", "hpet"}, ClockReadNs: 24.5},
			Axes:        []Axis{{Name: "setting", Values: []string{"", "track_activities=on"}}},
			Servers:     []Server{{Label: "15.18", Origin: "debian", Version: "15.18", VersionNum: 150018, Compiler: "gcc 12.2.0", Build: map[string]string{"CFLAGS": "-O2"}}},
			Instances:   []Instance{{ID: "i1", Server: "15.18"}},
			Panels: []Panel{{ID: "p1", Workload: "select1", Mode: "per-statement", Protocol: "simple", Clients: 1, Threads: 1, Script: "SELECT 1;", Schedule: "slice", Pin: "core:0",
				Head: 4, SliceNs: 2_100_000, Rounds: 3, Generations: 1, Warmup: 20, TransactionNs: 30_000, Sessions: 3, Waits: map[string]int64{"": 90, "Client": 8, "LWLock": 2}, Anchors: []Anchor{{Server: "15.18", Transactions: 33_000, Seconds: 1, TPS: 33_000}}}},
			Cells:       []Cell{base, on, control, na},
			Comparisons: []PlannedComparison{{Cell: "c2", Against: "c1", Twin: "c3", Axis: "setting", ReplicateUnit: "generation"}},
			Controls:    []PlannedControl{{Panel: "p1", Cell: "c3", Against: "c1", ReplicateUnit: "generation"}},
			Warnings:    []Warning{early},
		},
		Warnings: []Warning{early, {Type: "warning", Code: "log-line", Cells: nil, Text: "a line appeared in the log", Forbids: ForbidsSame}},
		End:      &End{Type: "end", Ended: at.Add(time.Minute), Status: "complete"},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for run := 1; run <= 2; run++ {
		for _, id := range []string{"c1", "c2", "c3"} {
			g := Generation{Type: "generation", Panel: "p1", Cell: id, Run: run, Generation: 1, Started: at, MeanNs: 30_000.5, P50Ns: 30_000, P95Ns: 31_000, P99Ns: 32_000, P999Ns: 33_000, MaxNs: 34_000,
				Failures: map[string]int64{"57014": 2}, ConnectNs: 1_000_000, WarmupNs: 2_000_000, WarmupTx: 20, Faults: -1, Switches: 3, Moves: 1}
			if id == "c2" {
				g.Background = &Background{Transactions: 220, CPUNs: 5_000_000, WALBytes: 1_000_000, PagesRead: 7, PagesWritten: 120, Checkpoints: 1, Vacuums: -1}
			}
			h := NewHistogram()
			for round := range int64(3) {
				s := &g.Slices
				n := 60 + rng.Int64N(10)
				for _, col := range []struct {
					to *[]int64
					v  int64
				}{
					{&s.Round, round}, {&s.Position, rng.Int64N(3)}, {&s.Predecessor, rng.Int64N(4) - 1}, {&s.StartUs, round * 7000}, {&s.N, n}, {&s.T, n * 30_000},
					{&s.HeadNs, 250_000}, {&s.ElapsedNs, n*30_000 + 260_000}, {&s.All, n + 4}, {&s.ServerCPU, n * 16_000}, {&s.ServerWait, 0}, {&s.ClientCPU, n * 9_000}, {&s.ClientWait, -1}, {&s.BeginNs, -1}, {&s.CommitNs, -1},
				} {
					*col.to = append(*col.to, col.v)
				}
				for range n {
					if err := h.RecordValue(28_000 + rng.Int64N(6_000)); err != nil {
						panic(err)
					}
				}
			}
			g.Histogram = EncodeHistogram(h)
			rec.Generations = append(rec.Generations, g)
		}
		m := Machine{Type: "machine", Panel: "p1", Run: run, Generation: 1, Started: at, ElapsedNs: 300_000_000, CPUs: 2, BusyNs: 410_000_000, StealNs: 10_000_000, OwnNs: 390_000_000,
			ThrottledNs: 0, MinKHz: -1, MaxKHz: -1, Clocksource: "tsc"}
		if run == 2 {
			m.Cell, m.MinKHz, m.MaxKHz = "c2", 2_400_000, 3_100_000
		}
		rec.Machine = append(rec.Machine, m)
	}
	return rec
}

// write takes a record through a Writer into a new file.
func write(t testing.TB, rec *Record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "record.jsonl")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(w.WriteHeader(&rec.Header))
	for i := range rec.Generations {
		check(w.WriteGeneration(&rec.Generations[i]))
	}
	for _, m := range rec.Machine {
		check(w.WriteMachine(m))
	}
	for _, warning := range rec.Warnings[len(rec.Header.Warnings):] {
		check(w.WriteWarning(warning))
	}
	if rec.End != nil {
		check(w.WriteEnd(*rec.End))
	}
	return path
}

// contents of a file.
func contents(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
