package cuda

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// bindHost prepares a function of the host. The launch that reaches it waits for the device, copies
// the inputs to pinned memory, calls the function, and copies the outputs back.
func bindHost(b *binding) error {
	h, ok := b.Attrs.(kernels.HostAttrs)
	if !ok {
		return fmt.Errorf("attributes %T are no host function: %w", b.Attrs, kernels.ErrUnsupported)
	}
	s := step{kind: stepHost, host: h, bytes: stagingBytes(b.Op, kernels.Specs(b.In), kernels.Specs(b.Out))}
	for k, o := range b.In {
		s.in = append(s.in, extent{b.in(k), o.Bytes()})
	}
	for k, o := range b.Out {
		s.out = append(s.out, extent{b.out(k), o.Bytes()})
	}
	b.append(s)
	return nil
}

// stagingBytes is the pinned memory that a call needs: each operand begins at a multiple of
// arena.Align.
func stagingBytes(op *kernels.Op, in, out []kernels.Spec) (bytes int64) {
	if !op.OnHost {
		return 0
	}
	for _, x := range append(in[:len(in):len(in)], out...) {
		bytes += arena.Round(x.Bytes())
	}
	return bytes
}

// bindNothing prepares a call that has nothing to do on this device.
func bindNothing(*binding) error { return nil }
