//go:build !linux

package server

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// CanStart refuses: a server must end with the pgtare that started it, also
// when that is killed, and only Linux has a signal for that (PR_SET_PDEATHSIG) and
// shows which processes work in a directory.
func CanStart() error {
	return unavailablef("pgtare starts servers on Linux only, and this is %s, where they would outlive a pgtare that is killed; start one yourself and name it: --server 'host=... dbname=...'", runtime.GOOS)
}

// Of what follows only childOfOurs and syncFiles are used, for npm and builds: where no server
// is started, none is signalled, and none leaves shared memory.

func childOfOurs(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func signalIn(string, unix.Signal) int { return 0 }

func syncFiles(string) error { unix.Sync(); return nil } //nolint:errcheck // it has no errors; syncfs is Linux's

func cloneFile(_, _ *os.File) bool { return false }

func startWriteBack(*os.File) {}

func removeShared(string)   {}
func removeSharedOf(string) {}
