//go:build linux

package host

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestFacts(t *testing.T) {
	e := Facts()
	if e.Kernel == "" || e.CPUs < 1 || e.MemoryBytes < 1<<26 || e.Go != runtime.Version() || len(strings.Fields(e.LoadAverage)) != 3 {
		t.Errorf("Facts() = %+v", e)
	}
	if e.Clocksource != "" && !slices.Contains(e.Clocksources, e.Clocksource) {
		t.Errorf("the clock source %q is not among those offered, %q", e.Clocksource, e.Clocksources)
	}
	// A vDSO read is some ten ns, the slowest system call some thousand.
	if e.ClockReadNs < 1 || e.ClockReadNs > 20_000 {
		t.Errorf("a clock read takes %v ns", e.ClockReadNs)
	}
	t.Logf("%+v", e)
}

func TestParseList(t *testing.T) {
	check := func(in string, want ...int) {
		t.Helper()
		got, err := parseList(in)
		if (err != nil) != (want == nil) || !slices.Equal(got, want) {
			t.Errorf("parseList(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	check("0", 0)
	check("0-1\n", 0, 1)
	check("0-3,8,10-11", 0, 1, 2, 3, 8, 10, 11)
	check("")
	check("0-x")
}

func TestParseTimes(t *testing.T) {
	got := parseTimes([]byte("cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 100 20 30 4000 500 6 7 8 90 10\ncpu12 1 0 0 9 0 0 0 0 0 0\ncpu3 5 0 0 9\nintr 5 5 5 5 5\ncpu\ncpux 1 1 1 1\n"))
	if want := map[int]cpuTimes{0: {163, 8}, 12: {1, 0}, 3: {5, 0}}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestQuiet(t *testing.T) {
	before := map[int]cpuTimes{0: {900, 100}, 1: {}, 2: {50, 0}, 3: {50, 0}}
	alone := func(c int) []int { return []int{c} }
	pairs := func(c int) []int { return []int{c &^ 1, c | 1} }
	check := func(after map[int]cpuTimes, allowed []int, siblings func(int) []int, want ...int) {
		t.Helper()
		if got := quiet(before, after, allowed, siblings); !slices.Equal(got, want) {
			t.Errorf("after %v, allowed %v: CPUs %v, want %v", after, allowed, got, want)
		}
	}
	after := map[int]cpuTimes{0: {901, 100}, 1: {1, 89}, 2: {53, 0}, 3: {50, 4}}
	check(after, []int{0, 1, 2, 3}, alone, 0, 2, 3, 1)
	check(after, []int{0, 1, 2, 3}, pairs, 2, 3, 0, 1) // CPU 0 shares its core with a busy one
	check(after, []int{1}, alone, 1)                   // never outside the allowed ones
	check(before, []int{2, 3}, alone, 2, 3)            // equals: in ascending order
}

func TestApart(t *testing.T) {
	alone := func(c int) []int { return []int{c} }
	pairs := func(c int) []int { return []int{c &^ 1, c | 1} }
	for _, c := range []struct {
		name              string
		quiet             []int
		siblings          func(int) []int
		backends, threads int
		client, server    string // "": there is but one core
	}{
		{"one client on two CPUs: the server gets the quieter", []int{1, 0}, alone, 1, 1, "0", "1"},
		{"no more than there are backends", []int{3, 2, 1, 0}, alone, 1, 1, "2", "3"},
		{"all but the client's", []int{3, 2, 1, 0}, alone, 64, 1, "0", "1-3"},
		{"the client at most half", []int{0, 1, 2, 3}, alone, 64, 64, "2-3", "0-1"},
		{"siblings stay together", []int{4, 5, 0, 1, 2, 3}, pairs, 8, 1, "2-3", "0-1,4-5"},
		{"one core with two CPUs can't be divided", []int{0, 1}, pairs, 1, 1, "", ""},
		{"one CPU", []int{0}, alone, 1, 1, "", ""},
	} {
		client, server, found := Apart(c.quiet, c.siblings, c.backends, c.threads)
		if FormatList(client) != c.client || FormatList(server) != c.server || found != (c.client != "") {
			t.Errorf("%s: client %v, server %v, %v; want %q, %q", c.name, client, server, found, c.client, c.server)
		}
	}
}

func TestListsOfUsers(t *testing.T) {
	for text, want := range map[string]string{"0": "0", "0-3,8": "0-3,8", "8,0-1": "0-1,8", "1,2,3": "1-3"} {
		if got, err := ParseList(text); err != nil || FormatList(got) != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", ",", "0,", "1-", "a", "-1", "3-1", "0,0", "0-2,1", "12345", " 1", "0-99999999"} {
		if got, err := ParseList(text); err == nil {
			t.Errorf("%q is a list: %v", text, got)
		}
	}
}

// TestQuietestSeesLoad keeps all CPUs but one busy.
func TestQuietestSeesLoad(t *testing.T) {
	cpus := CPUs()
	if len(cpus) < 2 {
		t.Skip("needs two CPUs")
	}
	ctx, cancel := context.WithCancel(t.Context())
	busy := cpus[0]
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends pinned
		err := SetAffinity(0, []int{busy})
		for err == nil && ctx.Err() == nil {
		}
		done <- err
	}()
	// Other load may fall on the free CPUs now and then, not always.
	var got int
	for range 10 {
		quiet, err := Quiet(ctx, 200*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		got = quiet[0]
		if got != busy {
			break
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got == busy {
		t.Errorf("the quietest CPU is %d, which was kept busy", got)
	}
	if _, err := Quiet(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled Quiet: %v", err)
	}
}

func TestSetAffinityAndSiblings(t *testing.T) {
	cpus := CPUs()
	if len(cpus) == 0 {
		t.Fatal("no CPUs")
	}
	last := cpus[len(cpus)-1]
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := SetAffinity(0, []int{last})
		var set unix.CPUSet
		if err == nil {
			err = unix.SchedGetaffinity(0, &set)
		}
		if err == nil && (set.Count() != 1 || !set.IsSet(last)) {
			err = errors.New("the affinity did not take")
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if now := CPUs(); !slices.Equal(now, cpus) {
		t.Errorf("a pinned thread narrowed CPUs() from %v to %v", cpus, now)
	}
	if err := SetAffinity(0, []int{4000}); err == nil {
		t.Error("CPU 4000 was accepted")
	}
	if s := Siblings(last); !slices.Contains(s, last) {
		t.Errorf("Siblings(%d) = %v", last, s)
	}
	if s := Siblings(4000); !slices.Equal(s, []int{4000}) {
		t.Errorf("Siblings(4000) = %v", s)
	}
}

func TestProc(t *testing.T) {
	// Burns about 50 ms of CPU for every line that it is sent.
	cmd := exec.Command("/bin/sh", "-c", `while read line; do i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo done; done`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := OpenProc(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	burn := func() {
		t.Helper()
		if _, err := in.Write([]byte("x\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // it goes to sleep in read
	}
	burn()
	run1, wait1, err := p.CPU()
	if err != nil {
		t.Fatal(err)
	}
	usage1 := processUsage(t, cmd.Process.Pid)
	burn()
	run2, wait2, err := p.CPU()
	if err != nil {
		t.Fatal(err)
	}
	usage2 := processUsage(t, cmd.Process.Pid)
	d, want := run2-run1, usage2-usage1
	if d <= 0 || wait2 < wait1 || (d-want).Abs() > 5*time.Millisecond {
		t.Errorf("CPU() rose by %v, the process's CPU clock by %v; wait %v to %v", d, want, wait1, wait2)
	}
	if n, err := p.Faults(); err != nil || n < 10 {
		t.Errorf("Faults() = %d, %v", n, err)
	}
	if n, err := p.Switches(); err != nil || n < 0 {
		t.Errorf("Switches() = %d, %v", n, err)
	}
	testMoves(t, p, cmd.Process.Pid, burn)
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.CPU(); err == nil {
		t.Error("CPU() of a process that has ended")
	}
	if _, err := p.Faults(); err == nil {
		t.Error("Faults() of a process that has ended")
	}
	if _, err := p.Switches(); err == nil {
		t.Error("Switches() of a process that has ended")
	}
	if _, err := p.BytesRead(); err == nil {
		t.Error("BytesRead() of a process that has ended")
	}
	if _, err := p.Moves(); err == nil {
		t.Error("Moves() of a process that has ended")
	}
	if _, err := OpenProc(cmd.Process.Pid); err == nil {
		t.Error("OpenProc of a process that has ended")
	}
}

// What a process reads and writes is counted, from the cache as well.
func TestBytes(t *testing.T) {
	p, err := OpenProc(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const size = 10 << 20 // far above what the tests beside this one do
	path := filepath.Join(t.TempDir(), "file")
	read, err1 := p.BytesRead()
	written, err2 := p.BytesWritten()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	readAfter, err1 := p.BytesRead()
	writtenAfter, err2 := p.BytesWritten()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if r, w := readAfter-read, writtenAfter-written; r < size || r > 3*size/2 || w < size || w > 3*size/2 {
		t.Errorf("%d bytes read and %d written, of %d each", r, w, size)
	}
}

// testMoves sends a process to and fro between two CPUs.
func testMoves(t *testing.T, p *Proc, pid int, burn func()) {
	t.Helper()
	before, err := p.Moves()
	if errors.Is(err, unix.ENOENT) {
		return // the kernel doesn't tell
	}
	if err != nil {
		t.Fatal(err)
	}
	cpus := CPUs()
	if len(cpus) < 2 {
		return
	}
	const times = 6
	for i := range times {
		if err := SetAffinity(pid, cpus[i%2:i%2+1]); err != nil {
			t.Fatal(err)
		}
		burn()
	}
	after, err := p.Moves()
	if d := after - before; err != nil || d < times-1 || d > times {
		t.Errorf("moved %d times, and Moves() rose by %d (%v)", times, d, err)
	}
	for range 2 {
		burn() // it stays
	}
	if last, err := p.Moves(); err != nil || last != after {
		t.Errorf("a pinned process: Moves() went from %d to %d (%v)", after, last, err)
	}
}

// processUsage reads the process's CPU clock, which is another way to the same
// time.
func processUsage(t *testing.T, pid int) time.Duration {
	t.Helper()
	var ts unix.Timespec
	const sched = 2 // CPUCLOCK_SCHED, see clock_getcpuclockid(3)
	if err := unix.ClockGettime(int32(^pid<<3|sched), &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// TestProcFields compares with the kernel's other accounts of this process.
func TestProcFields(t *testing.T) {
	p, err := OpenProc(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var ru unix.Rusage
	before, err := p.Faults()
	if err != nil {
		t.Fatal(err)
	}
	// Field 10 of stat is the whole process's, as getrusage's.
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		t.Fatal(err)
	}
	after, err := p.Faults()
	if err != nil {
		t.Fatal(err)
	}
	if ru.Minflt < before || ru.Minflt > after {
		t.Errorf("minor faults: %d, then getrusage says %d, then %d", before, ru.Minflt, after)
	}
	p.Close()
	p.Close()
}

func TestProcAllocatesNothing(t *testing.T) {
	p, err := OpenProc(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := p.CPU(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("CPU() allocates %v times", n)
	}
}

func BenchmarkProcCPU(b *testing.B) {
	p, err := OpenProc(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := p.CPU(); err != nil {
			b.Fatal(err)
		}
	}
}
