package matrix

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/server"
	"pgtare/workload"
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
				name := s.Name
				if f, found := r.plan.known.fact(s.Name); found {
					name = f.Name // as the servers call it
				}
				reason, needs := server.CanAct(name, r.serverWorkload(p, n))
				if reason == "" && needs != server.NeedsNothing {
					var err error
					if reason, err = r.unmet(ctx, p, n, needs); err != nil {
						return err
					}
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

// unmet says what a setting needs and the workload does not do, going by the
// server's counters; "" where it does. The first pass fills the caches and
// isn't counted; of the others one without the activity is enough, because a
// checkpoint or an autovacuum may have been counted in the rest.
func (r *runner) unmet(ctx context.Context, p *panel, cell int, needs server.Needs) (string, error) {
	conn, err := r.connect(ctx, r.plan.Cells[cell].instance)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for pass := range 3 {
		before, err := r.counters(ctx, conn)
		if err != nil {
			return "", err
		}
		l, err := r.openCell(ctx, p, cell, 0)
		if err != nil {
			return "", r.lost(err)
		}
		// By time, too: a long transaction needs no thousand of its kind.
		for began, n := time.Now(), 0; err == nil && n < exerciseTransactions && (n == 0 || time.Since(began) < 200*time.Millisecond); n += 10 {
			_, err = r.slice(ctx, &l, workload.Slice{Count: 10})
		}
		l.close()
		if err != nil {
			return "", r.lost(err)
		}
		after, err := r.counters(ctx, conn)
		if err != nil {
			return "", err
		}
		if reason := needs.Unmet(after.Sub(before)); pass > 0 && reason != "" {
			return reason, nil
		}
	}
	return "", nil
}

func (r *runner) counters(ctx context.Context, conn *pgconn.PgConn) (server.Counters, error) {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	c, err := server.IOCounters(ctx, conn)
	return c, r.lost(err)
}
