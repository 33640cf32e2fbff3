package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"pgtare/matrix/server"
)

func newServersCommand() *cobra.Command {
	var format, cache string
	c := &cobra.Command{
		Use:   "servers",
		Short: "List the PostgreSQL installations at hand, and fetch others",
		Long: `Lists the installations of this machine that run names by version, those that
were fetched and those built from source (--server src:DIRECTORY), with what
bears on their speed: compiler, flags, options, assertions; and what can be
fetched. Each is started once on a throw-away cluster and asked.

They are looked for where Debian, PGDG's packages, other distributions,
Homebrew, EDB's installer and "make install" put them, where pgenv, asdf and
mise keep theirs, and in PATH.

Exit status: 0 listed; 1 it could not be found out; 2 a mistake on the command
line.`,
		Example: `  pgtare servers
  pgtare servers --format json
  pgtare servers fetch 13 18.4`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("%s %s: there is no such verb below servers%s", c.CommandPath(), args[0], hintFor(args[0], []string{"fetch"}))}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			return listServers(c.Context(), format, cache, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().StringVar(&format, "format", "text", "`FORMAT`: text or json")
	c.PersistentFlags().StringVar(&cache, "cache-dir", "", "`DIRECTORY` of fetched installations, builds and throw-away clusters (default as of run)")
	c.AddCommand(&cobra.Command{
		Use:   "fetch VERSION|src:DIRECTORY[#REF]...",
		Short: "Fetch releases of PostgreSQL through npm, or build source trees",
		Long: `Fetches releases: of a major (17) the newest minor release that is offered, or
exactly one (17.4), as the npm client can get them. "run --server 17" fetches
by itself what is lacking, and takes an older minor release if that is here.

Builds source trees: as they are, or at a branch, tag or commit. All are built
with the same options, once: what is cached goes by the tree's contents, the
options and the compiler. "run --server src:..." does the same by itself.

Exit status: 0 they are here now; 1 one could not be had; 2 a mistake on the
command line.`,
		Example: `  pgtare servers fetch 17
  pgtare servers fetch 13 17.4 18
  pgtare servers fetch 'src:postgres#REL_18_STABLE' src:postgres`,
		RunE: func(c *cobra.Command, args []string) error {
			return fetchServers(c.Context(), args, cache, c.OutOrStdout(), c.ErrOrStderr())
		},
	})
	return c
}

// fetchServers prints one line per release: its version and directory.
func fetchServers(ctx context.Context, args []string, cache string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usageError{fmt.Errorf("servers fetch: name at least one major (18), version (18.4) or source tree (src:DIRECTORY); pgtare servers lists what there is")}
	}
	var specs []server.Spec
	for _, text := range args {
		s, err := server.ParseFetch(text)
		if err != nil {
			return err
		}
		specs = append(specs, s)
	}
	found, err := server.Fetch(ctx, specs, server.ResolveConfig{CacheDir: cache, Log: newProgress(stderr).line})
	if err != nil {
		return err
	}
	for _, i := range found {
		if _, err := fmt.Fprintf(stdout, "%s\t%s\n", i.Version, i.BinDir); err != nil {
			return err
		}
	}
	return nil
}

func listServers(ctx context.Context, format, cache string, stdout, stderr io.Writer) error {
	l, err := server.List(ctx, server.ResolveConfig{CacheDir: cache, Log: newProgress(stderr).line})
	if err != nil {
		return err
	}
	if format == "json" {
		return printServersJSON(l, stdout)
	}
	return printServers(l, stdout)
}

