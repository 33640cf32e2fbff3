package server

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestShows(t *testing.T) {
	for setting, want := range map[string]Needs{
		"track_io_timing=on": NeedsTimes, "track_io_timing=off": NeedsNothing, "jit=on": NeedsJIT, "jit=off": NeedsNothing,
		"log_min_duration_statement=0": NeedsLog, "log_min_duration_statement=100": NeedsNothing, "log_statement=all": NeedsLog, "log_statement=none": NeedsNothing,
		"log_line_prefix=%m ": NeedsLog, "log_checkpoints=on": NeedsNothing, "log_autovacuum_min_duration=0": NeedsNothing,
		"PG_stat_statements.track=top": NeedsStatements, "pg_stat_statements.track=NONE": NeedsNothing,
		"shared_preload_libraries=auto_explain, pg_stat_statements": NeedsStatements, "shared_preload_libraries=": NeedsNothing,
		"huge_pages=try": NeedsHugePages, "huge_pages=off": NeedsNothing, "work_mem=1MB": NeedsNothing,
	} {
		name, value, _ := strings.Cut(setting, "=")
		if got := Shows(name, value); got != want {
			t.Errorf("%s shows %q, want %q", setting, got, want)
		}
	}
	c := Counters{PagesRead: 1000, Transactions: 100}
	if NeedsTimes.Unmet(c) == "" {
		t.Error("pages were read and no time was counted")
	}
	if c.ReadMs = 0.5; NeedsTimes.Unmet(c) != "" {
		t.Error(NeedsTimes.Unmet(c))
	}
	if c = (Counters{TempBytes: 1 << 20, Transactions: 10}); NeedsTimes.Unmet(c) != "" {
		t.Error("times of temporary files aren't counted for the database: " + NeedsTimes.Unmet(c))
	}
}

func TestEffects(t *testing.T) {
	for i, inst := range allVersions(t) {
		t.Run(inst.Label, func(t *testing.T) {
			in := startNew(t, inst, fmt.Sprintf("effects%d", i), map[string]string{"shared_preload_libraries": "pg_stat_statements", "logging_collector": "on", "log_statement": "all"})
			counted := func() int64 {
				t.Helper()
				n, err := in.StatementsCounted(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			conn := connect(t, in.Config())
			before, log := counted(), in.LogBytes()
			for range 20 {
				ask(t, conn, "SELECT 1")
			}
			if after := counted(); after < before+20 || after > before+30 {
				t.Errorf("counted were %d, then %d", before, after)
			}
			// The collector's file is not the server's own log.
			waitFor(t, "a longer log", func() bool { return in.LogBytes() >= log+20*int64(len("SELECT 1")) })
			if rows := ask(t, conn, "SELECT count(*) FROM pg_extension WHERE extname = 'pg_stat_statements'"); rows[0][0] != "0" {
				t.Error("the measured database has the extension")
			}
			huge, known, err := HugePages(t.Context(), conn, in.PID())
			reserved, _ := os.ReadFile("/proc/sys/vm/nr_hugepages")
			if none := strings.TrimSpace(string(reserved)) == "0"; err != nil || !known || none && huge {
				t.Errorf("huge pages: %v, known %v, %v", huge, known, err)
			}
		})
	}
	// Where the library isn't loaded nothing is counted.
	if n, err := sharedInstance(t).StatementsCounted(t.Context()); n != 0 || err != nil {
		t.Errorf("counted %d, %v", n, err)
	}
}

func TestFootprint(t *testing.T) {
	MB := func(f Footprint) string { return fmt.Sprintf("%d+%d %v", f.Shared>>20, f.Own>>20, f.Huge) }
	for conf, want := range map[string]string{
		"": "153+5 false", "shared_buffers=1GB": "1084+5 false", "Shared_Buffers=131072,huge_pages=on": "1084+5 true",
		"shared_buffers=much,huge_pages=try": "153+5 false", "shared_buffers=16TB": "17448324+5 false",
	} {
		var settings []Setting
		for _, s := range strings.Split(conf, ",") {
			if name, value, found := strings.Cut(s, "="); found {
				settings = append(settings, set(name, value))
			}
		}
		if got := MB(FootprintOf(settings)); got != want {
			t.Errorf("%s: %s MB, want %s", conf, got, want)
		}
	}
}
