package report

import (
	"slices"
	"testing"
)

func TestBlock(t *testing.T) {
	verdicts := []string{"slower", "faster", "same", "unclear", "untrusted", NotExercised}
	check := func(name string, w Warning, want ...string) {
		t.Helper()
		r := &Report{Warnings: []Warning{{Code: "harmless"}, w, {Code: "later", Blocks: "verdict", Cells: []string{"another"}}}}
		for _, v := range verdicts {
			r.Comparisons = append(r.Comparisons, Comparison{Cell: "x", Against: "b", twin: "c", Verdict: v})
		}
		r.block()
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
	check("an unknown word", Warning{Code: "w", Blocks: "all"}, verdicts...)
	check("same", Warning{Code: "w", Blocks: "same"}, "slower", "faster", "unclear", "unclear", "untrusted", NotExercised)
	check("verdict", Warning{Code: "w", Blocks: "verdict"}, "unclear", "unclear", "unclear", "unclear", "untrusted", NotExercised)
	for _, id := range []string{"x", "b", "c"} {
		check("through "+id, Warning{Code: "w", Blocks: "verdict", Cells: []string{"y", id}}, "unclear", "unclear", "unclear", "unclear", "untrusted", NotExercised)
	}
	check("other cells", Warning{Code: "w", Blocks: "verdict", Cells: []string{"y", "z"}}, verdicts...)
}

// A comparison without a twin isn't met through one.
func TestBlockWithoutTwin(t *testing.T) {
	r := &Report{
		Warnings:    []Warning{{Code: "w", Blocks: "verdict", Cells: []string{""}}},
		Comparisons: []Comparison{{Cell: "x", Against: "b", Verdict: "same"}},
	}
	if r.block(); r.Comparisons[0].Verdict != "same" {
		t.Errorf("%s", r.Comparisons[0].Verdict)
	}
}
