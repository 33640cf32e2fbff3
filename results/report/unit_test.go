package report

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgtare/results"
)

func TestFigure(t *testing.T) {
	p := &results.Panel{Clients: 8}
	// 8 clients in a window of 10 ms, 400 transactions: t = 80 ms, 200 us each.
	if got := figure(&results.Header{Unit: "tps"}, p, 400, 80e6); math.Abs(*got-40_000) > 1e-6 {
		t.Errorf("%v tps, want 40000", *got)
	}
	// 1000 transactions per client, at 200 us each, take 0.2 s.
	if got := figure(&results.Header{Unit: "s", Transactions: 1000}, p, 400, 80e6); math.Abs(*got-0.2) > 1e-12 {
		t.Errorf("%v s, want 0.2", *got)
	}
	for _, unit := range []string{"tps", "s"} {
		if got := figure(&results.Header{Unit: unit, Transactions: 1}, p, 0, 80e6); got != nil {
			t.Errorf("nothing completed, and yet %v %s", *got, unit)
		}
	}
}

func TestAlignEstimates(t *testing.T) {
	e := func(point float64, ends ...float64) *estimate {
		if len(ends) == 0 {
			return &estimate{point: point}
		}
		return &estimate{point, &ends[0], &ends[1]}
	}
	check := func(name string, digits func(*estimate) int, column []*estimate, want ...string) {
		t.Helper()
		if got := alignEstimates(column, digits); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	check("per cent", pctDigits, []*estimate{e(0.71, 0.31, 1.11), nil, e(-0.021, -0.044, 0.002), e(145.3, 141.2, 149.4)},
		"  +0.7  +- 0.4 ", "", "  -0.02 +- 0.02", "+145.3  +- 4.1 ")
	check("no intervals", pctDigits, []*estimate{e(3.14), e(-10)}, " +3.1", "-10.0")
	check("zero has no sign", pctDigits, []*estimate{e(-0.01, -0.5, 0.48)}, "0.0 +- 0.5")
	check("lopsided", pctDigits, []*estimate{e(20, -8, 55), e(1, 0.5, 1.5)}, "+20   (-8 to +55)", " +1.0 +- 0.5     ")
	check("hardly lopsided", pctDigits, []*estimate{e(4.2, -1.2, 9.9)}, "+4.2 +- 5.5")
	check("ns to what the interval supports", intervalDigits(1), []*estimate{e(1234, 1114, 1354), e(212, 206, 218), e(1.234, 0.734, 1.734)},
		"+1230   +- 120  ", " +212.0 +-   6.0", "   +1.2 +-   0.5")
	check("huge", pctDigits, []*estimate{e(1e12, 9e11, 1.1e12)}, "+1e+12 +- 1e+11")
}

func TestLevels(t *testing.T) {
	column := []*float64{ptr(33123.4), nil, ptr(987.65), ptr(0.012345), ptr(0.0)}
	want := []string{"33120     ", "", "  987.6   ", "    0.0123", "    0     "}
	if got := levels(column, 4); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct {
		text          string
		limit, indent int
		want          string
	}{
		{"short", 10, 2, "short"},
		{"one two three four", 10, 2, "one two|  three|  four"},
		{"aaaaaaaaaaaaaaaaaaaa", 10, 2, "aaaaaaaaaa|  aaaaaaaa|  aa"},
		{"a,b,c,d,e,f,g,h", 8, 0, "a,b,c,d,|e,f,g,h"},
		{"  indented far too long", 12, 4, "  indented|    far too|    long"},
	} {
		got := fold(c.text, c.limit, c.indent)
		for _, line := range got {
			if len(line) > c.limit {
				t.Errorf("%q: line %q is longer than %d", c.text, line, c.limit)
			}
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%q: %q, want %q", c.text, strings.Join(got, "|"), c.want)
		}
	}
}

func TestASCII(t *testing.T) {
	if got, want := ascii("größer\n\t\x1b[31m→𝄞 ok~"), `gr\xf6\xdfer\n\t\x1b[31m\u2192\U0001d11e ok~`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestBuilds: what differs between any two versions isn't a difference, what
// bears on speed is.
func TestBuilds(t *testing.T) {
	debian := Server{Compiler: "gcc 12.2.0", Build: map[string]string{
		"CFLAGS":    "-Wall -O2 -fno-omit-frame-pointer -ffile-prefix-map=/build/postgresql-15-15.18=. -g",
		"CONFIGURE": "'--with-llvm' '--enable-nls' '--datadir=/usr/share/postgresql/15' 'CFLAGS=-g -O2'",
	}}
	with := func(change func(s *Server)) Server {
		s := debian
		s.Build = map[string]string{"CFLAGS": debian.Build["CFLAGS"], "CONFIGURE": debian.Build["CONFIGURE"]}
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		other Server
		same  bool
	}{
		"another version": {with(func(s *Server) {
			s.Build["CFLAGS"] = "-Wall -O2 -fno-omit-frame-pointer -ffile-prefix-map=/build/postgresql-16-16.4=. -g"
			s.Build["CONFIGURE"] = "'--enable-nls' '--datadir=/usr/share/postgresql/16' '--with-llvm' 'CFLAGS=-g -O2'"
		}), true},
		"another compiler": {with(func(s *Server) { s.Compiler = "gcc 7.5.0" }), false},
		"-Os":              {with(func(s *Server) { s.Build["CFLAGS"] = "-Wall -Os -fno-omit-frame-pointer" }), false},
		"-march":           {with(func(s *Server) { s.Build["CFLAGS"] += " -march=native" }), false},
		"assertions":       {with(func(s *Server) { s.Build["CONFIGURE"] += " '--enable-cassert'" }), false},
		"no LLVM":          {with(func(s *Server) { s.Build["CONFIGURE"] = "'--enable-nls'" }), false},
	} {
		if got := buildOf(debian) == buildOf(c.other); got != c.same {
			t.Errorf("%s: same is %v\n%s\n%s", name, got, buildOf(debian), buildOf(c.other))
		}
	}
	if got := optimization("-O0 -g -O2"); got != "-O2" {
		t.Errorf("the last -O is in force, got %s", got)
	}
}

// TestGridFits: whatever the widths, no line is too long.
func TestGridFits(t *testing.T) {
	for columns := 1; columns <= 9; columns++ {
		for _, size := range []int{1, 7, 20, 45} {
			for _, label := range []int{0, 10, 40, 63, 200} {
				for _, together := range []bool{false, true} {
					g := &grid{together: together}
					r := row{indent: 2, label: strings.Repeat("l", label)}
					for range columns {
						g.heads = append(g.heads, "head")
						r.cells = append(r.cells, strings.Repeat("9", size))
					}
					rows := []row{{label: "title"}, r, {indent: 2, label: r.label, span: "not exercised"}}
					g.sections = [][]row{rows, rows}
					var b strings.Builder
					g.write(&b)
					for _, line := range strings.Split(b.String(), "\n") {
						if len(line) > width {
							t.Fatalf("%d columns of %d, label of %d, together %v: a line of %d\n%s", columns, size, label, together, len(line), b.String())
						}
					}
					if n := strings.Count(b.String(), strings.Repeat("9", size)); n < 2*columns {
						t.Fatalf("%d columns of %d, label of %d: cells are missing\n%s", columns, size, label, b.String())
					}
				}
			}
		}
	}
}
