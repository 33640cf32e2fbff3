package host

import (
	"bytes"
	"fmt"
	"os"
	"time"
)

// Stat is what the kernel says of a process in /proc/PID/stat.
type Stat struct {
	State       byte // R runs, S and D sleep, T is stopped, Z has ended, ...: see proc(5)
	Parent      int  // its PID
	MinorFaults int64
	// Children is the CPU time of those of its children that have ended and
	// been waited for, in steps of 10 ms.
	Children time.Duration
	Started  time.Duration // since the kernel's start, in steps of 10 ms
}

// ReadStat looks at a process once. It fails where there is none, or the system
// has no /proc.
func ReadStat(pid int) (Stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	s, ok := parseStat(text)
	if !ok {
		return Stat{}, fmt.Errorf("look at process %d: %w", pid, errCounters)
	}
	return s, nil
}

// parseStat allocates nothing.
func parseStat(text []byte) (s Stat, ok bool) {
	// The name in parentheses may hold anything.
	i := bytes.LastIndexByte(text, ')')
	if i < 0 {
		return s, false
	}
	const state, ppid, minflt, cutime, cstime, starttime = 3, 4, 10, 16, 17, 22 // as proc(5) counts
	rest := text[i+1:]
	for field := state; field <= starttime; field++ {
		rest = bytes.TrimLeft(rest, " ")
		end := bytes.IndexByte(rest, ' ')
		if end <= 0 {
			return s, false
		}
		word := rest[:end]
		rest = rest[end:]
		n, left, number := leadingNumber(word)
		number = number && len(left) == 0
		switch field {
		case state:
			s.State, number = word[0], true
		case ppid:
			s.Parent = int(n)
		case minflt:
			s.MinorFaults = n
		case cutime, cstime:
			s.Children += time.Duration(n * nsPerTick)
		case starttime:
			s.Started = time.Duration(n * nsPerTick)
		default:
			number = true // none of ours; some are negative
		}
		if !number {
			return s, false
		}
	}
	return s, true
}
