package matrix

import (
	"context"
	"fmt"
	"time"

	"pgtare/matrix/host"
	"pgtare/matrix/server"
	"pgtare/results"
)

// takeClock makes sure, before anything is changed or started, that the kernel's
// clock source can be switched as the matrix asks, and that its servers live
// under that kernel. From then on no other pgtare may switch it.
func (r *runner) takeClock(context.Context) error {
	sources := r.plan.Spec.Clocksources
	if len(sources) == 0 {
		return nil
	}
	for _, spec := range r.plan.Spec.Servers {
		if address, err := server.Elsewhere(spec); err != nil {
			return err
		} else if address != "" {
			return usagef("--clocksource: %s is reached over TCP (%s), and the clock of the machine it runs on can't be switched from here; "+
				"run pgtare on that machine and connect through the server's Unix socket", spec, address)
		}
	}
	if err := host.CheckClocksources(sources); err != nil {
		return usagef("--clocksource: %v", err)
	}
	journal, err := r.keepJournal()
	if err != nil {
		return err
	}
	if r.clock, err = host.OpenClockSwitch(sources, journal); err != nil {
		return err
	}
	if len(sources) > 1 {
		r.counter = host.NewCounter()
	}
	return nil
}

// useClock switches to the clock source of a cell, anew before what is measured.
func (r *runner) useClock(cell int, measured bool) error {
	switch source := r.plan.Cells[cell].Clock; {
	case r.clock == nil:
		return nil
	case measured:
		return r.clock.SetAnew(source)
	default:
		return r.clock.Set(source)
	}
}

func (r *runner) clockSpent() time.Duration {
	if r.clock == nil {
		return 0
	}
	return r.clock.Spent()
}

// ownClock is what the engine reads instead of the kernel's clock; nil: nothing.
func (r *runner) ownClock() func() int64 {
	if r.counter == nil {
		return nil
	}
	return r.counter.Now
}

// weighClocks measures what a read costs under each source of the matrix, for
// the record, and leaves the baseline's in force.
func (r *runner) weighClocks(e *results.Environment) error {
	if r.clock == nil {
		return nil
	}
	sources := r.plan.Spec.Clocksources
	for i := range sources {
		s := sources[len(sources)-1-i] // the baseline's last
		if err := r.clock.Set(s); err != nil {
			return fmt.Errorf("time the clock: %w", err)
		}
		c := results.Clock{Source: s, ReadNs: host.ClockRead()}
		e.Clocks = append([]results.Clock{c}, e.Clocks...)
	}
	e.Clocksource, e.ClockReadNs = e.Clocks[0].Source, e.Clocks[0].ReadNs
	// The engine net reads the kernel's clock, as Go's runtime does for it at
	// every deadline.
	if e.OwnClock = "clocksource"; r.counter != nil && r.engine != Net {
		e.OwnClock = "counter"
	}
	return nil
}

// releaseClock puts back what was there before.
func (r *runner) releaseClock() error {
	if r.clock == nil {
		return nil
	}
	if err := r.clock.Close(); err != nil {
		return fmt.Errorf("%w; pgtare restore tries again", err)
	}
	return nil
}
