package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgtare/results"
	"pgtare/results/stats"
)

func TestBlock(t *testing.T) {
	verdicts := []string{"slower", "faster", "same", "unclear", "untrusted", NotExercised}
	check := func(name string, w Warning, want ...string) {
		t.Helper()
		r := &Report{Warnings: []Warning{{Code: "harmless"}, w, {Code: "later", Forbids: "verdict", Cells: []string{"another"}}}}
		for _, v := range verdicts {
			r.Comparisons = append(r.Comparisons, Comparison{Cell: "x", Against: "b", twin: "c", Verdict: v})
		}
		r.forbid()
		var got []string
		for i, c := range r.Comparisons {
			got = append(got, c.Verdict)
			if blocked := c.Verdict != verdicts[i]; blocked != (c.Reason != nil) {
				t.Errorf("%s: %s became %s, reason %v", name, verdicts[i], c.Verdict, c.Reason)
			} else if blocked && *c.Reason != "not called "+verdicts[i]+" because of the doubt "+w.Code {
				t.Errorf("%s: reason %q", name, *c.Reason)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	check("nothing", Warning{Code: "w"}, verdicts...)
	check("an unknown word", Warning{Code: "w", Forbids: "all"}, verdicts...)
	check("same", Warning{Code: "w", Forbids: "same"}, "slower", "faster", "unclear", "unclear", "untrusted", NotExercised)
	check("verdict", Warning{Code: "w", Forbids: "verdict"}, "unclear", "unclear", "unclear", "unclear", "untrusted", NotExercised)
	for _, id := range []string{"x", "b", "c"} {
		check("through "+id, Warning{Code: "w", Forbids: "verdict", Cells: []string{"y", id}}, "unclear", "unclear", "unclear", "unclear", "untrusted", NotExercised)
	}
	check("other cells", Warning{Code: "w", Forbids: "verdict", Cells: []string{"y", "z"}}, verdicts...)
}

// A comparison without a twin isn't met through one.
func TestBlockWithoutTwin(t *testing.T) {
	r := &Report{
		Warnings:    []Warning{{Code: "w", Forbids: "verdict", Cells: []string{""}}},
		Comparisons: []Comparison{{Cell: "x", Against: "b", Verdict: "same"}},
	}
	if r.forbid(); r.Comparisons[0].Verdict != "same" {
		t.Errorf("%s", r.Comparisons[0].Verdict)
	}
}

// TestBars: what the histogram's own iterator says, over its whole range.
func TestBars(t *testing.T) {
	h := results.NewHistogram()
	if got := bars(h); got != nil {
		t.Errorf("an empty histogram has bars: %v", got)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, v := range []int64{0, 1, 2, 1023, 1024, 2047, 2048, 2049, 4095, 4096, int64(time.Hour)} {
		if err := h.RecordValues(v, 1+rng.Int64N(5)); err != nil {
			t.Fatal(err)
		}
	}
	for range 5000 {
		if err := h.RecordValue(int64(math.Exp(rng.Float64() * math.Log(3.6e12)))); err != nil {
			t.Fatal(err)
		}
	}
	var want []stats.Bar
	for _, b := range h.Distribution() {
		if b.Count > 0 {
			want = append(want, stats.Bar{From: float64(b.From), To: float64(b.To) + 1, Count: float64(b.Count)})
		}
	}
	if got := bars(h); !slices.Equal(got, want) {
		t.Errorf("%d bars, want %d", len(got), len(want))
	}
}
