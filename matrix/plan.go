package matrix

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgtare/matrix/server"
	"pgtare/results"
	"pgtare/workload"
)

// Plan is a matrix before it is measured. [NewPlan] makes it without touching
// a server; [Run] makes it once more when the servers have said what kind of
// settings these are.
type Plan struct {
	Spec        Spec // completed with its defaults
	Axes        []results.Axis
	Instances   []Instance
	Panels      []Panel
	Cells       []Cell // panel by panel
	Comparisons []results.PlannedComparison
	Controls    []results.PlannedControl

	together int64 // bytes that all instances of the slices would take at once, as far as that was asked
	asked    Spec  // with its defaults, but those that depend on the plan
	known    known
}

// Instance is one PostgreSQL that the plan runs on.
type Instance struct {
	ID      string
	Server  int              // index into Spec.Servers
	Control bool             // holds only a twin of the first server's baseline
	Copy    int              // of several such
	Env     []string         // in its environment: NAME=VALUE
	Conf    []server.Setting // in its configuration, besides what all of its server have
	Init    []server.Setting // what its cluster is made with, likewise
	// Batch: where there is no room for all instances at once, those of one
	// batch run at a time.
	Batch int
	// Blocks: it runs only during the blocks of its own cells, each of which
	// begins with a new start of it.
	Blocks bool
}

// Panel is a set of cells that may be compared.
type Panel struct {
	ID       string
	Mode     Mode
	Protocol workload.Protocol
	Clients  int
	Threads  int
	Schedule string // slice or block
	Batch    int    // of its instances
}

// Cell is one combination of the axes' values.
type Cell struct {
	results.Cell
	Settings []server.Setting // that its sessions give, in the order of --set
	Clock    string           // the kernel's clock source while it runs; "": whatever it is
	variant  string           // label of its settings: the baseline's is ""
	instance int              // index into Plan.Instances
	panel    int              // index into Plan.Panels
}

// variant is one row of the settings' one-at-a-time table.
type variant struct {
	label    string
	settings []server.Setting // in the order of --set
}

// plannedLabel names a server before it is found; [Run] puts the installation's
// label in its place.
func plannedLabel(s server.Spec) string {
	if s.Kind == server.Default {
		return "default"
	}
	return cmp.Or(s.Name(), s.String())
}

// InstanceAxis says whether cells on different instances are compared in
// slices, so that every run begins with a new start of all of these.
func (p *Plan) InstanceAxis() bool {
	n := 0
	for _, in := range p.Instances {
		if !in.Blocks {
			n++
		}
	}
	return n > 1
}

// byRuns says whether any comparison has the run as its replicate.
func (p *Plan) byRuns() bool {
	return slices.ContainsFunc(p.Comparisons, func(c results.PlannedComparison) bool { return c.ReplicateUnit == "run" })
}

// NewPlan works out a matrix. It is pure.
func NewPlan(spec Spec) (*Plan, error) {
	spec, err := spec.check()
	if err != nil {
		return nil, err
	}
	return newPlan(spec, known{})
}

