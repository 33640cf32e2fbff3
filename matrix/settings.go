package matrix

import (
	"slices"
	"strings"

	"pgtare/matrix/server"
)

// ParseConf reads the argument of --conf, NAME=VALUE: a line of the
// configuration of every server that pgtare starts. The value is all that
// follows, as postgresql.conf would have it between its quotes.
func ParseConf(text string) (server.Setting, error) {
	name, value, found := strings.Cut(text, "=")
	name = strings.TrimSpace(name)
	if !found || name == "" {
		return server.Setting{}, usagef("--conf %s: expected NAME=VALUE", name)
	}
	if strings.EqualFold(value, Default) {
		return server.Setting{}, usagef("--conf %s=%s: leave it out for the server's own value", name, value)
	}
	return server.Setting{Name: name, Value: value}, nil
}

// ParseInitdb reads the argument of --initdb, NAME=V1,V2...: an option of
// initdb and its values, each of which is a cluster of its own.
func ParseInitdb(text string) (SettingAxis, error) {
	name, list, err := splitAxis("--initdb", text)
	if err != nil {
		return SettingAxis{}, err
	}
	option, _ := server.ClusterOption(name)
	if option == "" {
		return SettingAxis{}, usagef("--initdb %s: there are %s%s; what postgresql.conf can hold goes by --set or --conf",
			text, strings.Join(server.ClusterOptions(), ", "), hint(name, server.ClusterOptions()))
	}
	values, err := splitValues("--initdb", text, list)
	return SettingAxis{Name: option, Values: values, Cluster: true}, err
}

// flag is what the axis was given by.
func (a SettingAxis) flag() string {
	if a.Cluster {
		return "--initdb"
	}
	return "--set"
}

// flagOf is the flag that gave a setting.
func (s Spec) flagOf(name string) string {
	if option, _ := server.ClusterOption(name); option == name {
		return "--initdb"
	}
	return "--set"
}

// checkSettings tells the options of initdb among the settings, and refuses
// what can't be set, or not so.
func (s Spec) checkSettings() (Spec, error) {
	s.Settings = slices.Clone(s.Settings)
	for i := range s.Settings {
		a := &s.Settings[i]
		if name, setting := server.ClusterOption(a.Name); setting {
			a.Name, a.Cluster = name, true
		}
		switch {
		case a.Cluster:
			for _, v := range a.Values {
				if words := server.CheckClusterOption(a.Name, v); words != "" && !strings.EqualFold(v, Default) {
					return s, usagef("--initdb %s=%s: %s", a.Name, v, words)
				}
			}
		case isReserved(a.Name):
			return s, usagef("--set %s: pgtare needs this setting to run its servers, so it can't be weighed", a.Name)
		case server.Fixed(a.Name) != "":
			return s, usagef("--set %s: %s", a.Name, server.Fixed(a.Name))
		case server.Secret(a.Name):
			return s, usagef("--set %s: its values may hold secrets, and cells are named by their values; one value for all cells goes by --conf, which shows none", a.Name)
		}
	}
	for i, c := range s.Conf {
		same := func(x server.Setting) bool { return strings.EqualFold(x.Name, c.Name) }
		switch {
		case isReserved(c.Name):
			return s, usagef("--conf %s: pgtare needs this setting to run its servers, so it can't be changed", c.Name)
		case server.Fixed(c.Name) != "":
			return s, usagef("--conf %s: %s", c.Name, server.Fixed(c.Name))
		case slices.ContainsFunc(s.Conf[:i], same):
			return s, usagef("--conf %s is given twice", c.Name)
		case slices.ContainsFunc(s.Settings, func(a SettingAxis) bool { return strings.EqualFold(a.Name, c.Name) }):
			return s, usagef("--conf %s: --set gives it to each cell, too; leave out one of them", c.Name)
		}
		if name, setting := server.ClusterOption(c.Name); setting {
			return s, usagef("--conf %s: it belongs to the cluster, not to its configuration: use --initdb %s=%s", c.Name, name, c.Value)
		}
		for _, spec := range s.Servers {
			if spec.Kind == server.Conninfo {
				return s, usagef("--conf %s: the configuration of a running server (--server %s) is not pgtare's to write; name its installation instead (--server label=DIRECTORY), "+
					"or give sessions the value (--set %[1]s=V)", c.Name, spec)
			}
		}
	}
	for _, a := range s.Settings {
		if implied := s.implied(); a.Name == preload[0] && len(a.Values) > 1 && len(implied) > 0 {
			return s, usagef("--set %s: other settings belong to %s, which its values don't load; name it in one of them, or set its own settings in a matrix of their own", a.Name, strings.Join(implied, ", "))
		}
	}
	return s, nil
}

func isReserved(name string) bool { return slices.Contains(reserved, strings.ToLower(name)) }

// names of all settings that the matrix gives, and what versions call them.
func (s Spec) settingNames() (names []string) {
	for _, a := range s.Settings {
		if !a.Cluster {
			names = append(append(names, a.Name), server.Aliases(a.Name)...)
		}
	}
	for _, c := range s.Conf {
		names = append(append(names, c.Name), server.Aliases(c.Name)...)
	}
	return append(names, walSegmentSize) // some names count segments
}

const walSegmentSize = "wal_segment_size"

// segments are the sizes of WAL segments, in bytes, that the clusters of a
// server have, whose own is given: one, unless that is an axis.
func (s Spec) segments(own int64) []int64 {
	for _, a := range s.Settings {
		if !a.Cluster || a.Name != walSegmentSize {
			continue
		}
		sizes := make([]int64, len(a.Values))
		for i, v := range a.Values {
			if sizes[i] = server.SegmentSize(v); strings.EqualFold(v, Default) {
				sizes[i] = own
			}
		}
		return sizes
	}
	return []int64{own}
}

