// Package optim holds the optimizers, learning-rate schedules, gradient clipping and loss scaling
// of a trainer.
//
// An [Optimizer] is a plain struct, such as [Adam]; its zero value has the defaults of the paper.
// It names the operation that updates a parameter in place, and the state that this operation keeps
// for each parameter. A [Schedule], such as [Cosine], computes the learning rate of each update
// from the optimizer's own rate. [Clip] limits gradients. [Scaling] scales the loss, so that 16-bit
// gradients do not underflow.
//
// A program sets them in trainer.Options:
//
//	trainer.Options{Optimizer: optim.AdamW{Rate: 3e-4}, Schedule: optim.Warmup{Steps: 100}, Clip: optim.Clip{Norm: 1}}
//
// The rest is for the trainer and for optimizers of your own: [Check] validates all options before
// the first update, and [WriteControls] fills the controls vector of one update.
//
// Rules compute in float32 if the parameters are float32. Options whose products it takes for 0 are
// refused: rates, decays and clipping limits below 2⁻⁶³ (1.1e-19), an Epsilon that is small against
// gradients whose squares it takes for 0 (with usual betas below 1.1e-16), and betas above 1 - 2⁻²⁰.
// The rules that square gradients limit them to ±2⁶³ (float64: 2⁵¹¹), so that a mean of squares stays
// finite and forgets any gradient.
//
// In formulas p is a parameter, g its gradient, m and v its running means, and t the number of the
// update, from 1. rms(x) is the root of the mean square of all elements of x. Other symbols are
// fields of the optimizer or defined where they occur.
package optim

import (
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/kernels"
)

// Optimizer is a rule that updates a parameter from its gradient. The optimizers of this package
// are plain values, safe for concurrent use.
//
// The operation has the inputs (parameter, gradient, guard, controls [, scale], states...) of
// package kernels and changes the parameter and its states in place.
type Optimizer interface {
	// Op returns the operation that updates one parameter.
	Op() *kernels.Op
	// Attrs returns the attributes of the operation. If scaled is true, the operation has the input
	// scale, by which it multiplies the gradient; clipping by norm and loss scaling need it.
	Attrs(clip Clip, scaled bool) any
	// States returns the states of one parameter, in the order of the operation's inputs.
	States(param kernels.Spec) []kernels.State
	// Controls writes the numbers that change with update t, counted from 1, to the controls vector
	// dst, which has [Controls] elements: the rate before any schedule to dst[0], t to dst[1], and
	// numbers of the rule's own to dst[2] to dst[4]. The trainer writes the other elements.
	// Controls allocates nothing.
	Controls(t int64, dst []float64)
	// Validate returns an error that names every bad field and wraps ErrOption.
	Validate() error
}

// Controls is the length of the controls vector: the numbers that the host sends to the device with
// each step, as the learning rate. See [kernels.Controls].
const Controls = kernels.Controls

// Clip limits gradients before an update. The zero value sets no limit.
type Clip struct {
	// Value limits each element to ±Value. 0: no limit.
	Value float64
	// Norm limits the L2 norm of all gradients together: a larger norm scales all gradients by
	// Norm/norm, before Value applies. 0: no limit.
	Norm float64
}

// Validate returns an error that names every bad field and wraps ErrOption.
func (c Clip) Validate() error {
	return check("clip", checkLeast("Value", c.Value), checkLeast("Norm", c.Norm))
}

// Named is an optimizer and its name for Parse.
type Named struct {
	Name      string
	Optimizer Optimizer
}

// All returns the optimizers of this package with their defaults, sorted by name.
func All() []Named {
	return []Named{
		{"adafactor", Adafactor{}},
		{"adam", Adam{}},
		{"adam16", Adam{Storage: BFloat16}},
		{"adam8", Adam{Storage: Block8}},
		{"adamw", AdamW{}},
		{"adamw16", AdamW{Storage: BFloat16}},
		{"adamw8", AdamW{Storage: Block8}},
		{"lion", Lion{}},
		{"momentum", SGD{Momentum: 0.9}},
		{"nesterov", SGD{Momentum: 0.9, Nesterov: true}},
		{"rmsprop", RMSProp{}},
		{"sgd", SGD{}},
	}
}

// Parse returns the optimizer called name, such as "sgd" or "adamw", with its defaults. [All] has
// all names. An unknown name is an error that wraps ErrOption and lists all names.
func Parse(name string) (Optimizer, error) {
	var names []string
	for _, n := range All() {
		if n.Name == name {
			return n.Optimizer, nil
		}
		names = append(names, n.Name)
	}
	return nil, fmt.Errorf("no optimizer %q: choose one of %s: %w", name, strings.Join(names, ", "), ErrOption)
}

// AtRate returns a copy of o with the given learning rate; 0 is the default of the optimizer. An
// optimizer that is not of this package is an error that wraps ErrOption.
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
	return nil, fmt.Errorf("%T is not an optimizer of package optim: set its rate directly: %w", o, ErrOption)
}

// updateAttrs returns the attributes that all rules share.
func updateAttrs(clip Clip, scaled bool, decay float64) kernels.UpdateAttrs {
	return kernels.UpdateAttrs{ClipValue: clip.Value, Scaled: scaled, Decay: decay}
}

// statesLike returns one state for each name, of the parameter's own type and shape.
func statesLike(param kernels.Spec, names ...string) []kernels.State {
	states := make([]kernels.State, len(names))
	for i, name := range names {
		states[i] = kernels.State{Name: name, Spec: param}
	}
	return states
}

// or returns v, or def if v is 0.
func or(v, def float64) float64 {
	if v == 0 {
		return def
	}
	return v
}
