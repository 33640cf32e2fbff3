package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"pgtare/results"
	"pgtare/results/report"
)

func main() {
	if err := evidence(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "evidence: %v\n", err)
		os.Exit(1)
	}
}

func evidence(args []string, w io.Writer) error {
	if len(args) == 0 {
		return errors.New("expected equal or known, and records")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	pgbench := flags.String("pgbench", "", "file with the tps of pgbench's runs, two a line, run in turn")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	var reports []*report.Report
	for _, path := range flags.Args() {
		rec, err := results.ReadFile(path)
		if err != nil {
			return err
		}
		if rec.End == nil || rec.End.Status != "complete" {
			return fmt.Errorf("%s: the matrix did not end in order", path)
		}
		r, err := report.Build(rec)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		reports = append(reports, r)
	}
	if len(reports) == 0 {
		return errors.New("no record given")
	}
	switch args[0] {
	case "equal":
		return equal(reports, *pgbench, w)
	case "known":
		return known(reports[0], w)
	}
	return fmt.Errorf("unknown evidence %q", args[0])
}

// equal summarizes matrices of equal cells.
func equal(reports []*report.Report, pgbench string, w io.Writer) error {
	var typical, total, cpu, raw, holm, seconds []float64
	untrusted := 0
	for _, r := range reports {
		alarms, adjusted, n := 0.0, 0.0, 0.0
		for _, c := range r.Comparisons {
			if c.P == nil || c.Typical == nil || c.Total == nil {
				return fmt.Errorf("record %s: comparison of %s has no estimate", r.Environment.Record, c.Cell)
			}
			typical = append(typical, (c.Typical.Hi-c.Typical.Lo)/2)
			total = append(total, (c.Total.Hi-c.Total.Lo)/2)
			if c.CPU != nil && c.CPU.Lo != nil && c.CPU.Hi != nil {
				cpu = append(cpu, (*c.CPU.Hi-*c.CPU.Lo)/2)
			}
			n++
			if *c.P < 0.05 {
				alarms++
			}
			if c.PAdjusted != nil && *c.PAdjusted < 0.05 {
				adjusted = 1
			}
		}
		raw, holm = append(raw, 100*alarms/n), append(holm, 100*adjusted)
		if r.Trusted != nil && !*r.Trusted {
			untrusted++
		}
		for _, c := range r.Cells {
			seconds = append(seconds, float64(c.Transactions)/value(c.TPS))
		}
	}
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	line("matrices of equal cells                %d", len(reports))
	line("measured per cell, s, median           %.1f", median(seconds))
	line("half-width of typical, %%, median       %.2f  (quartiles %.2f %.2f)", median(typical), quantile(typical, 0.25), quantile(typical, 0.75))
	line("half-width of total, %%, median         %.2f  (quartiles %.2f %.2f)", median(total), quantile(total, 0.25), quantile(total, 0.75))
	if len(cpu) > 0 {
		line("half-width of backend CPU, %%, median   %.2f  (quartiles %.2f %.2f)", median(cpu), quantile(cpu, 0.25), quantile(cpu, 0.75))
	}
	line("false alarms of a comparison, %%        %.1f  (s.e. over matrices %.1f)", stat.Mean(raw, nil), se(raw))
	line("matrices with an alarm after Holm, %%   %.1f  (s.e. %.1f)", stat.Mean(holm, nil), se(holm))
	line("matrices not trusted                   %d", untrusted)
	if pgbench == "" {
		return nil
	}
	ratios, err := readPairs(pgbench)
	if err != nil {
		return err
	}
	n := float64(len(ratios))
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975)
	sd := stat.StdDev(ratios, nil)
	var abs []float64
	for _, r := range ratios {
		abs = append(abs, 100*(math.Exp(math.Abs(r))-1))
	}
	line("pgbench, pairs of runs in turn         %d", len(ratios))
	line("difference within a pair, %%, median    %.1f  (largest %.1f)", median(abs), slices.Max(abs))
	line("95 %% of such pairs differ by up to, %%  %.1f", 100*(math.Exp(t*sd)-1))
	return nil
}

func readPairs(path string) (ratios []float64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) != 2 {
			return nil, fmt.Errorf("%s: expected two figures in %q", path, s.Text())
		}
		a, errA := strconv.ParseFloat(fields[0], 64)
		b, errB := strconv.ParseFloat(fields[1], 64)
		if errA != nil || errB != nil || !(a > 0 && b > 0) {
			return nil, fmt.Errorf("%s: not two figures: %q", path, s.Text())
		}
		ratios = append(ratios, math.Log(a/b))
	}
	if len(ratios) < 3 {
		return nil, fmt.Errorf("%s: at least 3 pairs are needed", path)
	}
	return ratios, nil
}

// known compares cost(c) with 2 x cost(b) along the axis n = a, b, c of equal
// steps, where cost is the time above that of a. The difference is c - 2b + a,
// with variance vc + 4vb + va; adding those of the two comparisons as if they
// did not share a gives vc + 4vb + 5va, which is wide enough.
func known(r *report.Report, w io.Writer) error {
	type cost struct{ ns, lo, hi float64 }
	var elapsed, cpu [2]*cost
	var values []string
	for _, a := range r.Plan.Axes {
		if a.Name == "n" {
			values = a.Values
		}
	}
	if len(values) != 3 {
		return fmt.Errorf("record %s: expected an axis n of three values", r.Environment.Record)
	}
	at := map[string]int{values[1]: 0, values[2]: 1}
	for _, c := range r.Comparisons {
		if c.Axis != "n" {
			continue
		}
		for _, cell := range r.Cells {
			k, wanted := at[cell.Axes["n"]]
			if cell.ID != c.Cell || !wanted {
				continue
			}
			if c.Ns != nil {
				elapsed[k] = &cost{*c.Ns, *c.NsLo, *c.NsHi}
			}
			if c.CPU != nil && c.CPU.NsLo != nil && c.CPU.NsHi != nil {
				cpu[k] = &cost{c.CPU.Ns, *c.CPU.NsLo, *c.CPU.NsHi}
			}
		}
	}
	for _, kind := range []struct {
		name string
		cost [2]*cost
	}{{"elapsed", elapsed}, {"backend CPU", cpu}} {
		a, b := kind.cost[0], kind.cost[1]
		if a == nil || b == nil {
			fmt.Fprintf(w, "%-11s not measured\n", kind.name)
			continue
		}
		difference := b.ns - 2*a.ns
		half := math.Hypot((b.hi-b.lo)/2, (a.hi - a.lo))
		word := "agree"
		if math.Abs(difference) > half {
			word = "DISAGREE"
		}
		fmt.Fprintf(w, "%-11s cost(%s) %.0f ns [%.0f, %.0f]  cost(%s) %.0f ns [%.0f, %.0f]  second - 2 x first %+.0f +- %.0f: %s\n",
			kind.name, values[1], a.ns, a.lo, a.hi, values[2], b.ns, b.lo, b.hi, difference, half, word)
	}
	return nil
}

func value(p *float64) float64 {
	if p == nil {
		return math.NaN()
	}
	return *p
}

func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return stat.Quantile(q, stat.LinInterp, v, nil)
}

func median(v []float64) float64 { return quantile(v, 0.5) }

func se(v []float64) float64 { return stat.StdDev(v, nil) / math.Sqrt(float64(len(v))) }
