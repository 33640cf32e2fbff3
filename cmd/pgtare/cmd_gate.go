package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pgtare/results"
	"pgtare/results/report"
	"pgtare/results/stats"
)

func newGateCommand() *cobra.Command {
	var axis, limit string
	c := &cobra.Command{
		Use:   "gate FILE",
		Short: "Say by the exit status whether a record shows a regression",
		Long: `Judges the comparisons of a record along an axis by a limit, for CI and
git bisect: is any cell slower by more than that? Regression: the interval of
some cell, corrected for the number of cells, lies above the limit. Pass: those
of all cells lie below it, typical and total. It can't tell in between, and
where the numbers could not carry a decision: the control failed, fewer than 10
runs of own instances, builds with assertions, without optimization or built
differently, a client that was the bottleneck.

Two builds at least 2 % apart are the smallest that tells anything about code:
its layout alone moves 1 %. Both belong into one record, measured side by side.

Exit status: 0 pass; 3 regression; 4 can't tell; 1 the file can't be read as a
record; 2 a mistake on the command line. With --bisect those of "git bisect
run": 0 pass; 1 regression; 125 can't tell, or no record; 128 a mistake on the
command line, which ends the bisection.`,
		Example: `  pgtare gate FILE --axis server --max 2%
  # as the script of git bisect run, in a PostgreSQL source tree:
  rm -f r
  pgtare run --server good=src:.#REL_18_0 --server new=src:.#HEAD --set none -o r
  case $? in 0) ;; 1) exit 125 ;; *) exit 128 ;; esac
  pgtare gate --bisect r`,
		Args: oneRecord,
		RunE: func(c *cobra.Command, args []string) error {
			return runGate(args[0], axis, limit, c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&axis, "axis", "", "`AXIS` of the comparisons: server, setting, ... (default server where the record has it, else setting)")
	f.StringVar(&limit, "max", "2%", "limit `PCT` of time per transaction")
	f.Bool("bisect", false, "exit as \"git bisect run\" expects it")
	return c
}

func runGate(path, axis, limit string, w io.Writer) error {
	most, err := strconv.ParseFloat(strings.TrimSuffix(limit, "%"), 64)
	if err != nil || !(most > 0) || most > 1000 {
		return usageError{fmt.Errorf("--max %s: expected the limit in per cent, above 0 and at most 1000", limit)}
	}
	record, err := results.ReadFile(path)
	if err != nil {
		return err
	}
	rep, err := report.Build(record)
	if err != nil {
		return err
	}
	gate, err := rep.Gate(report.GateSpec{Axis: axis, Max: most})
	if err != nil {
		return usageError{err}
	}
	if err := gate.Text(w); err != nil {
		return err
	}
	switch gate.Verdict {
	case stats.Regression:
		return exitStatus(exitRegression)
	case stats.CantTell:
		return exitStatus(exitCantTell)
	}
	return nil
}

// exitStatus is an error that was told already.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Exit statuses of git bisect run: 1 to 124 are bad, 125 is to be skipped, 128
// and above end the bisection.
const (
	bisectBad  = 1
	bisectSkip = 125
	bisectStop = 128
)

// bisectStatus turns gate's exit status into that of git bisect run, if the
// command line asks for it, whether or not it could be read otherwise.
func bisectStatus(args []string, status int) int {
	asked := slices.ContainsFunc(args, func(a string) bool {
		value, given := strings.CutPrefix(a, "--bisect=")
		yes, err := strconv.ParseBool(value)
		return a == "--bisect" || given && (yes || err != nil)
	})
	if len(args) == 0 || args[0] != "gate" || !asked {
		return status
	}
	switch status {
	case exitRegression:
		return bisectBad
	case exitCantTell, exitFailed:
		return bisectSkip
	case exitUsage:
		return bisectStop
	}
	return status
}

// oneRecord wants one argument, a record.
func oneRecord(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s takes one record, and got %d arguments", c.CommandPath(), len(args))}
	}
	return nil
}
