package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pgtare/matrix"
	"pgtare/matrix/host"
	"pgtare/matrix/server"
	"pgtare/workload"
	"pgtare/workload/script"
)

// runOptions are the flags of `pgtare run`.
type runOptions struct {
	jobs            int
	clients         string
	transactions    int64
	seconds         float64
	protocol        string
	files, builtins []string
	defines, vars   []string
	modes           string
	sets, servers   []string
	runs, controls  int
	pin, engine     string
	schedule        string
	slice           time.Duration
	rounds          int
	envs            []string
	alterSystem     bool
	confs, initdbs  []string
	defaults        string
	clocksources    string
	combine         string
	columns         string
	until           string
	maxTime         time.Duration
	before, after   string
	seed            int64
	dryRun          bool
	format, record  string
	cacheDir        string
}

func newRunCommand() *cobra.Command {
	o := &runOptions{}
	c := &cobra.Command{
		Use:   "run",
		Short: "Measure a matrix of settings, servers and variables, and print its table",
		Long: `Measures a matrix and prints medians, overheads with 95 % intervals and verdicts.

With nothing given it weighs track_activities, log_min_duration_statement and
statement_timeout on SELECT 1, each statement its own SQL transaction and all
in one, on the newest PostgreSQL found here (or fetched through npm where there
is none), on a throw-away cluster. It takes under two minutes.

The first value of every axis is the baseline. Several --set vary one at a
time, plus all of them at their last values (--combine full: every combination);
servers, environments, variables and clock sources are crossed. Modes, protocols
(-M) and numbers of clients (-c) are measured side by side and not compared.

Where a cell runs follows from what its setting acts on: in the session, in
slices of a few ms that alternate with the others'; on an instance configured
with it; or, for what all sessions share (WAL, log, write-back), in blocks, a
whole run of one cell after the other. --dry-run and the table say which.

Exit status: 0 done; 1 a cell failed or nothing could be measured; 2 a mistake
on the command line; 130 SIGINT, 143 SIGTERM (the record is kept and named).`,
		Example: `  pgtare run
  pgtare run --server 13 --server 18
  pgtare run --server 'src:postgres#REL_18_STABLE' --server src:postgres
  pgtare run --set 'track_activities=off,on' -b insert -c 8 -j 2
  pgtare run --set synchronous_commit=on,off -b insert --until 2%
  pgtare run --set track_io_timing=off,on@instance -f scan.sql
  pgtare run -f sum.sql --var n=1000,2000,3000 --set none
  pgtare run --clocksource tsc,kvm-clock --set log_min_duration_statement=-1,100
  pgtare run -c 1,8 -M simple,prepared --columns clients,protocol`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runRun(c.Context(), o, c.Flags(), os.Args[1:], c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.addFlags(c.Flags())
	return c
}

func (o *runOptions) addFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVarP(&o.clients, "client", "c", "1", "clients `N` of each cell; several numbers separated by commas give a panel each")
	f.IntVarP(&o.jobs, "jobs", "j", 1, "threads `N` that drive them, at most one per client")
	f.Int64VarP(&o.transactions, "transactions", "t", 0, "measured transactions `N` per client and run; the table then shows seconds")
	f.Float64VarP(&o.seconds, "time", "T", 1, "measured `SECONDS` per cell and run, rounded up to whole generations")
	f.StringVarP(&o.protocol, "protocol", "M", "simple", "`PROTOCOL`: simple, extended or prepared; several separated by commas give a panel each")
	f.StringArrayVarP(&o.files, "file", "f", nil, "SQL script `FILE`, - for standard input; one pass is a transaction")
	f.StringArrayVarP(&o.builtins, "builtin", "b", nil, "built-in workload `NAME`: "+strings.Join(builtinNames(), " or "))
	f.StringArrayVarP(&o.defines, "define", "D", nil, "`VARIABLE=VALUE` of the script, the same in every cell")
	f.StringArrayVar(&o.vars, "var", nil, "axis `NAME=V1,V2...`: values of the script's variable :NAME")
	f.StringVar(&o.modes, "mode", "", "`MODES` separated by commas: per-statement, single-transaction (BEGIN and COMMIT around each slice)")
	f.StringArrayVar(&o.sets, "set", nil, "axis `NAME=V1,V2...`: values of a setting as a line of CSV, default for the server's own; one value pins it; @instance at the end gives each value an instance of its own; none: no settings")
	f.StringArrayVar(&o.confs, "conf", nil, "`NAME=VALUE` in the configuration of every server that pgtare starts")
	f.StringArrayVar(&o.initdbs, "initdb", nil, "axis `NAME=V1,V2...`: an option of initdb, e.g. data_checksums=off,on or wal_segment_size=16MB,64MB; each value is a cluster of its own, one value is for all")
	f.StringVar(&o.defaults, "defaults", matrix.Shipped, "`WHICH` defaults several servers have: shipped (each its own) or aligned (where these differ, the first server's, written out)")
	f.StringArrayVar(&o.servers, "server", nil, "`SERVER`: 18, 18.4, DIRECTORY, src:DIRECTORY or src:DIRECTORY#REF (a source tree, built once), or the CONNINFO of a running server, the last four also as LABEL=...; repeat to compare")
	f.IntVar(&o.runs, "runs", 0, "runs `N`; the table shows their median (default 5, or 10 where the run is a replicate: servers, instances, blocks)")
	f.IntVar(&o.controls, "controls", 1, "cells `N` equal to each baseline; the first is its twin and decides about trust, 0 gives no verdicts")
	f.StringVar(&o.pin, "pin", "", "`PLACE` of clients and backends: none, core (the quietest CPU), core:N, split (cores of their own) or client=LIST,server=LIST (default core for one client on a managed server, else none)")
	f.StringVar(&o.engine, "engine", "auto", "`ENGINE` that sends the load: epoll (Linux, plain connections), net (Go's own connections, TLS too), or auto: epoll where it can")
	f.DurationVar(&o.slice, "slice", 0, "length `D` of a slice (default by the pilot, 2ms to 100ms)")
	f.StringVar(&o.schedule, "schedule", "auto", "`SCHEDULE` of all cells: slice, block (a whole run of one cell after the other), or auto, by what their settings act on")
	f.IntVar(&o.rounds, "generation", 0, "rounds `N` on the same backends (default by the pilot, 20 or more)")
	f.StringVar(&o.until, "until", "", "measure until the interval of every overhead has a half-width of at most `PCT`, e.g. 0.5 or 0.5%")
	f.DurationVar(&o.maxTime, "max-time", 0, "begin no run after `D` of measuring, e.g. 5m (with --until default 10m)")
	f.StringVar(&o.combine, "combine", "one-at-a-time", "`HOW` several --set go together: one-at-a-time (and all at their last values), or full (every combination)")
	f.StringArrayVar(&o.envs, "env", nil, "`NAME=V1,V2...` in the environment of the servers that pgtare starts, as a line of CSV; one value is given to all, several are an axis; unset for the one without it")
	f.StringVar(&o.clocksources, "clocksource", "", "axis `A,B...`: the kernel's clock sources, switched between slices or blocks and put back at the end (root only)")
	f.StringVar(&o.columns, "columns", "", "`AXES` or settings, separated by commas, whose values stand as columns of the printed table (default the servers)")
	f.BoolVar(&o.alterSystem, "allow-alter-system", false, "set what needs a reload on running servers, too (ALTER SYSTEM, for the time; put back at the end, after a crash by pgtare restore)")
	f.StringVar(&o.before, "before-run", "", "shell `COMMAND` at the beginning of each run, when its servers run (PGHOST, PGPORT, PGTARE_INSTANCES and PGTARE_RUN are set); it stands in the record")
	f.StringVar(&o.after, "after-run", "", "shell `COMMAND` at the end of each run")
	f.Int64Var(&o.seed, "seed", 0, "`N` that all orders are drawn from (default by chance; the record keeps it)")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the plan and the expected time, and touch no server")
	f.StringVar(&o.format, "format", "text", "`FORMAT` of the result: text or json")
	f.StringVarP(&o.record, "output", "o", "", "`FILE` of the record (default a new one in the user's state directory)")
	f.StringVar(&o.cacheDir, "cache-dir", "", "`DIRECTORY` of fetched installations, templates and throw-away clusters (default /var/cache/pgtare for root, else pgtare in the user's cache directory)")
}

// runRun measures and prints from the record, through the code of `show`.
func runRun(ctx context.Context, o *runOptions, given *pflag.FlagSet, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := checkFormat(o.format); err != nil {
		return err
	}
	spec, err := o.spec(given, stdin)
	if err != nil {
		return err
	}
	plan, err := matrix.NewPlan(spec)
	if err != nil {
		return err
	}
	if o.dryRun {
		return plan.Print(stdout)
	}
	progress := newProgress(stderr)
	path, err := matrix.Run(ctx, plan, matrix.RunConfig{Record: o.record, CacheDir: o.cacheDir, Pgtare: version(), Args: withoutSecrets(args),
		Progress: progress.update, Log: progress.line})
	progress.finish()
	var failed *matrix.FailedCells
	if errors.As(err, &failed) { // the others have a result
		fmt.Fprintf(stderr, "record: %s\n", path)
		return errors.Join(show(path, o.format, nil, stdout), err)
	}
	if err != nil {
		if path != "" {
			fmt.Fprintf(stderr, "pgtare: what was measured is kept: pgtare show %s\n", path)
		}
		return err
	}
	fmt.Fprintf(stderr, "record: %s\n", path)
	return show(path, o.format, nil, stdout)
}

// spec turns the flags into what was asked.
func (o *runOptions) spec(given *pflag.FlagSet, stdin io.Reader) (s matrix.Spec, err error) {
	for _, name := range []string{"output", "mode", "pin", "engine", "cache-dir", "schedule", "until", "client", "protocol", "clocksource", "columns", "combine", "server", "before-run", "after-run", "defaults"} {
		f := given.Lookup(name)
		if f.Changed && f.Value.String() == "" || name == "server" && slices.Contains(o.servers, "") {
			return s, usageError{fmt.Errorf("--%s is given and empty: an unset variable of the shell? leave it out for the default", name)}
		}
	}
	if given.Changed("slice") && o.slice <= 0 {
		return s, usageError{fmt.Errorf("--slice %v: a slice takes 500us to 10s; leave it out for the pilot's choice", o.slice)}
	}
	if given.Changed("transactions") && given.Changed("time") {
		return s, usageError{errors.New("-t counts transactions and -T seconds: give one of them")}
	}
	if given.Changed("transactions") && o.transactions <= 0 {
		return s, usageError{fmt.Errorf("-t %d: the number of transactions must be at least 1", o.transactions)}
	}
	if !(o.seconds > 0) || o.seconds > 1e6 {
		return s, usageError{fmt.Errorf("-T %v: expected seconds above 0", o.seconds)}
	}
	clients, err := parseClients(o.clients)
	if err != nil {
		return s, err
	}
	if o.jobs < 1 || given.Changed("runs") && o.runs < 1 || o.controls < 0 || given.Changed("generation") && o.rounds < 1 {
		return s, usageError{errors.New("-j, --runs and --generation must be at least 1, --controls at least 0")}
	}
	s = matrix.Spec{Clients: clients, Clocksources: list(o.clocksources), Columns: list(o.columns), Full: o.combine == "full", Threads: o.jobs, Runs: o.runs, Controls: o.controls, Slice: o.slice, Rounds: o.rounds, Seed: o.seed,
		AllowAlterSystem: o.alterSystem, Hooks: matrix.Hooks{Before: o.before, After: o.after}, Defaults: o.defaults, Memory: memory()}
	if o.combine != "full" && o.combine != "one-at-a-time" {
		return s, usageError{fmt.Errorf("--combine %s: there are one-at-a-time and full", o.combine)}
	}
	if o.schedule != "auto" {
		s.Schedule = o.schedule
	}
	if given.Changed("until") {
		s.Until, err = strconv.ParseFloat(strings.TrimSuffix(o.until, "%"), 64)
		if err != nil || !(s.Until > 0) || s.Until > 100 {
			return s, usageError{fmt.Errorf("--until %s: expected the half-width in per cent at which to stop, above 0 and at most 100", o.until)}
		}
	}
	if given.Changed("max-time") && o.maxTime <= 0 {
		return s, usageError{fmt.Errorf("--max-time %v: expected a time above 0, e.g. 5m", o.maxTime)}
	}
	s.MaxTime = o.maxTime
	for _, text := range o.confs {
		c, err := matrix.ParseConf(text)
		if err != nil {
			return s, err
		}
		s.Conf = append(s.Conf, c)
	}
	for _, text := range o.envs {
		v, err := matrix.ParseEnv(text)
		if err != nil {
			return s, err
		}
		s.Env = append(s.Env, v)
	}
	if s.Transactions = o.transactions; o.transactions == 0 {
		s.Duration = time.Duration(o.seconds * float64(time.Second))
	}
	if !given.Changed("seed") {
		s.Seed = rand.Int64N(1 << 53)
	}
	if s.Seed < 0 || s.Seed >= 1<<53 {
		return s, usageError{fmt.Errorf("--seed %d: expected 0 to 2^53-1", s.Seed)}
	}
	for _, name := range list(o.protocol) {
		if !slices.Contains(protocols, name) {
			return s, usageError{fmt.Errorf("-M %s: there are %s%s", name, strings.Join(protocols, ", "), hintFor(name, protocols))}
		}
		s.Protocols = append(s.Protocols, workload.Protocol(name))
	}
	if s.Workload, err = o.workload(stdin); err != nil {
		return s, err
	}
	for _, text := range o.defines {
		name, value, found := strings.Cut(text, "=")
		if !found || value == "" || !script.ValidName(name) {
			return s, usageError{fmt.Errorf("-D %s: expected VARIABLE=VALUE", text)}
		}
		s.Vars = append(s.Vars, matrix.VarAxis{Name: name, Values: []string{value}, Define: true})
	}
	for _, text := range o.vars {
		v, err := matrix.ParseVar(text)
		if err != nil {
			return s, err
		}
		s.Vars = append(s.Vars, v)
	}
	for _, text := range o.servers {
		v, err := server.ParseSpec(text)
		if err != nil {
			return s, err
		}
		s.Servers = append(s.Servers, v)
	}
	if o.pin != "" {
		if s.Pin, err = matrix.ParsePin(o.pin); err != nil {
			return s, err
		}
	}
	if s.Engine, err = matrix.ParseEngine(o.engine); err != nil {
		return s, err
	}
	if err := o.axes(&s); err != nil {
		return s, err
	}
	return s, nil
}

// list splits what is separated by commas; nothing from "".
func list(text string) (parts []string) {
	if text == "" {
		return nil
	}
	for _, part := range strings.Split(text, ",") {
		parts = append(parts, strings.TrimSpace(part))
	}
	return parts
}

func parseClients(text string) (clients []int, err error) {
	for _, part := range list(text) {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return nil, usageError{fmt.Errorf("-c %s: expected a number of clients, at least 1, or several separated by commas", text)}
		}
		clients = append(clients, n)
	}
	return clients, nil
}

