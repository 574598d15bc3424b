//go:build amd64 && !purego

package half

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

//go:generate go -C ../../../../../internal/gen run ./half -dir ../../kernels/cpu/internal/asm/half

// bfloat16At returns the conversions of a level.
func bfloat16At(l asm.Level) *Conversions {
	return [...]*Conversions{portableBFloat16, avx2BFloat16, avx512BFloat16}[l]
}

// float16At returns the conversions of a level.
func float16At(l asm.Level) *Conversions {
	return [...]*Conversions{portableFloat16, avx2Float16, avx512Float16}[l]
}

var (
	avx2BFloat16   = &Conversions{widenBFloat16AVX2, roundBFloat16AVX2, encodeBFloat16AVX2}
	avx2Float16    = &Conversions{widenFloat16AVX2, roundFloat16AVX2, encodeFloat16AVX2}
	avx512BFloat16 = &Conversions{widenBFloat16AVX512, roundBFloat16AVX512, encodeBFloat16AVX512}
	avx512Float16  = &Conversions{widenFloat16AVX512, roundFloat16AVX512, encodeFloat16AVX512}
)
