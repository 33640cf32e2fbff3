package results

import (
	"fmt"
	"slices"
	"strings"
)

// Limits that no honest record meets. They keep sums inside an int64 and
// memory in proportion to the file.
const (
	maxCount = 1e15 // transactions; ns: 11 days
	maxRuns  = 1e6
	maxRound = 1e5
)

// checker holds the rules of a record that no type can hold. Reader and Writer
// share it, so that whatever was written can be read. Its methods return what
// is wrong, or "".
type checker struct {
	h      *Header
	panels map[string]*Panel
	cells  map[string]*Cell
	seen   map[generationKey]bool
	ended  bool
}

type generationKey struct {
	cell            string
	run, generation int
}

// header checks the first line and remembers what later lines refer to.
func (c *checker) header(h *Header) string {
	if c.h != nil {
		return "a second header"
	}
	if h.Format < 1 || h.Format > Format {
		return fmt.Sprintf("unknown format %d", h.Format)
	}
	if h.ID == "" {
		return "a record without an id"
	}
	if h.Runs < 1 || h.Runs > maxRuns {
		return fmt.Sprintf("%d runs", h.Runs)
	}
	if !(h.RunSeconds >= 0 && h.RunSeconds <= 1e9) || !(h.Margin >= 0 && h.Margin <= 1e6) || !inRange(0, h.Transactions) {
		return "run_seconds, transactions or margin out of range"
	}
	if !(h.Until >= 0 && h.Until <= 1e6) || !(h.MaxSeconds >= 0 && h.MaxSeconds <= 1e9) {
		return "until or max_seconds out of range"
	}
	if h.Unit != "tps" && h.Unit != "s" {
		return fmt.Sprintf("unknown unit %q (tps, s)", clip(h.Unit))
	}
	if h.Unit == "s" && h.Transactions == 0 {
		return "unit s without a number of transactions"
	}

	for _, k := range h.Environment.Clocks {
		if k.Source == "" || !(k.ReadNs >= 0 && k.ReadNs <= 1e9) {
			return fmt.Sprintf("clock source %q: %v ns a read", clip(k.Source), k.ReadNs)
		}
	}
	axes := map[string]bool{}
	for _, a := range h.Axes {
		if msg := newID(axes, "axis", a.Name); msg != "" {
			return msg
		}
	}
	servers := map[string]bool{}
	for _, s := range h.Servers {
		if msg := newID(servers, "server", s.Label); msg != "" {
			return msg
		}
	}
	if d := h.Defaults; d != nil {
		for _, list := range [][]ServerValues{d.Aligned, d.Differ, d.Only} {
			for _, v := range list {
				for label := range v.Values {
					if !servers[label] {
						return fmt.Sprintf("default %q is of an unknown server %q", clip(v.Name), clip(label))
					}
				}
			}
		}
	}
	instances := map[string]bool{}
	for _, i := range h.Instances {
		if msg := newID(instances, "instance", i.ID); msg != "" {
			return msg
		}
		if !servers[i.Server] {
			return fmt.Sprintf("instance %q is of an unknown server %q", clip(i.ID), clip(i.Server))
		}
	}
	panels := map[string]*Panel{}
	for i := range h.Panels {
		p := &h.Panels[i]
		if p.ID == "" || panels[p.ID] != nil {
			return fmt.Sprintf("panel id %q is empty or occurs twice", clip(p.ID))
		}
		panels[p.ID] = p
		if p.Clients < 1 || p.Clients > 1e6 || p.Threads < 1 || p.Threads > p.Clients {
			return fmt.Sprintf("panel %q: %d clients in %d threads", clip(p.ID), p.Clients, p.Threads)
		}
		if !inRange(0, int64(p.Head), p.SliceNs, int64(p.Rounds), int64(p.Generations), int64(p.Warmup), p.TransactionNs, int64(p.Sessions), int64(p.Checkpoints)) {
			return fmt.Sprintf("panel %q: a negative or absurd length", clip(p.ID))
		}
		if p.Rounds > maxRound || p.Generations > maxRuns {
			return fmt.Sprintf("panel %q: %d generations of %d rounds", clip(p.ID), p.Generations, p.Rounds)
		}
		for kind, n := range p.Waits {
			if !inRange(0, n) {
				return fmt.Sprintf("panel %q: %d samples of waits of type %q", clip(p.ID), n, clip(kind))
			}
		}
		for _, a := range p.Anchors {
			if !servers[a.Server] {
				return fmt.Sprintf("panel %q: an anchor of an unknown server %q", clip(p.ID), clip(a.Server))
			}
			if !inRange(0, a.Transactions) || !(a.Seconds >= 0 && a.Seconds <= 1e9) || !(a.TPS >= 0 && a.TPS <= maxCount) {
				return fmt.Sprintf("panel %q: an anchor with negative or absurd figures", clip(p.ID))
			}
		}
	}
	cells := map[string]*Cell{}
	baselines := map[string]string{}
	for i := range h.Cells {
		x := &h.Cells[i]
		if x.ID == "" || cells[x.ID] != nil {
			return fmt.Sprintf("cell id %q is empty or occurs twice", clip(x.ID))
		}
		cells[x.ID] = x
		if panels[x.Panel] == nil {
			return fmt.Sprintf("cell %q is of an unknown panel %q", clip(x.ID), clip(x.Panel))
		}
		if !servers[x.Server] {
			return fmt.Sprintf("cell %q is on an unknown server %q", clip(x.ID), clip(x.Server))
		}
		if x.Instance != "" && !instances[x.Instance] {
			return fmt.Sprintf("cell %q is on an unknown instance %q", clip(x.ID), clip(x.Instance))
		}
		if x.Status != "ok" && x.Status != "n/a" {
			return fmt.Sprintf("cell %q: unknown status %q (ok, n/a)", clip(x.ID), clip(x.Status))
		}
		if x.Baseline {
			key := fmt.Sprintf("%q %q %s", x.Panel, x.Server, sorted(x.Vars))
			if other, ok := baselines[key]; ok {
				return fmt.Sprintf("two baselines of one panel on one server: %q and %q", clip(other), clip(x.ID))
			}
			baselines[key] = x.ID
		}
	}
	c.panels, c.cells = panels, cells
	for _, x := range h.Cells {
		if x.ControlOf == "" {
			continue
		}
		if msg := c.related(x.Panel, x.ID, x.ControlOf); msg != "" {
			return msg
		}
	}
	for _, p := range h.Comparisons {
		x := cells[p.Cell]
		if x == nil {
			return fmt.Sprintf("a comparison of the unknown cell %q", clip(p.Cell))
		}
		if p.Cell == p.Against || p.Twin != "" && (p.Twin == p.Against || p.Twin == p.Cell) {
			return fmt.Sprintf("a comparison of cell %q with itself", clip(p.Cell))
		}
		ids := []string{p.Cell, p.Against}
		if p.Twin != "" {
			ids = append(ids, p.Twin)
		}
		if msg := c.related(x.Panel, ids...); msg != "" {
			return msg
		}
		if msg := replicateUnit(p.ReplicateUnit); msg != "" {
			return msg
		}
	}
	for _, p := range h.Controls {
		if panels[p.Panel] == nil {
			return fmt.Sprintf("a control of an unknown panel %q", clip(p.Panel))
		}
		if msg := c.related(p.Panel, p.Cell, p.Against); msg != "" {
			return msg
		}
		if msg := replicateUnit(p.ReplicateUnit); msg != "" {
			return msg
		}
	}
	for i := range h.Warnings {
		if msg := c.unknownCells(&h.Warnings[i]); msg != "" {
			return msg
		}
	}
	c.h, c.seen = h, map[generationKey]bool{}
	return ""
}

