package server

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The isolations and schedules of a setting's cells. pg_settings.context says
// how a setting is set; these say where its cells must run so that their cost
// lands on them and on no neighbour.
const (
	SessionIsolation    = "session"    // cells share an instance
	InstanceIsolation   = "instance"   // an instance of its own
	ClusterIsolation    = "cluster"    // another initdb
	ConnectionIsolation = "connection" // acts only while connecting

	SliceSchedule = "slice"
	BlockSchedule = "block"
)

// landing is a row of the isolation table, where a cost lands: the setting at any value, or, where
// acts is given, at a value for which it is true; else it is as harmless as a
// setting that is off.
type landing struct {
	isolation, schedule string
	acts                func(value string) bool
	reason              string
}

const (
	inBackend = "its cost stays in the backend"
	inLog     = "its log lines pass through files or pipes that all sessions share"
	inWAL     = "its cost lands in the WAL and its writers, which all sessions share"
	inFlush   = "its cost lands in write-back, which all sessions share"
	atTimer   = "its timer is the backend's own, as long as it never fires"
)

// landingsByName is the isolation table. What initdb decides isn't in it: such
// settings become its options before anybody asks ([ClusterOption]). A setting with a threshold is harmless
// while nothing reaches it; that nothing did is for the runner to see in the
// log.
var landingsByName = map[string]landing{
	"track_activities":                    {SessionIsolation, SliceSchedule, nil, inBackend},
	"update_process_title":                {SessionIsolation, SliceSchedule, nil, inBackend},
	"track_counts":                        {SessionIsolation, SliceSchedule, nil, inBackend},
	"track_functions":                     {SessionIsolation, SliceSchedule, nil, inBackend},
	"track_io_timing":                     {SessionIsolation, SliceSchedule, nil, inBackend},
	"track_wal_io_timing":                 {SessionIsolation, SliceSchedule, nil, inBackend},
	"track_cost_delay_timing":             {SessionIsolation, SliceSchedule, nil, inBackend},
	"timing_clock_source":                 {SessionIsolation, SliceSchedule, nil, inBackend},
	"compute_query_id":                    {SessionIsolation, SliceSchedule, nil, inBackend},
	"jit":                                 {SessionIsolation, SliceSchedule, nil, inBackend},
	"jit_above_cost":                      {SessionIsolation, SliceSchedule, nil, inBackend},
	"plan_cache_mode":                     {SessionIsolation, SliceSchedule, nil, inBackend},
	"default_transaction_read_only":       {SessionIsolation, SliceSchedule, nil, inBackend},
	"statement_timeout":                   {SessionIsolation, SliceSchedule, nil, atTimer},
	"lock_timeout":                        {SessionIsolation, SliceSchedule, nil, atTimer},
	"idle_in_transaction_session_timeout": {SessionIsolation, SliceSchedule, nil, atTimer},
	"idle_session_timeout":                {SessionIsolation, SliceSchedule, nil, atTimer},
	"transaction_timeout":                 {SessionIsolation, SliceSchedule, nil, atTimer},
	"client_connection_check_interval":    {SessionIsolation, SliceSchedule, nil, atTimer},
	"deadlock_timeout":                    {SessionIsolation, SliceSchedule, nil, atTimer},
	"auto_explain.log_analyze":            {SessionIsolation, SliceSchedule, nil, inBackend},
	"auto_explain.log_timing":             {SessionIsolation, SliceSchedule, nil, inBackend},
	"auto_explain.log_buffers":            {SessionIsolation, SliceSchedule, nil, inBackend},
	"auto_explain.log_wal":                {SessionIsolation, SliceSchedule, nil, inBackend},
	"auto_explain.sample_rate":            {SessionIsolation, SliceSchedule, nil, inBackend},

	"session_preload_libraries": {SessionIsolation, SliceSchedule, nil, "what it loads runs in the backend"},
	"local_preload_libraries":   {SessionIsolation, SliceSchedule, nil, "what it loads runs in the backend"},

	"default_transaction_isolation": {InstanceIsolation, SliceSchedule, is("serializable"), "predicate locks are kept for all sessions together"},

	"log_min_duration_statement":    {InstanceIsolation, BlockSchedule, isZero, inLog},
	"log_min_duration_sample":       {InstanceIsolation, BlockSchedule, isZero, inLog},
	"auto_explain.log_min_duration": {InstanceIsolation, BlockSchedule, isZero, inLog},
	"log_statement_sample_rate":     {InstanceIsolation, BlockSchedule, isPositive, inLog},
	"log_transaction_sample_rate":   {InstanceIsolation, BlockSchedule, isPositive, inLog},
	"log_duration":                  {InstanceIsolation, BlockSchedule, isOn, inLog},
	"log_parser_stats":              {InstanceIsolation, BlockSchedule, isOn, inLog},
	"log_planner_stats":             {InstanceIsolation, BlockSchedule, isOn, inLog},
	"log_executor_stats":            {InstanceIsolation, BlockSchedule, isOn, inLog},
	"log_statement_stats":           {InstanceIsolation, BlockSchedule, isOn, inLog},
	"log_statement":                 {InstanceIsolation, BlockSchedule, isNot("none"), inLog},
	"log_lock_waits":                {InstanceIsolation, BlockSchedule, nil, inLog},
	"log_destination":               {InstanceIsolation, BlockSchedule, nil, inLog},
	"logging_collector":             {InstanceIsolation, BlockSchedule, nil, inLog},
	"log_line_prefix":               {InstanceIsolation, BlockSchedule, nil, inLog},
	"log_checkpoints":               {InstanceIsolation, BlockSchedule, nil, inLog},
	"log_autovacuum_min_duration":   {InstanceIsolation, BlockSchedule, nil, inLog},
	"log_autoanalyze_min_duration":  {InstanceIsolation, BlockSchedule, nil, inLog},
	"track_commit_timestamp":        {InstanceIsolation, BlockSchedule, nil, inWAL},
	"synchronous_commit":            {InstanceIsolation, BlockSchedule, nil, inWAL},
	"fsync":                         {InstanceIsolation, BlockSchedule, nil, inWAL},
	"full_page_writes":              {InstanceIsolation, BlockSchedule, nil, inWAL},
	"wal_compression":               {InstanceIsolation, BlockSchedule, nil, inWAL},
	"wal_log_hints":                 {InstanceIsolation, BlockSchedule, nil, inWAL},
	"wal_level":                     {InstanceIsolation, BlockSchedule, nil, inWAL},
	"summarize_wal":                 {InstanceIsolation, BlockSchedule, nil, inWAL},
	"wal_init_zero":                 {InstanceIsolation, BlockSchedule, nil, inWAL},
	"wal_recycle":                   {InstanceIsolation, BlockSchedule, nil, inWAL},
	"commit_delay":                  {InstanceIsolation, BlockSchedule, nil, inWAL},
	"commit_siblings":               {InstanceIsolation, BlockSchedule, nil, inWAL},
	"backend_flush_after":           {InstanceIsolation, BlockSchedule, nil, inFlush},
	"checkpoint_flush_after":        {InstanceIsolation, BlockSchedule, nil, inFlush},
	"bgwriter_flush_after":          {InstanceIsolation, BlockSchedule, nil, inFlush},
	"io_method":                     {InstanceIsolation, BlockSchedule, nil, "its workers serve all sessions"},
	"io_workers":                    {InstanceIsolation, BlockSchedule, nil, "its workers serve all sessions"},
	"io_min_workers":                {InstanceIsolation, BlockSchedule, nil, "its workers serve all sessions"},
	"io_max_workers":                {InstanceIsolation, BlockSchedule, nil, "its workers serve all sessions"},
	"track_activity_query_size":     {InstanceIsolation, SliceSchedule, nil, "it sizes shared memory when the server starts"},
	"huge_pages":                    {InstanceIsolation, SliceSchedule, nil, "it shapes shared memory when the server starts"},
	"huge_page_size":                {InstanceIsolation, SliceSchedule, nil, "it shapes shared memory when the server starts"},
	"old_snapshot_threshold":        {InstanceIsolation, SliceSchedule, nil, "it acts on all sessions together"},
	"ssl":                           {InstanceIsolation, SliceSchedule, nil, "it acts on all connections"},
	"ssl_min_protocol_version":      {InstanceIsolation, SliceSchedule, nil, "it acts on all connections"},
	"log_connections":               {ConnectionIsolation, BlockSchedule, nil, "it acts only while connecting"},
	"log_disconnections":            {ConnectionIsolation, BlockSchedule, nil, "it acts only at the end of a connection"},
	"password_encryption":           {ConnectionIsolation, BlockSchedule, nil, "it acts only when a password is set"},
	"scram_iterations":              {ConnectionIsolation, BlockSchedule, nil, "it acts only when a password is set, and then at every log-in"},
}

