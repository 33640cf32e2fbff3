//go:build linux

package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"pgtare/matrix/server/servertest"
	"pgtare/workload/script"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// ofTest is what the tests that run over every engine use.
var ofTest struct {
	net       bool
	ringFrom  int
	encrypted *servertest.Server // nil: connections are plain
}

// everyEngine runs a test with epoll, with io_uring from the first client on,
// and with the engine net. TestOverTLS runs some of them with net over TLS.
func everyEngine(t *testing.T, test func(*testing.T)) {
	t.Run("epoll", func(t *testing.T) {
		ofTest.ringFrom = -1
		defer func() { ofTest.ringFrom = 0 }()
		test(t)
	})
	t.Run("io_uring", func(t *testing.T) {
		ofTest.ringFrom = 1
		defer func() { ofTest.ringFrom = 0 }()
		if engine(t, 1).Serves(1) != "wire/io_uring" {
			servertest.Lack(t, "this system has no io_uring for us")
		}
		test(t)
	})
	t.Run("net", func(t *testing.T) {
		ofTest.net = true
		defer func() { ofTest.net = false }()
		test(t)
	})
}

// newEngine makes the engine that the test runs over.
func newEngine(t testing.TB, threads int) Driver {
	t.Helper()
	if ofTest.net {
		return NewNet(NetConfig{Threads: threads})
	}
	w, err := NewWire(WireConfig{Threads: threads, RingFrom: ofTest.ringFrom})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// engine returns an engine that is closed when the test ends.
func engine(t testing.TB, threads int) Driver {
	t.Helper()
	w := newEngine(t, threads)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// server is what a test sends its load to.
type server interface {
	Config() *pgconn.Config // superuser
	PID() int
}

// sharedServer is the one of all tests that neither stop nor change it.
func sharedServer(t testing.TB) server {
	t.Helper()
	if ofTest.encrypted != nil {
		return ofTest.encrypted
	}
	return servertest.Start(t)
}

// freshServer is one of the test's own.
func freshServer(t testing.TB) server {
	t.Helper()
	if ofTest.encrypted != nil {
		s, _ := servertest.Encrypted(t)
		return s
	}
	return servertest.Fresh(t)
}

// open opens a generation that is closed when the test ends.
func open(t testing.TB, w Driver, spec GenerationSpec) Generation {
	t.Helper()
	g, err := w.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func slice(t testing.TB, g Generation, s Slice) Result {
	t.Helper()
	r, err := g.Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// admin is a connection beside the load.
type admin struct {
	t    testing.TB
	conn *pgconn.PgConn
}

func connectAdmin(t testing.TB, s server) admin {
	t.Helper()
	conn, err := pgconn.ConnectConfig(t.Context(), s.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return admin{t, conn}
}

// exec runs statements one by one.
func (a admin) exec(statements ...string) {
	a.t.Helper()
	for _, s := range statements {
		if _, err := a.conn.Exec(a.t.Context(), s).ReadAll(); err != nil {
			a.t.Fatalf("%s: %v", s, err)
		}
	}
}

// text returns the first column of the first row.
func (a admin) text(sql string) string {
	a.t.Helper()
	r := a.conn.ExecParams(a.t.Context(), sql, nil, nil, nil, nil).Read()
	if r.Err != nil {
		a.t.Fatalf("%s: %v", sql, r.Err)
	}
	if len(r.Rows) == 0 {
		return ""
	}
	return string(r.Rows[0][0])
}

func (a admin) number(sql string) int64 {
	a.t.Helper()
	n, err := strconv.ParseInt(a.text(sql), 10, 64)
	if err != nil {
		a.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// sequence makes a sequence for the test, and returns its name.
func (a admin) sequence(name string) string {
	a.t.Helper()
	a.exec("DROP SEQUENCE IF EXISTS "+name, "CREATE SEQUENCE "+name)
	a.t.Cleanup(func() { a.conn.Exec(context.Background(), "DROP SEQUENCE "+name).Close() })
	return name
}

// taken returns how many values of a sequence were taken.
func (a admin) taken(sequence string) int64 {
	a.t.Helper()
	return a.number("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM " + sequence)
}

func TestEveryTransactionIsSentAndCounted(t *testing.T) {
	everyEngine(t, testEveryTransactionIsSentAndCounted)
}

func testEveryTransactionIsSentAndCounted(t *testing.T) {
	s := sharedServer(t)
	a := connectAdmin(t, s)
	for _, threads := range []int{1, 2} {
		w := engine(t, threads)
		for _, clients := range []int{1, 2, 8, 64} {
			for _, protocol := range []Protocol{Simple, Extended, Prepared} {
				if clients == 64 && protocol != Simple {
					continue // connecting takes its time
				}
				t.Run(fmt.Sprintf("%d clients, %d threads, %s", clients, threads, protocol), func(t *testing.T) {
					a := admin{t, a.conn}
					first, second := a.sequence("wire_first"), a.sequence("wire_second")
					g := open(t, w, GenerationSpec{Config: s.Config(), Protocol: protocol, Clients: clients,
						Script: mustParse(t, fmt.Sprintf("SELECT nextval('%s'); SELECT nextval('%s');", first, second))})
					if pids := g.Backends(); len(pids) != clients || len(slices.Compact(slices.Sorted(slices.Values(pids)))) != clients {
						t.Errorf("backends %v, want %d different ones", pids, clients)
					}
					var all int64
					for _, slice := range []Slice{
						{Head: 3, Length: 20 * time.Millisecond},
						{Length: 5 * time.Millisecond},
						{Head: 2, Length: 10 * time.Millisecond, PerClient: true},
						{Head: 2, Count: 7},
						{Count: 4, PerClient: true},
					} {
						h := hdrhistogram.New(1, int64(time.Hour), 3)
						slice.Histogram = h
						started := time.Now()
						r, err := g.Run(t.Context(), slice)
						took := time.Since(started)
						if err != nil {
							t.Fatal(err)
						}
						all += r.All
						checkSlice(t, slice, clients, threads, r, took)
						if h.TotalCount() != r.N {
							t.Errorf("%+v: %d latencies in the histogram, want %d", slice, h.TotalCount(), r.N)
						}
						if n := a.taken(first); n != all {
							t.Errorf("%+v: the server has executed %d transactions, the slices say %d", slice, n, all)
						}
						if n := a.taken(second); n != all {
							t.Errorf("%+v: the server has executed the second command %d times, the slices say %d", slice, n, all)
						}
						// Nothing is in flight, and no SQL transaction is open.
						if n := a.number(fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid IN (%s) AND state <> 'idle'", list(g.Backends()))); n != 0 {
							t.Errorf("%+v: %d sessions are not idle after the slice", slice, n)
						}
					}
				})
			}
		}
	}
}

// checkSlice holds a result against what driver.go promises.
func checkSlice(t *testing.T, s Slice, clients, threads int, r Result, took time.Duration) {
	t.Helper()
	s.Histogram = nil
	n := int64(clients)
	if r.Failures != nil {
		t.Errorf("%+v: failures %v", s, r.Failures)
	}
	if least := int64(s.Head) * n; r.All < r.N+least {
		t.Errorf("%+v: N %d, All %d, want at least N and %d of the head", s, r.N, r.All, least)
	}
	if r.Head < 0 || r.Head > took || s.Head > 0 && r.Head == 0 {
		t.Errorf("%+v: a head of %v in a slice of %v", s, r.Head, took)
	}
	switch {
	case s.Count > 0:
		if want := int64(s.Count) * n; r.N != want {
			t.Errorf("%+v: N %d, want %d", s, r.N, want)
		}
		if clients == 1 && r.All != int64(s.Head+s.Count) {
			t.Errorf("%+v: All %d, want %d", s, r.All, s.Head+s.Count)
		}
	case clients == 1:
		if r.T < s.Length || r.All != int64(s.Head)+r.N {
			t.Errorf("%+v: T %v, N %d, All %d", s, r.T, r.N, r.All)
		}
	case s.PerClient:
		if r.T < time.Duration(clients)*s.Length || r.N < n {
			t.Errorf("%+v: T %v, N %d", s, r.T, r.N)
		}
	default:
		// It ends with the first completion at or after the deadline.
		if r.T < time.Duration(clients)*s.Length || r.T%time.Duration(clients) != 0 || r.N < 1 {
			t.Errorf("%+v: T %v, N %d, want %d equal windows that end with a completion", s, r.T, r.N, clients)
		}
	}
	if r.T <= 0 || r.T > time.Duration(clients)*took {
		t.Errorf("%+v: T %v in a slice of %v", s, r.T, took)
	}
	most := time.Duration(threads) * took
	if ofTest.net {
		most += 5 * time.Millisecond // the rest of the process
	}
	if r.ClientCPU <= 0 || r.ClientCPU > most {
		t.Errorf("%+v: client CPU %v in a slice of %v", s, r.ClientCPU, took)
	}
	if r.ClientWait < -1 || r.ClientWait > time.Duration(threads)*took {
		t.Errorf("%+v: client wait %v in a slice of %v", s, r.ClientWait, took)
	}
}

func list(pids []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(pids), " ", ","), "[]")
}

// With pg_sleep as the script, the figures are known beforehand.
func TestWindowsOfLongTransactions(t *testing.T) { everyEngine(t, testWindowsOfLongTransactions) }

func testWindowsOfLongTransactions(t *testing.T) {
	s := sharedServer(t)
	w := engine(t, 2)
	const sleep = 20 * time.Millisecond
	for _, c := range []struct {
		clients int
		slice   Slice
		n       int64 // at most
	}{
		{1, Slice{Length: time.Millisecond}, 1},
		{1, Slice{Head: 1, Length: 50 * time.Millisecond}, 3},
		{4, Slice{Length: time.Millisecond, PerClient: true}, 4},
		{4, Slice{Head: 1, Length: time.Millisecond, PerClient: true}, 4},
		{4, Slice{Head: 1, Length: 50 * time.Millisecond, PerClient: true}, 12},
		{4, Slice{Head: 1, Count: 2, PerClient: true}, 8},
	} {
		g := open(t, w, GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT pg_sleep(0.02)"), Protocol: Prepared, Clients: c.clients})
		var latencies = make([]int64, 0, 2)
		c.slice.Latencies = &latencies
		r := slice(t, g, c.slice)
		// A busy machine makes sleeps longer, and so windows hold fewer of them.
		mean := r.T / time.Duration(max(r.N, 1))
		if r.N < int64(c.clients) || r.N > c.n || mean < sleep {
			t.Errorf("%d clients, %+v: N %d, T %v, mean %v; want %d transactions of %v, or fewer that took longer", c.clients, c.slice, r.N, r.T, mean, c.n, sleep)
		}
		if len(latencies) == 0 || len(latencies) > 2 || latencies[0] < int64(sleep) {
			t.Errorf("%d clients, %+v: latencies %v of client 0", c.clients, c.slice, latencies)
		}
	}
}

// A window that all clients share holds the transactions that end in it,
// whichever client they are of, the one that ends it included.
func TestSharedWindowCountsCompletionsInside(t *testing.T) {
	everyEngine(t, testSharedWindowCountsCompletionsInside)
}

func testSharedWindowCountsCompletionsInside(t *testing.T) {
	s := sharedServer(t)
	g := open(t, engine(t, 1), GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT pg_sleep(0.005)"), Protocol: Simple, Clients: 4})
	r := slice(t, g, Slice{Head: 1, Length: 100 * time.Millisecond})
	if mean := r.T / time.Duration(r.N); mean < 5*time.Millisecond || mean > 15*time.Millisecond {
		t.Errorf("clients x window / N is %v, want something above 5 ms (N %d)", mean, r.N)
	}
	if r.All < r.N+4 || r.N < 4 {
		t.Errorf("All %d with N %d: want 4 transactions of the head at least", r.All, r.N)
	}
}

func TestSingleTransactionMode(t *testing.T) { everyEngine(t, testSingleTransactionMode) }

func testSingleTransactionMode(t *testing.T) {
	s := sharedServer(t)
	a := connectAdmin(t, s)
	for _, clients := range []int{1, 8} {
		for _, slice := range []Slice{
			{Head: 3, Length: 10 * time.Millisecond},
			{Length: 10 * time.Millisecond},
			{Length: 5 * time.Millisecond, PerClient: true},
			{Count: 5},
		} {
			t.Run(fmt.Sprintf("%d clients %+v", clients, slice), func(t *testing.T) {
				a := admin{t, a.conn}
				a.exec("DROP TABLE IF EXISTS wire_single", "CREATE TABLE wire_single (xid bigint, pid int)")
				defer a.exec("DROP TABLE wire_single")
				g := open(t, engine(t, 2), GenerationSpec{Config: s.Config(), Protocol: Extended, Clients: clients, SingleTransaction: true,
					Script: mustParse(t, "INSERT INTO wire_single SELECT txid_current(), pg_backend_pid()")})
				for i := range 2 {
					a.exec("TRUNCATE wire_single")
					r, err := g.Run(t.Context(), slice)
					if err != nil {
						t.Fatal(err)
					}
					if r.Begin <= 0 || r.Commit <= 0 {
						t.Errorf("slice %d: BEGIN took %v, COMMIT %v", i, r.Begin, r.Commit)
					}
					got := a.text("SELECT count(*) || ' rows of ' || count(DISTINCT xid) || ' transactions of ' || count(DISTINCT pid) || ' backends' FROM wire_single")
					if want := fmt.Sprintf("%d rows of %d transactions of %d backends", r.All, clients, clients); got != want {
						t.Errorf("slice %d: %s, want %s", i, got, want)
					}
					if n := a.number(fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid IN (%s) AND state = 'idle'", list(g.Backends()))); n != int64(clients) {
						t.Errorf("slice %d: %d sessions are idle, want %d", i, n, clients)
					}
				}
			})
		}
	}
}

// Scripts that fail do so as data, and the sessions can be used afterwards.
func TestFailuresAreCounted(t *testing.T) { everyEngine(t, testFailuresAreCounted) }

func testFailuresAreCounted(t *testing.T) {
	s := sharedServer(t)
	a := connectAdmin(t, s)
	seq := a.sequence("wire_failures")
	for _, c := range []struct {
		name     string
		script   string
		single   bool
		state    string
		share    float64 // of the transactions that fail
		prepared bool    // only this protocol
		simple   bool
	}{
		{name: "no failure", script: "SELECT 1"},
		{name: "error", script: "SELECT 1/0", state: "22012", share: 1},
		{name: "error in a third", script: "SELECT 1 / (nextval('" + seq + "') % 3)", state: "22012", share: 1. / 3},
		{name: "error in a third, single", script: "SELECT 1 / (nextval('" + seq + "') % 3)", single: true, state: "22012", share: 1. / 3},
		{name: "error ends the transaction", script: "SELECT 1/0; SELECT nextval('" + seq + "') / 0", state: "22012", share: 1},
		{name: "error in the script's own block", script: "BEGIN; SELECT 1/0; END;", state: "22012", share: 1},
		{name: "syntax", script: "SELEKT", state: "42601", share: 1},
		{name: "syntax, single", script: "SELEKT", single: true, state: "42601", share: 1},
		{name: "no such table", script: "SELECT * FROM wire_nowhere", state: "42P01", share: 1},
		{name: "block left open", script: "BEGIN", state: StateOpenTransaction, share: 1},
		{name: "block left open, later", script: "SELECT 1; BEGIN; SELECT 2", state: StateOpenTransaction, share: 1},
		{name: "block of single mode ended", script: "COMMIT", single: true, state: StateOpenTransaction, share: 1},
		{name: "block with an end", script: "BEGIN; SELECT 1; END;"},
		{name: "COPY out", script: "COPY (SELECT generate_series(1, 20000)) TO STDOUT", state: StateCopy, share: 1},
		{name: "COPY out, single", script: "COPY (SELECT 1) TO STDOUT", single: true, state: StateCopy, share: 1},
		{name: "COPY in of nothing", script: "COPY wire_nowhere FROM STDIN", state: "42P01", share: 1},
		{name: "COPY in of a table", script: "COPY pg_description FROM STDIN", state: StateCopy, share: 1},
		{name: "COPY in, single", script: "COPY pg_description FROM STDIN", single: true, state: StateCopy, share: 1},
		{name: "COPY in in a combined command", script: `SELECT 1\; COPY pg_description FROM STDIN\; SELECT 2;`, state: StateCopy, share: 1, simple: true},
		{name: "combined command", script: `SELECT 1\; SELECT 2;`, state: "42601", share: 1, prepared: true},
		{name: "notices and parameters", script: "DO $$BEGIN RAISE NOTICE 'x'; END$$; SET application_name = 'a'; SET application_name = 'b'; LISTEN l; NOTIFY l;"},
		{name: "no rows, no statement", script: "; SELECT WHERE false; /* nothing */;"},
		{name: "much in answer", script: "SELECT repeat('x', 300000) FROM generate_series(1, 3)"},
		{name: "many rows", script: "SELECT g, 'abc' FROM generate_series(1, 30000) g"},
	} {
		for _, protocol := range []Protocol{Simple, Extended, Prepared} {
			if c.prepared && protocol != Prepared || c.simple && protocol != Simple {
				continue
			}
			for _, clients := range []int{1, 3} {
				// Each protocol once is enough, and Extended is between the others.
				if clients > 1 != (protocol == Prepared) || protocol == Extended && !strings.HasPrefix(c.name, "COPY") {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, %d clients", c.name, protocol, clients), func(t *testing.T) {
					a := admin{t, a.conn}
					g := open(t, engine(t, 1), GenerationSpec{Config: s.Config(), Script: mustParse(t, c.script), Protocol: protocol, Clients: clients, SingleTransaction: c.single})
					for range 2 {
						r := slice(t, g, Slice{Count: 6})
						failed := r.Failures[c.state]
						if c.state == "" && r.Failures != nil || c.state != "" && len(r.Failures) != 1 || math.Abs(float64(failed)-c.share*float64(r.All)) >= 1 {
							t.Errorf("failures %v of %d transactions; want a share of %.2f with SQLSTATE %q", r.Failures, r.All, c.share, c.state)
						}
						// With BEGIN in it, there is a head, in which clients go on until
						// all are past it.
						head := r.All - int64(6*clients)
						if r.N+failed > r.All || r.N+failed < r.All-head || head < 0 || head > 0 && (!c.single || clients == 1) || r.T <= 0 {
							t.Errorf("N %d, failed %d, All %d, T %v", r.N, failed, r.All, r.T)
						}
						if n := a.number(fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid IN (%s) AND state = 'idle'", list(g.Backends()))); n != int64(clients) {
							t.Errorf("%d sessions are idle after the slice, want %d", n, clients)
						}
					}
				})
			}
		}
	}
}

// A statement time-out may hit any statement, the engine's own BEGIN, COMMIT
// and ROLLBACK included, where a backend is held up; it is counted, and no
// session is left inside an SQL transaction.
func TestTimeOutsAnywhere(t *testing.T) { everyEngine(t, testTimeOutsAnywhere) }

func testTimeOutsAnywhere(t *testing.T) {
	s := sharedServer(t)
	a := connectAdmin(t, s)
	for _, single := range []bool{false, true} {
		config := s.Config()
		config.RuntimeParams["statement_timeout"] = "1"
		text, count := "SELECT 1", 1
		if !single {
			text, count = "BEGIN; SELECT 1; END", 50
		}
		g := open(t, engine(t, 1), GenerationSpec{Config: config, Script: mustParse(t, text), Protocol: Simple, Clients: 2, SingleTransaction: single})
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(i%7) * 100 * time.Microsecond):
				}
				pid := g.Backends()[i%2]
				signal(t, pid, syscall.SIGSTOP)
				time.Sleep(2 * time.Millisecond)
				signal(t, pid, syscall.SIGCONT)
			}
		}()
		failures := int64(0)
		for i, started := 0, time.Now(); failures < 10 && time.Since(started) < 10*time.Second; i++ {
			r, err := g.Run(t.Context(), Slice{Count: count})
			if err != nil {
				t.Error(err)
				break
			}
			for state, n := range r.Failures {
				if failures += n; state != "57014" {
					t.Errorf("%d failures with SQLSTATE %s, want 57014 (query_canceled) only", n, state)
				}
			}
			if i%20 != 0 {
				continue
			}
			if n := a.number(fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid IN (%s) AND state IN ('idle in transaction', 'idle in transaction (aborted)')", list(g.Backends()))); n != 0 {
				t.Errorf("%d sessions are inside an SQL transaction", n)
			}
		}
		close(stop)
		<-stopped
		if failures < 10 {
			t.Errorf("%d time-outs were met, too few to prove anything", failures)
		}
	}
}

// The time of failed transactions is part of T, and not in the histogram.
func TestFailedTransactionsTakeTime(t *testing.T) { everyEngine(t, testFailedTransactionsTakeTime) }

func testFailedTransactionsTakeTime(t *testing.T) {
	s := sharedServer(t)
	g := open(t, engine(t, 1), GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT pg_sleep(0.01); SELECT 1/0"), Protocol: Simple, Clients: 1})
	h := hdrhistogram.New(1, int64(time.Hour), 3)
	r := slice(t, g, Slice{Count: 3, Histogram: h})
	if r.N != 0 || h.TotalCount() != 0 || r.T < 30*time.Millisecond || r.Failures["22012"] != 3 {
		t.Errorf("N %d, %d latencies, T %v, failures %v; want none, none, 30 ms and 3", r.N, h.TotalCount(), r.T, r.Failures)
	}
}

// A COMMIT may fail too: a deferred constraint.
func TestFailingCommit(t *testing.T) { everyEngine(t, testFailingCommit) }

func testFailingCommit(t *testing.T) {
	s := sharedServer(t)
	a := connectAdmin(t, s)
	a.exec("DROP TABLE IF EXISTS wire_deferred", "CREATE TABLE wire_deferred (i int PRIMARY KEY REFERENCES wire_deferred DEFERRABLE INITIALLY DEFERRED, j int)",
		"ALTER TABLE wire_deferred ADD FOREIGN KEY (j) REFERENCES wire_deferred DEFERRABLE INITIALLY DEFERRED")
	defer a.exec("DROP TABLE wire_deferred")
	g := open(t, engine(t, 1), GenerationSpec{Config: s.Config(), Script: mustParse(t, "INSERT INTO wire_deferred SELECT coalesce(max(i), 0) + 1, -1 FROM wire_deferred"), Protocol: Simple, Clients: 1, SingleTransaction: true})
	r := slice(t, g, Slice{Count: 3})
	if r.N != 3 || r.Failures["23503"] != 1 {
		t.Errorf("N %d, failures %v; want 3 transactions and one failed COMMIT", r.N, r.Failures)
	}
	if n := a.number("SELECT count(*) FROM wire_deferred"); n != 0 {
		t.Errorf("%d rows are there after the failed COMMIT", n)
	}
}

func TestVariables(t *testing.T) { everyEngine(t, testVariables) }

func testVariables(t *testing.T) {
	s := sharedServer(t)
	a := connectAdmin(t, s)
	for _, protocol := range []Protocol{Simple, Extended, Prepared} {
		a.exec("DROP TABLE IF EXISTS wire_vars", "CREATE TABLE wire_vars (i int, t text, n text)")
		undefined := ":nowhere"
		if protocol == Simple {
			undefined = "NULL" // there, an undefined reference would be left as it is
		}
		g := open(t, engine(t, 1), GenerationSpec{Config: s.Config(), Protocol: protocol, Clients: 2, Vars: map[string]string{"i": "42", "name": "quoted"},
			Script: mustParse(t, "INSERT INTO wire_vars VALUES (:i::int + :i, 'x' || "+map[Protocol]string{Simple: "':name'"}[protocol]+map[Protocol]string{Extended: ":name", Prepared: ":name"}[protocol]+", "+undefined+")")})
		r := slice(t, g, Slice{Count: 2})
		if r.Failures != nil {
			t.Errorf("%s: failures %v", protocol, r.Failures)
		}
		if got := a.text("SELECT count(*) || ' ' || min(i) || ' ' || max(i) || ' ' || min(t) || ' ' || count(n) FROM wire_vars"); got != "4 84 84 xquoted 0" {
			t.Errorf("%s: the rows are %q", protocol, got)
		}
	}
	a.exec("DROP TABLE wire_vars")
}

// Statements are prepared right before their first use, so that they may speak
// of what the script has made, and once per connection.
func TestPreparedStatements(t *testing.T) { everyEngine(t, testPreparedStatements) }

func testPreparedStatements(t *testing.T) {
	s := sharedServer(t)
	text := "CREATE TEMP TABLE IF NOT EXISTS wire_temp (n int); SELECT count(*) FROM wire_temp; INSERT INTO wire_temp SELECT count(*) FROM pg_prepared_statements WHERE NOT from_sql;" +
		"SELECT 1 / (SELECT count(*) FROM wire_temp WHERE n = 3 OR n = 4);"
	g := open(t, engine(t, 1), GenerationSpec{Config: s.Config(), Script: mustParse(t, text), Protocol: Prepared, Clients: 1})
	if r := slice(t, g, Slice{Count: 5}); r.Failures != nil {
		t.Errorf("failures %v: the third command should have seen 3 and then 4 prepared statements", r.Failures)
	}

	// A statement that fails when it runs stays prepared; one that fails to be
	// prepared is tried again.
	a := connectAdmin(t, s)
	a.exec("DROP TABLE IF EXISTS wire_later")
	g = open(t, engine(t, 1), GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT 1 / count(*) FROM wire_later"), Protocol: Prepared, Clients: 1})
	for _, step := range []struct{ before, state string }{
		{"SELECT 1", "42P01"},
		{"CREATE TABLE wire_later (i int)", "22012"},
		{"SELECT 1", "22012"},
		{"INSERT INTO wire_later VALUES (1)", ""},
	} {
		a.exec(step.before)
		r := slice(t, g, Slice{Count: 2})
		if step.state == "" && r.Failures != nil || step.state != "" && r.Failures[step.state] != 2 {
			t.Errorf("after %s: failures %v, want %q", step.before, r.Failures, step.state)
		}
	}
	a.exec("DROP TABLE wire_later")
}

// A command that is larger than the socket's buffers goes out in parts.
func TestLargeCommand(t *testing.T) { everyEngine(t, testLargeCommand) }

func testLargeCommand(t *testing.T) {
	s := sharedServer(t)
	for _, clients := range []int{1, 4} {
		for _, protocol := range []Protocol{Simple, Prepared} {
			g := open(t, engine(t, 1), GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT length('"+strings.Repeat("x", 3<<20)+"')"), Protocol: protocol, Clients: clients})
			if r := slice(t, g, Slice{Count: 3}); r.Failures != nil || r.N != int64(3*clients) {
				t.Errorf("%d clients, %s: N %d, failures %v", clients, protocol, r.N, r.Failures)
			}
		}
	}
}

func TestBuiltinScripts(t *testing.T) { everyEngine(t, testBuiltinScripts) }

func testBuiltinScripts(t *testing.T) {
	s := sharedServer(t)
	a := connectAdmin(t, s)
	for _, b := range Builtins() {
		const table = `wire_builtin."Cell 1"`
		a.exec("DROP SCHEMA IF EXISTS wire_builtin CASCADE", "CREATE SCHEMA wire_builtin")
		a.exec(b.Setup(table)...)
		g := open(t, engine(t, 1), GenerationSpec{Config: s.Config(), Script: mustParse(t, b.Script(table)), Protocol: Prepared, Clients: 2})
		r := slice(t, g, Slice{Head: 1, Count: 10})
		if r.Failures != nil || r.N != 20 {
			t.Errorf("%s: N %d, failures %v", b.Name, r.N, r.Failures)
		}
		if made := b.Setup(table) != nil; made != b.Writes {
			t.Errorf("%s: it says that it writes: %v, and has a table: %v", b.Name, b.Writes, made)
		} else if made {
			if n := a.number("SELECT count(*) FROM " + table); n != r.All {
				t.Errorf("%s: %d rows after %d transactions", b.Name, n, r.All)
			}
		}
		a.exec("DROP SCHEMA wire_builtin CASCADE")
	}
}

// Generations of many cells are open at once, and slices go from one to the
// next on the same threads.
func TestManyGenerations(t *testing.T) { everyEngine(t, testManyGenerations) }

func testManyGenerations(t *testing.T) {
	s := sharedServer(t)
	a := connectAdmin(t, s)
	w := engine(t, 2)
	var gs []Generation
	var sequences []string
	all := make([]int64, 8)
	for i := range all {
		sequences = append(sequences, a.sequence(fmt.Sprintf("wire_many_%d", i)))
		gs = append(gs, open(t, w, GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT nextval('"+sequences[i]+"')"), Protocol: Prepared, Clients: 1 + i%4, SingleTransaction: i%2 == 0}))
	}
	for round := range 10 {
		for k := range gs {
			i := (k*3 + round) % len(gs)
			all[i] += slice(t, gs[i], Slice{Head: 2, Length: time.Millisecond}).All
		}
		if round == 5 {
			// News on sessions that are idle: they must not be taken for answers.
			a.exec("ALTER SYSTEM SET timezone = 'Asia/Tokyo'", "SELECT pg_reload_conf()")
			time.Sleep(50 * time.Millisecond)
		}
	}
	a.exec("ALTER SYSTEM RESET timezone", "SELECT pg_reload_conf()")
	var pids []int
	for i, g := range gs {
		pids = append(pids, g.Backends()...)
		if n := a.taken(sequences[i]); n != all[i] {
			t.Errorf("generation %d: the server has executed %d transactions, the slices say %d", i, n, all[i])
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	// Close has waited for the backends.
	if n := a.number("SELECT count(*) FROM pg_stat_activity WHERE pid IN (" + list(pids) + ")"); n != 0 {
		t.Errorf("%d sessions are there after Close", n)
	}
}

func TestNoAllocationPerTransaction(t *testing.T) { everyEngine(t, testNoAllocationPerTransaction) }

func testNoAllocationPerTransaction(t *testing.T) {
	s := sharedServer(t)
	own := 0.
	if ofTest.encrypted != nil {
		own = allocationsOfTLS(t, s)
	}
	for _, clients := range []int{1, 8} {
		for _, protocol := range []Protocol{Simple, Extended, Prepared} {
			g := open(t, engine(t, 1), GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT :n; SELECT 2"), Vars: map[string]string{"n": "1"}, Protocol: protocol, Clients: clients})
			h := hdrhistogram.New(1, int64(time.Hour), 3)
			allocations := func(count int) int64 {
				return allocationsOf(func() { slice(t, g, Slice{Count: count, Histogram: h}) })
			}
			allocations(10)
			few, many := allocations(10), allocations(400)
			const commands = 2 * 390
			extra := many - few - int64(own*float64(commands*clients))
			// The runtime itself allocates now and then, and crypto/tls not quite as
			// often as a bare exchange does; one per transaction would be half of
			// the commands.
			limit := int64(50)
			if own > 0 {
				limit += commands * int64(clients) / 20
			}
			if extra > limit {
				t.Errorf("%d clients, %s: %d allocations more in %d commands more", clients, protocol, extra, commands*clients)
			}
		}
	}
}

func allocationsOf(what func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	what()
	runtime.ReadMemStats(&after)
	return int64(after.Mallocs - before.Mallocs)
}

// allocationsOfTLS is how many a bare exchange over a TLS connection takes.
func allocationsOfTLS(t *testing.T, s server) float64 {
	t.Helper()
	conn, err := pgconn.ConnectConfig(t.Context(), s.Config())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SyncConn(t.Context()); err != nil {
		t.Fatal(err)
	}
	hijacked, err := conn.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	defer hijacked.Conn.Close()
	command, buf := query("SELECT 1"), make([]byte, 4096)
	const times = 400
	return float64(allocationsOf(func() {
		for range times {
			if _, err := hijacked.Conn.Write(command); err != nil {
				t.Fatal(err)
			}
			for ready := false; !ready; {
				n, err := hijacked.Conn.Read(buf)
				if err != nil {
					t.Fatal(err)
				}
				ready = n > 5 && buf[n-6] == 'Z' // ReadyForQuery has six bytes
			}
		}
	})) / times
}

// A thread that waits in a raw system call must not hold the world up.
func TestGarbageCollectionDuringSlice(t *testing.T) { everyEngine(t, testGarbageCollectionDuringSlice) }

func testGarbageCollectionDuringSlice(t *testing.T) {
	s := sharedServer(t)
	g := open(t, engine(t, 2), GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT pg_sleep(0.5)"), Protocol: Simple, Clients: 2})
	done := make(chan error)
	go func() {
		_, err := g.Run(t.Context(), Slice{Count: 1})
		done <- err
	}()
	time.Sleep(50 * time.Millisecond)
	collected := 0
	for started := time.Now(); time.Since(started) < 300*time.Millisecond; collected++ {
		runtime.GC()
	}
	// A world that waits for the answer would allow one collection.
	if collected < 5 {
		t.Errorf("%d garbage collections in 300 ms", collected)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestThreadsArePinned(t *testing.T) {
	s := sharedServer(t)
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	if allowed.Count() < 2 {
		servertest.Lack(t, "only one CPU may be used here: there is nothing to tell pinned threads by")
	}
	cpu := 0
	for !allowed.IsSet(cpu) {
		cpu++
	}
	procs := runtime.GOMAXPROCS(0)
	w, err := NewWire(WireConfig{Threads: 2, CPUs: []int{cpu}})
	if err != nil {
		t.Fatal(err)
	}
	if n := threadsOn(t, cpu); n != 2 {
		t.Errorf("%d threads are pinned, want 2", n)
	}
	if n := runtime.GOMAXPROCS(0); n != procs+2 {
		t.Errorf("GOMAXPROCS is %d, was %d", n, procs)
	}
	g, err := w.Open(t.Context(), GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT 1"), Protocol: Simple, Clients: 2})
	if err != nil {
		t.Fatal(err)
	}
	slice(t, g, Slice{Count: 5})
	g.Close()
	w.Close()
	if n := threadsOn(t, cpu); n != 0 {
		t.Errorf("%d threads are pinned after Close", n)
	}
	if n := runtime.GOMAXPROCS(0); n != procs {
		t.Errorf("GOMAXPROCS is %d after Close, was %d", n, procs)
	}
	if _, err := NewWire(WireConfig{CPUs: []int{1000}}); err == nil {
		t.Error("a CPU that does not exist was taken")
	}
}

// threadsOn counts the threads that may run on that CPU only. A thread needs a
// moment to end.
func threadsOn(t *testing.T, cpu int) int {
	t.Helper()
	time.Sleep(20 * time.Millisecond)
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name())
		var set unix.CPUSet
		if unix.SchedGetaffinity(tid, &set) == nil && set.Count() == 1 && set.IsSet(cpu) {
			n++
		}
	}
	return n
}

// descriptors counts the open ones of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

func TestNothingIsLeft(t *testing.T) { everyEngine(t, testNothingIsLeft) }

func testNothingIsLeft(t *testing.T) {
	s := sharedServer(t)
	a := connectAdmin(t, s)
	goroutines := goleak.IgnoreCurrent()
	before := descriptors(t)
	bad := s.Config()
	bad.Database = "wire_nowhere"
	refused := errors.New("refused")
	for range 3 {
		w := newEngine(t, 2)
		spec := GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT 1"), Protocol: Simple, Clients: 5}
		g, err := w.Open(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		slice(t, g, Slice{Count: 5})

		// What fails to open leaves nothing either.
		var pg *pgconn.PgError
		wrong := spec
		wrong.Config = bad
		if _, err := w.Open(t.Context(), wrong); !errors.As(err, &pg) || pg.Code != "3D000" {
			t.Errorf("a database that does not exist: %v", err)
		}
		wrong = spec
		calls := 0
		wrong.OnConnect = func(context.Context, *pgconn.PgConn) error {
			if calls++; calls == 3 {
				return refused
			}
			return nil
		}
		if _, err := w.Open(t.Context(), wrong); !errors.Is(err, refused) || !strings.Contains(err.Error(), "client 2") {
			t.Errorf("a hook that refuses the third connection: %v", err)
		}
		wrong.OnConnect = func(ctx context.Context, c *pgconn.PgConn) error { return c.Exec(ctx, "BEGIN").Close() }
		if _, err := w.Open(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "inside an SQL transaction") {
			t.Errorf("a hook that leaves an SQL transaction open: %v", err)
		}
		many := spec
		many.Script = mustParse(t, "SELECT "+strings.Repeat(":a,", script.MaxPlaceholders)+":a")
		many.Protocol = Prepared
		if _, err := w.Open(t.Context(), many); err == nil || !strings.Contains(err.Error(), "use the simple protocol") {
			t.Errorf("too many references: %v", err)
		}

		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	// Nobody waits for the end of sessions that were never opened to the end.
	for wait := 0; ; wait++ {
		n := a.number("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
		if n == 0 {
			break
		}
		if wait == 100 {
			t.Errorf("%d sessions are left", n)
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, were %d", after, before)
	}
	goleak.VerifyNone(t, goroutines)
}

func TestTooManyConnections(t *testing.T) { everyEngine(t, testTooManyConnections) }

func testTooManyConnections(t *testing.T) {
	s := sharedServer(t)
	before := descriptors(t)
	limit := connectAdmin(t, s).number("SHOW max_connections")
	w := engine(t, 1)
	var pg *pgconn.PgError
	_, err := w.Open(t.Context(), GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT 1"), Protocol: Simple, Clients: int(limit) + 1})
	if !errors.As(err, &pg) || pg.Code != "53300" {
		t.Errorf("%d clients: %v, want SQLSTATE 53300", limit+1, err)
	}
	if after := descriptors(t); after > before+3 { // the admin's and the thread's own
		t.Errorf("%d descriptors are open, were %d", after, before)
	}
}

func TestCancelledSliceEndsAtOnce(t *testing.T) { everyEngine(t, testCancelledSliceEndsAtOnce) }

func testCancelledSliceEndsAtOnce(t *testing.T) {
	s := sharedServer(t)
	a := connectAdmin(t, s)
	for _, text := range []string{"SELECT pg_sleep(60)", "SELECT 1", "SELECT g FROM generate_series(1, 100000000) g"} {
		for _, clients := range []int{1, 3} {
			w := engine(t, 2)
			g, err := w.Open(t.Context(), GenerationSpec{Config: s.Config(), Script: mustParse(t, text), Protocol: Simple, Clients: clients})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			started := time.Now()
			_, err = g.Run(ctx, Slice{Head: 1, Length: time.Minute, Grace: time.Minute})
			if took := time.Since(started); !errors.Is(err, context.Canceled) || took > time.Second {
				t.Errorf("%s: %v after %v, want context.Canceled after 100 ms", text, err, took)
			}
			if _, again := g.Run(t.Context(), Slice{Count: 1}); !errors.Is(again, context.Canceled) {
				t.Errorf("%s: a slice after that gives %v", text, again)
			}
			pids := list(g.Backends())
			if err := g.Close(); err != nil {
				t.Error(err)
			}
			if n := a.number("SELECT count(*) FROM pg_stat_activity WHERE pid IN (" + pids + ")"); n != 0 {
				t.Errorf("%s: %d statements run on after Close", text, n)
			}
		}
	}
}

// during runs a slice, and does something to the server 100 ms later.
func during(t *testing.T, g Generation, s Slice, what func()) (time.Duration, error) {
	t.Helper()
	at := make(chan struct{})
	time.AfterFunc(100*time.Millisecond, func() { what(); close(at) })
	started := time.Now()
	_, err := g.Run(t.Context(), s)
	took := time.Since(started)
	<-at
	return took, err
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	if err := syscall.Kill(pid, s); err != nil {
		t.Errorf("send %v to %d: %v", s, pid, err)
	}
}

func TestLostServer(t *testing.T) { everyEngine(t, testLostServer) }

func testLostServer(t *testing.T) {
	for _, c := range []struct {
		name    string
		fresh   bool
		clients int
		script  string
		do      func(t *testing.T, s server, g Generation)
		state   string
		message string
	}{
		{"one session terminated", false, 1, "SELECT 1", terminate, "57P01", "FATAL: terminating connection due to administrator command"},
		{"one of eight terminated", false, 8, "SELECT 1", terminate, "57P01", "FATAL: terminating connection due to administrator command"},
		{"terminated while it waits", false, 2, "SELECT pg_sleep(60)", terminate, "57P01", "FATAL: terminating connection due to administrator command"},
		{"a backend killed", true, 1, "SELECT pg_sleep(60)", killBackend, "", "the server closed it without a word"},
		{"everything killed", true, 4, "SELECT 1", killAll, "", ""},
		{"stopped at once", true, 4, "SELECT 1", func(t *testing.T, s server, g Generation) { signal(t, s.PID(), syscall.SIGQUIT) }, "57P01", "terminating connection"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sharedServer(t)
			if c.fresh {
				s = freshServer(t)
			}
			before := descriptors(t)
			w := engine(t, 2)
			g, err := w.Open(t.Context(), GenerationSpec{Config: s.Config(), Script: mustParse(t, c.script), Protocol: Prepared, Clients: c.clients})
			if err != nil {
				t.Fatal(err)
			}
			took, err := during(t, g, Slice{Head: 1, Length: time.Minute}, func() { c.do(t, s, g) })
			var lost *LostError
			if !errors.As(err, &lost) || took > 5*time.Second {
				t.Fatalf("%v after %v, want a LostError at once", err, took)
			}
			// In an immediate shutdown a backend's last words may be lost with its
			// socket, so that silence is right there, too.
			silent := c.name == "stopped at once" && lost.SQLState == "" && strings.Contains(lost.Error(), "without a word")
			if !silent && (c.state != lost.SQLState && c.name != "everything killed" || !strings.Contains(lost.Error(), c.message)) {
				t.Errorf("%v (%+v), want SQLSTATE %q and %q", err, lost, c.state, c.message)
			}
			if lost.Client < 0 || lost.Client >= c.clients {
				t.Errorf("client %d of %d is lost", lost.Client, c.clients)
			}
			if _, err := g.Run(t.Context(), Slice{Count: 1}); !errors.As(err, &lost) {
				t.Errorf("a slice after that gives %v", err)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
			w.Close()
			if after := descriptors(t); after > before {
				t.Errorf("%d descriptors are open, were %d", after, before)
			}
		})
	}
}

func terminate(t *testing.T, s server, g Generation) {
	pids := g.Backends()
	a := connectAdmin(t, s)
	a.exec(fmt.Sprintf("SELECT pg_terminate_backend(%d)", pids[len(pids)-1]))
	a.conn.Close(t.Context())
}

func killBackend(t *testing.T, s server, g Generation) {
	signal(t, g.Backends()[0], syscall.SIGKILL)
}

func killAll(t *testing.T, s server, g Generation) {
	signal(t, s.PID(), syscall.SIGKILL)
	for _, pid := range g.Backends() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // some may have gone with their postmaster
	}
}

// A session that ends between two slices is noticed in the next one, with the
// server's words.
func TestSessionEndedBetweenSlices(t *testing.T) { everyEngine(t, testSessionEndedBetweenSlices) }

func testSessionEndedBetweenSlices(t *testing.T) {
	s := sharedServer(t)
	for _, clients := range []int{1, 3} {
		g := open(t, engine(t, 1), GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT 1"), Protocol: Simple, Clients: clients})
		slice(t, g, Slice{Count: 3})
		terminate(t, s, g)
		time.Sleep(50 * time.Millisecond)
		_, err := g.Run(t.Context(), Slice{Count: 3})
		var lost *LostError
		if !errors.As(err, &lost) || lost.SQLState != "57P01" || lost.Client != clients-1 {
			t.Errorf("%d clients: %v, want SQLSTATE 57P01 of the last client", clients, err)
		}
	}
}

func TestStoppedServer(t *testing.T) { everyEngine(t, testStoppedServer) }

func testStoppedServer(t *testing.T) {
	s := sharedServer(t)
	for _, c := range []struct {
		name    string
		clients int
		single  bool
		slice   Slice
	}{
		{"window", 1, false, Slice{Head: 1, Length: 200 * time.Millisecond}},
		{"window of several", 4, false, Slice{Head: 1, Length: 200 * time.Millisecond}},
		{"own windows", 4, true, Slice{Head: 1, Length: 200 * time.Millisecond, PerClient: true}},
		{"head", 2, false, Slice{Head: 1 << 40, Length: 50 * time.Millisecond}},
		{"number", 2, false, Slice{Count: 1 << 40}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := engine(t, 1)
			g, err := w.Open(t.Context(), GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT 1"), Protocol: Simple, Clients: c.clients, SingleTransaction: c.single})
			if err != nil {
				t.Fatal(err)
			}
			pid := g.Backends()[c.clients-1]
			defer syscall.Kill(pid, syscall.SIGCONT)
			c.slice.Grace = 300 * time.Millisecond
			took, err := during(t, g, c.slice, func() { signal(t, pid, syscall.SIGSTOP) })
			if !errors.Is(err, ErrGrace) || took < 300*time.Millisecond || took > 3*time.Second {
				t.Errorf("%v after %v, want ErrGrace after the grace", err, took)
			}
			started := time.Now()
			if err := g.Close(); err != nil || time.Since(started) > 2*time.Second {
				t.Errorf("Close took %v: %v", time.Since(started), err)
			}
		})
	}
}

// A server that only seems to be gone, and answers within the grace, is no error.
func TestSlowAnswerWithinGrace(t *testing.T) { everyEngine(t, testSlowAnswerWithinGrace) }

func testSlowAnswerWithinGrace(t *testing.T) {
	s := sharedServer(t)
	for _, clients := range []int{1, 2} {
		g := open(t, engine(t, 1), GenerationSpec{Config: s.Config(), Script: mustParse(t, "SELECT pg_sleep(0.4)"), Protocol: Simple, Clients: clients})
		r := slice(t, g, Slice{Length: 20 * time.Millisecond, Grace: 5 * time.Second})
		if r.All != int64(clients) || clients == 1 && (r.N != 1 || r.T < 400*time.Millisecond) {
			t.Errorf("%d clients: N %d, All %d, T %v", clients, r.N, r.All, r.T)
		}
	}
}

func BenchmarkSelect1(b *testing.B) {
	s := servertest.Start(b)
	for _, net := range []bool{false, true} {
		for _, clients := range []int{1, 8} {
			b.Run(fmt.Sprintf("net %t, %d clients", net, clients), func(b *testing.B) {
				ofTest.net = net
				defer func() { ofTest.net = false }()
				g := open(b, engine(b, 1), GenerationSpec{Config: s.Config(), Script: mustParse(b, "SELECT 1;"), Protocol: Simple, Clients: clients})
				b.ReportAllocs()
				b.ResetTimer()
				r := slice(b, g, Slice{Count: (b.N + clients - 1) / clients})
				b.ReportMetric(float64(r.ClientCPU.Nanoseconds())/float64(r.All), "client-cpu-ns/op")
			})
		}
	}
}
