package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"

	"pgtare/matrix/host"
	"pgtare/results"
)

// The port only names the socket: there is no TCP.
const (
	port       = 5432
	socketName = ".s.PGSQL.5432"
)

// confName is the file that postgresql.conf includes last.
const confName = "pgtare.conf"

// Instance is one PostgreSQL that pgtare owns. Its methods may be called from
// several goroutines; Start and Stop of one instance exclude each other.
type Instance struct {
	manager *Manager
	inst    Installation
	id      string
	dir     string // holds data, log and, where its path is short enough, the sockets
	sockets string
	config  *pgconn.Config
	devs    []string
	env     []string // added to the environment
	hidden  hider    // what must not be seen of env and the configuration

	life sync.Mutex // held by Start, Stop and Close

	mu     sync.Mutex
	proc   *postmaster // nil: never started, or stopped
	closed bool
}

// postmaster is one start of an instance.
type postmaster struct {
	pid  int
	done chan struct{} // closed when it has ended and has been waited for
	how  string        // valid then: how it ended
	log  int64         // where in the log it begins
}

func (m *Manager) newInstance(ctx context.Context, inst Installation, cfg InstanceConfig) (_ *Instance, err error) {
	in := &Instance{manager: m, inst: inst, id: cfg.ID, dir: filepath.Join(m.session.dir, cfg.ID), env: slices.Clone(cfg.Env)}
	if err := os.Mkdir(in.dir, 0o700); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(in.dir)
		}
	}()
	if err := m.user.give(in.dir); err != nil {
		return nil, err
	}
	if in.sockets, err = m.socketDir(in.dir); err != nil {
		return nil, err
	}
	template, err := m.templates.get(ctx, inst, initdbOptions(inst.VersionNum/10000, cfg.Initdb), m.scratch())
	if err != nil {
		return nil, err
	}
	if err := copyTree(ctx, template, in.data(), m.user); err != nil {
		return nil, fmt.Errorf("copy the template: %w", err)
	}
	if err := in.writeConf(cfg); err != nil {
		return nil, err
	}
	in.config, err = managedConfig(in.sockets)
	if err != nil {
		return nil, err
	}
	return in, nil
}

// managedConfig is how to reach a managed instance: nothing of the user's
// environment (PGOPTIONS, PGTZ, PGAPPNAME) may get into a measured session.
func managedConfig(sockets string) (*pgconn.Config, error) {
	c, err := pgconn.ParseConfig(fmt.Sprintf("host=/ port=%d user=postgres database=postgres sslmode=disable", port))
	if err != nil {
		return nil, fmt.Errorf("connect to a managed instance: %w", err)
	}
	c.Host = sockets // a conninfo would split it at commas
	c.RuntimeParams = map[string]string{}
	c.Password = ""
	c.Fallbacks = nil
	c.ConnectTimeout = 0
	c.ValidateConnect, c.AfterConnect = nil, nil
	return c, nil
}

