package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const golden = "testdata/format-1.jsonl"

// TestGolden holds the format: what is written today is what the golden file
// holds, byte for byte, and reading gives back what was written.
func TestGolden(t *testing.T) {
	rec := made()
	got := contents(t, write(t, rec))
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := contents(t, golden); got != want {
		t.Errorf("format 1 has changed:\n%s\nwas\n%s", got, want)
	}
	back, err := ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, rec) {
		t.Errorf("read back\n%+v\nwritten\n%+v", back, rec)
	}
}

// TestReadCut cuts a record around every line's end and at many other places:
// each piece that holds the header is a record, with exactly the whole lines.
func TestReadCut(t *testing.T) {
	whole := contents(t, golden)
	header := strings.Index(whole, "\n")
	lines := strings.Count(whole, "\n")
	for cut := 0; cut < len(whole); cut++ {
		if near := max(0, cut-3); cut%41 != 0 && !strings.Contains(whole[near:min(cut+3, len(whole))], "\n") {
			continue
		}
		rec, err := Read(strings.NewReader(whole[:cut]))
		if cut < header {
			var format *FormatError
			if !errors.As(err, &format) || format.Line != 1 {
				t.Fatalf("cut at %d, inside the header: %v", cut, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		// The line feed alone may be missing: the object is whole then.
		full := strings.Count(whole[:cut], "\n")
		if whole[cut] == '\n' {
			full++
		}
		got := 1 + len(rec.Generations) + len(rec.Machine) + len(rec.Warnings) - len(rec.Header.Warnings)
		if rec.End != nil {
			got++
		}
		if got != full {
			t.Fatalf("cut at %d: %d lines, want %d", cut, got, full)
		}
		if torn := whole[cut] != '\n' && cut > 0 && whole[cut-1] != '\n'; rec.Torn != torn {
			t.Fatalf("cut at %d: torn is %v", cut, rec.Torn)
		}
		if (rec.End != nil) != (full == lines) {
			t.Fatalf("cut at %d: end is %v", cut, rec.End)
		}
	}
}

// edit changes one line of the golden record, seen as a JSON object.
func edit(t *testing.T, number int, change func(line map[string]any)) string {
	t.Helper()
	lines := strings.SplitAfter(contents(t, golden), "\n")
	var v map[string]any
	if err := json.Unmarshal([]byte(lines[number-1]), &v); err != nil {
		t.Fatal(err)
	}
	change(v)
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	lines[number-1] = string(out) + "\n"
	return strings.Join(lines, "")
}

// TestFormatErrors spoils one thing at a time.
func TestFormatErrors(t *testing.T) {
	whole := contents(t, golden)
	lines := strings.SplitAfter(whole, "\n")
	without := func(number int) string {
		return strings.Join(append(append([]string{}, lines[:number-1]...), lines[number:]...), "")
	}
	after := func(number int, text string) string {
		return strings.Join(lines[:number], "") + text + strings.Join(lines[number:], "")
	}
	at := func(v any, path ...any) any { // descends into objects and lists
		for _, p := range path {
			switch p := p.(type) {
			case string:
				v = v.(map[string]any)[p]
			case int:
				v = v.([]any)[p]
			}
		}
		return v
	}
	set := func(number int, value any, path ...any) string {
		return edit(t, number, func(line map[string]any) {
			key := path[len(path)-1]
			switch in := at(line, path[:len(path)-1]...).(type) {
			case map[string]any:
				in[key.(string)] = value
			case []any:
				in[key.(int)] = value
			}
		})
	}
	last := len(lines) - 1 // the piece after the last line feed is empty
	check := func(name, text string, line int, part string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Helper()
			_, err := Read(strings.NewReader(text))
			var format *FormatError
			if !errors.As(err, &format) {
				t.Fatalf("error is %v", err)
			}
			if format.Line != line || !strings.Contains(format.Msg, part) {
				t.Errorf("line %d: %s; want line %d: ...%s...", format.Line, format.Msg, line, part)
			}
			if len(format.Msg) > 300 || strings.Contains(format.Msg, "Go ") {
				t.Errorf("not a sentence for a user: %s", format.Msg)
			}
		})
	}

	check("empty file", "", 1, "empty")
	check("another file", "root:x:0:0:root:/root:/bin/bash\n", 1, "not a record of pgtare")
	check("JSON of another kind", "[1, 2]\n", 1, "not a record of pgtare")
	check("no header", without(1), 1, "not a header")
	check("header twice", after(2, lines[0]), 3, "second header")
	check("newer format", set(1, 2, "format"), 1, "newer than this pgtare reads")
	check("newer format of another shape", edit(t, 1, func(l map[string]any) { l["format"], l["cells"] = 7, "elsewhere" }), 1, "newer")
	check("format 0", set(1, 0, "format"), 1, "format 0")
	check("no id", set(1, "", "id"), 1, "without an id")
	check("no runs", set(1, 0, "runs"), 1, "0 runs")
	check("absurd runs", set(1, 1e12, "runs"), 1, "runs")
	check("unknown unit", set(1, "parsec", "unit"), 1, "parsec")
	check("seconds of nothing", set(1, "s", "unit"), 1, "without a number of transactions")
	check("negative margin", set(1, -1, "margin"), 1, "margin")
	check("clients", set(1, 0, "panels", 0, "clients"), 1, "0 clients")
	check("more threads than clients", set(1, 2, "panels", 0, "threads"), 1, "2 threads")
	check("negative slice", set(1, -5, "panels", 0, "slice_ns"), 1, "negative")
	check("anchor of nobody", set(1, "19", "panels", 0, "anchors", 0, "server"), 1, "unknown server")
	check("negative anchor", set(1, -1, "panels", 0, "anchors", 0, "tps"), 1, "anchor")
	check("panel twice", edit(t, 1, func(l map[string]any) { l["panels"] = append(l["panels"].([]any), at(l, "panels", 0)) }), 1, "occurs twice")
	check("cell twice", set(1, "c1", "cells", 1, "id"), 1, `"c1" is empty or occurs twice`)
	check("server twice", edit(t, 1, func(l map[string]any) { l["servers"] = append(l["servers"].([]any), at(l, "servers", 0)) }), 1, "occurs twice")
	check("axis twice", edit(t, 1, func(l map[string]any) { l["axes"] = append(l["axes"].([]any), at(l, "axes", 0)) }), 1, "occurs twice")
	check("instance twice", edit(t, 1, func(l map[string]any) { l["instances"] = append(l["instances"].([]any), at(l, "instances", 0)) }), 1, "occurs twice")
	check("cell of no panel", set(1, "p9", "cells", 1, "panel"), 1, "unknown panel")
	check("cell on no server", set(1, "19", "cells", 1, "server"), 1, "unknown server")
	check("cell on no instance", set(1, "i9", "cells", 1, "instance"), 1, "unknown instance")
	check("instance of no server", set(1, "19", "instances", 0, "server"), 1, "unknown server")
	check("status", set(1, "fine", "cells", 1, "status"), 1, "unknown status")
	check("two baselines", set(1, true, "cells", 1, "baseline"), 1, "two baselines")
	check("control of nothing", set(1, "c9", "cells", 2, "control_of"), 1, "unknown cell")
	check("comparison of nothing", set(1, "c9", "comparisons", 0, "cell"), 1, "unknown cell")
	check("comparison against nothing", set(1, "", "comparisons", 0, "against"), 1, "unknown cell")
	check("comparison with no twin", set(1, "c9", "comparisons", 0, "twin"), 1, "unknown cell")
	check("replicate unit", set(1, "slice", "comparisons", 0, "replicate_unit"), 1, "unknown replicate_unit")
	check("control in no panel", set(1, "p9", "controls", 0, "panel"), 1, "unknown panel")
	check("control unit", set(1, "", "controls", 0, "replicate_unit"), 1, "unknown replicate_unit")
	check("early warning about nothing", set(1, "c9", "warnings", 0, "cells", 0), 1, "unknown cell")
	check("across panels", edit(t, 1, func(l map[string]any) {
		second := map[string]any{}
		for k, v := range at(l, "panels", 0).(map[string]any) {
			second[k] = v
		}
		second["id"] = "p2"
		l["panels"] = append(l["panels"].([]any), second)
		at(l, "cells", 1).(map[string]any)["panel"] = "p2"
	}), 1, "is of panel")

	check("unknown line", after(3, `{"type":"poem"}`+"\n"), 4, `"poem"`)
	check("no type", after(3, `{"cell":"c1"}`+"\n"), 4, `unknown type of line ""`)
	check("empty line", after(3, "\n"), 4, "not a JSON object")
	check("torn in the middle", after(3, lines[3][:100]+"\n"), 4, "not a JSON object")
	check("wrong type of value", set(2, "many", "run"), 2, `"run" can't hold a JSON string`)
	check("fraction", set(2, 1.5, "slices", "n", 0), 2, "can't hold a JSON number")
	check("deep nesting", after(3, strings.Repeat("[", 20_000)+"\n"), 4, "not a JSON object")
	check("deep nesting of an object", after(3, `{"type":"generation","panel":`+strings.Repeat(`{"a":`, 20_000)+"\n"), 4, "not a JSON object")

	check("unknown panel", set(2, "p9", "panel"), 2, "unknown panel")
	check("unknown cell", set(2, "c9", "cell"), 2, "unknown cell")
	check("run 0", set(2, 0, "run"), 2, "count from 1")
	check("absurd generation", set(2, 1e9, "generation"), 2, "count from 1")
	check("generation twice", after(2, lines[1]), 3, "occurs twice")
	for _, column := range []string{"round", "position", "predecessor", "start_us", "t", "head_ns", "all", "server_cpu", "server_wait", "client_cpu", "client_wait", "begin", "commit", "elapsed_ns"} {
		check("short column "+column, set(2, []any{0, 1}, "slices", column), 2, "unequal length: n has 3 slices, "+column+" 2")
		check("negative "+column, set(2, -2, "slices", column, 1), 2, "column "+column+": -2")
		check("absurd "+column, set(2, 2e15, "slices", column, 1), 2, "column "+column+": 2000000000000000")
	}
	check("longer than n", set(2, []any{60}, "slices", "n"), 2, "n has 1 slices")
	check("negative n", set(2, -1, "slices", "n", 0), 2, "column n: -1")
	check("predecessor of no cell", set(2, 4, "slices", "predecessor", 0), 2, "column predecessor")
	check("rounds out of order", set(2, []any{0, 2, 2}, "slices", "round"), 2, "2 after 2")
	check("negative mean", set(2, -1, "mean_ns"), 2, "latency")
	check("absurd percentile", set(2, 1e17, "p99_ns"), 2, "latency")
	check("negative failures", set(2, -1, "failures", "57014"), 2, "-1 failures")
	check("faults", set(2, -2, "minor_faults"), 2, "minor_faults")
	check("histogram", set(2, "HISTFAAAAA", "histogram"), 2, "histogram")

	check("moves", set(2, -2, "moves"), 2, "moves")
	check("background", set(3, -2, "background", "wal_bytes"), 3, "background")
	check("absurd background", set(3, 2e15, "background", "cpu_ns"), 3, "background")
	check("background of another shape", set(3, "much", "background"), 3, "can't hold a JSON string")
	check("waits", set(1, -1, "panels", 0, "waits", "Client"), 1, "waits of type")
	check("until", set(1, -1, "until"), 1, "until")
	check("max_seconds", set(1, 1e10, "max_seconds"), 1, "max_seconds")

	const machine = 8
	check("machine of no panel", set(machine, "p9", "panel"), machine, "unknown panel")
	check("machine of no cell", set(machine, "c9", "cell"), machine, "unknown cell")
	check("machine in run 0", set(machine, 0, "run"), machine, "count from 1")
	check("machine in generation 0", set(machine, 0, "generation"), machine, "count from 1")
	check("no CPUs", set(machine, -1, "cpus"), machine, "machine")
	check("time runs back", set(machine, -1, "elapsed_ns"), machine, "machine")
	for _, key := range []string{"busy_ns", "steal_ns", "own_ns", "throttled_ns", "min_khz", "max_khz"} {
		check("negative "+key, set(machine, -2, key), machine, "machine")
		check("absurd "+key, set(machine, 2e15, key), machine, "machine")
	}

	const late = 10 // the warning
	check("warning about nothing", set(late, []any{"c9"}, "cells"), late, "unknown cell")
	check("warning without a code", set(late, "", "code"), late, "without a code")
	check("warning forbids something else", set(late, "everything", "forbids"), late, "everything")
	check("status of the end", set(last, "splendid", "status"), last, "splendid")
	check("generation after the end", whole+lines[1], last+1, "generation after the end")
	check("machine after the end", whole+lines[machine-1], last+1, "machine after the end")
	check("warning after the end", whole+lines[late-1], last+1, "warning after the end")
	check("end twice", whole+lines[last-1], last+1, "end after the end")
}

// TestLongLine reads a line beyond the limit without keeping it.
func TestLongLine(t *testing.T) {
	header := strings.SplitAfter(contents(t, golden), "\n")[0]
	long := io.MultiReader(strings.NewReader(header+`{"type":"warning","code":"`), endless('x'))
	_, err := Read(long)
	var format *FormatError
	if !errors.As(err, &format) || format.Line != 2 || !strings.Contains(format.Msg, "longer than") {
		t.Errorf("error is %v", err)
	}
}

// endless is a stream of one letter.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// TestFormatErrorNames: the file and line stand in the message.
func TestFormatErrorNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spoilt.jsonl")
	if err := os.WriteFile(path, []byte(edit(t, 3, func(l map[string]any) { l["cell"] = "c9" })), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := ReadFile(path)
	if want := fmt.Sprintf(`record %s:3: unknown cell "c9"`, path); err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
	if _, err = ReadFile(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

// TestUnknownKeys: a later format 1 may say more.
func TestUnknownKeys(t *testing.T) {
	text := edit(t, 2, func(l map[string]any) { l["phase_of_the_moon"] = map[string]any{"full": true} })
	if _, err := Read(strings.NewReader(text)); err != nil {
		t.Error(err)
	}
}

// TestBefore reads a record of before there were lines about the machine:
// what it lacks isn't measured.
func TestBefore(t *testing.T) {
	text := edit(t, 3, func(l map[string]any) {
		delete(l, "background")
		delete(l, "moves")
		delete(l["slices"].(map[string]any), "elapsed_ns")
	})
	lines := strings.SplitAfter(text, "\n")
	rec, err := Read(strings.NewReader(strings.Join(append(lines[:7:7], lines[9:]...), "")))
	if err != nil {
		t.Fatal(err)
	}
	g := rec.Generations[1]
	if rec.Machine != nil || g.Background != nil || g.Slices.ElapsedNs != nil || len(g.Slices.N) != 3 || rec.End == nil {
		t.Errorf("%+v, %+v", rec.Machine, g)
	}
	if _, err := ReadFile(write(t, rec)); err != nil {
		t.Errorf("written again: %v", err)
	}
}

// TestLostAgain: a lost generation may be measured anew under its number.
func TestLostAgain(t *testing.T) {
	rec := made()
	lost := rec.Generations[0]
	lost.Lost = "the server went away"
	rec.Generations = append([]Generation{lost, lost}, rec.Generations...)
	if back, err := ReadFile(write(t, rec)); err != nil || len(back.Generations) != len(rec.Generations) {
		t.Errorf("%v", err)
	}
}

// FuzzRead: any bytes give a record or an error, and what is a record can be
// written and read again.
func FuzzRead(f *testing.F) {
	whole, err := os.ReadFile(golden)
	if err != nil {
		f.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(lines[0])
	f.Add(append(append([]byte{}, lines[0]...), lines[len(lines)-2]...))
	f.Add(append(append([]byte{}, lines[0]...), lines[7]...)) // a machine line alone
	f.Add([]byte(`{"type":"header","format":1,"id":"x","runs":1,"unit":"tps"}` + "\n" + `{"type":"end","status":"failed"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := Read(bytes.NewReader(data))
		if err != nil {
			var format *FormatError
			if !errors.As(err, &format) {
				t.Fatalf("not a FormatError: %v", err)
			}
			return
		}
		back, err := ReadFile(write(t, rec))
		if err != nil {
			t.Fatalf("read, written, and then: %v", err)
		}
		if len(back.Generations) != len(rec.Generations) || len(back.Machine) != len(rec.Machine) || len(back.Warnings) != len(rec.Warnings) {
			t.Fatal("read, written, and then less")
		}
	})
}
