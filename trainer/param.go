package trainer

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Param is a parameter of the model, a running statistic, or a constant of its graph. It is a
// reference: Read and Write copy the elements from and to the device, or pinned host memory if it
// is offloaded. A Param may be used from any goroutine until Trainer.Close; then it returns
// ErrClosed.
type Param struct {
	Name      string
	Spec      kernels.Spec // type and shape
	Frozen    bool         // training does not change it
	Statistic bool         // it is the running mean or variance of a batch normalization

	trainer *Trainer
	tensor  hostTensor
}

// Read copies the elements, row-major, to dst, which must have Spec.Bytes() bytes; dataloader.View
// shows these as numbers. While Fit or Evaluate runs it returns ErrBusy; in the body of Steps it
// reads what the step left.
func (p Param) Read(dst []byte) error {
	return p.use(func() error { return p.tensor.Read(dst) })
}

// Write sets the elements from src, which must have Spec.Bytes() bytes in the format of Read. The
// state of the optimizer stays as it is. While Fit or Evaluate runs it returns ErrBusy; in the body
// of Steps it takes effect in the next step.
func (p Param) Write(src []byte) error {
	return p.use(func() error { return p.write(src) })
}

// ReadFloat32 is Read to dst as numbers, which must have as many elements; else the error is a
// *LengthError. Other types are converted; integers and float64 are rounded. It allocates nothing, but
// for the first conversion of a larger parameter than before.
func (p Param) ReadFloat32(dst []float32) error { return readParam(p, dst) }

// ReadFloat64 is ReadFloat32 to float64.
func (p Param) ReadFloat64(dst []float64) error { return readParam(p, dst) }

// WriteFloat32 is Write from numbers, row-major. Of a type of integers, all must be whole numbers that
// it can hold; else nothing is written and the error wraps ErrOption. It allocates as ReadFloat32.
func (p Param) WriteFloat32(src []float32) error { return writeParam(p, src) }

// WriteFloat64 is WriteFloat32 from float64, which a parameter of float32 rounds.
func (p Param) WriteFloat64(src []float64) error { return writeParam(p, src) }

// readParam is ReadFloat32 for T.
func readParam[T float32 | float64](p Param, dst []T) error {
	if err := checkLength(p.Name, p.Spec, len(dst)); err != nil {
		return err
	}
	return p.use(func() error {
		b := p.trainer.readBuffer(p.Spec.Bytes())
		if err := p.tensor.Read(b); err != nil {
			return err
		}
		toFloats(dst, p.Spec.Type, b)
		return nil
	})
}

// writeParam is WriteFloat32 for T.
func writeParam[T float32 | float64](p Param, src []T) error {
	if n := p.Spec.Shape.Elems(); n != len(src) {
		return fmt.Errorf("write %q %v: it has %d elements, and src %d: %w", p.Name, p.Spec, n, len(src), ErrOption)
	}
	return p.use(func() error {
		b := p.trainer.readBuffer(p.Spec.Bytes())
		if i, ok := fromFloats(b, p.Spec.Type, src); !ok {
			return fmt.Errorf("write %q %v: element %d is %v, which its type cannot hold: %w", p.Name, p.Spec, i, src[i], ErrOption)
		}
		return p.write(b)
	})
}

// fromFloats sets the elements of type t at b to src. ok is false if it cannot hold src[i].
func fromFloats[T float32 | float64](b []byte, t arena.DType, src []T) (i int, ok bool) {
	switch t {
	case arena.Float32:
		convertAll(dataloader.View[float32](b), src)
	case arena.Float64:
		convertAll(dataloader.View[float64](b), src)
	case arena.Int32:
		return toWhole(dataloader.View[int32](b), src, -1<<31, 1<<31)
	case arena.Int64:
		return toWhole(dataloader.View[int64](b), src, -1<<63, 1<<63)
	case arena.Uint8:
		return toWhole(b, src, 0, 1<<8)
	}
	return 0, true
}

// toWhole sets dst to src, which must be whole numbers from least to below most.
func toWhole[D int32 | int64 | uint8, T float32 | float64](dst []D, src []T, least, most float64) (i int, ok bool) {
	for i, x := range src {
		if v := float64(x); !(v >= least && v < most) || v != math.Trunc(v) {
			return i, false
		}
		dst[i] = D(x)
	}
	return 0, true
}

// write sets the elements. The caller has the device.
func (p Param) write(src []byte) error {
	p.trainer.own.changed = true
	return p.tensor.Write(src)
}

// use runs f while nothing else uses the device.
func (p Param) use(f func() error) error {
	if err := p.trainer.use().acquire(context.Background()); err != nil {
		return fmt.Errorf("parameter %q: %w", p.Name, err)
	}
	defer p.trainer.usage.release()
	return f()
}

// Params returns all that a checkpoint needs of the model: its parameters and constants, in the
// order in which it first uses them, then its running statistics. After Close it returns ErrClosed.
func (t *Trainer) Params() ([]Param, error) {
	if t.use().isClosed() {
		return nil, errClosed
	}
	return t.params(false)
}

// params is Params of a trainer that is open; averaged: with the averages of parameters.
func (t *Trainer) params(averaged bool) ([]Param, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ps []Param
	for _, home := range slices.Concat(t.plan.parameters(), t.plan.homes.Parts(ir.Statistics)) {
		ref := home.Ref
		if average, ok := t.plan.average(home.Name); ok && averaged {
			ref = average.Ref
		}
		h, err := t.memory.tensor(ref, 0, home.Name)
		if err != nil {
			return nil, err
		}
		ps = append(ps, Param{Name: home.Name, Spec: home.Spec, Frozen: t.plan.constant(home),
			Statistic: home.Ref.Region == ir.Statistics, trainer: t, tensor: h})
	}
	return ps, nil
}
