package matrix

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"pgtare/matrix/server"
	"pgtare/results"
)

// Plan is a matrix before it is measured: everything that can be said without
// touching a server.
type Plan struct {
	Spec        Spec // completed with its defaults
	Axes        []results.Axis
	Instances   []Instance
	Panels      []Panel
	Cells       []Cell // panel by panel
	Comparisons []results.PlannedComparison
	Controls    []results.PlannedControl
}

// Instance is one PostgreSQL that the plan runs on.
type Instance struct {
	ID      string
	Server  int  // index into Spec.Servers
	Control bool // holds only the twin of the first server's baseline
}

// Panel is a set of cells that may be compared.
type Panel struct {
	ID   string
	Mode Mode
}

// Cell is one combination of the axes' values.
type Cell struct {
	results.Cell
	Settings []server.Setting // in the order of --set
	variant  string           // label of its settings: the baseline's is ""
	instance int              // index into Plan.Instances
	panel    int              // index into Plan.Panels
}

// variant is one row of the settings' one-at-a-time table.
type variant struct {
	label    string
	settings []server.Setting
}

// plannedLabel names a server before it is found; [Run] puts the installation's
// label in its place.
func plannedLabel(s server.Spec) string {
	if s.Kind == server.Default {
		return "default"
	}
	return cmp.Or(s.Label, s.String())
}

// InstanceAxis says whether cells on different instances are compared, so that
// every run begins with a new start of all of them.
func (p *Plan) InstanceAxis() bool { return len(p.Spec.Servers) > 1 }

// NewPlan works out a matrix. It is pure.
func NewPlan(spec Spec) (*Plan, error) {
	spec, err := spec.check()
	if err != nil {
		return nil, err
	}
	p := &Plan{Spec: spec}
	p.addInstances()
	p.addAxes()
	for i, mode := range spec.Modes {
		p.Panels = append(p.Panels, Panel{ID: string(rune('a' + i)), Mode: mode})
		p.addCells(i)
	}
	return p, nil
}

// variants lists the settings' combinations: the baseline, one setting at a
// time, and all of them at their last values where two or more vary.
func (s Spec) variants() []variant {
	settings := func(pick func(axis int) string) (list []server.Setting) {
		for i, a := range s.Settings {
			v := pick(i)
			list = append(list, server.Setting{Name: a.Name, Value: v, Default: strings.EqualFold(v, Default)})
		}
		return list
	}
	first := func(axis int) string { return s.Settings[axis].Values[0] }

	list := []variant{{label: "", settings: settings(first)}}
	varying := 0
	for i, a := range s.Settings {
		if len(a.Values) > 1 {
			varying++
		}
		for _, v := range a.Values[1:] {
			list = append(list, variant{label: a.Name + "=" + v, settings: settings(func(axis int) string {
				if axis == i {
					return v
				}
				return first(axis)
			})})
		}
	}
	if varying > 1 {
		list = append(list, variant{label: "all", settings: settings(func(axis int) string {
			values := s.Settings[axis].Values
			return values[len(values)-1]
		})})
	}
	return list
}

// combinations is the cross product of the variables' values, the first
// values first.
func (s Spec) combinations() []map[string]string {
	list := []map[string]string{{}}
	for _, v := range s.Vars {
		var next []map[string]string
		for _, value := range v.Values {
			for _, c := range list {
				c = maps.Clone(c)
				c[v.Name] = value
				next = append(next, c)
			}
		}
		list = next
	}
	return list
}

func (p *Plan) addInstances() {
	for i := range p.Spec.Servers {
		p.Instances = append(p.Instances, Instance{ID: fmt.Sprintf("i%d", i+1), Server: i})
	}
	if p.InstanceAxis() && p.Spec.Controls > 0 {
		p.Instances = append(p.Instances, Instance{ID: fmt.Sprintf("i%d", len(p.Instances)+1), Server: 0, Control: true})
	}
}

func (p *Plan) addAxes() {
	var labels, modes, variants []string
	for _, s := range p.Spec.Servers {
		labels = append(labels, plannedLabel(s))
	}
	for _, m := range p.Spec.Modes {
		modes = append(modes, string(m))
	}
	for _, v := range p.Spec.variants() {
		variants = append(variants, v.label)
	}
	p.Axes = []results.Axis{{Name: "server", Values: labels}, {Name: "workload", Values: []string{p.Spec.Workload.Name()}},
		{Name: "mode", Values: modes}}
	for _, v := range p.Spec.Vars {
		if len(v.Values) > 1 {
			p.Axes = append(p.Axes, results.Axis{Name: v.Name, Values: v.Values})
		}
	}
	p.Axes = append(p.Axes, results.Axis{Name: "setting", Values: variants})
}

