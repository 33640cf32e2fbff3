package matrix

import (
	"strings"
	"testing"
)

// What a running server can't be given, or only with leave, is refused before it
// is touched.
func TestPlanAttached(t *testing.T) {
	for _, c := range []struct {
		name string
		spec Spec
		want string // in the refusal; "" for none
	}{
		{"sessions", Spec{Settings: []SettingAxis{set("jit", "off", "on")}}, ""},
		{"blocks of sessions", Spec{Settings: []SettingAxis{set("jit", "off", "on")}, Schedule: "block"}, ""},
		{"a configuration", Spec{Settings: []SettingAxis{set("synchronous_commit", "on", "off")}}, "--allow-alter-system"},
		{"allowed", Spec{Settings: []SettingAxis{set("synchronous_commit", "on", "off")}, AllowAlterSystem: true}, ""},
		{"allowed, by @instance", Spec{Settings: []SettingAxis{{Name: "jit", Values: []string{"off", "on"}, Instance: true}}, AllowAlterSystem: true}, ""},
		{"allowed, in slices", Spec{Settings: []SettingAxis{set("synchronous_commit", "on", "off")}, AllowAlterSystem: true, Schedule: "slice"}, "one configuration at a time"},
		{"two servers", Spec{Servers: serverSpecs(t, "18", "host=db1")}, "restarted at every run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Workload, c.spec.Controls = builtinWorkload(t, "insert"), 1
			if c.spec.Servers == nil {
				c.spec.Servers = serverSpecs(t, "host=db1 password=hunter2")
			}
			p, err := NewPlan(c.spec)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%v, expected %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range p.Cells {
				if configured := len(p.Instances[x.instance].Conf) > 0; configured && x.Schedule != "block" {
					t.Errorf("cell %s is configured and measured by %s", x.ID, x.Schedule)
				}
			}
		})
	}
}
