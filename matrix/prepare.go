package matrix

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"

	"pgtare/matrix/host"
	"pgtare/matrix/server"
	"pgtare/results"
	"pgtare/workload"
	"pgtare/workload/script"
)

// start finds the servers, asks them what kind of settings the matrix has,
// works the plan out once more with that, and starts its instances.
func (r *runner) start(ctx context.Context) error {
	manager, err := server.NewManager(ctx, server.ManagerConfig{CacheDir: r.cfg.CacheDir, Log: r.cfg.Log})
	if err != nil {
		return err
	}
	r.manager = manager
	r.stage("finding PostgreSQL")
	for _, s := range r.plan.Spec.Servers {
		if s.Kind == server.Conninfo {
			continue
		}
		if err := server.CanStart(); err != nil { // before anything is fetched
			return err
		}
	}
	if r.found, err = server.Resolve(ctx, r.plan.Spec.Servers, server.ResolveConfig{CacheDir: r.cfg.CacheDir, Log: r.cfg.Log}); err != nil {
		return err
	}
	r.relabel()
	r.stage("starting")
	if err := r.scout(ctx); err != nil {
		return err
	}
	for {
		again, err := r.startAll(ctx)
		if err != nil {
			return err
		}
		if !again {
			break
		}
	}
	if text := r.plan.batchLine(); text != "" {
		r.log("%s", text)
		r.warn("batches", text+"; only cells of one batch are compared", "use a smaller shared_buffers, or a machine with more memory")
	}
	if err := r.compareDefaults(ctx); err != nil {
		return err
	}
	return r.place(ctx)
}

// scout starts every server as it is, asks it, and works the plan out again.
// What it starts becomes the plan's first instances, where these are plain.
func (r *runner) scout(ctx context.Context) error {
	k := known{base: make([]configuration, len(r.found))}
	var names []string
	r.plan.known.base = k.base // as the servers are by themselves, to see what they know
	for i := range r.found {
		inst, lacking, err := r.launchScout(ctx, i)
		if err != nil {
			return err
		}
		k.lacking = append(k.lacking, lacking)
		r.servers = append(r.servers, inst.facts)
		var facts map[string]server.Fact
		if facts, names, err = r.settingFacts(ctx, i); err != nil {
			return err
		}
		if inst.managed == nil {
			if err := r.loadForSessions(ctx, i, facts); err != nil {
				return err
			}
		}
		if len(r.found) > 1 {
			list, err := r.readDefaults(ctx, i)
			if err != nil {
				return err
			}
			r.shipped = append(r.shipped, list)
		}
		k.facts, k.refused = append(k.facts, facts), append(k.refused, map[server.Setting]string{})
	}
	if err := r.settle(&k, names); err != nil {
		return err
	}
	if err := r.replan(k); err != nil {
		return err
	}
	// Idle sessions weigh before 14: then only one cell's may be open at a time.
	old := slices.IndexFunc(r.servers, func(s results.Server) bool { return s.VersionNum < 140000 })
	if n := r.sessions(server.SliceSchedule); old >= 0 && n > idleSessionsWeigh && r.plan.asked.Schedule == "" {
		r.warn("measured-in-blocks", fmt.Sprintf("in slices %d sessions would be open on %s, and before PostgreSQL 14 idle sessions slow all others down, so everything is measured in blocks", n, r.labels[old]),
			"none needed; more runs make the intervals narrower")
		r.plan.asked.Schedule = server.BlockSchedule
		return r.replan(k)
	}
	return nil
}

// replan works the plan out with what is known by now.
func (r *runner) replan(k known) error {
	plan, err := newPlan(r.plan.asked, k)
	if err != nil {
		return err
	}
	r.plan = plan
	r.relabel()
	return nil
}

// firstEnv is the baseline's environment.
func (s Spec) firstEnv() []string { return s.environment(s.places()[0]) }

