package host

import "golang.org/x/sys/unix"

func osName() string {
	version, err := unix.Sysctl("kern.osproductversion")
	if err != nil {
		return "macOS"
	}
	return "macOS " + version
}

func cpuModel() string {
	model, _ := unix.Sysctl("machdep.cpu.brand_string") // "" where it isn't told
	return model
}

func memory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}
