//go:build amd64 && !purego

package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

//go:generate go -C ../../internal/gen run ./half -dir ../../kernels/cpu

// bfloat16At returns the conversions of a level.
func bfloat16At(l asm.Level) *conversions {
	return [...]*conversions{goBfloat16, avx2Bfloat16, avx512Bfloat16}[l]
}

// float16At returns the conversions of a level.
func float16At(l asm.Level) *conversions {
	return [...]*conversions{goFloat16, avx2Float16, avx512Float16}[l]
}

var (
	avx2Bfloat16   = &conversions{widenBfloat16AVX2, roundBfloat16AVX2, encodeBfloat16AVX2}
	avx2Float16    = &conversions{widenFloat16AVX2, roundFloat16AVX2, encodeFloat16AVX2}
	avx512Bfloat16 = &conversions{widenBfloat16AVX512, roundBfloat16AVX512, encodeBfloat16AVX512}
	avx512Float16  = &conversions{widenFloat16AVX512, roundFloat16AVX512, encodeFloat16AVX512}
)
