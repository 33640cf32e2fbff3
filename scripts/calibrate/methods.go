package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"pgtare/results"
	"pgtare/results/report"
	"pgtare/results/stats"
)

// point is an estimate of one overhead, in per cent.
type point struct{ pct, se float64 }

func pointOf(i *report.Interval, replicates int) *point {
	if i == nil || replicates < 2 {
		return nil
	}
	t := distuv.StudentsT{Sigma: 1, Nu: float64(replicates - 1)}.Quantile(0.975)
	return &point{i.Pct, (i.Hi - i.Lo) / 2 / t}
}

// average is the mean of estimates of one thing, and its standard error from
// theirs.
func average(points []point) point {
	var sum, variance float64
	for _, p := range points {
		sum += p.pct
		variance += p.se * p.se
	}
	n := float64(len(points))
	return point{sum / n, math.Sqrt(variance) / n}
}

// agreement is whether one overhead comes out alike by several methods.
type agreement struct {
	kind, setting, estimate string
	p                       float64
}

// methods prints part c: for each kind of record the estimates of each setting
// by every variant, and Cochran's Q over them. Settings are compared in typical
// and in total, each where all variants have it (blocks have no typical).
func (st *study) methods() ([]agreement, error) {
	type key struct{ setting, estimate, variant string }
	points := map[string]map[key][]point{} // kind -> ...
	settings, variants := map[string][]string{}, map[string][]string{}
	paths, err := st.records("c", func(rec *results.Record, path string) error {
		// c-KIND-N-VARIANT.jsonl
		parts := strings.SplitN(strings.TrimSuffix(filepath.Base(path), ".jsonl"), "-", 4)
		if len(parts) != 4 {
			return fmt.Errorf("the name is not c-KIND-N-VARIANT.jsonl")
		}
		kind, variant := parts[1], parts[3]
		r, err := report.Build(rec)
		if err != nil {
			return err
		}
		if points[kind] == nil {
			points[kind] = map[key][]point{}
		}
		variants[kind] = appendNew(variants[kind], variant)
		for _, c := range r.Comparisons {
			if c.Axis != "setting" {
				continue
			}
			setting := cellOf(r, c.Cell).Axes["setting"]
			settings[kind] = appendNew(settings[kind], setting)
			for name, interval := range map[string]*report.Interval{"typical": c.Typical, "total": c.Total} {
				if p := pointOf(interval, c.Replicates); p != nil {
					k := key{setting, name, variant}
					points[kind][k] = append(points[kind][k], *p)
				}
			}
		}
		return nil
	})
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	var out []agreement
	for _, kind := range sortedKeys(points) {
		st.printf("%s: overhead in %%, +- twice its standard error\n", methodTitles[kind])
		head := fmt.Sprintf("%-40s", "")
		for _, v := range variants[kind] {
			head += fmt.Sprintf("  %-14s", v)
		}
		st.printf("%s  Q     p\n", head)
		for _, setting := range settings[kind] {
			for _, estimate := range []string{"typical", "total"} {
				line := fmt.Sprintf("%-40s", setting+", "+estimate)
				var pct, se []float64
				for _, v := range variants[kind] {
					list := points[kind][key{setting, estimate, v}]
					if len(list) == 0 {
						continue
					}
					a := average(list)
					pct, se = append(pct, a.pct), append(se, a.se)
					line += fmt.Sprintf("  %-14s", fmt.Sprintf("%+.2f +- %.2f", a.pct, 2*a.se))
				}
				if len(pct) < 2 || len(pct) < len(variants[kind]) {
					continue
				}
				q, _, p := stats.CochranQ(pct, se)
				st.printf("%s  %-4.1f  %.3f\n", line, q, p)
				out = append(out, agreement{kind, setting, estimate, p})
			}
		}
	}
	return out, nil
}

var methodTitles = map[string]string{
	"schedule": "slices against blocks, SELECT 1",
	"reading":  "slices against blocks, a scan",
	"length":   "length of a slice",
	"cells":    "number of cells",
}