// axes fills in settings and modes. With no axis given they are those of the
// default matrix; its modes only with its workload.
func (o *runOptions) axes(s *matrix.Spec) (err error) {
	sets, modes := o.sets, o.modes
	axis := len(o.vars)+len(o.initdbs) > 0 || len(s.Clocksources) > 1 || slices.ContainsFunc(s.Env, func(e matrix.EnvAxis) bool { return len(e.Values) > 1 })
	if len(sets) == 0 && !axis {
		sets = []string{"track_activities=off,on", "log_min_duration_statement=-1,100", "statement_timeout=0,100"}
		if modes == "" && len(o.files)+len(o.builtins) == 0 {
			modes = string(matrix.PerStatement) + "," + string(matrix.SingleTransaction)
		}
	}
	for _, text := range sets {
		if text == "none" {
			if len(sets) > 1 {
				return usageError{errors.New("--set none means no settings, and others are given")}
			}
			break
		}
		a, err := matrix.ParseSetting(text)
		if err != nil {
			return err
		}
		s.Settings = append(s.Settings, a)
	}
	for _, text := range o.initdbs {
		a, err := matrix.ParseInitdb(text)
		if err != nil {
			return err
		}
		s.Settings = append(s.Settings, a)
	}
	if modes != "" {
		s.Modes, err = matrix.ParseModes(modes)
	}
	return err
}

