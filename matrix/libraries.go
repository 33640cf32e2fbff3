package matrix

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/server"
)

// preload are the settings that load libraries into sessions.
var preload = []string{"shared_preload_libraries", "session_preload_libraries", "local_preload_libraries"}

func isPreload(name string) bool { return slices.Contains(preload, strings.ToLower(name)) }

// loadedBy lists the libraries that settings load.
func loadedBy(settings []server.Setting) (list []string) {
	for _, s := range settings {
		if isPreload(s.Name) && !s.Default {
			list = append(list, server.Libraries(s.Value)...)
		}
	}
	return list
}

// named lists the libraries that the matrix names, in any value.
func (s Spec) named() (list []string) {
	for _, v := range s.variants() {
		list = append(list, loadedBy(v.settings)...)
	}
	return compact(append(list, loadedBy(s.Conf)...))
}

// implied lists the libraries that settings belong to and nobody names. All
// instances load them: a cell is then compared with one that has the library,
// too, and another value.
func (s Spec) implied() (list []string) {
	named := s.named()
	for _, name := range s.allNames() {
		if l := server.LibraryOf(name); l != "" && !slices.Contains(named, l) {
			list = append(list, l)
		}
	}
	return compact(list)
}

// allNames are those of --set and --conf.
func (s Spec) allNames() (names []string) {
	for _, a := range s.Settings {
		names = append(names, a.Name)
	}
	for _, c := range s.Conf {
		names = append(names, c.Name)
	}
	return names
}

func compact(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// withLibraries adds libraries to those that a configuration loads at its start.
func withLibraries(conf []server.Setting, libraries []string) []server.Setting {
	if len(libraries) == 0 {
		return conf
	}
	all := libraries
	for _, c := range conf {
		if strings.EqualFold(c.Name, preload[0]) {
			all = append(server.Libraries(c.Value), libraries...)
		}
	}
	return with(conf, []server.Setting{{Name: preload[0], Value: strings.Join(all, ", ")}})
}

// axisLoads says whether what is loaded differs between cells.
func (s Spec) axisLoads() bool {
	return slices.ContainsFunc(s.Settings, func(a SettingAxis) bool { return isPreload(a.Name) && len(a.Values) > 1 })
}

// homeless says whether a setting is of a library that a variant doesn't load,
// though others do.
func (p *Plan) homeless(i int, v variant, s server.Setting) bool {
	library := server.LibraryOf(s.Name)
	if library == "" || !p.Spec.axisLoads() {
		return false
	}
	given := slices.DeleteFunc(slices.Clone(v.settings), func(s server.Setting) bool { return s.Default }) // the server's own are the base's
	return !slices.Contains(loadedBy(with(p.base(i).conf, given)), library)
}

// launchScout starts a server in the configuration in which it knows all
// settings of the matrix: with every library that is named or implied, but for
// those that it won't load, which it returns with its words.
func (r *runner) launchScout(ctx context.Context, i int) (inst *instance, lacking map[string]string, err error) {
	lacking = map[string]string{}
	for {
		planned := Instance{ID: fmt.Sprintf("i%d", i+1), Server: i, Env: r.plan.Spec.firstEnv()}
		if r.found[i].Conninfo == "" {
			s := r.plan.asked
			planned.Conf = withLibraries(nil, slices.DeleteFunc(compact(append(s.named(), s.implied()...)), func(l string) bool { return lacking[l] != "" }))
		}
		inst, err = r.launch(ctx, planned, r.maxConnections())
		na := server.StartRefusal(err, planned.Conf)
		switch {
		case na != nil && lackedLibrary(na, lacking):
			if err := inst.managed.Close(); err != nil {
				return nil, nil, err
			}
			continue
		case inst != nil:
			r.instances = append(r.instances, *inst)
		}
		return inst, lacking, err
	}
}

// lackedLibrary notes the library that a server won't load, and says whether it
// is one.
func lackedLibrary(na *server.NotApplicable, lacking map[string]string) bool {
	for _, l := range server.Libraries(na.Setting.Value) {
		if lacking[l] == "" && strings.Contains(na.Words, l) {
			lacking[l] = na.Words
			return true
		}
	}
	return false
}

// loadForSessions has sessions of a running server load the libraries whose
// settings it doesn't know by itself, where that makes it know them: not
// pg_stat_statements, which wants the server started with it.
func (r *runner) loadForSessions(ctx context.Context, i int, facts map[string]server.Fact) error {
	var libraries []string
	for _, a := range r.plan.asked.Settings {
		if _, found := facts[a.Name]; !found && server.LibraryOf(a.Name) != "" {
			libraries = append(libraries, server.LibraryOf(a.Name))
		}
	}
	if len(libraries) == 0 {
		return nil
	}
	load := server.Setting{Name: preload[1], Value: strings.Join(compact(libraries), ", ")}
	cfg := r.instances[i].target.Config()
	server.Apply(cfg, []server.Setting{load})
	limited, cancel := r.bounded(ctx)
	defer cancel()
	conn, err := pgconn.ConnectConfig(limited, cfg)
	if err != nil {
		return usagef("--set %s belongs to a library that %s has not loaded, and its sessions can't load it either: %v", r.plan.asked.firstOf(libraries[0]), r.labels[i], err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	more, err := server.Facts(limited, conn, append(r.plan.asked.settingNames(), load.Name))
	if err != nil {
		return r.lost(fmt.Errorf("read the settings of %s: %w", r.labels[i], err))
	}
	maps.Copy(facts, more)
	// Where an axis says who loads what, it isn't for all cells.
	if !slices.ContainsFunc(r.plan.asked.Settings, func(a SettingAxis) bool { return isPreload(a.Name) }) {
		r.plan.asked.Settings = append(slices.Clone(r.plan.asked.Settings), SettingAxis{Name: load.Name, Values: []string{load.Value}})
		r.log("the sessions of all cells get %s", load)
	}
	return nil
}

// firstOf is the first setting of a library.
func (s Spec) firstOf(library string) string {
	for _, a := range s.Settings {
		if server.LibraryOf(a.Name) == library {
			return a.Name
		}
	}
	panic("matrix: no setting of the library " + library)
}
