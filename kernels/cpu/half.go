package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"

// converted returns a launch that converts n contiguous elements of from bytes to elements of to
// bytes. Work is split by elements.
func (b *binding) converted(f half.ConvertFunc, dst, src []byte, n, to, from int) func() {
	return b.parallelFor(n, cheapGrain/4, func(lo, hi, _ int) { f(dst[lo*to:hi*to], src[lo*from:hi*from], 1, 0, hi-lo, 0) })
}
