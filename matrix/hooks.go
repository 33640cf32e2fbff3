package matrix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Hooks are commands of the user's for the shell, "" for none. Each run begins
// with Before, when its instances have been started and nothing of the run has
// been measured, and ends with After. What they print goes to the log, line by
// line. One that fails ends the matrix.
//
// Their environment is pgtare's own and
//
//	PGTARE_RUN        the run, from 1
//	PGTARE_RECORD     path of the record, which is being written
//	PGTARE_INSTANCES  the instances that are running, a line each: ID, label of
//	                  the server and conninfo, separated by tabs. Those that are
//	                  measured in blocks run in their blocks only
//	PGHOST, PGPORT, PGUSER, PGDATABASE  of the first instance, so that psql
//	                  reaches it without arguments, or nothing where it isn't
//	                  running: never another server that the user's own variables
//	                  name. These are not passed on, but for what a running
//	                  server asks of a client (PGPASSWORD, PGSSL...)
//
// The commands stand in the record, so that secrets belong into files or the
// environment. A conninfo holds no password.
type Hooks struct{ Before, After string }

// hook carries one of them out.
func (r *runner) hook(ctx context.Context, flag, command string, run int) error {
	if command == "" {
		return nil
	}
	r.trace("run %d: %s", run, flag)
	c := exec.CommandContext(ctx, "sh", "-c", command)
	c.Env = r.hookEnvironment(os.Environ(), run)
	runtime.LockOSThread() // see hookAttr
	defer runtime.UnlockOSThread()
	c.SysProcAttr = hookAttr()
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = 5 * time.Second
	lines := &lineWriter{to: func(line string) { r.log("%s: %s", flag, line) }}
	c.Stdout, c.Stderr = lines, lines
	err := c.Run()
	lines.flush()
	if c.Process != nil && ctx.Err() != nil {
		// What ignored SIGTERM.
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay):
		return fmt.Errorf("--%s %q: it ended and left something running that still writes; end it, or send its output elsewhere", flag, command)
	case err != nil && lines.last != "":
		return fmt.Errorf("--%s %q failed in run %d: %w; its last line: %s", flag, command, run, err, lines.last)
	case err != nil:
		return fmt.Errorf("--%s %q failed in run %d: %w", flag, command, run, err)
	}
	return nil
}

// hookEnvironment is what a hook gets, from the environment of pgtare's own.
func (r *runner) hookEnvironment(own []string, run int) (env []string) {
	attached := r.instances[0].managed == nil
	for _, v := range own {
		name, _, _ := strings.Cut(v, "=")
		where := slices.Contains([]string{"PGHOST", "PGHOSTADDR", "PGPORT", "PGUSER", "PGDATABASE", "PGSERVICE", "PGSERVICEFILE", "PGOPTIONS", "PGTARGETSESSIONATTRS"}, name)
		if !strings.HasPrefix(name, "PG") || attached && !where {
			env = append(env, v)
		}
	}
	env = append(env, fmt.Sprintf("PGTARE_RUN=%d", run), "PGTARE_RECORD="+r.writer.Path())
	var running []string
	for i, inst := range r.instances {
		if inst.target == nil {
			continue
		}
		cfg := inst.target.Config()
		if i == 0 {
			env = append(env, "PGHOST="+cfg.Host, fmt.Sprintf("PGPORT=%d", cfg.Port), "PGUSER="+cfg.User, "PGDATABASE="+cfg.Database)
		}
		if inst.managed != nil && inst.managed.PID() == 0 {
			continue
		}
		running = append(running, fmt.Sprintf("%s\t%s\thost=%s port=%d user=%s dbname=%s", inst.planned.ID, r.label(i), conninfoValue(cfg.Host), cfg.Port, conninfoValue(cfg.User), conninfoValue(cfg.Database)))
	}
	return append(env, "PGTARE_INSTANCES="+strings.Join(running, "\n"))
}

// conninfoValue quotes a value for a conninfo.
func conninfoValue(v string) string {
	if v != "" && !strings.ContainsAny(v, ` '\`) {
		return v
	}
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'"
}

// lineWriter hands on whole lines, cut where they are very long.
type lineWriter struct {
	to    func(line string)
	begun []byte
	last  string // that isn't empty
}

const longestLine = 4096

func (w *lineWriter) Write(p []byte) (int, error) {
	w.begun = append(w.begun, p...)
	for {
		at := bytes.IndexByte(w.begun, '\n')
		if at < 0 && len(w.begun) < longestLine {
			return len(p), nil
		}
		if at < 0 {
			w.line(w.begun[:longestLine])
			w.begun = w.begun[longestLine:]
			continue
		}
		w.line(w.begun[:at])
		w.begun = w.begun[at+1:]
	}
}

func (w *lineWriter) line(text []byte) {
	line := strings.TrimRight(string(text), "\r")
	if strings.TrimSpace(line) != "" {
		w.last = line
	}
	w.to(line)
}

// flush hands on what has no end of line.
func (w *lineWriter) flush() {
	if len(w.begun) > 0 {
		w.line(w.begun)
		w.begun = nil
	}
}
