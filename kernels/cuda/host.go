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
	b.steps = append(b.steps, b.sums.awaitAll(b.index)...)
	s := step{kind: stepHost, host: h, bytes: stagingBytes(b.Op, b.Attrs, kernels.Specs(b.In), kernels.Specs(b.Out))}
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
func stagingBytes(op *kernels.Op, attrs any, in, out []kernels.Spec) (bytes int64) {
	if !op.OnHost || commOf(attrs) != nil {
		return 0
	}
	for _, x := range append(in[:len(in):len(in)], out...) {
		bytes += arena.Round(x.Bytes())
	}
	return bytes
}
