//go:build amd64 && !purego

package update

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

//go:generate go -C ../../../../../internal/gen run ./update -dir ../../kernels/cpu/internal/asm/update

// kernels32 returns the functions of a level for float32.
func kernels32(l asm.Level) *Kernels[float32] {
	switch l {
	case asm.AVX512:
		return &Kernels[float32]{
			SGD:      wideSgd32,
			Momentum: wideMomentum32,
			Nesterov: wideNesterov32,
			RMSProp:  wideRmsProp32,
			Adam:     wideAdam32,
			AdamW:    wideAdamW32,
			Lion:     wideLion32,
			Adam16:   wideAdamNarrow32,
			AdamW16:  wideAdamWNarrow32,
			Adam8:    wideAdamBytes32,
			AdamW8:   wideAdamWBytes32,
		}
	case asm.AVX2:
		return &Kernels[float32]{
			SGD:      sgd32,
			Momentum: momentum32,
			Nesterov: nesterov32,
			RMSProp:  rmsProp32,
			Adam:     adam32,
			AdamW:    adamW32,
			Lion:     lion32,
			Adam16:   adamNarrow32,
			AdamW16:  adamWNarrow32,
			Adam8:    adamBytes32,
			AdamW8:   adamWBytes32,
		}
	}
	return goKernels[float32]()
}

// kernels64 returns the functions of a level for float64.
func kernels64(l asm.Level) *Kernels[float64] {
	switch l {
	case asm.AVX512:
		return &Kernels[float64]{
			SGD:      wideSgd64,
			Momentum: wideMomentum64,
			Nesterov: wideNesterov64,
			RMSProp:  wideRmsProp64,
			Adam:     wideAdam64,
			AdamW:    wideAdamW64,
			Lion:     wideLion64,
			Adam16:   goAdam16[float64],
			AdamW16:  goAdamW16[float64],
			Adam8:    goAdam8[float64],
			AdamW8:   goAdamW8[float64],
		}
	case asm.AVX2:
		return &Kernels[float64]{
			SGD:      sgd64,
			Momentum: momentum64,
			Nesterov: nesterov64,
			RMSProp:  rmsProp64,
			Adam:     adam64,
			AdamW:    adamW64,
			Lion:     lion64,
			Adam16:   goAdam16[float64],
			AdamW16:  goAdamW16[float64],
			Adam8:    goAdam8[float64],
			AdamW8:   goAdamW8[float64],
		}
	}
	return goKernels[float64]()
}

// factorPasses32 returns Adafactor's passes of a level for float32.
func factorPasses32(l asm.Level) *FactorPasses[float32] {
	switch l {
	case asm.AVX512:
		return &FactorPasses[float32]{wideFactorSquares32, wideFactorMeasure32, wideFactorApply32}
	case asm.AVX2:
		return &FactorPasses[float32]{factorSquares32, factorMeasure32, factorApply32}
	}
	return goFactorPasses[float32]()
}
