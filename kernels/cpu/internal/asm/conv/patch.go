package conv

import (
	"math/bits"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// MaxLanes is the most pixels of a vector. The assembly relies on it.
const MaxLanes = 16

// A Patch is the arguments of a packing function: it packs a vector of pixels, as TapCount taps of
// Channels channels see them, to Channels·TapCount rows of a panel. The assembly reads the fields
// at fixed offsets.
//
// The pixels are cut into segments, within which their elements lie evenly apart: a row of the
// image, or several that continue one another.
//
// Invariant: for each tap, no lane is in the masks of two segments; lanes in none get 0.
type Patch struct {
	Dst      []byte   // the first row's vector; rows are ordered by channel, then tap
	Src      []byte   // the first channel
	Taps     []int64  // by tap: bytes from a pixel to the element that the tap multiplies
	Masks    []uint16 // [taps][MaxLanes]: by segment, the lanes whose element lies inside the image
	Segments []int64  // by segment: bytes from Src to the pixel that would be in lane 0
	Lanes    []int32  // for LoadGather: elements from the first pixel to the pixel of each lane
	TapCount int
	SegCount int
	Channels int
	Plane    int // bytes from channel to channel
	Pitch    int // bytes from row to row of Dst
	Vector   int // lanes of a row, for the Go twin
}

// Kinds of load of a vector of pixels.
const (
	loadContiguous = iota // pixels are neighbours
	loadStride2           // pixels are two elements apart
	LoadGather            // pixels lie where Patch.Lanes says, in one segment
	loadKinds
)

// goPatch returns the Go twin for elements of size bytes that lie step elements apart. It ignores
// Patch.Lanes: it packs segments.
func goPatch(size, step int) func(t *Patch) {
	if size == 4 {
		return func(t *Patch) { goPatchOf[uint32](t, size, step) }
	}
	return func(t *Patch) { goPatchOf[uint64](t, size, step) }
}

// goPatchOf packs the segments of one vector of pixels for every channel and tap.
func goPatchOf[T asm.Word](t *Patch, size, step int) {
	dst, src := asm.View[T](t.Dst), asm.View[T](t.Src)
	row := 0
	for c := range t.Channels {
		for tap, at := range t.Taps[:t.TapCount] {
			d := dst[row/size:][:t.Vector]
			clear(d)
			for s, start := range t.Segments[:t.SegCount] {
				first := c*t.Plane/size + int((start+at)/int64(size))
				for m := t.Masks[tap*MaxLanes+s]; m != 0; m &= m - 1 {
					lane := bits.TrailingZeros16(m)
					d[lane] = src[first+lane*step]
				}
			}
			row += t.Pitch
		}
	}
}
