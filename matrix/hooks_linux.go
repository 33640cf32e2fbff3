package matrix

import "syscall"

// hookAttr gives a hook a group of its own: what it starts ends with it, and
// Ctrl-C reaches pgtare first. The shell also ends with pgtare's death, of
// which the kernel learns by the thread that forked it.
func hookAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