// newPlan works out a matrix from a complete spec and what is known of its
// settings.
func newPlan(spec Spec, k known) (*Plan, error) {
	p := &Plan{Spec: spec, asked: spec, known: k}
	variants := spec.variants()
	var sliced, blocks []int // rows by schedule, the baseline first in both
	for i, v := range variants {
		how, err := p.runningOf(v, variants[0])
		switch {
		case err != nil:
			return nil, err
		case i == 0:
			sliced, blocks = append(sliced, 0), append(blocks, 0)
		case how.schedule == server.BlockSchedule:
			blocks = append(blocks, i)
		default:
			sliced = append(sliced, i)
		}
	}
	if p.Spec.Schedule == server.BlockSchedule {
		sliced = nil // whatever varies, and if it is the variables or nothing
	} else if len(blocks) > 1 && len(sliced) == 1 && len(spec.places()) == 1 && len(spec.combinations()) == 1 {
		sliced = nil // nothing is left to compare in slices
	}
	p.addAxes()
	for _, mode := range spec.Modes {
		parts := [][]int(nil)
		if sliced != nil { // alike for all panels, which have their instances in common
			parts = p.batchRows(Panel{Mode: mode, Protocol: spec.Protocols[0], Clients: slices.Max(spec.Clients), Threads: spec.Threads, Schedule: server.SliceSchedule}, variants, sliced)
		}
		for _, protocol := range spec.Protocols {
			for _, clients := range spec.Clients {
				panel := Panel{Mode: mode, Protocol: protocol, Clients: clients, Threads: min(spec.Threads, clients), Schedule: server.SliceSchedule}
				for batch, rows := range parts {
					panel.Batch = batch
					p.addPanel(panel, variants, rows)
				}
				if len(blocks) > 1 || sliced == nil {
					panel.Schedule, panel.Batch = server.BlockSchedule, 0
					p.addPanel(panel, variants, blocks)
				}
			}
		}
	}
	if p.Spec.Runs == 0 {
		p.Spec.Runs = 5
		if p.byRuns() {
			p.Spec.Runs = 10
		}
	}
	if err := p.checkInstances(); err != nil {
		return nil, err
	}
	return p, p.checkMemory()
}

// checkInstances refuses what only servers that pgtare starts can do, and what
// it may do on somebody else's only when it is allowed to.
func (p *Plan) checkInstances() error {
	if !p.Spec.attached() {
		return nil
	}
	spec := p.Spec.Servers[0]
	var configured []server.Setting
	together := 0 // instances that are to be there at a time
	for _, in := range p.Instances {
		if len(in.Init) > 0 {
			return usagef("--initdb %s: the running server %s has its cluster already; name its installation instead (--server label=DIRECTORY), of which pgtare makes one", in.Init[0], spec)
		}
		configured = append(configured, in.Conf...)
		if !in.Blocks {
			together++
		}
	}
	const managed = "name its installation instead (--server label=DIRECTORY), of which pgtare starts an instance with it"
	for _, s := range configured {
		f, _ := p.known.fact(s.Name)
		switch {
		case f.Context == "postmaster":
			return usagef("--set %s: it is read only when a server starts, and pgtare does not restart a running one (--server %s); %s", s, spec, managed)
		case !p.Spec.AllowAlterSystem:
			return usagef("--set %s: for this matrix it must be set in the configuration of the running server %s; --allow-alter-system lets pgtare do that for the time (ALTER SYSTEM and a reload, put back at the end), or %s", s, spec, managed)
		}
	}
	if together > 1 {
		return usagef("--server %s: a running server has one configuration at a time, so cells with different ones can't be measured in slices; leave out --schedule slice", spec)
	}
	return nil
}

// variants lists the settings' combinations, the baseline first: one setting
// at a time, and all of them at their last values where two or more vary; or,
// with Full, every combination.
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
	if s.Full {
		return append(list, s.product(settings)...)
	}
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

// product is every combination of the settings' values but the first values,
// the last setting's changing fastest. A combination is labelled by what it
// differs in.
func (s Spec) product(settings func(pick func(axis int) string) []server.Setting) (list []variant) {
	at := make([]int, len(s.Settings))
	for {
		axis := len(at) - 1
		for ; axis >= 0; axis-- {
			if at[axis]++; at[axis] < len(s.Settings[axis].Values) {
				break
			}
			at[axis] = 0
		}
		if axis < 0 {
			return list
		}
		var label []string
		for i, a := range s.Settings {
			if at[i] > 0 {
				label = append(label, a.Name+"="+a.Values[at[i]])
			}
		}
		list = append(list, variant{label: strings.Join(label, ", "), settings: settings(func(axis int) string { return s.Settings[axis].Values[at[axis]] })})
	}
}

// place is where cells run: a server in an environment. Each has instances of
// its own.
type place struct {
	server int
	env    []string // a value for each of Spec.Env
}

