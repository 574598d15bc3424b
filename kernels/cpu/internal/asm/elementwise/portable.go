package elementwise

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// The Go twins.
var (
	goFloat32 = newGoKernels(map[*kernels.Op]UnaryFunc[float32]{
		kernels.ReLU: relu32Tile, kernels.Abs: abs32Tile, kernels.Exp: exp32Tile, kernels.Log: log32Tile,
		kernels.Sigmoid: sigmoid32Tile, kernels.Tanh: tanh32Tile, kernels.Softplus: softplus32Tile,
	}, leakyRelu32Tile)
	goFloat64 = newGoKernels(map[*kernels.Op]UnaryFunc[float64]{
		kernels.ReLU: relu64Tile, kernels.Abs: Map[float64](math.Abs), kernels.Exp: Map[float64](math.Exp),
		kernels.Log: Map[float64](math.Log), kernels.Sigmoid: Map[float64](sigmoid64),
		kernels.Tanh: Map[float64](math.Tanh), kernels.Softplus: Map[float64](softplus),
	}, leakyRelu64Tile)
)

// goKernels returns the Go twins for T.
func goKernels[T asm.Float]() *Kernels[T] { return At[T](asm.Portable) }

// newGoKernels completes unary and leakyRelu, which are written for one type, by the functions that
// are generic.
func newGoKernels[T asm.Float](unary map[*kernels.Op]UnaryFunc[T], leakyRelu func(dst, a []T, slope T)) *Kernels[T] {
	for op, f := range map[*kernels.Op]UnaryFunc[T]{
		kernels.Neg: negTile[T], kernels.Square: squareTile[T], kernels.Cube: cubeTile[T], kernels.Inverse: inverseTile[T],
		kernels.Sqrt: sqrtTile[T], kernels.InverseSqrt: inverseSqrtTile[T], kernels.Sign: signTile[T],
	} {
		unary[op] = f
	}
	for op, f := range unaryMath {
		unary[op] = Map[T](f)
	}
	return &Kernels[T]{
		unary: unary,
		binary: map[*kernels.Op]BinaryFunc[T]{
			kernels.Add: addTile[T], kernels.Sub: subTile[T], kernels.Mul: mulTile[T], kernels.Div: divTile[T],
			kernels.Pow: powTile[T], kernels.Less: lessTile[T], kernels.LessEqual: lessEqualTile[T],
			kernels.Equal: equalTile[T], kernels.NotEqual: notEqualTile[T], kernels.ReLUGrad: reluGradTile[T],
			kernels.SigmoidGrad: sigmoidGradTile[T], kernels.TanhGrad: tanhGradTile[T],
			kernels.Maximum: maximumTile[T], kernels.Minimum: minimumTile[T],
		},
		affine: affineTile[T], leakyReLU: leakyRelu, leakyReLUGrad: leakyReluGradTile[T], Fill: asm.Fill[T], Max: maxTile[T],
	}
}
