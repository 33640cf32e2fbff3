package stats

// Slice is one slice of a cell: Count transactions that took Time (ns, summed
// over clients). The same type carries CPU: Time is then CPU ns and Count all
// transactions of the slice.
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
	Block bool // block schedule: no rounds, typical is left out
}

// Estimate is an overhead in per cent of time per transaction, plus is slower,
// with its 95 % interval and the p of "no difference".
type Estimate struct {
	Pct, Lo, Hi float64
	SE          float64 // of the log ratio
	DF          float64
	P           float64
}

// Comparison is a cell against its reference.
type Comparison struct {
	Replicates int
	Typical    *Estimate // nil: too few rounds or transactions per slice, or block schedule
	Total      *Estimate // nil: fewer than 3 replicates, or nothing completed
	Burst      *Estimate // total - typical
	Marked     bool      // bursts: typical and total disagree (p < 0.01), total decides
	Decides    *Estimate // Typical, or Total where Marked or Typical is nil; nil: no interval can be given
	// ReferenceNs is the baseline's sum of time over sum of transactions: what
	// a per cent is a per cent of (rule 11).
	ReferenceNs float64
	Outliers    []int // indices of replicates beyond 6 robust sd: named, kept

	// Filled by Judge.
	PAdjusted  float64
	Verdict    Verdict
	WouldSee   float64 // per cent
	TimeFactor float64 // of measuring time to decide; 0: decided
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

// ControlResult is a control against its baseline (rule 12).
type ControlResult struct {
	Estimate   Estimate
	T          float64 // its t statistic
	Replicates int
	OK         bool // this control alone (p >= 0.01/m)
	Note       bool // p < 0.05: worth a note, no more
}

// Matrix is everything that is judged together.
type Matrix struct {
	Comparisons []*Comparison
	Controls    []*ControlResult
	Margin      float64 // per cent; 0 is 1
}
