package results

import (
	"encoding/json"
	"time"
)

// Format is the version of the record's format that this package writes.
const Format = 1

// Record is a whole record, as read back from its file: what was planned, what
// was measured, and what happened.
type Record struct {
	Header      Header
	Generations []Generation
	Machine     []Machine
	Warnings    []Warning // those of the header and those that came later, in order
	End         *End      // nil: the record was cut off (crash, SIGKILL, disk full)
	Torn        bool      // the last line was incomplete and was left out
}

// Header is the first line of a record. It is written after the probe and the
// pilot and before anything is measured, so that a record always explains
// itself.
type Header struct {
	Type    string    `json:"type"` // "header"
	Format  int       `json:"format"`
	ID      string    `json:"id"`
	Pgtare  string    `json:"pgtare"` // version of the program that wrote it
	Title   string    `json:"title"`
	Started time.Time `json:"started"`
	Seed    int64     `json:"seed"` // below 2^53, so that any JSON reader keeps it
	Args    []string  `json:"args"` // the command line, secrets removed

	Spec json.RawMessage `json:"spec"` // the matrix as asked, in the form of package matrix; null where unknown

	Runs         int     `json:"runs"`         // runs asked for
	RunSeconds   float64 `json:"run_seconds"`  // measured seconds per cell and run, as asked (0 when Transactions is set)
	Transactions int64   `json:"transactions"` // -t: measured transactions per client and run; 0 when not asked
	Unit         string  `json:"unit"`         // "tps" or, with -t, "s": seconds for Transactions x clients
	Margin       float64 `json:"margin"`       // per cent: smaller is "same"
	// Until is the half-width, in per cent, at which the matrix was to stop; 0:
	// it had a set number of runs. Runs is then the least number.
	Until      float64 `json:"until"`
	MaxSeconds float64 `json:"max_seconds"` // no run begins later; 0: no limit

	Environment Environment         `json:"environment"`
	Axes        []Axis              `json:"axes"`              // in the order of the table
	Columns     []string            `json:"columns,omitempty"` // axes or settings whose values stand as columns; empty: the servers
	Servers     []Server            `json:"servers"`
	Defaults    *Defaults           `json:"defaults"` // null: one server, so that there is nothing to ask
	Instances   []Instance          `json:"instances"`
	Panels      []Panel             `json:"panels"`
	Cells       []Cell              `json:"cells"`
	Comparisons []PlannedComparison `json:"comparisons"`
	Controls    []PlannedControl    `json:"controls"`
	Warnings    []Warning           `json:"warnings"`
}

// Environment is the machine that measured. Empty strings and zeros: not known.
type Environment struct {
	OS           string   `json:"os"`
	Kernel       string   `json:"kernel"`
	CPU          string   `json:"cpu"`
	CPUs         int      `json:"cpus"` // usable by this process
	MemoryBytes  int64    `json:"memory_bytes"`
	Clocksource  string   `json:"clocksource"`
	Clocksources []string `json:"clocksources"` // that the kernel offers
	ClockReadNs  float64  `json:"clock_read_ns"`
	// Clocks are the sources that the matrix switches between, the baseline's
	// first; empty: it switches nothing.
	Clocks []Clock `json:"clocks,omitempty"`
	// OwnClock is what pgtare's load threads read, once per transaction and more,
	// where Clocks says that the kernel's source is switched: counter, the CPU's
	// own, which costs the same under each source; or clocksource, the kernel's.
	OwnClock       string `json:"own_clock,omitempty"`
	Governor       string `json:"governor"`
	Virtualization string `json:"virtualization"`
	HugePages      string `json:"huge_pages"` // transparent huge pages, and reserved ones
	LoadAverage    string `json:"load_average"`
	Go             string `json:"go"`
	User           string `json:"user"` // that the managed servers run as
}

// Clock is a clock source, and the ns that a read took under it: the best of
// some batches, before anything was measured.
type Clock struct {
	Source string  `json:"source"`
	ReadNs float64 `json:"read_ns"`
}

