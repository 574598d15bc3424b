package optim

import "fmt"

// Scaling is dynamic loss scaling. The gradient of the loss is multiplied by a scale, so that
// 16-bit gradients do not underflow in the backward pass; each parameter's gradient is divided by
// it before clipping and the update.
//
// An update whose gradients overflow is skipped: parameters, optimizer state, update number and
// rate stay as they are, and the scale is lowered. After Interval updates without overflow it is
// raised. The zero value scales the loss whenever products and activations are float16. Scales that
// are powers of two, the default, change no bit of a gradient that stays in range.
//
// Source: Micikevicius et al., ICLR 2018, section 3.2; factors and interval are those of
// torch.amp.GradScaler.
type Scaling struct {
	Mode     ScalingMode
	Initial  float64 // first scale, MinScale to MaxScale; 0: 65536
	Growth   float64 // factor of the scale after Interval updates in a row without overflow; 0: 2
	Backoff  float64 // factor of the scale after an overflow; 0: 0.5
	Interval int64   // updates; 0: 2000

	// State resumes an earlier run: its last state, used instead of Initial. Zero: a new run.
	State ScalingState
}

// ScalingMode selects the precisions in which the loss is scaled.
type ScalingMode uint8

// The modes.
const (
	ScaleFloat16 ScalingMode = iota // scale if products and activations are float16
	ScaleAlways                     // scale in every precision
	ScaleNever                      // do not scale
)

// Limits of a scale. An overflow at MinScale is an error: no smaller scale could avoid it.
const (
	MinScale = 1
	MaxScale = 1 << 32
)

// ScalingState is the state of loss scaling between updates. The zero value means that the loss is
// not scaled.
type ScalingState struct {
	Scale   float64 // scale of the next update
	Good    int64   // updates in a row without overflow since the scale last changed
	Skipped int64   // skipped updates since the first
}

// Start returns the state before the first update: State if it is set, else one with the scale
// Initial.
func (s Scaling) Start() ScalingState {
	if s.State.Scale != 0 {
		return s.State
	}
	return ScalingState{Scale: or(s.Initial, 65536)}
}

// Next returns the state that follows t. overflow: the gradients of the update were not finite, and
// it was skipped.
func (s Scaling) Next(t ScalingState, overflow bool) ScalingState {
	if overflow {
		return ScalingState{Scale: max(MinScale, t.Scale*or(s.Backoff, 0.5)), Skipped: t.Skipped + 1}
	}
	if t.Good++; t.Good >= s.interval() {
		t.Good, t.Scale = 0, min(MaxScale, t.Scale*or(s.Growth, 2))
	}
	return t
}

// interval returns Interval or its default.
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
	growth := checkMin("Growth", or(s.Growth, 2), 1)
	if t := s.State; t != (ScalingState{}) {
		state = checkScale("State.Scale", t.Scale)
		if state == nil && (t.Good < 0 || t.Skipped < 0) {
			state = fmt.Errorf("%s counts %d good and %d skipped updates, must be 0 or more", "State", t.Good, t.Skipped)
		}
	}
	return check("loss scaling", mode, checkScale("Initial", or(s.Initial, 65536)), growth, backoff, checkCount("Interval", s.interval()), state)
}

// checkScale returns an error unless v is between MinScale and MaxScale.
func checkScale(name string, v float64) error {
	if v >= MinScale && v <= MaxScale {
		return nil
	}
	return fmt.Errorf("%s is %v, must be %d to %d", name, v, MinScale, int64(MaxScale))
}
