package matrix

import (
	"bytes"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgtare/matrix/server"
	"pgtare/workload"
	"pgtare/workload/script"
)

var update = flag.Bool("update", false, "rewrite the goldens")

func builtinWorkload(t testing.TB, name string) Workload {
	b, ok := workload.Builtin(name)
	if !ok {
		t.Fatalf("no built-in %s", name)
	}
	return Workload{Builtin: &b}
}

func scriptWorkload(t testing.TB, text string) Workload {
	s, err := script.Parse("test.sql", text)
	if err != nil {
		t.Fatal(err)
	}
	return Workload{Script: s}
}

func serverSpecs(t testing.TB, texts ...string) (list []server.Spec) {
	for _, text := range texts {
		s, err := server.ParseSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

func set(name string, values ...string) SettingAxis { return SettingAxis{Name: name, Values: values} }

// The plans of the usual matrices, as --dry-run prints them.
func TestPlan(t *testing.T) {
	three := []SettingAxis{set("track_activities", "off", "on"), set("log_min_duration_statement", "-1", "100"), set("statement_timeout", "0", "100")}
	for name, spec := range map[string]Spec{
		"default": {Workload: builtinWorkload(t, "select1"), Settings: three, Controls: 1,
			Modes: []Mode{PerStatement, SingleTransaction}},
		"servers":        {Workload: builtinWorkload(t, "select1"), Servers: serverSpecs(t, "13", "18"), Settings: three[:1], Controls: 1},
		"servers-source": {Workload: builtinWorkload(t, "select1"), Servers: serverSpecs(t, "src:postgres#REL_17_STABLE", "new=src:../postgres"), Controls: 1},
		"servers-bare":   {Workload: builtinWorkload(t, "insert"), Servers: serverSpecs(t, "13", "16", "18"), Controls: 1, Clients: []int{8}, Threads: 2},
		"variable": {Workload: scriptWorkload(t, "select count(*) from generate_series(1, :n)"), Controls: 1,
			Vars: []VarAxis{{Name: "n", Values: []string{"1000", "2000", "3000"}}}},
		"variable-setting": {Workload: scriptWorkload(t, "select :n"), Controls: 1, Settings: []SettingAxis{set("jit", "off", "on"), set("work_mem", "4MB")},
			Vars: []VarAxis{{Name: "n", Values: []string{"1", "2"}}}},
		// One value waits for a log that all share, the other for nothing.
		"blocks": {Workload: builtinWorkload(t, "select1"), Controls: 1, Settings: []SettingAxis{three[0], set("log_min_duration_statement", "-1", "100", "0")}},
		"instance": {Workload: builtinWorkload(t, "select1"), Controls: 1, Servers: serverSpecs(t, "13", "18"),
			Settings: []SettingAxis{{Name: "track_activities", Values: []string{"off", "on"}, Instance: true}, three[2]}},
		"schedule-block": {Workload: builtinWorkload(t, "insert"), Controls: 1, Settings: three[2:], Schedule: "block", Until: 0.5},
		// One cluster for each value; WAL segments act where something is written.
		"cluster": {Workload: builtinWorkload(t, "insert"), Controls: 1, Settings: []SettingAxis{set("data_checksums", "off", "on"), three[2]},
			Conf: []server.Setting{{Name: "work_mem", Value: "8MB"}, {Name: "archive_command", Value: "secret"}}},
		// Three instances of 1 GB fit, and five are needed.
		"batches": {Workload: builtinWorkload(t, "select1"), Controls: 1, Memory: memoryOf(3400), Conf: []server.Setting{{Name: "shared_buffers", Value: "1GB"}},
			Settings: []SettingAxis{set("track_activity_query_size", "1kB", "2kB", "3kB", "4kB"), three[2]}},
		"aligned": {Workload: builtinWorkload(t, "select1"), Controls: 1, Servers: serverSpecs(t, "13", "18"), Defaults: Aligned,
			Settings: []SettingAxis{set("pg_stat_statements.track", "none", "top")}},
		"cluster-servers": {Workload: builtinWorkload(t, "select1"), Controls: 1, Servers: serverSpecs(t, "13", "18"),
			Settings: []SettingAxis{{Name: "wal_segment_size", Values: []string{"16MB", "64MB"}, Cluster: true}, {Name: "encoding", Values: []string{"UTF8"}, Cluster: true}}},
		// Cells of one instance, with a twin under the baseline's source.
		"clocksource": {Workload: builtinWorkload(t, "select1"), Settings: three[:1], Controls: 1, Clocksources: []string{"tsc", "kvm-clock"}},
		"environment": {Workload: builtinWorkload(t, "select1"), Settings: three[:1], Controls: 1, Servers: serverSpecs(t, "13", "18"),
			Env: []EnvAxis{{"MALLOC_ARENA_MAX", []string{"unset", "1"}}, {"SECRET", []string{"sesame"}}}},
		"panels": {Workload: builtinWorkload(t, "select1"), Settings: three[:1], Controls: 1, Clients: []int{1, 8}, Threads: 2,
			Protocols: []workload.Protocol{workload.Simple, workload.Prepared}, Columns: []string{"clients", "track_activities"}},
		"full":        {Workload: builtinWorkload(t, "select1"), Settings: append(three[:2:2], set("statement_timeout", "0", "100", "100s")), Full: true, Controls: 1},
		"equal":       {Workload: builtinWorkload(t, "select1"), Controls: 9},
		"no-controls": {Workload: builtinWorkload(t, "select1"), Settings: three[:2], Transactions: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := NewPlan(spec)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := p.Print(&got); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "plan-"+name+".stdout")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != string(want) {
				t.Errorf("got:\n%s\nwant (%s):\n%s", got.String(), golden, want)
			}
		})
	}
}