// generation checks one generation of one cell.
func (c *checker) generation(g *Generation) string {
	if msg := c.mayFollow("generation"); msg != "" {
		return msg
	}
	if c.panels[g.Panel] == nil {
		return fmt.Sprintf("unknown panel %q", clip(g.Panel))
	}
	if c.cells[g.Cell] == nil {
		return fmt.Sprintf("unknown cell %q", clip(g.Cell))
	}
	if msg := c.related(g.Panel, g.Cell); msg != "" {
		return msg
	}
	if g.Run < 1 || g.Run > maxRuns || g.Generation < 1 || g.Generation > maxRuns {
		return fmt.Sprintf("run %d, generation %d: both count from 1", g.Run, g.Generation)
	}
	key := generationKey{g.Cell, g.Run, g.Generation}
	if g.Lost == "" && c.seen[key] {
		return fmt.Sprintf("cell %q, run %d, generation %d occurs twice", clip(g.Cell), g.Run, g.Generation)
	}
	if msg := c.slices(&g.Slices); msg != "" {
		return msg
	}
	if !(g.MeanNs >= 0 && g.MeanNs <= maxCount) || !inRange(0, g.P50Ns, g.P95Ns, g.P99Ns, g.P999Ns, g.MaxNs) {
		return "a negative or absurd latency"
	}
	if !inRange(-1, g.ConnectNs, g.WarmupNs, g.WarmupTx, g.Faults, g.Switches, g.Moves) {
		return "connect_ns, warmup_ns, warmup_tx, minor_faults, involuntary_switches or moves is negative or absurd"
	}
	if io := g.FileIO; io != nil && !inRange(0, io.Transactions, io.ReadBytes, io.WrittenBytes) {
		return "file_io out of range"
	}
	if b := g.Background; b != nil && !inRange(-1, b.Transactions, b.Measured, b.CPUNs, b.WALBytes, b.PagesRead, b.PagesWritten, b.Checkpoints, b.Vacuums) {
		return "background: a negative or absurd figure"
	}
	for code, n := range g.Failures {
		if !inRange(0, n) {
			return fmt.Sprintf("%d failures with SQLSTATE %q", n, clip(code))
		}
	}
	if err := AddHistogram(nil, g.Histogram); err != nil {
		return err.Error()
	}
	if g.Lost == "" {
		c.seen[key] = true
	}
	return ""
}

