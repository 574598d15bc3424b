package trainer

import (
	"errors"
	"math"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/profile"
)

// Bounds of the measurement of a peak.
const (
	peakBytes = 64 << 20              // device memory, at most
	peakTime  = 10 * time.Millisecond // of one run: it is not repeated, and a larger one is not tried
	peakRuns  = 4                     // of each size, the first of which touches the memory; the fastest counts
)

// measurePeak measures what a device can do at most: products of square matrices of float32 of growing
// size, an addition of vectors that no cache holds, and copies from the host's memory. It frees what
// it allocates.
func measurePeak(dev kernels.Device) (p profile.Peak, err error) {
	s, err := dev.NewStream("peak")
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	info, err := dev.Info()
	if err != nil {
		return p, err
	}
	m := &meter{dev: dev, stream: s, limit: min(peakBytes, info.Free/4)}
	p.Flops = m.best(func(n int) (kernels.Call, float64) {
		x := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{n, n}}
		return callOf(dev, kernels.MatMul, kernels.MatMulAttrs{}, x, x), 2 * float64(n) * float64(n) * float64(n)
	}, 32, 2048)
	p.Bytes = m.largest(func(n int) (kernels.Call, float64) {
		x := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{n}}
		return callOf(dev, kernels.Add, nil, x, x), 12 * float64(n)
	}, 1<<12, peakBytes/12)
	p.Bus = p.Bytes
	if !dev.Unified() {
		p.Bus = m.bus()
	}
	return p, m.err
}

// callOf returns a call whose operands lie one after another, its output and its workspace last.
func callOf(dev kernels.Device, op *kernels.Op, attrs any, in ...kernels.Spec) kernels.Call {
	c := kernels.Call{Op: op, Attrs: attrs, Label: "peak"}
	out, err := op.Infer(attrs, in)
	if err != nil {
		return c // without operands, Bind says why
	}
	var end int64
	place := func(s kernels.Spec) kernels.Operand {
		o := kernels.Operand{Spec: s, Ref: arena.Ref{Offset: end, Size: s.Bytes()}}
		end += arena.Round(s.Bytes())
		return o
	}
	for _, s := range in {
		c.In = append(c.In, place(s))
	}
	for _, s := range out {
		c.Out = append(c.Out, place(s))
	}
	c.Work = arena.Ref{Offset: end, Size: dev.Workspace(op, attrs, in, out)}
	return c
}

// meter measures rates on a device. After an error it measures nothing.
type meter struct {
	dev    kernels.Device
	stream arena.Stream
	limit  int64 // bytes of device memory
	err    error
}

// best returns the best rate of calls of the sizes from, 2·from, … up to to: work divided by time.
func (m *meter) best(call func(size int) (c kernels.Call, work float64), from, to int) (best float64) {
	m.each(call, from, to, func(rate float64) { best = max(best, rate) })
	return best
}

// largest returns the rate of the largest call of the sizes from, 2·from, … up to to.
func (m *meter) largest(call func(size int) (c kernels.Call, work float64), from, to int) (last float64) {
	m.each(call, from, to, func(rate float64) { last = rate })
	return last
}

// each calls measured with the rate of each call of the sizes from, 2·from, … up to to.
func (m *meter) each(call func(size int) (c kernels.Call, work float64), from, to int, measured func(rate float64)) {
	for n := from; n <= to && m.err == nil; n *= 2 {
		c, work := call(n)
		bytes := c.Work.Offset + max(arena.Round(c.Work.Size), arena.Align)
		if bytes > m.limit {
			break
		}
		d := m.run(bytes, func(memory arena.Memory) (func() error, func() error, error) {
			p, err := m.dev.Bind([]kernels.Call{c}, kernels.Binding{Memory: memory, Base: []int64{0}})
			if err != nil {
				return nil, nil, err
			}
			return func() error { return p.Launch(m.stream) }, p.Close, nil
		})
		if d > 0 {
			measured(work / d.Seconds())
		}
		if d > peakTime {
			break
		}
	}
}

// run returns the shortest time of what prepare returns, on memory of that many bytes.
func (m *meter) run(bytes int64, prepare func(arena.Memory) (launch, done func() error, err error)) time.Duration {
	memory, err := m.dev.Alloc(bytes)
	if err != nil {
		m.err = err
		return 0
	}
	defer func() { m.err = errors.Join(m.err, memory.Free()) }()
	if m.err = m.stream.Fill(arena.Span{Memory: memory, Size: bytes}, 0); m.err != nil {
		return 0
	}
	launch, done, err := prepare(memory)
	if err != nil {
		m.err = err
		return 0
	}
	best := time.Duration(math.MaxInt64)
	for run := 0; run < peakRuns && (run < 2 || best < peakTime); run++ {
		begin := time.Now()
		if err := errors.Join(launch(), m.stream.Sync()); err != nil {
			m.err = err
			break
		}
		best = min(best, time.Since(begin))
	}
	if done != nil {
		m.err = errors.Join(m.err, done())
	}
	return best
}

// bus returns the bytes a second of the largest copy from pinned memory.
func (m *meter) bus() (rate float64) {
	for n := int64(1 << 16); n <= m.limit && m.err == nil; n *= 4 {
		pinned, err := m.dev.Pin(n)
		if err != nil {
			m.err = err
			break
		}
		clear(pinned.Bytes())
		d := m.run(n, func(memory arena.Memory) (func() error, func() error, error) {
			return func() error {
				return m.stream.Copy(arena.Span{Memory: memory, Size: n}, arena.Span{Memory: pinned, Size: n})
			}, nil, nil
		})
		m.err = errors.Join(m.err, pinned.Free())
		if d > 0 {
			rate = float64(n) / d.Seconds()
		}
		if d > peakTime {
			break
		}
	}
	return rate
}
