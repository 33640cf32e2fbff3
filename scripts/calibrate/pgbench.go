package main

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// stretch is one run of pgbench: side a or b, which are equal.
type stretch struct {
	side string
	tps  float64
}

func readStretches(path string) ([]stretch, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []stretch
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) != 2 || fields[0] != "a" && fields[0] != "b" {
			return nil, fmt.Errorf("%s: expected a side and its tps in %q", path, s.Text())
		}
		tps, err := strconv.ParseFloat(fields[1], 64)
		if err != nil || !(tps > 0) {
			return nil, fmt.Errorf("%s: no tps: %q", path, s.Text())
		}
		out = append(out, stretch{fields[0], tps})
	}
	return out, nil
}

// prefix keeps the first n stretches of each side.
func prefix(list []stretch, n int) (a, b []float64) {
	for _, s := range list {
		if s.side == "a" && len(a) < n {
			a = append(a, s.tps)
		}
		if s.side == "b" && len(b) < n {
			b = append(b, s.tps)
		}
	}
	return a, b
}

// pairedRatio is the mean log ratio of stretches in turn, with half its 95 %
// interval, in per cent.
func pairedRatio(a, b []float64) (pct, half float64) {
	var logs []float64
	for i := range min(len(a), len(b)) {
		logs = append(logs, math.Log(a[i]/b[i]))
	}
	if len(logs) < 2 {
		return math.NaN(), math.NaN()
	}
	f := over(logs)
	return 100 * math.Expm1(f.mean), 100 * math.Expm1(distuv.StudentsT{Sigma: 1, Nu: float64(f.n - 1)}.Quantile(0.975)*f.se)
}

// benchstatLine is what benchstat said of two equal sides.
type benchstatLine struct {
	half  float64 // %, mean of the two sides' intervals around their medians; NaN: too few for one
	alarm bool    // it printed a difference
}

// readBenchstat reads its CSV: the row of the benchmark holds, for each side,
// the median and its interval, then the difference ("~": none) and p.
func readBenchstat(path string) (benchstatLine, error) {
	f, err := os.Open(path)
	if err != nil {
		return benchstatLine{}, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		return benchstatLine{}, fmt.Errorf("%s: %w", path, err)
	}
	for _, row := range rows {
		if len(row) < 7 || row[0] != "Select1" {
			continue
		}
		half := math.NaN()
		a, errA := strconv.ParseFloat(strings.TrimSuffix(row[2], "%"), 64)
		b, errB := strconv.ParseFloat(strings.TrimSuffix(row[4], "%"), 64)
		if errA == nil && errB == nil {
			half = (a + b) / 2
		}
		return benchstatLine{half, row[5] != "~"}, nil
	}
	return benchstatLine{}, fmt.Errorf("%s: no row of Select1", path)
}

// pgbench prints part d and returns, by seconds, how far equal sides of a pair
// differ at most in 95 % of pairs that are measured one after the other.
func (st *study) pgbench(beside map[float64]map[string]equalSummary) error {
	paths, err := filepath.Glob(filepath.Join(st.dir, "d-*.abba"))
	if err != nil || len(paths) == 0 {
		return err
	}
	lengths := map[int]bool{}
	csvs, err := filepath.Glob(filepath.Join(st.dir, "d-*.abba.*.csv"))
	if err != nil {
		return err
	}
	for _, path := range csvs {
		parts := strings.Split(filepath.Base(path), ".")
		if n, err := strconv.Atoi(parts[len(parts)-2]); err == nil {
			lengths[n] = true
		}
	}
	st.printf("%d pairs of equal servers' loads, stretches of 1 s, client and backend on one CPU\n", len(paths))
	st.printf("                                    s per  half-width, %%  false       pairs differ by, %%\n")
	st.printf("                                    side   median         alarms, %%   median   95 %% of them up to\n")
	for _, n := range sortedKeys(lengths) {
		for _, order := range []string{"abba", "serial"} {
			var pairedHalf, pairedAlarms, apart, logs, half, alarms []float64
			for _, path := range paths {
				path = strings.TrimSuffix(path, ".abba") + "." + order
				list, err := readStretches(path)
				if err != nil {
					return err
				}
				a, b := prefix(list, n)
				if len(a) < n || len(b) < n {
					return fmt.Errorf("%s: expected %d stretches of each side", path, n)
				}
				pct, h := pairedRatio(a, b)
				pairedHalf = append(pairedHalf, h)
				pairedAlarms = append(pairedAlarms, map[bool]float64{true: 100}[math.Abs(math.Log1p(pct/100)) > math.Log1p(h/100)])
				logs = append(logs, math.Log(mean(a)/mean(b)))
				apart = append(apart, 100*math.Expm1(math.Abs(math.Log(mean(a)/mean(b)))))
				line, err := readBenchstat(fmt.Sprintf("%s.%d.csv", path, n))
				if err != nil {
					return err
				}
				half = append(half, line.half)
				alarms = append(alarms, map[bool]float64{true: 100}[line.alarm])
			}
			spread := "-"
			if f := over(logs); f.n > 1 {
				t := distuv.StudentsT{Sigma: 1, Nu: float64(f.n - 1)}.Quantile(0.975)
				spread = digits(100*math.Expm1(t*f.se*math.Sqrt(float64(f.n))), 1)
			}
			name := map[string]string{"abba": "in turn (ABBA)", "serial": "one after the other"}[order]
			if order == "abba" {
				st.printf("%-35s %5d  %-13s  %-11s  %-7s  %s\n", name+", paired", n, digits(median(pairedHalf), 1), over(pairedAlarms), digits(median(apart), 1), spread)
			} else {
				st.printf("%-35s %5d  %-13s  %-11s  %-7s  %s\n", name, n, "-", "-", digits(median(apart), 1), spread)
			}
			st.printf("%-35s %5d  %-13s  %-11s\n", name+", benchstat", n, digits(median(half), 1), over(alarms))
		}
		if s, ok := beside[float64(n)][firstGroup]; ok {
			st.printf("%-35s %5d  %-13s  %-11s\n", "pgtare, typical (part a)", n, digits(s.typical, 2), s.alarms)
		}
	}
	return nil
}
