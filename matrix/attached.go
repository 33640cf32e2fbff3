package matrix

import (
	"context"
	"fmt"

	"pgtare/matrix/host"
	"pgtare/matrix/server"
	"pgtare/results"
)

// attached says whether the only server is somebody else's.
func (s Spec) attached() bool { return s.Servers[0].Kind == server.Conninfo }

// attach attaches to the only server, once: the plan's instances of it are all
// the same one, configured for each in turn.
func (r *runner) attach(ctx context.Context) (*server.Attached, error) {
	if r.attached != nil {
		return r.attached, nil
	}
	cfg := server.AttachConfig{Journal: r.keepJournal, Died: r.died, Log: r.cfg.Log}
	if b := r.plan.Spec.Workload.Builtin; b != nil && b.Writes {
		cfg.Writes = b.Name
	}
	// Longer than a question, where it waits for a dead one's session to end.
	limited, cancel := context.WithTimeout(ctx, 2*r.grace())
	defer cancel()
	a, err := server.Attach(limited, r.found[0], cfg)
	if err != nil {
		return nil, err
	}
	r.attached = a
	// A forwarded socket looks like one of this machine's.
	if len(r.plan.Spec.Clocksources) > 0 && !a.LocalPID() {
		return nil, usagef("--clocksource: the processes of %s are not to be seen on this machine, and the clock of another can't be switched from here; run pgtare where they are (and outside of a container)", a.Label())
	}
	if r.died {
		if err := r.undoOn(ctx, a); err != nil {
			return nil, err
		}
	}
	if source, reason := a.CPUSource(); source == "" {
		r.warn("server-cpu-unknown", fmt.Sprintf("the CPU time of the backends of %s is not known: %s", a.Label(), reason),
			"measure on the server's machine, or with a role that may read its files")
	}
	return a, nil
}

// configure gives an attached server the configuration of one of the plan's
// instances, as long as it hasn't got it; of managed ones it has those run that
// there is room for. Whoever connects to an instance comes through here.
func (r *runner) configure(ctx context.Context, i int) (err error) {
	inst := &r.instances[i]
	if inst.attached == nil {
		return r.enter(ctx, i)
	}
	if len(inst.planned.Conf) > 0 && !r.undone {
		if err := r.undoneFirst(inst.attached); err != nil {
			return err
		}
		r.undone = true
	}
	// Longer than a question: two sessions, a reload, and the proof.
	ctx, cancel := context.WithTimeout(ctx, 3*r.grace())
	defer cancel()
	proven, err := inst.attached.Configure(ctx, inst.planned.Conf)
	if err != nil {
		return err
	}
	inst.proven = proven
	return nil
}

// undoneFirst refuses to take for a server's own configuration what an earlier
// pgtare has left there.
func (r *runner) undoneFirst(a *server.Attached) error {
	dir, err := journalDir()
	if err != nil {
		return err
	}
	// What can't be read there was said at the start. Of what another pgtare
	// holds, it may be undoing what a dead one left.
	standing, _ := host.Standing(dir, r.journal)
	for _, p := range standing {
		switch {
		case !a.IsOf(p.Kind, p.Data):
		case p.Held:
			return usagef("another pgtare holds a journal of what must be put back in the configuration of %s first; wait for its end, then see pgtare restore", a.Label())
		default:
			return usagef("what an earlier pgtare has left in the configuration of %s must be put back first: pgtare restore", a.Label())
		}
	}
	return nil
}

// others are the sessions of others that were seen on the attached server.
type others struct {
	looks, busy  int // how often it was looked, and some were at work
	most, hidden int // at work at once; of which it can't be seen
}

// stillConfigured doubts what was measured on an attached server whose
// configuration is not what pgtare has made it any more.
func (r *runner) stillConfigured(ctx context.Context, cell string) error {
	if r.attached == nil {
		return nil
	}
	limited, cancel := r.bounded(ctx)
	defer cancel()
	what, err := r.attached.Meddled(limited)
	if err != nil {
		return r.lost(err)
	}
	if what != "" {
		r.warnForbidding(results.ForbidsVerdict, "configuration-changed", fmt.Sprintf("somebody has changed the configuration of %s while this was measured: %s", r.attached.Label(), what),
			"measure while nobody else configures the server", cell)
	}
	return nil
}

// lookForOthers counts who else is at work on the attached server, while none
// of pgtare's own sessions is. Without the session that looks, which keeps
// another pgtare away, the run can't go on.
func (r *runner) lookForOthers(ctx context.Context) error {
	if r.attached == nil {
		return nil
	}
	limited, cancel := r.bounded(ctx)
	defer cancel()
	active, hidden, err := r.attached.Others(limited)
	if err != nil {
		return r.lost(err)
	}
	o := &r.others
	if o.looks++; active > 0 {
		o.busy++
	}
	o.most, o.hidden = max(o.most, active), max(o.hidden, hidden)
	return nil
}

func (r *runner) warnOfOthers() {
	o := r.others
	if o.busy > 0 {
		r.warn("other-sessions", fmt.Sprintf("other sessions were at work on %s in %d of %d looks between the generations, up to %d at once", r.attached.Label(), o.busy, o.looks, o.most),
			"measure while nobody else uses the server")
	}
	if o.hidden > 0 {
		r.warn("other-sessions-hidden", fmt.Sprintf("up to %d sessions of others were open on %s, and this role may not see whether they work", o.hidden, r.attached.Label()),
			"use a role with pg_read_all_stats (GRANT pg_read_all_stats)")
	}
}
