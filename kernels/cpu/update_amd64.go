//go:build amd64 && !purego

package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

//go:generate go -C ../../internal/gen run ./update -dir ../../kernels/cpu

// rules32 returns the rules of float32 of a level.
func rules32(l asm.Level) *rules[float32] {
	switch l {
	case asm.AVX512:
		return &rules[float32]{
			sgd:      wideSgd32,
			momentum: wideMomentum32,
			nesterov: wideNesterov32,
			rmsProp:  wideRmsProp32,
			adam:     wideAdam32,
			adamW:    wideAdamW32,
			lion:     wideLion32,
			adam16:   wideAdamNarrow32,
			adamW16:  wideAdamWNarrow32,
			adam8:    wideAdamBytes32,
			adamW8:   wideAdamWBytes32,
		}
	case asm.AVX2:
		return &rules[float32]{
			sgd:      sgd32,
			momentum: momentum32,
			nesterov: nesterov32,
			rmsProp:  rmsProp32,
			adam:     adam32,
			adamW:    adamW32,
			lion:     lion32,
			adam16:   adamNarrow32,
			adamW16:  adamWNarrow32,
			adam8:    adamBytes32,
			adamW8:   adamWBytes32,
		}
	}
	return goRules[float32]()
}

// rules64 returns the rules of float64 of a level.
func rules64(l asm.Level) *rules[float64] {
	switch l {
	case asm.AVX512:
		return &rules[float64]{
			sgd:      wideSgd64,
			momentum: wideMomentum64,
			nesterov: wideNesterov64,
			rmsProp:  wideRmsProp64,
			adam:     wideAdam64,
			adamW:    wideAdamW64,
			lion:     wideLion64,
			adam16:   goAdam16[float64],
			adamW16:  goAdamW16[float64],
			adam8:    goAdam8[float64],
			adamW8:   goAdamW8[float64],
		}
	case asm.AVX2:
		return &rules[float64]{
			sgd:      sgd64,
			momentum: momentum64,
			nesterov: nesterov64,
			rmsProp:  rmsProp64,
			adam:     adam64,
			adamW:    adamW64,
			lion:     lion64,
			adam16:   goAdam16[float64],
			adamW16:  goAdamW16[float64],
			adam8:    goAdam8[float64],
			adamW8:   goAdamW8[float64],
		}
	}
	return goRules[float64]()
}

// factorPasses32 returns the passes of Adafactor over float32 of a level.
func factorPasses32(l asm.Level) *factorPasses[float32] {
	switch l {
	case asm.AVX512:
		return &factorPasses[float32]{wideFactorSquares32, wideFactorMeasure32, wideFactorApply32}
	case asm.AVX2:
		return &factorPasses[float32]{factorSquares32, factorMeasure32, factorApply32}
	}
	return goFactorPasses[float32]()
}