// landingsByPrefix is for whole libraries.
var landingsByPrefix = []struct {
	prefix  string
	landing landing
}{
	{"pg_stat_statements.", landing{InstanceIsolation, SliceSchedule, nil, "its table and lock are shared by all sessions"}},
}

// assumable are the categories of pg_settings whose user settings run as
// session and slice without being in the table.
var assumable = []string{"Query Tuning", "Resource Usage / Memory", "Client Connection Defaults"}

// Isolation says where and by which schedule the cells of a setting must run.
// context and category are pg_settings'. A value that isn't known ("") is taken
// for one at rest. The value counts: a threshold that
// nothing reaches costs a clock read in the session, and 0 writes a log line
// that others wait for. assumed means that the table doesn't know the setting
// and its category spoke for it, which is a doubt about the result; what
// neither knows runs in an instance of its own, by blocks.
func Isolation(name, value, context, category string) (isolation, schedule string, assumed bool, reason string) {
	name = strings.ToLower(name)
	p, ok := landingsByName[name]
	if !ok {
		for _, l := range landingsByPrefix {
			if strings.HasPrefix(name, l.prefix) {
				p, ok = l.landing, true
			}
		}
	}
	switch {
	case ok && p.acts != nil && (value == "" || !p.acts(strings.TrimSpace(value))):
		return SessionIsolation, SliceSchedule, false, inBackend
	case ok:
		return p.isolation, p.schedule, false, p.reason
	case context == "internal":
		return ClusterIsolation, BlockSchedule, false, "it belongs to the cluster or the build"
	case context == "user" && slices.ContainsFunc(assumable, func(c string) bool { return strings.HasPrefix(category, c) }):
		return SessionIsolation, SliceSchedule, true, "it is assumed to cost nothing outside its session, as others in " + category
	}
	return InstanceIsolation, BlockSchedule, false, "it is not known where its cost lands"
}

