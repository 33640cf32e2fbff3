package host

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	const after = "1 2 3 -4 -1 5 77 6 7 8 9 10 150 25 20 0 1 0 4321 99 1\n"
	want := Stat{State: 'S', Parent: 1, MinorFaults: 77, Children: 1750 * time.Millisecond, Started: 43210 * time.Millisecond}
	for _, name := range []string{"(postgres)", "(a b)", "(a) R (7)"} { // a process can call itself anything
		if got, ok := parseStat([]byte("42 " + name + " S " + after)); !ok || got != want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, ok, want)
		}
	}
	for _, text := range []string{"", "42", "42 (a) S", "42 (a) S 1 2 3", "42 (a) S x 2 3 -4 -1 5 77 6 7 8 9 10 150 25 20 0 1 0 4321 99"} {
		if got, ok := parseStat([]byte(text)); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	text := []byte("42 (a) S " + after)
	if n := testing.AllocsPerRun(100, func() { parseStat(text) }); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
}

// A process as it starts, stops and ends.
func TestReadStat(t *testing.T) {
	self, err := ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if self.Parent != os.Getppid() {
		t.Errorf("the parent is %d, and getppid says %d", self.Parent, os.Getppid())
	}
	cmd := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; read line")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		t.Fatal(err)
	}
	child, err := ReadStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	age := time.Duration(now.Nano()) - child.Started
	if child.Parent != os.Getpid() || age < -20*time.Millisecond || age > 10*time.Second || child.Started < self.Started {
		t.Errorf("the child is %+v, of age %v; this process is %+v", child, age, self)
	}
	state := func(want byte) {
		t.Helper()
		var s Stat
		for range 2000 {
			if s, err = ReadStat(pid); err != nil {
				t.Fatal(err)
			}
			if s.State == want {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Errorf("the state is %c, want %c", s.State, want)
	}
	state('S')
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	state('T')
	if err := cmd.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	in.Close()
	state('Z')
	cmd.Wait() //nolint:errcheck // read fails at the end of its input
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	after, err := ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// Both sums are in steps of 10 ms, of user and system each.
	if d := after.Children - self.Children; d > used+20*time.Millisecond || d < used-20*time.Millisecond {
		t.Errorf("the children have used %v more, and the child %v", d, used)
	}
	if _, err := ReadStat(pid); err == nil {
		t.Error("a process that has ended is there")
	}
}

func TestBootID(t *testing.T) {
	if a, b := BootID(), BootID(); a != b || len(a) != 36 {
		t.Errorf("%q, then %q", a, b)
	}
}