// writeConf writes pgtare.conf and has postgresql.conf include it last.
func (in *Instance) writeConf(cfg InstanceConfig) error {
	in.hidden = hiderOf(in.env, cfg.Settings)
	type line struct{ name, value, why string } // why: for the file's reader
	lines := []line{
		{"listen_addresses", "", "no TCP"},
		{"unix_socket_directories", `"` + strings.ReplaceAll(in.sockets, `"`, `""`) + `"`, "sockets in a directory of mode 0700"},
		{"port", strconv.Itoa(port), "names the socket"},
		{"timezone", "UTC", "alike in all versions"},
		{"log_timezone", "UTC", "alike in all versions"},
		{"lc_messages", "C", "alike in all versions"},
		{"log_destination", "stderr", "to a file"},
		{"logging_collector", "off", "to a file"},
		{"synchronize_seqscans", "off", "cells must not share scan positions"},
	}
	if cfg.MaxConnections > 0 {
		lines = append(lines, line{"max_connections", strconv.Itoa(cfg.MaxConnections), "as the plan needs"})
	}
	in.devs = []string{"initdb " + strings.Join(initdbOptions(in.inst.VersionNum/10000, cfg.Initdb), " ")}
	var b strings.Builder
	b.WriteString("# Written by pgtare.\n")
	for _, l := range lines {
		fmt.Fprintf(&b, "%s = '%s' # %s\n", l.name, quoteConf(l.value), l.why)
		switch l.name {
		case "unix_socket_directories": // a random path tells nobody anything
			in.devs = append(in.devs, "unix_socket_directories (a private one)")
		case "port", "log_destination", "logging_collector": // their defaults, spelled out
		default:
			in.devs = append(in.devs, l.name+"="+l.value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Settings)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, quoteConf(cfg.Settings[name]))
		in.devs = append(in.devs, name+"="+maskSetting(name, cfg.Settings[name]))
	}
	conf := filepath.Join(in.data(), confName)
	if err := os.WriteFile(conf, []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", conf, err)
	}
	if err := in.manager.user.give(conf); err != nil {
		return fmt.Errorf("write %s: %w", conf, err)
	}
	f, err := os.OpenFile(filepath.Join(in.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write postgresql.conf: %w", err)
	}
	_, err = f.WriteString("\ninclude '" + confName + "'\n")
	return errors.Join(err, f.Close())
}

// quoteConf escapes a value for single quotes in postgresql.conf.
func quoteConf(v string) string {
	return strings.NewReplacer(`\`, `\\`, `'`, `''`, "\n", `\n`).Replace(v)
}

// ID returns the instance's name.
func (in *Instance) ID() string { return in.id }

// Label returns the installation's label.
func (in *Instance) Label() string { return in.inst.Label }

// Managed is true.
func (in *Instance) Managed() bool { return true }

// LocalPID is true.
func (in *Instance) LocalPID() bool { return true }

// Schema is public.
func (in *Instance) Schema() string { return "public" }

// Config returns how to connect: superuser postgres, database postgres, over
// a Unix socket.
func (in *Instance) Config() *pgconn.Config { return in.config.Copy() }

// Deviations lists what was set other than PostgreSQL's own defaults.
func (in *Instance) Deviations() []string { return slices.Clone(in.devs) }

// PID returns the postmaster's process ID, 0 when the instance is stopped.
func (in *Instance) PID() int {
	if p := in.postmaster(); p != nil {
		return p.pid
	}
	return 0
}

func (in *Instance) data() string    { return filepath.Join(in.dir, "data") }
func (in *Instance) logPath() string { return filepath.Join(in.dir, "log") }

func (in *Instance) postmaster() *postmaster {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.proc
}

// Start starts the instance and returns when it takes connections. The new
// postmaster is a new process image: everything that its backends inherit is
// drawn anew. An instance that has died may be started again. A server that
// ends by itself gives a *[StartError]; [StartRefusal] tells whether it won't
// have its settings.
func (in *Instance) Start(ctx context.Context) error {
	ctx, over, err := in.manager.begin(ctx)
	if err != nil {
		return fmt.Errorf("start instance %s: %w", in.id, err)
	}
	defer over()
	in.life.Lock()
	defer in.life.Unlock()
	if in.isClosed() {
		return fmt.Errorf("start instance %s: it is closed", in.id)
	}
	if p := in.postmaster(); p != nil {
		select {
		case <-p.done:
		default:
			return fmt.Errorf("start instance %s: it is running", in.id)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// Backends of a postmaster that was killed would keep the new one out.
	if err := endProcesses(in.data()); err != nil {
		return fmt.Errorf("start instance %s: %w", in.id, err)
	}
	log, err := os.OpenFile(in.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start instance %s: %w", in.id, err)
	}
	defer log.Close()
	if err := in.manager.user.give(in.logPath()); err != nil {
		return fmt.Errorf("start instance %s: %w", in.id, err)
	}
	_, logEnd, err := in.LogSince(-1)
	if err != nil {
		return fmt.Errorf("start instance %s: %w", in.id, err)
	}
	cmd := exec.Command(filepath.Join(in.inst.BinDir, "postgres"), "-D", in.data())
	cmd.Dir, cmd.Env = in.dir, append(childEnv(), in.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = in.manager.user.attr(syscall.SIGQUIT)
	if err := in.manager.fork.start(cmd); err != nil {
		return in.manager.user.startError(cmd.Path, err)
	}
	p := &postmaster{pid: cmd.Process.Pid, done: make(chan struct{}), log: logEnd}
	go func() {
		cmd.Wait()
		p.how = ended(cmd.ProcessState)
		close(p.done)
	}()
	in.mu.Lock()
	in.proc = p
	in.mu.Unlock()
	if err := in.await(ctx, p); err != nil {
		err = fmt.Errorf("start instance %s of %s: %w", in.id, in.inst.Label, err)
		return errors.Join(err, in.end(context.Background(), unix.SIGQUIT, time.Second))
	}
	return nil
}

// startPatience is how long a server may take to be ready: a fresh cluster
// takes a second.
const startPatience = 2 * time.Minute

// await waits until the postmaster says that it is ready.
//
// Note: asking by connecting would write "the database system is starting up"
// into the log, which the runner reads for unexpected lines.
func (in *Instance) await(ctx context.Context, p *postmaster) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	patience := time.After(startPatience)
	for {
		select {
		case <-patience:
			return fmt.Errorf("the server is not ready after %v; the end of its log:\n%s", startPatience, in.LogTail(15))
		case <-p.done:
			text, _, _ := in.LogSince(p.log) // without it the error still says how
			return &StartError{How: p.how, Log: tail(text, 15)}
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		text, err := os.ReadFile(filepath.Join(in.data(), "postmaster.pid"))
		if err != nil {
			continue // not yet written
		}
		lines := strings.Split(string(text), "\n")
		if len(lines) >= 8 && strings.TrimSpace(lines[0]) == strconv.Itoa(p.pid) && slices.Contains([]string{"ready", "standby"}, strings.TrimSpace(lines[7])) {
			return nil
		}
	}
}

// Stop stops the instance by a fast shutdown: sessions are cut off and a
// checkpoint is written. When that takes longer than a minute or ctx ends, the
// shutdown is immediate. A stopped or dead instance is no error.
func (in *Instance) Stop(ctx context.Context) error {
	in.life.Lock()
	defer in.life.Unlock()
	return in.end(ctx, unix.SIGINT, time.Minute)
}

// Close stops the instance at once and removes its files.
func (in *Instance) Close() error {
	in.life.Lock()
	defer in.life.Unlock()
	if in.isClosed() {
		return nil
	}
	err := in.end(context.Background(), unix.SIGQUIT, time.Second)
	in.mu.Lock()
	in.closed = true
	in.mu.Unlock()
	removeSharedOf(filepath.Join(in.data(), "postmaster.pid"))
	return errors.Join(err, removeAll(in.sockets), removeAll(in.dir))
}

func (in *Instance) isClosed() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.closed
}

// end sends sig to the postmaster and waits; then SIGQUIT; then SIGKILL to
// every process of the instance, which is also how backends end whose
// postmaster has been killed.
func (in *Instance) end(ctx context.Context, sig unix.Signal, patience time.Duration) error {
	p := in.postmaster()
	if p == nil {
		return nil
	}
	if !in.signal(ctx, p, sig, patience) && sig != unix.SIGQUIT {
		in.signal(context.Background(), p, unix.SIGQUIT, time.Second)
	}
	if err := endProcesses(in.data()); err != nil {
		return fmt.Errorf("stop instance %s: %w", in.id, err)
	}
	<-p.done
	in.mu.Lock()
	in.proc = nil
	in.mu.Unlock()
	return nil
}

// signal reports whether the postmaster ended in time.
func (in *Instance) signal(ctx context.Context, p *postmaster, sig unix.Signal, patience time.Duration) bool {
	select {
	case <-p.done:
		return true // its PID may be another's by now
	default:
	}
	unix.Kill(p.pid, sig)
	signalIn(in.data(), unix.SIGCONT) // a stopped process would not see it
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// ended says in words how a process ended.
func ended(s *os.ProcessState) string {
	w, ok := s.Sys().(syscall.WaitStatus)
	switch {
	case ok && w.Signaled():
		return fmt.Sprintf("was ended by signal %d (%s)", w.Signal(), unix.SignalName(w.Signal()))
	default:
		return fmt.Sprintf("ended with status %d", s.ExitCode())
	}
}

// Alive returns nil while the postmaster runs. A postmaster that has ended, or
// a process of the server that is stopped (SIGSTOP), gives an error that says
// so.
func (in *Instance) Alive(context.Context) error {
	p := in.postmaster()
	if p == nil {
		return fmt.Errorf("server %s (instance %s) is not running", in.inst.Label, in.id)
	}
	select {
	case <-p.done:
		return fmt.Errorf("server %s (instance %s) %s; the end of its log:\n%s", in.inst.Label, in.id, p.how, in.LogTail(10))
	default:
	}
	for _, pid := range append([]int{p.pid}, processesIn(in.data())...) {
		if st, err := host.ReadStat(pid); err == nil && st.State == 'T' {
			return fmt.Errorf("server %s (instance %s) is stopped: its process %d got a SIGSTOP; continue it with: kill -CONT %[3]d", in.inst.Label, in.id, pid)
		}
	}
	return nil
}

// LogTail returns the last n lines of the server's log, secrets hidden.
func (in *Instance) LogTail(n int) string {
	st, err := os.Stat(in.logPath())
	if err != nil {
		return ""
	}
	from := max(0, st.Size()-64<<10)
	text, _, err := in.LogSince(from)
	if err != nil {
		return ""
	}
	if from > 0 {
		_, text, _ = strings.Cut(text, "\n") // the rest of a line, of which a secret may have been cut
	}
	return tail(text, n)
}

// LogSince returns the log from a byte offset on, secrets hidden, at most 1 MiB,
// and the offset where it ends. Offset -1 returns no text and the present end.
func (in *Instance) LogSince(offset int64) (text string, next int64, err error) {
	f, err := os.Open(in.logPath())
	if err != nil {
		if errors.Is(err, os.ErrNotExist) { // never started
			return "", 0, nil
		}
		return "", 0, fmt.Errorf("read the server's log: %w", err)
	}
	defer f.Close()
	if offset < 0 {
		next, err = f.Seek(0, io.SeekEnd)
	} else if _, err = f.Seek(offset, io.SeekStart); err == nil {
		var b []byte
		const most = 1 << 20
		b, err = io.ReadAll(io.LimitReader(f, most))
		if i := bytes.LastIndexByte(b, '\n'); len(b) == most && i >= 0 {
			b = b[:i+1] // half a secret would not be known for one
		}
		text, next = in.hidden.hide(string(b)), offset+int64(len(b))
	}
	if err != nil {
		return "", 0, fmt.Errorf("read the server's log: %w", err)
	}
	return text, next, nil
}

// Describe asks the running server what it is.
func (in *Instance) Describe(ctx context.Context) (results.Server, error) {
	s, err := describe(ctx, in.Config(), in.inst)
	s.Deviations = in.Deviations()
	return s, err
}