// Every comparison is between cells of one panel that differ in one axis, its
// twin repeats the cell it is compared with, and the replicate is the run
// where the two don't share an instance.
func TestComparisons(t *testing.T) {
	p, err := NewPlan(Spec{Workload: scriptWorkload(t, "select :n, :m"), Servers: serverSpecs(t, "13", "18"), Controls: 3,
		Modes:    []Mode{PerStatement, SingleTransaction},
		Settings: []SettingAxis{set("jit", "off", "on"), set("track_activities", "off", "on")},
		Vars:     []VarAxis{{Name: "n", Values: []string{"1", "2"}}, {Name: "m", Values: []string{"1", "2", "3"}}}})
	if err != nil {
		t.Fatal(err)
	}
	cells := map[string]Cell{}
	for _, c := range p.Cells {
		cells[c.ID] = c
	}
	seen := map[string]bool{}
	for _, c := range p.Comparisons {
		x, b := cells[c.Cell], cells[c.Against]
		if x.Panel != b.Panel || x.ID == b.ID {
			t.Errorf("%s against %s: not two cells of one panel", x.ID, b.ID)
		}
		if key := c.Cell + " " + c.Axis; seen[key] {
			t.Errorf("cell %s is compared twice along %s", c.Cell, c.Axis)
		} else {
			seen[key] = true
		}
		if twin := cells[c.Twin]; c.Twin != "" && twin.ControlOf != c.Against {
			t.Errorf("%s: twin %s repeats %q, not %s", c.Cell, c.Twin, twin.ControlOf, c.Against)
		}
		var differ []string
		for axis := range x.Axes {
			if x.Axes[axis] != b.Axes[axis] && axis != "setting" {
				differ = append(differ, axis)
			}
		}
		if x.variant != b.variant {
			differ = append(differ, "setting")
		}
		if c.Axis == "control" {
			if len(differ) > 0 || x.ControlOf != b.ID {
				t.Errorf("control %s differs from %s in %v", x.ID, b.ID, differ)
			}
		} else if !slices.Equal(differ, []string{c.Axis}) {
			t.Errorf("%s against %s: differ in %v, expected %s only", x.ID, b.ID, differ, c.Axis)
		}
		if want := map[bool]string{true: "generation", false: "run"}[x.Instance == b.Instance]; c.ReplicateUnit != want {
			t.Errorf("%s against %s: replicate %s, expected %s", x.ID, b.ID, c.ReplicateUnit, want)
		}
	}
	// Per panel: 2 servers x 6 combinations x (baseline, jit, track_activities, all),
	// of which 2x6x3 differ in the setting, 2x4x3 in n, 2x4x4 in m, 24 in the server.
	want := 2 * (2*6*3 + 2*4*3 + 2*4*4 + 24 + 2*2)
	if len(p.Comparisons) != want {
		t.Errorf("%d comparisons, expected %d", len(p.Comparisons), want)
	}
	if got := len(p.Controls); got != 2*3 {
		t.Errorf("%d controls, expected one per server and an instance in each of two panels", got)
	}
}

