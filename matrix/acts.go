package matrix

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/server"
	"pgtare/workload"
	"pgtare/workload/script"
)

// exerciseTransactions are sent to see whether the server reads, writes or
// logs anything for the workload: many enough for rows to fill pages.
const exerciseTransactions = 1000

// exercise marks the cells whose settings can't act under their workload: they
// are measured, but "costs nothing" would be said of nothing. A cell with
// several settings is exercised if one of them is.
func (r *runner) exercise(ctx context.Context) error {
	r.stage("asking what the settings can act on")
	variants := map[string]variant{}
	for _, v := range r.plan.Spec.variants() {
		variants[v.label] = v
	}
	baseline := variants[""]
	for k := range r.panels {
		p := &r.panels[k]
		for _, n := range p.cells {
			c := &r.plan.Cells[n]
			if c.variant == "" {
				continue
			}
			var reasons []string
			acts := false
			// All that it differs in, whether sessions give it or the configuration.
			for _, s := range variants[c.variant].settings {
				if s.Value == baseline.value(s.Name) {
					continue
				}
				reason, err := r.idle(ctx, p, n, s, variants[c.variant], baseline)
				if err != nil {
					return err
				}
				if reason == "" {
					acts = true
					break
				}
				reasons = append(reasons, s.Name+": "+reason)
			}
			if !acts {
				c.NotExercised = strings.Join(reasons, "; ")
			}
		}
	}
	return nil
}

func (v variant) value(name string) string {
	for _, s := range v.settings {
		if s.Name == name {
			return s.Value
		}
	}
	return ""
}

func (r *runner) serverWorkload(p *panel, cell int) server.Workload {
	w := server.Workload{SingleTransaction: Mode(p.Mode) == SingleTransaction, Protocol: p.Protocol, Clients: p.Clients}
	if b := r.plan.Spec.Workload.Builtin; b != nil {
		w.Builtin = b.Name
	}
	_, napping := r.plan.known.fact("autovacuum_naptime")
	if w.Longest = r.plan.Spec.Duration; r.plan.Spec.Transactions > 0 || napping {
		w.Longest = maxDuration // how long they take, or autovacuum sleeps, isn't known
	}
	for _, c := range r.script(p, cell, 0).Commands {
		w.Statements = append(w.Statements, c.SQL)
		w.Parameters = w.Parameters || len(c.Vars) > 0 && p.Protocol != string(workload.Simple)
	}
	return w
}

// idle says why a setting of a cell can't have acted: by its nature, or because
// the server doesn't show what it must show for this value, or for the
// baseline's; "" where it may have.
func (r *runner) idle(ctx context.Context, p *panel, cell int, s server.Setting, v, baseline variant) (string, error) {
	name, now, before := s.Name, s.Value, baseline.value(s.Name)
	if f, found := r.plan.known.fact(s.Name); found {
		name = f.Name // as the servers call it
		if s.Default {
			now = f.Value
		}
		if strings.EqualFold(before, Default) {
			before = f.Value
		}
	}
	reason, needs := server.CanAct(name, r.serverWorkload(p, cell))
	if reason != "" {
		return reason, nil
	}
	// Of two values that must show something one is enough, for they differ.
	here, there := server.Shows(name, now), server.Shows(name, before)
	if isPreload(name) && strings.EqualFold(v.value("pg_stat_statements.track"), "none") {
		here = server.NeedsNothing // loaded, and told to count nothing
	}
	if here == server.NeedsNothing && there == server.NeedsNothing {
		return r.unmet(ctx, p, cell, needs)
	}
	if here != server.NeedsNothing {
		if reason, err := r.unmet(ctx, p, cell, here); err != nil || reason == "" || there == server.NeedsNothing {
			return reason, err
		}
	}
	return r.unmet(ctx, p, r.baselineOf(p, cell), there)
}

// baselineOf is the cell that a cell is compared with along the settings.
func (r *runner) baselineOf(p *panel, cell int) int {
	for _, c := range r.plan.Comparisons {
		if c.Cell == r.plan.Cells[cell].ID && c.Axis == "setting" {
			return slices.IndexFunc(r.plan.Cells, func(x Cell) bool { return x.ID == c.Against })
		}
	}
	return p.cells[0] // it repeats a cell; the panel's first is its baseline
}

// activity is what a server has done so far.
type activity struct {
	server.Counters
	log        int64 // bytes, while a load ran
	statements int64 // counted by pg_stat_statements
}

func (a activity) sub(b activity) activity {
	return activity{Counters: a.Counters.Sub(b.Counters), statements: a.statements - b.statements}
}

// unmet is why an activity doesn't show what is needed.
func (a activity) unmet(needs server.Needs) string {
	switch {
	case needs == server.NeedsLog && a.log <= 0:
		return fmt.Sprintf("nothing was written to the server's log in %d transactions", a.Transactions)
	case needs == server.NeedsStatements && a.statements < a.Transactions/2:
		return fmt.Sprintf("pg_stat_statements has counted %d executions in %d transactions", a.statements, a.Transactions)
	}
	return needs.Unmet(a.Counters)
}

