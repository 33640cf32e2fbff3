package main

import (
	"cmp"
	"slices"

	"pgtare/results"
)

// at is the place of a generation in time.
type at struct{ run, generation int }

func (a at) compare(b at) int {
	return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.generation, b.generation))
}

// cut returns the record as it would be had it been stopped after so many
// seconds of measured time per cell: in each panel the first generations that
// hold them, on the mean of its cells. Where runs are replicates, or blocks,
// they stay whole. Nothing is copied but what changes.
func cut(rec *results.Record, seconds float64) *results.Record {
	clients := map[string]int{}
	whole := map[string]bool{}
	for _, p := range rec.Header.Panels {
		clients[p.ID] = p.Clients
		whole[p.ID] = p.Schedule == "block"
	}
	panelOf := map[string]string{}
	for _, c := range rec.Header.Cells {
		panelOf[c.ID] = c.Panel
	}
	for _, c := range rec.Header.Comparisons {
		if c.ReplicateUnit == "run" {
			whole[panelOf[c.Cell]] = true
		}
	}

	measured := map[string]map[at]float64{} // panel -> seconds, summed over its cells
	cells := map[string]map[string]bool{}
	for _, g := range rec.Generations {
		if g.Lost != "" {
			continue
		}
		if measured[g.Panel] == nil {
			measured[g.Panel], cells[g.Panel] = map[at]float64{}, map[string]bool{}
		}
		cells[g.Panel][g.Cell] = true
		for _, t := range g.Slices.T {
			measured[g.Panel][at{g.Run, g.Generation}] += float64(t) / 1e9 / float64(clients[g.Panel])
		}
	}
	last := map[string]at{}
	for panel, times := range measured {
		sum := 0.0
		for _, place := range sortedPlaces(times) {
			if sum >= seconds*float64(len(cells[panel])) && (!whole[panel] || place.run > last[panel].run) {
				break
			}
			sum += times[place]
			last[panel] = place
		}
	}
	return keep(rec, func(panel string, run, generation int) bool {
		return at{run, generation}.compare(last[panel]) <= 0
	})
}

func sortedPlaces(times map[at]float64) []at {
	var places []at
	for place := range times {
		places = append(places, place)
	}
	slices.SortFunc(places, at.compare)
	return places
}

// firstRuns returns the record as it would be with n runs.
func firstRuns(rec *results.Record, n int) *results.Record {
	return keep(rec, func(_ string, run, _ int) bool { return run <= n })
}

// keep filters what was measured; the header asks for as many runs as are left.
func keep(rec *results.Record, wanted func(panel string, run, generation int) bool) *results.Record {
	out := *rec
	out.Generations, out.Machine = nil, nil
	out.Header.Runs = 0
	for _, g := range rec.Generations {
		if wanted(g.Panel, g.Run, g.Generation) {
			out.Generations = append(out.Generations, g)
			out.Header.Runs = max(out.Header.Runs, g.Run)
		}
	}
	for _, m := range rec.Machine {
		if wanted(m.Panel, m.Run, m.Generation) {
			out.Machine = append(out.Machine, m)
		}
	}
	return &out
}

// byGeneration returns the record with generations as replicates everywhere:
// what would be said if the luck of a start were forgotten. All of them are put
// into one run, for the report would find the luck between several.
func byGeneration(rec *results.Record) *results.Record {
	out := *rec
	most := 0
	for _, g := range rec.Generations {
		most = max(most, g.Generation)
	}
	out.Header.Runs = 1
	out.Generations = slices.Clone(rec.Generations)
	for i := range out.Generations {
		g := &out.Generations[i]
		g.Run, g.Generation = 1, (g.Run-1)*most+g.Generation
	}
	out.Header.Comparisons = slices.Clone(rec.Header.Comparisons)
	for i := range out.Header.Comparisons {
		out.Header.Comparisons[i].ReplicateUnit = "generation"
	}
	out.Header.Controls = slices.Clone(rec.Header.Controls)
	for i := range out.Header.Controls {
		out.Header.Controls[i].ReplicateUnit = "generation"
	}
	return &out
}
