package matrix

import (
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"pgtare/matrix/host"
	"pgtare/matrix/server"
	"pgtare/workload"
	"pgtare/workload/script"
)

// Spec is what was asked for.
type Spec struct {
	Workload  Workload
	Clients   []int               // -c: a panel for each; empty: 1
	Threads   int                 // -j; 0 is 1, never more than a panel's clients
	Protocols []workload.Protocol // -M: a panel for each; empty: simple
	Modes     []Mode              // a panel for each; empty: per-statement
	Settings  []SettingAxis
	Full      bool // every combination of the settings' values, not one at a time
	Vars      []VarAxis
	Servers   []server.Spec // empty: the newest local PostgreSQL
	// Clocksources are the kernel's, that of the baseline first; one holds for
	// every cell. Empty: the one in use.
	Clocksources []string
	Env          []EnvAxis // of the servers that pgtare starts
	// Columns are the axes, or settings, whose values stand as columns of the
	// printed table; empty: the servers do.
	Columns []string
	// AllowAlterSystem lets settings of the configuration be set on running
	// servers, by ALTER SYSTEM and a reload; they are put back at the end.
	AllowAlterSystem bool

	Schedule string // "": by the settings; slice or block for all cells
	// Conf is written into the configuration of every server that pgtare starts.
	Conf     []server.Setting
	Defaults string // of several servers: Shipped, which "" is, or Aligned
	// Memory bounds how many instances run at once; nil: nothing does.
	Memory       *host.Memory
	Runs         int           // 0: 5, or 10 where the run is a replicate
	Duration     time.Duration // measured time per cell and run; 0 with Transactions 0: 1 s
	Transactions int64         // measured transactions per client and run, instead of Duration
	Controls     int           // cells that repeat the baseline; the first decides about trust
	Slice        time.Duration // 0: by the pilot
	Rounds       int           // per generation; 0: by the pilot
	Pin          Pin
	Hooks        Hooks
	Engine       Engine
	Seed         int64
	// Until is the half-width in per cent at which the matrix stops (NextLook of
	// package stats); Runs is then the least number. 0: after Runs.
	Until   float64
	MaxTime time.Duration // no run begins later; 0: no limit, or 10 minutes with Until
}

// EnvAxis is one --env: a variable of the servers' environment and its values,
// the baseline's first. Each value gives its servers instances of their own; a
// single one is in force in all.
type EnvAxis struct {
	Name   string
	Values []string // "unset" doesn't give the variable
}

// Unset is the word for a variable that isn't given.
const Unset = "unset"

// axis is its name as an axis of the matrix.
func (e EnvAxis) axis() string { return "env." + e.Name }

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ParseEnv reads the argument of --env, NAME=V1,V2...: as for [ParseSetting],
// the values are a line of CSV. Nothing after the = is the empty value.
func ParseEnv(text string) (EnvAxis, error) {
	name, list, found := strings.Cut(text, "=")
	if !found || !envName.MatchString(name) {
		return EnvAxis{}, usagef("--env %q: expected NAME=VALUE or NAME=V1,V2..., the name of letters, digits and underscores", name)
	}
	if strings.HasPrefix(name, "PG") {
		return EnvAxis{}, usagef("--env %s: PostgreSQL's own variables steer how servers start and are not passed on; use --set", name)
	}
	if list == "" {
		return EnvAxis{name, []string{""}}, nil
	}
	// The values may be secrets, so none is quoted in an error.
	values, err := csv.NewReader(strings.NewReader(list)).Read()
	if err != nil || strings.Contains(list, "\n") || strings.Contains(list, "\x00") {
		return EnvAxis{}, usagef("--env %s: the values are no line of CSV; put a value that holds commas or quotes into double quotes", name)
	}
	seen := map[string]bool{}
	for _, v := range values {
		if seen[v] {
			return EnvAxis{}, usagef("--env %s: a value is given twice; equal cells come from --controls", name)
		}
		seen[v] = true
	}
	return EnvAxis{name, values}, nil
}

// Workload is what a transaction does: a built-in, or a script.
type Workload struct {
	Builtin *workload.BuiltinScript
	Script  *script.Script // nil for a built-in
}

// Name is the built-in's name or the script's file name.
func (w Workload) Name() string {
	if w.Builtin != nil {
		return w.Builtin.Name
	}
	return w.Script.Name
}

var reading = regexp.MustCompile(`(?i)^\s*(select|values|table|show)\b`)

