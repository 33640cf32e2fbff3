// Command enginebench runs the load engine as pgbench runs: one set of clients,
// one script, one number of seconds, the whole process measured. It exists so
// that bench-vs-pgbench.sh and own-cost.sh can hold the two programs side by side.
//
//	enginebench [-c CLIENTS] [-j THREADS] [-M PROTOCOL] [-T SECONDS | -t COUNT] [-f FILE] [-ring FROM] [-engine ENGINE] CONNINFO
//
// It prints one line per figure, name and value.
package main
