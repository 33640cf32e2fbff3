package matrix

import (
	"fmt"
	"strings"
)

// describedSpec is a Spec as the record keeps it, so that it can be measured
// again: scripts with their text, servers without secrets.
type describedSpec struct {
	Builtin      string             `json:"builtin"` // "" for a script
	ScriptName   string             `json:"script_name"`
	ScriptText   string             `json:"script_text"`
	Clients      []int              `json:"clients"`
	Threads      int                `json:"threads"`
	Protocols    []string           `json:"protocols"`
	Modes        []Mode             `json:"modes"`
	Settings     []describedSetting `json:"settings"`
	Full         bool               `json:"full"`
	Vars         []describedAxis    `json:"vars"`
	Servers      []string           `json:"servers"`
	Runs         int                `json:"runs"`
	Seconds      float64            `json:"seconds"`
	Transactions int64              `json:"transactions"`
	Controls     int                `json:"controls"`
	SliceNs      int64              `json:"slice_ns"` // 0: by the pilot
	Rounds       int                `json:"rounds"`   // 0: by the pilot
	Pin          string             `json:"pin"`      // "": by the number of clients
	Engine       Engine             `json:"engine"`   // "": by the connection
	Seed         int64              `json:"seed"`
	Schedule     string             `json:"schedule"` // "": by the settings
	Env          []describedAxis    `json:"env"`      // without values where there is but one, which may be a secret
	Clocksources []string           `json:"clocksources"`
	Columns      []string           `json:"columns"`
	Conf         []string           `json:"conf"`     // NAME=VALUE, secret values starred
	Defaults     string             `json:"defaults"` // of several servers: shipped, aligned
	Until        float64            `json:"until"`
	MaxSeconds   float64            `json:"max_seconds"`
	BeforeRun    string             `json:"before_run"` // the hooks, "" for none
	AfterRun     string             `json:"after_run"`
}

type describedSetting struct {
	Name     string   `json:"name"`
	Values   []string `json:"values"`
	Instance bool     `json:"instance"`
	Cluster  bool     `json:"cluster"`
}

type describedAxis struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

func (s Spec) describe() describedSpec {
	d := describedSpec{
		Clients: s.Clients, Threads: s.Threads, Protocols: []string{}, Modes: s.Modes, Settings: []describedSetting{}, Full: s.Full, Vars: []describedAxis{},
		Runs: s.Runs, Seconds: s.Duration.Seconds(), Transactions: s.Transactions, Controls: s.Controls,
		SliceNs: int64(s.Slice), Rounds: s.Rounds, Pin: s.Pin.String(), Engine: s.Engine, Seed: s.Seed,
		Schedule: s.Schedule, Env: []describedAxis{}, Clocksources: append([]string{}, s.Clocksources...), Columns: append([]string{}, s.Columns...), Conf: []string{}, Defaults: s.Defaults, Until: s.Until, MaxSeconds: s.MaxTime.Seconds(),
		BeforeRun: s.Hooks.Before, AfterRun: s.Hooks.After,
	}
	for _, c := range s.Conf {
		d.Conf = append(d.Conf, c.String())
	}
	for _, protocol := range s.Protocols {
		d.Protocols = append(d.Protocols, string(protocol))
	}
	for _, e := range s.Env {
		a := describedAxis{e.Name, []string{}}
		if len(e.Values) > 1 {
			a.Values = e.Values
		}
		d.Env = append(d.Env, a)
	}
	if s.Workload.Builtin != nil {
		d.Builtin = s.Workload.Builtin.Name
	} else {
		d.ScriptName, d.ScriptText = s.Workload.Script.Name, s.Workload.Script.Text
	}
	for _, a := range s.Settings {
		d.Settings = append(d.Settings, describedSetting(a))
	}
	for _, a := range s.Vars {
		d.Vars = append(d.Vars, describedAxis{a.Name, a.Values})
	}
	for _, spec := range s.Servers {
		d.Servers = append(d.Servers, spec.String())
	}
	return d
}

// Title says in a line what the matrix weighs.
func (p *Plan) Title() string {
	var axes []string
	for _, a := range p.Spec.Settings {
		if len(a.Values) > 1 {
			axes = append(axes, a.Name)
		}
	}
	for _, v := range p.Spec.Vars {
		if len(v.Values) > 1 {
			axes = append(axes, ":"+v.Name)
		}
	}
	for _, e := range p.Spec.Env {
		if len(e.Values) > 1 {
			axes = append(axes, e.Name)
		}
	}
	if len(p.Spec.Clocksources) > 1 {
		axes = append(axes, "clocksource")
	}
	if len(p.Spec.Servers) > 1 {
		axes = append(axes, "server")
	}
	if len(axes) == 0 {
		axes = append(axes, "equal cells")
	}
	return fmt.Sprintf("%s: %s", p.Spec.Workload.title(), strings.Join(axes, ", "))
}

func (w Workload) title() string {
	if w.Builtin != nil {
		return w.Builtin.Title
	}
	return w.Script.Name
}

// name is how a cell is called in a message.
func (c *Cell) name() string {
	if c.Label == "" {
		return "baseline"
	}
	return c.Label
}