// places is the cross product of the servers and the environment's values.
func (s Spec) places() (list []place) {
	for i := range s.Servers {
		here := []place{{server: i}}
		for _, e := range s.Env {
			var next []place
			for _, value := range e.Values {
				for _, p := range here {
					next = append(next, place{i, append(slices.Clone(p.env), value)})
				}
			}
			here = next
		}
		list = append(list, here...)
	}
	return list
}

// environment is what the servers of a place are given, as NAME=VALUE.
func (s Spec) environment(p place) (env []string) {
	for i, e := range s.Env {
		if p.env[i] != Unset {
			env = append(env, e.Name+"="+p.env[i])
		}
	}
	return env
}

// combination is what cells differ in that can share an instance, beside the
// settings.
type combination struct {
	vars  map[string]string
	clock string
}

func (c combination) equal(o combination) bool {
	return c.clock == o.clock && maps.Equal(c.vars, o.vars)
}

// combinations is the cross product of the variables' values and the clock
// sources, the first values first.
func (s Spec) combinations() []combination {
	list := []combination{{vars: map[string]string{}}}
	for _, v := range s.Vars {
		var next []combination
		for _, value := range v.Values {
			for _, c := range list {
				c.vars = maps.Clone(c.vars)
				c.vars[v.Name] = value
				next = append(next, c)
			}
		}
		list = next
	}
	if len(s.Clocksources) == 0 {
		return list
	}
	var next []combination
	for _, clock := range s.Clocksources {
		for _, c := range list {
			next = append(next, combination{c.vars, clock})
		}
	}
	return next
}

func (p *Plan) addAxes() { p.Axes = p.Spec.axes() }

// axes are those of the record: the usual four, and others that have several
// values.
func (s Spec) axes() []results.Axis {
	var labels, modes, variants []string
	for _, spec := range s.Servers {
		labels = append(labels, plannedLabel(spec))
	}
	for _, m := range s.Modes {
		modes = append(modes, string(m))
	}
	for _, v := range s.variants() {
		variants = append(variants, v.label)
	}
	axes := []results.Axis{{Name: "server", Values: labels}, {Name: "workload", Values: []string{s.Workload.Name()}},
		{Name: "mode", Values: modes}}
	add := func(name string, values []string) {
		if len(values) > 1 {
			axes = append(axes, results.Axis{Name: name, Values: values})
		}
	}
	var protocols, clients []string
	for _, protocol := range s.Protocols {
		protocols = append(protocols, string(protocol))
	}
	for _, n := range s.Clients {
		clients = append(clients, strconv.Itoa(n))
	}
	add("protocol", protocols)
	add("clients", clients)
	for _, e := range s.Env {
		add(e.axis(), e.Values)
	}
	for _, v := range s.Vars {
		add(v.Name, v.Values)
	}
	add("clocksource", s.Clocksources)
	return append(axes, results.Axis{Name: "setting", Values: variants})
}

// instanceFor is the index of an instance, which is made if the plan has none
// like it.
func (p *Plan) instanceFor(want Instance) int {
	i := slices.IndexFunc(p.Instances, func(in Instance) bool {
		return in.Server == want.Server && in.Control == want.Control && in.Copy == want.Copy && in.Blocks == want.Blocks && in.Batch == want.Batch && slices.Equal(in.Conf, want.Conf) && slices.Equal(in.Init, want.Init) && slices.Equal(in.Env, want.Env)
	})
	if i < 0 {
		i = len(p.Instances)
		want.ID = fmt.Sprintf("i%d", i+1)
		p.Instances = append(p.Instances, want)
	}
	return i
}

