package server

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/host"
)

// findCPU finds out how the CPU time of the server's processes can be read:
// in this machine's /proc, where the keeper's backend and its postmaster are
// found there; else through the server, where the role may read files and the
// server's system has a /proc; else not at all. started and postmaster are
// when the two began, in seconds since 1970.
func (a *Attached) findCPU(ctx context.Context, backend int, started, postmaster float64) {
	if pid, ok := postmasterOf(backend, started, postmaster); ok {
		a.postmaster = pid
		return
	}
	conn, err := pgconn.ConnectConfig(ctx, a.quietConfig())
	if err != nil {
		a.cpuReason = "a session to read it through can't be opened: " + pgMessage(err)
		return
	}
	// /proc must be that of the server's own PID namespace: in a container it
	// may be the host's.
	rows, err := query(ctx, conn, `
SELECT split_part(pg_catalog.pg_read_file('/proc/self/stat', 0, 100), ' ', 1), pg_catalog.pg_backend_pid(),
       split_part(pg_catalog.pg_read_file('/proc/' || pg_catalog.pg_backend_pid() || '/schedstat', 0, 100), ' ', 2)`)
	switch {
	case denied(err):
		a.cpuReason = fmt.Sprintf("its backends are not this machine's processes, and role %s may not read the server's /proc (%s); it takes GRANT pg_read_server_files TO %s and GRANT EXECUTE ON FUNCTION pg_catalog.pg_read_file(text, bigint, bigint) TO %[3]s",
			a.role, pgMessage(err), quoteIdent(a.role))
	case err != nil:
		a.cpuReason = "its backends are not this machine's processes, and the server's system does not show it: " + pgMessage(err)
	case rows[0][0] != rows[0][1] || rows[0][2] == "":
		a.cpuReason = "its backends are not this machine's processes, and the /proc that the server sees is not its own"
	default:
		if _, err = conn.Prepare(ctx, cpuStatement, `
SELECT sum(split_part(t, ' ', 1)::int8), sum(split_part(t, ' ', 2)::int8)
  FROM unnest($1::int4[]) p, LATERAL pg_catalog.pg_read_file('/proc/' || p || '/schedstat', 0, 100) t`, nil); err == nil {
			a.cpu = conn
			return
		}
		a.cpuReason = "a statement to read it with can't be prepared: " + pgMessage(err)
	}
	closeConn(conn)
}

const cpuStatement = "pgtare_cpu"

// quietConfig is for sessions of pgtare's own that stay open.
func (a *Attached) quietConfig() *pgconn.Config {
	cfg := unlimited(a.Config())
	if majorOf(a.keeper) >= 14 {
		cfg.RuntimeParams["idle_session_timeout"] = "0"
	}
	if majorOf(a.keeper) >= 17 {
		cfg.RuntimeParams["transaction_timeout"] = "0"
	}
	return cfg
}

// BackendCPU returns the time that backends have run, and the time that they
// were ready to run and had to wait for a CPU, added up, as the server's kernel
// counts it for processes that sleep. It asks the server, which takes a
// round trip and some 50 us of a backend of its own: ask while nothing is
// measured.
//
// The kernel books the time of a process when it goes to sleep, to the
// nanosecond. A backend that has sent its last answer runs on for a few us
// until it waits for the next command, which is less than the question takes to
// arrive: the reading is as good as one in this machine's /proc.
func (a *Attached) BackendCPU(ctx context.Context, pids []int) (run, wait time.Duration, err error) {
	if a.cpu == nil {
		return 0, 0, fmt.Errorf("read the CPU time of backends of %s: %s", a.inst.Label, a.cpuReason)
	}
	var list strings.Builder
	for i, pid := range pids {
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(strconv.Itoa(pid))
	}
	a.cpuMu.Lock()
	defer a.cpuMu.Unlock()
	res := a.cpu.ExecPrepared(ctx, cpuStatement, [][]byte{[]byte("{" + list.String() + "}")}, nil, nil).Read()
	if res.Err != nil {
		return 0, 0, fmt.Errorf("read the CPU time of backends of %s: %w", a.inst.Label, res.Err)
	}
	r := res.Rows[0]
	return time.Duration(num(string(r[0]))), time.Duration(num(string(r[1]))), nil
}

// CPUSource says how [Attached.BackendCPU] or this machine's /proc gives the CPU
// time of backends; "" where nothing does, and reason says why.
func (a *Attached) CPUSource() (source, reason string) {
	switch {
	case a.postmaster != 0:
		return "proc", ""
	case a.cpu != nil:
		return "server", ""
	}
	return "", a.cpuReason
}

// CPU returns the CPU time of all processes of the server, as [Instance.CPU]
// does; only where they are this machine's ([Attached.LocalPID]).
func (a *Attached) CPU() (time.Duration, error) {
	if a.postmaster == 0 {
		return 0, fmt.Errorf("read the CPU time of %s: its processes are not this machine's", a.inst.Label)
	}
	total, err := familyCPU(a.postmaster, "")
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of %s: %w", a.inst.Label, err)
	}
	return total, nil
}

// postmasterOf finds the parent of PID backend, if both are postgres processes
// of this machine that began when the server says its backend and its
// postmaster did. A number alone would prove nothing: a server elsewhere, or in
// a PID namespace of its own, has the same ones. Two processes with the right
// names, kinship and times by chance are left out of account.
//
// The server notes its own start once its shared memory is made, which takes up
// to a minute where that is large.
func postmasterOf(backend int, started, postmaster float64) (pid int, ok bool) {
	b, ok := lookAt(backend)
	if !ok || !near(started-b.started, 0) {
		return 0, false
	}
	p, ok := lookAt(b.parent)
	if !ok || !near(postmaster-p.started, 60) {
		return 0, false
	}
	return b.parent, true
}

// near allows for two seconds: the kernel counts from boot in ticks, and the
// time of boot is kept in seconds.
func near(late, atMost float64) bool { return -2 < late && late < atMost+2 }

// process is what /proc says of one.
type process struct {
	parent  int
	started float64 // seconds since 1970
}

// lookAt reads a process of this machine; ok is false where there is none that
// is PostgreSQL's.
func lookAt(pid int) (p process, ok bool) {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil || !slices.Contains([]string{"postgres", "postmaster"}, strings.TrimSpace(string(comm))) {
		return p, false
	}
	boot, ok := bootTime()
	if !ok {
		return p, false
	}
	st, err := host.ReadStat(pid)
	return process{st.Parent, boot + st.Started.Seconds()}, err == nil
}

func bootTime() (float64, bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	for l := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(l, "btime "); ok {
			s, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			return s, err == nil
		}
	}
	return 0, false
}