// Axis is a dimension of the matrix. The first value is the baseline's.
type Axis struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// Server is an installation, or an attached server, as it was found.
type Server struct {
	Label      string            `json:"label"`            // names it in tables: "18.4", or the user's label
	Origin     string            `json:"origin"`           // debian, path, npm, built, directory, attached
	Source     string            `json:"source,omitempty"` // of one that pgtare built: the tree, and the commit of a ref
	Version    string            `json:"version"`          // "18.4"
	VersionNum int               `json:"version_num"`
	FullString string            `json:"full_version"` // version()
	Compiler   string            `json:"compiler"`
	Build      map[string]string `json:"build"` // the pg_config view: CONFIGURE, CC, CFLAGS, ...
	Assertions bool              `json:"assertions"`
	Settings   map[string]string `json:"settings"`   // pg_settings that differ from boot_val, and some that bear on levels as they are; secrets removed
	Deviations []string          `json:"deviations"` // what pgtare set other than PostgreSQL's own defaults
}

// Defaults says which question about several servers was asked, and what they
// differ in besides their code.
type Defaults struct {
	// Asked is shipped (each server has its own defaults) or aligned (where they
	// differ, all have those of the first server that knows the setting).
	Asked   string         `json:"asked"`
	Aligned []ServerValues `json:"aligned"` // the defaults that were made alike, as each server has them by itself
	Differ  []ServerValues `json:"differ"`  // as it was measured: what differs though no axis does it
	Only    []ServerValues `json:"only"`    // what not all servers have
}

// ServerValues is a setting by servers.
type ServerValues struct {
	Name   string            `json:"name"`
	Values map[string]string `json:"values"` // by the server's label; a server that doesn't have it is left out
	// Changed is since when PostgreSQL has another default, as far as is known.
	Changed string `json:"changed"`
}

// Instance is one running PostgreSQL (restarted at every run where the matrix
// has an instance axis).
type Instance struct {
	ID      string `json:"id"`
	Server  string `json:"server"`  // label
	Control bool   `json:"control"` // it only holds the twin of the baseline
}

// Panel is a set of cells that may be compared: one workload, mode, protocol
// and number of clients.
type Panel struct {
	ID       string `json:"id"`
	Workload string `json:"workload"` // select1, insert, or the script's file name
	Mode     string `json:"mode"`     // per-statement, single-transaction
	Protocol string `json:"protocol"` // simple, extended, prepared
	Clients  int    `json:"clients"`
	Threads  int    `json:"threads"`
	Script   string `json:"script"`   // its text
	Schedule string `json:"schedule"` // slice, block
	// Batch of instances, from 1, that this panel was measured on, where memory
	// doesn't hold all of the matrix at once; 0: it does.
	Batch int `json:"batch"`
	// Checkpoints are forced in each block, at equal distances; 0: none are.
	Checkpoints int    `json:"checkpoints"`
	Pin         string `json:"pin"`    // placement in force: none, core:0, client=0,server=1-3
	Engine      string `json:"engine"` // what sends the load and how it waits for answers: wire/epoll, wire/io_uring, wire/net, "wire/net with TLS 1.3"

	// Frozen by the pilot, alike for all cells of the panel.
	Head          int   `json:"head"` // transactions per client sent before the window opens
	SliceNs       int64 `json:"slice_ns"`
	Rounds        int   `json:"rounds"`         // per generation
	Generations   int   `json:"generations"`    // per run
	Warmup        int   `json:"warmup"`         // transactions per client that open a generation, at least
	TransactionNs int64 `json:"transaction_ns"` // the pilot's median over all cells of the panel

	Sessions int `json:"sessions"` // open on each instance while this panel is measured, idle ones that make the number equal included

	Anchors []Anchor `json:"anchors"`

	// What the baseline's backends waited for in an unbroken stretch, by
	// wait_event_type of pg_stat_activity ("" is running); null: not sampled.
	Waits map[string]int64 `json:"waits"`
}

// Anchor is one unbroken second of a panel's baseline on one server.
type Anchor struct {
	Server       string  `json:"server"`
	Transactions int64   `json:"transactions"`
	Seconds      float64 `json:"seconds"`
	TPS          float64 `json:"tps"`
}

