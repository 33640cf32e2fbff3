package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/stat"

	"pgtare/results"
)

func main() {
	quick := flag.Bool("quick", false, "the records are of the quick form and no evidence")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: calibrate [-quick] DIRECTORY")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *quick, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "calibrate: %v\n", err)
		os.Exit(1)
	}
}

// firstGroup is the group of part a that part e repeats, and that the promised
// widths are about; eightClients is the one with 8 clients.
const (
	firstGroup   = "select1, 1 client, simple"
	eightClients = "select1, 8 clients, simple"
)

// run prints the tables of every part whose files are there, and what was
// promised beside what was found.
func run(dir string, quick bool, w io.Writer) error {
	st := &study{dir: dir, w: w}
	about, err := os.ReadFile(filepath.Join(dir, "about"))
	if err != nil {
		return fmt.Errorf("%w: no directory of calibrate.sh", err)
	}
	if quick {
		st.printf("The quick form: every part runs, and its figures are no evidence.\n\n")
	}
	st.printf("%s", about)

	var p promises
	section := func(title string, print func() error) error {
		st.printf("\n%s\n\n", title)
		heading := st.printed
		if err := print(); err != nil {
			return err
		}
		if st.printed == heading {
			st.printf("not measured\n")
		}
		return st.err
	}
	steps := []struct {
		title string
		print func() error
	}{
		{"(a) Equal cells: ten to a matrix, each matrix a new start", func() (err error) {
			p.equal, err = st.equal("a")
			return err
		}},
		{"(a) Equal instances: six to a matrix, every run a new start of all", func() (err error) {
			p.instances, err = st.instances()
			return err
		}},
		{"(b) Known costs: a slower clock in the server (truth: what it counted)", func() (err error) {
			p.clock, err = st.known("k")
			return err
		}},
		{"(b) Known costs: rows in the statement (truth: their share of the largest step)", func() (err error) {
			p.work, err = st.known("w")
			return err
		}},
		{"(c) The same overhead by several methods", func() (err error) {
			p.methods, err = st.methods()
			return err
		}},
		{"(d) The real pgbench for the same time, two equal sides", func() error {
			return st.pgbench(p.equal)
		}},
		{"(e) Equal cells, one core kept busy by another process", func() (err error) {
			p.busy, err = st.equal("e")
			return err
		}},
	}
	for _, s := range steps {
		if err := section(s.title, s.print); err != nil {
			return err
		}
	}
	st.printf("\nWhat was promised\n\n")
	for _, line := range p.lines(quick) {
		st.printf("%s\n", line)
	}
	if quick {
		st.printf("\nThe quick form is no evidence for any of these.\n")
	}
	return st.err
}

// study is a directory of records and where its tables go.
type study struct {
	dir     string
	w       io.Writer
	printed int
	err     error
}

func (st *study) printf(format string, args ...any) {
	if st.err != nil {
		return
	}
	n, err := fmt.Fprintf(st.w, format, args...)
	st.printed += n
	st.err = err
}

