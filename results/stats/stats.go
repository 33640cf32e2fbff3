package stats

// Compare, Control and (*Matrix).Judge are the whole of the package; the types
// below are what they take and give.

// Slice is one slice of a cell: Count transactions that took Time (ns, summed
// over clients). The same type carries CPU: Time is then CPU ns and Count all
// transactions of the slice. Below 0, both 0, or not finite: not measured.
type Slice struct {
	Time  float64
	Count float64
}

// Generation is what one cell did in one generation, its slices in the order
// of the rounds: Slices[r] of every cell of a panel belong to the same round.
type Generation struct {
	Run        int // from 1
	Generation int // within the run, from 1
	Slices     []Slice
	// After is the cell that each slice came after, for CarryOver alone: an index
	// into the samples that it is given, -1 or missing where it isn't one.
	After []int
}

// Sample is all that is known of one cell, generations in order. Samples that
// are compared hold the same (Run, Generation) keys; keys that one of them
// lacks are left out.
type Sample []Generation

// Unit is what counts as a replicate.
type Unit string

const (
	ByGeneration Unit = "generation" // cells share an instance
	ByRun        Unit = "run"        // cells on instances of their own, restarted every run
)

// Options of a comparison. The zero value compares slices by generation.
type Options struct {
	Unit  Unit // "" is ByGeneration
	Block bool // block schedule: no rounds, the run is the replicate (whatever Unit says), typical is left out
}

// Estimate is an overhead in per cent of time per transaction, plus is slower,
// with its 95 % interval and the p of "no difference".
type Estimate struct {
	Pct, Lo, Hi float64
	SE          float64 // of the log ratio
	DF          float64
	T           float64 // log ratio over SE
	P           float64
}

// Replicate names a replicate: a generation of a run, or (Generation 0) a run.
type Replicate struct {
	Run, Generation int
}

// Comparison is a cell against its reference.
type Comparison struct {
	// Panel is the caller's to fill: Judge looks there for the controls.
	Panel string

	Unit          Unit // of the replicates, as in force ("" is ByGeneration)
	Replicates    int
	FewReplicates bool      // fewer than 15 generations or 10 runs: never "same"
	Typical       *Estimate // nil: too few rounds or transactions per slice, or block schedule
	Total         *Estimate // nil: fewer than 3 replicates, or nothing completed
	Burst         *Estimate // total - typical, in per cent of the typical time; nil where either is
	Marked        bool      // bursts: typical and total disagree (p < 0.01), total decides
	Decides       *Estimate // Typical, or Total where Marked or Typical is nil; nil: no interval can be given
	// Point is the overhead in per cent: Decides.Pct, or where no interval can
	// be given (fewer than 3 replicates) the bare ratio of sums. nil: nothing
	// completed on one side.
	Point *float64
	// ReferenceNs is the baseline's sum of time over sum of transactions: what
	// a per cent is a per cent of. 0: it completed nothing.
	ReferenceNs float64
	Outliers    []int       // indices of replicates beyond 6 robust sd: named, kept
	OutlierAt   []Replicate // what these replicates are, same order

	// Filled by Judge.
	PAdjusted  float64 // Holm; 1 where there is no p
	Verdict    Verdict
	Reason     string  // why Unclear whatever the figures say: no control, fewer than 3 replicates, ...; else ""
	WouldSee   float64 // per cent; 0: no interval
	TimeFactor float64 // of measuring time to decide, at least 1; 0: decided, or time alone won't decide
}

// Verdict is the word printed for a comparison.
type Verdict string

const (
	Slower    Verdict = "slower"
	Faster    Verdict = "faster"
	Same      Verdict = "same"
	Unclear   Verdict = "unclear"
	Untrusted Verdict = "untrusted"
)

// ControlResult is a control against its baseline (Procedure, 7).
type ControlResult struct {
	// Panel is the caller's to fill: its comparisons stand or fall with it.
	Panel string

	Estimate   Estimate // DF 0: fewer than 3 replicates, or nothing completed; such a control counts as none
	T          float64  // its t statistic
	Z          float64  // the normal quantile that has Estimate.P, sign of T
	Replicates int

	// Filled by Judge.
	OK   bool // this control alone (p >= 0.01/m); false where it counts as none
	Note bool // p < 0.05: worth a note, no more
}

// Matrix is everything that is judged together: all comparisons (further
// controls among them) and all controls that decide about trust.
type Matrix struct {
	Comparisons []*Comparison
	Controls    []*ControlResult
	Margin      float64 // per cent; 0 is 1
}

// Trust is what the controls say of the whole matrix.
type Trust struct {
	Trusted         bool     // every control held; false also where there was none (Controls 0)
	Controls        int      // that could be judged: the m of the Procedure, 7
	ChiSquare       float64  // sum of z squared over the controls
	DF              float64  // = Controls
	P               float64  // of ChiSquare; 1 where there was no control
	Whole           bool     // ChiSquare failed: no comparison of the matrix is trusted
	UntrustedPanels []string // whose own control failed (p < 0.01/m), in the order met
	EqualWithin     float64  // per cent: equal cells differed by at most this (the controls' widest interval end); 0: no control
}
