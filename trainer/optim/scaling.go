package optim

import "fmt"

// Scaling multiplies the gradient of the loss by a scale, and divides each gradient by it before it is clipped and used, so that gradients of
// 16-bit arithmetic do not vanish on their way. An update whose gradients overflow is skipped as a whole: parameters, what the optimizer keeps, the
// number of the update and the rate stay as they are, and the scale falls. It rises again after a number of updates without overflow.
// The zero value scales where products and activations are float16. With powers of two, as by default, gradients that stay in range keep their bits.
//
// Source: Micikevicius et al., ICLR 2018, section 3.2; factors and interval are those of torch.amp.GradScaler.
type Scaling struct {
	Mode     ScalingMode
	Initial  float64 // first scale, 1 to 2³². 0: 65536
	Growth   float64 // the scale is multiplied by it after Interval updates in a row without overflow. 0: 2
	Backoff  float64 // and by this after an overflow. 0: 0.5
	Interval int64   // updates. 0: 2000

	// State is what an earlier run ended with, in place of Initial. Zero: this is the first.
	State ScalingState
}

// ScalingMode is when the loss is scaled.
type ScalingMode uint8

// The modes.
const (
	ScaleFloat16 ScalingMode = iota // where products and activations are float16
	ScaleAlways                     // in any precision
	ScaleNever                      // in none
)

// Bounds of a scale. An overflow at the smallest cannot be cured by a smaller one: it is an error.
const (
	MinScale = 1
	MaxScale = 1 << 32
)

// ScalingState is how far loss scaling has come. The zero value stands for no scaling.
type ScalingState struct {
	Scale   float64 // of the next update
	Good    int64   // updates without overflow since the scale has changed
	Skipped int64   // updates in all
}

// Start returns the state before the first update.
func (s Scaling) Start() ScalingState {
	if s.State.Scale != 0 {
		return s.State
	}
	return ScalingState{Scale: or(s.Initial, 65536)}
}

// Next returns the state after an update at state t. overflow: its gradients were not finite, and it was skipped.
func (s Scaling) Next(t ScalingState, overflow bool) ScalingState {
	if overflow {
		return ScalingState{Scale: max(MinScale, t.Scale*or(s.Backoff, 0.5)), Skipped: t.Skipped + 1}
	}
	if t.Good++; t.Good >= s.interval() {
		t.Good, t.Scale = 0, min(MaxScale, t.Scale*or(s.Growth, 2))
	}
	return t
}

func (s Scaling) interval() int64 {
	if s.Interval == 0 {
		return 2000
	}
	return s.Interval
}

// Validate returns an error that names every bad field and wraps ErrOption.
func (s Scaling) Validate() error {
	var mode, backoff, state error
	if s.Mode > ScaleNever {
		mode = fmt.Errorf("%s is %d, must be ScaleFloat16, ScaleAlways or ScaleNever", "Mode", s.Mode)
	}
	if b := or(s.Backoff, 0.5); !(b > 0 && b < 1) {
		backoff = fmt.Errorf("%s is %v, must be above 0 and below 1", "Backoff", b)
	}
	growth := least("Growth", or(s.Growth, 2), 1)
	if t := s.State; t != (ScalingState{}) {
		state = scale("State.Scale", t.Scale)
		if state == nil && (t.Good < 0 || t.Skipped < 0) {
			state = fmt.Errorf("%s counts %d good and %d skipped updates, must be 0 or more", "State", t.Good, t.Skipped)
		}
	}
	return check("loss scaling", mode, scale("Initial", or(s.Initial, 65536)), growth, backoff, atLeast("Interval", s.interval()), state)
}

// scale returns an error unless v can be a scale.
func scale(name string, v float64) error {
	if v >= MinScale && v <= MaxScale {
		return nil
	}
	return fmt.Errorf("%s is %v, must be %d to %d", name, v, MinScale, int64(MaxScale))
}
