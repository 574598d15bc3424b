package cpu

import (
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/conv"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// A band is rows of the images of some channels of a depthwise convolution, converted once for all pixels that see them: the vectors of pixels
// walk down the images, and the band with them. Where not even the rows that one vector sees fit, its pixels have a stage of their own.
type band struct {
	convert       half.ConvertFunc // nil: there is no band
	size          int              // bytes of an element as stored
	width, height int              // elements
	plane         int              // bytes from channel to channel as stored
	first, span   int              // rows from a pixel to the highest and lowest that it sees
	rows          int              // that the band holds
	channels      int              // the same
	prefetch      func(src []byte, rows, stride, n int)
}

// bandRows is what a worker holds of a band.
type bandRows struct {
	buf    []byte
	lo, hi int // rows
	at     int // the pixel that it was brought for
}

const (
	bandBytes       = 128 << 10 // most of a band: it stays in the second-level cache
	bandMinFactor   = 2         // times the rows that a vector sees: else it is of fewer channels, so that not too many rows are converted twice
	bandMinChannels = 4         // channels that a function takes at once: a band is not of fewer
)

// bandLimit bounds the bytes of a band. It grows or stays with each size.
func (v *convolution) bandLimit() int {
	if !v.rounded || v.groups < bandMinChannels {
		return 0
	}
	plane := max(v.in[0]*v.in[1], v.out[0]*v.out[1])
	return min(bandBytes, min(v.groups, depthChannels)*bandPitch(plane))
}

// bandPitch returns the bytes from channel to channel of a band of so many elements of each.
func bandPitch(elems int) int {
	pitch := asm.AlignLine(elems * gemm.PackedSize)
	if pitch%(4*gemm.PackedPitch) == 0 {
		pitch += gemm.PackedPitch
	}
	return pitch
}

// useBand makes patches of factor i be read from a band, and reports whether one holds what a vector sees.
func (v *convolution) useBand(p *patches, i int) bool {
	b := band{convert: v.floats[i].Across, prefetch: v.isa.Prefetch, size: p.size, width: p.width / p.size, height: p.plane / p.width, plane: p.plane}
	b.first = p.rows.taps[0].at
	for _, t := range p.rows.taps {
		b.first, b.span = min(b.first, t.at), max(b.span, t.at)
	}
	limit := v.bandLimit()
	need := min(b.height, ceilDiv(conv.MaxLanes-1, p.cols.n)*p.rows.step+b.span-b.first+1) // rows that a vector sees
	b.channels = min(v.groups, depthChannels)
	b.fit(limit)
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

// fit sets the rows to as many as so many bytes hold.
func (b *band) fit(limit int) {
	b.rows = b.height
	for b.rows > 0 && b.channels*bandPitch(b.rows*b.width) > limit {
		b.rows = min(b.rows-1, limit/b.channels/gemm.PackedSize/b.width)
	}
}

// reset starts an image.
func (h *bandRows) reset() { h.lo, h.hi = 0, 0 }

// load brings what the n pixels from at on see of t.channels channels, whose planes are in src, and points t at it.
func (h *bandRows) load(p *patches, t *conv.Patch, src []byte, at, n int) {
	b, step := &p.band, p.rows.step
	lo := max(0, at/p.cols.n*step+b.first)
	hi := min(b.height, (at+n-1)/p.cols.n*step+b.span+1)
	if lo < hi && (lo < h.lo || hi > h.hi) {
		h.lo, h.hi, h.at = lo, min(b.height, lo+b.rows), at
		b.convert(h.buf, src[lo*b.width*b.size:], t.Channels, b.plane, (h.hi-lo)*b.width, p.plane)
	}
	for i := range t.Segments[:t.SegCount] {
		t.Segments[i] -= int64(h.lo * p.width)
	}
	t.Src = h.buf
}

// prefetchNext brings near a share of the rows that come after those held: as many elements as pixels have been seen. image is bytes from one to the next.
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
