package host

import (
	"cmp"
	"strconv"
	"strings"
)

func osName() string {
	return strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"'`)
}

func cpuModel() string {
	return cmp.Or(
		field("/proc/cpuinfo", "model name", ":"),
		field("/proc/cpuinfo", "Model", ":"), // arm64 boards
		field("/proc/cpuinfo", "cpu", ":"),   // ppc64
	)
}

func memory() int64 {
	kb, _, _ := strings.Cut(field("/proc/meminfo", "MemTotal", ":"), " ")
	n, _ := strconv.ParseInt(kb, 10, 64)
	return n * 1024
}
