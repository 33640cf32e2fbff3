package stats

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// CarryOver estimates for each cell of a panel by how much it slows what comes
// after it: the effect on the next slice's log time per transaction, relative to
// the mean of all cells' effects. The samples are all cells of the panel, with
// [Generation.After] filled in; the answer has their order. nil throughout where
// it can't be told: fewer than 3 cells (a cell never follows itself, so each of
// two always follows the other), fewer than 3 replicates, orders without enough
// change in them, or more rounds without a predecessor than with.
//
// The model is additive: log = round + cell in its generation + predecessor +
// noise. Rounds hold every cell once, so that round and cell are taken out
// exactly by subtracting their means, of the logs and of the predecessors'
// indicators alike (Frisch, Waugh, Lovell), and what remains is a least squares
// problem with as many unknowns as cells. Its error comes from the replicates'
// scores (Liang and Zeger), since slices of a generation are no replicates. A
// plain mean over successors would be wrong: who never follows himself follows
// the others more often, so that a slow cell's successors are the fast ones.
func CarryOver(cells []Sample, o Options) []*Estimate {
	k := len(cells)
	out := make([]*Estimate, k)
	if k < 3 || o.Block {
		return out
	}
	type generation struct {
		logs  [][]float64
		after [][]int
	}
	generations := map[Replicate]*generation{}
	var order []Replicate
	with, without := 0, 0
	eachRound(cells, func(at Replicate, logs []float64, after []int) {
		for c, p := range after {
			if p < 0 || p >= k || p == c {
				without++
				return
			}
		}
		with++
		g := generations[at]
		if g == nil {
			g = &generation{}
			generations[at] = g
			order = append(order, at)
		}
		g.logs = append(g.logs, append([]float64(nil), logs...))
		g.after = append(g.after, append([]int(nil), after...))
	})
	if with <= without {
		return out
	}

	normal := mat.NewSymDense(k, nil)
	right := make([]float64, k)
	type score struct {
		normal *mat.SymDense
		right  []float64
	}
	var scores []*score // in order, so that equal samples give equal sums
	index := map[Replicate]int{}
	for _, at := range order {
		g := generations[at]
		replicate := at
		if o.Unit == ByRun {
			replicate.Generation = 0
		}
		i, ok := index[replicate]
		if !ok {
			i = len(scores)
			index[replicate] = i
			scores = append(scores, &score{mat.NewSymDense(k, nil), make([]float64, k)})
		}
		addScore(scores[i].normal, scores[i].right, g.logs, g.after)
	}
	n := float64(len(scores))
	if n < minReplicates {
		return out
	}
	for _, s := range scores {
		normal.AddSym(normal, s.normal)
		for i := range k {
			right[i] += s.right[i]
		}
	}
	// Effects are relative, so normal times a vector of ones is nothing. A
	// constant in all places fills that one direction and leaves the others.
	constant := mat.Trace(normal) / float64(k*k)
	for i := range k {
		for j := i; j < k; j++ {
			normal.SetSym(i, j, normal.At(i, j)+constant)
		}
	}
	var factor mat.Cholesky
	if !factor.Factorize(normal) || !(factor.Cond() < 1e8) {
		return out
	}
	var effects mat.VecDense
	if err := factor.SolveVecTo(&effects, mat.NewVecDense(k, right)); err != nil {
		return out
	}
	variance := make([]float64, k)
	for _, s := range scores {
		var rest, moved mat.VecDense
		rest.MulVec(s.normal, &effects)
		rest.SubVec(mat.NewVecDense(k, s.right), &rest)
		if err := factor.SolveVecTo(&moved, &rest); err != nil {
			return out
		}
		for i := range k {
			variance[i] += moved.AtVec(i) * moved.AtVec(i)
		}
	}
	for i := range k {
		out[i] = estimate(effects.AtVec(i), math.Sqrt(variance[i]*n/(n-1)), n-1)
	}
	return out
}

// addScore adds the normal equations of one generation: logs and predecessors'
// indicators, round by cell, with the means of rounds and cells taken out.
func addScore(normal *mat.SymDense, right []float64, logs [][]float64, after [][]int) {
	k, rounds := len(right), len(logs)
	centre := func(value func(round, cell int) float64) []float64 {
		v := make([]float64, rounds*k)
		row, column, all := make([]float64, rounds), make([]float64, k), 0.0
		for r := range rounds {
			for c := range k {
				x := value(r, c)
				v[r*k+c] = x
				row[r] += x / float64(k)
				column[c] += x / float64(rounds)
				all += x / float64(k*rounds)
			}
		}
		for r := range rounds {
			for c := range k {
				v[r*k+c] += all - row[r] - column[c]
			}
		}
		return v
	}
	dot := func(a, b []float64) (s float64) {
		for i := range a {
			s += a[i] * b[i]
		}
		return s
	}
	y := centre(func(r, c int) float64 { return logs[r][c] })
	indicators := make([][]float64, k)
	for p := range k {
		indicators[p] = centre(func(r, c int) float64 {
			if after[r][c] == p {
				return 1
			}
			return 0
		})
	}
	for p := range k {
		right[p] += dot(indicators[p], y)
		for q := p; q < k; q++ {
			normal.SetSym(p, q, normal.At(p, q)+dot(indicators[p], indicators[q]))
		}
	}
}
