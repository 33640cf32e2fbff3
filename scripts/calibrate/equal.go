package main

import (
	"fmt"

	"pgtare/results"
	"pgtare/results/report"
)

// equalMatrix is what one matrix of equal cells showed.
type equalMatrix struct {
	group               string
	seconds             float64 // measured per cell
	alarms, holm        float64 // % of its comparisons; 0 or 100
	untrusted           float64 // 0 or 100
	typical, total, cpu []float64
	missing             int // comparisons without an estimate
}

// summarize reads a report in which nothing differs.
func summarize(r *report.Report) equalMatrix {
	m := equalMatrix{group: groupOf(r), seconds: secondsPerCell(r)}
	n := 0.0
	for _, c := range r.Comparisons {
		if c.P == nil || c.Total == nil {
			m.missing++
			continue
		}
		n++
		if *c.P < 0.05 {
			m.alarms++
		}
		if c.PAdjusted != nil && *c.PAdjusted < 0.05 {
			m.holm = 100
		}
		if c.Typical != nil {
			m.typical = append(m.typical, (c.Typical.Hi-c.Typical.Lo)/2)
		}
		m.total = append(m.total, (c.Total.Hi-c.Total.Lo)/2)
		if c.CPU != nil && c.CPU.Lo != nil && c.CPU.Hi != nil {
			m.cpu = append(m.cpu, (*c.CPU.Hi-*c.CPU.Lo)/2)
		}
	}
	if n > 0 {
		m.alarms *= 100 / n
	}
	if r.Trusted != nil && !*r.Trusted {
		m.untrusted = 100
	}
	return m
}

func groupOf(r *report.Report) string {
	p := r.Panels[0]
	return fmt.Sprintf("%s, %d client%s, %s", p.Workload, p.Clients, map[bool]string{true: "s"}[p.Clients > 1], p.Protocol)
}

// secondsPerCell is the median over the cells of the time in their windows.
func secondsPerCell(r *report.Report) float64 {
	var seconds []float64
	for _, c := range r.Cells {
		if c.TPS != nil && *c.TPS > 0 {
			seconds = append(seconds, float64(c.Transactions) / *c.TPS)
		}
	}
	return median(seconds)
}

// equalSummary is a line of the table.
type equalSummary struct {
	matrices                int
	seconds                 float64
	alarms, holm, untrusted figure
	typical, total, cpu     float64 // median half-widths, %; NaN where none
	missing                 int
}

func pool(matrices []equalMatrix) equalSummary {
	var s equalSummary
	var seconds, alarms, holm, untrusted, typical, total, cpu []float64
	for _, m := range matrices {
		seconds, alarms = append(seconds, m.seconds), append(alarms, m.alarms)
		holm, untrusted = append(holm, m.holm), append(untrusted, m.untrusted)
		typical, total, cpu = append(typical, m.typical...), append(total, m.total...), append(cpu, m.cpu...)
		s.missing += m.missing
	}
	s.matrices, s.seconds = len(matrices), median(seconds)
	s.alarms, s.holm, s.untrusted = over(alarms), over(holm), over(untrusted)
	s.typical, s.total, s.cpu = median(typical), median(total), median(cpu)
	return s
}

const equalHeading = "n matrices, s seconds measured per cell. In per cent, with standard errors over matrices:\n" +
	"alarms: false ones of a comparison, unadjusted; Holm: matrices with one after Holm;\n" +
	"untrusted: matrices whose control failed. Then the half-widths of 95 % intervals, medians.\n\n" +
	"                                n      s  alarms       Holm         untrusted    typical  total    CPU\n"

func (s equalSummary) line(name string) string {
	text := fmt.Sprintf("%-28s %4d %6s  %-11s  %-11s  %-11s %8s %6s %6s\n", name, s.matrices, digits(s.seconds, 1), s.alarms, s.holm, s.untrusted,
		digits(s.typical, 2), digits(s.total, 2), digits(s.cpu, 2))
	if s.missing > 0 {
		text += fmt.Sprintf("    %d comparisons had no estimate\n", s.missing)
	}
	return text
}

// equal prints part a or e, and returns the summaries by length and group; the
// group "" is all.
func (st *study) equal(part string) (map[float64]map[string]equalSummary, error) {
	matrices := map[float64][]equalMatrix{}
	var groups []string
	paths, err := st.records(part, func(rec *results.Record, _ string) error {
		for _, seconds := range st.lengths(rec) {
			r, err := report.Build(cut(rec, seconds))
			if err != nil {
				return err
			}
			m := summarize(r)
			matrices[seconds] = append(matrices[seconds], m)
			groups = appendNew(groups, m.group)
		}
		return nil
	})
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	out := map[float64]map[string]equalSummary{}
	st.printf("%s", equalHeading)
	for _, seconds := range sortedKeys(matrices) {
		out[seconds] = map[string]equalSummary{"": pool(matrices[seconds])}
		for _, group := range groups {
			var some []equalMatrix
			for _, m := range matrices[seconds] {
				if m.group == group {
					some = append(some, m)
				}
			}
			if len(some) == 0 {
				continue
			}
			out[seconds][group] = pool(some)
			st.printf("%s", out[seconds][group].line(group))
		}
		if len(groups) > 1 {
			st.printf("%s", out[seconds][""].line("all"))
		}
	}
	return out, nil
}

// instances prints the second half of part a: how wide, and how often an
// alarm, with runs as replicates and with generations. The summaries are those
// with runs, by number of runs.
func (st *study) instances() (map[int]equalSummary, error) {
	type key struct {
		runs int
		unit string
	}
	matrices := map[key][]equalMatrix{}
	paths, err := st.records("i", func(rec *results.Record, _ string) error {
		for runs := range setOf(min(10, rec.Header.Runs), rec.Header.Runs) {
			some := firstRuns(rec, runs)
			for unit, rec := range map[string]*results.Record{"run": some, "generation": byGeneration(some)} {
				r, err := report.Build(rec)
				if err != nil {
					return err
				}
				matrices[key{runs, unit}] = append(matrices[key{runs, unit}], summarize(r))
			}
		}
		return nil
	})
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	out := map[int]equalSummary{}
	counts := map[int]bool{}
	for k := range matrices {
		counts[k.runs] = true
	}
	st.printf("%s", equalHeading)
	for _, runs := range sortedKeys(counts) {
		out[runs] = pool(matrices[key{runs, "run"}])
		st.printf("%s", out[runs].line(fmt.Sprintf("%d runs as replicates", runs)))
		st.printf("%s", pool(matrices[key{runs, "generation"}]).line("the same data by generation"))
	}
	return out, nil
}
