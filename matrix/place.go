package matrix

import (
	"fmt"
	"slices"
	"strings"

	"pgtare/matrix/server"
)

// known is what the servers say of the settings. Empty before they have been
// asked: then the table of package server decides alone, and a setting that it
// lacks is taken for one that stays in its session.
type known struct {
	facts   []map[string]server.Fact // by server and the name asked for
	refused []map[string]string      // by server and setting: its words, when it would not start with it
}

// has says whether a server has a setting, as far as is known.
func (k known) has(i int, name string) bool {
	if k.facts == nil {
		return true
	}
	_, found := k.facts[i][name]
	return found
}

// fact is what the first server that has a setting says of it.
func (k known) fact(name string) (f server.Fact, found bool) {
	for _, facts := range k.facts {
		if f, found = facts[name]; found {
			return f, true
		}
	}
	return server.Fact{}, false
}

// lacks says why a variant can't be had on a server: it differs from the
// baseline in a setting that the server doesn't have, or not with this value.
// "" where it can.
func (k known) lacks(i int, v, baseline variant) string {
	for n, s := range v.settings {
		if s.Value == baseline.settings[n].Value {
			continue
		}
		if !k.has(i, s.Name) {
			return fmt.Sprintf("the server has no setting %s", s.Name)
		}
		if k.refused != nil && k.refused[i][s.String()] != "" {
			return k.refused[i][s.String()]
		}
	}
	return ""
}

// running is where a variant's cells run, and how.
type running struct {
	isolation, schedule string
	assumed             []server.Setting // of which only their category speaks for this
}

// runningOf looks a variant up: the strongest of what its differences from the
// baseline ask for. It refuses what pgtare can't do.
func (p *Plan) runningOf(v, baseline variant) (out running, err error) {
	out = running{isolation: server.SessionIsolation, schedule: server.SliceSchedule}
	for n, s := range v.settings {
		from := baseline.settings[n]
		if s.Value == from.Value {
			continue
		}
		for _, side := range []server.Setting{from, s} {
			isolation, schedule, assumed, err := p.look(side)
			if err != nil {
				return out, err
			}
			if p.Spec.Settings[n].Instance {
				isolation = server.InstanceIsolation
			}
			if isolation == server.InstanceIsolation {
				out.isolation = isolation
			}
			if schedule == server.BlockSchedule {
				out.schedule = schedule
			}
			if assumed {
				out.assumed = append(out.assumed, side)
			}
		}
	}
	if out.isolation == server.InstanceIsolation && p.Spec.attached() {
		out.schedule = server.BlockSchedule // there is but one instance, and it has one configuration at a time
	}
	if p.Spec.Schedule != "" {
		out.schedule = p.Spec.Schedule
	}
	return out, nil
}

// look looks one value up.
func (p *Plan) look(s server.Setting) (isolation, schedule string, assumed bool, err error) {
	f, found := p.known.fact(s.Name)
	if !found {
		f = server.Fact{Context: "user", Category: "Query Tuning"} // until a server is asked
	}
	value := s.Value
	if s.Default {
		value = f.Value
	}
	isolation, schedule, assumed, reason := server.Isolation(s.Name, value, f.Context, f.Category)
	switch {
	case isolation == server.ClusterIsolation || isolation == server.ConnectionIsolation:
		return "", "", false, usagef("--set %s: %s; such cells need isolation %s, which isn't built yet", s, reason, isolation)
	case configured(f):
		isolation = server.InstanceIsolation
	}
	return isolation, schedule, assumed && found, nil
}

// configured says whether a setting is given in the server's configuration and
// nowhere else.
func configured(f server.Fact) bool {
	return slices.Contains([]string{"sighup", "postmaster"}, f.Context)
}

// split divides the settings of a panel into those that its sessions give and
// those in the configuration of its instances.
type split struct {
	inConf []bool // by axis
}

// split: the configuration takes what sessions can't give, and what some row
// needs an instance for: what acts on all sessions and on the processes behind
// them must be in force there, too.
func (p *Plan) split(variants []variant, rows []int) split {
	s := split{inConf: make([]bool, len(p.Spec.Settings))}
	for n, a := range p.Spec.Settings {
		f, found := p.known.fact(a.Name)
		s.inConf[n] = a.Instance || found && configured(f)
		for _, k := range rows {
			only := variants[0] // with this one difference
			only.settings = slices.Clone(only.settings)
			only.settings[n] = variants[k].settings[n]
			if at, err := p.runningOf(only, variants[0]); err == nil && at.isolation == server.InstanceIsolation {
				s.inConf[n] = true
			}
		}
	}
	return s
}

// configures says whether anything is in the configuration.
func (s split) configures() bool { return slices.Contains(s.inConf, true) }

// of divides a variant's settings. A default in the configuration is what
// isn't there.
func (s split) of(v variant) (session, conf []server.Setting) {
	for n, x := range v.settings {
		switch {
		case !s.inConf[n]:
			session = append(session, x)
		case !x.Default:
			conf = append(conf, x)
		}
	}
	return session, conf
}

// confLine lists settings for the plan.
func confLine(conf []server.Setting) string {
	parts := make([]string, len(conf))
	for i, s := range conf {
		parts[i] = s.String()
	}
	return strings.Join(parts, " ")
}