// printServers prints a table, and below it what would not fit: the options of
// each build, equal ones once.
func printServers(l *server.Listing, w io.Writer) error {
	var b, rows strings.Builder
	rows.WriteString("version\torigin\tcompiler\tflags\tassertions\tdirectory\n")
	var builds []string
	users := map[string][]string{} // versions by options
	for _, s := range l.Here {
		assertions := "off"
		if s.About.Assertions {
			assertions = "ON"
		}
		if s.About.Compiler == "" {
			assertions = "?"
		}
		fmt.Fprintf(&rows, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Version, s.Origin, orUnknown(s.About.Compiler), orUnknown(speedFlags(s.About.Build["CFLAGS"])), assertions, s.BinDir)
		options := featureOptions(s.About.Build["CONFIGURE"])
		if s.About.Compiler != "" {
			if users[options] == nil {
				builds = append(builds, options)
			}
			users[options] = append(users[options], s.Version)
		}
	}
	if len(l.Here) == 0 {
		b.WriteString("no PostgreSQL was found on this machine\n")
	} else {
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		if _, err := io.WriteString(table, rows.String()); err != nil {
			return err
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	for _, options := range builds {
		fmt.Fprintf(&b, "\noptions of %s:\n", strings.Join(users[options], ", "))
		wrap(&b, strings.Fields(options), 78)
	}
	for _, s := range l.Here {
		if s.Source != "" {
			fmt.Fprintf(&b, "\n%s is built from %s\n", s.BinDir, s.Source)
		}
	}
	if len(l.Fetchable) > 0 {
		fmt.Fprintf(&b, "\nto be fetched (pgtare servers fetch VERSION): %s\n", strings.Join(l.Fetchable, ", "))
	}
	for _, n := range l.Notes {
		fmt.Fprintf(&b, "\nnote: %s\n", oneSentence(fmt.Errorf("%s", n)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func orUnknown(text string) string {
	if text == "" {
		return "?"
	}
	return text
}

// speedFlags are the flags that bear on speed; the others are warnings and
// paths.
func speedFlags(cflags string) string {
	var flags []string
	for _, f := range strings.Fields(cflags) {
		if slices.Contains(flags, f) {
			continue
		}
		if strings.HasPrefix(f, "-O") || strings.HasPrefix(f, "-g") || strings.HasPrefix(f, "-march") || strings.HasPrefix(f, "-mtune") || strings.HasPrefix(f, "-flto") || strings.HasPrefix(f, "-fno-omit") || strings.HasPrefix(f, "-fstack-prot") {
			flags = append(flags, f)
		}
	}
	return strings.Join(flags, " ")
}

// featureOptions are configure's options without paths and tools.
func featureOptions(configure string) string {
	var options []string
	for _, o := range strings.FieldsFunc(configure, func(r rune) bool { return r == ' ' || r == '\'' }) {
		for _, p := range []string{"--with-", "--without-", "--enable-", "--disable-"} {
			if strings.HasPrefix(o, p) && !strings.Contains(o, "/") {
				options = append(options, o)
			}
		}
	}
	if options == nil {
		return "none"
	}
	return strings.Join(options, " ")
}

// wrap writes words in lines of at most width columns, indented by two.
func wrap(b *strings.Builder, words []string, width int) {
	n := 0
	for _, word := range words {
		if n > 0 && n+1+len(word) > width {
			b.WriteByte('\n')
			n = 0
		}
		if n == 0 {
			b.WriteByte(' ')
			n = 1
		}
		b.WriteString(" " + word)
		n += 1 + len(word)
	}
	b.WriteByte('\n')
}

// printServersJSON prints one object, schema 1.
func printServersJSON(l *server.Listing, w io.Writer) error {
	type listed struct {
		Version    string            `json:"version"`
		VersionNum int               `json:"version_num"`
		Origin     string            `json:"origin"`
		Directory  string            `json:"directory"`
		Source     string            `json:"source,omitempty"`
		Compiler   string            `json:"compiler"` // "": it doesn't start; see the notes
		Flags      string            `json:"flags"`
		Options    string            `json:"options"`
		Assertions bool              `json:"assertions"`
		Build      map[string]string `json:"build"`
	}
	out := struct {
		Schema    int      `json:"schema"`
		Pgtare    string   `json:"pgtare"`
		Servers   []listed `json:"servers"`
		Fetchable []string `json:"fetchable"`
		Notes     []string `json:"notes"`
	}{1, version(), []listed{}, append([]string{}, l.Fetchable...), append([]string{}, l.Notes...)}
	for _, s := range l.Here {
		build := s.About.Build
		if build == nil {
			build = map[string]string{}
		}
		out.Servers = append(out.Servers, listed{s.Version, s.VersionNum, s.Origin, s.BinDir, s.Source, s.About.Compiler,
			build["CFLAGS"], build["CONFIGURE"], s.About.Assertions, build})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(out)
}
