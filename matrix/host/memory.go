package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Memory is what servers that start now could have.
type Memory struct {
	Available int64  // bytes, without pushing others out; -1: not known
	Limit     string // what sets it: "the machine", "the control group"
	HugeFree  int64  // bytes in reserved huge pages that nobody uses
}

// MemoryAvailable reads what the kernel estimates to be available, and what the
// limits of this process's control groups leave. Pages of files count as free,
// since a group at its limit gives them up.
func MemoryAvailable() Memory { return memoryAvailable("/") }

func memoryAvailable(root string) Memory {
	meminfo := func(key string) int64 {
		text, _, _ := strings.Cut(field(filepath.Join(root, "proc/meminfo"), key, ":"), " ")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return -1
		}
		return n
	}
	m := Memory{Available: -1, Limit: "the machine"}
	if kB := meminfo("MemAvailable"); kB >= 0 {
		m.Available = kB << 10
	}
	if pages, kB := meminfo("HugePages_Free"), meminfo("Hugepagesize"); pages > 0 && kB > 0 {
		m.HugeFree = pages * kB << 10
	}
	for _, dir := range controlGroups(root, "memory") {
		dir = filepath.Join(root, dir)
		limit, limited := number(filepath.Join(dir, "memory.max"))
		used, known := number(filepath.Join(dir, "memory.current"))
		if !limited { // version 1
			limit, limited = number(filepath.Join(dir, "memory.limit_in_bytes"))
			used, known = number(filepath.Join(dir, "memory.usage_in_bytes"))
		}
		if !limited || !known || limit > 1<<60 { // version 1 has a huge number for no limit
			continue
		}
		for _, key := range []string{"inactive_file", "active_file"} {
			if n, err := strconv.ParseInt(field(filepath.Join(dir, "memory.stat"), key, " "), 10, 64); err == nil {
				used -= n
			}
		}
		if left := max(0, limit-used); m.Available < 0 || left < m.Available {
			m.Available, m.Limit = left, "the control group"
		}
	}
	return m
}

// number reads a file of one number.
func number(path string) (n int64, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