// leadingFloat finds the number that a value begins with: "100ms", "-1", "0.5".
var leadingFloat = regexp.MustCompile(`^[-+]?(\d+\.?\d*|\.\d+)`)

func number(v string) (float64, bool) {
	f, err := strconv.ParseFloat(leadingFloat.FindString(v), 64)
	return f, err == nil
}

func isZero(v string) bool     { n, ok := number(v); return !ok || n == 0 }
func isPositive(v string) bool { n, ok := number(v); return !ok || n > 0 }
func isOn(v string) bool       { b, ok := parseBool(v); return !ok || b }

func is(word string) func(string) bool {
	return func(v string) bool { return strings.EqualFold(v, word) }
}

func isNot(word string) func(string) bool {
	return func(v string) bool { return !strings.EqualFold(v, word) }
}

// Workload is what CanAct must know of the load.
type Workload struct {
	// SingleTransaction: the statements of a slice run inside one SQL
	// transaction.
	SingleTransaction bool
	Protocol          string // simple, extended, prepared
	Clients           int
	// Parameters: some statement is sent with parameters.
	Parameters bool
	Statements []string // the script's SQL
	// Longest is how long a cell is measured in one piece at most.
	Longest time.Duration
	// Builtin is the name of a built-in script whose tables are pgtare's own;
	// "" for a script of the user's.
	Builtin string
}

// Needs is what must have happened on the server for a setting to have acted.
type Needs string

const (
	NeedsNothing Needs = ""
	NeedsIO      Needs = "io"  // pages read or written, or temporary files
	NeedsWAL     Needs = "wal" // WAL written
	NeedsIOOrWAL Needs = "io or wal"
	NeedsTimes   Needs = "times" // pages read or written, and the times of it counted

	// What is not in Counters.
	NeedsLog        Needs = "log"        // lines in the server's log
	NeedsStatements Needs = "statements" // executions counted by pg_stat_statements
	NeedsJIT        Needs = "jit"        // a plan that is compiled
	NeedsHugePages  Needs = "huge pages" // shared memory in them
)

// Unmet returns why a setting can't have acted to any weight, going by what
// the server has counted meanwhile (a difference of two readings); "" where it
// may have. A new backend reads some pages of the catalogs, and the
// checkpointer writes some WAL: a page in a hundred transactions, or ten bytes
// of WAL for each, is taken for that.
func (n Needs) Unmet(c Counters) string {
	const pageSize = 8192
	pages := c.PagesRead + c.TempBytes/pageSize
	switch {
	case n == NeedsIO && pages <= c.Transactions/100 && c.WriteMs == 0:
		return fmt.Sprintf("%d pages were read from or written to files in %d transactions", pages, c.Transactions)
	case n == NeedsWAL && c.WALBytes <= 10*c.Transactions:
		return fmt.Sprintf("%d bytes of WAL were written in %d transactions", c.WALBytes, c.Transactions)
	case n == NeedsTimes:
		if io := NeedsIO.Unmet(c); io != "" || c.PagesRead <= c.Transactions/100 || c.ReadMs+c.WriteMs > 0 {
			return io
		}
		return fmt.Sprintf("%d pages were read, and the server counted no time for it", c.PagesRead)
	case n == NeedsIOOrWAL:
		if io, wal := NeedsIO.Unmet(c), NeedsWAL.Unmet(c); io != "" && wal != "" {
			return io + ", and " + wal
		}
	}
	return ""
}

