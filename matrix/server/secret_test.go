package server

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestHide(t *testing.T) {
	for _, c := range []struct {
		env, setting string
		text, want   string
	}{
		{"A=sesame", "", "has sesameseed and SESAME", "has ***seed and SESAME"},
		{"A=a\nb", "", "what: a\n\tb", "what: a\n\tb"}, // two characters
		{"A=open\nsesame", "", "is open\n\tsesame here", "is *** here"},
		{"A=10%f0", "", "it is 10%f0 and 1000", "it is *** and 1000"}, // no command
		{"", "primary_conninfo=host=h password=sesame", `invalid string "host=h password=sesame"`, `invalid string "***"`},
		{"", "primary_conninfo=host=h password=sesame", `missing "=" after "sesame" in host=h of 127.0.0.1`, `missing "=" after "***" in *** of 127.0.0.1`},
		{"", "primary_conninfo=host=h  password='open sesame'", `what is sesame?`, `what is ***?`},
		{"", "archive_command=put -u me:sesame %p /to/%f", "The failed archive command was: put -u me:sesame pg_wal/01 /to/01", "The failed archive command was: ***01"},
		{"", "archive_command=sesame %p", "sh: 1: sesame: not found", "sh: 1: ***: not found"},
		{"", "archive_command=cp %p %f", "cp pg_wal/1 1", "cp pg_wal/1 1"}, // no more than cp is known
		{"", "archive_command=%p%f", "pg_wal/1", "pg_wal/1"},
		{"", "archive_command=date +%%F", "was: date +%F", "was: ***"},
		{"", "archive_command=cat9 %p", "catalog cat9 cat99", "catalog ***cat99"},
		{"", "archive_command=put -u me:sesame %p", "no access for me with sesame", "no access for me with ***"},
		{"", "primary_conninfo=postgres://me:sesame@localhost/db", "localhost: sesame is wrong", "localhost: *** is wrong"},
		{"", "work_mem=4321kB", "4321kB", "4321kB"},
		// Short values only where they are quoted as values.
		{"A=1", "", "port 5411: 1 of 1", "port 5411: 1 of 1"},
		{"A=1", "", "A: 1\nvalue \"1\" or '1'", "A: ***\nvalue \"***\" or '***'"},
		{"", "x.password=ab", `invalid value for parameter "x.password": "ab"; about`, `invalid value for parameter "x.password": "***"; about`},
		{"A=", "x.password=", `"" and ''`, `"" and ''`},
	} {
		var env []string
		if c.env != "" {
			env = []string{c.env}
		}
		name, value, _ := strings.Cut(c.setting, "=")
		if got := hiderOf(env, map[string]string{name: value}).hide(c.text); got != c.want {
			t.Errorf("%q %q hide in %q: %q, want %q", c.env, c.setting, c.text, got, c.want)
		}
	}
	// What is wrong with a secret quotes none.
	na := &NotApplicable{Setting: set("ssl_passphrase_command", "echo sesame"), Words: `"echo sesame" failed: sesame: no`}
	if got := na.Error(); got != `ssl_passphrase_command=***: "***" failed: ***: no` {
		t.Error(got)
	}
}

// What a server says of commands that fail reaches nobody with their text, alive
// or dead.
func TestSecretsInLog(t *testing.T) {
	sharedInstance(t)
	in := startNew(t, shared.install, "secrets", map[string]string{
		"archive_mode": "on", "archive_command": "hunter2 -u me:sesame %p", "primary_conninfo": "host=x password=hunter3", "shared_buffers": "2MB",
	})
	conn := connect(t, in.Config())
	ask(t, conn, "CREATE TABLE t (); SELECT pg_switch_wal()")
	var tail string
	waitFor(t, "a command that failed", func() bool {
		tail = in.LogTail(20)
		return strings.Contains(tail, "The failed archive command was")
	})
	written, err := os.ReadFile(in.logPath())
	if err != nil || !strings.Contains(string(written), "was: hunter2 -u me:sesame pg_wal/") || !strings.Contains(string(written), ": hunter2: ") {
		t.Fatalf("the log is not what this test is about: %v\n%s", err, written)
	}
	if err := unix.Kill(in.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var dead error
	waitFor(t, "the end of the server", func() bool { dead = in.Alive(t.Context()); return dead != nil })
	for _, text := range []string{tail, dead.Error()} {
		if strings.Contains(text, "hunter") || strings.Contains(text, "sesame") || !strings.Contains(text, "The failed archive command was: ***") {
			t.Errorf("said:\n%s", text)
		}
	}
}

// Nor does what is read back of a configuration, or what is wrong with it.
func TestSecretsProven(t *testing.T) {
	conn := connect(t, configured.get(t).Config())
	secrets := []Setting{set("archive_command", "secret %p"), set("primary_conninfo", "host=x password=hunter2"), {Name: "restore_command", Default: true}}
	back, err := ProveConfigured(t.Context(), conn, secrets)
	if err != nil || fmt.Sprint(back) != "map[archive_command:*** primary_conninfo:*** restore_command:]" {
		t.Errorf("%v, %v", back, err)
	}
	for _, s := range []Setting{set("archive_command", "false"), {Name: "archive_command", Default: true}, set("primary_conninfo", "host=y"), {Name: "primary_conninfo", Default: true}} {
		if _, err := ProveConfigured(t.Context(), conn, []Setting{s}); err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v", s, err)
		}
	}
	ask(t, conn, "ALTER SYSTEM SET archive_command = 'other secret'")
	ask(t, conn, "SELECT pg_reload_conf()")
	defer func() {
		ask(t, conn, "ALTER SYSTEM RESET archive_command")
		ask(t, conn, "SELECT pg_reload_conf()")
	}()
	waitFor(t, "a value of somebody else's", func() bool {
		_, err := ProveConfigured(t.Context(), conn, secrets[:1])
		if err != nil && (strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "pg_settings shows *** from")) {
			t.Fatal(err)
		}
		return err != nil
	})
}