// So it is with environments, whose cells share no instance, and with clock
// sources, whose cells do.
func TestComparisonsOfPlaces(t *testing.T) {
	p, err := NewPlan(Spec{Workload: builtinWorkload(t, "select1"), Servers: serverSpecs(t, "13", "18"), Controls: 1,
		Settings: []SettingAxis{set("jit", "off", "on")}, Clocksources: []string{"tsc", "kvm-clock", "hpet"},
		Env: []EnvAxis{{"A", []string{"unset", "1"}}, {"B", []string{"", "1", "2"}}}})
	if err != nil {
		t.Fatal(err)
	}
	cells := map[string]Cell{}
	for _, c := range p.Cells {
		cells[c.ID] = c
		in := p.Instances[c.instance]
		want := []string{}
		if c.Axes["env.A"] == "1" {
			want = append(want, "A=1")
		}
		want = append(want, "B="+c.Axes["env.B"])
		if !slices.Equal(in.Env, want) || c.Axes["clocksource"] != c.Clock {
			t.Errorf("cell %s with %v runs under %s on an instance with %q", c.ID, c.Axes, c.Clock, in.Env)
		}
	}
	for _, c := range p.Comparisons {
		x, b := cells[c.Cell], cells[c.Against]
		var differ []string
		for axis := range x.Axes {
			if x.Axes[axis] != b.Axes[axis] {
				differ = append(differ, axis)
			}
		}
		if !slices.Equal(differ, []string{c.Axis}) {
			t.Errorf("%s against %s: differ in %v, expected %s only", x.ID, b.ID, differ, c.Axis)
		}
		sharing := c.Axis == "setting" || c.Axis == "clocksource"
		if want := map[bool]string{true: "generation", false: "run"}[sharing]; c.ReplicateUnit != want || (x.Instance == b.Instance) != sharing {
			t.Errorf("%s against %s, axis %s: replicate %s on %s and %s", x.ID, b.ID, c.Axis, c.ReplicateUnit, x.Instance, b.Instance)
		}
		if twin := cells[c.Twin]; c.Twin != "" && (twin.ControlOf != c.Against || twin.Clock != b.Clock) {
			t.Errorf("%s: twin %s repeats %q under %s", x.ID, c.Twin, twin.ControlOf, twin.Clock)
		}
	}
	// 12 places x 3 sources x 2: half differ in the setting, 2 of 3 in the source,
	// half in A, 2 of 3 in B, half in the server.
	if want := 36 + 48 + 36 + 48 + 36; len(p.Comparisons) != want {
		t.Errorf("%d comparisons, expected %d", len(p.Comparisons), want)
	}
	if len(p.Instances) != 13 || len(p.Controls) != 13 {
		t.Errorf("%d instances and %d controls, expected one for each place, and a twin", len(p.Instances), len(p.Controls))
	}
}

