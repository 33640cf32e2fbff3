package matrix

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgtare/matrix/host"
	"pgtare/matrix/server"
)

func memoryOf(mb int64) *host.Memory {
	return &host.Memory{Available: mb << 20, Limit: "the machine", HugeFree: 100 << 20}
}

// What can't run at once runs in batches, each with the baseline and its
// control; what doesn't even then is refused with the figures.
func TestMemory(t *testing.T) {
	values := SettingAxis{Name: "track_activity_query_size", Values: []string{"1kB", "2kB", "3kB", "4kB"}}
	conf := func(more ...string) (list []server.Setting) {
		for _, text := range append(more, "shared_buffers=1GB") {
			c, err := ParseConf(text)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, c)
		}
		return list
	}
	plan := func(mb int64, schedule string, conf []server.Setting) (*Plan, error) {
		return NewPlan(Spec{Workload: builtinWorkload(t, "select1"), Controls: 1, Settings: []SettingAxis{values}, Memory: memoryOf(mb), Conf: conf, Schedule: schedule})
	}
	// Five instances of somewhat more than 1 GB: four values and the control.
	for _, c := range []struct {
		mb      int64
		batches int
	}{{6000, 1}, {5000, 2}, {4400, 2}, {3400, 3}} {
		p, err := plan(c.mb, "", conf())
		if err != nil {
			t.Fatalf("%d MB: %v", c.mb, err)
		}
		if p.batches() != c.batches || len(p.Panels) != c.batches {
			t.Errorf("%d MB: %d batches in %d panels, expected %d", c.mb, p.batches(), len(p.Panels), c.batches)
		}
		compared := map[string]bool{}
		for k, panel := range p.Panels {
			roles := map[string]int{}
			for _, n := range p.panelCells(k) {
				cell := p.Cells[n]
				if p.Instances[cell.instance].Batch != panel.Batch {
					t.Errorf("%d MB: cell %s of batch %d is on an instance of batch %d", c.mb, cell.ID, panel.Batch, p.Instances[cell.instance].Batch)
				}
				switch {
				case cell.Baseline:
					roles["baseline"]++
				case cell.ControlOf != "":
					roles["control"]++
				default:
					roles["own"]++
				}
			}
			if roles["baseline"] != 1 || roles["control"] != 1 || roles["own"] == 0 {
				t.Errorf("%d MB: panel %s holds %v", c.mb, panel.ID, roles)
			}
		}
		for _, x := range p.Comparisons {
			cell := p.Cells[slices.IndexFunc(p.Cells, func(y Cell) bool { return y.ID == x.Cell })]
			if compared[cell.Label] || !strings.HasPrefix(x.Against, cell.Panel) || !strings.HasPrefix(x.Twin, cell.Panel) {
				t.Errorf("%d MB: comparison %+v", c.mb, x)
			}
			compared[cell.Label] = true
		}
		if len(compared) != 3 {
			t.Errorf("%d MB: compared are %v", c.mb, compared)
		}
	}
	for _, c := range []struct {
		mb       int64
		schedule string
		conf     []server.Setting
		want     string
	}{
		{3000, "", conf(), "3 instances must run at once and take about 3.2 GB of memory"},
		{1000, "block", conf(), "an instance takes about 1.1 GB"},
		{6000, "", conf("huge_pages=on"), "of huge pages (huge_pages=on), of which 100 MB are free"},
	} {
		_, err := plan(c.mb, c.schedule, c.conf)
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d MB, schedule %q, %v: %v, expected %q", c.mb, c.schedule, c.conf, err, c.want)
		}
	}
	if _, err := plan(2000, "block", conf()); err != nil {
		t.Errorf("in blocks one instance of 1 GB is enough: %v", err)
	}
}

// The instances of one batch run while it is measured, and no others.
func TestBatches(t *testing.T) {
	t.Parallel()
	rec, steps := run(t, Spec{Workload: builtinWorkload(t, "insert"), Controls: 1, Runs: 1, Duration: 10 * time.Millisecond, Memory: memoryOf(3*170 + 60), Schedule: "slice",
		Settings: []SettingAxis{set("track_activity_query_size", "1kB", "2kB", "3kB")}})
	batches := map[string]string{} // instance -> panel
	for _, c := range rec.Header.Cells {
		if batches[c.Instance] != "" && batches[c.Instance] != c.Panel {
			t.Errorf("cell %s of panel %s is on instance %s of panel %s", c.ID, c.Panel, c.Instance, batches[c.Instance])
		}
		batches[c.Instance] = c.Panel
	}
	if len(rec.Header.Panels) < 2 {
		t.Fatalf("%d panels, expected several batches", len(rec.Header.Panels))
	}
	running, measured := map[string]bool{}, map[string]int{}
	at := slices.Index(steps, "header")
	for _, s := range steps[at:] {
		switch what, rest, _ := strings.Cut(s, " "); what {
		case "start":
			running[rest] = true
		case "stop":
			delete(running, rest)
		case "run":
			_, generation, _ := strings.Cut(rest, ": generation ")
			panel := generation[:1]
			measured[panel]++
			for instance, of := range batches {
				if running[instance] != (of == panel) {
					t.Errorf("at %q instance %s of panel %s runs: %v", s, instance, of, running[instance])
				}
			}
		}
	}
	if len(measured) != len(rec.Header.Panels) {
		t.Errorf("measured are %v of %d panels", measured, len(rec.Header.Panels))
	}
	// Each run starts the instances anew.
	starts := 0
	for _, s := range steps[at:] {
		if strings.HasPrefix(s, "start ") {
			starts++
		}
	}
	if starts != len(batches) {
		t.Errorf("%d starts in a run of %d instances", starts, len(batches))
	}
	for _, g := range rec.Generations {
		if len(g.Failures) > 0 || slices.Max(g.Slices.N) == 0 {
			t.Errorf("cell %s did nothing, or failed: %v", g.Cell, g.Failures)
		}
	}
	said := false
	for _, w := range rec.Warnings {
		said = said || w.Code == "batches"
	}
	if !said {
		t.Errorf("no word about batches in %v", rec.Warnings)
	}
}