// launch makes and starts one instance, or attaches to a server. What it
// returns beside an error must be closed all the same.
func (r *runner) launch(ctx context.Context, planned Instance, maxConnections int) (*instance, error) {
	in := r.found[planned.Server]
	inst := &instance{planned: planned, configuration: r.plan.configurationOf(planned), tables: map[int][]string{}}
	if in.Conninfo != "" {
		attached, err := r.attach(ctx)
		if err != nil {
			return nil, err
		}
		inst.attached, inst.target, inst.tables = attached, attached, r.tables
	} else {
		id := planned.ID
		if r.launched++; r.launched > len(r.found) { // the plan's names may have moved since the scouts got theirs
			id = fmt.Sprintf("%s-%d", planned.ID, r.launched)
		}
		inst.config = server.InstanceConfig{ID: id, MaxConnections: maxConnections, Settings: map[string]string{}}
		for _, s := range inst.conf {
			inst.config.Settings[s.Name] = s.Value
		}
		inst.config.Initdb, inst.config.Env = inst.init, planned.Env
		managed, err := r.manager.Create(ctx, in, inst.config)
		if err != nil {
			return inst, err
		}
		inst.managed, inst.target = managed, managed
		r.trace("start %s", planned.ID)
		if err := managed.Start(ctx); err != nil {
			return inst, err
		}
	}
	limited, cancel := r.bounded(ctx)
	defer cancel()
	var err error
	if inst.facts, err = inst.target.Describe(limited); err != nil {
		return inst, fmt.Errorf("look at %s: %w", in.Label, err)
	}
	return inst, nil
}

// startAll starts the plan's instances; those that run in blocks only are
// stopped again before anything is measured. What runs already and fits the plan
// is taken over. A server that refuses a value makes another plan of it, in
// which the value's cells are n/a there: then it must be called again.
func (r *runner) startAll(ctx context.Context) (again bool, err error) {
	running, maxConnections := r.instances, r.maxConnections()
	r.instances, r.group = nil, 0
	batches := r.plan.batches() > 1 // then they are started in the order of these
	for _, planned := range r.plan.Instances {
		at := slices.IndexFunc(running, func(s instance) bool {
			return s.planned.Server == planned.Server && s.planned.Control == planned.Control && s.planned.Copy == planned.Copy && s.configuration.equal(r.plan.configurationOf(planned)) && slices.Equal(s.planned.Env, planned.Env) &&
				(s.managed == nil || s.config.MaxConnections == maxConnections)
		})
		inst := instance{planned: planned}
		if at >= 0 && !batches {
			inst = running[at]
			inst.planned = planned
			running = slices.Delete(slices.Clone(running), at, at+1)
		}
		r.instances = append(r.instances, inst)
	}
	for _, s := range running {
		if s.managed != nil {
			if err := s.managed.Close(); err != nil {
				return false, err
			}
		}
	}
	for i := range r.instances {
		if r.instances[i].target == nil {
			if group := r.groupOf(i); group != r.group {
				if err := r.leave(ctx); err != nil {
					return false, err
				}
				r.group = group
			}
			inst, err := r.launch(ctx, r.instances[i].planned, maxConnections)
			if inst != nil {
				r.instances[i] = *inst
			}
			if err != nil {
				return r.refusal(err, i)
			}
		}
		if err := r.prove(ctx, i); err != nil {
			return r.refusal(err, i)
		}
		if err := r.checkSessions(ctx, i, r.sessions(server.SliceSchedule, server.BlockSchedule)); err != nil {
			return false, err
		}
	}
	if maxConnections > 0 {
		for i := range r.servers {
			if text := fmt.Sprintf("max_connections=%d", maxConnections); r.found[i].Conninfo == "" && !slices.Contains(r.servers[i].Deviations, text) {
				r.servers[i].Deviations = append(r.servers[i].Deviations, text)
			}
		}
	}
	for i := range r.servers { // as all its instances are, in place of the scout
		plain := slices.IndexFunc(r.instances, func(s instance) bool {
			return s.managed != nil && s.planned.Server == i && len(s.planned.Conf)+len(s.planned.Init) == 0
		})
		if plain >= 0 {
			r.servers[i] = r.instances[plain].facts
			continue
		}
		for _, s := range slices.Concat(r.plan.base(i).init, r.plan.base(i).conf) {
			if !slices.Contains(r.servers[i].Deviations, s.String()) {
				r.servers[i].Deviations = append(r.servers[i].Deviations, s.String())
			}
		}
	}
	return false, nil
}

