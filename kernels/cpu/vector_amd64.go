//go:build amd64 && !purego

package cpu

import (
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

//go:generate go -C ../../internal/gen run ./elementwise -dir ../../kernels/cpu

// vectors32 returns the float32 functions of a level.
func vectors32(l asm.Level) *vectors[float32] {
	return [...]*vectors[float32]{goVectors32, avx2Vectors32, avx512Vectors32}[l]
}

// vectors64 returns the float64 functions of a level.
func vectors64(l asm.Level) *vectors[float64] {
	return [...]*vectors[float64]{goVectors64, avx2Vectors64, avx512Vectors64}[l]
}

var avx2Vectors32 = &vectors[float32]{
	unary: map[*kernels.Op]unaryFunc[float32]{
		kernels.Neg: neg32AVX2, kernels.Abs: abs32AVX2, kernels.Sign: sign32AVX2, kernels.Square: square32AVX2,
		kernels.Cube: cube32AVX2, kernels.Inverse: inverse32AVX2, kernels.Sqrt: sqrt32AVX2,
		kernels.InverseSqrt: inverseSqrt32AVX2, kernels.Ceil: ceil32AVX2, kernels.Floor: floor32AVX2,
		kernels.Relu: relu32AVX2, kernels.Exp: exp32AVX2, kernels.Sin: circular(sin32AVX2, math.Sin), kernels.Cos: circular(cos32AVX2, math.Cos), kernels.Expm1: expm132AVX2, kernels.Log: log32AVX2,
		kernels.Log2: log232AVX2, kernels.Log1p: log1p32AVX2, kernels.Sigmoid: sigmoid32AVX2, kernels.Tanh: tanh32AVX2,
		kernels.Softplus: softplus32AVX2,
	},
	binary: map[*kernels.Op]binaryFunc[float32]{
		kernels.Add: add32AVX2, kernels.Pow: pow32AVX2, kernels.Sub: sub32AVX2, kernels.Mul: mul32AVX2, kernels.Div: div32AVX2,
		kernels.Less: less32AVX2, kernels.LessEqual: lessEqual32AVX2, kernels.Equal: equal32AVX2,
		kernels.NotEqual: notEqual32AVX2, kernels.ReluGrad: reluGrad32AVX2, kernels.SigmoidGrad: sigmoidGrad32AVX2,
		kernels.TanhGrad: tanhGrad32AVX2,
	},
	affine: affine32AVX2, leakyRelu: leakyRelu32AVX2, leakyReluGrad: leakyReluGrad32AVX2, fill: fill32AVX2, max: max32AVX2, decode: decodeAVX2, chain: chain32AVX2,
}

var avx2Vectors64 = &vectors[float64]{
	unary: map[*kernels.Op]unaryFunc[float64]{
		kernels.Neg: neg64AVX2, kernels.Abs: abs64AVX2, kernels.Sign: sign64AVX2, kernels.Square: square64AVX2,
		kernels.Cube: cube64AVX2, kernels.Inverse: inverse64AVX2, kernels.Sqrt: sqrt64AVX2,
		kernels.InverseSqrt: inverseSqrt64AVX2, kernels.Ceil: ceil64AVX2, kernels.Floor: floor64AVX2,
		kernels.Relu: relu64AVX2,
	},
	binary: map[*kernels.Op]binaryFunc[float64]{
		kernels.Add: add64AVX2, kernels.Sub: sub64AVX2, kernels.Mul: mul64AVX2, kernels.Div: div64AVX2,
		kernels.Less: less64AVX2, kernels.LessEqual: lessEqual64AVX2, kernels.Equal: equal64AVX2,
		kernels.NotEqual: notEqual64AVX2, kernels.ReluGrad: reluGrad64AVX2, kernels.SigmoidGrad: sigmoidGrad64AVX2,
		kernels.TanhGrad: tanhGrad64AVX2,
	},
	affine: affine64AVX2, leakyRelu: leakyRelu64AVX2, leakyReluGrad: leakyReluGrad64AVX2, fill: fill64AVX2, max: max64AVX2,
}

var avx512Vectors32 = &vectors[float32]{
	unary: map[*kernels.Op]unaryFunc[float32]{
		kernels.Neg: neg32AVX512, kernels.Abs: abs32AVX512, kernels.Sign: sign32AVX512, kernels.Square: square32AVX512,
		kernels.Cube: cube32AVX512, kernels.Inverse: inverse32AVX512, kernels.Sqrt: sqrt32AVX512,
		kernels.InverseSqrt: inverseSqrt32AVX512, kernels.Ceil: ceil32AVX512, kernels.Floor: floor32AVX512,
		kernels.Relu: relu32AVX512, kernels.Exp: exp32AVX512, kernels.Sin: circular(sin32AVX512, math.Sin), kernels.Cos: circular(cos32AVX512, math.Cos), kernels.Expm1: expm132AVX512, kernels.Log: log32AVX512,
		kernels.Log2: log232AVX512, kernels.Log1p: log1p32AVX512, kernels.Sigmoid: sigmoid32AVX512,
		kernels.Tanh: tanh32AVX512, kernels.Softplus: softplus32AVX512,
	},
	binary: map[*kernels.Op]binaryFunc[float32]{
		kernels.Add: add32AVX512, kernels.Pow: pow32AVX512, kernels.Sub: sub32AVX512, kernels.Mul: mul32AVX512, kernels.Div: div32AVX512,
		kernels.Less: less32AVX512, kernels.LessEqual: lessEqual32AVX512, kernels.Equal: equal32AVX512,
		kernels.NotEqual: notEqual32AVX512, kernels.ReluGrad: reluGrad32AVX512, kernels.SigmoidGrad: sigmoidGrad32AVX512,
		kernels.TanhGrad: tanhGrad32AVX512,
	},
	affine: affine32AVX512, leakyRelu: leakyRelu32AVX512, leakyReluGrad: leakyReluGrad32AVX512, fill: fill32AVX512, max: max32AVX512, decode: decodeAVX512, chain: chain32AVX512,
}

var avx512Vectors64 = &vectors[float64]{
	unary: map[*kernels.Op]unaryFunc[float64]{
		kernels.Neg: neg64AVX512, kernels.Abs: abs64AVX512, kernels.Sign: sign64AVX512, kernels.Square: square64AVX512,
		kernels.Cube: cube64AVX512, kernels.Inverse: inverse64AVX512, kernels.Sqrt: sqrt64AVX512,
		kernels.InverseSqrt: inverseSqrt64AVX512, kernels.Ceil: ceil64AVX512, kernels.Floor: floor64AVX512,
		kernels.Relu: relu64AVX512,
	},
	binary: map[*kernels.Op]binaryFunc[float64]{
		kernels.Add: add64AVX512, kernels.Sub: sub64AVX512, kernels.Mul: mul64AVX512, kernels.Div: div64AVX512,
		kernels.Less: less64AVX512, kernels.LessEqual: lessEqual64AVX512, kernels.Equal: equal64AVX512,
		kernels.NotEqual: notEqual64AVX512, kernels.ReluGrad: reluGrad64AVX512, kernels.SigmoidGrad: sigmoidGrad64AVX512,
		kernels.TanhGrad: tanhGrad64AVX512,
	},
	affine: affine64AVX512, leakyRelu: leakyRelu64AVX512, leakyReluGrad: leakyReluGrad64AVX512, fill: fill64AVX512, max: max64AVX512,
}

// softmax32 returns the functions of rows of float32 of a level.
func softmax32(l asm.Level) *softmaxKernels[float32] {
	return [...]*softmaxKernels[float32]{&goSoftmax32, &avx2Softmax32, &avx512Softmax32}[l]
}

var avx2Softmax32 = softmaxKernels[float32]{
	softmax:               softmaxRows32AVX2,
	logSoftmax:            logSoftmaxRows32AVX2,
	softmaxGrad:           softmaxGradRows32AVX2,
	logSoftmaxGrad:        logSoftmaxGradRows32AVX2,
	crossEntropy:          crossEntropyRows32AVX2,
	crossEntropyGrad:      crossEntropyGradRows32AVX2,
	crossEntropyDense:     crossEntropyDenseRows32AVX2,
	crossEntropyDenseGrad: crossEntropyDenseGradRows32AVX2,
}

var avx512Softmax32 = softmaxKernels[float32]{
	softmax:               softmaxRows32AVX512,
	logSoftmax:            logSoftmaxRows32AVX512,
	softmaxGrad:           softmaxGradRows32AVX512,
	logSoftmaxGrad:        logSoftmaxGradRows32AVX512,
	crossEntropy:          crossEntropyRows32AVX512,
	crossEntropyGrad:      crossEntropyGradRows32AVX512,
	crossEntropyDense:     crossEntropyDenseRows32AVX512,
	crossEntropyDenseGrad: crossEntropyDenseGradRows32AVX512,
}

// circular computes what f has left, beyond 2^30, by its definition: there the results of f are not in -1..1.
func circular(f func(dst, a []float32) bool, exact func(float64) float64) unaryFunc[float32] {
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

// decodeAVX2 returns the function for stored elements of type t, nil where there is none.
func decodeAVX2(t arena.DType, scale, shift float64) decodeFunc[float32] {
	switch t {
	case arena.Uint8:
		return decodeBy(decodeUint8To32AVX2, scale, shift)
	case arena.Int32:
		return decodeBy(decodeInt32To32AVX2, scale, shift)
	case arena.Float32:
		return decodeBy(decodeFloat32To32AVX2, scale, shift)
	case arena.Float64:
		return decodeBy(decodeFloat64To32AVX2, scale, shift)
	case arena.Bfloat16, arena.Float16:
		return decodeWidened(half.At(asm.AVX2, t).Widen, decodeBy(decodeFloat32To32AVX2, scale, shift), scale == 1 && shift == 0)
	}
	return nil
}

// decodeAVX512 returns the function for stored elements of type t, nil where there is none.
func decodeAVX512(t arena.DType, scale, shift float64) decodeFunc[float32] {
	switch t {
	case arena.Uint8:
		return decodeBy(decodeUint8To32AVX512, scale, shift)
	case arena.Int32:
		return decodeBy(decodeInt32To32AVX512, scale, shift)
	case arena.Float32:
		return decodeBy(decodeFloat32To32AVX512, scale, shift)
	case arena.Float64:
		return decodeBy(decodeFloat64To32AVX512, scale, shift)
	case arena.Bfloat16, arena.Float16:
		return decodeWidened(half.At(asm.AVX512, t).Widen, decodeBy(decodeFloat32To32AVX512, scale, shift), scale == 1 && shift == 0)
	}
	return nil
}

// decodeBy decodes eights by f, and the rest one by one.
func decodeBy[S uint8 | int32 | float32 | float64](f func(dst []float32, src []S, scale, shift float64), scale, shift float64) decodeFunc[float32] {
	return func(dst []float32, src []byte) {
		s, n := asm.View[S](src), len(dst)&^7
		f(dst[:n], s[:n], scale, shift)
		for i, v := range s[n:] {
			dst[n+i] = float32(float64(scale*float64(v)) + shift)
		}
	}
}

// decodeWidened widens 16 bits, and decodes the float32s in place unless they are what is wanted.
func decodeWidened(widen half.ConvertFunc, decode decodeFunc[float32], plain bool) decodeFunc[float32] {
	return func(dst []float32, src []byte) {
		to := asm.Bytes(dst)
		widen(to, src, 1, 0, len(dst), 0)
		if !plain {
			decode(dst, to)
		}
	}
}
