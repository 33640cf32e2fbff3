//go:build race

package stats

// raceDivisor makes the simulations shorter under the race detector, which
// slows them tenfold and has little to find in arithmetic.
const raceDivisor = 5
