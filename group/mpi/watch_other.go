//go:build mpi && unix && cgo && !linux

package mpi

import "syscall"

// watch finds processes that have ended and that their parent has reaped.
type watch struct{ pids []int }

// add begins to watch a process.
func (w *watch) add(pid int) { w.pids = append(w.pids, pid) }

// poll does nothing: ended finds it.
func (w *watch) poll() {}

// ended reports whether process i has ended.
func (w *watch) ended(i int) bool { return syscall.Kill(w.pids[i], 0) == syscall.ESRCH }

// close does nothing.
func (w *watch) close() {}
