package cpu

import (
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/conv"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// A band is some rows of some channels of an image, which a depthwise convolution converts once for
// all pixels whose windows reach them. Vectors of pixels go down the image and the band follows
// them. Where even the rows of one vector do not fit, pixels are converted by vector: see
// conv_stage.go.
type band struct {
	convert       half.ConvertFunc // nil: there is no band
	size          int              // bytes of an element as stored
	width, height int              // elements
	plane         int              // bytes from channel to channel as stored
	first, span   int              // rows from a pixel to the first and the last row of its window
	rows          int              // rows that the band holds
	channels      int              // channels that the band holds
	prefetch      func(src []byte, rows, stride, n int)
}

// bandRows is the part of a band that a worker holds.
type bandRows struct {
	buf    []byte
	lo, hi int // rows
	at     int // the pixel that it was loaded for
}

// Sizes of bands.
const (
	bandBytes = 128 << 10 // most bytes of a band: it stays in the second-level cache
	// Least rows of a band, times the rows of a vector's windows; otherwise it has fewer channels,
	// so that few rows are converted twice.
	bandMinFactor   = 2
	bandMinChannels = 4 // least channels of a band: a kernel computes as many at once
)

// bandLimit returns the most bytes of a band. It never shrinks as a size grows.
func (v *convolution) bandLimit() int {
	if !v.rounded || v.groups < bandMinChannels {
		return 0
	}
	plane := max(v.in[0]*v.in[1], v.out[0]*v.out[1])
	return min(bandBytes, min(v.groups, depthChannels)*bandPitch(plane))
}

// bandPitch returns the bytes from channel to channel of a band with elems elements in each.
func bandPitch(elems int) int {
	pitch := asm.AlignLine(elems * gemm.PackedSize)
	if pitch%(4*gemm.PackedPitch) == 0 {
		pitch += gemm.PackedPitch
	}
	return pitch
}

// useBand makes patches of operand i read from a band, and reports whether a band holds the windows
// of a vector of pixels.
func (v *convolution) useBand(p *patches, i int) bool {
	b := band{convert: v.packingsFloat32[i].Across, prefetch: v.kernels.Prefetch, size: p.size, width: p.width / p.size, height: p.plane / p.width, plane: p.plane}
	// Rows that a window covers, relative to its pixel: from first to span.
	b.first = p.rows.taps[0].at
	for _, t := range p.rows.taps {
		b.first, b.span = min(b.first, t.at), max(b.span, t.at)
	}
	limit := v.bandLimit()
	// Rows of a vector's windows.
	need := min(b.height, ceilDiv(conv.MaxLanes-1, p.cols.n)*p.rows.step+b.span-b.first+1)
	b.channels = min(v.groups, depthChannels)
	b.fit(limit)
	// Fewer channels leave room for more rows.
	for b.rows < min(b.height, bandMinFactor*need) && b.channels > bandMinChannels {
		b.channels = max(bandMinChannels, b.channels/2)
		b.fit(limit)
	}
	if b.rows < need {
		return false
	}
	*p = newPatches(p.rows, p.cols, gemm.PackedSize, b.width, b.height, 0)
	p.plane, p.band = bandPitch(b.rows*b.width), b
	return true
}

// fit sets the rows to the most that fit into limit bytes.
func (b *band) fit(limit int) {
	b.rows = b.height
	for b.rows > 0 && b.channels*bandPitch(b.rows*b.width) > limit {
		b.rows = min(b.rows-1, limit/b.channels/gemm.PackedSize/b.width)
	}
}

// reset starts an image.
func (h *bandRows) reset() { h.lo, h.hi = 0, 0 }

// load converts the rows that the windows of n pixels from at on cover, of t.Channels channels with
// planes in src, and points t at them.
func (h *bandRows) load(p *patches, t *conv.Patch, src []byte, at, n int) {
	b, step := &p.band, p.rows.step
	lo := max(0, at/p.cols.n*step+b.first)
	hi := min(b.height, (at+n-1)/p.cols.n*step+b.span+1)
	// The band does not hold all rows: convert it again from row lo on.
	if lo < hi && (lo < h.lo || hi > h.hi) {
		h.lo, h.hi, h.at = lo, min(b.height, lo+b.rows), at
		b.convert(h.buf, src[lo*b.width*b.size:], t.Channels, b.plane, (h.hi-lo)*b.width, p.plane)
	}
	// Segments are offsets in the image; the band begins at row h.lo.
	for i := range t.Segments[:t.SegCount] {
		t.Segments[i] -= int64(h.lo * p.width)
	}
	t.Src = h.buf
}

// prefetchNext prefetches the rows after those held bit by bit: as many elements as pixels were
// computed. image is the bytes from image to image.
func (h *bandRows) prefetchNext(p *patches, t *conv.Patch, src []byte, image, at int) {
	b, n := &p.band, at-h.at
	next := (h.hi+n/p.cols.n*p.rows.step)*b.width + n%p.cols.n*p.cols.step
	from := next * b.size
	if from >= b.plane {
		from += image - b.plane
	}
	if b.prefetch != nil && from < len(src) {
		b.prefetch(src[from:], t.Channels, b.plane, conv.MaxLanes*p.cols.step*b.size)
	}
}
