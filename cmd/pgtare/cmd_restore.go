package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"pgtare/matrix"
)

func newRestoreCommand() *cobra.Command {
	var cacheDir string
	c := &cobra.Command{
		Use:   "restore",
		Short: "Undo what a pgtare that was killed has left",
		Long: `Undoes what pgtares of this user have changed and could not put back, because
they were killed or the machine went down: the clock source, the configuration
of running servers (--allow-alter-system) and the schema pgtare there, and the
servers that they had started, with their files. It says what it did. What a
pgtare that still runs has changed is left alone, and its journal named.
Passwords are not written down: PGPASSWORD, password and service files must give
them again.

What somebody else has changed since (another ALTER SYSTEM, another clock source)
stays as it is; that is said, with what it was before, and gives status 1 once.

The next "run" begins with the clock source, and with the server that it
measures, if that is one. What is to be undone is written down in the directory
undo of the user's state directory, before it is changed.

Exit status: 0 all is as it was; 1 something could not be undone, or was changed
by somebody else since; 2 a mistake on the command line.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			out := &lines{w: c.OutOrStdout()}
			err := matrix.Restore(c.Context(), matrix.RestoreConfig{CacheDir: cacheDir, Did: out.line})
			if err == nil && out.n == 0 {
				out.line("nothing was left to be undone")
			}
			if err == nil {
				err = out.err
			}
			return err
		},
	}
	c.Flags().StringVar(&cacheDir, "cache-dir", "", "`DIRECTORY` that \"run\" was given, if any")
	return c
}

// lines writes sentences, one a line, and keeps the first error.
type lines struct {
	w   io.Writer
	n   int
	err error
}

func (l *lines) line(text string) {
	l.n++
	if _, err := fmt.Fprintln(l.w, text); l.err == nil {
		l.err = err
	}
}
