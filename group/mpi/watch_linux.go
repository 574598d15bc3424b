//go:build mpi && cgo

package mpi

import (
	"golang.org/x/sys/unix"
)

// watch finds processes that have ended. A process that is not reaped yet has ended too.
type watch struct {
	fds  []unix.PollFd // -1 for a process that is not watched this way
	pids []int
}

// add begins to watch a process.
func (w *watch) add(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		fd = -1 // an old kernel, or it has ended
	}
	w.fds = append(w.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	w.pids = append(w.pids, pid)
}

// poll finds which processes have ended since. Interrupted, it leaves that to the next call.
func (w *watch) poll() {
	if len(w.fds) > 0 {
		_, _ = unix.Poll(w.fds, 0)
	}
}

// ended reports whether process i had ended at the last poll.
func (w *watch) ended(i int) bool {
	fd := w.fds[i]
	return fd.Fd >= 0 && fd.Revents&unix.POLLIN != 0 || fd.Fd < 0 && unix.Kill(w.pids[i], 0) == unix.ESRCH
}

// close stops watching.
func (w *watch) close() {
	for _, fd := range w.fds {
		if fd.Fd >= 0 {
			_ = unix.Close(int(fd.Fd))
		}
	}
}
