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
	servers []time.Duration // CPU of the instances, see serverCPU; -1: not known
	spent   time.Duration   // switching clock sources
}

func (r *runner) watch() watching {
	return watching{r, time.Now(), host.Watch(r.usable()), r.serverCPU(), r.clockSpent()}
}

// since is what the machine has done meanwhile: a line of the record without
// its panel, run and generation.
func (w watching) since(cell string) results.Machine {
	servers := w.r.serverCPU()
	m := host.Watch(w.r.usable()).Since(w.reading)
	m.Cell, m.Started = cell, w.began.UTC()
	for i, before := range w.servers {
		switch {
		case m.OwnNs < 0:
		case before < 0 || servers[i] < 0:
			m.OwnNs = -1
		default:
			// An instance that was started anew counts from 0 again.
			m.OwnNs += int64(max(0, servers[i]-before))
		}
	}
	// The kernel's threads hold every CPU still while the clock source is
	// switched: that is nobody else's load.
	if m.OwnNs >= 0 {
		m.OwnNs += int64(w.r.clockSpent()-w.spent) * int64(m.CPUs)
	}
	return m
}

// serverCPU is the CPU time of each instance; 0 for one that is stopped, or is
// on another machine. An attached server, which all instances are, has it once.
func (r *runner) serverCPU() []time.Duration {
	list := make([]time.Duration, len(r.instances))
	for i, inst := range r.instances {
		switch {
		case inst.managed != nil && inst.managed.PID() == 0:
			continue
		case inst.attached != nil && (!inst.attached.LocalPID() || i > 0):
			continue
		}
		list[i] = inst.cpu()
	}
	return list
}