// countable refuses a setting that a server has by a name which counts WAL
// segments, or their bytes, where these are of several sizes: one value can't
// mean the same in all clusters.
func (s Spec) countable(k known, labels []string) error {
	refuse := func(flag string, x server.Setting) error {
		for i := range k.facts {
			sizes := s.segments(k.facts[i][walSegmentSize].WALSegment())
			first := server.Local(x, k.knows(i), sizes[0])
			for _, size := range sizes[1:] {
				if !slices.Equal(first, server.Local(x, k.knows(i), size)) {
					return usagef("%s %s: on %s that is %s, whose value depends on the size of WAL segments, of which --initdb %s has several; give it one value", flag, x, labels[i], first[0].Name, walSegmentSize)
				}
			}
		}
		return nil
	}
	for _, c := range s.Conf {
		if err := refuse("--conf", c); err != nil {
			return err
		}
	}
	for _, a := range s.Settings {
		for _, v := range a.Values {
			if a.Cluster || strings.EqualFold(v, Default) {
				continue
			}
			if err := refuse("--set", server.Setting{Name: a.Name, Value: v}); err != nil {
				return err
			}
		}
	}
	return nil
}

// configuration is what the configuration of every instance of a server holds
// besides the cells' own, and what its cluster is made with.
type configuration struct {
	conf, init []server.Setting
}

func (c configuration) equal(d configuration) bool {
	return slices.Equal(c.conf, d.conf) && slices.Equal(c.init, d.init)
}

// with adds settings, of which each takes the place of one of its name.
func with(settings, more []server.Setting) []server.Setting {
	out := slices.DeleteFunc(slices.Clone(settings), func(s server.Setting) bool {
		return slices.ContainsFunc(more, func(m server.Setting) bool { return strings.EqualFold(m.Name, s.Name) })
	})
	return append(out, more...)
}

// base is what all instances of a server have in common.
func (p *Plan) base(i int) configuration {
	if p.known.base == nil {
		if p.Spec.Servers[i].Kind == server.Conninfo {
			return configuration{}
		}
		return configuration{conf: withLibraries(p.Spec.Conf, p.Spec.implied())}
	}
	return p.known.base[i]
}

// of an instance: what all of its server have, and its own.
func (p *Plan) configurationOf(in Instance) configuration {
	base := p.base(in.Server)
	return configuration{conf: with(base.conf, in.Conf), init: with(base.init, in.Init)}
}

// rename gives settings that no server has by the name that was asked for the
// name that one has them by, and the others what they call them. It returns
// what is to be said about that.
func (s Spec) rename(k known) (renamed Spec, notes []string, err error) {
	s.Settings = slices.Clone(s.Settings)
	for n := range s.Settings {
		a := &s.Settings[n]
		if a.Cluster {
			for i := range k.facts { // initdb is asked, not pg_settings
				k.facts[i][a.Name] = server.Fact{Name: a.Name, Context: "internal"}
			}
			continue
		}
		known := slices.ContainsFunc(k.indices(), func(i int) bool { return k.knows(i)(a.Name) })
		for i := len(k.facts) - 1; i >= 0 && !known; i-- { // the last server is the newest as a rule
			first := k.localOf(i, server.Setting{Name: a.Name, Value: a.Values[0]})
			if len(first) != 1 {
				continue
			}
			notes = append(notes, server.Renaming(a.Name, first))
			values := slices.Clone(a.Values)
			for v := range values {
				if !strings.EqualFold(values[v], Default) {
					values[v] = k.localOf(i, server.Setting{Name: a.Name, Value: values[v]})[0].Value
				}
			}
			a.Name, a.Values, known = first[0].Name, values, true
		}
		if slices.ContainsFunc(s.Settings[:n], func(b SettingAxis) bool { return strings.EqualFold(a.Name, b.Name) }) {
			return s, nil, usagef("--set %s is given twice, once by an older name; give its values at once: --set %[1]s=V1,V2", a.Name)
		}
	}
	for n := range s.Settings {
		a := s.Settings[n]
		for i := range k.facts {
			local := k.localOf(i, server.Setting{Name: a.Name, Value: a.Values[0]})
			if a.Cluster || len(local) == 0 || local[0].Name == a.Name {
				continue
			}
			k.facts[i][a.Name] = k.facts[i][local[len(local)-1].Name]
			if note := server.Renaming(a.Name, local); !strings.EqualFold(local[0].Name, a.Name) && !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	return s, notes, nil
}

// absent looks for settings of --conf that servers don't have: an error where
// none has it, else what to say.
func (s Spec) absent(k known, labels, names []string) (notes []string, err error) {
	for _, c := range s.Conf {
		var lack []string
		for i := range k.facts {
			if len(k.local(i, []server.Setting{c})) == 0 {
				lack = append(lack, labels[i])
			}
		}
		switch {
		case len(lack) == len(labels) && k.lacking[0][server.LibraryOf(c.Name)] != "":
			return nil, usagef("--conf %s: %s does not load its library: %s%s", c.Name, labels[0], k.lacking[0][server.LibraryOf(c.Name)], hint(c.Name, names))
		case len(lack) == len(labels):
			return nil, usagef("--conf %s: %s has no such setting%s", c.Name, strings.Join(labels, ", "), hint(c.Name, names))
		case len(lack) > 0:
			notes = append(notes, strings.Join(lack, ", ")+" has no setting "+c.Name+", so its configuration is without")
		}
	}
	return notes, nil
}
