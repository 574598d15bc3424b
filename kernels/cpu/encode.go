package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"

// bindEncode prepares a conversion of float32 to a 16-bit type. Threads split elements.
func bindEncode(b *binding) (func(), error) {
	encode := half.At(b.dev.level, b.Out[0].Type).Encode
	return b.converted(encode, b.bytes(b.Out[0]), b.bytes(b.In[0]), b.In[0].Shape.Elems(), 2, 4), nil
}

// converted returns a launch that converts n contiguous elements of from bytes to elements of to
// bytes. Work is split by elements.
func (b *binding) converted(f half.ConvertFunc, dst, src []byte, n, to, from int) func() {
	return b.parallelFor(n, cheapGrain/4, func(lo, hi, _ int) { f(dst[lo*to:hi*to], src[lo*from:hi*from], 1, 0, hi-lo, 0) })
}
