package cpu

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// The portable functions, which are also those of ops that have no assembly.
var (
	goVectors32 = newGoVectors(map[*kernels.Op]unaryFunc[float32]{
		kernels.Relu: relu32Tile, kernels.Abs: abs32Tile, kernels.Exp: exp32Tile, kernels.Log: log32Tile,
		kernels.Sigmoid: sigmoid32Tile, kernels.Tanh: tanh32Tile, kernels.Softplus: softplus32Tile,
	}, leakyRelu32Tile)
	goVectors64 = newGoVectors(map[*kernels.Op]unaryFunc[float64]{
		kernels.Relu: relu64Tile, kernels.Abs: mathTile[float64](math.Abs), kernels.Exp: mathTile[float64](math.Exp),
		kernels.Log: mathTile[float64](math.Log), kernels.Sigmoid: mathTile[float64](sigmoid64),
		kernels.Tanh: mathTile[float64](math.Tanh), kernels.Softplus: mathTile[float64](softplus),
	}, leakyRelu64Tile)
)

// goVectors returns the portable functions.
func goVectors[T float]() *vectors[T] { return vectorsAt[T](asm.Portable) }

// newGoVectors adds what is written for both types to what is not.
func newGoVectors[T float](unary map[*kernels.Op]unaryFunc[T], leakyRelu func(dst, a []T, slope T)) *vectors[T] {
	for op, f := range map[*kernels.Op]unaryFunc[T]{
		kernels.Neg: negTile[T], kernels.Square: squareTile[T], kernels.Cube: cubeTile[T], kernels.Inverse: inverseTile[T],
		kernels.Sqrt: sqrtTile[T], kernels.InverseSqrt: inverseSqrtTile[T], kernels.Sign: signTile[T],
	} {
		unary[op] = f
	}
	for op, f := range unaryMath {
		unary[op] = mathTile[T](f)
	}
	return &vectors[T]{
		unary: unary,
		binary: map[*kernels.Op]binaryFunc[T]{
			kernels.Add: addTile[T], kernels.Sub: subTile[T], kernels.Mul: mulTile[T], kernels.Div: divTile[T],
			kernels.Pow: powTile[T], kernels.Less: lessTile[T], kernels.LessEqual: lessEqualTile[T],
			kernels.Equal: equalTile[T], kernels.NotEqual: notEqualTile[T], kernels.ReluGrad: reluGradTile[T],
			kernels.SigmoidGrad: sigmoidGradTile[T], kernels.TanhGrad: tanhGradTile[T],
		},
		affine: affineTile[T], leakyRelu: leakyRelu, leakyReluGrad: leakyReluGradTile[T], fill: asm.Fill[T], max: maxTile[T],
	}
}