func TestParseAxes(t *testing.T) {
	check := func(text, name string, values ...string) {
		t.Helper()
		a, err := ParseSetting(text)
		if err != nil || a.Name != name || !slices.Equal(a.Values, values) {
			t.Errorf("ParseSetting(%s) = %v, %v; expected %s %q", text, a, err, name, values)
		}
	}
	check("jit=off,on", "jit", "off", "on")
	check("statement_timeout=100ms", "statement_timeout", "100ms")
	check("shared_buffers=1GB,2GB@instance", "shared_buffers", "1GB", "2GB")
	check(`search_path="a, b",c`, "search_path", "a, b", "c")
	check("x.y=a=b", "x.y", "a=b")
	check(`application_name="say ""hi""",default`, "application_name", `say "hi"`, "default")
	env := func(text, name string, values ...string) {
		t.Helper()
		e, err := ParseEnv(text)
		if err != nil || e.Name != name || !slices.Equal(e.Values, values) {
			t.Errorf("ParseEnv(%s) = %v, %v; expected %s %q", text, e, err, name, values)
		}
	}
	env("A=", "A", "")
	env("A=1", "A", "1")
	env("A=unset,,b=c", "A", "unset", "", "b=c")
	env(`LD_PRELOAD="a.so,b.so",unset`, "LD_PRELOAD", "a.so,b.so", "unset")
}

