package server

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// removeShared removes the shared memory of postmasters in session directory
// dir that died by SIGKILL; one that ends in any other way removes its own.
// No process may be left in dir. Without this every killed server would leave
// a System V segment and files in /dev/shm until the next reboot.
func removeShared(dir string) {
	for _, instance := range entries(dir) {
		removeSharedOf(filepath.Join(instance, "data", "postmaster.pid"))
	}
}

// removeSharedOf does it for one postmaster.pid, whose seventh line holds key
// and ID of the segment. All steps are checked and none is needed: what does
// not look like PostgreSQL's is left alone.
func removeSharedOf(pidFile string) {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 7 {
		return
	}
	var key, id int
	if n, _ := fmt.Sscan(lines[6], &key, &id); n != 2 {
		return
	}
	var ds unix.SysvShmDesc
	if _, err := unix.SysvShmCtl(id, unix.IPC_STAT, &ds); err != nil || int(ds.Perm.Key) != key || ds.Nattch != 0 {
		return
	}
	mem, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return
	}
	// PGShmemHeader (storage/pg_shmem.h): int32 magic, int32 creator,
	// size_t total, size_t offset, uint32 dsm_control.
	const magic = 679834894
	ours := len(mem) >= 28 && binary.NativeEndian.Uint32(mem) == magic
	var control uint32
	if ours {
		control = binary.NativeEndian.Uint32(mem[24:])
	}
	unix.SysvShmDetach(mem)
	if !ours {
		return
	}
	unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	if control != 0 {
		removeDynamic(control, ds.Perm.Uid)
	}
}

// removeDynamic removes the POSIX segments of one server. The control segment
// lists the others (dsm_control_header in storage/ipc/dsm.c: uint32 magic,
// nitems, maxitems, then items that begin with a uint32 handle; an item has 24
// bytes up to version 13 and 40 from 14 on, so both strides are read: handles
// are 32 random bits, and a file must bear the number and belong to the
// server's user to be removed).
func removeDynamic(control, uid uint32) {
	const magic = 0x9a503d32
	path := segmentPath(control)
	mem, err := os.ReadFile(path)
	if err != nil || len(mem) < 16 || binary.NativeEndian.Uint32(mem) != magic {
		return
	}
	items := int(min(binary.NativeEndian.Uint32(mem[4:]), 1<<16))
	for _, stride := range []int{24, 40} {
		for i := range items {
			at := 16 + i*stride
			if at+4 > len(mem) {
				break
			}
			if h := binary.NativeEndian.Uint32(mem[at:]); h != 0 {
				removeSegment(segmentPath(h), uid)
			}
		}
	}
	removeSegment(path, uid)
}

func segmentPath(handle uint32) string {
	return "/dev/shm/PostgreSQL." + strconv.FormatUint(uint64(handle), 10)
}

func removeSegment(path string, uid uint32) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) == nil && st.Uid == uid && st.Mode&unix.S_IFMT == unix.S_IFREG {
		os.Remove(path)
	}
}
