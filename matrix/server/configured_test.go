package server

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProveConfigured(t *testing.T) {
	for i, inst := range allVersions(t) {
		t.Run(inst.Label, func(t *testing.T) {
			in := startNew(t, inst, fmt.Sprintf("proven%d", i), map[string]string{
				"shared_buffers": "2MB", "autovacuum": "no", "wal_level": "Minimal", "max_wal_senders": "0", "checkpoint_timeout": "1.5h",
				"work_mem": "3MB", "log_min_duration_statement": "1min", "search_path": `"it's", public`, "commit_delay": "7", "log_connections": "on",
				"wal_buffers": "-1", "Synchronous_Commit": "off", "pg_stat_statements.trak": "all", "jit": "on",
				"shared_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "1h", "auto_explain.log_min_durration": "1h",
			})
			testProveConfigured(t, in)
			testAttached(t, in)
		})
	}
}

func testProveConfigured(t *testing.T, in *Instance) {
	conn := connect(t, in.Config())
	good := map[string]string{
		"shared_buffers": "256 x 8kB", "autovacuum": "off", "wal_level": "minimal", "checkpoint_timeout": "5400 s",
		"work_mem": "3072 kB", "log_min_duration_statement": "60000 ms", "search_path": `"it's", public`, "commit_delay": "7",
		"Synchronous_Commit": "off", "wal_buffers": "8 x 8kB", "max_connections": "100", "statement_timeout": "0 ms",
		"shared_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "3600000 ms",
	}
	asked := map[string]string{
		"shared_buffers": "2MB", "autovacuum": "no", "wal_level": "Minimal", "checkpoint_timeout": "1.5h", "work_mem": "3MB",
		"log_min_duration_statement": "1min", "search_path": `"it's", public`, "commit_delay": "7", "Synchronous_Commit": "off", "wal_buffers": "-1",
		"shared_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "1h",
	}
	settings := []Setting{{Name: "max_connections", Default: true}, {Name: "statement_timeout", Default: true}}
	for name, value := range asked {
		settings = append(settings, set(name, value))
	}
	back, err := ProveConfigured(t.Context(), conn, settings)
	if err != nil || !maps.Equal(back, good) {
		t.Errorf("%v\nread back %v\nwant      %v", err, back, good)
	}
	if back, err := ProveConfigured(t.Context(), conn, nil); err != nil || len(back) != 0 {
		t.Errorf("nothing to prove: %v, %v", back, err)
	}

	// jit is in force and without effect where there is no LLVM.
	_, err = ProveConfigured(t.Context(), conn, []Setting{set("jit", "on")})
	if available := ask(t, conn, "SELECT pg_jit_available()")[0][0]; (err == nil) != (available == "t") {
		t.Errorf("jit, pg_jit_available() = %s: %v", available, err)
	}
	// log_connections from the configuration does act.
	if _, err := ProveConfigured(t.Context(), conn, []Setting{set("log_connections", "on")}); err != nil {
		t.Error(err)
	}
	bad := func(unknown bool, words string, s Setting) {
		t.Helper()
		_, err := ProveConfigured(t.Context(), conn, []Setting{s})
		var na *NotApplicable
		if !errors.As(err, &na) {
			t.Errorf("%v: %v, want NotApplicable", s, err)
			return
		}
		if na.Setting != s || na.Unknown != unknown || !strings.Contains(na.Words, words) {
			t.Errorf("%v: %+v, want unknown=%v with %q", s, na, unknown, words)
		}
	}
	bad(true, "no library that defines it is loaded", set("pg_stat_statements.trak", "all"))
	bad(true, "has no setting of this name", set("auto_explain.log_min_durration", "1h"))
	bad(true, "unrecognized", Setting{Name: "stats_command_string", Default: true})
	bad(false, "is not where it comes from", set("lock_timeout", "5s"))
}