// refusal looks whether an instance failed for a value of the matrix: then the
// value is n/a on this server, and the plan another one.
func (r *runner) refusal(failed error, i int) (again bool, err error) {
	inst := r.instances[i]
	k, at := r.plan.known, inst.planned.Server
	baseline := k.local(at, r.plan.Spec.variants()[0].settings)
	// Where it isn't said which of several it was, it is none of the baseline's.
	differing := func(settings []server.Setting) []server.Setting {
		slices.SortStableFunc(settings, func(a, b server.Setting) int {
			of := map[bool]int{true: 1}
			return cmp.Compare(of[slices.Contains(baseline, a)], of[slices.Contains(baseline, b)])
		})
		return settings
	}
	var na *server.NotApplicable
	if !errors.As(failed, &na) {
		na = server.StartRefusal(failed, inst.conf)
	}
	if na == nil {
		na = server.InitdbRefusal(failed, differing(slices.Clone(inst.init)))
	}
	if na == nil || r.interrupted() {
		return false, failed
	}
	if r.unalign(at, na.Setting) {
		r.log("%s keeps its own default: %v", r.labels[at], na)
		r.drop(i)
		return true, r.replan(r.plan.known)
	}
	if base := r.plan.base(at); slices.Contains(base.conf, na.Setting) && !slices.Contains(inst.planned.Conf, na.Setting) {
		return false, usagef("--conf %v: %s refuses it", na, r.labels[at])
	}
	if slices.Contains(baseline, na.Setting) {
		return false, usagef("%s refuses the baseline: %v; use another first value", r.labels[at], na)
	}
	k.refused[at][na.Setting] = na.Error()
	everywhere := true
	for s := range r.found {
		everywhere = everywhere && k.refused[s][na.Setting] != ""
	}
	if everywhere {
		return false, usagef("%s %v", r.plan.Spec.flagOf(na.Setting.Name), na)
	}
	r.drop(i)
	return true, r.replan(k)
}

// drop gives an instance up; the others stay for the next plan.
func (r *runner) drop(i int) {
	id := r.instances[i].planned.ID
	if m := r.instances[i].managed; m != nil {
		if err := m.Close(); err != nil {
			r.log("%v", err)
		}
	}
	r.instances = slices.DeleteFunc(slices.Clone(r.instances), func(x instance) bool { return x.target == nil || x.planned.ID == id })
}

// prove shows that the settings of an instance's configuration are in force.
func (r *runner) prove(ctx context.Context, i int) error {
	inst := &r.instances[i]
	if inst.proven = map[string]string{}; len(inst.conf)+len(inst.init) == 0 {
		return nil
	}
	if inst.attached != nil {
		return r.configure(ctx, i)
	}
	err := r.ask(ctx, i, func(ctx context.Context, conn *pgconn.PgConn) (err error) {
		if inst.proven, err = server.ProveConfigured(ctx, conn, inst.conf); err != nil {
			return err
		}
		ofCluster, err := server.ProveCluster(ctx, conn, inst.init)
		maps.Copy(inst.proven, ofCluster)
		return err
	})
	var na *server.NotApplicable
	if err == nil || errors.As(err, &na) {
		return err
	}
	return r.lost(fmt.Errorf("prove the configuration of %s: %w", r.label(i), err))
}