// readsOnly says whether it is plain that the workload writes nothing.
//
// Note: a function that writes is not seen, nor is a SELECT with locks, which
// writes them into the rows; --schedule block is for these.
func (w Workload) readsOnly() bool {
	if w.Builtin != nil {
		return !w.Builtin.Writes
	}
	return !slices.ContainsFunc(w.Script.Commands, func(c script.Command) bool { return !reading.MatchString(c.SQL) })
}

// Mode says what an SQL transaction holds.
type Mode string

const (
	PerStatement      Mode = "per-statement"      // nothing is added: each statement is its own SQL transaction
	SingleTransaction Mode = "single-transaction" // each slice is one SQL transaction per client
)

// ParseModes reads --mode: names separated by commas.
func ParseModes(text string) ([]Mode, error) {
	var modes []Mode
	for _, name := range strings.Split(text, ",") {
		m := Mode(strings.TrimSpace(name))
		if m != PerStatement && m != SingleTransaction {
			return nil, usagef("--mode %s: unknown mode %q; there are %s and %s%s", text, name, PerStatement, SingleTransaction,
				hint(name, []string{string(PerStatement), string(SingleTransaction)}))
		}
		if slices.Contains(modes, m) {
			return nil, usagef("--mode %s: %s is given twice", text, m)
		}
		modes = append(modes, m)
	}
	return modes, nil
}

// SettingAxis is one --set: a setting and its values, the baseline's first.
// One value pins the setting in every cell.
type SettingAxis struct {
	Name   string
	Values []string // "default" is the server's own value
	// Instance gives each value an instance of its own, configured with it.
	Instance bool
	// Cluster: the setting belongs to the cluster. Each value is given to
	// initdb, under the name that ClusterOption of package server has for it.
	Cluster bool
}

// Default is the word for the server's own value of a setting.
const Default = "default"

// ParseSetting reads the argument of --set, NAME=V1,V2...: the values are one
// line of CSV, so that a value in double quotes may hold commas. @instance at
// the end gives each value an instance of its own.
func ParseSetting(text string) (SettingAxis, error) {
	name, list, err := splitAxis("--set", text)
	if err != nil {
		return SettingAxis{}, err
	}
	list, instance := strings.CutSuffix(list, "@instance")
	values, err := splitValues("--set", text, list)
	if err != nil {
		return SettingAxis{}, err
	}
	return SettingAxis{Name: name, Values: values, Instance: instance}, nil
}

// VarAxis is one --var: a variable of the script and its values.
type VarAxis struct {
	Name   string
	Values []string
	Define bool // given by -D: one value, the same in every cell
}

func (v VarAxis) flag() string {
	if v.Define {
		return "-D"
	}
	return "--var"
}

// ParseVar reads the argument of --var, NAME=V1,V2...
func ParseVar(text string) (VarAxis, error) {
	name, list, err := splitAxis("--var", text)
	if err != nil {
		return VarAxis{}, err
	}
	if !script.ValidName(name) {
		return VarAxis{}, usagef("--var %s: %q is no name of a variable: letters, digits and underscores, not a digit first", text, name)
	}
	values, err := splitValues("--var", text, list)
	if err != nil {
		return VarAxis{}, err
	}
	return VarAxis{Name: name, Values: values}, nil
}

func splitAxis(flag, text string) (name, list string, err error) {
	name, list, found := strings.Cut(text, "=")
	name = strings.TrimSpace(name)
	if !found || name == "" || list == "" {
		return "", "", usagef("%s %s: expected NAME=VALUE,VALUE..., the baseline's value first", flag, text)
	}
	return name, list, nil
}

func splitValues(flag, text, list string) ([]string, error) {
	r := csv.NewReader(strings.NewReader(list))
	r.TrimLeadingSpace = true
	values, err := r.Read()
	if err != nil {
		return nil, usagef("%s %s: the values are no line of CSV (%v); put a value that holds commas or quotes into double quotes", flag, text, err)
	}
	if rest, err := r.Read(); err == nil {
		return nil, usagef("%s %s: the values take more than one line (%q)", flag, text, strings.Join(rest, ","))
	}
	seen := map[string]bool{}
	for _, v := range values {
		if seen[v] {
			return nil, usagef("%s %s: the value %q is given twice; equal cells come from --controls", flag, text, v)
		}
		seen[v] = true
	}
	return values, nil
}

// Pin is where clients and backends run.
type Pin struct {
	Kind string // "" (by the number of clients), none, core, split
	CPU  int    // of core; -1: the quietest
	// Of split; nil: chosen, so that no core is on both sides.
	Client, Server []int
}