// maxScript bounds a script's size in bytes.
const maxScript = 1 << 20

func (o *runOptions) workload(stdin io.Reader) (w matrix.Workload, err error) {
	if len(o.files)+len(o.builtins) > 1 {
		return w, usageError{errors.New("more than one -f or -b: a mix of scripts isn't built yet; measure them one at a time")}
	}
	if len(o.files) == 0 {
		name := "select1"
		if len(o.builtins) == 1 {
			name = o.builtins[0]
		}
		b, found := workload.Builtin(name)
		if !found {
			return w, usageError{fmt.Errorf("-b %s: no such built-in workload; there are %s%s", name, strings.Join(builtinNames(), " and "), hintFor(name, builtinNames()))}
		}
		return matrix.Workload{Builtin: &b}, nil
	}
	name := o.files[0]
	var text []byte
	if name == "-" {
		text, err = io.ReadAll(stdin)
	} else {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return w, usageError{fmt.Errorf("-f %s: %w; name a file of SQL statements, or use -b %s", name, errors.Unwrap(err), builtinNames()[0])}
	}
	if len(text) > maxScript {
		return w, usageError{fmt.Errorf("-f %s: %d bytes; a script has at most %d, since the record keeps it: put what it does into a function or a table", name, len(text), maxScript)}
	}
	parsed, err := script.Parse(name, string(text))
	if err != nil {
		return w, usageError{err}
	}
	if name != "-" {
		parsed.Name = filepath.Base(name)
	}
	return matrix.Workload{Script: parsed}, nil
}