// sessions is the largest number of client sessions on one instance in panels
// of these schedules. In slices most of them are idle at any time.
func (r *runner) sessions(schedules ...string) (n int) {
	for i, p := range r.plan.Panels {
		if slices.Contains(schedules, p.Schedule) {
			n = max(n, r.plan.Sessions(i))
		}
	}
	return n
}

// maxConnections is what instances are configured with: alike everywhere, and
// named in the header; 0 is PostgreSQL's own default.
func (r *runner) maxConnections() int {
	if need := r.sessions(server.SliceSchedule, server.BlockSchedule) + spareSessions; need > defaultMaxConnections {
		return need
	}
	return 0
}

const (
	defaultMaxConnections = 100
	spareSessions         = 13 // superuser_reserved_connections and pgtare's own
	idleSessionsWeigh     = 50 // before 14 an idle session costs every snapshot
	idleSessionsDoubt     = 500
)

// relabel gives cells and axes the labels of the installations found: "18"
// becomes "18.4".
func (r *runner) relabel() {
	p, found := r.plan, r.found
	for i := range p.Axes {
		if p.Axes[i].Name == "server" {
			p.Axes[i].Values = nil
			for _, in := range found {
				p.Axes[i].Values = append(p.Axes[i].Values, in.Label)
			}
		}
	}
	r.labels = p.Axes[0].Values
	for i := range p.Cells {
		c := &p.Cells[i]
		c.Server = found[p.Instances[c.instance].Server].Label
		c.Axes["server"] = c.Server
	}
}

// checkSessions refuses a number of sessions that the server doesn't take, or
// that weighs on its own: up to 13, 300 idle sessions cost SELECT 1 7 %; in 18 nothing.
func (r *runner) checkSessions(ctx context.Context, i, sessions int) error {
	inst := &r.instances[i]
	if inSlices := r.sessions(server.SliceSchedule); inst.facts.VersionNum < 140000 && inSlices > idleSessionsWeigh {
		return usagef("%d sessions would be open on %s; before PostgreSQL 14 idle sessions slow all others down, so that at most %d can be measured in slices: "+
			"use --schedule block, fewer clients (-c) or fewer cells", inSlices, inst.facts.Label, idleSessionsWeigh)
	}
	if sessions > idleSessionsDoubt && i == 0 {
		r.warn("many-sessions", fmt.Sprintf("%d sessions are open on each instance, most of them idle at any time", sessions),
			"use fewer clients (-c) or fewer cells")
	}
	if inst.managed != nil {
		return nil
	}
	free := 0
	err := r.ask(ctx, i, func(ctx context.Context, conn *pgconn.PgConn) (err error) {
		free, err = queryInt(ctx, conn, `SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
			- (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int`)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the free connections of %s: %w", inst.facts.Label, err)
	}
	if sessions > free {
		return usagef("the cells need %d sessions at once (up to %d clients each), and %s has %d connections free: use fewer clients (-c) or fewer cells, or raise its max_connections",
			sessions, slices.Max(r.plan.Spec.Clients), inst.facts.Label, free)
	}
	return nil
}

// place decides where clients and backends run, and starts the engine there.
func (r *runner) place(ctx context.Context) (err error) {
	if err := r.chooseEngine(ctx); err != nil {
		return err
	}
	r.pin = r.plan.Spec.Pin
	managed := r.instances[0].managed != nil
	if r.pin.Kind == "" {
		if r.pin = (Pin{Kind: "none"}); slices.Max(r.plan.Spec.Clients) == 1 && managed && r.engine == Epoll {
			r.pin = Pin{Kind: "core", CPU: -1}
		}
	}
	if r.pin.Kind != "none" {
		if !r.instances[0].target.LocalPID() {
			return usagef("--pin %s: the backends of %s are not on this machine, or not this user's to move; use --pin none", r.pin, r.labels[0])
		}
		if err := r.choose(ctx); err != nil {
			return err
		}
	}
	r.driver, err = r.startEngine()
	return err
}

// choose finds the CPUs of a placement that leaves them open, and refuses those
// that aren't there.
func (r *runner) choose(ctx context.Context) error {
	spec := r.plan.Spec
	if r.pin.Kind == "core" && r.pin.CPU < 0 || r.pin.Kind == "split" && r.pin.Client == nil {
		quiet, err := host.Quiet(ctx, 100*time.Millisecond)
		if err != nil {
			return fmt.Errorf("look for the quietest CPU: %w", err)
		}
		if r.pin.Kind == "core" {
			r.pin.CPU = quiet[0]
		} else {
			var found bool
			if r.pin.Client, r.pin.Server, found = host.Apart(quiet, host.Siblings, slices.Max(spec.Clients), spec.Threads); !found {
				return usagef("--pin split: this process may use CPUs %s only, which is one core; use --pin core or none", host.FormatList(host.CPUs()))
			}
		}
	}
	r.clientCPUs, r.serverCPUs = r.pin.Client, r.pin.Server
	if r.pin.Kind == "core" {
		r.clientCPUs, r.serverCPUs = []int{r.pin.CPU}, []int{r.pin.CPU}
	}
	for _, c := range r.usable() {
		if !slices.Contains(host.CPUs(), c) {
			return usagef("--pin %s: there is no CPU %d for this process, which may use CPUs %s only", r.pin, c, host.FormatList(host.CPUs()))
		}
	}
	if r.pin.Kind == "split" {
		for _, c := range r.clientCPUs {
			for _, s := range host.Siblings(c) {
				if slices.Contains(r.serverCPUs, s) {
					r.warn("core-shared", fmt.Sprintf("CPU %d of the client and CPU %d of the server are one core, so that each slows the other down", c, s),
						"give them cores of their own (--pin split), or one CPU for both (--pin core)")
					return nil
				}
			}
		}
	}
	return nil
}

// usable is the CPUs that clients and backends can use.
func (r *runner) usable() []int {
	if r.pinned() {
		return slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.clientCPUs, r.serverCPUs))))
	}
	return host.CPUs()
}

