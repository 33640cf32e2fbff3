package matrix

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/server"
	"pgtare/workload"
	"pgtare/workload/script"
)

// probe proves every cell's settings on its instance before anything is
// measured. What one server lacks and another has is n/a there; what none has
// is a mistake.
func (r *runner) probe(ctx context.Context) error {
	r.stage("probing")
	spec := r.plan.Spec
	variants := spec.variants()
	refused := map[string]map[int]string{} // variant's label -> server -> words
	type session struct {
		instance int
		settings string
	}
	proven := map[session]map[string]string{}
	for k := range r.plan.Cells {
		c := &r.plan.Cells[k]
		i := r.plan.Instances[c.instance].Server
		c.Settings = slices.DeleteFunc(slices.Clone(c.Settings), func(s server.Setting) bool { return !r.plan.known.has(i, s.Name) })
		if c.Status != "ok" {
			c.Reason = strings.Replace(c.Reason, "the server", r.labels[i], 1)
			continue
		}
		key := session{c.instance, fmt.Sprint(c.Settings)}
		readBack, seen := proven[key]
		if !seen {
			if err := r.configure(ctx, c.instance); err != nil {
				return r.lost(err)
			}
			limited, cancel := r.bounded(ctx)
			var err error
			readBack, err = server.Probe(limited, r.instances[c.instance].target.Config(), c.Settings)
			cancel()
			var na *server.NotApplicable
			switch {
			case errors.As(err, &na) && c.variant == "":
				return usagef("%s refuses the baseline: %v; leave the setting out there, or use another first value", r.labels[i], na)
			case errors.As(err, &na):
				c.Status, c.Reason = "n/a", na.Error()
				if refused[c.variant] == nil {
					refused[c.variant] = map[int]string{}
				}
				refused[c.variant][i] = c.Reason
				continue
			case err != nil:
				return r.lost(fmt.Errorf("probe %s on %s: %w", cmp.Or(c.variant, "the baseline"), r.labels[i], err))
			}
			proven[key] = readBack
		}
		c.ReadBack = maps.Clone(r.instances[c.instance].proven)
		maps.Copy(c.ReadBack, readBack)
	}
	for _, v := range variants {
		if words := refused[v.label]; len(words) == len(spec.Servers) {
			return usagef("--set %s: %s", v.label, words[0])
		}
	}
	for i := range spec.Servers {
		for _, a := range spec.Settings {
			if !r.plan.known.has(i, a.Name) {
				r.warn("setting-absent", fmt.Sprintf("%s has no setting %s, so its cells run without", r.labels[i], a.Name), "compare it within the servers that have it")
			}
		}
	}
	r.warnOfAssumptions(variants)
	if err := r.checkNormalized(); err != nil {
		return err
	}
	r.makePanels()
	return nil
}

// warnOfAssumptions names the settings of which only their category says where
// their cost lands.
func (r *runner) warnOfAssumptions(variants []variant) {
	cells := map[string][]string{}
	var order []string
	for _, c := range r.plan.Cells {
		at := slices.IndexFunc(variants, func(v variant) bool { return v.label == c.variant })
		how, err := r.plan.runningOf(variants[at], variants[0])
		if err != nil || c.Status != "ok" {
			continue
		}
		for _, s := range how.assumed {
			if cells[s.String()] == nil {
				order = append(order, s.String())
			}
			if !slices.Contains(cells[s.String()], c.ID) {
				cells[s.String()] = append(cells[s.String()], c.ID)
			}
		}
	}
	for _, s := range order {
		r.warn("isolation-assumed", fmt.Sprintf("it is assumed, not known, that the cost of %s stays in the session that sets it", s),
			"check the result against one with an instance for each value (--set NAME=V1,V2@instance)", cells[s]...)
	}
}

// settingFacts reads what a server says about the matrix's settings, and the
// names of all that it has.
func (r *runner) settingFacts(ctx context.Context, i int) (facts map[string]server.Fact, known []string, err error) {
	err = r.ask(ctx, i, func(ctx context.Context, conn *pgconn.PgConn) (err error) {
		if facts, err = server.Facts(ctx, conn, r.plan.Spec.settingNames()); err == nil {
			known, err = server.Names(ctx, conn)
		}
		return err
	})
	if err != nil {
		return nil, nil, r.lost(fmt.Errorf("read the settings of %s: %w", r.labels[i], err))
	}
	return facts, known, nil
}

