// Package norm holds the inner kernels of batch, group and layer normalization for float32 and float64.
//
// x̂ = (x - mean)·rstd with rstd = 1/√(variance + eps), y = x̂·gamma + beta. Batch and group
// normalization use kernels over planes ([PlaneKernels]): the n elements of one channel of one
// image. Layer normalization uses kernels over rows ([RowKernels]).
//
// zz_norm_amd64.s (AVX2 and AVX-512) is written by internal/gen/norm. plane_portable.go and row.go
// hold the Go twins. AVX2 and AVX-512 give the same bits.
package norm

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"

// Sizes that the assembly relies on.
const (
	MaxTile   = 64 // most channels of a call on planes of one element
	LaneBytes = 64 // bytes of the partial sums of one sum
)

// Places of a channel's parameters in PlaneArgs.Param.
const (
	ParamMean  = iota // sums are taken about it
	ParamScale        // y = scale·(x - mean) + shift
	ParamShift
	ParamRate // dx = rate·dy + slope·(x - mean) + bias
	ParamSlope
	ParamBias
	ParamExtreme     // 1: rstd is not Regular; kernels do not read it
	Params       = 8 // places of a channel
)

// PlaneArgs are the arguments of a kernel over planes of N elements: Channels neighbouring planes
// of each of Images images. The assembly reads the fields at fixed offsets.
type PlaneArgs[T asm.Float] struct {
	X, Dy, Y []T // from the first element on
	Param    []T // [channels][Params]; for N = 1 [Params][MaxTile]
	// [channels][2][LaneBytes], partial sums that a kernel adds to; for N = 1 [2][MaxTile].
	Sums     []T
	N        int // elements of a plane
	Channels int
	Images   int
	Stride   int // elements from image to image
	Relu     int // 1: y = max(0, ·), and dy counts as 0 unless scale·(x - mean) + shift > 0
}

// PlaneKernels are the kernels of a level over planes of one element type.
type PlaneKernels[T asm.Float] struct {
	Moments  func(c *PlaneArgs[T]) // Sums += Σ(x - mean), Σ(x - mean)²
	Products func(c *PlaneArgs[T]) // Sums += Σdy, Σdy·(x - mean)
	Scale    func(c *PlaneArgs[T]) // y = scale·(x - mean) + shift
	Gradient func(c *PlaneArgs[T]) // y = rate·dy + slope·(x - mean) + bias
	// For planes of one element, whose lanes are channels; nil in those themselves.
	columns *PlaneKernels[T]
}

// For returns the kernels for planes of n elements.
func (k *PlaneKernels[T]) For(n int) *PlaneKernels[T] {
	if n == 1 {
		return k.columns
	}
	return k
}

// PlanesAt returns the kernels of level l for T.
func PlanesAt[T asm.Float](l asm.Level) *PlaneKernels[T] {
	if k, ok := any(planes32(l)).(*PlaneKernels[T]); ok {
		return k
	}
	return any(planes64(l)).(*PlaneKernels[T])
}
