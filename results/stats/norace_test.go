//go:build !race

package stats

const raceDivisor = 1
