package cpu

import (
	"math/bits"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// A convolution is a product of matrices, one of which is never stored: its rows are the channels and taps (kh, kw) of
// the kernel, its columns the pixels of the output, and an element is the one of the image that the tap sees from the pixel.
// Panels of it are packed straight from the image (implicit im2col, after Chetlur et al., cuDNN, 2014, §3.1).

// An axis is the height or the width of a convolution, seen by its pixels.
type axis struct {
	n    int   // pixels
	step int   // elements of the source from pixel to pixel
	taps []tap // of the kernel
}

// A tap is one place of the kernel along an axis.
type tap struct {
	at     int // element of the source that pixel 0 sees, possibly outside
	lo, hi int // the pixels that see one inside
}

// newAxis returns an axis of n pixels over size elements, with a tap at each of the given elements.
func newAxis(size, n, step int, at []int) axis {
	a := axis{n: n, step: step}
	for _, at := range at {
		t := tap{at: at}
		if at < 0 {
			t.lo = min(n, over(-at, step))
		}
		if last := size - 1 - at; last >= 0 {
			t.hi = min(n, last/step+1)
		}
		t.hi = max(t.lo, t.hi)
		a.taps = append(a.taps, t)
	}
	return a
}

// patches is an image source and the windows over it. Sizes are bytes.
type patches struct {
	rows, cols axis
	size       int     // of an element
	packed     int     // the same of where it is packed from: the source, or a stage
	width      int     // of a row of the source
	plane      int     // of a channel
	image      int     // from image to image
	taps       []int64 // from the pixel to each tap, row-major
	scattered  bool    // packed by one segment, with a place for each lane

	convert              half.ConvertFunc // to a stage. Nil: patches are packed from the source. The rest is of the stage
	left, span           int              // elements: from a pixel to what its leftmost tap sees, and from there to the rightmost
	stageRow, stagePlane int              // from tap row to tap row, and from channel to channel

	band band // that the source is, of a depthwise convolution
}

func newPatches(rows, cols axis, size, width, height, channels int) patches {
	p := patches{rows: rows, cols: cols, size: size, packed: size, width: width * size, plane: width * height * size}
	p.image = channels * p.plane
	for _, r := range rows.taps {
		for _, c := range cols.taps {
			p.taps = append(p.taps, int64(r.at*p.width+c.at*size))
		}
	}
	return p
}

// pixels returns the pixels of an image.
func (p *patches) pixels() int { return p.rows.n * p.cols.n }

// mostBelow bounds the bytes of a channel that are brought near at once.
const mostBelow = 1024

// below returns what the lowest taps see of some channels, from n pixels of an image from px on.
func (p *patches) below(src []byte, channel, channels, px, n int) ahead {
	pixels, taps := p.pixels(), len(p.rows.taps)
	image, at := px/pixels, px%pixels
	last := min(at+n, pixels) - 1
	see := func(px, tap int) int {
		row, col := px/p.cols.n*p.rows.step+p.rows.taps[tap].at, px%p.cols.n*p.cols.step+p.cols.taps[len(p.cols.taps)/2].at
		return min(max(0, row*p.width+col*p.size), p.plane-p.size)
	}
	upper, lowest := max(0, taps-p.rows.step), taps-1
	if p.rows.taps[0].at > p.rows.taps[lowest].at { // of a gradient by the input
		upper, lowest = min(taps, p.rows.step)-1, 0
	}
	from, to := see(at, upper), see(last, lowest)
	return ahead{src: src[image*p.image+channel*p.plane+from:], rows: channels, stride: p.plane, n: min(mostBelow, to+p.size-from)}
}

// patchLanes is the most lanes of a vector of pixels. The assembly knows it.
const patchLanes = 16

// A patch is the arguments of a packing function: one vector of pixels and all that some channels and taps see from it.
// The assembly knows the fields' offsets.
//
// The pixels are cut into segments, each of pixels whose elements lie evenly apart: a row of the image, or more.
type patch struct {
	dst      []byte   // the first row's vector: rows go by channel, then tap
	src      []byte   // the first channel
	taps     []int64  // bytes from a pixel to what the tap sees
	masks    []uint16 // by tap and segment, patchLanes for a tap: the lanes of the segment that see the image
	segments []int64  // bytes from src to the pixel that the segment would have in lane 0
	lanes    []int32  // elements from the first pixel to each
	tapCount int
	segCount int
	channels int
	plane    int // bytes from channel to channel
	pitch    int // bytes from row to row of dst
	vector   int // lanes of a row, for the portable functions
	stage    *imageStage
}

// newPatch returns the arguments for windows p, with tables of their own and, where one is needed, a stage in buf.
func newPatch(p *patches, lanes int, buf []byte) patch {
	t := patch{
		masks: make([]uint16, len(p.taps)*patchLanes), segments: make([]int64, patchLanes), lanes: make([]int32, patchLanes),
		plane: p.plane, vector: lanes,
	}
	if p.convert != nil {
		t.plane, t.stage = p.stagePlane, &imageStage{buf: buf}
	}
	return t
}

// see fills the tables for the n pixels from px on, counted through all images.
func (t *patch) see(p *patches, px, n int) {
	pixels := p.pixels()
	image, at := px/pixels, px%pixels
	row, col := at/p.cols.n, at%p.cols.n
	t.segCount = 0
	if t.stage != nil {
		t.stage.begin()
	}
	if n == 0 {
		t.segments[0] = 0
		t.clear(0)
	}
	for lane := 0; lane < n; {
		run := min(n-lane, p.cols.n-col)
		start := int64(image)*int64(p.image) + int64(row*p.rows.step*p.width) + int64(col*p.cols.step*p.size)
		if t.stage != nil {
			start = t.stage.add(p, image, row, col, run)
		}
		t.segment(p, start, lane, run)
		t.mark(p, row, col, lane, run)
		lane += run
		if col += run; col == p.cols.n {
			col = 0
			if row++; row == p.rows.n {
				row = 0
				image++
			}
		}
	}
}

// segment adds a run of pixels from lane on, of which the first lies at start, to a segment.
func (t *patch) segment(p *patches, start int64, lane, run int) {
	if p.scattered {
		if lane == 0 {
			t.segments[0] = start
			t.clear(0)
		}
		at := int32((start - t.segments[0]) / int64(p.packed))
		for i := range run {
			t.lanes[lane+i] = at + int32(i*p.cols.step)
		}
		return
	}
	start -= int64(lane * p.cols.step * p.packed)
	if t.segCount == 0 || t.segments[t.segCount-1] != start {
		t.segments[t.segCount] = start
		t.clear(t.segCount)
	}
}

// clear makes a segment the last one, without lanes.
func (t *patch) clear(segment int) {
	for i := segment; i < len(t.masks); i += patchLanes {
		t.masks[i] = 0
	}
	t.segCount = segment + 1
}

// mark sets the lanes of a run of pixels, in one row of an image, by what they see.
func (t *patch) mark(p *patches, row, col, lane, run int) {
	segment, taps := t.segCount-1, len(p.cols.taps)
	for j := range p.cols.taps {
		c := &p.cols.taps[j]
		lo, hi := max(col, c.lo), min(col+run, c.hi)
		if lo >= hi {
			continue
		}
		bits := uint16((1<<(hi-lo) - 1) << (lane + lo - col))
		for i := range p.rows.taps {
			if r := &p.rows.taps[i]; row >= r.lo && row < r.hi {
				t.masks[(i*taps+j)*patchLanes+segment] |= bits
			}
		}
	}
}

// Ways of loading a vector of pixels.
const (
	loadRuns    = iota // lanes are neighbours
	loadPairs          // lanes are two elements apart
	loadGathers        // lanes lie anywhere: of patches that are scattered
	loadKinds
)

// A packer is the functions of convolutions for an instruction set. Nil ones are in Go.
type packer struct {
	lanes int // pixels of a vector, patchLanes at most
	end   func(e *ending)

	patches      [loadKinds]func(t *patch)
	depths       [loadKinds]func(t *depth)
	depthWeights [loadKinds]func(t *depth)

	input  func(w *winoInput)
	weight func(w *winoWeight)
	output func(w *winoOutput)
}

// kind decides how the pixels of patches are loaded, and scatters patches for gathers. Less than 0: in Go.
func (k *packer) kind(p *patches) int {
	const far = 1 << 31 / patchLanes // elements from image to image: lanes reach no further
	kind := loadGathers
	if step := p.cols.step; step <= 2 && p.cols.n > 1 && k.patches[step-1] != nil {
		kind = step - 1 // loadRuns, loadPairs
	}
	if k.patches[kind] == nil || kind == loadGathers && p.image/p.size >= far {
		return -1
	}
	p.scattered = kind == loadGathers
	return kind
}

// pack returns the function that packs patches.
func (k *packer) pack(p *patches) func(t *patch) {
	if kind := k.kind(p); kind >= 0 {
		return k.patches[kind]
	}
	return goPatch(p.packed, p.cols.step)
}

// goPatch returns the portable packing function for elements of size bytes that lie step apart. It packs segments.
func goPatch(size, step int) func(t *patch) {
	if size == 4 {
		return func(t *patch) { patchOf[uint32](t, size, step) }
	}
	return func(t *patch) { patchOf[uint64](t, size, step) }
}

func patchOf[T asm.Word](t *patch, size, step int) {
	dst, src := asm.View[T](t.dst), asm.View[T](t.src)
	row := 0
	for c := range t.channels {
		for tap, at := range t.taps[:t.tapCount] {
			d := dst[row/size:][:t.vector]
			clear(d)
			for s, start := range t.segments[:t.segCount] {
				first := c*t.plane/size + int((start+at)/int64(size))
				for m := t.masks[tap*patchLanes+s]; m != 0; m &= m - 1 {
					lane := bits.TrailingZeros16(m)
					d[lane] = src[first+lane*step]
				}
			}
			row += t.pitch
		}
	}
}
