//go:build amd64 && !purego

package elementwise

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

//go:generate go -C ../../../../../internal/gen run ./elementwise -dir ../../kernels/cpu/internal/asm/elementwise

// kernels32 returns the functions of a level for float32.
func kernels32(l asm.Level) *Kernels[float32] {
	return [...]*Kernels[float32]{goFloat32, avx2Float32, avx512Float32}[l]
}

// kernels64 returns the functions of a level for float64.
func kernels64(l asm.Level) *Kernels[float64] {
	return [...]*Kernels[float64]{goFloat64, avx2Float64, avx512Float64}[l]
}

var avx2Float32 = &Kernels[float32]{
	unary: map[*kernels.Op]UnaryFunc[float32]{
		kernels.Neg: neg32AVX2, kernels.Abs: abs32AVX2, kernels.Sign: sign32AVX2, kernels.Square: square32AVX2,
		kernels.Cube: cube32AVX2, kernels.Inverse: inverse32AVX2, kernels.Sqrt: sqrt32AVX2,
		kernels.InverseSqrt: inverseSqrt32AVX2, kernels.Ceil: ceil32AVX2, kernels.Floor: floor32AVX2,
		kernels.ReLU: relu32AVX2, kernels.Exp: exp32AVX2, kernels.Sin: circular(sin32AVX2, math.Sin), kernels.Cos: circular(cos32AVX2, math.Cos), kernels.Expm1: expm132AVX2, kernels.Log: log32AVX2,
		kernels.Log2: log232AVX2, kernels.Log1p: log1p32AVX2, kernels.Sigmoid: sigmoid32AVX2, kernels.Tanh: tanh32AVX2,
		kernels.Softplus: softplus32AVX2, kernels.Erf: erf32AVX2,
	},
	binary: map[*kernels.Op]BinaryFunc[float32]{
		kernels.Add: add32AVX2, kernels.Pow: pow32AVX2, kernels.Sub: sub32AVX2, kernels.Mul: mul32AVX2, kernels.Div: div32AVX2,
		kernels.Less: less32AVX2, kernels.LessEqual: lessEqual32AVX2, kernels.Equal: equal32AVX2,
		kernels.NotEqual: notEqual32AVX2, kernels.ReLUGrad: reluGrad32AVX2, kernels.SigmoidGrad: sigmoidGrad32AVX2,
		kernels.TanhGrad: tanhGrad32AVX2, kernels.Maximum: maximum32AVX2, kernels.Minimum: minimum32AVX2,
	},
	affine: affine32AVX2, leakyReLU: leakyRelu32AVX2, leakyReLUGrad: leakyReluGrad32AVX2, Fill: fill32AVX2, Max: max32AVX2, decode: decodeAVX2, Chain: chain32AVX2,
}

var avx2Float64 = &Kernels[float64]{
	unary: map[*kernels.Op]UnaryFunc[float64]{
		kernels.Neg: neg64AVX2, kernels.Abs: abs64AVX2, kernels.Sign: sign64AVX2, kernels.Square: square64AVX2,
		kernels.Cube: cube64AVX2, kernels.Inverse: inverse64AVX2, kernels.Sqrt: sqrt64AVX2,
		kernels.InverseSqrt: inverseSqrt64AVX2, kernels.Ceil: ceil64AVX2, kernels.Floor: floor64AVX2,
		kernels.ReLU: relu64AVX2,
	},
	binary: map[*kernels.Op]BinaryFunc[float64]{
		kernels.Add: add64AVX2, kernels.Sub: sub64AVX2, kernels.Mul: mul64AVX2, kernels.Div: div64AVX2,
		kernels.Less: less64AVX2, kernels.LessEqual: lessEqual64AVX2, kernels.Equal: equal64AVX2,
		kernels.NotEqual: notEqual64AVX2, kernels.ReLUGrad: reluGrad64AVX2, kernels.SigmoidGrad: sigmoidGrad64AVX2,
		kernels.TanhGrad: tanhGrad64AVX2, kernels.Maximum: maximum64AVX2, kernels.Minimum: minimum64AVX2,
	},
	affine: affine64AVX2, leakyReLU: leakyRelu64AVX2, leakyReLUGrad: leakyReluGrad64AVX2, Fill: fill64AVX2, Max: max64AVX2,
}

