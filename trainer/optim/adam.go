package optim

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/kernels"
)

// Adam divides a running mean of the gradient by the root of a running mean of its square. Both are
// corrected for their start at 0.
//
//	m = Beta1·m + (1-Beta1)·g;  v = Beta2·v + (1-Beta2)·g²
//	p -= rate · m/(1-Beta1ᵗ) / (√(v/(1-Beta2ᵗ)) + Epsilon)
//
// Source: Kingma and Ba, 2015, algorithm 1 (not the reordered form at the end of its section 2).
type Adam struct {
	Rate    float64 // 0: 0.001
	Beta1   float64 // 0: 0.9
	Beta2   float64 // 0: 0.999
	Epsilon float64 // 0: 1e-8
	Decay   float64 // L2 penalty: Decay·p is added to the gradient; 0: none. AdamW has the decoupled form
	Storage Storage // how m and v are stored
}

// Storage is the format in which Adam and AdamW store m and v. Smaller formats cost accuracy, but
// no time.
type Storage uint8

// The formats. Sizes are for m and v together, of one float32 element.
const (
	Full     Storage = iota // the type of the parameter: 8 bytes
	Block8                  // 8 bits an element, with a scale for each block of 256: 2 + 4/256 bytes; needs Beta1² below Beta2; see kernels.Adam8
	BFloat16                // bfloat16 with stochastic rounding: 4 bytes; see kernels.Adam16
)

// Op implements Optimizer.
func (o Adam) Op() *kernels.Op { return o.Storage.op(kernels.Adam) }

// Attrs implements Optimizer.
func (o Adam) Attrs(clip Clip, scaled bool) any { return o.Storage.attrs(o.attrs(clip, scaled), false) }

// attrs returns the attributes for states of format Full.
func (o Adam) attrs(clip Clip, scaled bool) kernels.AdamAttrs {
	return kernels.AdamAttrs{
		UpdateAttrs: updateAttrs(clip, scaled, o.Decay),
		Beta1:       or(o.Beta1, 0.9), Beta2: or(o.Beta2, 0.999), Epsilon: or(o.Epsilon, 1e-8),
	}
}

// States implements Optimizer.
func (o Adam) States(param kernels.Spec) []kernels.State {
	switch o.Storage {
	case Block8:
		return kernels.Adam8States(param)
	case BFloat16:
		return kernels.Adam16States(param)
	}
	return statesLike(param, "m", "v")
}

// Controls implements Optimizer. dst[2] is 1 - Beta1ᵗ, dst[3] is 1 - Beta2ᵗ.
func (o Adam) Controls(t int64, dst []float64) {
	dst[0], dst[1] = or(o.Rate, 1e-3), float64(t)
	dst[2], dst[3] = correction(or(o.Beta1, 0.9), t), correction(or(o.Beta2, 0.999), t)
}

// Validate implements Optimizer.
func (o Adam) Validate() error { return o.check("adam") }

// check is Validate for the optimizer called what.
func (o Adam) check(what string) error {
	return check(what, checkFactor("Rate", o.Rate), checkFraction("Beta1", o.Beta1), checkFraction("Beta2", o.Beta2),
		checkEpsilon(o.Epsilon, or(o.Beta2, 0.999)), checkFactor("Decay", o.Decay), o.Storage.check(), o.checkRatio())
}

// checkRatio returns an error if means of format Block8 may grow beyond any multiple of their roots.
func (o Adam) checkRatio() error {
	b1, b2 := or(o.Beta1, 0.9), or(o.Beta2, 0.999)
	if o.Storage != Block8 || !(b1*b1 >= b2) {
		return nil
	}
	return fmt.Errorf("%s is %v, must be above the square of Beta1, %v, with Storage Block8", "Beta2", b2, b1)
}

// op returns the operation for states of this format; full is the one for Full.
func (s Storage) op(full *kernels.Op) *kernels.Op {
	switch s {
	case Block8:
		return kernels.Adam8
	case BFloat16:
		return kernels.Adam16
	}
	return full
}

// attrs returns the attributes of the operation for states of this format.
func (s Storage) attrs(a kernels.AdamAttrs, decoupled bool) any {
	switch s {
	case Block8:
		return kernels.Adam8Attrs{AdamAttrs: a, Decoupled: decoupled}
	case BFloat16:
		return kernels.Adam16Attrs{AdamAttrs: a, Decoupled: decoupled}
	}
	return a
}

// check returns an error if s is not a Storage.
func (s Storage) check() error {
	if s <= BFloat16 {
		return nil
	}
	return fmt.Errorf("Storage is %d, must be Full, Block8 or BFloat16", s)
}

// correction returns 1 - βᵗ without cancellation where βᵗ is near 1.
func correction(beta float64, t int64) float64 { return -math.Expm1(float64(t) * math.Log(beta)) }

// AdamW is Adam with decoupled weight decay: each update also subtracts rate·Decay·p, which is not
// divided by √v.
//
// Source: Loshchilov and Hutter, 2019, algorithm 2, with the decay multiplied by the rate as in
// PyTorch's torch.optim.AdamW.
type AdamW struct {
	Rate    float64 // 0: 0.001
	Beta1   float64 // 0: 0.9
	Beta2   float64 // 0: 0.999
	Epsilon float64 // 0: 1e-8
	Decay   float64 // decoupled weight decay; 0: 0.01. For none use Adam
	Storage Storage // how m and v are stored
}

// Op implements Optimizer.
func (o AdamW) Op() *kernels.Op { return o.Storage.op(kernels.AdamW) }

// Attrs implements Optimizer.
func (o AdamW) Attrs(clip Clip, scaled bool) any {
	o.Decay = or(o.Decay, 0.01)
	return o.Storage.attrs(Adam(o).attrs(clip, scaled), true)
}

// States implements Optimizer.
func (o AdamW) States(param kernels.Spec) []kernels.State { return Adam(o).States(param) }

// Controls implements Optimizer. dst[2] is 1 - Beta1ᵗ, dst[3] is 1 - Beta2ᵗ.
func (o AdamW) Controls(t int64, dst []float64) { Adam(o).Controls(t, dst) }

// Validate implements Optimizer.
func (o AdamW) Validate() error { return Adam(o).check("adamw") }
