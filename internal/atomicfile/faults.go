package atomicfile

import (
	"io/fs"
	"sync"
)

// Faults is a file system for tests. It counts the calls that go to another one, and makes some of
// them fail. Its methods may be called from any goroutine.
type Faults struct {
	FS FS // nil: OS

	// Fail is asked before each call: n counts from 0, op is its name, such as "write" or "rename".
	// An error that it returns is that of the call.
	Fail func(n int, op, path string) error
	// NoSync leaves out the syncs that do not fail, which take long on a real disk.
	NoSync bool
	// Short makes a failing write write this many of its bytes first.
	Short int

	mu    sync.Mutex
	calls []string
}

// Calls returns the names of the calls so far.
func (f *Faults) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

// call counts a call and returns its error.
func (f *Faults) call(op, path string) error {
	f.mu.Lock()
	n := len(f.calls)
	f.calls = append(f.calls, op)
	f.mu.Unlock()
	if f.Fail == nil {
		return nil
	}
	return f.Fail(n, op, path)
}

// under returns the file system below.
func (f *Faults) under() FS {
	if f.FS == nil {
		return OS{}
	}
	return f.FS
}

// Create makes a file, or fails as "create".
func (f *Faults) Create(path string) (Handle, error) {
	if err := f.call("create", path); err != nil {
		return nil, err
	}
	h, err := f.under().Create(path)
	if err != nil {
		return nil, err
	}
	return &faultHandle{Handle: h, faults: f, path: path}, nil
}

// Rename replaces to by from, or fails as "rename".
func (f *Faults) Rename(from, to string) error {
	if err := f.call("rename", to); err != nil {
		return err
	}
	return f.under().Rename(from, to)
}

// Remove removes a file, or fails as "remove".
func (f *Faults) Remove(path string) error {
	if err := f.call("remove", path); err != nil {
		return err
	}
	return f.under().Remove(path)
}

// SyncDir makes a folder durable, or fails as "syncdir".
func (f *Faults) SyncDir(path string) error {
	if err := f.call("syncdir", path); err != nil {
		return err
	}
	if f.NoSync {
		return nil
	}
	return f.under().SyncDir(path)
}

// faultHandle is a file of Faults. Its close always closes.
type faultHandle struct {
	Handle
	faults *Faults
	path   string
}

func (h *faultHandle) Write(p []byte) (int, error) {
	if err := h.faults.call("write", h.path); err != nil {
		n, _ := h.Handle.Write(p[:min(h.faults.Short, len(p))])
		return n, err
	}
	return h.Handle.Write(p)
}

func (h *faultHandle) WriteAt(p []byte, offset int64) (int, error) {
	if err := h.faults.call("writeat", h.path); err != nil {
		n, _ := h.Handle.WriteAt(p[:min(h.faults.Short, len(p))], offset)
		return n, err
	}
	return h.Handle.WriteAt(p, offset)
}

func (h *faultHandle) Chmod(mode fs.FileMode) error {
	if err := h.faults.call("chmod", h.path); err != nil {
		return err
	}
	return h.Handle.Chmod(mode)
}

func (h *faultHandle) Sync() error {
	if err := h.faults.call("sync", h.path); err != nil {
		return err
	}
	if h.faults.NoSync {
		return nil
	}
	return h.Handle.Sync()
}

func (h *faultHandle) Close() error {
	failed := h.faults.call("close", h.path)
	if err := h.Handle.Close(); failed == nil {
		return err
	}
	return failed
}