// settle says what is common to the instances of each server, now that these
// have said what they know.
func (r *runner) settle(k *known, names []string) error {
	for i := range k.facts {
		k.segment = append(k.segment, r.plan.asked.segments(k.facts[i][walSegmentSize].WALSegment())[0])
	}
	if err := r.plan.asked.countable(*k, r.labels); err != nil {
		return err
	}
	asked, notes, err := r.plan.asked.rename(*k)
	if err != nil {
		return err
	}
	if err := r.unknownEverywhere(asked, *k, names); err != nil {
		return err
	}
	r.plan.asked = asked
	for _, n := range notes {
		r.log("%s", n)
		r.warn("setting-renamed", n, "none needed")
	}
	if notes, err = asked.absent(*k, r.labels, names); err != nil {
		return err
	}
	for _, n := range notes {
		r.warn("setting-absent", n, "compare it within the servers that have it")
	}
	for i := range k.base {
		if r.found[i].Conninfo != "" {
			continue
		}
		implied := slices.DeleteFunc(asked.implied(), func(l string) bool { return k.lacking[i][l] != "" })
		k.base[i].conf = withLibraries(k.local(i, asked.Conf), implied)
	}
	r.align(k, asked)
	return nil
}

// unknownEverywhere is the error of a setting that no server has.
func (r *runner) unknownEverywhere(asked Spec, k known, names []string) error {
	for _, a := range asked.Settings {
		if _, found := k.fact(a.Name); !found {
			if words := k.lacking[0][server.LibraryOf(a.Name)]; words != "" {
				return usagef("--set %s: %s does not load its library: %s%s", a.Name, r.labels[0], words, hint(a.Name, names))
			}
			return usagef("--set %s: %s has no such setting%s", a.Name, strings.Join(r.labels, ", "), hint(a.Name, names))
		}
	}
	return nil
}

// checkNormalized looks again at what the server made of the values, since
// 100us is 0 ms: a cell must run where that belongs.
func (r *runner) checkNormalized() error {
	baseline := r.plan.Spec.variants()[0]
	for _, c := range r.plan.Cells {
		if c.Status != "ok" || c.Schedule == server.BlockSchedule {
			continue
		}
		alike := r.plan.known.local(r.plan.Instances[c.instance].Server, baseline.settings)
		for _, s := range c.Settings {
			f, _ := r.plan.known.fact(s.Name)
			if s.Default || slices.Contains(alike, s) { // the same in every cell of its panel
				continue
			}
			if isolation, schedule, _, reason := server.Isolation(s.Name, c.ReadBack[s.Name], f.Context, f.Category); schedule == server.BlockSchedule {
				return usagef("--set %s: the server makes %s of it; %s, so such cells need isolation %s and schedule %s: say --set %s=%s, or %s=V1,V2@instance --schedule block",
					s, c.ReadBack[s.Name], reason, isolation, schedule, s.Name, strings.TrimSuffix(c.ReadBack[s.Name], " "+f.Unit), s.Name)
			}
		}
	}
	return nil
}

// makePanels lists what is measured, n/a left out.
func (r *runner) makePanels() {
	spec := r.plan.Spec
	text := ""
	switch b := spec.Workload.Builtin; {
	case b == nil:
		text = spec.Workload.Script.Text
	default:
		text = b.Script("t")
	}
	title := spec.Workload.Name()
	for i, planned := range r.plan.Panels {
		p := panel{index: i}
		p.ID, p.Workload, p.Mode, p.Protocol = planned.ID, title, string(planned.Mode), string(planned.Protocol)
		p.Clients, p.Threads, p.Script, p.Schedule, p.Pin = planned.Clients, planned.Threads, text, planned.Schedule, r.pin.String()
		p.Sessions = r.plan.Sessions(i)
		if r.plan.batches() > 1 && planned.Schedule == server.SliceSchedule {
			p.Batch = planned.Batch + 1
		}
		p.Engine = r.served(p.Clients)
		for _, k := range r.plan.panelCells(i) {
			if r.plan.Cells[k].Status == "ok" {
				p.cells = append(p.cells, k)
			}
		}
		r.panels = append(r.panels, p)
	}
}

