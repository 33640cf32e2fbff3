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

// probe proves every cell's settings on its server before anything is
// measured. What one server lacks and another has is n/a there; what none has
// is a mistake.
func (r *runner) probe(ctx context.Context) error {
	r.stage("probing")
	spec := r.plan.Spec
	variants := spec.variants()
	absent := make([]map[string]string, len(spec.Servers)) // setting -> the server's words
	facts := make([]map[string]server.Fact, len(spec.Servers))
	var known []string
	for i := range spec.Servers {
		var err error
		if facts[i], known, err = r.settingFacts(ctx, i); err != nil {
			return err
		}
		absent[i] = map[string]string{}
		for _, a := range spec.Settings {
			f, found := facts[i][a.Name]
			if !found {
				absent[i][a.Name] = fmt.Sprintf("%s has no setting %s", r.labels[i], a.Name)
				continue
			}
			if err := r.checkIsolation(a, f); err != nil {
				return err
			}
		}
	}
	if err := r.unknownEverywhere(absent, known); err != nil {
		return err
	}

	refused := map[string]map[int]string{} // variant's label -> server -> words
	for i := range spec.Servers {
		for _, v := range variants {
			settings, missing := present(v, variants[0], absent[i])
			var readBack map[string]string
			reason := missing
			if reason == "" {
				limited, cancel := r.bounded(ctx)
				var err error
				readBack, err = server.Probe(limited, r.instances[i].target.Config(), settings)
				cancel()
				var na *server.NotApplicable
				switch {
				case errors.As(err, &na):
					if v.label == "" {
						return usagef("%s refuses the baseline: %v; leave the setting out there, use another first value, or a role that may set it (GRANT SET ON PARAMETER from 15 on)", r.labels[i], na)
					}
					reason = na.Error()
					if refused[v.label] == nil {
						refused[v.label] = map[int]string{}
					}
					refused[v.label][i] = reason
				case err != nil:
					return r.lost(fmt.Errorf("probe %s on %s: %w", cmp.Or(v.label, "the baseline"), r.labels[i], err))
				}
			}
			if reason == "" {
				if err := r.checkNormalized(v, readBack, facts[i]); err != nil {
					return err
				}
			}
			for k := range r.plan.Cells {
				c := &r.plan.Cells[k]
				if r.plan.Instances[c.instance].Server != i || c.variant != v.label {
					continue
				}
				if reason != "" {
					c.Status, c.Reason = "n/a", reason
					continue
				}
				c.Settings, c.ReadBack = settings, readBack
				maps.DeleteFunc(c.Cell.Settings, func(name, _ string) bool { return absent[i][name] != "" })
			}
		}
	}
	for _, v := range variants {
		if words := refused[v.label]; len(words) == len(spec.Servers) {
			return usagef("--set %s: %s", v.label, words[0])
		}
	}
	for i := range spec.Servers {
		for _, name := range slices.Sorted(maps.Keys(absent[i])) {
			r.warn("setting-absent", fmt.Sprintf("%s, so its cells run without", absent[i][name]), "compare it within the servers that have it")
		}
	}
	r.makePanels()
	return nil
}

// present drops the settings that a server lacks from a variant; missing says
// why the variant itself is n/a: it differs from the baseline in one of them.
func present(v, baseline variant, absent map[string]string) (settings []server.Setting, missing string) {
	for k, s := range v.settings {
		words, gone := absent[s.Name]
		if gone && s.Value != baseline.settings[k].Value {
			return nil, words
		}
		if !gone {
			settings = append(settings, s)
		}
	}
	return settings, ""
}

// settingFacts reads what a server says about the matrix's settings, and the
// names of all that it has.
func (r *runner) settingFacts(ctx context.Context, i int) (map[string]server.Fact, []string, error) {
	conn, err := r.connect(ctx, i)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	facts, err := server.Facts(ctx, conn, r.settingNames())
	if err != nil {
		return nil, nil, r.lost(fmt.Errorf("read the settings of %s: %w", r.labels[i], err))
	}
	known, err := server.Names(ctx, conn)
	if err != nil {
		return nil, nil, r.lost(fmt.Errorf("read the settings of %s: %w", r.labels[i], err))
	}
	return facts, known, nil
}

// unknownEverywhere is the error of a setting that no server has.
func (r *runner) unknownEverywhere(absent []map[string]string, known []string) error {
	for _, a := range r.plan.Spec.Settings {
		lacking := 0
		for i := range absent {
			if absent[i][a.Name] != "" {
				lacking++
			}
		}
		if lacking == len(absent) {
			return usagef("--set %s: %s has no such setting%s", a.Name, strings.Join(r.labels, ", "), hint(a.Name, known))
		}
	}
	return nil
}