// addPanel adds the panel of some of the settings' variants, the baseline
// among them: its cells, what they are compared with, and their controls.
//
// Panels of the batches after the first hold the baseline only for what is
// compared with it.
func (p *Plan) addPanel(add Panel, variants []variant, rows []int) {
	spec, panel, schedule, batch := p.Spec, len(p.Panels), add.Schedule, add.Batch
	add.ID = panelID(panel)
	p.Panels = append(p.Panels, add)
	id := add.ID
	combinations, places := spec.combinations(), spec.places()
	split := p.split(variants, rows)
	// Cells of the block schedule have their instances to themselves, unless
	// all that they differ in is a matter of their sessions.
	alone := schedule == server.BlockSchedule && (split.configures() || len(places) > 1)
	at := map[coordinates]string{} // a cell by its place in the cross product
	on := map[string]int{}         // cell -> instance
	addCell := func(c Cell, in Instance, where place, combined combination, v variant) string {
		in.Server, in.Env = where.server, spec.environment(where)
		c.Status, c.Reason = "ok", p.lacks(in.Server, v, variants[0])
		given := v
		if c.Reason != "" {
			c.Status, given = "n/a", variants[0]
		}
		homeless := func(s server.Setting) bool { return p.homeless(in.Server, given, s) }
		session, conf, init := split.of(given)
		c.Settings, in.Conf, in.Init = p.known.local(in.Server, slices.DeleteFunc(session, homeless)), p.known.local(in.Server, slices.DeleteFunc(conf, homeless)), init
		in.Blocks, in.Batch = alone, batch
		c.instance, c.panel, c.Panel = p.instanceFor(in), panel, id
		c.ID = fmt.Sprintf("%s%d", id, 1+len(p.panelCells(panel)))
		c.Server, c.Instance = plannedLabel(spec.Servers[in.Server]), p.Instances[c.instance].ID
		c.Schedule, c.Vars, c.Clock = schedule, combined.vars, combined.clock
		if c.Isolation == "" {
			how, err := p.runningOf(v, variants[0])
			if err != nil {
				panic("matrix: a variant that can't run: " + err.Error())
			}
			c.Isolation = how.isolation
		}
		c.Axes = spec.coordinatesOf(add, where, combined, v)
		c.variant = v.label
		c.Cell.Settings = map[string]string{}
		for _, s := range v.settings {
			if p.known.has(in.Server, s.Name) && !homeless(s) {
				c.Cell.Settings[s.Name] = s.Value
			}
		}
		on[c.ID] = c.instance
		p.Cells = append(p.Cells, c)
		return c.ID
	}

	for s, where := range places {
		for v, combined := range combinations {
			for _, k := range rows {
				first := v == 0 && k == 0 && spec.firstEnvironment(where)
				at[coordinates{s, v, k}] = addCell(Cell{Cell: results.Cell{Label: variants[k].label, Baseline: first}}, Instance{}, where, combined, variants[k])
			}
		}
	}
	shared := func(a, b string) bool { return on[a] == on[b] && !alone }
	unit := func(a, b string) string {
		if shared(a, b) && schedule == server.SliceSchedule {
			return "generation"
		}
		return "run"
	}

	// Controls: the baseline's twin on every instance that holds settings or
	// variables to compare, and an instance that is a twin as a whole where
	// instances are compared.
	sessions, instances := false, false
	for _, c := range p.Cells[len(p.Cells)-len(at):] {
		if c.instance != p.Cells[len(p.Cells)-len(at)].instance {
			instances = true
		}
	}
	for s := range places {
		for v := range combinations {
			for _, k := range rows {
				sessions = sessions || v+k > 0 && shared(at[coordinates{s, v, k}], at[coordinates{s, 0, 0}])
			}
		}
	}
	sessions = sessions || !instances || spec.Controls > 1
	twins := map[string]string{} // baseline -> its twin on the same instance
	var further []results.PlannedComparison
	for s, where := range places {
		baseline := at[coordinates{s, 0, 0}]
		for n := range spec.Controls {
			if !sessions || alone && s > 0 {
				break
			}
			own := Instance{}
			if alone {
				own.Control, own.Copy = true, n
			}
			id := addCell(Cell{Cell: results.Cell{Label: "control", ControlOf: baseline}}, own, where, combinations[0], variants[0])
			if n == 0 {
				twins[baseline] = id
				p.Controls = append(p.Controls, results.PlannedControl{Panel: p.Panels[panel].ID, Cell: id, Against: baseline, ReplicateUnit: unit(id, baseline)})
				continue
			}
			further = append(further, results.PlannedComparison{Cell: id, Against: baseline, Twin: twins[baseline], Axis: "control", ReplicateUnit: unit(id, baseline)})
		}
	}
	instanceTwin := ""
	if instances && spec.Controls > 0 && !(alone && sessions) {
		baseline := at[coordinates{0, 0, 0}]
		instanceTwin = addCell(Cell{Cell: results.Cell{Label: "control instance", ControlOf: baseline, Isolation: server.InstanceIsolation}},
			Instance{Control: true}, places[0], combinations[0], variants[0])
		p.Controls = append(p.Controls, results.PlannedControl{Panel: p.Panels[panel].ID, Cell: instanceTwin, Against: baseline, ReplicateUnit: "run"})
	}

	compare := func(cell, against coordinates, axis string) {
		c := results.PlannedComparison{Cell: at[cell], Against: at[against], Axis: axis}
		c.ReplicateUnit = unit(c.Cell, c.Against)
		switch {
		case shared(c.Cell, c.Against):
			c.Twin = twins[c.Against]
		case against == (coordinates{}):
			c.Twin = cmp.Or(instanceTwin, twins[c.Against])
		}
		p.Comparisons = append(p.Comparisons, c)
	}
	for s, where := range places {
		for v, combined := range combinations {
			for _, k := range rows {
				here := coordinates{s, v, k}
				if k > 0 {
					compare(here, coordinates{s, v, 0}, "setting")
				}
				if k == 0 && (batch > 0 || schedule == server.BlockSchedule && spec.Schedule != server.BlockSchedule) {
					continue // the panel in slices, if there is one, compares these better
				}
				for _, axis := range spec.Vars {
					first := combined
					first.vars = maps.Clone(combined.vars)
					first.vars[axis.Name] = axis.Values[0]
					if first := combinationLike(combinations, first); first != v {
						compare(here, coordinates{s, first, k}, axis.Name)
					}
				}
				if combined.clock != combinations[0].clock {
					compare(here, coordinates{s, combinationLike(combinations, combination{combined.vars, combinations[0].clock}), k}, "clocksource")
				}
				for i, e := range spec.Env {
					first := place{where.server, slices.Clone(where.env)}
					first.env[i] = e.Values[0]
					if first := placeLike(places, first); first != s {
						compare(here, coordinates{first, v, k}, e.axis())
					}
				}
				if where.server > 0 {
					compare(here, coordinates{placeLike(places, place{0, where.env}), v, k}, "server")
				}
			}
		}
	}
	p.Comparisons = append(p.Comparisons, further...)

	// A cell that shares its instance with none has it to itself, whatever it
	// differs in.
	cells, alike := p.panelCells(panel), map[int]int{}
	for _, k := range cells {
		alike[p.Cells[k].instance]++
	}
	for _, k := range cells {
		if c := &p.Cells[k]; alike[c.instance] == 1 && len(alike) > 1 && c.Isolation == server.SessionIsolation {
			c.Isolation = server.InstanceIsolation
		}
	}
}