// TestConfiguredLater changes the configuration under a running server.
func TestConfiguredLater(t *testing.T) {
	sharedInstance(t)
	in := startNew(t, shared.install, "later", map[string]string{"shared_buffers": "2MB", "work_mem": "3MB", "enable_sort": "off"})
	conn := connect(t, in.Config())
	conf := filepath.Join(in.data(), confName)
	edit := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(conf)
		if err != nil || !strings.Contains(string(text), from) {
			t.Fatalf("%v: %s", err, text)
		}
		if err := os.WriteFile(conf, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		ask(t, conn, "SELECT pg_reload_conf()")
	}
	says := func(s Setting, want string) {
		t.Helper()
		var last error
		waitFor(t, fmt.Sprintf("%q of %v", want, s), func() bool {
			_, last = ProveConfigured(t.Context(), conn, []Setting{s})
			return last == nil && want == "" || last != nil && want != "" && strings.Contains(last.Error(), want)
		})
	}
	says(set("shared_buffers", "2MB"), "")
	edit("shared_buffers = '2MB'", "shared_buffers = '4MB'")
	says(set("shared_buffers", "4MB"), "waits for a restart")
	edit("shared_buffers = '4MB'", "shared_buffers = '2MB'")
	edit("work_mem = '3MB'", "work_mem = '5 lightyears'")
	says(set("work_mem", "5 lightyears"), "could not be applied")
	edit("work_mem = '5 lightyears'", "work_mem = '5MB'")
	says(set("work_mem", "5MB"), "")
	says(set("work_mem", "3MB"), `says "5MB"`)
	says(Setting{Name: "work_mem", Default: true}, "pgtare's configuration sets it")
	// ALTER SYSTEM comes after all files.
	ask(t, conn, "ALTER SYSTEM SET work_mem = '6MB'")
	ask(t, conn, "SELECT pg_reload_conf()")
	says(set("work_mem", "5MB"), "is not where it comes from")
	// What the session sets overrules the configuration.
	ask(t, conn, "SET enable_sort = on")
	says(set("enable_sort", "off"), `source "session"`)
}

func TestStartRefusal(t *testing.T) {
	for i, inst := range allVersions(t) {
		t.Run(inst.Label, func(t *testing.T) {
			in, err := shared.manager.Create(t.Context(), inst, InstanceConfig{ID: fmt.Sprintf("refused%d", i)})
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			start := func(values map[string]string) ([]Setting, error) {
				t.Helper()
				if err := in.writeConf(InstanceConfig{Settings: values}); err != nil {
					t.Fatal(err)
				}
				settings := []Setting{{Name: "enable_sort", Default: true}}
				for name, value := range values {
					settings = append(settings, set(name, value))
				}
				return settings, in.Start(t.Context())
			}
			check := func(guilty string, unknown bool, words string, values map[string]string) {
				t.Helper()
				settings, err := start(values)
				na := StartRefusal(err, settings)
				if na == nil {
					t.Errorf("%v: no refusal: %v", values, err)
					return
				}
				if na.Setting.Name != guilty || na.Setting.Value != values[guilty] || na.Unknown != unknown || !strings.Contains(na.Words, words) || strings.Contains(na.Words, confName) {
					t.Errorf("%v: %+v, want %s unknown=%v with %q", values, na, guilty, unknown, words)
				}
			}
			check("nonsense", true, `unrecognized configuration parameter "nonsense"`, map[string]string{"nonsense": "1", "work_mem": "2MB"})
			check("work_mem", false, "Valid units", map[string]string{"work_mem": "5 lightyears", "jit": "off"})
			check("autovacuum", false, "requires a Boolean value", map[string]string{"autovacuum": "perhaps"})
			check("server_version_num", false, "cannot be changed", map[string]string{"server_version_num": "1"})
			check("shared_preload_libraries", false, "could not access file", map[string]string{"shared_preload_libraries": "nolib", "work_mem": "1MB"})
			check("shared_buffers", false, "outside the valid range", map[string]string{"shared_buffers": "8TB"})
			if overcommit, _ := os.ReadFile("/proc/sys/vm/overcommit_memory"); strings.TrimSpace(string(overcommit)) != "1" {
				check("shared_buffers", false, "Cannot allocate memory", map[string]string{"shared_buffers": "7TB"})
			}
			if _, err := start(nil); err != nil {
				t.Errorf("without settings: %v", err)
			}
		})
	}
	if na := StartRefusal(nil, nil); na != nil {
		t.Error(na)
	}
	if na := StartRefusal(errors.New(`FATAL:  parameter "x"`), []Setting{set("x", "1")}); na != nil {
		t.Errorf("not of a start: %v", na)
	}
	killed := &StartError{How: "was ended by signal 9 (SIGKILL)", Log: "LOG:  starting PostgreSQL"}
	if na := StartRefusal(killed, []Setting{set("x", "1")}); na != nil {
		t.Errorf("killed: %v", na)
	}
	unclear := &StartError{How: "ended with status 1", Log: "FATAL:  could not create shared memory segment: Cannot allocate memory"}
	if na := StartRefusal(fmt.Errorf("start: %w", unclear), []Setting{set("x", "1"), set("y", "1")}); na != nil {
		t.Errorf("which of two: %v", na)
	}
}
