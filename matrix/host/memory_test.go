//go:build linux

package host

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryAvailable(t *testing.T) {
	const MB = 1 << 20
	meminfo := "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\nHugePages_Free: 3\nHugepagesize: 2048 kB\n"
	v2 := map[string]string{"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"}
	v1 := map[string]string{"proc/self/cgroup": "4:memory:/docker/x\n3:cpu:/docker/x\n0::/\n",
		"proc/self/mountinfo": "40 25 0:30 /docker/x /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"}
	for name, c := range map[string]struct {
		groups, files map[string]string
		want          Memory
	}{
		"no group":      {nil, map[string]string{"proc/meminfo": meminfo}, Memory{4096 * MB, "the machine", 6 * MB}},
		"nothing known": {nil, nil, Memory{-1, "the machine", 0}},
		"of a parent": {v2, map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "5\n",
			"sys/fs/cgroup/a/memory.max": "1073741824\n", "sys/fs/cgroup/a/memory.current": "536870912\n", "sys/fs/cgroup/a/memory.stat": "anon 1\ninactive_file 104857600\nactive_file 1048576\n"},
			Memory{(512 + 101) * MB, "the control group", 6 * MB}},
		"wider than the machine": {v2, map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/a/memory.max": "10737418240\n", "sys/fs/cgroup/a/memory.current": "0\n"}, Memory{4096 * MB, "the machine", 6 * MB}},
		"full":                   {v2, map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/a/memory.max": "1048576\n", "sys/fs/cgroup/a/memory.current": "2097152\n"}, Memory{0, "the control group", 6 * MB}},
		"version 1": {v1, map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": "104857600\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "52428800\n"},
			Memory{50 * MB, "the control group", 6 * MB}},
		"version 1, no limit": {v1, map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "52428800\n"},
			Memory{4096 * MB, "the machine", 6 * MB}},
	} {
		root := t.TempDir()
		for _, files := range []map[string]string{c.groups, c.files} {
			for path, text := range files {
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := memoryAvailable(root); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if here := MemoryAvailable(); here.Available <= 0 {
		t.Errorf("here: %+v", here)
	}
}