// memory is what the machine has for servers.
func memory() *host.Memory {
	m := host.MemoryAvailable()
	return &m
}

var protocols = []string{string(workload.Simple), string(workload.Extended), string(workload.Prepared)}

func builtinNames() (names []string) {
	for _, b := range workload.Builtins() {
		names = append(names, b.Name)
	}
	return names
}

// withoutSecrets masks the passwords of --server, the values of --env and the
// secret ones of --conf in the command line, for the record.
func withoutSecrets(args []string) []string {
	mask := map[string]func(string) string{
		"--server": func(text string) string {
			if spec, err := server.ParseSpec(text); err == nil {
				return spec.String()
			}
			return "***"
		},
		"--conf": func(text string) string {
			if c, err := matrix.ParseConf(text); err == nil {
				return c.String()
			}
			return "***"
		},
		"--env": func(text string) string {
			if e, err := matrix.ParseEnv(text); err == nil && len(e.Values) > 1 {
				return text // the values of an axis are names in the table
			}
			name, _, _ := strings.Cut(text, "=")
			return name + "=***"
		},
	}
	list := slices.Clone(args)
	for i, a := range args {
		if flag, text, found := strings.Cut(a, "="); found && mask[flag] != nil {
			list[i] = flag + "=" + mask[flag](text)
		} else if i > 0 && mask[args[i-1]] != nil {
			list[i] = mask[args[i-1]](a)
		}
	}
	return list
}