// forget takes back a generation that could not be written.
func (c *checker) forget(g *Generation) {
	if g.Lost == "" {
		delete(c.seen, generationKey{g.Cell, g.Run, g.Generation})
	}
}

// slices checks the columns of a generation.
func (c *checker) slices(s *Slices) string {
	columns := []struct {
		name   string
		values []int64
		lowest int64 // -1 where the column may say "not measured"
		max    int64
	}{
		{"n", s.N, 0, maxCount},
		{"t", s.T, 0, maxCount},
		{"round", s.Round, 0, maxRound},
		{"position", s.Position, 0, maxCount},
		{"predecessor", s.Predecessor, -1, int64(len(c.h.Cells)) - 1},
		{"start_us", s.StartUs, 0, maxCount},
		{"head_ns", s.HeadNs, -1, maxCount},
		{"all", s.All, 0, maxCount},
		{"server_cpu", s.ServerCPU, -1, maxCount},
		{"server_wait", s.ServerWait, -1, maxCount},
		{"client_cpu", s.ClientCPU, -1, maxCount},
		{"client_wait", s.ClientWait, -1, maxCount},
		{"begin", s.BeginNs, -1, maxCount},
		{"commit", s.CommitNs, -1, maxCount},
		{"elapsed_ns", s.ElapsedNs, -1, maxCount},
	}
	for _, col := range columns {
		if len(col.values) != len(s.N) && !(col.name == "elapsed_ns" && len(col.values) == 0) { // records before it lack it
			return fmt.Sprintf("columns of unequal length: n has %d slices, %s %d", len(s.N), col.name, len(col.values))
		}
		for _, v := range col.values {
			if v < col.lowest || v > col.max {
				return fmt.Sprintf("column %s: %d is negative or absurd", col.name, v)
			}
		}
	}
	for i := 1; i < len(s.Round); i++ {
		if s.Round[i] <= s.Round[i-1] {
			return fmt.Sprintf("column round: %d after %d: a cell has one slice in a round", s.Round[i], s.Round[i-1])
		}
	}
	return ""
}

