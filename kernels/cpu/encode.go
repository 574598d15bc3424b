package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"

// bindEncode prepares a conversion of float32 to a 16-bit type. Threads split elements.
func bindEncode(b *binding) (func(), error) {
	encode := half.At(b.dev.level, b.Out[0].Type).Encode
	return b.converted(encode, b.bytes(b.Out[0]), b.bytes(b.In[0]), b.In[0].Shape.Elems(), 2, 4), nil
}