// ParsePin reads --pin: none, core, core:N, split or client=LIST,server=LIST.
func ParsePin(text string) (Pin, error) {
	switch kind, arg, found := strings.Cut(text, ":"); {
	case kind == "none" && !found:
		return Pin{Kind: "none"}, nil
	case kind == "core" && !found:
		return Pin{Kind: "core", CPU: -1}, nil
	case kind == "core":
		var cpu int
		if _, err := fmt.Sscanf(arg, "%d", &cpu); err != nil || cpu < 0 || fmt.Sprint(cpu) != arg {
			return Pin{}, usagef("--pin %s: %q is no number of a CPU", text, arg)
		}
		return Pin{Kind: "core", CPU: cpu}, nil
	case text == "split":
		return Pin{Kind: "split"}, nil
	case strings.HasPrefix(text, "client=") || strings.HasPrefix(text, "server="):
		return parseApart(text)
	}
	return Pin{}, usagef("--pin %s: expected none, core (the quietest CPU), core:N, split or client=LIST,server=LIST", text)
}

// parseApart reads client=LIST,server=LIST, in either order.
func parseApart(text string) (Pin, error) {
	form := apartForm.FindStringSubmatch(text)
	if form == nil || form[1] == form[3] {
		return Pin{}, usagef("--pin %s: expected client=LIST,server=LIST, with lists such as 0-3,8", text)
	}
	p := Pin{Kind: "split"}
	for _, side := range [][]string{form[1:3], form[3:5]} {
		cpus, err := host.ParseList(side[1])
		if err != nil {
			return Pin{}, usagef("--pin %s: %v", text, err)
		}
		if side[0] == "client" {
			p.Client = cpus
		} else {
			p.Server = cpus
		}
	}
	return p, nil
}

var apartForm = regexp.MustCompile(`^(client|server)=([^=]*),(client|server)=([^=]*)$`)

func (p Pin) String() string {
	switch {
	case p.Kind == "core" && p.CPU >= 0:
		return fmt.Sprintf("core:%d", p.CPU)
	case p.Kind == "split" && p.Client != nil:
		return "client=" + host.FormatList(p.Client) + ",server=" + host.FormatList(p.Server)
	}
	return p.Kind
}

// reserved are the settings by which pgtare finds, reaches and stops its servers;
// their files are its own.
var reserved = []string{"data_directory", "config_file", "hba_file", "ident_file", "external_pid_file", "port", "listen_addresses",
	"unix_socket_directories", "unix_socket_permissions", "unix_socket_group", "superuser_reserved_connections", "allow_alter_system",
	"restart_after_crash", "log_directory", "log_filename", "log_file_mode"}

// Limits of a matrix, far above sense, that keep a record readable.
const (
	maxRuns         = 10000
	maxRounds       = 10000
	maxControls     = 1000
	maxClients      = 10000
	maxDuration     = 10000 * time.Second
	maxTransactions = 1_000_000_000
	maxMaxTime      = 30 * 24 * time.Hour
	maxCells        = 10000
)

// axisNames are the axes that every matrix has.
var axisNames = []string{"server", "workload", "mode", "setting", "protocol", "clients", "clocksource"}

