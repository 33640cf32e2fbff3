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
	facts   []map[string]server.Fact    // by server and the name asked for
	refused []map[server.Setting]string // by server and setting: its words, when it would not start with it
	base    []configuration             // by server: what all its instances have
	lacking []map[string]string         // by server and library: its words, when it would not load it
	segment []int64                     // by server: the size of its clusters' WAL segments in bytes, 0: not known
}

// indices of the servers.
func (k known) indices() (list []int) {
	for i := range k.facts {
		list = append(list, i)
	}
	return list
}

// knows says whether a server has a setting by this very name.
func (k known) knows(i int) func(name string) bool {
	return func(name string) bool {
		f, found := k.facts[i][name]
		return found && strings.EqualFold(f.Name, name)
	}
}

// local is what a server calls the settings; those that it doesn't have are
// left out.
func (k known) local(i int, settings []server.Setting) (list []server.Setting) {
	if k.facts == nil {
		return settings
	}
	for _, s := range settings {
		list = append(list, k.localOf(i, s)...)
	}
	return list
}

// localOf is what a server calls one setting, of which it says what it knows.
func (k known) localOf(i int, s server.Setting) []server.Setting {
	var segment int64
	if i < len(k.segment) {
		segment = k.segment[i]
	}
	return server.Local(s, k.knows(i), segment)
}

// refusal is the words with which a server refused a setting; "" where it
// didn't.
func (k known) refusal(i int, s server.Setting) string {
	if k.refused == nil {
		return ""
	}
	for _, l := range k.local(i, []server.Setting{s}) {
		if words := k.refused[i][l]; words != "" {
			return words
		}
	}
	return ""
}

// has says whether a server has a setting, as far as is known.
func (k known) has(i int, name string) bool {
	if k.facts == nil {
		return true
	}
	_, found := k.facts[i][name]
	return found
}

// fact is what a server says of a setting: the one on which it is hardest to
// set, where versions differ in that, for what can be done there can be done on
// all; of equals the first.
func (k known) fact(name string) (f server.Fact, found bool) {
	for _, facts := range k.facts {
		if g, has := facts[name]; has && (!found || slices.Index(contexts, g.Context) > slices.Index(contexts, f.Context)) {
			f, found = g, true
		}
	}
	return f, found
}

// contexts of pg_settings, the easiest to set first.
var contexts = []string{"user", "superuser", "backend", "superuser-backend", "sighup", "postmaster", "internal"}

// lacks says why a variant can't be had on a server: it differs from the
// baseline in a setting that the server doesn't have, or not with this value.
// "" where it can.
func (p *Plan) lacks(i int, v, baseline variant) string {
	for n, s := range v.settings {
		if s.Value == baseline.settings[n].Value {
			continue
		}
		library := server.LibraryOf(s.Name)
		switch {
		case p.known.lacking != nil && p.known.lacking[i][library] != "":
			return fmt.Sprintf("%s: the server does not load its library: %s", s.Name, p.known.lacking[i][library])
		case !p.known.has(i, s.Name):
			return fmt.Sprintf("the server has no setting %s", s.Name)
		case p.homeless(i, v, s):
			return fmt.Sprintf("%s: its library %s is not loaded in this cell", s.Name, library)
		case p.known.refusal(i, s) != "":
			return p.known.refusal(i, s)
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
			isolation, schedule, assumed, err := p.look(side, p.Spec.Settings[n])
			if err != nil {
				return out, err
			}
			if p.Spec.Settings[n].Instance && isolation == server.SessionIsolation {
				isolation = server.InstanceIsolation
			}
			if isolation == server.ClusterIsolation || isolation == server.InstanceIsolation && out.isolation == server.SessionIsolation {
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

// look looks one value of an axis up.
func (p *Plan) look(s server.Setting, axis SettingAxis) (isolation, schedule string, assumed bool, err error) {
	if axis.Cluster {
		// Clusters of their own disturb each other no more than any instances
		// do, as long as nothing is written.
		if p.Spec.Workload.readsOnly() {
			return server.ClusterIsolation, server.SliceSchedule, false, nil
		}
		return server.ClusterIsolation, server.BlockSchedule, false, nil
	}
	f, found := p.known.fact(s.Name)
	if !found {
		f = server.Fact{Context: "user", Category: "Query Tuning"} // until a server is asked
	}
	value := s.Value
	if s.Default {
		value = f.Value
	}
	name := s.Name
	if found {
		name = f.Name
	}
	isolation, schedule, assumed, reason := server.Isolation(name, value, f.Context, f.Category)
	switch {
	case isolation == server.ClusterIsolation:
		return "", "", false, usagef("--set %s: %s, and nothing sets it there; name other builds as --server", s, reason)
	case isolation == server.ConnectionIsolation:
		return "", "", false, usagef("--set %s: %s; weighing it takes a new connection for every transaction (-C), which isn't built yet", s, reason)
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

// split divides the settings of a panel into those that its sessions give,
// those in the configuration of its instances, and those of their clusters.
type split struct {
	inConf, inInit []bool // by axis
}

// split: the configuration takes what sessions can't give, and what some row
// needs an instance for: what acts on all sessions and on the processes behind
// them must be in force there, too.
func (p *Plan) split(variants []variant, rows []int) split {
	s := split{inConf: make([]bool, len(p.Spec.Settings)), inInit: make([]bool, len(p.Spec.Settings))}
	for n, a := range p.Spec.Settings {
		if s.inInit[n] = a.Cluster; a.Cluster {
			continue
		}
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

// configures says whether anything is in the configuration or the cluster.
func (s split) configures() bool {
	return slices.Contains(s.inConf, true) || slices.Contains(s.inInit, true)
}

// of divides a variant's settings. A default in the configuration is what
// isn't there; in the cluster it is what initdb does by itself.
func (s split) of(v variant) (session, conf, init []server.Setting) {
	for n, x := range v.settings {
		switch {
		case s.inInit[n]:
			if !x.Default {
				init = append(init, x)
			}
		case !s.inConf[n]:
			session = append(session, x)
		case !x.Default:
			conf = append(conf, x)
		}
	}
	return session, conf, init
}

// confLine lists settings for the plan.
func confLine(conf []server.Setting) string {
	parts := make([]string, len(conf))
	for i, s := range conf {
		parts[i] = s.String()
	}
	return strings.Join(parts, " ")
}
