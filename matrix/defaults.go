package matrix

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/server"
	"pgtare/results"
)

// What --defaults asks of servers that are compared.
const (
	Shipped = "shipped" // each has its own defaults
	Aligned = "aligned" // all have those of the first server that knows a setting
)

// align fills in what the servers' defaults must be told apart by, or made alike
// with. It does nothing with one server.
func (r *runner) align(k *known, asked Spec) {
	if len(r.found) < 2 || asked.Defaults != Aligned {
		return
	}
	conf, initdb := server.Aligned(r.shipped)
	// What every cell is given anyway isn't a default of the matrix.
	given := func(s server.Setting) bool {
		return slices.ContainsFunc(asked.Settings, func(a SettingAxis) bool {
			return strings.EqualFold(a.Name, s.Name) && !slices.ContainsFunc(a.Values, func(v string) bool { return strings.EqualFold(v, Default) })
		}) || slices.ContainsFunc(asked.Conf, func(c server.Setting) bool { return strings.EqualFold(c.Name, s.Name) })
	}
	for i := range k.base {
		conf[i], initdb[i] = slices.DeleteFunc(conf[i], given), slices.DeleteFunc(initdb[i], given)
		k.base[i].conf, k.base[i].init = append(k.base[i].conf, conf[i]...), append(k.base[i].init, initdb[i]...)
		r.aligned = append(r.aligned, slices.Concat(conf[i], initdb[i]))
	}
}

// unalign takes back a default that a server won't have, and says whether it
// was one.
func (r *runner) unalign(at int, s server.Setting) bool {
	if r.aligned == nil || !slices.Contains(r.aligned[at], s) {
		return false
	}
	is := func(x server.Setting) bool { return x == s }
	base := &r.plan.known.base[at]
	base.conf, base.init = slices.DeleteFunc(base.conf, is), slices.DeleteFunc(base.init, is)
	r.aligned[at] = slices.DeleteFunc(r.aligned[at], is)
	return true
}

// readDefaults reads what a server's settings are that nobody sets.
func (r *runner) readDefaults(ctx context.Context, instance int) (list []server.DefaultValue, err error) {
	err = r.ask(ctx, instance, func(ctx context.Context, conn *pgconn.PgConn) (err error) {
		list, err = server.Defaults(ctx, conn)
		return err
	})
	if err != nil {
		return nil, r.lost(fmt.Errorf("read the defaults of %s: %w", r.label(instance), err))
	}
	return list, nil
}

// compareDefaults says in what the servers, as they will be measured, differ
// though nobody asked for it.
func (r *runner) compareDefaults(ctx context.Context) error {
	if len(r.found) < 2 {
		return nil
	}
	d := &results.Defaults{Asked: r.plan.Spec.Defaults, Aligned: []results.ServerValues{}, Differ: []results.ServerValues{}, Only: []results.ServerValues{}}
	lists := make([][]server.DefaultValue, len(r.found))
	for s := range r.found {
		first := slices.IndexFunc(r.instances, func(in instance) bool { return in.planned.Server == s })
		list, err := r.readDefaults(ctx, first)
		if err != nil {
			return err
		}
		lists[s] = list
	}
	describe := func(of [][]server.DefaultValue, names []string) []results.ServerValues {
		out := []results.ServerValues{}
		for _, name := range names {
			if slices.ContainsFunc(r.plan.Spec.Settings, func(a SettingAxis) bool { return strings.EqualFold(a.Name, name) }) {
				continue // the cells say
			}
			v := results.ServerValues{Name: name, Values: map[string]string{}, Changed: server.DefaultChanged(name)}
			for s, list := range of {
				if i := slices.IndexFunc(list, func(d server.DefaultValue) bool { return d.Name == name }); i >= 0 {
					v.Values[r.labels[s]] = server.Setting{Name: name, Value: list[i].Value}.ShownValue()
				}
			}
			out = append(out, v)
		}
		return out
	}
	values, only := server.Differing(lists)
	d.Differ, d.Only = describe(lists, values), describe(lists, only)
	var written []string
	for _, list := range r.aligned {
		for _, s := range list {
			written = append(written, s.Name)
		}
	}
	slices.Sort(written)
	d.Aligned = describe(r.shipped, slices.Compact(written))
	r.defaults = d
	return nil
}
