package stats

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// FuzzDoubts: whatever the slices and their order hold, what is computed beside
// the comparison neither panics nor gives a figure that is no number.
func FuzzDoubts(f *testing.F) {
	f.Add([]byte{}, []byte{}, uint8(0))
	f.Add(make([]byte, 600), []byte{255}, uint8(3))
	rng := rand.New(rand.NewPCG(8, 8))
	for i := range 6 {
		b, after := make([]byte, 6*12*40), make([]byte, 64)
		for j := range b {
			b[j] = 200 + byte(rng.IntN(56))
			if i%2 == 1 && rng.IntN(4) == 0 {
				b[j] = byte(rng.IntN(256))
			}
		}
		for j := range after {
			after[j] = byte(rng.IntN(4))
		}
		f.Add(b, after, uint8(i))
	}
	f.Fuzz(func(t *testing.T, data, after []byte, how uint8) {
		o := Options{Block: how&1 != 0}
		if how&2 != 0 {
			o.Unit = ByRun
		}
		three := samples(data, 1+int(how>>4))
		cells := three[:]
		next := 0
		for c := range cells {
			for g := range cells[c] {
				for range cells[c][g].Slices {
					if len(after) > 0 {
						cells[c][g].After = append(cells[c][g].After, int(after[next%len(after)])-1)
						next++
					}
				}
			}
		}
		if how&4 != 0 {
			cells = append(cells, nil)
		}
		finite(t, "between runs", reflect.ValueOf(BetweenRuns(three[0], three[1], three[2], o)))
		finite(t, "modes", reflect.ValueOf(Bimodal(cells)))
		finite(t, "first runs", reflect.ValueOf(FirstRuns(cells)))
		effects := CarryOver(cells, o)
		finite(t, "carry-over", reflect.ValueOf(effects))
		a, b := Compare(three[0], three[1], nil, o), Compare(three[2], three[1], nil, o)
		finite(t, "difference", reflect.ValueOf(WelchDifference(a.Decides, b.Decides)))
		var estimates, ses []float64
		for _, c := range []*Comparison{a, b} {
			if c.Decides != nil {
				estimates, ses = append(estimates, c.Decides.Pct), append(ses, c.Decides.SE)
			}
		}
		q, df, p := CochranQ(estimates, ses)
		finite(t, "Q", reflect.ValueOf([]float64{q, df, p}))
	})
}
