// Command pgtare weighs what a PostgreSQL setting, version, build or clock
// costs. See the README for what it is for, and `pgtare help` for its verbs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pgtare/matrix"
	"pgtare/matrix/server"
)

func main() {
	ctx, stop := withSignals(context.Background(), os.Stderr)
	status := pgtare(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// pgtare is the whole program: it runs a command line and returns the exit
// status.
func pgtare(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	var sig *signalError
	if errors.As(context.Cause(ctx), &sig) {
		fmt.Fprintf(stderr, "pgtare: %v\n", sig)
		return 128 + int(sig.signal)
	}
	var told exitStatus
	if errors.As(err, &told) {
		return bisectStatus(args, int(told))
	}
	fmt.Fprintf(stderr, "pgtare: %s\n", oneSentence(err))
	return bisectStatus(args, status(err))
}

// Exit statuses (`pgtare help` lists them).
const (
	exitDone   = 0
	exitFailed = 1 // a cell failed or nothing could be measured
	exitUsage  = 2
	// Of gate.
	exitRegression = 3
	exitCantTell   = 4
)

// usageError is a mistake on the command line.
type usageError struct{ error }

// status maps an error to the exit status.
func status(err error) int {
	var (
		flag      usageError
		matrixErr *matrix.UsageError
		serverErr *server.UsageError
	)
	if errors.As(err, &flag) || errors.As(err, &matrixErr) || errors.As(err, &serverErr) {
		return exitUsage
	}
	return exitFailed
}

// oneSentence puts an error of several lines (joined errors, a log's tail)
// behind its first, indented.
func oneSentence(err error) string {
	return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "\n  ")
}

// signalError says which signal ended the program.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string {
	switch e.signal {
	case syscall.SIGINT:
		return "interrupted"
	case syscall.SIGTERM:
		return "terminated"
	}
	return "ended by signal " + e.signal.String()
}

// withSignals returns a context that is cancelled by SIGINT, SIGTERM or
// SIGHUP (which stays ignored under nohup). A second such signal ends the
// program at once: the servers die with it, and their directories go on the
// next start, as does what was changed on running servers and the machine; this
// is said on stderr. Within a second of the first it isn't one: timeout(1) signals
// both the process and its group.
func withSignals(parent context.Context, stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(received, syscall.SIGHUP)
	}
	// A reader of our output that went away must not end us before the servers
	// are gone: the write fails, and that is an error like others.
	signal.Ignore(syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case s := <-received:
				switch {
				case first.IsZero():
					first = time.Now()
					cancel(&signalError{s.(syscall.Signal)})
				case time.Since(first) > time.Second:
					fmt.Fprintln(stderr, "pgtare: ended before all was put back; `pgtare restore` does the rest")
					signal.Reset(s)
					syscall.Kill(os.Getpid(), s.(syscall.Signal)) //nolint:errcheck // it can't fail on oneself
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(received); close(done); cancel(nil) }
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "pgtare",
		Short: "Weighs what a PostgreSQL setting, version, build or clock costs",
		Long: `pgtare weighs what a PostgreSQL setting, version or build costs: it alternates
load between the cells of a matrix in slices of a few milliseconds, and prints
medians, overheads with their intervals, and a verdict.

Exit status: 0 done; 1 a cell failed or nothing could be measured; 2 a mistake
on the command line; 3 gate: a regression; 4 gate: it can't tell; 130 SIGINT,
143 SIGTERM (the record is kept and named).`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown verb %q%s", args[0], hintFor(args[0], verbs()))}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(newRunCommand(), newShowCommand(), newGateCommand(), newServersCommand(), newRestoreCommand(), newVersionCommand())
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		var unknown *pflag.NotExistError
		if errors.As(err, &unknown) {
			var names []string
			c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
			return usageError{fmt.Errorf("%w%s; `%s --help` lists the flags", err, hintFor(unknown.GetSpecifiedName(), names), c.CommandPath())}
		}
		return usageError{err}
	})
	return root
}

func verbs() []string {
	return []string{"run", "show", "gate", "servers", "restore", "version", "completion", "help"}
}

// hintFor is "; did you mean X?" where one of known is close to name, else "".
func hintFor(name string, known []string) string {
	if s := server.Suggest(name, known); s != "" {
		return "; " + s
	}
	return ""
}

// noArgs refuses arguments that aren't flags.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no argument, and got %q", c.CommandPath(), args[0])}
	}
	return nil
}