// Cell is one combination of the axes' values.
type Cell struct {
	ID        string            `json:"id"`
	Panel     string            `json:"panel"`
	Server    string            `json:"server"`   // label
	Instance  string            `json:"instance"` // ID
	Label     string            `json:"label"`    // row of the table: "track_activities=on", "all", "control", ""
	Axes      map[string]string `json:"axes"`     // axis name -> value: server, mode, workload, setting, and --var names
	Settings  map[string]string `json:"settings"` // as given at connecting
	Vars      map[string]string `json:"vars"`
	ReadBack  map[string]string `json:"read_back"` // the settings as pg_settings showed them, with units; secrets removed
	Isolation string            `json:"isolation"` // session, instance, cluster
	Schedule  string            `json:"schedule"`
	Baseline  bool              `json:"baseline"`
	ControlOf string            `json:"control_of"` // "" or the ID of the cell it repeats
	Status    string            `json:"status"`     // ok, n/a; failed and partial are found when reading
	Reason    string            `json:"reason"`
	// Plans are those of the script's statements, in short, "" for one that has
	// none; null: not asked for (controls, n/a).
	Plans []string `json:"plans,omitempty"`
	// NotExercised says why the setting cannot have acted; "" where it could.
	NotExercised string `json:"not_exercised"`
}

// PlannedComparison says before anything is measured which cell will be
// compared with which.
type PlannedComparison struct {
	Cell    string `json:"cell"`
	Against string `json:"against"`
	Twin    string `json:"twin"` // control of Against whose data join the reference; "" where it has none
	Axis    string `json:"axis"` // in which the two differ: setting, server, a variable's name, or "control" for further controls
	// ReplicateUnit is generation where both share an instance, else run.
	ReplicateUnit string `json:"replicate_unit"`
}

// PlannedControl is a control that decides about trust.
type PlannedControl struct {
	Panel         string `json:"panel"`
	Cell          string `json:"cell"`
	Against       string `json:"against"`
	ReplicateUnit string `json:"replicate_unit"`
}

// Warning is a doubt about a number. It travels with the number into every
// format.
type Warning struct {
	Type   string   `json:"type,omitempty"` // "warning" where it is a line of its own
	Code   string   `json:"code"`           // few-replicates, isolation-assumed, ...
	Cells  []string `json:"cells"`          // empty: all
	Text   string   `json:"text"`
	Remedy string   `json:"remedy"`
	// Forbids is what must not be said of these cells because of it: "same"
	// (that there is no cost), "verdict" (anything), "" nothing.
	Forbids string `json:"forbids,omitempty"`
}

// What a warning forbids.
const (
	ForbidsSame    = "same"
	ForbidsVerdict = "verdict"
)

// Machine is a line of the record: what the machine did while a generation of
// a panel, or a block of one of its cells, was measured, set-up included.
// -1: not known.
type Machine struct {
	Type        string    `json:"type"` // "machine"
	Panel       string    `json:"panel"`
	Cell        string    `json:"cell"` // of a block; "": all cells of the panel
	Run         int       `json:"run"`
	Generation  int       `json:"generation"`
	Started     time.Time `json:"started"`
	ElapsedNs   int64     `json:"elapsed_ns"`
	CPUs        int       `json:"cpus"`         // that clients and backends may use; the next three are sums over them
	BusyNs      int64     `json:"busy_ns"`      // neither idle nor stolen
	StealNs     int64     `json:"steal_ns"`     // wanted, but given to other virtual machines
	OwnNs       int64     `json:"own_ns"`       // of BusyNs: pgtare and the servers that are measured, where their processes are on this machine, on whatever CPU
	ThrottledNs int64     `json:"throttled_ns"` // this control group was held up by its CPU quota
	MinKHz      int64     `json:"min_khz"`      // lowest and highest frequency of the CPUs
	MaxKHz      int64     `json:"max_khz"`
	Clocksource string    `json:"clocksource"` // at its end; "": not known
}

// Background is what one instance did beside the transactions of the only cell
// that it served meanwhile: during a block, or during a run in slices. -1: not
// known.
type Background struct {
	Transactions int64 `json:"transactions"`  // that the counters below cover, those of the warm-up included
	CPUNs        int64 `json:"cpu_ns"`        // of all server processes but the cell's backends, during the slices
	Measured     int64 `json:"measured"`      // transactions that CPUNs covers: those of the slices
	WALBytes     int64 `json:"wal_bytes"`     // written
	PagesRead    int64 `json:"pages_read"`    // pages that were not in shared buffers
	PagesWritten int64 `json:"pages_written"` // pages written by checkpointer, background writer and backends
	Checkpoints  int64 `json:"checkpoints"`   // begun, timed and requested
	Vacuums      int64 `json:"vacuums"`       // autovacuum and autoanalyze runs that ended
}

