package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// Convolution of x [B, C, H, W] with w [O, C/Groups, KH, KW] to y [B, O, OH, OW], and its gradients
// by x and by w. There are three algorithms:
//
//	conv_depth.go     one channel and one output a group: each channel is convolved with its own kernel
//	conv_winograd.go  large groups, 3x3, stride 1: F(2x2, 3x3)
//	conv_matmul.go    all others: implicit im2col, a matrix product for each image and group (conv_weight.go for the gradient by w)
//
// Work is split over threads by images, groups, panels of pixels and rows of outputs. Inner kernels
// are those of internal/asm/conv and gemm.

// convMinFlops is the least work that is worth a second thread: it takes some 5 µs.
const convMinFlops = 400_000

// A convolution is the geometry that the three operations share.
type convolution struct {
	kernels               *gemm.Kernels
	b, c, o               int
	in, kernel, out       [2]int // H W, KH KW, OH OW
	stride, pad, dilation [2]int
	groups                int
	cg, og                int // channels and outputs of a group

	rounded         bool            // the two operands are rounded, as follows:
	packings        [2]gemm.Packing // how kernels packs each
	packingsFloat32 [2]gemm.Packing // the same for products in float32
	sizes           [2]int          // bytes of their elements as stored
}

// newConvolution returns the geometry of a call of op. in and out are its operands: (x, w) → y, (w,
// dy) → dx or (x, dy) → dw.
func newConvolution(d *Device, op *kernels.Op, attrs any, in, out []kernels.Spec) convolution {
	var v convolution
	var x, w, y kernels.Shape
	// The operands of each operation: forward (x, w) → y; gradients (w, dy) → dx and (x, dy) → dw.
	switch a := attrs.(type) {
	case kernels.ConvAttrs:
		v = convolution{stride: a.Stride, pad: a.Pad, dilation: a.Dilation, groups: a.Groups}
		x, w, y = in[0].Shape, in[1].Shape, out[0].Shape
	case kernels.ConvGradAttrs:
		v = convolution{stride: a.Stride, pad: a.Pad, dilation: a.Dilation, groups: a.Groups}
		x, w, y = out[0].Shape, in[0].Shape, in[1].Shape
		if op == kernels.ConvGradWeight {
			x, w = w, x
		}
	}
	v.kernels, v.b, v.c, v.o = d.products(attrs, out[0].Type), x[0], x[1], w[0]
	v.in, v.kernel, v.out = [2]int(x[2:]), [2]int(w[2:]), [2]int(y[2:])
	v.cg, v.og = v.c/v.groups, v.o/v.groups
	v.setRounding(kernels.ComputeTypeOf(attrs), in)
	return v
}

// setRounding sets how the operands are rounded to a type. 0: they are not rounded.
func (v *convolution) setRounding(to arena.DType, in []kernels.Spec) {
	v.rounded = to != 0
	for i := range v.sizes {
		v.sizes[i] = int(in[i].Type.Size())
		if v.rounded {
			v.packings[i], v.packingsFloat32[i] = v.kernels.Rounding(to).From(in[i].Type), v.kernels.Single().Rounding(to).From(in[i].Type)
		}
	}
}

// useFloat32 makes the convolution multiply float32 instead of pairs of bfloat16.
func (v *convolution) useFloat32() {
	v.kernels, v.packings = v.kernels.Single(), v.packingsFloat32
}

// setConversion makes patches of operand i convert pixels before they are packed, where that is
// needed: packing reads float32, and a depthwise convolution packs nothing that could be rounded
// afterwards.
func (v *convolution) setConversion(q *patches, i int) {
	if v.rounded && v.depthwise() && v.useBand(q, i) {
		return
	}
	if v.rounded && (v.sizes[i] == 2 || v.depthwise()) {
		q.useStage(v.packingsFloat32[i].Across)
	}
}

// packedRounding returns how patches of operand i are rounded after they were packed as float32.
// Its functions are nil where nothing is left to do.
func (v *convolution) packedRounding(i int) gemm.Packing {
	switch {
	case v.kernels.StepsPerElem() == 2 && v.rounded:
		return v.kernels.BFloat16.FromFloat32
	case v.sizes[i] == gemm.PackedSize:
		return v.packingsFloat32[i]
	}
	return gemm.Packing{}
}

// taps returns the number of elements of the kernel.
func (v *convolution) taps() int { return v.kernel[0] * v.kernel[1] }

// flops returns the floating-point operations of each of the three operations.
func (v *convolution) flops() float64 {
	return 2 * float64(v.b) * float64(v.out[0]*v.out[1]) * float64(v.o) * float64(v.cg*v.taps())
}

// workers returns how many workers take part: all threads, or one where there is too little to do.
// It never shrinks as a size grows.
func (v *convolution) workers(threads int) int {
	if v.flops() < convMinFlops {
		return 1
	}
	return threads
}

// patches returns the windows of y over x, which is operand 0.
func (v *convolution) patches() patches {
	var a [2]axis
	for i := range a {
		at := make([]int, v.kernel[i])
		for k := range at {
			at[k] = k*v.dilation[i] - v.pad[i]
		}
		a[i] = newAxis(v.in[i], v.out[i], v.stride[i], at)
	}
	q := newPatches(a[0], a[1], v.sizes[0], v.in[1], v.in[0], v.c)
	v.setConversion(&q, 0)
	return q
}

// A residue is the pixels of x along one axis that are congruent modulo the stride: the same taps
// of the kernel reach all of them.
type residue struct {
	first, n int
	taps     []int // of the kernel, increasing
	at       []int // by tap: the element of y that it multiplies for pixel 0
}

// residues returns the residues of x along axis i.
func (v *convolution) residues(i int) []residue {
	var all []residue
	// Tap k reaches pixel first of x from the element of y at (first + pad - k·dilation)/stride, if
	// that divides.
	for first := range min(v.stride[i], v.in[i]) {
		r := residue{first: first, n: ceilDiv(v.in[i]-first, v.stride[i])}
		for k := range v.kernel[i] {
			if at := first + v.pad[i] - k*v.dilation[i]; at%v.stride[i] == 0 {
				r.taps, r.at = append(r.taps, k), append(r.at, at/v.stride[i])
			}
		}
		all = append(all, r)
	}
	return all
}