// addCells adds the cells of one panel, and what they are compared with.
func (p *Plan) addCells(panel int) {
	spec := p.Spec
	variants, combinations := spec.variants(), spec.combinations()
	// at finds a cell by its place in the cross product.
	type place struct{ server, vars, variant int }
	at := map[place]string{}
	add := func(c Cell) string {
		c.panel = panel
		c.Panel = p.Panels[panel].ID
		c.ID = fmt.Sprintf("%s%d", c.Panel, 1+len(p.panelCells(panel)))
		c.Server = plannedLabel(spec.Servers[p.Instances[c.instance].Server])
		c.Instance = p.Instances[c.instance].ID
		c.Isolation, c.Schedule, c.Status = "session", "slice", "ok"
		c.Axes = map[string]string{"server": c.Server, "mode": string(p.Panels[panel].Mode), "workload": spec.Workload.Name(), "setting": c.variant}
		c.Cell.Settings = map[string]string{}
		for _, s := range c.Settings {
			c.Cell.Settings[s.Name] = s.Value
		}
		for _, v := range spec.Vars {
			if len(v.Values) > 1 {
				c.Axes[v.Name] = c.Vars[v.Name]
			}
		}
		p.Cells = append(p.Cells, c)
		return c.ID
	}

	for s := range spec.Servers {
		for v, vars := range combinations {
			for k, variant := range variants {
				at[place{s, v, k}] = add(Cell{Cell: results.Cell{Label: variant.label, Vars: vars, Baseline: v == 0 && k == 0},
					Settings: variant.settings, variant: variant.label, instance: s})
			}
		}
	}

	// Controls: the baseline's twin on every instance that holds settings or
	// variables to compare, and an instance that is a twin as a whole.
	sessions := len(variants)*len(combinations) > 1 || spec.Controls > 1 || !p.InstanceAxis()
	twins := map[string]string{} // baseline -> its twin on the same instance
	var further []results.PlannedComparison
	for s := range spec.Servers {
		baseline := at[place{s, 0, 0}]
		for n := range spec.Controls {
			if !sessions {
				break
			}
			id := add(Cell{Cell: results.Cell{Label: "control", Vars: combinations[0], ControlOf: baseline}, Settings: variants[0].settings, instance: s})
			if n == 0 {
				twins[baseline] = id
				p.Controls = append(p.Controls, results.PlannedControl{Panel: p.Panels[panel].ID, Cell: id, Against: baseline, ReplicateUnit: "generation"})
				continue
			}
			further = append(further, results.PlannedComparison{Cell: id, Against: baseline, Twin: twins[baseline], Axis: "control", ReplicateUnit: "generation"})
		}
	}
	instanceTwin := ""
	if p.InstanceAxis() && spec.Controls > 0 {
		baseline := at[place{0, 0, 0}]
		instanceTwin = add(Cell{Cell: results.Cell{Label: "control instance", Vars: combinations[0], ControlOf: baseline, Isolation: "instance"},
			Settings: variants[0].settings, instance: len(spec.Servers)})
		p.Controls = append(p.Controls, results.PlannedControl{Panel: p.Panels[panel].ID, Cell: instanceTwin, Against: baseline, ReplicateUnit: "run"})
	}

	compare := func(cell, against place, axis string) {
		c := results.PlannedComparison{Cell: at[cell], Against: at[against], Axis: axis, ReplicateUnit: "generation"}
		c.Twin = twins[c.Against]
		if cell.server != against.server {
			c.ReplicateUnit, c.Twin = "run", ""
			if against == (place{}) {
				c.Twin = instanceTwin
			}
		}
		p.Comparisons = append(p.Comparisons, c)
	}
	for s := range spec.Servers {
		for v, vars := range combinations {
			for k := range variants {
				here := place{s, v, k}
				if k > 0 {
					compare(here, place{s, v, 0}, "setting")
				}
				for _, axis := range spec.Vars {
					if first := combinationAtFirst(combinations, vars, axis); first != v {
						compare(here, place{s, first, k}, axis.Name)
					}
				}
				if s > 0 {
					compare(here, place{0, v, k}, "server")
				}
			}
		}
	}
	p.Comparisons = append(p.Comparisons, further...)
}

