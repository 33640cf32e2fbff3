package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"pgtare/results"
	"pgtare/results/report"
)

func newShowCommand() *cobra.Command {
	var format, columns string
	c := &cobra.Command{
		Use:   "show FILE",
		Short: "Print the table of a record",
		Long: `Prints a record as "run" printed it, or as JSON.

Exit status: 0 printed; 1 the file can't be read as a record; 2 a mistake on
the command line.`,
		Args: oneRecord,
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			return show(args[0], format, list(columns), c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&format, "format", "text", "`FORMAT`: text or json")
	c.Flags().StringVar(&columns, "columns", "", "`AXES` or settings, separated by commas, whose values stand as columns of the table (default as the run was told, else the servers)")
	return c
}

func checkFormat(format string) error {
	if format != "text" && format != "json" {
		return usageError{fmt.Errorf("--format %s: there are text and json%s", format, hintFor(format, []string{"text", "json"}))}
	}
	return nil
}

// show prints a record, with columns of its own choice unless there are none.
func show(path, format string, columns []string, w io.Writer) error {
	record, err := results.ReadFile(path)
	if err != nil {
		return err
	}
	rep, err := report.Build(record)
	if err != nil {
		return err
	}
	if err := rep.SetColumns(columns); err != nil {
		return usageError{fmt.Errorf("--columns: %w", err)}
	}
	if format == "json" {
		return rep.JSON(w)
	}
	return rep.Text(w)
}
