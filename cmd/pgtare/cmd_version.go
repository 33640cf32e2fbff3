package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "pgtare %s\n", version())
			return err
		},
	}
}

// version is the module's version, or the commit that the program was built
// from where the build recorded it (-buildvcs=true).
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	// The go command makes a version of the commit, and of changes above it.
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}
