package stats

// Compare weighs cell against its reference: base and, where there is one, its
// control (twin; nil or empty: base alone).
func Compare(cell, base, twin Sample, o Options) *Comparison { return &Comparison{PAdjusted: 1} }

// Control weighs a control against its baseline.
func Control(cell, base Sample, o Options) *ControlResult { return &ControlResult{} }

// Judge fills what depends on the whole matrix: PAdjusted, Verdict, Reason,
// WouldSee and TimeFactor of every comparison, OK and Note of every control.
func (m *Matrix) Judge() Trust { return Trust{} }

// Ns is the overhead in ns per transaction: the deciding per cent and its
// interval times ReferenceNs. All 0 where Decides is nil.
func (c *Comparison) Ns() (ns, lo, hi float64) { return 0, 0, 0 }

// TPSPct turns an overhead in per cent of time into per cent of tps.
func TPSPct(pct float64) float64 { return 0 }

// Medians is the median, the smallest and the largest of values; all 0 where
// there are none.
func Medians(values []float64) (median, min, max float64) { return 0, 0, 0 }