// unmet says what a setting needs and the workload does not do, going by the
// server's counters; "" where it does. The first pass fills the caches and
// isn't counted; of the others one without the activity is enough, because a
// checkpoint or an autovacuum may have been counted in the rest.
func (r *runner) unmet(ctx context.Context, p *panel, cell int, needs server.Needs) (string, error) {
	i := r.plan.Cells[cell].instance
	switch needs {
	case server.NeedsNothing:
		return "", nil
	case server.NeedsJIT:
		return r.uncompiled(ctx, p, cell)
	case server.NeedsHugePages:
		return r.smallPages(ctx, i)
	case server.NeedsLog, server.NeedsStatements:
		if r.instances[i].managed == nil {
			return "", nil // neither is ours to look at
		}
	}
	conn, err := r.connect(ctx, i)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for pass := range 3 {
		before, err := r.activity(ctx, conn, i, needs)
		if err != nil {
			return "", err
		}
		l, err := r.openCell(ctx, p, cell, 0)
		if err != nil {
			return "", r.lost(err)
		}
		// The sessions that read the counters may log what they do: only what
		// comes while the load runs is the cell's.
		logged := -r.logBytes(i)
		// By time, too: a long transaction needs no thousand of its kind.
		for began, n := time.Now(), 0; err == nil && n < exerciseTransactions && (n == 0 || time.Since(began) < 200*time.Millisecond); n += 10 {
			_, err = r.slice(ctx, &l, workload.Slice{Count: 10})
		}
		l.close()
		if err != nil {
			return "", r.lost(err)
		}
		if needs == server.NeedsLog {
			time.Sleep(logDelay)
		}
		logged += r.logBytes(i)
		after, err := r.activity(ctx, conn, i, needs)
		if err != nil {
			return "", err
		}
		did := after.sub(before)
		did.log = logged
		if reason := did.unmet(needs); pass > 0 && reason != "" {
			return reason, nil
		}
	}
	return "", nil
}

// logDelay is how late the logging collector may write what it has got.
const logDelay = 50 * time.Millisecond

func (r *runner) logBytes(i int) int64 {
	if m := r.instances[i].managed; m != nil {
		return m.LogBytes()
	}
	return 0
}

// activity reads what is needed of it, but for the log.
func (r *runner) activity(ctx context.Context, conn *pgconn.PgConn, i int, needs server.Needs) (a activity, err error) {
	if a.Counters, err = r.counters(ctx, conn); err != nil {
		return a, err
	}
	if needs == server.NeedsStatements {
		limited, cancel := r.bounded(ctx)
		defer cancel()
		a.statements, err = r.instances[i].managed.StatementsCounted(limited)
	}
	return a, r.lost(err)
}

// uncompiled says that no plan of the cell's is compiled, "" where one is or
// where it can't be told.
func (r *runner) uncompiled(ctx context.Context, p *panel, cell int) (string, error) {
	c := r.plan.Cells[cell]
	conn, err := r.connect(ctx, c.instance, c.Settings...)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	explained := false
	for _, command := range r.script(p, cell, 0).Commands {
		plan, ok := explain(ctx, conn, command, c.Vars)
		if strings.Contains(plan, "JIT:") {
			return "", nil
		}
		explained = explained || ok
	}
	if !explained {
		return "", nil
	}
	return "no plan is costly enough to be compiled (jit_above_cost)", nil
}

// explain returns a statement's plan as text; ok is false where there is none.
func explain(ctx context.Context, conn *pgconn.PgConn, c script.Command, vars map[string]string) (plan string, ok bool) {
	sql := script.Substitute(c, vars)
	if !hasPlan(sql) {
		return "", false
	}
	// With its costs: without them it doesn't tell what is compiled.
	res := conn.ExecParams(ctx, "EXPLAIN "+sql, nil, nil, nil, nil).Read()
	if res.Err != nil {
		return "", false
	}
	for _, row := range res.Rows {
		plan += string(row[0]) + "\n"
	}
	return plan, true
}

// smallPages says that an instance got no huge pages, "" where it did or nobody
// knows.
func (r *runner) smallPages(ctx context.Context, i int) (reason string, err error) {
	if r.instances[i].managed == nil {
		return "", nil
	}
	err = r.ask(ctx, i, func(ctx context.Context, conn *pgconn.PgConn) error {
		huge, known, err := server.HugePages(ctx, conn, r.instances[i].managed.PID())
		if known && !huge {
			reason = "the kernel gave the server no huge pages; reserve some (sysctl vm.nr_hugepages)"
		}
		return err
	})
	return reason, r.lost(err)
}

func (r *runner) counters(ctx context.Context, conn *pgconn.PgConn) (server.Counters, error) {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	c, err := server.IOCounters(ctx, conn)
	return c, r.lost(err)
}