// pinned says whether clients and backends are held on CPUs of their own.
func (r *runner) pinned() bool { return r.serverCPUs != nil }

// restart starts every instance anew that is measured in slices, in random
// order: the luck of a start is what the runs average out.
func (r *runner) restart(ctx context.Context) error {
	for _, i := range r.rng.Perm(len(r.instances)) {
		if r.instances[i].planned.Blocks {
			continue
		}
		r.trace("restart %s", r.plan.Instances[i].ID)
		if err := r.instances[i].managed.Stop(ctx); err != nil {
			return r.lost(err)
		}
		if err := r.instances[i].managed.Start(ctx); err != nil {
			return r.lost(err)
		}
	}
	return nil
}

func (r *runner) stop(ctx context.Context, i int) error {
	if r.instances[i].managed == nil {
		return nil // what is configured next takes its place
	}
	r.trace("stop %s", r.plan.Instances[i].ID)
	return r.lost(r.instances[i].managed.Stop(ctx))
}

func (r *runner) wake(ctx context.Context, i int) error {
	if r.instances[i].managed == nil {
		return r.configure(ctx, i)
	}
	r.trace("start %s", r.plan.Instances[i].ID)
	return r.lost(r.instances[i].managed.Start(ctx))
}

// retire stops the instances that run during their blocks only.
func (r *runner) retire(ctx context.Context) error {
	for i := range r.instances {
		if r.instances[i].planned.Blocks {
			if err := r.stop(ctx, i); err != nil {
				return err
			}
		}
	}
	return r.leave(ctx)
}

