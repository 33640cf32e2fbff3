//go:build !linux

package matrix

import "syscall"

// hookAttr gives a hook a group of its own: what it starts ends with it, and
// Ctrl-C reaches pgtare first.
func hookAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
