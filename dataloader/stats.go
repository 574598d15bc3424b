package dataloader

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// Moments are statistics of the values of a field as a model gets them, with its Scale and Shift: one
// element for each channel.
type Moments struct {
	Field    string // its name
	Axis     int    // of the field's shape that the channels lie on, or -1: one channel of all values
	Count    int64  // values of each channel
	Mean     []float64
	Variance []float64 // of the values themselves: divided by Count
	Min, Max []float64
}

// StatsOptions of Stats.
type StatsOptions struct {
	PassOptions
	// Whole takes all values of the field together. Default: the statistics are those of each channel
	// along Axis of the shape of a sample: 0 for images [C, H, W] and for the columns of a table
	// [columns]. A scalar field has one channel.
	Whole bool
	Axis  int
}

// Stats reads all samples of ds once, in parallel, with epoch 0 and seed 0, and returns statistics of
// one of its fields. Use it on training data before random draws. The result is the same to the bit
// for any number of workers: chunks of samples are merged in their order. Sums of integers of one byte
// are exact; other values are summed in float64 about their mean. It keeps the memory of one sample
// and of five numbers a channel for each worker.
//
// A field that ds does not have is an error that wraps ErrOption, a value that is not finite a
// *FieldError inside an error that names the sample.
func Stats(ctx context.Context, ds Dataset, field string, opt StatsOptions) (*Moments, error) {
	if err := Check(ds); err != nil {
		return nil, err
	}
	fields := ds.Fields()
	from, err := choose(fields, []string{field})
	if err != nil {
		return nil, err
	}
	k := from[0]
	l, err := layoutOf(k, fields[k], opt)
	if err != nil {
		return nil, err
	}
	sum := l.newSums()
	count := int64(0)
	p := pass{ds: ds, options: opt.PassOptions}
	p.worker = func() (read func(int, [][]byte, error) error, merge func() error) {
		part, samples := l.newSums(), int64(0)
		read = func(_ int, sample [][]byte, err error) error {
			if err == nil {
				err = part.add(sample[k], samples*l.run())
			}
			samples++
			return err
		}
		merge = func() error {
			sum.merge(part, count, samples*l.run())
			count += samples * l.run()
			part.reset()
			samples = 0
			return nil
		}
		return read, merge
	}
	if err := p.run(ctx); err != nil {
		return nil, fmt.Errorf("stats of %q: %w", field, err)
	}
	m := &Moments{Field: field, Axis: l.axis, Count: count, Mean: sum.mean, Min: sum.low, Max: sum.high}
	for c, m2 := range sum.m2 {
		v := m2 / float64(count)
		if !finite(v) || !finite(sum.mean[c]) {
			return nil, fmt.Errorf("stats: %w", &FieldError{Index: k, Name: field, Problem: fmt.Sprintf("the variance of channel %d overflows float64", c)})
		}
		m.Variance = append(m.Variance, v)
	}
	scale, shift := decoding(fields[k])
	for c := range m.Mean {
		m.Mean[c] = float64(scale*m.Mean[c]) + shift // rounded in between, on any machine
		m.Variance[c] *= scale * scale
		low, high := float64(scale*m.Min[c])+shift, float64(scale*m.Max[c])+shift
		m.Min[c], m.Max[c] = min(low, high), max(low, high)
		if !finite(m.Mean[c]) || !finite(m.Variance[c]) {
			return nil, fmt.Errorf("stats: %w", &FieldError{Index: k, Name: field, Problem: fmt.Sprintf(
				"with scale %v and shift %v the moments of channel %d overflow float64", scale, shift, c)})
		}
	}
	return m, nil
}

// decoding returns the scale and the shift by which a model gets the values of a field.
func decoding(f Field) (scale, shift float64) {
	if f.Scale == 0 {
		return 1, f.Shift
	}
	return f.Scale, f.Shift
}

// layout is the shape of a field as [outer, channels, inner].
type layout struct {
	field                  int
	name                   string
	kind                   arena.DType
	axis                   int
	outer, channels, inner int
}

// layoutOf returns the layout of field k.
func layoutOf(k int, f Field, opt StatsOptions) (*layout, error) {
	l := &layout{field: k, name: f.Name, kind: f.Type, axis: opt.Axis, outer: 1, channels: 1, inner: 1}
	if opt.Whole || len(f.Shape) == 0 {
		l.axis = -1
	}
	if l.axis < -1 || l.axis >= len(f.Shape) || l.axis < 0 && !opt.Whole && len(f.Shape) > 0 {
		return nil, fmt.Errorf("stats of %q: axis %d of shape %v: must be 0 to %d: %w", f.Name, opt.Axis, f.Shape, len(f.Shape)-1, ErrOption)
	}
	for i, d := range f.Shape {
		switch {
		case i == l.axis:
			l.channels = d
		case i < l.axis:
			l.outer *= d
		default:
			l.inner *= d
		}
	}
	switch f.Type {
	case arena.Uint8, arena.Int32, arena.Int64, arena.Float32, arena.Float64:
		return l, nil
	}
	return nil, fmt.Errorf("stats: %w", &FieldError{Index: k, Name: f.Name, Problem: fmt.Sprintf("has type %v: statistics are of uint8, int32, int64, float32 and float64", f.Type)})
}