// tryLimit is how long the script may take when it is tried.
const tryLimit = 10 * time.Minute

// try sends the script once on every server, with every combination of
// settings and with every combination of variables, so that an SQL error shows
// before anything is measured, in the server's words.
func (r *runner) try(ctx context.Context) error {
	r.stage("trying the script")
	for i := range r.instances {
		for k := range r.panels {
			p := &r.panels[k]
			tried := map[string]bool{}
			for _, n := range p.cells {
				c := r.plan.Cells[n]
				if c.instance != i || c.ControlOf != "" {
					continue
				}
				send := !tried[c.variant] || !tried[fmt.Sprint(c.Vars)]
				tried[c.variant], tried[fmt.Sprint(c.Vars)] = true, true
				if err := r.tryCell(ctx, p, n, send); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tryCell asks for the plans of a cell's statements, and sends them if told to.
func (r *runner) tryCell(ctx context.Context, p *panel, cell int, send bool) error {
	c := &r.plan.Cells[cell]
	conn, err := r.connect(ctx, c.instance, c.Settings...)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if Mode(p.Mode) == SingleTransaction {
		if _, err := conn.Exec(ctx, "BEGIN").ReadAll(); err != nil {
			return r.lost(fmt.Errorf("begin an SQL transaction on %s: %w", c.Server, err))
		}
	}
	s := r.script(p, cell, 0)
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	c.Plans = []string{}
	for _, command := range s.Commands {
		var err error
		if send {
			err = execute(ctx, conn, command, c.Vars, workload.Protocol(p.Protocol))
		}
		if err != nil {
			if ctx.Err() == context.DeadlineExceeded {
				return r.lost(fmt.Errorf("%s:%d: no answer from %s within %v", s.Name, command.Line, c.Server, tryLimit))
			}
			var pg *pgconn.PgError
			if errors.As(err, &pg) {
				return r.lost(fmt.Errorf("%s:%d: %s refuses the statement: %s: %s (SQLSTATE %s)%s%s", s.Name, command.Line, c.Server, pg.Severity, pg.Message, pg.Code, pgHint(pg), undefined(s, c.Vars)))
			}
			return r.lost(fmt.Errorf("%s:%d: send the statement to %s: %w", s.Name, command.Line, c.Server, err))
		}
		plan := queryPlan(ctx, conn, command, c.Vars, r.tableName(p, cell))
		if c.Plans = append(c.Plans, plan); !r.parallel && strings.Contains(plan, "Gather") {
			r.parallel = true
			r.warn("parallel-workers", fmt.Sprintf("%s:%d: the plan has parallel workers, whose CPU time is not in the backends' figures and which --pin does not hold", s.Name, command.Line),
				"pin max_parallel_workers_per_gather=0 in every cell (--set max_parallel_workers_per_gather=0)")
		}
	}
	return nil
}

// undefined names the first variable that nothing defines: in the simple
// protocol its reference is sent as it is, as pgbench does.
func undefined(s *script.Script, vars map[string]string) string {
	list := script.Undefined(s, vars)
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("; nothing defines :%s (--var %s=VALUES or -D %s=VALUE)", list[0].Name, list[0].Name, list[0].Name)
}

func pgHint(e *pgconn.PgError) string {
	if e.Hint == "" {
		return ""
	}
	return "; " + e.Hint
}

// execute sends one command as the engine will, and reads its result.
func execute(ctx context.Context, conn *pgconn.PgConn, c script.Command, vars map[string]string, protocol workload.Protocol) error {
	if protocol == workload.Simple {
		_, err := conn.Exec(ctx, script.Substitute(c, vars)).ReadAll()
		return err
	}
	sql, names := script.Placeholders(c)
	values := make([][]byte, len(names))
	for i, name := range names {
		if v, found := vars[name]; found {
			values[i] = []byte(v)
		}
	}
	return conn.ExecParams(ctx, sql, values, nil, nil, nil).Read().Err
}