// check completes a Spec with its defaults and refuses what can't be.
func (s Spec) check() (Spec, error) {
	if len(s.Clients) == 0 {
		s.Clients = []int{1}
	}
	if s.Threads == 0 {
		s.Threads = 1
	}
	if slices.Min(s.Clients) < 1 || s.Threads < 0 {
		return s, usagef("clients (-c) and threads (-j) must be at least 1")
	}
	s.Threads = min(s.Threads, slices.Max(s.Clients))
	if len(s.Protocols) == 0 {
		s.Protocols = []workload.Protocol{workload.Simple}
	}
	if len(s.Modes) == 0 {
		s.Modes = []Mode{PerStatement}
	}
	if len(s.Servers) == 0 {
		s.Servers = []server.Spec{{}}
	}
	var names []string
	for _, v := range s.Servers {
		names = append(names, plannedLabel(v))
	}
	if err := server.CheckNames(s.Servers, names); err != nil {
		return s, err
	}
	if s.Duration < 0 || s.Transactions < 0 || s.Slice < 0 || s.Rounds < 0 || s.Controls < 0 {
		return s, usagef("durations and counts must not be negative")
	}
	if s.Duration == 0 && s.Transactions == 0 {
		s.Duration = time.Second
	}
	if s.Schedule != "" && s.Schedule != server.SliceSchedule && s.Schedule != server.BlockSchedule {
		return s, usagef("--schedule %s: there are slice and block, and auto to choose by the settings", s.Schedule)
	}
	if s.Schedule == server.BlockSchedule && (s.Slice > 0 || s.Rounds > 0) {
		return s, usagef("--slice and --generation are for the schedule slice: a block is a whole run of a cell (-T)")
	}
	if !(s.Until >= 0) || s.Until > 100 || s.MaxTime < 0 {
		return s, usagef("--until is a half-width in per cent, above 0 and at most 100, and --max-time a duration above 0")
	}
	if s.Until > 0 {
		if s.Controls == 0 {
			return s, usagef("--until needs a control (--controls 1): without one there is no verdict to wait for")
		}
		if s.MaxTime == 0 {
			s.MaxTime = 10 * time.Minute
		}
	}
	if s.Runs < 0 || s.Runs > maxRuns || s.Rounds > maxRounds || s.Controls > maxControls || slices.Max(s.Clients) > maxClients || s.Duration > maxDuration || s.MaxTime > maxMaxTime || s.Transactions > maxTransactions {
		return s, usagef("out of range: --runs is 1 to %d, --generation at most %d, --controls at most %d, -c at most %d, -T at most %v, -t at most %d, --max-time at most %v",
			maxRuns, maxRounds, maxControls, maxClients, maxDuration, maxTransactions, maxMaxTime)
	}
	if s.Slice > 0 && (s.Slice < 500*time.Microsecond || s.Slice > 10*time.Second) {
		return s, usagef("--slice %v: a slice takes 500us to 10s", s.Slice)
	}
	if err := s.checkEngine(); err != nil {
		return s, err
	}
	s, err := s.checkSettings()
	if err != nil {
		return s, err
	}
	if err := s.checkNames(); err != nil {
		return s, err
	}
	if err := s.checkAxes(); err != nil {
		return s, err
	}
	if err := s.checkScript(); err != nil {
		return s, err
	}
	if s.Defaults == "" {
		s.Defaults = Shipped
	}
	if s.Defaults != Shipped && s.Defaults != Aligned {
		return s, usagef("--defaults %s: there are %s, each server with its own, and %s, all with those of the first%s", s.Defaults, Shipped, Aligned, hint(s.Defaults, []string{Shipped, Aligned}))
	}
	if len(s.Servers) > 1 {
		for _, spec := range s.Servers {
			if spec.Kind == server.Conninfo {
				return s, usagef("--server %s: servers that are compared are restarted at every run, which pgtare doesn't do to a running server; "+
					"name its installation instead (--server label=DIRECTORY), or weigh settings on it alone", spec)
			}
		}
	}
	if w := s.Workload; w.Script != nil && slices.Contains(s.Modes, SingleTransaction) {
		if c, found := script.TransactionControl(w.Script); found {
			return s, usagef("%s:%d: %s in a script can't be part of --mode %s, which puts BEGIN and COMMIT around each slice itself; remove it or use --mode %s",
				w.Script.Name, c.Line, c.Keyword, SingleTransaction, PerStatement)
		}
	}
	return s, nil
}

var (
	clientCopy  = regexp.MustCompile(`(?is)(?:^|;)\s*copy\b.*\b(?:from\s+stdin|to\s+stdout)\b`)
	setsSetting = regexp.MustCompile(`(?is)(?:^|;)\s*(?:set|reset)\s+(?:(?:session|local)\s+)?"?([a-z_][a-z0-9_.]*)"?|\bset_config\s*\(\s*'([^']*)'|(?:^|;)\s*(discard)\s+all\b`)
)

// checkScript refuses what can be seen to spoil a matrix: a COPY that needs a
// client, more parameters than a statement takes, and a script that changes
// the very setting that is weighed.
//
// Note: a function of the server's that sets it is not seen.
func (s Spec) checkScript() error {
	if s.Workload.Script == nil {
		return nil
	}
	name := s.Workload.Script.Name
	for _, c := range s.Workload.Script.Commands {
		if clientCopy.MatchString(c.SQL) {
			return usagef("%s:%d: COPY from or to the client can't be measured; use a file on the server or INSERT", name, c.Line)
		}
		if slices.ContainsFunc(s.Protocols, func(p workload.Protocol) bool { return p != workload.Simple }) && len(c.Vars) > script.MaxPlaceholders {
			return usagef("%s:%d: %d uses of variables in one statement, and at most %d can be sent as parameters; use -M simple or several statements",
				name, c.Line, len(c.Vars), script.MaxPlaceholders)
		}
		for _, m := range setsSetting.FindAllStringSubmatch(c.SQL, -1) {
			what := strings.ToLower(m[1] + m[2] + m[3])
			for _, a := range s.Settings {
				if what == "all" || what == "discard" || strings.EqualFold(what, a.Name) {
					return usagef("%s:%d: the script changes %s, which --set gives each cell: take it out of one of them", name, c.Line, a.Name)
				}
			}
		}
	}
	return nil
}

