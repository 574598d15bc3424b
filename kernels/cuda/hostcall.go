//go:build gpu && cgo

package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"
)

// errExit is what remains of a function that called runtime.Goexit, as testing's FailNow does.
var errExit = errors.New("ended its goroutine: return an error instead")

// hostCall is a function of the host with pinned memory for its operands.
type hostCall struct {
	step    *step
	block   unsafe.Pointer // nil: no operand has bytes
	in, out [][]byte
}

// newHostCall makes the memory of a function.
func newHostCall(s *step) (*hostCall, error) {
	var bytes int64
	for _, x := range s.operands() {
		bytes += x.bytes
	}
	h := &hostCall{step: s}
	if bytes > 0 {
		var err error
		if h.block, err = pin(bytes); err != nil {
			return nil, err
		}
	}
	at := int64(0)
	for i, x := range s.operands() {
		var b []byte
		if x.bytes > 0 {
			b = hostBytes(unsafe.Add(h.block, at), x.bytes)
			at += x.bytes
		}
		if i < len(s.in) {
			h.in = append(h.in, b)
		} else {
			h.out = append(h.out, b)
		}
	}
	return h, nil
}

// operands are the inputs, then the outputs.
func (s *step) operands() []extent { return append(s.in[:len(s.in):len(s.in)], s.out...) }

// run waits for what is enqueued, calls the function, and waits until the device has its results. It sets err, where something goes
// wrong, before a function that ends the goroutine does.
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

func (h *hostCall) free() error {
	if h.block == nil {
		return nil
	}
	p := h.block
	h.block, h.in, h.out = nil, nil, nil
	return fromCu("cuMemFreeHost", cu.MemFreeHost(p))
}
