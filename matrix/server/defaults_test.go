package server

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestChangedDefaults holds what is said about PostgreSQL's defaults and names
// against servers, and what is written to align servers too.
func TestChangedDefaults(t *testing.T) {
	was := regexp.MustCompile(`^(\S+) (?:before|in) (\d+), then (\S+)$`)
	seen := map[string]bool{}
	var all [][]DefaultValue
	for i, inst := range allVersions(t) {
		conn := connect(t, startNew(t, inst, fmt.Sprintf("defaults%d", i), nil).Config())
		defaults, err := Defaults(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, defaults)
		names, err := Names(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		testAliases(t, inst.Label, names)
		if len(defaults) < 250 || !slices.IsSortedFunc(defaults, func(a, b DefaultValue) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s: %d defaults", inst.Label, len(defaults))
		}
		for name, text := range changedDefaults {
			d, found := defaultOf(defaults, name)
			m := was.FindStringSubmatch(text)
			if !found || m == nil {
				continue
			}
			want := m[3]
			if inst.VersionNum/10000 < atoi(m[2]) || inst.VersionNum/10000 == atoi(m[2]) && !regexp.MustCompile("before").MatchString(text) {
				want = m[1]
			}
			if seen[name] = true; d.Value != want {
				t.Errorf("%s: the default of %s is %s, said is %q", inst.Label, name, d.Value, text)
			}
		}
	}
	for _, name := range []string{"checkpoint_completion_target", "vacuum_cost_page_miss", "password_encryption", "log_checkpoints", "hash_mem_multiplier", "data_checksums", "jit"} {
		if !seen[name] {
			t.Errorf("%s was not looked at", name)
		}
	}
	if DefaultChanged("JIT") == "" || DefaultChanged("work_mem") != "" {
		t.Error("what is said about jit and work_mem")
	}

	// 13 is in the midst: the first that has a setting decides.
	old, new := all[1], all[2]
	conf, initdb := Aligned([][]DefaultValue{old, new})
	for i, label := range []string{"13", "18"} {
		for _, want := range []Setting{set("checkpoint_completion_target", "0.5"), set("log_checkpoints", "off"), set("password_encryption", "md5")} {
			if !slices.Contains(conf[i], want) {
				t.Errorf("%s is not given %v in %v", label, want, conf[i])
			}
		}
		if !slices.Equal(initdb[i], []Setting{set("data_checksums", "off")}) {
			t.Errorf("%s: initdb with %v", label, initdb[i])
		}
	}
	values, only := Differing([][]DefaultValue{old, new})
	if !slices.Contains(values, "maintenance_io_concurrency") || slices.Contains(values, "work_mem") || slices.Contains(values, "wal_buffers") || !slices.Contains(only, "io_method") || !slices.Contains(only, "old_snapshot_threshold") {
		t.Errorf("different are %v, on one only %v", values, only)
	}
	conf, initdb = Aligned([][]DefaultValue{new, new})
	if len(conf[0])+len(conf[1])+len(initdb[0]) != 0 {
		t.Errorf("equal servers are given %v", conf)
	}
}