func TestRefused(t *testing.T) {
	check := func(err error, want string) {
		t.Helper()
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected a usage error with %q", err, want)
		}
	}
	parse := func(text string) error { _, err := ParseSetting(text); return err }
	check(parse("jit"), "expected NAME=VALUE")
	check(parse("=on"), "expected NAME=VALUE")
	check(parse("jit=on,on"), "given twice")
	check(parse(`jit="on`), "no line of CSV")
	variable := func(text string) error { _, err := ParseVar(text); return err }
	check(variable("1n=3"), "no name of a variable")
	check(variable("n="), "expected NAME=VALUE")
	modes := func(text string) error { _, err := ParseModes(text); return err }
	check(modes("per-statment"), "did you mean per-statement?")
	check(modes("per-statement,per-statement"), "given twice")
	pin := func(text string) error { _, err := ParsePin(text); return err }
	check(pin("core:x"), "no number of a CPU")
	check(pin("split:0"), "expected none, core")
	check(pin("client=0"), "expected client=LIST,server=LIST")
	check(pin("client=0,client=1"), "expected client=LIST,server=LIST")
	check(pin("client=0,server=x"), "no list of CPUs")
	check(pin("server=,client=1"), "no list of CPUs")
	check(pin("cores"), "expected none, core")

	engine := func(text string) error { _, err := ParseEngine(text); return err }
	check(engine("epol"), "did you mean epoll?")

	plan := func(s Spec) error { _, err := NewPlan(s); return err }
	select1 := builtinWorkload(t, "select1")
	check(plan(Spec{Workload: select1, Settings: []SettingAxis{set("jit", "on"), set("JIT", "off")}}), "given twice")
	check(plan(Spec{Workload: select1, Vars: []VarAxis{{Name: "n", Values: []string{"1"}}}}), "has no variables")
	check(plan(Spec{Workload: scriptWorkload(t, "select 1"), Vars: []VarAxis{{Name: "n", Values: []string{"1"}}}}), "does not use :n")
	check(plan(Spec{Workload: scriptWorkload(t, "begin; select 1; commit"), Modes: []Mode{SingleTransaction}}), "test.sql:1: BEGIN")
	check(plan(Spec{Workload: select1, Servers: serverSpecs(t, "host=/tmp", "18")}), "restarted at every run")
	check(plan(Spec{Workload: scriptWorkload(t, "select :mode"), Vars: []VarAxis{{Name: "mode", Values: []string{"1", "2"}}}}), "name of an axis")
	check(plan(Spec{Workload: scriptWorkload(t, "select 1"), Vars: []VarAxis{{Name: "n", Values: []string{"1"}, Define: true}}}), "-D n: ")
	check(plan(Spec{Workload: select1, Slice: time.Nanosecond}), "500us to 10s")
	check(plan(Spec{Workload: select1, Runs: 1000001}), "out of range")
	check(plan(Spec{Workload: select1, Rounds: 1000001}), "out of range")
	check(plan(Spec{Workload: select1, Clients: []int{1000001}}), "out of range")
	check(plan(Spec{Workload: select1, Duration: 24 * time.Hour}), "out of range")
	check(plan(Spec{Workload: select1, Clients: []int{-1}}), "at least 1")
	check(plan(Spec{Workload: select1, Schedule: "blocks"}), "there are slice and block")
	check(plan(Spec{Workload: select1, Schedule: "block", Rounds: 30}), "a block is a whole run")
	check(plan(Spec{Workload: select1, Until: 0.5}), "needs a control")
	check(plan(Spec{Workload: select1, Settings: []SettingAxis{set("data_checksums", "off", "perhaps")}}), "expected on or off")
	check(plan(Spec{Workload: select1, Settings: []SettingAxis{set("data_checksums", "off", "on"), {Name: "data_checksums", Values: []string{"on"}, Cluster: true}}}), "--initdb data_checksums is given twice")
	check(plan(Spec{Workload: select1, Settings: []SettingAxis{set("block_size", "8192", "16384")}}), "--with-blocksize")
	check(plan(Spec{Workload: select1, Settings: []SettingAxis{set("log_connections", "off", "on")}}), "a new connection for every transaction")
	check(plan(Spec{Workload: select1, Settings: []SettingAxis{set("archive_command", "a", "b")}}), "may hold secrets")
	check(plan(Spec{Workload: select1, Servers: serverSpecs(t, "host=/tmp"), Settings: []SettingAxis{set("wal_segment_size", "16MB", "64MB")}}), "has its cluster already")
	initdb := func(text string) error { _, err := ParseInitdb(text); return err }
	check(initdb("data-checksum=on"), "did you mean data_checksums?")
	check(initdb("work_mem=1MB"), "--set or --conf")
	check(initdb("encoding"), "expected NAME=VALUE")
	conf := func(text string) error {
		c, err := ParseConf(text)
		if err != nil {
			return err
		}
		return plan(Spec{Workload: select1, Conf: []server.Setting{c}, Settings: []SettingAxis{set("work_mem", "1MB")}})
	}
	check(conf("jit"), "expected NAME=VALUE")
	check(conf("jit=default"), "leave it out")
	check(conf("Port=5433"), "needs this setting to run its servers")
	check(conf("work_mem=2MB"), "leave out one of them")
	check(conf("data_checksums=on"), "use --initdb data_checksums=on")
	check(conf("segment_size=1"), "--with-segsize")
	check(plan(Spec{Workload: select1, Conf: []server.Setting{{Name: "jit", Value: "on"}, {Name: "JIT", Value: "off"}}}), "given twice")
	check(plan(Spec{Workload: select1, Servers: serverSpecs(t, "host=/tmp"), Conf: []server.Setting{{Name: "archive_command", Value: "hush"}}}), "--conf archive_command: the configuration of a running server")
	check(plan(Spec{Workload: select1, Servers: serverSpecs(t, "host=/tmp"), Settings: []SettingAxis{set("synchronous_commit", "on", "off")}}), "--allow-alter-system lets pgtare")
	env := func(text string) error { _, err := ParseEnv(text); return err }
	check(env("LD_PRELOAD"), "expected NAME=VALUE")
	check(env("A\nB=secret"), "expected NAME=VALUE")
	check(env("PGPORT=5433"), "not passed on")
	for _, text := range []string{`A="sesame`, "A=sesame,sesame", "A=sesame\nb"} {
		if err := env(text); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("--env %q: %v", text, err)
		}
	}
	check(plan(Spec{Workload: select1, Env: []EnvAxis{{"A", []string{"1"}}, {"A", []string{"2"}}}}), "--env A is given twice")
	check(plan(Spec{Workload: select1, Servers: serverSpecs(t, "host=/tmp"), Env: []EnvAxis{{"A", []string{"1"}}}}), "environment of a running server")
	check(plan(Spec{Workload: select1, Clocksources: []string{"tsc", "tsc"}}), "given twice")
	check(plan(Spec{Workload: select1, Clients: []int{1, 2, 1}}), "given twice")
	check(plan(Spec{Workload: select1, Clients: []int{1, 2}, Columns: []string{"client"}}), "did you mean clients?")
	check(plan(Spec{Workload: select1, Columns: []string{"server"}}), "no such axis")
	many := make([]string, 101)
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	check(plan(Spec{Workload: select1, Settings: []SettingAxis{set("statement_timeout", many...), set("lock_timeout", many...)}, Full: true}), "more than 10000 cells; give them fewer values, or leave out --combine full")
	check(plan(Spec{Workload: select1, Settings: []SettingAxis{set("port", "5433")}}), "needs this setting to run its servers")
	check(plan(Spec{Workload: select1, MaxTime: 1 << 62}), "--max-time at most")
}

