package results_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"pgtare/results"
)

// A record is written line by line and read back as a whole.
func Example() {
	dir, err := os.MkdirTemp("", "pgtare-example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	w, err := results.Create(filepath.Join(dir, "record.jsonl"))
	if err != nil {
		panic(err)
	}
	header := &results.Header{
		ID: "20260706-152000-k3f9", Title: "nothing but a baseline", Runs: 1, RunSeconds: 1, Unit: "tps",
		Servers: []results.Server{{Label: "18"}},
		Panels:  []results.Panel{{ID: "p1", Workload: "select1", Mode: "per-statement", Protocol: "simple", Clients: 1, Threads: 1}},
		Cells:   []results.Cell{{ID: "c1", Panel: "p1", Server: "18", Baseline: true, Status: "ok"}},
	}
	latencies := results.NewHistogram()
	if err := latencies.RecordValues(30_000, 70); err != nil {
		panic(err)
	}
	generation := &results.Generation{Panel: "p1", Cell: "c1", Run: 1, Generation: 1, Histogram: results.EncodeHistogram(latencies)}
	if err := w.WriteHeader(header); err != nil {
		panic(err)
	}
	if err := w.WriteGeneration(generation); err != nil {
		panic(err)
	}
	if err := w.WriteEnd(results.End{Ended: time.Now(), Status: "complete"}); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}

	rec, err := results.ReadFile(w.Path())
	if err != nil {
		panic(err)
	}
	h, err := results.DecodeHistogram(rec.Generations[0].Histogram)
	if err != nil {
		panic(err)
	}
	fmt.Println(rec.Header.Title, "-", rec.End.Status, "-", h.TotalCount(), "transactions, median about", h.ValueAtQuantile(50)/1000, "us")
	// Output: nothing but a baseline - complete - 70 transactions, median about 30 us
}