// coordinates are a cell's place in the cross product of a panel: indices into
// places, combinations and variants.
type coordinates struct{ place, combined, variant int }

// panelID is a, b, ... z, a', b', ...: a letter in most matrices.
func panelID(panel int) string {
	return string(rune('a'+panel%26)) + strings.Repeat("'", panel/26)
}

// coordinatesOf are a cell's values by axis.
func (s Spec) coordinatesOf(p Panel, where place, combined combination, v variant) map[string]string {
	axes := map[string]string{"server": plannedLabel(s.Servers[where.server]), "mode": string(p.Mode), "workload": s.Workload.Name(), "setting": v.label}
	if len(s.Protocols) > 1 {
		axes["protocol"] = string(p.Protocol)
	}
	if len(s.Clients) > 1 {
		axes["clients"] = strconv.Itoa(p.Clients)
	}
	for i, e := range s.Env {
		if len(e.Values) > 1 {
			axes[e.axis()] = where.env[i]
		}
	}
	for _, a := range s.Vars {
		if len(a.Values) > 1 {
			axes[a.Name] = combined.vars[a.Name]
		}
	}
	if combined.clock != "" {
		axes["clocksource"] = combined.clock
	}
	return axes
}

// firstEnvironment says whether a place has the environment's first values.
func (s Spec) firstEnvironment(p place) bool {
	for i, e := range s.Env {
		if p.env[i] != e.Values[0] {
			return false
		}
	}
	return true
}