// CanAct returns why a setting can't act under a workload, "" where it can or
// may. It says only what is certain. needs is what the counters must show
// besides.
func CanAct(name string, w Workload) (reason string, needs Needs) {
	if name = strings.ToLower(name); ofAutovacuum(name) && w.Longest < 2*autovacuumNaptime && !w.anyStatement(vacuums) {
		return fmt.Sprintf("autovacuum looks at a database once in %v, and a cell is measured for %v in one piece; it takes two such rounds (-T %.0f --schedule block)",
			autovacuumNaptime, w.Longest, 2*autovacuumNaptime.Seconds()), ""
	}
	switch name {
	case "track_io_timing", "backend_flush_after", "io_method", "io_workers", "io_min_workers", "io_max_workers":
		return "", NeedsIO
	case "data_checksums": // a page read from or written to a file, or a hint bit that is logged for it
		return "", NeedsIOOrWAL
	case "encoding", "locale", "lc_collate", "lc_ctype", "locale_provider", "builtin_locale", "icu_locale", "icu_rules":
		if w.Builtin != "" {
			return "the workload compares and converts no text", ""
		}
	case "log_checkpoints", "checkpoint_flush_after", "bgwriter_flush_after":
		return "", NeedsWAL
	case "checkpoint_completion_target":
		if w.Longest < 2*checkpointTimeout {
			return fmt.Sprintf("it spreads the checkpoints that come by time, every %v, and a cell is measured for %v in one piece (-T %.0f --schedule block)",
				checkpointTimeout, w.Longest, 2*checkpointTimeout.Seconds()), ""
		}
		return "", NeedsWAL
	case "track_wal_io_timing", "synchronous_commit", "wal_compression", "commit_delay", "commit_siblings", "full_page_writes", "fsync", "wal_init_zero", "wal_recycle", "wal_segment_size":
		return "", NeedsWAL
	case "idle_in_transaction_session_timeout":
		if !w.SingleTransaction && !w.anyStatement(transactionControl) {
			return "no SQL transaction stays open between statements", ""
		}
	case "idle_session_timeout":
		if w.SingleTransaction {
			return "sessions are never idle outside an SQL transaction while it is measured", ""
		}
	case "lock_timeout", "deadlock_timeout", "log_lock_waits":
		if w.Clients == 1 || w.Builtin == "select1" {
			return "no session waits for a lock", ""
		}
	case "plan_cache_mode":
		if !w.Parameters && !w.callsCode() {
			return "no statement is prepared with parameters, so there is one plan to choose from", ""
		}
		if w.Protocol != "prepared" && !w.callsCode() {
			return "no statement is prepared", ""
		}
	case "track_functions":
		if !w.callsCode() {
			return "no function is called that it would count", ""
		}
	}
	return "", ""
}

// The defaults of autovacuum_naptime and checkpoint_timeout.
const (
	autovacuumNaptime = time.Minute
	checkpointTimeout = 5 * time.Minute
)

var vacuums = regexp.MustCompile(`(?i)\b(vacuum|analyze)\b`)

// ofAutovacuum says whether a setting acts when autovacuum works, or on when it
// does.
func ofAutovacuum(name string) bool {
	return strings.HasPrefix(name, "autovacuum") || strings.HasPrefix(name, "log_auto") || name == "track_cost_delay_timing"
}

var (
	transactionControl = regexp.MustCompile(`(?i)\b(begin|start\s+transaction)\b`)
	// What may run functions of somebody's own, or plans of its own: calls,
	// and tables and views, which may have triggers and functions beneath.
	mayCall = regexp.MustCompile(`(?i)\(|\b(from|into|update|table|call|do|execute|prepare|merge|copy)\b`)
)

func (w Workload) anyStatement(re *regexp.Regexp) bool {
	return slices.ContainsFunc(w.Statements, re.MatchString)
}

// callsCode reports whether PL functions may run. The built-in scripts' only
// calls are nextval, which is built in.
func (w Workload) callsCode() bool { return w.Builtin == "" && w.anyStatement(mayCall) }
