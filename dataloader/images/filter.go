package images

import "math"

// filter resamples one axis: output i is the sum of taps samples from start[i], with the weights
// weight[i*taps:]. The weights of an output sum to 256, so that four sums of bytes fit into one
// uint64, or to 65536 if the filter is wide, so that rounding many small weights does not show. In
// floats they sum to 1.
type filter struct {
	taps   int
	wide   bool
	lo, hi int // samples of the plane that outputs read
	start  []int32
	weight []uint16
	real   []float32
	line   []float64 // weights of one output, before they are rounded
	coarse []float64 // the same over subsampled samples
}

// wideTaps is the largest number of taps with weights of 1/256.
const wideTaps = 6

// span is the part of one axis of a source that fills one axis of a picture: [lo, hi) is scaled to
// full outputs, of which [from, from+n) are taken, in reverse if flip is set.
type span struct {
	lo, hi  float64
	full    int
	from, n int
	flip    bool
}

// identity reports whether the span copies samples.
func (s span) identity() bool { return s.hi-s.lo == float64(s.full) && s.lo == math.Trunc(s.lo) }

// set computes the filter of s over a plane with one sample for each ratio samples of the span's
// axis, size samples in all. floats selects the kind of weights.
//
// The filter is a triangle, 2 samples wide, or 2·scale wide where the axis shrinks, as BILINEAR of
// Pillow (src/libImaging/Resample.c, precompute_coeffs). It does not read outside [lo, hi).
// Subsampled planes are read as if libjpeg had first interpolated them (jdsample.c, fancy
// upsampling: weights 3/4 and 1/4); both are linear, so that one filter does both.
func (f *filter) set(s span, ratio, size int, floats bool) {
	scale := (s.hi - s.lo) / float64(s.full)
	wide := max(scale, 1)
	if s.identity() {
		wide = 0.5
	}
	luma := int(2*math.Ceil(wide)) + 2
	bound := luma
	if ratio > 1 {
		bound = luma/ratio + 4
	}
	bound = min(bound, size)
	f.wide = luma > wideTaps
	f.grow(s.n, bound, luma, floats)
	first, last := int(math.Floor(s.lo)), int(math.Ceil(s.hi))
	for i := range s.n {
		x := s.from + i
		if s.flip {
			x = s.from + s.n - 1 - i
		}
		center := s.lo + (float64(x)+0.5)*scale
		lo := max(int(math.Floor(center-wide+0.5)), first)
		hi := min(int(math.Floor(center+wide+0.5)), last)
		line := f.line[:max(hi-lo, 1)]
		sum := 0.0
		for k := range line {
			w := 1 - math.Abs(float64(lo+k)+0.5-center)/wide
			line[k] = max(w, 0)
			sum += line[k]
		}
		if sum == 0 {
			line[0], sum = 1, 1
		}
		if ratio > 1 {
			lo, line = f.subsample(lo, line, ratio, size)
		}
		f.put(i, lo, line, sum, bound, size, floats)
	}
	f.trim(s.n, bound, floats)
	f.lo, f.hi = size, 0
	for _, x := range f.start {
		f.lo, f.hi = min(f.lo, int(x)), max(f.hi, min(int(x)+f.taps, size))
	}
}

// grow makes room for n outputs of at most bound taps, computed from lines of at most luma weights.
func (f *filter) grow(n, bound, luma int, floats bool) {
	f.start = resize(f.start, n)
	f.line = resize(f.line, luma+1)
	f.coarse = resize(f.coarse, luma+4)
	if floats {
		f.real = resize(f.real, n*bound)
		clear(f.real)
		return
	}
	f.weight = resize(f.weight, n*bound)
	clear(f.weight)
}

// subsample returns the weights of line, which begins at sample lo, over the samples of a plane
// with one sample for ratio of them.
func (f *filter) subsample(lo int, line []float64, ratio, size int) (int, []float64) {
	first := max(lo/ratio-1, 0)
	end := min((lo+len(line)-1)/ratio+2, size)
	first = min(first, size-1)
	coarse := f.coarse[:end-first]
	clear(coarse)
	for k, w := range line {
		x := lo + k
		c := min(x/ratio, size-1)
		if ratio != 2 {
			coarse[c-first] += w
			continue
		}
		near := min(max(c-1+2*(x&1), 0), size-1)
		coarse[c-first] += w * 0.75
		coarse[near-first] += w * 0.25
	}
	return first, coarse
}

// put stores the weights of output i. Rounded weights are differences of the rounded running sum,
// so that their sum is exact.
func (f *filter) put(i, lo int, line []float64, sum float64, bound, size int, floats bool) {
	for len(line) > 1 && line[0] == 0 {
		lo, line = lo+1, line[1:]
	}
	for len(line) > 1 && line[len(line)-1] == 0 {
		line = line[:len(line)-1]
	}
	f.start[i] = int32(lo)
	if floats {
		for k, w := range line {
			f.real[i*bound+k] = float32(w / sum)
		}
		return
	}
	total, before, one := 0.0, 0, 256.0
	if f.wide {
		one = 65536
	}
	for k, w := range line {
		total += w
		now := int(total/sum*one + 0.5)
		f.weight[i*bound+k] = uint16(min(now-before, math.MaxUint16)) // a single tap: 255·65535/65536 rounds to 255
		before = now
	}
}

// trim removes taps that no output uses. Taps with a weight of 0 may lie after the last sample.
func (f *filter) trim(n, bound int, floats bool) {
	f.taps = 1
	for i := range n {
		for k := bound - 1; k >= f.taps; k-- {
			if floats && f.real[i*bound+k] != 0 || !floats && f.weight[i*bound+k] != 0 {
				f.taps = k + 1
				break
			}
		}
	}
	if f.taps == bound {
		return
	}
	for i := range n {
		if floats {
			copy(f.real[i*f.taps:(i+1)*f.taps], f.real[i*bound:])
		} else {
			copy(f.weight[i*f.taps:(i+1)*f.taps], f.weight[i*bound:])
		}
	}
}

// resize returns a slice of n elements that reuses the memory of s if it is large enough. Its
// elements have any values.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
