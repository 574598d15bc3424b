// Package optim decides how parameters change: optimizers, learning-rate schedules and gradient clipping.
//
// An [Optimizer] is a plain struct whose zero value is the textbook's default. It chooses the operation that
// updates a parameter where it lies and what that operation keeps beside it. A [Schedule] makes the
// rate of each update from the optimizer's own. [Clip] bounds gradients before they are used. [Check] finds every mistake in the three
// before the first update, and [Write] makes the numbers of one update. [Scaling] multiplies the loss, so that gradients of 16-bit arithmetic
// do not vanish, and [ScalingState] is how far it has come.
package optim

import (
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/kernels"
)

// Optimizer is a rule of update. Those of this package are plain values, safe for concurrent use.
//
// The operation takes (parameter, gradient, guard, controls [, scale], states...), as those of package kernels do,
// and changes parameter and states in place.
type Optimizer interface {
	// Op is the operation that updates one parameter.
	Op() *kernels.Op
	// Attrs are its attributes. Scaled: the operation has the input scale, as where clip bounds a norm.
	Attrs(clip Clip, scaled bool) any
	// States are what is kept for one parameter, in the order in which the operation takes them.
	States(param kernels.Spec) []kernels.State
	// Controls writes what changes from update to update, for update t, counted from 1: dst[0] = the rate before any
	// schedule, dst[1] = t, dst[2] to dst[4] what the rule needs. The others are the trainer's. It allocates nothing.
	Controls(t int64, dst []float64)
	// Validate returns an error that names every bad field and wraps ErrOption.
	Validate() error
}

// Controls is the length of a controls vector.
const Controls = kernels.Controls

// Clip bounds gradients. The zero value does not.
type Clip struct {
	// Value limits each element to ±Value. 0: no limit.
	Value float64
	// Norm limits the norm of all gradients together: where it is larger, all are scaled by Norm/norm, before
	// Value is applied. 0: no limit.
	Norm float64
}

// Validate returns an error that names every bad field and wraps ErrOption.
func (c Clip) Validate() error {
	return check("clip", least("Value", c.Value, 0), least("Norm", c.Norm, 0))
}

// Named is an optimizer with the name that Parse knows it by.
type Named struct {
	Name      string
	Optimizer Optimizer
}

// All returns the optimizers of this package with their defaults, by name.
func All() []Named {
	return []Named{
		{"adafactor", Adafactor{}},
		{"adam", Adam{}},
		{"adam16", Adam{Storage: Bfloat16}},
		{"adam8", Adam{Storage: Block8}},
		{"adamw", AdamW{}},
		{"adamw16", AdamW{Storage: Bfloat16}},
		{"adamw8", AdamW{Storage: Block8}},
		{"lion", Lion{}},
		{"momentum", SGD{Momentum: 0.9}},
		{"nesterov", SGD{Momentum: 0.9, Nesterov: true}},
		{"rmsprop", RMSProp{}},
		{"sgd", SGD{}},
	}
}

// Parse returns the optimizer of that name with its defaults.
func Parse(name string) (Optimizer, error) {
	var names []string
	for _, n := range All() {
		if n.Name == name {
			return n.Optimizer, nil
		}
		names = append(names, n.Name)
	}
	return nil, fmt.Errorf("no optimizer %q: there are %s: %w", name, strings.Join(names, ", "), ErrOption)
}

// AtRate returns o, one of this package's optimizers, with another rate; 0 is its default.
func AtRate(o Optimizer, rate float64) (Optimizer, error) {
	switch o := o.(type) {
	case SGD:
		o.Rate = rate
		return o, nil
	case RMSProp:
		o.Rate = rate
		return o, nil
	case Adam:
		o.Rate = rate
		return o, nil
	case AdamW:
		o.Rate = rate
		return o, nil
	case Lion:
		o.Rate = rate
		return o, nil
	case Adafactor:
		o.Rate = rate
		return o, nil
	}
	return nil, fmt.Errorf("%T has no rate that can be set: %w", o, ErrOption)
}

// update is what the attributes of all rules share.
func update(clip Clip, scaled bool, decay float64) kernels.UpdateAttrs {
	return kernels.UpdateAttrs{ClipValue: clip.Value, Scaled: scaled, Decay: decay}
}

// like returns states of the parameter's own type and shape.
func like(param kernels.Spec, names ...string) []kernels.State {
	states := make([]kernels.State, len(names))
	for i, name := range names {
		states[i] = kernels.State{Name: name, Spec: param}
	}
	return states
}

// or returns v, or a default where v is 0.
func or(v, def float64) float64 {
	if v == 0 {
		return def
	}
	return v
}
