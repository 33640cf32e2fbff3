package report_test

import (
	"fmt"
	"strings"

	"pgtare/results"
	"pgtare/results/report"
)

// A record goes in, a table comes out. This one holds a single cell, so there
// is nothing to compare.
func Example() {
	rec, err := results.Read(strings.NewReader(`{"type":"header","format":1,"id":"20260706-152000-k3f9","pgtare":"0.1.0","title":"one cell","started":"2026-07-06T15:20:00Z","runs":1,"run_seconds":0.006,"unit":"tps","servers":[{"label":"18.1","compiler":"gcc 14.2.0"}],"panels":[{"id":"a","workload":"select1","script":"SELECT 1;","mode":"per-statement","protocol":"simple","clients":1,"threads":1,"schedule":"slice","pin":"none","head":4,"slice_ns":2000000,"rounds":3,"generations":1}],"cells":[{"id":"a1","panel":"a","server":"18.1","baseline":true,"status":"ok"}]}
{"type":"generation","panel":"a","cell":"a1","run":1,"generation":1,"slices":{"round":[0,1,2],"position":[0,0,0],"predecessor":[-1,0,0],"start_us":[0,2400,4800],"n":[67,66,64],"t":[2010000,2010000,2008000],"head_ns":[-1,-1,-1],"all":[71,70,68],"server_cpu":[-1,-1,-1],"server_wait":[-1,-1,-1],"client_cpu":[-1,-1,-1],"client_wait":[-1,-1,-1],"begin":[-1,-1,-1],"commit":[-1,-1,-1]}}
{"type":"end","ended":"2026-07-06T15:20:01Z","status":"complete"}
`))
	if err != nil {
		panic(err)
	}
	r, err := report.Build(rec)
	if err != nil {
		panic(err)
	}
	var text strings.Builder
	if err := r.Text(&text); err != nil {
		panic(err)
	}
	fmt.Print(text.String())
	// Output:
	// pgtare 0.1.0: one cell
	//
	// server     18.1 (gcc 14.2.0)
	// load       1 client in 1 thread, simple protocol
	// placement  none (where the kernel likes)
	// measured   1 run of 6 ms per cell; a run is 1 generation of 3 rounds, slices
	//            of 2 ms after a head of 4 transactions
	// deviations none
	// baseline   the servers' settings as they are
	// record     20260706-152000-k3f9, seed 0, 2026-07-06 15:20 UTC
	//
	//                            tps
	// SELECT 1, per-statement  32680
	//
	// Runs (tps), and latency (us)
	//                            min    max
	// SELECT 1, per-statement  32680  32680
	//
	// tps: median of the runs, computed from slices.
}
