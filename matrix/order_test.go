package matrix

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// No cell follows itself, every cell occurs once in a round, and over many
// rounds every cell is as often in every place and behind every other.
func TestRound(t *testing.T) {
	const cells, rounds = 4, 40000
	rng := rand.New(rand.NewPCG(1, 2))
	var place, follows [cells][cells]int
	last := -1
	for range rounds {
		order := round(rng, cells, last)
		if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, []int{0, 1, 2, 3}) {
			t.Fatalf("round %v does not hold every cell once", order)
		}
		for position, c := range order {
			if c == last {
				t.Fatalf("cell %d follows itself", c)
			}
			place[c][position]++
			if last >= 0 {
				follows[last][c]++
			}
			last = c
		}
	}
	// Counts are binomial: 10000 +- 87 in a place, 13333 +- 100 behind another
	// cell. Six standard deviations.
	for a := range cells {
		for b := range cells {
			if n := place[a][b]; n < 10000-520 || n > 10000+520 {
				t.Errorf("cell %d was %d times in place %d, expected about 10000", a, n, b)
			}
			if n := follows[a][b]; a != b && (n < 13333-700 || n > 13333+700) {
				t.Errorf("cell %d was %d times followed by %d, expected about 13333", a, n, b)
			}
		}
	}
}

func TestRoundOfOneCell(t *testing.T) {
	if got := round(rand.New(rand.NewPCG(1, 2)), 1, 0); !slices.Equal(got, []int{0}) {
		t.Errorf("a single cell: %v", got)
	}
}
