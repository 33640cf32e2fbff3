// Package stats turns slices into overheads, intervals and verdicts.
package stats