// prepare makes each writing cell its own table, frozen and analysed.
func (r *runner) prepare(ctx context.Context) error {
	r.stage("making tables")
	b := r.plan.Spec.Workload.Builtin
	for i := range r.instances {
		inst := &r.instances[i]
		inst.logSeen = r.logEnd(i)
		if b == nil || !b.Writes {
			continue
		}
		if inst.attached != nil {
			limited, cancel := r.bounded(ctx)
			err := inst.attached.MakeSchema(limited)
			cancel()
			if err != nil {
				return r.lost(err)
			}
		}
		for k := range r.panels {
			p := &r.panels[k]
			for _, c := range p.cells {
				if r.plan.Cells[c].instance != i {
					continue
				}
				table := fmt.Sprintf("%s.pgtare_%s%03d", inst.target.Schema(), p.ID, len(inst.tables[k])+1)
				inst.tables[k] = append(inst.tables[k], table)
				if err := r.makeTable(ctx, i, table, nil); err != nil {
					return err
				}
			}
		}
		// What making them has dirtied isn't written in somebody's slice.
		if err := r.ask(ctx, i, func(ctx context.Context, conn *pgconn.PgConn) error { return r.checkpoint(ctx, conn, r.label(i)) }); err != nil {
			return r.lost(err)
		}
	}
	return nil
}

// makeTable makes a built-in workload's table, and drops those of before.
func (r *runner) makeTable(ctx context.Context, i int, table string, before []string) error {
	conn, err := r.connect(ctx, i)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	statements := r.plan.Spec.Workload.Builtin.Setup(table)
	if before != nil {
		statements = append([]string{"DROP TABLE IF EXISTS " + strings.Join(before, ", ")}, statements...)
	}
	for _, sql := range statements {
		limited, cancel := r.bounded(ctx)
		_, err := conn.Exec(limited, sql).ReadAll()
		cancel()
		if err != nil {
			return r.lost(fmt.Errorf("prepare %s (%s): %w", r.label(i), sql, err))
		}
	}
	return nil
}

// script is what a cell sends in a generation. Tables rotate over the cells of
// an instance, so that none of them is always the same cell's.
func (r *runner) script(p *panel, cell, generation int) *script.Script {
	w := r.plan.Spec.Workload
	if w.Builtin == nil {
		return w.Script
	}
	if !w.Builtin.Writes {
		return mustParse(w.Builtin.Name, w.Builtin.Script(""))
	}
	instance := r.plan.Cells[cell].instance
	tables := r.instances[instance].tables[p.index]
	if p.Schedule == server.BlockSchedule {
		generation = 0 // its table is made anew for each block
	}
	return mustParse(w.Builtin.Name, w.Builtin.Script(tables[(r.tableOf(p, cell)+generation)%len(tables)]))
}

// tableName is the bare name of the table that a cell's first generation uses;
// "" where it has none of its own.
func (r *runner) tableName(p *panel, cell int) string {
	tables := r.instances[r.plan.Cells[cell].instance].tables[p.index]
	if len(tables) == 0 {
		return ""
	}
	_, name, _ := strings.Cut(tables[r.tableOf(p, cell)%len(tables)], ".")
	return name
}

// tableOf is the place of a cell among those of its panel that write on the
// same instance.
func (r *runner) tableOf(p *panel, cell int) (place int) {
	for _, c := range p.cells {
		if c == cell {
			break
		}
		if r.plan.Cells[c].instance == r.plan.Cells[cell].instance {
			place++
		}
	}
	return place
}

func mustParse(name, text string) *script.Script {
	s, err := script.Parse(name, text)
	if err != nil {
		panic(fmt.Sprintf("matrix: built-in script %s does not parse: %v", name, err))
	}
	return s
}

