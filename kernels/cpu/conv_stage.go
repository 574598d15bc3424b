package cpu

import (
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/conv"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// A stage holds converted pixels: images whose elements are rounded, or stored in 16 bits, are
// converted before they are packed, for one vector of pixels and some channels at a time, so that
// the stage stays in the first-level cache. Each tap row of a run of pixels (neighbours in a row of
// the image) is a row of the stage:
//
//	        run 0        run 1
//	tap 0  ┌───────────┬─────────┐   a run of n pixels, step apart, covers (n-1)·step + span elements;
//	row 1  ├───────────┼─────────┤   elements outside of the image are not written: masks keep them from being read
//	    2  └───────────┴─────────┘

// Sizes of stages.
const (
	partSteps     = 128 // steps of k that are packed at once from a stage
	stageChannels = 16  // channels of a depthwise convolution that are converted at once
)

// An imageStage holds converted elements of one vector of pixels.
type imageStage struct {
	buf  []byte
	runs [conv.MaxLanes]stageRun
	n    int // runs
	end  int // elements of their rows
}

// A stageRun is a run of pixels.
type stageRun struct {
	image, row, col, n int
	at                 int // element of a stage's row under the leftmost tap of the first pixel
}

// useStage makes patches pack from a stage that convert fills.
func (p *patches) useStage(convert half.ConvertFunc) {
	p.convert, p.packed = convert, 4
	p.left = p.cols.taps[0].at
	right := p.left
	for _, t := range p.cols.taps {
		p.left, right = min(p.left, t.at), max(right, t.at)
	}
	p.span = right - p.left + 1
	p.stageRow = stageRowBytes(p.cols.step, p.span)
	p.stagePlane = len(p.rows.taps) * p.stageRow
	p.taps = nil
	for r := range p.rows.taps {
		for _, c := range p.cols.taps {
			p.taps = append(p.taps, int64(r*p.stageRow+(c.at-p.left)*p.packed))
		}
	}
}

// stageRowBytes returns the most bytes of a tap row of all lanes.
func stageRowBytes(step, span int) int { return conv.MaxLanes * (step + span) * 4 }

// stageBytes returns the bytes of a stage, for the parts of products of that many channels and for
// depthwise convolutions. It never shrinks as a size grows.
func (v *convolution) stageBytes(channels int) int {
	if !v.rounded {
		return 0
	}
	step, dilation := v.stride[1], v.dilation[1]
	one := v.kernel[0] * stageRowBytes(step, (v.kernel[1]-1)*dilation+1) // most of a channel
	// Of a part: two channels, or few taps each of more.
	most := max(2*one, partSteps*stageRowBytes(max(step, dilation), 1))
	return max(min(channels*one, most), min(v.groups, stageChannels)*one, v.bandLimit())
}

// reset starts a vector of pixels.
func (s *imageStage) reset() { s.n, s.end = 0, 0 }

// addRun adds a run of pixels and returns the byte offset of its first one.
func (s *imageStage) addRun(p *patches, image, row, col, n int) int64 {
	s.runs[s.n] = stageRun{image, row, col, n, s.end}
	s.n++
	at := s.end
	s.end += (n-1)*p.cols.step + p.span
	return int64(at * p.packed)
}

// convertPixels converts the pixels of the runs in s, of t.channels channels from t.src on, and
// points t.src at them. With a nil s it does nothing: patches are packed from the image itself.
func (p *patches) convertPixels(t *conv.Patch, s *imageStage) {
	if s == nil {
		return
	}
	for i := range s.runs[:s.n] {
		run := &s.runs[i]
		first := run.col*p.cols.step + p.left
		// The part of the run's elements that lies inside the image, for each row of taps.
		lo, hi := max(0, first), min(p.width/p.size, first+(run.n-1)*p.cols.step+p.span)
		if lo >= hi {
			continue
		}
		at := (run.at + lo - first) * p.packed
		for r := range p.rows.taps {
			y := run.row*p.rows.step + p.rows.taps[r].at
			if y < 0 || y*p.width >= p.plane {
				continue
			}
			src := t.Src[run.image*p.image+y*p.width+lo*p.size:]
			p.convert(s.buf[r*p.stageRow+at:], src, t.Channels, p.plane, hi-lo, p.stagePlane)
		}
	}
	t.Src = s.buf
}

// splitPackedK cuts k into blocks, and these into parts.
func splitPackedK(s *gemm.Kernels, channels, taps int, rounded bool) []kBlock {
	all := splitK(channels, taps, convStepsFactor*s.MaxSteps())
	at := 0
	for i := range all {
		all[i].at = at
		at += s.Elems(all[i].n)
	}
	return withParts(all, taps, s.StepsPerElem(), rounded)
}

// withParts cuts each block into parts for a stage, or makes it one part.
func withParts(all []kBlock, taps, step int, rounded bool) []kBlock {
	for i := range all {
		s := &all[i]
		s.parts = []kBlock{*s}
		if rounded {
			s.parts = s.split(taps, step)
		}
	}
	return all
}

// split cuts a block into parts. Each but the last has a multiple of step steps.
func (s *kBlock) split(taps, step int) []kBlock {
	var parts []kBlock
	// Parts of whole channels, whose steps fill whole pairs; or parts of the taps of one channel.
	n := max(1, partSteps/taps)
	if n*taps%step != 0 {
		n = max(2, n-1)
	}
	for c := 0; c < s.channels && s.tapCount == taps; c += n {
		m := min(n, s.channels-c)
		parts = append(parts, kBlock{k: s.k + c*taps, n: m * taps, channel: s.channel + c, channels: m, tapCount: taps})
	}
	for t := 0; t < s.tapCount && s.tapCount < taps; t += partSteps {
		m := min(partSteps, s.tapCount-t)
		parts = append(parts, kBlock{k: s.k + t, n: m, channel: s.channel, channels: 1, tap: s.tap + t, tapCount: m})
	}
	return parts
}

// partBytes returns the bytes of a part of a k block for one vector of pixels, which become pairs.
// It never shrinks as taps grow.
func partBytes(s *gemm.Kernels, taps int) int {
	if s.StepsPerElem() == 1 {
		return 0
	}
	return conv.MaxLanes * s.Size() * max(partSteps, 2*taps)
}