func TestLengths(t *testing.T) {
	ms, us := time.Millisecond, time.Microsecond
	for _, c := range []struct {
		single, head time.Duration
		shared       bool
		want         time.Duration
		rounds       int
	}{
		{30 * us, 120 * us, false, 2 * ms, 20},           // the floor of 2 ms
		{30 * us, 500 * us, false, 4 * ms, 20},           // eight heads
		{200 * us, 800 * us, false, 6400 * us, 20},       // eight heads again
		{300 * us, 300 * us, false, 9 * ms, 20},          // thirty transactions
		{30 * us, 120 * us, true, 10 * ms, 20},           // clients share CPUs
		{3 * ms, 0, false, 90 * ms, 20},                  // thirty of 3 ms
		{5 * ms, 0, false, 100 * ms, fewRounds},          // as many as fit: only the total estimate
		{2 * time.Second, 0, false, 100 * ms, fewRounds}, // one
	} {
		got := sliceLength(c.single, c.head, c.shared)
		if got != c.want {
			t.Errorf("slice of transactions of %v, head %v, shared %v: %v, expected %v", c.single, c.head, c.shared, got, c.want)
		}
		if r := roundsOf(got, c.single, 0, time.Second); r != c.rounds {
			t.Errorf("rounds of transactions of %v: %d, expected %d", c.single, r, c.rounds)
		}
	}
	// Connecting and warm-up of 100 ms take a third beside 200 ms of slices.
	if got := roundsOf(2*ms, 30*us, 100*ms, time.Second); got != 100 {
		t.Errorf("%d rounds beside a set-up of 100 ms, expected 100", got)
	}
	if got := roundsOf(2*ms, 30*us, 100*ms, 300*ms); got != 50 {
		t.Errorf("%d rounds beside a set-up of 100 ms in runs of 300 ms, expected 50, three generations", got)
	}
}

func TestHeadLength(t *testing.T) {
	probe := func(first ...int64) []int64 {
		s := slices.Clone(first)
		for len(s) < probeLength {
			s = append(s, 1000)
		}
		return s
	}
	// Eight clients in turn: a latency is up to eight turns, from the first on.
	rng, turns := rand.New(rand.NewPCG(1, 1)), [][]int64{}
	for range 60 {
		var s []int64
		for range probeLength {
			s = append(s, 100+rng.Int64N(800))
		}
		s[0], s[1] = s[0]+3000, s[1]+3000
		turns = append(turns, s)
	}
	for _, c := range []struct {
		probes [][]int64
		want   int
	}{
		{turns, 2},
		{[][]int64{probe(), probe(), probe()}, 1}, // never without a head
		{[][]int64{probe(5000, 2000, 1100, 1060, 1010), probe(5000, 2000, 1100, 1060, 1010)}, 4},
		{[][]int64{probe(5000, 1000, 1000, 1200), probe(5000, 1000, 1000, 1200)}, 4}, // one good median isn't enough
		{[][]int64{{900, 900}, {1000}}, 0},                                           // long transactions
	} {
		if got, _ := headLength(c.probes); got != c.want {
			t.Errorf("head of %v: %d, expected %d", c.probes[0][:2], got, c.want)
		}
	}
}
