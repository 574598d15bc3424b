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
	in, out, p := b.all(b.In), b.all(b.Out), b.prog
	return func() { p.fail(h.Run(in, out)) }, nil
}