// combinationAtFirst finds the combination that differs from vars only in that
// axis is at its first value.
func combinationAtFirst(combinations []map[string]string, vars map[string]string, axis VarAxis) int {
	want := maps.Clone(vars)
	want[axis.Name] = axis.Values[0]
	i := slices.IndexFunc(combinations, func(c map[string]string) bool { return maps.Equal(c, want) })
	if i < 0 {
		panic("matrix: a combination of variables has no counterpart at the axis's first value")
	}
	return i
}

// panelCells returns the indices of a panel's cells.
func (p *Plan) panelCells(panel int) (list []int) {
	for i, c := range p.Cells {
		if c.panel == panel {
			list = append(list, i)
		}
	}
	return list
}

// Sessions is the number of client sessions open on each instance while a
// panel is measured: the largest instance's, the others get idle ones.
func (p *Plan) Sessions(panel int) int {
	perInstance := map[int]int{}
	for _, i := range p.panelCells(panel) {
		perInstance[p.Cells[i].instance] += p.Spec.Clients
	}
	return slices.Max(slices.Collect(maps.Values(perInstance)))
}

// Expected is a guess of the time that the plan takes. Measured time is exact;
// what heads, warm-ups, connecting and starts add was found to be between a
// third and two thirds of it on a 2-core VM.
func (p *Plan) Expected() time.Duration {
	perRun := p.Spec.Duration
	if p.Spec.Transactions > 0 {
		perRun = time.Duration(p.Spec.Transactions) * 40 * time.Microsecond * time.Duration(p.Spec.Clients)
	}
	measured := time.Duration(len(p.Cells)*p.Spec.Runs) * perRun
	starts := 1
	if p.InstanceAxis() {
		starts += p.Spec.Runs
	}
	fixed := 2*time.Second + time.Duration(len(p.Panels)*len(p.Spec.Servers))*3*time.Second/2
	return fixed + measured*3/2 + time.Duration(starts*len(p.Instances))*500*time.Millisecond
}

// Print writes the plan as --dry-run shows it.
func (p *Plan) Print(w io.Writer) error {
	b := &strings.Builder{}
	s := p.Spec
	fmt.Fprintf(b, "%d cells in %d panels on %d instances, %d runs of %s per cell; about %v (a guess before the pilot)\n",
		len(p.Cells), len(p.Panels), len(p.Instances), s.Runs, s.perRun(), p.Expected().Round(time.Second))
	fmt.Fprintf(b, "workload %s, protocol %s, %d clients, %d threads, schedule slice, seed %d\n", s.Workload.Name(), s.Protocol, s.Clients, s.Threads, s.Seed)
	for _, inst := range p.Instances {
		role := ""
		if inst.Control {
			role = ", control: holds the twin of the baseline"
		}
		name := s.Servers[inst.Server].String()
		if name == "" {
			name = "the newest local PostgreSQL"
		}
		fmt.Fprintf(b, "instance %s: %s%s\n", inst.ID, name, role)
	}
	for i, panel := range p.Panels {
		fmt.Fprintf(b, "\npanel %s: %s, %s, %d sessions per instance\n", panel.ID, s.Workload.Name(), panel.Mode, p.Sessions(i))
		for _, k := range p.panelCells(i) {
			c := p.Cells[k]
			var parts []string
			for _, v := range s.Vars {
				parts = append(parts, v.Name+"="+c.Vars[v.Name])
			}
			for _, set := range c.Settings {
				parts = append(parts, set.Name+"="+set.Value)
			}
			role := ""
			switch {
			case c.Baseline && c.instance == 0:
				role = "baseline"
			case c.ControlOf != "":
				role = "control of " + c.ControlOf
			}
			fmt.Fprintf(b, "  %-4s on %s  %-17s %s\n", c.ID, c.Instance, role, strings.Join(parts, " "))
		}
	}
	fmt.Fprintf(b, "\ncomparisons (replicate):\n")
	for _, c := range p.Comparisons {
		with := c.Against
		if c.Twin != "" {
			with += " and its twin " + c.Twin
		}
		fmt.Fprintf(b, "  %-4s against %s, axis %s (%s)\n", c.Cell, with, c.Axis, c.ReplicateUnit)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Spec) perRun() string {
	if s.Transactions > 0 {
		return fmt.Sprintf("%d transactions per client", s.Transactions)
	}
	return s.Duration.String()
}