// run returns the values of a channel in one sample.
func (l *layout) run() int64 { return int64(l.outer) * int64(l.inner) }

// sums are the sums of a channel each. A channel has as many values as all others.
type sums struct {
	*layout
	mean, m2  []float64 // m2: sum of the squared distances from the mean
	low, high []float64
	total     []uint64 // of bytes: their sum and that of their squares, since reset
	squares   []uint64
	bytes     uint64 // how many of a channel
}

// newSums returns sums of nothing.
func (l *layout) newSums() *sums {
	s := &sums{layout: l}
	for _, x := range []*[]float64{&s.mean, &s.m2, &s.low, &s.high} {
		*x = make([]float64, l.channels)
	}
	if l.kind == arena.Uint8 {
		s.total, s.squares = make([]uint64, l.channels), make([]uint64, l.channels)
	}
	s.reset()
	return s
}

// reset makes them sums of nothing.
func (s *sums) reset() {
	clear(s.mean)
	clear(s.m2)
	clear(s.total)
	clear(s.squares)
	s.bytes = 0
	for c := range s.low {
		s.low[c], s.high[c] = math.Inf(1), math.Inf(-1)
	}
}

// add adds the values of a sample to sums of count values a channel.
func (s *sums) add(data []byte, count int64) error {
	switch s.kind {
	case arena.Uint8:
		s.addBytes(data)
	case arena.Int32:
		addNumbers(s, View[int32](data), count)
	case arena.Int64:
		addNumbers(s, View[int64](data), count)
	case arena.Float32:
		return s.finite(addNumbers(s, View[float32](data), count))
	default:
		return s.finite(addNumbers(s, View[float64](data), count))
	}
	return nil
}

// finite returns an error for the element at an index, unless that is -1.
func (s *sums) finite(index int) error {
	if index < 0 {
		return nil
	}
	return &FieldError{Index: s.field, Name: s.name, Problem: fmt.Sprintf("element %d is not finite: replace it with Map first", index)}
}

// addBytes adds to the exact sums.
func (s *sums) addBytes(data []byte) {
	for at, i := 0, 0; i < s.outer; i++ {
		for c := range s.channels {
			run := data[at : at+s.inner]
			at += s.inner
			var total, squares uint64
			low, high := byte(255), byte(0)
			for _, x := range run {
				total += uint64(x)
				squares += uint64(x) * uint64(x)
				low, high = min(low, x), max(high, x)
			}
			s.total[c] += total
			s.squares[c] += squares
			s.low[c], s.high[c] = min(s.low[c], float64(low)), max(s.high[c], float64(high))
		}
	}
	s.bytes += uint64(s.run())
}

// exact sets mean and m2 from the exact sums: m2 = (n·Σx² - (Σx)²)/n, without rounding before the
// division.
func (s *sums) exact() {
	for c := range s.total {
		s.mean[c] = float64(s.total[c]) / float64(s.bytes)
		hi, lo := bits.Mul64(s.bytes, s.squares[c])
		h2, l2 := bits.Mul64(s.total[c], s.total[c])
		lo, borrow := bits.Sub64(lo, l2, 0)
		hi, _ = bits.Sub64(hi, h2, borrow)
		s.m2[c] = (float64(hi)*(1<<64) + float64(lo)) / float64(s.bytes)
	}
}

// addNumbers adds values to sums of count values a channel, run by run. It returns the index of the
// first that is not finite, or -1.
func addNumbers[T int32 | int64 | float32 | float64](s *sums, data []T, count int64) int {
	for at, i := 0, 0; i < s.outer; i++ {
		for c := range s.channels {
			run := data[at : at+s.inner]
			mean, low, high := 0.0, math.Inf(1), math.Inf(-1)
			for j, v := range run {
				x := float64(v)
				if !finite(x) {
					return at + j
				}
				mean += x
				low, high = min(low, x), max(high, x)
			}
			mean /= float64(len(run))
			m2 := 0.0
			for _, v := range run {
				d := float64(v) - mean
				m2 += d * d
			}
			s.join(c, float64(count)+float64(i)*float64(s.inner), float64(s.inner), mean, m2, low, high)
			at += s.inner
		}
	}
	return -1
}

// merge adds the sums of other values. Both have a number of values a channel.
func (s *sums) merge(x *sums, have, more int64) {
	if x.kind == arena.Uint8 {
		x.exact()
	}
	for c := range s.mean {
		s.join(c, float64(have), float64(more), x.mean[c], x.m2[c], x.low[c], x.high[c])
	}
}

// join adds sums of more values to those of channel c, which has some. Source: Chan, Golub and
// LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, COMPSTAT 1982.
func (s *sums) join(c int, have, more, mean, m2, low, high float64) {
	d := mean - s.mean[c]
	share := more / (have + more)
	s.mean[c] += d * share
	s.m2[c] += m2 + d*d*have*share
	s.low[c], s.high[c] = min(s.low[c], low), max(s.high[c], high)
}

// Deviation returns the standard deviation of each channel, 1 where it is 0: a constant channel is
// shifted, not scaled.
func (m *Moments) Deviation() []float64 {
	d := slices.Clone(m.Variance)
	for c, v := range d {
		if d[c] = math.Sqrt(v); d[c] == 0 {
			d[c] = 1
		}
	}
	return d
}