// checkAxes refuses values that are there twice, and columns that aren't axes.
func (s Spec) checkAxes() error {
	if twice(s.Clients) || twice(s.Protocols) || twice(s.Clocksources) {
		return usagef("-c, -M and --clocksource: a value is given twice; equal cells come from --controls")
	}
	for i, e := range s.Env {
		if slices.ContainsFunc(s.Env[:i], func(x EnvAxis) bool { return x.Name == e.Name }) {
			return usagef("--env %s is given twice; give its values at once: --env %s=V1,V2", e.Name, e.Name)
		}
	}
	if len(s.Env) > 0 {
		for _, spec := range s.Servers {
			if spec.Kind == server.Conninfo {
				return usagef("--env: the environment of a running server (--server %s) can't be set; name its installation instead (--server label=DIRECTORY)", spec)
			}
		}
	}
	if n := s.cells(); n > maxCells {
		fewer, narrow := "give them fewer values", s
		if narrow.Full = false; narrow.cells() <= maxCells {
			fewer += ", or leave out --combine full"
		}
		return usagef("the axes give more than %d cells; %s", maxCells, fewer)
	}
	names := s.columnNames()
	for _, c := range s.Columns {
		if !slices.Contains(names, c) {
			return usagef("--columns %s: there is no such axis in this matrix; there are %s%s", c, strings.Join(names, ", "), hint(c, names))
		}
	}
	if twice(s.Columns) {
		return usagef("--columns: an axis is given twice")
	}
	return nil
}

// cells is the number of combinations of all axes' values, without the controls,
// at most one more than there may be.
func (s Spec) cells() int {
	variants, full := 2, 1
	for _, a := range s.Settings {
		variants = min(variants+len(a.Values)-1, maxCells+1)
		full = min(full*len(a.Values), maxCells+1)
	}
	if s.Full {
		variants = full
	}
	n := variants
	times := func(values int) { n = min(n*values, maxCells+1) }
	for _, a := range s.Vars {
		times(len(a.Values))
	}
	for _, e := range s.Env {
		times(len(e.Values))
	}
	for _, values := range []int{len(s.Servers), len(s.Modes), len(s.Protocols), len(s.Clients), max(1, len(s.Clocksources))} {
		times(values)
	}
	return n
}

func twice[T comparable](values []T) bool {
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			return true
		}
	}
	return false
}

// columnNames are the axes that may stand as columns: those with more than one
// value, and the settings among which one is "setting".
func (s Spec) columnNames() (names []string) {
	for _, a := range s.axes() {
		if len(a.Values) > 1 {
			names = append(names, a.Name)
		}
	}
	for _, a := range s.Settings {
		if len(a.Values) > 1 {
			names = append(names, a.Name)
		}
	}
	return names
}

func (s Spec) checkNames() error {
	seen := map[string]bool{}
	for _, a := range s.Settings {
		if key := strings.ToLower(a.Name); seen[key] {
			return usagef("%s %s is given twice; give its values at once: %[1]s %[2]s=V1,V2", a.flag(), a.Name)
		} else {
			seen[key] = true
		}
	}
	defined := map[string]bool{}
	for _, v := range s.Vars {
		if defined[v.Name] {
			return usagef("%s %s: the variable is given twice; give its values at once: --var %s=V1,V2", v.flag(), v.Name, v.Name)
		}
		defined[v.Name] = true
		if len(v.Values) > 1 && slices.Contains(axisNames, v.Name) {
			return usagef("--var %s: %s is the name of an axis that every matrix has; call the variable something else", v.Name, v.Name)
		}
		if s.Workload.Script == nil {
			return usagef("%s %s: the built-in %s has no variables; a script of your own (-f FILE) can use :%s", v.flag(), v.Name, s.Workload.Name(), v.Name)
		}
	}
	if s.Workload.Script == nil {
		return nil
	}
	used := map[string]bool{}
	for _, c := range s.Workload.Script.Commands {
		for _, name := range c.Vars {
			used[name] = true
		}
	}
	for _, v := range s.Vars {
		if !used[v.Name] {
			return usagef("%s %s: %s does not use :%s", v.flag(), v.Name, s.Workload.Script.Name, v.Name)
		}
	}
	return nil
}
