package server

import (
	"fmt"
	"slices"
	"strings"
)

// renamed maps names that old mails and scripts use to what they are called
// now. The server maps none of them.
var renamed = map[string]string{
	"stats_command_string":     "it is called track_activities since 8.3",
	"stats_row_level":          "it is called track_counts since 8.3",
	"stats_block_level":        "it is called track_counts since 8.3",
	"stats_start_collector":    "it is gone since 8.3; track_counts and track_activities decide what is collected",
	"stats_temp_directory":     "it is gone since 15, which keeps statistics in shared memory",
	"promote_trigger_file":     "it is gone since 16",
	"vacuum_defer_cleanup_age": "it is gone since 16",
	"force_parallel_mode":      "it is called debug_parallel_query since 16",
	"debug_parallel_query":     "it is called force_parallel_mode before 16",
	"wal_keep_segments":        "it is called wal_keep_size since 13",
	"wal_keep_size":            "it is called wal_keep_segments before 13",
	"old_snapshot_threshold":   "it is gone since 17",
	"io_workers":               "it is called io_min_workers and io_max_workers since 19",
	"io_min_workers":           "it is called io_workers in 18",
	"io_max_workers":           "it is called io_workers in 18",
	"checkpoint_segments":      "it is called max_wal_size since 9.5",
	"ssl_groups":               "it is called ssl_ecdh_curve before 18",
	"timing_clock_source":      "it is new in 19; before, the clock is the operating system's",
	"track_wal_io_timing":      "it is new in 14",
	"compute_query_id":         "it is new in 14",
	"idle_session_timeout":     "it is new in 14",
	"transaction_timeout":      "it is new in 17",
	"track_cost_delay_timing":  "it is new in 18",
	"io_method":                "it is new in 18",
}

// Suggest returns what to say to somebody who named a setting that a server
// does not know, "" for nothing. known are the names that it does know.
func Suggest(name string, known []string) string {
	name = strings.ToLower(name)
	if s, ok := renamed[name]; ok {
		return s
	}
	if s := nearest(name, known); s != "" {
		return fmt.Sprintf("did you mean %s?", s)
	}
	return ""
}

// nearest returns the known name that is fewest edits away from name, "" when
// more than a third of its letters would have to change. Of equals the first
// in alphabetical order wins.
func nearest(name string, known []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := editDistance(name, strings.ToLower(k), least); d < least {
			best, least = k, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions, replacements and exchanges
// of neighbours that turn a into b (optimal string alignment). It gives up at
// limit.
func editDistance(a, b string, limit int) int {
	if abs(len(a)-len(b)) >= limit {
		return limit
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			replace := row[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			next[j] = min(replace, row[j]+1, next[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