// onConnect is called with every connection that will be measured: it proves
// the settings and pins the backend.
func (r *runner) onConnect(p *panel, cell int) func(context.Context, *pgconn.PgConn) error {
	c := r.plan.Cells[cell]
	proof := server.Proof(c.Settings, c.ReadBack, r.sessionNames(p))
	local := r.instances[c.instance].target.LocalPID()
	return func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := proof(ctx, conn); err != nil {
			return err
		}
		if r.pinned() && local {
			if err := host.SetAffinity(int(conn.PID()), r.serverCPUs); err != nil {
				return fmt.Errorf("pin backend %d: %w", conn.PID(), err)
			}
		}
		return nil
	}
}

// sessionNames are the settings that sessions of a panel give.
func (r *runner) sessionNames(p *panel) (names []string) {
	for _, k := range p.cells {
		for _, s := range r.plan.Cells[k].Settings {
			if !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	return names
}

// checkTimers refuses timers that would go off while a session waits for its
// next slice: they must exceed ten times the longest gap of the plan.
func (r *runner) checkTimers() error {
	for _, p := range r.panels {
		if p.Schedule == server.BlockSchedule {
			continue // no session waits
		}
		// At worst a cell comes first in one round and last in the next; the
		// head is counted as long as an eighth of the slice.
		gap := 2 * time.Duration(len(p.cells)) * max(time.Duration(p.SliceNs)*9/8, time.Duration(p.TransactionNs))
		gap = max(gap, time.Duration(p.Warmup*len(p.cells))*time.Duration(p.TransactionNs))
		for _, k := range p.cells {
			c := r.plan.Cells[k]
			for _, s := range c.Settings {
				limit, isTimer := idleTimer(s.Name, c.ReadBack[s.Name])
				if isTimer && limit > 0 && limit < 10*gap {
					return usagef("--set %s=%s would end sessions that wait for their next slice: up to %v pass between two slices of a cell here, and the limit must be at least ten times that; use a limit of %v or more",
						s.Name, s.Value, gap.Round(time.Millisecond), (10*gap).Round(time.Second)+time.Second)
				}
			}
		}
	}
	return nil
}

// idleTimer reads a timer that runs while a session idles between slices.
func idleTimer(name, readBack string) (time.Duration, bool) {
	if !strings.EqualFold(name, "idle_session_timeout") {
		return 0, false
	}
	var ms int64
	if _, err := fmt.Sscanf(readBack, "%d", &ms); err != nil {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// lost explains an error by what became of the servers: an instance that died
// or doesn't answer is the cause, whatever the error says.
func (r *runner) lost(err error) error {
	if err == nil || r.interrupted() {
		return err
	}
	var usage *UsageError
	if errors.As(err, &usage) {
		return err
	}
	var session *workload.LostError
	if errors.As(err, &session) && session.SQLState == "57P05" {
		return usagef("idle_session_timeout ended a session that waited for its next slice: the limit must be at least ten times that wait, so use a longer one (%v)", err)
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "57P05" {
		return usagef("idle_session_timeout ended a session before it was measured: the limit must be at least ten times what a session waits for its next slice (%v)", err)
	}
	if errors.As(err, &pg) && pg.Code == "53300" {
		return usagef("%v: use fewer clients (-c) or fewer cells, or allow more connections", err)
	}
	for _, inst := range r.instances {
		if inst.target == nil || inst.managed != nil && inst.managed.PID() == 0 { // it runs at other times
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		dead := inst.target.Alive(ctx)
		cancel()
		if dead != nil {
			return fmt.Errorf("%w (noticed when: %v)", dead, err)
		}
	}
	const crashShutdown = "57P02"
	if session != nil && (session.SQLState == "" || session.SQLState == crashShutdown) || cut(err) {
		// A process that crashes has no last words, but the postmaster does.
		for _, inst := range r.instances {
			if inst.managed == nil || inst.managed.PID() == 0 {
				continue
			}
			tail := inst.managed.LogTail(8)
			remedy := ""
			if strings.Contains(tail, unix.ENOSPC.Error()) || strings.Contains(tail, "No space left on device") {
				remedy = "; there is no room for the cluster: make some, or use another directory (--cache-dir)"
			}
			return fmt.Errorf("%w%s; the log of %s ends:\n%s", err, remedy, inst.facts.Label, tail)
		}
	}
	if errors.Is(err, unix.EMFILE) {
		return usagef("%v: this process may open too few files for so many sessions; raise the limit (ulimit -n), or use fewer clients (-c) or fewer cells", err)
	}
	return err
}

// cut says whether an error is that of a connection that broke off.
func cut(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return false
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) ||
		errors.Is(err, net.ErrClosed) || strings.HasSuffix(err.Error(), "conn closed")
}

func (r *runner) logEnd(i int) int64 {
	m := r.instances[i].managed
	if m == nil {
		return 0
	}
	_, end, err := m.LogSince(-1)
	if err != nil {
		r.log("%v", err)
	}
	return end
}

// loglines are what a server logged that nobody asked for.
type loglines struct {
	count int
	first string
}

// readLogs looks for lines that nobody asked for: a time-out that fired, a
// duration that was logged.
func (r *runner) readLogs() {
	for i := range r.instances {
		inst := &r.instances[i]
		if inst.managed == nil || inst.planned.Blocks { // lines in the log may be what a block weighs
			continue
		}
		text, end, err := inst.managed.LogSince(inst.logSeen)
		if err != nil {
			r.log("%v", err)
			continue
		}
		inst.logSeen = end
		for _, l := range strings.Split(text, "\n") {
			for _, sign := range []string{" duration: ", " ERROR: ", "terminating connection due to "} {
				// A fast shutdown ends what is left of a session; pgtare asked for it.
				if !strings.Contains(l, sign) || strings.Contains(l, "due to administrator command") {
					continue
				}
				seen := r.loglines[r.label(i)]
				if seen == nil {
					seen = &loglines{first: l}
					r.loglines[r.label(i)] = seen
				}
				seen.count++
			}
		}
	}
}

func (r *runner) warnOfLogs() {
	for _, label := range r.labels {
		if seen := r.loglines[label]; seen != nil {
			r.warn("log-lines", fmt.Sprintf("%s logged %d lines of errors, durations or time-outs, the first: %s", label, seen.count, seen.first),
				"the cells that cause them pay for writing them; use limits that nothing reaches")
		}
	}
}

// bounded limits what must not take long, so that a server that hangs in it
// can't outlive the grace.
func (r *runner) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.grace())
}

// connect opens a session that isn't measured. A postmaster that is stopped
// takes connections and never answers, hence the limit.
func (r *runner) connect(ctx context.Context, instance int, settings ...server.Setting) (*pgconn.PgConn, error) {
	if err := r.configure(ctx, instance); err != nil {
		return nil, err
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	cfg := r.instances[instance].target.Config()
	server.Apply(cfg, settings)
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, r.lost(fmt.Errorf("connect to %s: %w", r.label(instance), err))
	}
	return conn, nil
}

// ask lets a function use a session of its own, for as long as may be.
func (r *runner) ask(ctx context.Context, instance int, of func(context.Context, *pgconn.PgConn) error) error {
	conn, err := r.connect(ctx, instance)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	return of(ctx, conn)
}

// label is the server's of an instance.
func (r *runner) label(instance int) string { return r.labels[r.instances[instance].planned.Server] }

// queryInt runs a query that yields one integer.
func queryInt(ctx context.Context, conn *pgconn.PgConn, sql string) (n int, err error) {
	res := conn.ExecParams(ctx, sql, nil, nil, nil, nil).Read()
	if res.Err != nil {
		return 0, res.Err
	}
	if len(res.Rows) != 1 || len(res.Rows[0]) != 1 {
		return 0, fmt.Errorf("expected one value from %s", sql)
	}
	_, err = fmt.Sscan(string(res.Rows[0][0]), &n)
	return n, err
}
