package matrix

import (
	"testing"

	"pgtare/matrix/server"
)

// Where versions differ in how a setting is set, all are set in the way that
// works on each.
func TestStrongestContext(t *testing.T) {
	facts := func(context string) map[string]server.Fact {
		return map[string]server.Fact{"x": {Name: "x", Context: context, Category: "Query Tuning"}}
	}
	k := known{facts: []map[string]server.Fact{facts("user"), facts("sighup"), facts("superuser")}}
	if f, found := k.fact("x"); !found || f.Context != "sighup" {
		t.Errorf("found %v: %+v", found, f)
	}
	spec, err := Spec{Workload: builtinWorkload(t, "select1"), Servers: serverSpecs(t, "13", "15", "18"), Settings: []SettingAxis{set("x", "1", "2")}, Controls: 1}.check()
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPlan(spec, k)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range p.Cells {
		if conf := p.Instances[c.instance].Conf; len(c.Settings) != 0 || len(conf) != 1 || conf[0].Name != "x" {
			t.Errorf("cell %s: sessions give %v, the configuration holds %v", c.ID, c.Settings, conf)
		}
	}
}
