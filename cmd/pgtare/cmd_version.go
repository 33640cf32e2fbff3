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
	v, modified := info.Main.Version, ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			if v == "" || v == "(devel)" {
				v = "devel-" + s.Value[:min(12, len(s.Value))]
			}
		case "vcs.modified":
			if s.Value == "true" {
				modified = "+modified"
			}
		}
	}
	if v == "" || v == "(devel)" {
		return "devel"
	}
	return v + modified
}