// FileIO is bytes that went through file reads and writes of the backends, to and
// from the system's cache or the disk: pages that were not in shared buffers, WAL,
// temporary files. What other processes read and wrote for them (io workers,
// checkpointer, WAL writer) is not in it, nor what io_uring did.
type FileIO struct {
	Transactions int64 `json:"transactions"` // of the slices
	ReadBytes    int64 `json:"read_bytes"`
	WrittenBytes int64 `json:"written_bytes"`
}

// Generation is one line of the record: what one cell did on one set of
// backends.
type Generation struct {
	Type       string    `json:"type"` // "generation"
	Panel      string    `json:"panel"`
	Cell       string    `json:"cell"`
	Run        int       `json:"run"`        // from 1
	Generation int       `json:"generation"` // within the run, from 1
	Started    time.Time `json:"started"`
	Slices     Slices    `json:"slices"`

	Histogram string  `json:"histogram"` // HdrHistogram V2, compressed, base64; ns
	MeanNs    float64 `json:"mean_ns"`   // latency of the transactions in the windows
	P50Ns     int64   `json:"p50_ns"`    // quantiles of this histogram
	P95Ns     int64   `json:"p95_ns"`
	P99Ns     int64   `json:"p99_ns"`
	P999Ns    int64   `json:"p999_ns"`
	MaxNs     int64   `json:"max_ns"`

	Failures map[string]int64 `json:"failures"` // SQLSTATE -> transactions

	ConnectNs int64 `json:"connect_ns"` // connecting and proof, all clients
	WarmupNs  int64 `json:"warmup_ns"`
	WarmupTx  int64 `json:"warmup_tx"`
	Faults    int64 `json:"minor_faults"`         // of the backends, in the measured slices; -1: not known
	Switches  int64 `json:"involuntary_switches"` // of the backends; -1: not known
	Moves     int64 `json:"moves"`                // of the backends from CPU to CPU; -1: not known
	// FileIO is what the backends read and wrote in the slices; null: not known.
	FileIO *FileIO `json:"file_io,omitempty"`
	// Background is null where other cells were served meanwhile. In slices it
	// is that of the whole run, and with its last generation.
	Background *Background `json:"background,omitempty"`
	Lost       string      `json:"lost"` // why the generation ended early; its slices are not used
}

// Slices holds the slices of one generation as columns of equal length. Times
// are ns, -1: not measured.
type Slices struct {
	Round       []int64 `json:"round"`       // from 0
	Position    []int64 `json:"position"`    // within the round, from 0
	Predecessor []int64 `json:"predecessor"` // index into Header.Cells of the cell before; -1: none
	StartUs     []int64 `json:"start_us"`    // since Started
	N           []int64 `json:"n"`           // transactions completed in the window
	T           []int64 `json:"t"`           // one client: last completion - window start; several: clients x window
	HeadNs      []int64 `json:"head_ns"`     // start of the slice to start of the window
	ElapsedNs   []int64 `json:"elapsed_ns"`  // of the whole slice: head, window, drain; may be empty: not kept
	All         []int64 `json:"all"`         // transactions of the whole slice: head, window, drain
	ServerCPU   []int64 `json:"server_cpu"`  // of the backends, whole slice
	ServerWait  []int64 `json:"server_wait"` // their time runnable but not running
	ClientCPU   []int64 `json:"client_cpu"`  // of the job threads, whole slice
	ClientWait  []int64 `json:"client_wait"`
	BeginNs     []int64 `json:"begin"`  // single-transaction mode, mean over the clients; else -1
	CommitNs    []int64 `json:"commit"` // the same
}

// End is the last line of a record that was closed in order.
type End struct {
	Type   string    `json:"type"` // "end"
	Ended  time.Time `json:"ended"`
	Status string    `json:"status"` // complete, interrupted, failed
	Reason string    `json:"reason"`
}

// line is what every line of a record begins with.
type line struct {
	Type string `json:"type"`
}
