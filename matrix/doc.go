// Package matrix turns what was asked into cells, cells into a plan, and the
// plan into a record.
//
// # Words
//
// A [Spec] is what the user asked for: axes with their values. Its product is
// a [Plan]: panels of cells, of which only cells of one panel are compared,
// with the comparisons and controls named before anything is measured. [Run]
// carries the plan out and writes a record of package results; it decides
// nothing about the figures.
//
// # Flow
//
//  1. [NewPlan] (pure: no server, no file but the scripts that were already
//     read): axes -> cells -> panels, baseline first, twins, comparisons.
//  2. [Run]: find the servers, start the instances, probe every cell (a setting
//     that isn't in force is n/a or an error before anything is measured), make
//     each writing cell its own table.
//  3. The pilot: some sixty short probe slices for every panel, which set the head,
//     the length of a slice and of a generation. They are frozen then, alike
//     for all cells of a panel, and the probe slices are thrown away.
//  4. The anchor, one unbroken second of each panel's baseline.
//  5. Runs: with instances as an axis, each begins with a new start of every
//     instance, in random order. A run is a number of generations of every
//     panel, panels taking turns in random order. A generation connects, proves
//     the settings in every connection, warms up, and then does its rounds: one
//     slice of every cell, in a fresh random order in which no cell follows
//     itself. The record is synced when a generation ends, never within.
//
// # Isolation and schedule
//
// Cells that differ in session settings or variables share an instance, and
// the replicate is the generation, because a backend is the outermost level of
// luck that differs between them. Cells on different servers do not share one,
// and the replicate is the run. Settings that need an instance of their own or
// a block schedule are refused with that reason, see [server.Isolation].
//
// # Note: lengths
//
// A generation has at least 20 rounds, and more until connecting, proof and
// warm-up take a third of its time, but never so many that a run would hold
// fewer than three generations: with few replicates no number of rounds makes
// an interval. Where a slice holds too few transactions for the trimmed
// estimate (above some 4 ms each) it has 4 rounds, for the same reason. Lengths
// follow the slowest cell of the panel, so that a statement made three times as
// long by its setting still fits thirty times into a slice.
//
// Predecessors of slices are recorded; no doubt is raised from them yet. With
// two cells in a panel (no control) each follows the other within a
// generation, and only the order of the first round is drawn.
//
// # Note: comparisons
//
// A cell is compared with the cell that differs from it in one axis only, at
// that axis's first value: n=2000 with a setting on against n=2000 with it
// off, and against n=1000 with it on. Comparing such a cell with the panel's
// baseline would add up two effects in one figure that nobody asked for.
package matrix
