package server

import (
	"strconv"
	"strings"
)

// Footprint is about how much memory an instance takes when it is busy.
type Footprint struct {
	Shared int64 // bytes of shared memory, that is shared buffers and a little more
	Own    int64 // bytes of its processes, with no session
	Huge   bool  // Shared is in reserved huge pages or nowhere (huge_pages=on)
}

// FootprintOf an instance with these settings in its configuration. What is no
// size is the server's to refuse, and counts as the default.
//
// Idle servers of 13, 15 and 18 with 128 MB, 1 GB and 4 GB of shared buffers had
// 15 to 22, 50 to 63 and 120 to 160 MB of shared memory beyond these, and 3 to 4
// MB of their processes' own.
func FootprintOf(conf []Setting) Footprint {
	f := Footprint{Own: 5 << 20}
	buffers := int64(128 << 20) // what initdb writes
	for _, s := range conf {
		switch strings.ToLower(s.Name) {
		case "shared_buffers":
			if bytes, ok := memoryText(s.Value, 8<<10); ok && !s.Default {
				buffers = bytes
			}
		case "huge_pages":
			f.Huge = strings.EqualFold(strings.TrimSpace(s.Value), "on")
		}
	}
	f.Shared = buffers + buffers/25 + 20<<20
	return f
}

// memoryText reads a size with its unit, a bare number in units of bare bytes.
func memoryText(text string, bare int64) (bytes int64, ok bool) {
	m := sizeText.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	unit := units[m[2]]
	if m[2] == "" {
		unit = bare
	}
	if err != nil || n > 1<<62/unit {
		return 0, false
	}
	return n * unit, true
}