// machine checks what the machine did in a generation.
func (c *checker) machine(m *Machine) string {
	if msg := c.mayFollow("machine"); msg != "" {
		return msg
	}
	if c.panels[m.Panel] == nil {
		return fmt.Sprintf("unknown panel %q", clip(m.Panel))
	}
	if m.Cell != "" {
		if msg := c.related(m.Panel, m.Cell); msg != "" {
			return msg
		}
	}
	if m.Run < 1 || m.Run > maxRuns || m.Generation < 1 || m.Generation > maxRuns {
		return fmt.Sprintf("run %d, generation %d: both count from 1", m.Run, m.Generation)
	}
	if !inRange(0, m.ElapsedNs, int64(m.CPUs)) || !inRange(-1, m.BusyNs, m.StealNs, m.OwnNs, m.ThrottledNs, m.MinKHz, m.MaxKHz) {
		return "machine: a negative or absurd figure"
	}
	return ""
}

// warning checks a warning that came after the header.
func (c *checker) warning(w *Warning) string {
	if msg := c.mayFollow("warning"); msg != "" {
		return msg
	}
	return c.unknownCells(w)
}

// end checks the last line.
func (c *checker) end(e *End) string {
	if msg := c.mayFollow("end"); msg != "" {
		return msg
	}
	if !slices.Contains([]string{"complete", "interrupted", "failed"}, e.Status) {
		return fmt.Sprintf("unknown status of the end %q (complete, interrupted, failed)", clip(e.Status))
	}
	c.ended = true
	return ""
}

// mayFollow tells whether another line may come.
func (c *checker) mayFollow(what string) string {
	switch {
	case c.h == nil:
		return what + " before the header"
	case c.ended:
		return what + " after the end"
	}
	return ""
}

// related tells whether all ids are cells of panel: only cells of one panel
// may be compared.
func (c *checker) related(panel string, ids ...string) string {
	for _, id := range ids {
		switch x := c.cells[id]; {
		case x == nil:
			return fmt.Sprintf("unknown cell %q", clip(id))
		case x.Panel != panel:
			return fmt.Sprintf("cell %q is of panel %q, not %q", clip(id), clip(x.Panel), clip(panel))
		}
	}
	return ""
}

func (c *checker) unknownCells(w *Warning) string {
	if w.Code == "" {
		return "a warning without a code"
	}
	if w.Forbids != "" && w.Forbids != ForbidsSame && w.Forbids != ForbidsVerdict {
		return fmt.Sprintf("warning %s forbids %q (same, verdict)", clip(w.Code), clip(w.Forbids))
	}
	for _, id := range w.Cells {
		if c.cells[id] == nil {
			return fmt.Sprintf("warning %s about the unknown cell %q", clip(w.Code), clip(id))
		}
	}
	return ""
}

// newID puts id into the set and complains of an empty or known one.
func newID(set map[string]bool, what, id string) string {
	if id == "" || set[id] {
		return fmt.Sprintf("%s %q is empty or occurs twice", what, clip(id))
	}
	set[id] = true
	return ""
}

func replicateUnit(unit string) string {
	if unit != "generation" && unit != "run" {
		return fmt.Sprintf("unknown replicate_unit %q (generation, run)", clip(unit))
	}
	return ""
}

// inRange tells whether all values are between lowest and maxCount.
func inRange(lowest int64, values ...int64) bool {
	for _, v := range values {
		if v < lowest || v > maxCount {
			return false
		}
	}
	return true
}

// sorted writes a map in an order of its own, to be compared.
func sorted(m map[string]string) string {
	pairs := make([]string, 0, len(m))
	for k, v := range m {
		pairs = append(pairs, fmt.Sprintf("%q=%q", k, v))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}
