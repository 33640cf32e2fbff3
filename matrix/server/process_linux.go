package server

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// CanStart returns nil where pgtare can start servers of its own.
func CanStart() error { return nil }

// childOfOurs returns the attributes of a process in a session of its own that
// gets sig when the thread that forked it ends.
func childOfOurs(sig syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: sig}
}

// signalIn sends sig to every process that works in dir and returns how many
// there were. Between finding a PID and signalling it the PID could pass to
// another process, so the check is repeated on a pidfd, which cannot.
func signalIn(dir string, sig unix.Signal) int {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	n := 0
	for _, pid := range processesIn(dir) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			if err == unix.ENOSYS && unix.Kill(pid, sig) == nil { // before Linux 5.3
				n++
			}
			continue
		}
		if worksIn(pid, dir) && unix.PidfdSendSignal(fd, sig, nil, 0) == nil {
			n++
		}
		unix.Close(fd)
	}
	return n
}

// cloneFile makes out share in's blocks, where the file system can.
func cloneFile(out, in *os.File) bool {
	return unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) == nil
}

// syncFiles writes all that is in dir to its disk: the whole file system, which
// for thousands of files is quicker than one by one.
func syncFiles(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}

// startWriteBack lets the kernel begin to write a file to its disk.
func startWriteBack(f *os.File) {
	_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}
