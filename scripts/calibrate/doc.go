// Command evidence reads records of matrices whose truth is known and prints
// what pgtare made of them. It serves the scripts beside it:
//
//	evidence equal [-pgbench FILE] RECORD...    equal cells: half-widths and false alarms
//	evidence known RECORD                       work of known size: is the second step's cost twice the first's?
//
// Standard errors are over matrices: pairs of one matrix share their
// references and don't count for as many.
package main
