package optim

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/kernels"
)

// Adam follows running means of the gradient and of its square, both corrected for their start at 0.
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
	Decay   float64 // L2: Decay·p is added to the gradient; AdamW has the decoupled form
	Storage Storage // how m and v are kept
}

// Storage is how an optimizer keeps its states.
type Storage uint8

// The ways to keep a state. Only Adam and AdamW have more than the first.
const (
	Full     Storage = iota // in the type of the parameter: 8 bytes an element for m and v of float32
	Block8                  // a byte an element, and a scale for each 256: 2 + 8/256 bytes; see kernels.Adam8
	Bfloat16                // 4 bytes an element; see kernels.Adam16
)

// Op implements Optimizer.
func (o Adam) Op() *kernels.Op { return o.Storage.op(kernels.Adam) }

// Attrs implements Optimizer.
func (o Adam) Attrs(clip Clip, scaled bool) any { return o.Storage.attrs(o.attrs(clip, scaled), false) }

func (o Adam) attrs(clip Clip, scaled bool) kernels.AdamAttrs {
	return kernels.AdamAttrs{
		UpdateAttrs: update(clip, scaled, o.Decay),
		Beta1:       or(o.Beta1, 0.9), Beta2: or(o.Beta2, 0.999), Epsilon: or(o.Epsilon, 1e-8),
	}
}

// States implements Optimizer.
func (o Adam) States(param kernels.Spec) []kernels.State {
	switch o.Storage {
	case Block8:
		return kernels.Adam8States(param)
	case Bfloat16:
		return kernels.Adam16States(param)
	}
	return like(param, "m", "v")
}

// Controls implements Optimizer. dst[2] = 1 - Beta1ᵗ, dst[3] = 1 - Beta2ᵗ.
func (o Adam) Controls(t int64, dst []float64) {
	dst[0], dst[1] = or(o.Rate, 1e-3), float64(t)
	dst[2], dst[3] = correction(or(o.Beta1, 0.9), t), correction(or(o.Beta2, 0.999), t)
}

// Validate implements Optimizer.
func (o Adam) Validate() error { return o.check("adam") }

func (o Adam) check(what string) error {
	return check(what, least("Rate", o.Rate, 0), share("Beta1", o.Beta1), share("Beta2", o.Beta2), least("Epsilon", o.Epsilon, 0), least("Decay", o.Decay, 0),
		o.Storage.check())
}

// op returns the rule of Adam that keeps states so: full where as they are.
func (s Storage) op(full *kernels.Op) *kernels.Op {
	switch s {
	case Block8:
		return kernels.Adam8
	case Bfloat16:
		return kernels.Adam16
	}
	return full
}

// attrs returns the attributes of op's rule.
func (s Storage) attrs(a kernels.AdamAttrs, decoupled bool) any {
	switch s {
	case Block8:
		return kernels.Adam8Attrs{AdamAttrs: a, Decoupled: decoupled}
	case Bfloat16:
		return kernels.Adam16Attrs{AdamAttrs: a, Decoupled: decoupled}
	}
	return a
}

func (s Storage) check() error {
	if s <= Bfloat16 {
		return nil
	}
	return fmt.Errorf("Storage is %d, must be Full, Block8 or Bfloat16", s)
}

// correction is 1 - βᵗ, without the cancellation that the difference has while βᵗ is near 1.
func correction(beta float64, t int64) float64 { return -math.Expm1(float64(t) * math.Log(beta)) }

// AdamW is Adam with decoupled decay: p -= rate·Decay·p beside Adam's own step, untouched by its scaling.
// Source: Loshchilov and Hutter, 2019, algorithm 2, with the decay multiplied by the rate as in PyTorch's torch.optim.AdamW.
type AdamW struct {
	Rate    float64 // 0: 0.001
	Beta1   float64 // 0: 0.9
	Beta2   float64 // 0: 0.999
	Epsilon float64 // 0: 1e-8
	Decay   float64 // 0: 0.01; for none use Adam
	Storage Storage // how m and v are kept
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

// Controls implements Optimizer. dst[2] = 1 - Beta1ᵗ, dst[3] = 1 - Beta2ᵗ.
func (o AdamW) Controls(t int64, dst []float64) { Adam(o).Controls(t, dst) }

// Validate implements Optimizer.
func (o AdamW) Validate() error { return Adam(o).check("adamw") }
