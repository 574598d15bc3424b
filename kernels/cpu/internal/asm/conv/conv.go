// Package conv holds the inner kernels of convolutions for float32 and float64. Products of
// matrices in between are package gemm's.
//
// A convolution is a product of matrices, one of which is packed from the image as it is needed
// (implicit im2col: Chetlur et al., cuDNN: Efficient Primitives for Deep Learning, 2014, §3.1). The
// kernels here
//
//   - pack vectors of pixels as rows of that matrix ([Patch]);
//   - convolve each channel with its own kernel, or sum the gradient of such kernels ([Depthwise]);
//   - add a bias to rows of the result and apply ReLU ([Epilogue]);
//   - transform tiles for F(2x2, 3x3) (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015, §4.1)
//     ([WinogradInput], [WinogradRows], [WinogradWeight], [WinogradOutput], [WinogradTurned]).
//
// zz_conv_amd64.s (AVX2 and AVX-512) is written by internal/gen/conv. The Go twins lie next to
// their argument structs; all give the same bits.
package conv

import (
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// Kernels are the functions of convolutions that work with one set of tile kernels.
type Kernels struct {
	Lanes    int // pixels of a vector, at most MaxLanes
	Epilogue func(e *Epilogue)
	// Normalize subtracts a mean from each row of a result, multiplies by a scale and adds a shift.
	Normalize func(e *Epilogue)

	// By kind of load. Nil: the Go twin.
	patches       [loadKinds]func(t *Patch)
	depthwise     [loadKinds]func(t *Depthwise)
	depthwiseGrad [loadKinds]func(t *Depthwise)

	WinogradInput  func(w *WinogradInput)
	WinogradWeight func(w *WinogradWeight)
	WinogradOutput func(w *WinogradOutput)
	WinogradTurned func(w *WinogradTurned)
	WinogradRows   func(w *WinogradRows) // nil: rows are transformed by WinogradInput
}

// LoadKind returns how a vector of pixels is loaded where rows have n pixels that lie step elements
// apart, and images have image elements. For LoadGather the caller fills Patch.Lanes. A result
// below 0 selects the Go twins.
func (k *Kernels) LoadKind(step, n, image int) int {
	const far = 1 << 31 / MaxLanes // elements from image to image: Patch.Lanes reaches no further
	kind := LoadGather
	if step <= 2 && n > 1 && k.patches[step-1] != nil {
		kind = step - 1 // loadContiguous, loadStride2
	}
	if k.patches[kind] == nil || kind == LoadGather && image >= far {
		return -1
	}
	return kind
}

// Pack returns the function that packs vectors of pixels of a kind of load: elements of size bytes,
// step elements apart.
func (k *Kernels) Pack(kind, size, step int) func(t *Patch) {
	if kind >= 0 {
		return k.patches[kind]
	}
	return goPatch(size, step)
}

// Depthwise returns the function that convolves, or with weights the one that sums the gradient of
// the kernels, and the most pixels of a call: a divisor of the lanes of a sum. Elements have size
// bytes and pixels lie step elements apart.
func (k *Kernels) Depthwise(kind, size, step int, weights bool) (f func(t *Depthwise), lanes int) {
	switch {
	case kind >= 0 && weights:
		return k.depthwiseGrad[kind], k.Lanes
	case kind >= 0:
		return k.depthwise[kind], k.Lanes
	case size == 4:
		return func(t *Depthwise) { goDepthwise[float32](t, size, step, weights) }, SumBytes / size
	}
	return func(t *Depthwise) { goDepthwise[float64](t, size, step, weights) }, SumBytes / size
}

// portable returns the Go twins for the tiles of s.
func portable(s *gemm.Kernels) *Kernels {
	if s.Size() == 8 {
		return portableOf[float64](s)
	}
	return portableOf[float32](s)
}

// portableOf is portable for one type.
func portableOf[T asm.Float](s *gemm.Kernels) *Kernels {
	return &Kernels{Lanes: min(s.Cols, MaxLanes), Epilogue: goEpilogue[T], Normalize: goNormalize[T],
		WinogradInput: goWinoInput[T], WinogradWeight: goWinoWeight[T], WinogradOutput: goWinoOutput[T],
		WinogradTurned: goWinoTurned[T](min(s.Cols, MaxLanes)), WinogradRows: goWinoRows[T]}
}