// checkIsolation refuses a setting whose cost would not stay in its own
// session's slices.
func (r *runner) checkIsolation(a SettingAxis, f server.Fact) error {
	if !r.plan.Spec.varies(a.Name) {
		return nil // the same in every cell: whatever it costs, it costs all of them
	}
	for _, v := range a.Values {
		inForce := v
		if strings.EqualFold(v, Default) {
			inForce = f.Value
		}
		assumed, err := isolated(a.Name, v, inForce, f)
		if err != nil {
			return err
		}
		if assumed {
			var cells []string
			for _, c := range r.plan.Cells {
				if slices.ContainsFunc(c.Settings, func(s server.Setting) bool { return s.Name == a.Name && s.Value == v }) {
					cells = append(cells, c.ID)
				}
			}
			r.warn("isolation-assumed", fmt.Sprintf("it is assumed, not known, that the cost of %s=%s stays in the session that sets it", a.Name, v),
				"check the result against a run in which every server has the setting for itself", cells...)
		}
	}
	return nil
}

// checkNormalized looks again at what the server made of the values: 100us is
// 0 ms.
func (r *runner) checkNormalized(v variant, readBack map[string]string, facts map[string]server.Fact) error {
	for _, s := range v.settings {
		if value, found := readBack[s.Name]; found && r.plan.Spec.varies(s.Name) {
			if _, err := isolated(s.Name, s.Value, value, facts[s.Name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// isolated refuses what needs more than a session of its own. asked is the
// value as the user gave it, inForce what it comes to.
func isolated(name, asked, inForce string, f server.Fact) (assumed bool, err error) {
	isolation, schedule, assumed, reason := server.Isolation(name, inForce, f.Context, f.Category)
	if isolation != server.SessionIsolation || schedule != server.SliceSchedule {
		return false, usagef("--set %s=%s: %s; such cells need isolation %s and schedule %s, which isn't built yet", name, asked, reason, isolation, schedule)
	}
	return assumed, nil
}

// varies says whether the cells differ in a setting.
func (s Spec) varies(name string) bool {
	for _, a := range s.Settings {
		if a.Name == name {
			return len(a.Values) > 1
		}
	}
	return false
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
		p.ID, p.Workload, p.Mode, p.Protocol = planned.ID, title, string(planned.Mode), string(spec.Protocol)
		p.Clients, p.Threads, p.Script, p.Schedule, p.Pin = spec.Clients, spec.Threads, text, "slice", r.pin.String()
		p.Sessions = r.plan.Sessions(i)
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
	for i := range r.plan.Spec.Servers {
		for k := range r.panels {
			p := &r.panels[k]
			tried := map[string]bool{}
			for _, n := range p.cells {
				c := r.plan.Cells[n]
				if c.instance != i || c.ControlOf != "" || tried[c.variant] && tried[fmt.Sprint(c.Vars)] {
					continue
				}
				tried[c.variant], tried[fmt.Sprint(c.Vars)] = true, true
				if err := r.tryCell(ctx, p, n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *runner) tryCell(ctx context.Context, p *panel, cell int) error {
	c := r.plan.Cells[cell]
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
	for _, command := range s.Commands {
		if err := execute(ctx, conn, command, c.Vars, workload.Protocol(p.Protocol)); err != nil {
			if ctx.Err() == context.DeadlineExceeded {
				return r.lost(fmt.Errorf("%s:%d: no answer from %s within %v", s.Name, command.Line, c.Server, tryLimit))
			}
			var pg *pgconn.PgError
			if errors.As(err, &pg) {
				return r.lost(fmt.Errorf("%s:%d: %s refuses the statement: %s: %s (SQLSTATE %s)%s%s", s.Name, command.Line, c.Server, pg.Severity, pg.Message, pg.Code, pgHint(pg), undefined(s, c.Vars)))
			}
			return r.lost(fmt.Errorf("%s:%d: send the statement to %s: %w", s.Name, command.Line, c.Server, err))
		}
		if !r.parallel && planned(ctx, conn, command, c.Vars) {
			r.parallel = true
			r.warn("parallel-workers", fmt.Sprintf("%s:%d: the plan has parallel workers, whose CPU time is not in the backends' figures and which --pin does not hold", s.Name, command.Line),
				"pin max_parallel_workers_per_gather=0 in every cell (--set max_parallel_workers_per_gather=0)")
		}
	}
	return nil
}

// planned says whether a query's plan gathers from parallel workers. What
// can't be explained (the SQL transaction may be over, too) isn't looked at.
func planned(ctx context.Context, conn *pgconn.PgConn, c script.Command, vars map[string]string) bool {
	sql := script.Substitute(c, vars)
	if word := strings.ToUpper(strings.TrimSpace(sql)); !strings.HasPrefix(word, "SELECT") && !strings.HasPrefix(word, "WITH") {
		return false
	}
	results, err := conn.Exec(ctx, "EXPLAIN "+sql).ReadAll()
	if err != nil {
		return false
	}
	for _, res := range results {
		for _, row := range res.Rows {
			if len(row) > 0 && strings.Contains(string(row[0]), "Gather") {
				return true
			}
		}
	}
	return false
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