var avx512Float32 = &Kernels[float32]{
	unary: map[*kernels.Op]UnaryFunc[float32]{
		kernels.Neg: neg32AVX512, kernels.Abs: abs32AVX512, kernels.Sign: sign32AVX512, kernels.Square: square32AVX512,
		kernels.Cube: cube32AVX512, kernels.Inverse: inverse32AVX512, kernels.Sqrt: sqrt32AVX512,
		kernels.InverseSqrt: inverseSqrt32AVX512, kernels.Ceil: ceil32AVX512, kernels.Floor: floor32AVX512,
		kernels.ReLU: relu32AVX512, kernels.Exp: exp32AVX512, kernels.Sin: circular(sin32AVX512, math.Sin), kernels.Cos: circular(cos32AVX512, math.Cos), kernels.Expm1: expm132AVX512, kernels.Log: log32AVX512,
		kernels.Log2: log232AVX512, kernels.Log1p: log1p32AVX512, kernels.Sigmoid: sigmoid32AVX512,
		kernels.Tanh: tanh32AVX512, kernels.Softplus: softplus32AVX512, kernels.Erf: erf32AVX512,
	},
	binary: map[*kernels.Op]BinaryFunc[float32]{
		kernels.Add: add32AVX512, kernels.Pow: pow32AVX512, kernels.Sub: sub32AVX512, kernels.Mul: mul32AVX512, kernels.Div: div32AVX512,
		kernels.Less: less32AVX512, kernels.LessEqual: lessEqual32AVX512, kernels.Equal: equal32AVX512,
		kernels.NotEqual: notEqual32AVX512, kernels.ReLUGrad: reluGrad32AVX512, kernels.SigmoidGrad: sigmoidGrad32AVX512,
		kernels.TanhGrad: tanhGrad32AVX512, kernels.Maximum: maximum32AVX512, kernels.Minimum: minimum32AVX512,
	},
	affine: affine32AVX512, leakyReLU: leakyRelu32AVX512, leakyReLUGrad: leakyReluGrad32AVX512, Fill: fill32AVX512, Max: max32AVX512, decode: decodeAVX512, Chain: chain32AVX512,
}

var avx512Float64 = &Kernels[float64]{
	unary: map[*kernels.Op]UnaryFunc[float64]{
		kernels.Neg: neg64AVX512, kernels.Abs: abs64AVX512, kernels.Sign: sign64AVX512, kernels.Square: square64AVX512,
		kernels.Cube: cube64AVX512, kernels.Inverse: inverse64AVX512, kernels.Sqrt: sqrt64AVX512,
		kernels.InverseSqrt: inverseSqrt64AVX512, kernels.Ceil: ceil64AVX512, kernels.Floor: floor64AVX512,
		kernels.ReLU: relu64AVX512,
	},
	binary: map[*kernels.Op]BinaryFunc[float64]{
		kernels.Add: add64AVX512, kernels.Sub: sub64AVX512, kernels.Mul: mul64AVX512, kernels.Div: div64AVX512,
		kernels.Less: less64AVX512, kernels.LessEqual: lessEqual64AVX512, kernels.Equal: equal64AVX512,
		kernels.NotEqual: notEqual64AVX512, kernels.ReLUGrad: reluGrad64AVX512, kernels.SigmoidGrad: sigmoidGrad64AVX512,
		kernels.TanhGrad: tanhGrad64AVX512, kernels.Maximum: maximum64AVX512, kernels.Minimum: minimum64AVX512,
	},
	affine: affine64AVX512, leakyReLU: leakyRelu64AVX512, leakyReLUGrad: leakyReluGrad64AVX512, Fill: fill64AVX512, Max: max64AVX512,
}

// softmax32 returns the row functions of a level for float32.
func softmax32(l asm.Level) *SoftmaxKernels[float32] {
	return [...]*SoftmaxKernels[float32]{&goSoftmax32, &avx2Softmax32, &avx512Softmax32}[l]
}

var avx2Softmax32 = SoftmaxKernels[float32]{
	Softmax:               softmaxRows32AVX2,
	LogSoftmax:            logSoftmaxRows32AVX2,
	SoftmaxGrad:           softmaxGradRows32AVX2,
	LogSoftmaxGrad:        logSoftmaxGradRows32AVX2,
	CrossEntropy:          crossEntropyRows32AVX2,
	CrossEntropyGrad:      crossEntropyGradRows32AVX2,
	CrossEntropyDense:     crossEntropyDenseRows32AVX2,
	CrossEntropyDenseGrad: crossEntropyDenseGradRows32AVX2,
}

var avx512Softmax32 = SoftmaxKernels[float32]{
	Softmax:               softmaxRows32AVX512,
	LogSoftmax:            logSoftmaxRows32AVX512,
	SoftmaxGrad:           softmaxGradRows32AVX512,
	LogSoftmaxGrad:        logSoftmaxGradRows32AVX512,
	CrossEntropy:          crossEntropyRows32AVX512,
	CrossEntropyGrad:      crossEntropyGradRows32AVX512,
	CrossEntropyDense:     crossEntropyDenseRows32AVX512,
	CrossEntropyDenseGrad: crossEntropyDenseGradRows32AVX512,
}

// circular completes a sine or cosine: f returns true where it left elements beyond ±2^30, as
// values outside of -1..1. exact computes those.
func circular(f func(dst, a []float32) bool, exact func(float64) float64) UnaryFunc[float32] {
	return func(dst, a []float32) {
		if !f(dst, a) {
			return
		}
		for i, v := range dst {
			if !(v >= -1 && v <= 1) {
				dst[i] = float32(exact(float64(v)))
			}
		}
	}
}
