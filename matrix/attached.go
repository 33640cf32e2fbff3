package matrix

import (
	"context"
	"fmt"

	"pgtare/matrix/host"
	"pgtare/matrix/server"
)

// attached says whether the only server is somebody else's.
func (s Spec) attached() bool { return s.Servers[0].Kind == server.Conninfo }

// attach attaches to the only server, once: the plan's instances of it are all
// the same one, configured for each in turn.
func (r *runner) attach(ctx context.Context) (*server.Attached, error) {
	if r.attached != nil {
		return r.attached, nil
	}
	cfg := server.AttachConfig{Journal: r.keepJournal, Log: r.cfg.Log}
	if b := r.plan.Spec.Workload.Builtin; b != nil && b.Writes {
		cfg.Writes = b.Name
	}
	limited, cancel := r.bounded(ctx)
	defer cancel()
	a, err := server.Attach(limited, r.found[0], cfg)
	if err != nil {
		return nil, err
	}
	r.attached = a
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
	left, _ := host.Leftover(dir) // what can't be read there was said at the start
	ours := false
	for i := range left {
		ours = ours || a.IsOf(left[i].Kind, left[i].Data)
		if err := left[i].Release(); err != nil {
			return err
		}
	}
	if ours {
		return usagef("what an earlier pgtare has left in the configuration of %s must be put back first: pgtare restore", a.Label())
	}
	return nil
}

// others are the sessions of others that were seen on the attached server.
type others struct {
	looks, busy  int // how often it was looked, and some were at work
	most, hidden int // at work at once; of which it can't be seen
}

// lookForOthers counts who else is at work on the attached server, while none
// of pgtare's own sessions is.
func (r *runner) lookForOthers(ctx context.Context) {
	if r.attached == nil {
		return
	}
	limited, cancel := r.bounded(ctx)
	defer cancel()
	active, hidden, err := r.attached.Others(limited)
	if err != nil {
		return // what it means for the measurement shows there
	}
	o := &r.others
	if o.looks++; active > 0 {
		o.busy++
	}
	o.most, o.hidden = max(o.most, active), max(o.hidden, hidden)
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