// records hands every record of a part to read, one at a time: a night's
// records don't fit into memory together.
func (st *study) records(part string, read func(rec *results.Record, path string) error) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(st.dir, part+"-*.jsonl"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	for _, path := range paths {
		rec, err := results.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if rec.End == nil || rec.End.Status != "complete" {
			return nil, fmt.Errorf("%s: the matrix did not end in order; delete it, and calibrate.sh measures it again", path)
		}
		if err := read(rec, path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return paths, nil
}

// lengths are the measuring times that a record is read at: 5 and 10 s where it
// holds more, and its own.
func (st *study) lengths(rec *results.Record) []float64 {
	own := math.Round(100*float64(rec.Header.Runs)*rec.Header.RunSeconds) / 100
	var list []float64
	for _, s := range []float64{5, 10} {
		if s < own {
			list = append(list, s)
		}
	}
	return append(list, own)
}

// promises holds what the parts found, nil where a part was not measured.
type promises struct {
	equal, busy map[float64]map[string]equalSummary
	instances   map[int]equalSummary
	clock, work map[float64][][]outcome
	methods     []agreement
}

// lines judges what was promised, but for the quick form.
func (p *promises) lines(quick bool) []string {
	var out []string
	line := func(what string, limit float64, found, more string, met bool) {
		word := "MISSED"
		switch {
		case quick:
			word = "-"
		case met:
			word = "met"
		}
		out = append(out, fmt.Sprintf("%-62s %5g  found %-12s %-6s  %s", what, limit, found, word, more))
	}
	missing := func(what string, limit float64) {
		out = append(out, fmt.Sprintf("%-62s %5g  not measured", what, limit))
	}

	what := "false alarms of a comparison, equal cells, %, at most"
	if len(p.equal) > 0 {
		s := p.equal[longest(p.equal)][""]
		line(what, 7, s.alarms.String(), fmt.Sprintf("%d matrices", s.matrices), s.alarms.mean <= 7)
	} else {
		missing(what, 7)
	}
	what = "false alarms, equal instances, 10 runs, %, at most"
	if s, ok := p.instances[10]; ok {
		line(what, 10, s.alarms.String(), fmt.Sprintf("%d matrices", s.matrices), s.alarms.mean <= 10)
	} else {
		missing(what, 10)
	}

	what = "intervals that hold a known cost, %, at least"
	if lists := atLongest(p.clock); len(lists) > 0 {
		c := covers(lists)
		line(what, 92, c.estimate.String(), fmt.Sprintf("%d matrices; ns as printed %s; the whole %s", len(lists), c.ns, c.whole), c.estimate.mean >= 92)
	} else {
		missing(what, 92)
	}
	// Their truth is pgtare's own figure for the largest step: that shows a cost
	// that is not in proportion, and no error of unit.
	what = "intervals in proportion to the largest step of work, %, at least"
	if lists := atLongest(p.work); len(lists) > 0 {
		c := covers(lists)
		line(what, 92, c.estimate.String(), fmt.Sprintf("%d matrices", len(lists)), c.estimate.mean >= 92)
	} else {
		missing(what, 92)
	}

	width := func(what, group string, limit float64, pick func(equalSummary) float64, aim string) {
		s, ok := p.equal[10][group]
		if !ok || math.IsNaN(pick(s)) {
			missing(what, limit)
			return
		}
		line(what, limit, digits(pick(s), 2), aim, pick(s) <= limit)
	}
	typical := func(s equalSummary) float64 { return s.typical }
	width("half-width of typical, 1 client, 10 s per cell, %, at most", firstGroup, 0.6, typical, "aim 0.45")
	width("half-width of total, 1 client, 10 s per cell, %, at most", firstGroup, 0.9, func(s equalSummary) float64 { return s.total }, "")
	width("half-width of typical, 8 clients, 10 s per cell, %, at most", eightClients, 1.2, typical, "aim 0.7")
	what = "half-width of typical, own instances, 20 runs, %, at most"
	if s, ok := p.instances[20]; ok {
		line(what, 0.9, digits(s.typical, 2), "aim 0.6", s.typical <= 0.9)
	} else {
		missing(what, 0.9)
	}
	for _, kind := range []string{"schedule", "reading", "length", "cells"} {
		what := "agree (Cochran's Q), p above: " + methodTitles[kind]
		smallest := math.Inf(1)
		n := 0
		for _, a := range p.methods {
			if a.kind == kind {
				smallest = min(smallest, a.p)
				n++
			}
		}
		if n == 0 {
			missing(what, 0.01)
			continue
		}
		adjusted := min(1, smallest*float64(n))
		line(what, 0.01, fmt.Sprintf("%.3f", adjusted), fmt.Sprintf("smallest of %d, adjusted", n), adjusted > 0.01)
	}
	return append(out, "64 clients against pgbench: tps, CPU per transaction                   see scripts/bench-vs-pgbench.sh")
}

func longest[V any](m map[float64]V) float64 { return slices.Max(slices.Collect(maps.Keys(m))) }

func atLongest(m map[float64][][]outcome) [][]outcome {
	if len(m) == 0 {
		return nil
	}
	return m[longest(m)]
}

// figure is a mean over matrices with its standard error.
type figure struct {
	mean, se float64 // se: NaN with one matrix
	n        int
}

func over(values []float64) figure {
	f := figure{mean: mean(values), se: math.NaN(), n: len(values)}
	if len(values) > 1 {
		f.se = stat.StdDev(values, nil) / math.Sqrt(float64(len(values)))
	}
	return f
}

func (f figure) String() string {
	if f.n == 0 {
		return "-"
	}
	return fmt.Sprintf("%s (%s)", digits(f.mean, 1), digits(f.se, 1))
}

// short is without decimals.
func (f figure) short() string {
	if f.n == 0 {
		return "-"
	}
	return fmt.Sprintf("%s (%s)", digits(f.mean, 0), digits(f.se, 0))
}

// signed is a figure of either sign, with two decimals.
func signed(f figure) string {
	if f.n == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.2f (%s)", f.mean, digits(f.se, 2))
}

func digits(v float64, n int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fmt.Sprintf("%.*f", n, v)
}

// mean, median and trimmedMean leave out what isn't a number; of nothing they
// are NaN.
func mean(v []float64) float64 {
	if v = numbers(v); len(v) == 0 {
		return math.NaN()
	}
	return stat.Mean(v, nil)
}

func median(v []float64) float64 {
	if v = numbers(v); len(v) == 0 {
		return math.NaN()
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// trimmedMean cuts off a fifth at either end.
func trimmedMean(v []float64) float64 {
	v = numbers(v)
	cut := len(v) / 5
	return mean(v[cut : len(v)-cut])
}

func numbers(v []float64) []float64 {
	v = slices.DeleteFunc(slices.Clone(v), math.IsNaN)
	slices.Sort(v)
	return v
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func setOf[K comparable](keys ...K) map[K]bool {
	m := map[K]bool{}
	for _, k := range keys {
		m[k] = true
	}
	return m
}
