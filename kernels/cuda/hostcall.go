//go:build gpu && cgo

package cuda

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
	"gorgonia.org/cu"
)

// errExit is the error of a function that called runtime.Goexit, as testing's FailNow does.
var errExit = errors.New("ended its goroutine: return an error instead")

// staging is the pinned memory through which functions of the host access their operands: one block
// a device, as large as the largest function needs.
type staging struct {
	mu    sync.Mutex // held while a function runs
	block unsafe.Pointer
	bytes int64
	users int // functions that are bound: it is freed with the last
}

// use adds a user, and grows the block for it.
func (s *staging) use(bytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes > s.bytes {
		block, err := pin(bytes)
		if err != nil {
			return err
		}
		old := s.block
		s.block, s.bytes = block, bytes
		if err := unpin(old); err != nil {
			return err
		}
	}
	s.users++
	return nil
}

// leave removes a user, and frees the block with the last one.
func (s *staging) leave() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users > 0 {
		return nil
	}
	block := s.block
	s.block, s.bytes = nil, 0
	return unpin(block)
}

func unpin(block unsafe.Pointer) error {
	if block == nil {
		return nil
	}
	return fromCu("cuMemFreeHost", cu.MemFreeHost(block))
}

// hostCall is a function of the host and its operands in pinned memory, which are there while it
// runs.
type hostCall struct {
	step    *step
	staging *staging
	in, out [][]byte
}

// newHostCall makes room for a function.
func newHostCall(s *step, at *staging) (*hostCall, error) {
	if err := at.use(s.bytes); err != nil {
		return nil, err
	}
	return &hostCall{step: s, staging: at, in: make([][]byte, len(s.in)), out: make([][]byte, len(s.out))}, nil
}

// place finds the operands in the staging block, which is locked.
func (h *hostCall) place() {
	at := int64(0)
	for _, side := range []struct {
		operands []extent
		bytes    [][]byte
	}{{h.step.in, h.in}, {h.step.out, h.out}} {
		for i, x := range side.operands {
			side.bytes[i] = nil
			if x.bytes > 0 {
				side.bytes[i] = hostBytes(unsafe.Add(h.staging.block, at), x.bytes)
				at += arena.Round(x.bytes)
			}
		}
	}
}

// run waits for enqueued work, calls the function, and waits until the device has its results. It
// sets err, for an error of a function that ends the goroutine, too.
func (h *hostCall) run(err *error, name string, st *stream) {
	whole := false
	defer func() {
		switch v := recover(); {
		case v != nil:
			*err = fmt.Errorf("cuda: %s: panic: %v", name, v)
		case !whole:
			*err = fmt.Errorf("cuda: %s: %w", name, errExit)
		}
	}()
	if e := h.call(st); e != nil {
		*err = st.dev.note(fmt.Errorf("cuda: %s: %w", name, e))
	}
	whole = true
}

func (h *hostCall) call(st *stream) error {
	h.staging.mu.Lock()
	defer h.staging.mu.Unlock()
	h.place()
	for i, x := range h.step.in {
		if x.bytes == 0 {
			continue
		}
		if err := cu.MemcpyDtoHAsync(unsafe.Pointer(&h.in[i][0]), cu.DevicePtr(x.at), x.bytes, st.handle); err != nil {
			return fromCu("cuMemcpyDtoHAsync", err)
		}
	}
	if err := st.handle.Synchronize(); err != nil {
		return fromCu("cuStreamSynchronize", err)
	}
	if err := h.step.host.Run(h.in, h.out); err != nil {
		return err
	}
	for i, x := range h.step.out {
		if x.bytes == 0 {
			continue
		}
		if err := cu.MemcpyHtoDAsync(cu.DevicePtr(x.at), unsafe.Pointer(&h.out[i][0]), x.bytes, st.handle); err != nil {
			return fromCu("cuMemcpyHtoDAsync", err)
		}
	}
	return fromCu("cuStreamSynchronize", st.handle.Synchronize()) // before the next launch writes to the same pinned memory
}

func (h *hostCall) free() error { return h.staging.leave() }
