//go:build amd64 && !purego

package half

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

//go:generate go -C ../../../../../internal/gen run ./half -dir ../../kernels/cpu/internal/asm/half

// bfloat16At returns the conversions of a level.
func bfloat16At(l asm.Level) *Conversions {
	return [...]*Conversions{portableBfloat16, avx2Bfloat16, avx512Bfloat16}[l]
}

// float16At returns the conversions of a level.
func float16At(l asm.Level) *Conversions {
	return [...]*Conversions{portableFloat16, avx2Float16, avx512Float16}[l]
}

var (
	avx2Bfloat16   = &Conversions{widenBfloat16AVX2, roundBfloat16AVX2, encodeBfloat16AVX2}
	avx2Float16    = &Conversions{widenFloat16AVX2, roundFloat16AVX2, encodeFloat16AVX2}
	avx512Bfloat16 = &Conversions{widenBfloat16AVX512, roundBfloat16AVX512, encodeBfloat16AVX512}
	avx512Float16  = &Conversions{widenFloat16AVX512, roundFloat16AVX512, encodeFloat16AVX512}
)