func combinationLike(list []combination, want combination) int {
	i := slices.IndexFunc(list, want.equal)
	if i < 0 {
		panic("matrix: a combination has no counterpart at an axis's first value")
	}
	return i
}

func placeLike(list []place, want place) int {
	i := slices.IndexFunc(list, func(p place) bool { return p.server == want.server && slices.Equal(p.env, want.env) })
	if i < 0 {
		panic("matrix: a place has no counterpart at an axis's first value")
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
// panel is measured: the largest instance's, the others get idle ones. A block
// is alone.
func (p *Plan) Sessions(panel int) int {
	clients := p.Panels[panel].Clients
	if p.Panels[panel].Schedule == server.BlockSchedule {
		return clients
	}
	perInstance := map[int]int{}
	for _, i := range p.panelCells(panel) {
		perInstance[p.Cells[i].instance] += clients
	}
	return slices.Max(slices.Collect(maps.Values(perInstance)))
}

// Expected is a guess of the time that the plan takes. Measured time is exact;
// what heads, warm-ups, connecting and starts add was found to be between a
// third and two thirds of it on a 2-core VM.
func (p *Plan) Expected() time.Duration {
	measured := time.Duration(0)
	for _, c := range p.Cells {
		perRun := p.Spec.Duration
		if p.Spec.Transactions > 0 {
			perRun = time.Duration(p.Spec.Transactions) * 40 * time.Microsecond * time.Duration(p.Panels[c.panel].Clients)
		}
		measured += time.Duration(p.Spec.Runs) * perRun
	}
	starts := 0
	for _, in := range p.Instances {
		starts++
		if in.Blocks || p.InstanceAxis() {
			starts += p.Spec.Runs
		}
	}
	fixed := 2*time.Second + time.Duration(len(p.Panels)*len(p.Spec.Servers))*3*time.Second/2
	expected := fixed + measured*3/2 + time.Duration(starts)*500*time.Millisecond
	if p.Spec.MaxTime > 0 {
		expected = min(expected, p.Spec.MaxTime+fixed)
	}
	return expected
}

// Print writes the plan as --dry-run shows it.
func (p *Plan) Print(w io.Writer) error {
	b := &strings.Builder{}
	s := p.Spec
	runs := fmt.Sprintf("%d runs", s.Runs)
	if s.Until > 0 {
		runs = fmt.Sprintf("at least %d runs, until every overhead's half-width is at most %g %% or %v have passed,", s.Runs, s.Until, s.MaxTime)
	}
	fmt.Fprintf(b, "%d cells in %d panels on %d instances, %s of %s per cell; about %v (a guess before the pilot)\n",
		len(p.Cells), len(p.Panels), len(p.Instances), runs, s.perRun(), p.Expected().Round(time.Second))
	if len(s.Protocols) == 1 && len(s.Clients) == 1 {
		fmt.Fprintf(b, "workload %s, protocol %s, %d clients, %d threads, engine %s, seed %d\n", s.Workload.Name(), s.Protocols[0], s.Clients[0], s.Threads, s.planned(), s.Seed)
	} else {
		fmt.Fprintf(b, "workload %s, engine %s, seed %d\n", s.Workload.Name(), s.planned(), s.Seed)
	}
	if len(s.Clocksources) > 0 {
		fmt.Fprintf(b, "clock source %s, switched between slices or blocks and put back at the end\n", strings.Join(s.Clocksources, " and "))
	}
	if text := p.batchLine(); text != "" {
		fmt.Fprintf(b, "%s\n", text)
	}
	if len(s.Servers) > 1 && s.Defaults == Aligned {
		fmt.Fprintf(b, "defaults aligned: where those of the servers differ, all get the first one's\n")
	}
	for _, inst := range p.Instances {
		role := ""
		if all := p.configurationOf(inst); len(all.init) > 0 {
			role += ", initdb with " + confLine(all.init)
		}
		if all := p.configurationOf(inst); len(all.conf) > 0 {
			role += ", configured with " + confLine(all.conf)
		}
		if p.batches() > 1 && !inst.Blocks {
			role += fmt.Sprintf(", batch %d of %d", inst.Batch+1, p.batches())
		}
		if env := p.envLine(inst); env != "" {
			role += ", environment " + env
		}
		if inst.Control {
			role += ", control: holds the twin of the baseline"
		}
		switch {
		case inst.Blocks && s.Servers[inst.Server].Kind == server.Conninfo:
			role += ", during the blocks of its cells"
		case inst.Blocks:
			role += ", runs during the blocks of its cells, each with a new start"
		}
		name := s.Servers[inst.Server].String()
		if name == "" {
			name = "the newest local PostgreSQL"
		}
		if s.Servers[inst.Server].Kind == server.Source {
			role = ", built by " + server.BuildOptions() + " unless that has been done" + role
		}
		fmt.Fprintf(b, "instance %s: %s%s\n", inst.ID, name, role)
	}
	for i, panel := range p.Panels {
		load := ""
		if len(s.Protocols) > 1 {
			load += ", " + string(panel.Protocol)
		}
		if len(s.Clients) > 1 {
			load += fmt.Sprintf(", %d clients, %d threads", panel.Clients, panel.Threads)
		}
		fmt.Fprintf(b, "\npanel %s: %s, %s%s, schedule %s, %d sessions per instance\n", panel.ID, s.Workload.Name(), panel.Mode, load, panel.Schedule, p.Sessions(i))
		if panel.Schedule == server.BlockSchedule {
			fmt.Fprintf(b, "  a checkpoint before each block and, where it writes, %d forced in it\n", forcedCheckpoints)
		}
		for _, k := range p.panelCells(i) {
			c := p.Cells[k]
			var parts []string
			for _, v := range s.Vars {
				parts = append(parts, v.Name+"="+c.Vars[v.Name])
			}
			if len(s.Clocksources) > 1 {
				parts = append(parts, "clocksource="+c.Clock)
			}
			for _, a := range s.Settings {
				if value, found := c.Cell.Settings[a.Name]; found {
					parts = append(parts, a.Name+"="+value)
				}
			}
			role := ""
			switch {
			case c.Baseline && p.Instances[c.instance].Server == 0:
				role = "baseline"
			case c.ControlOf != "":
				role = "control of " + c.ControlOf
			}
			if c.Status != "ok" {
				role = c.Status
			}
			line := fmt.Sprintf("  %-4s on %s  %-17s %-8s  %s", c.ID, c.Instance, role, c.Isolation, strings.Join(parts, " "))
			b.WriteString(strings.TrimRight(line, " ") + "\n")
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

// envLine shows of an instance's environment the variables that are axes: the
// value of another may be a secret.
func (p *Plan) envLine(in Instance) string {
	var parts []string
	for _, e := range p.Spec.Env {
		if len(e.Values) < 2 {
			continue
		}
		value := Unset
		for _, v := range in.Env {
			if name, text, _ := strings.Cut(v, "="); name == e.Name {
				value = text
			}
		}
		parts = append(parts, e.Name+"="+value)
	}
	return strings.Join(parts, " ")
}

func (s Spec) perRun() string {
	if s.Transactions > 0 {
		return fmt.Sprintf("%d transactions per client", s.Transactions)
	}
	return s.Duration.String()
}
