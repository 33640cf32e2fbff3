package matrix

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgtare/results"
)

// The defaults of servers are theirs, or the first one's; the record says which,
// and what differs.
func TestDefaults(t *testing.T) {
	t.Parallel()
	for _, asked := range []string{Shipped, Aligned} {
		rec, _ := run(t, Spec{Workload: builtinWorkload(t, "select1"), Servers: fetched(t), Runs: 1, Duration: 10 * time.Millisecond, Defaults: asked,
			Settings: []SettingAxis{set("jit", "off")}})
		d := rec.Header.Defaults
		if d == nil || d.Asked != asked {
			t.Fatalf("defaults: %+v", d)
		}
		old, new := rec.Header.Servers[0].Label, rec.Header.Servers[1].Label
		find := func(list []results.ServerValues, name string) map[string]string {
			i := slices.IndexFunc(list, func(v results.ServerValues) bool { return v.Name == name })
			if i < 0 {
				return nil
			}
			return list[i].Values
		}
		place := map[string][]results.ServerValues{Shipped: d.Differ, Aligned: d.Aligned}[asked]
		for name, want := range map[string][2]string{"checkpoint_completion_target": {"0.5", "0.9"}, "data_checksums": {"off", "on"}, "maintenance_io_concurrency": {"10", "16"}, "log_autovacuum_min_duration": {"-1", "10min"}} {
			if got := find(place, name); got[old] != want[0] || got[new] != want[1] {
				t.Errorf("%s: %s is %v, expected %v", asked, name, got, want)
			}
			if asked == Aligned && find(d.Differ, name) != nil {
				t.Errorf("aligned, %s still differs: %v", name, find(d.Differ, name))
			}
		}
		if len(find(d.Only, "io_method")) != 1 || find(d.Differ, "server_version") != nil || find(d.Differ, "jit") != nil {
			t.Errorf("%s: differ %v, only on some %v", asked, d.Differ, d.Only)
		}
		if asked == Shipped && len(d.Aligned) != 0 {
			t.Errorf("shipped, aligned are %v", d.Aligned)
		}
		for _, s := range rec.Header.Servers {
			line := strings.Join(s.Deviations, " ")
			if got := strings.Contains(line, "checkpoint_completion_target=0.5"); got != (asked == Aligned) {
				t.Errorf("%s: deviations of %s are %s", asked, s.Label, line)
			}
			if got := strings.Contains(line, "--no-data-checksums"); got != (asked == Aligned && s.Label == new) {
				t.Errorf("%s: deviations of %s are %s", asked, s.Label, line)
			}
		}
	}
}
