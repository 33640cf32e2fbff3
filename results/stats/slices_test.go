package stats

import (
	"bufio"
	"compress/gzip"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The figures of doc.go come from `go test -run Simulate -v -repeats 2000`.
var repeats = flag.Int("repeats", 0, "simulated experiments per figure; 0: as many as fit a quick test")

// measured is a file of testdata: run by run, generation by generation, cell by
// cell, slices in the order of the rounds.
type measured [][][][]Slice

var (
	equalCells     = sync.OnceValue(func() measured { return load("testdata/equal-cells.txt.gz") })
	equalInstances = sync.OnceValue(func() measured { return load("testdata/equal-instances.txt.gz") })
	eightClients   = sync.OnceValue(func() measured { return load("testdata/eight-clients.txt.gz") })
)

func load(name string) measured {
	f, err := os.Open(name)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		panic(err)
	}
	var m measured
	lastRun, lastGeneration := "", ""
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		run, generation, fields := fields[0], fields[1], fields[2:]
		if run != lastRun {
			m = append(m, nil)
			lastGeneration = ""
		}
		r := &m[len(m)-1]
		if generation != lastGeneration {
			*r = append(*r, make([][]Slice, len(fields)/2))
		}
		lastRun, lastGeneration = run, generation
		cells := (*r)[len(*r)-1]
		for c := range cells {
			count, err1 := strconv.ParseFloat(fields[2*c], 64)
			time, err2 := strconv.ParseFloat(fields[2*c+1], 64)
			if err1 != nil || err2 != nil {
				panic(name + ": no number in " + lines.Text())
			}
			cells[c] = append(cells[c], Slice{Time: time, Count: count})
		}
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
	return m
}

// resample draws generations with replacement and gives the columns of each to
// cells in random order: whatever differed between the measured columns, these
// cells are equal, while the noise and its dependence inside a generation are
// the real ones. Runs hold equal numbers of generations.
func resample(rng *rand.Rand, cells, runs, generations int) []Sample {
	return redraw(rng, equalCells()[0], cells, runs, generations)
}

// redraw is resample from any generations.
func redraw(rng *rand.Rand, source [][][]Slice, cells, runs, generations int) []Sample {
	out := make([]Sample, cells)
	columns := make([]int, len(source[0]))
	for i := range columns {
		columns[i] = i
	}
	for i := range generations {
		g := source[rng.IntN(len(source))]
		rng.Shuffle(len(columns), func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
		for c := range out {
			out[c] = append(out[c], Generation{Run: 1 + i*runs/generations, Generation: i + 1, Slices: g[columns[c]]})
		}
	}
	return out
}

// stretch is s with the time of every slice multiplied by what factor gives.
func stretch(s Sample, factor func(run int) float64) Sample {
	out := make(Sample, len(s))
	for i, g := range s {
		out[i] = g
		out[i].Slices = make([]Slice, len(g.Slices))
		for j, x := range g.Slices {
			out[i].Slices[j] = Slice{Time: x.Time * factor(g.Run), Count: x.Count}
		}
	}
	return out
}

// slower is s with a cost of pct that every transaction pays.
func slower(s Sample, pct float64) Sample {
	return stretch(s, func(int) float64 { return 1 + pct/100 })
}

// bursts is s with a mean cost of pct that comes in one slice of 200.
func bursts(rng *rand.Rand, s Sample, pct float64) Sample {
	return stretch(s, func(int) float64 {
		if rng.IntN(200) == 0 {
			return 1 + 200*pct/100
		}
		return 1
	})
}

// luck is s on an instance whose every start is faster or slower by its own
// luck, normal with a standard deviation of pct.
func luck(rng *rand.Rand, s Sample, pct float64) Sample {
	starts := map[int]float64{}
	return stretch(s, func(run int) float64 {
		f, ok := starts[run]
		if !ok {
			f = math.Exp(pct / 100 * rng.NormFloat64())
			starts[run] = f
		}
		return f
	})
}

func BenchmarkCompare(b *testing.B) {
	s := resample(rand.New(rand.NewPCG(1, 1)), 3, 1, 150)
	for b.Loop() {
		Compare(s[0], s[1], s[2], Options{})
	}
}
