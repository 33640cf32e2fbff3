package matrix

import (
	"time"

	"pgtare/matrix/host"
	"pgtare/results"
)

// watching is a look at the machine when something begins.
type watching struct {
	r       *runner
	began   time.Time
	reading host.Reading
	servers []time.Duration // CPU of the managed instances; -1: not known
}

func (r *runner) watch() watching {
	return watching{r, time.Now(), host.Watch(r.usable()), r.serverCPU()}
}

// since is what the machine has done meanwhile: a line of the record without
// its panel, run and generation.
func (w watching) since(cell string) results.Machine {
	servers := w.r.serverCPU()
	m := host.Watch(w.r.usable()).Since(w.reading)
	m.Cell, m.Started = cell, w.began.UTC()
	for i, before := range w.servers {
		switch {
		case m.OwnNs < 0 || w.r.instances[i].managed == nil:
		case before < 0 || servers[i] < 0:
			m.OwnNs = -1
		default:
			// An instance that was started anew counts from 0 again.
			m.OwnNs += int64(max(0, servers[i]-before))
		}
	}
	return m
}

func (r *runner) serverCPU() []time.Duration {
	list := make([]time.Duration, len(r.instances))
	for i, inst := range r.instances {
		if inst.managed == nil || inst.managed.PID() == 0 { // not ours, or stopped
			continue
		}
		list[i] = inst.cpu()
	}
	return list
}
