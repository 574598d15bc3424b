package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/kernels"
)

// bindHost prepares a call of a Go function on the operands' bytes. Its error, or its panic,
// becomes the stream's error.
func bindHost(b *binding) (func(), error) {
	h, ok := b.Attrs.(kernels.HostAttrs)
	if !ok {
		return nil, fmt.Errorf("attributes %T are no host function: %w", b.Attrs, kernels.ErrUnsupported)
	}
	var in, out [][]byte
	for _, o := range b.In {
		in = append(in, b.bytes(o))
	}
	for _, o := range b.Out {
		out = append(out, b.bytes(o))
	}
	p := b.prog
	return func() {
		if err := h.Run(in, out); err != nil && p.failed == nil {
			p.failed = err
		}
	}, nil
}
