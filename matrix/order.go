package matrix

import "math/rand/v2"

// round draws the order of a round's n cells: every permutation is as likely
// as any other in which no cell follows itself across the border of two
// rounds. last is the cell that came before, -1 where there is none.
func round(rng *rand.Rand, n, last int) []int {
	for {
		order := rng.Perm(n)
		if n == 1 || order[0] != last {
			return order
		}
	}
}
