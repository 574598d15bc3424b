package cpu

import (
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/conv"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// The implicit im2col matrix: its rows are the channels and taps (kh, kw) of the kernel, its
// columns the pixels of the output, and an element is the element of the image under that tap of
// the pixel's window, 0 outside of the image. It is never stored: panels are packed straight from
// the image (Chetlur et al., cuDNN: Efficient Primitives for Deep Learning, 2014, §3.1).

// An axis is the height or the width of a convolution.
type axis struct {
	n    int   // pixels
	step int   // elements of the source from a pixel's window to the next one's
	taps []tap // of the kernel
}

// A tap is one position of the kernel along an axis.
type tap struct {
	at     int // element of the source under this tap in the window of pixel 0, possibly outside
	lo, hi int // the pixels for which it lies inside
}

// newAxis returns an axis of n pixels over size elements, with a tap at each element of at.
func newAxis(size, n, step int, at []int) axis {
	a := axis{n: n, step: step}
	for _, at := range at {
		t := tap{at: at}
		// lo is the first pixel whose element is not left of the image, hi the first one past its
		// end.
		if at < 0 {
			t.lo = min(n, ceilDiv(-at, step))
		}
		if last := size - 1 - at; last >= 0 {
			t.hi = min(n, last/step+1)
		}
		t.hi = max(t.lo, t.hi)
		a.taps = append(a.taps, t)
	}
	return a
}

// patches is a batch of images and the windows over them. Sizes are in bytes.
type patches struct {
	rows, cols axis
	size       int     // an element as stored
	packed     int     // an element that is packed: as stored, or converted
	width      int     // a row of the source
	plane      int     // a channel of the source
	image      int     // from image to image
	taps       []int64 // from a window to each of its taps, row-major
	scattered  bool    // one segment, with an offset for each lane: conv.LoadGather

	// Converts pixels to a stage. Nil: patches are packed from the source.
	convert half.ConvertFunc
	// Elements: from a pixel to its leftmost tap, and from there to the rightmost.
	left, span int
	// Of the stage: from tap row to tap row, and from channel to channel.
	stageRow, stagePlane int

	band band // of a depthwise convolution that converts its source by bands
}

// newPatches returns the windows of rows and cols over images of height x width elements of size
// bytes.
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

// maxPrefetchBytes is the most bytes of a channel that are prefetched at once.
const maxPrefetchBytes = 1024

// prefetchBelow returns a prefetch of what the lowest taps of n pixels from px on, in one image,
// cover in some channels.
func (p *patches) prefetchBelow(src []byte, channel, channels, px, n int) prefetcher {
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
	return prefetcher{src: src[image*p.image+channel*p.plane+from:], rows: channels, stride: p.plane, n: min(maxPrefetchBytes, to+p.size-from)}
}

// Bytes of the tables of newPatch: of masks for each tap, and besides.
const (
	maskBytes = conv.MaxLanes * 2
	laneBytes = conv.MaxLanes * (8 + 4)
)

// newPatch returns the arguments for windows p, with tables of their own and, where pixels are
// converted before they are packed, a stage in buf. Otherwise the stage is nil.
func newPatch(p *patches, lanes int, buf []byte) (t conv.Patch, stage *imageStage) {
	t = conv.Patch{
		Masks: make([]uint16, len(p.taps)*conv.MaxLanes), Segments: make([]int64, conv.MaxLanes), Lanes: make([]int32, conv.MaxLanes),
		Plane: p.plane, Vector: lanes,
	}
	if p.convert != nil {
		t.Plane, stage = p.stagePlane, &imageStage{buf: buf}
	}
	return t, stage
}

// setPixels fills the tables of t for n pixels from px on, counted over all images, and lists their
// runs in stage unless it is nil.
func (p *patches) setPixels(t *conv.Patch, stage *imageStage, px, n int) {
	pixels := p.pixels()
	image, at := px/pixels, px%pixels
	row, col := at/p.cols.n, at%p.cols.n
	t.SegCount = 0
	if stage != nil {
		stage.reset()
	}
	if n == 0 {
		t.Segments[0] = 0
		clearSegment(t, 0)
	}
	// Runs of pixels in one row of one image.
	for lane := 0; lane < n; {
		run := min(n-lane, p.cols.n-col)
		start := int64(image)*int64(p.image) + int64(row*p.rows.step*p.width) + int64(col*p.cols.step*p.size)
		if stage != nil {
			start = stage.addRun(p, image, row, col, run)
		}
		p.addRun(t, start, lane, run)
		p.maskRun(t, row, col, lane, run)
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

// addRun adds a run of pixels, from lane on, to a segment of t. start is the byte offset of the
// first pixel.
func (p *patches) addRun(t *conv.Patch, start int64, lane, run int) {
	if p.scattered {
		if lane == 0 {
			t.Segments[0] = start
			clearSegment(t, 0)
		}
		at := int32((start - t.Segments[0]) / int64(p.packed))
		for i := range run {
			t.Lanes[lane+i] = at + int32(i*p.cols.step)
		}
		return
	}
	// A segment is identified by where its pixel would be in lane 0: runs that continue one another
	// share it.
	start -= int64(lane * p.cols.step * p.packed)
	if t.SegCount == 0 || t.Segments[t.SegCount-1] != start {
		t.Segments[t.SegCount] = start
		clearSegment(t, t.SegCount)
	}
}

// clearSegment makes a segment the last one of t, without lanes.
func clearSegment(t *conv.Patch, segment int) {
	for i := segment; i < len(t.Masks); i += conv.MaxLanes {
		t.Masks[i] = 0
	}
	t.SegCount = segment + 1
}

// maskRun sets, for each tap, the lanes of a run of pixels whose tap lies inside the image. The run
// is in one row of pixels.
func (p *patches) maskRun(t *conv.Patch, row, col, lane, run int) {
	segment, taps := t.SegCount-1, len(p.cols.taps)
	for j := range p.cols.taps {
		c := &p.cols.taps[j]
		lo, hi := max(col, c.lo), min(col+run, c.hi)
		if lo >= hi {
			continue
		}
		// One bit for each pixel of the run whose column lies inside the image.
		bits := uint16((1<<(hi-lo) - 1) << (lane + lo - col))
		for i := range p.rows.taps {
			if r := &p.rows.taps[i]; row >= r.lo && row < r.hi {
				t.Masks[(i*taps+j)*conv.MaxLanes+segment] |= bits
			}
		}
	}
}

// load returns the kind of load of k for these patches, and sets scattered.
func (p *patches) load(k *conv.Kernels) int {
	kind := k.LoadKind(p.cols.step, p.cols.n, p.image/p.size)
	if kind >= 0 {
		p.scattered = kind == conv.LoadGather
	}
	return kind
}

// pack returns the function of k that packs patches.
func (p *patches) pack(k *conv.Kernels) func(t *conv.Patch) {
	return k.Pack(p.load(k), p.packed, p.cols.step)
}
