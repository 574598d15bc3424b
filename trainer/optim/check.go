package optim

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// ErrOption is wrapped by errors about options outside their range. It is [arena.ErrOption].
var ErrOption = arena.ErrOption

// OptionError lists every mistake in one optimizer, schedule or other option. It unwraps to
// ErrOption and to the mistakes.
type OptionError struct {
	What     string  // "adam", "clip", or the Go type of an optimizer or schedule that is not of this package
	Problems []error // one for each bad field
}

func (e *OptionError) Error() string {
	s := make([]string, len(e.Problems))
	for i, err := range e.Problems {
		s[i] = err.Error()
	}
	return e.What + ": " + strings.Join(s, "; ")
}

// Unwrap returns ErrOption and the mistakes.
func (e *OptionError) Unwrap() []error { return append([]error{ErrOption}, e.Problems...) }

// Check validates an optimizer, a schedule and a clip before the first update. It returns every
// mistake: what the Validate methods return, nil pointers, panics, and a first rate outside the
// range that [WriteControls] describes. s may be nil. The error wraps ErrOption.
func Check(o Optimizer, s Schedule, c Clip) error {
	return errors.Join(checkOptimizer(o, c), c.Validate(), ValidateSchedule(s))
}

// checkOptimizer validates o, and calls each of its methods once, as a trainer does.
func checkOptimizer(o Optimizer, c Clip) error {
	if o == nil {
		return check("optimizer", errors.New("nil: use optim.SGD{} or another"))
	}
	return protect(o, func() error {
		if err := o.Validate(); err != nil {
			return err
		}
		if o.Op() == nil {
			return errors.New("Op is nil")
		}
		o.States(kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{1}})
		o.Attrs(c, c.Norm > 0)
		dst := make([]float64, Controls)
		o.Controls(1, dst)
		return checkRate(dst[0], 1)
	})
}

// ValidateSchedule calls s.Validate, if s has that method, and checks the rate of update 1. s may
// be nil. The error wraps ErrOption.
func ValidateSchedule(s Schedule) error {
	if s == nil {
		return nil
	}
	return protect(s, func() error {
		if v, ok := s.(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				return err
			}
		}
		return checkRate(s.Rate(1, 1), 1)
	})
}

// WriteControls fills dst, a controls vector of [Controls] elements, for update t, counted from 1:
// with the numbers of o, and with the rate of s if s is not nil. A rate that has fallen below
// 2⁻⁶³ becomes 0, for which float32 takes products with it: parameters no longer change. Any other
// rate that is not 0 or in the range of the field Rate of optimizers, 2⁻⁶³ to 2⁶³, and a panic in o
// or s, is an error that names the update and wraps ErrOption. Without an error it allocates nothing.
func WriteControls(o Optimizer, s Schedule, t int64, dst []float64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("update %d: panic in %T with schedule %T: %v: %w", t, o, s, p, ErrOption)
		}
	}()
	o.Controls(t, dst)
	if s != nil {
		dst[0] = s.Rate(dst[0], t)
	}
	if dst[0] > 0 && dst[0] < leastNumber {
		dst[0] = 0
	}
	if inRange(dst[0]) {
		return nil
	}
	var culprit any = o
	if s != nil {
		culprit = s
	}
	return fmt.Errorf("%T: %w: %w", culprit, checkRate(dst[0], t), ErrOption)
}

// inRange reports whether r is 0 or a rate that moves parameters and leaves them finite.
func inRange(r float64) bool { return r == 0 || r >= leastNumber && r <= mostNumber }

// checkRate returns an error unless r, the rate of update t, is in range.
func checkRate(r float64, t int64) error {
	switch {
	case inRange(r):
		return nil
	case r > 0 && r < leastNumber:
		return fmt.Errorf("the rate of update %d is %v, must be 0 or %.3g or more: float32 takes products with it for 0", t, r, float64(leastNumber))
	case r > mostNumber && !math.IsInf(r, 0):
		return fmt.Errorf("the rate of update %d is %v, must be %.3g or less: float32 takes products with it for infinite", t, r, float64(mostNumber))
	}
	return fmt.Errorf("the rate of update %d is %v, must be finite and 0 or more", t, r)
}

// protect calls f, which validates v, and returns its error or panic as an error that wraps
// ErrOption. If v is a nil pointer, f is not called.
func protect(v any, f func() error) (err error) {
	what := fmt.Sprintf("%T", v)
	if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
		return check(what, errors.New("nil pointer"))
	}
	defer func() {
		if p := recover(); p != nil {
			err = check(what, fmt.Errorf("panic: %v", p))
		}
	}()
	if err = f(); err == nil || errors.Is(err, ErrOption) {
		return err
	}
	return check(what, err)
}

// checkMin returns an error unless v is finite and low or more.
func checkMin(name string, v, low float64) error {
	if v >= low && !math.IsInf(v, 0) {
		return nil
	}
	return fmt.Errorf("%s is %v, must be finite and %v or more", name, v, low)
}

// Limits of options. Rules compute in float32, whose smallest normal number is 2⁻¹²⁶ and in which
// smaller numbers count as 0.
const (
	// leastNumber is the lower limit of numbers that are multiplied by gradients or parameters.
	// Products with numbers down to leastNumber itself are normal.
	leastNumber = 0x1p-63
	mostNumber  = 0x1p63 // upper limit of factors and of Epsilon: their products stay finite
	// leastEpsilon is the lower limit of Epsilon where the weight of a square in its mean is 1: the
	// root of a mean of squares that count as 0 is below 2⁻⁶³, a 32nd of it.
	leastEpsilon = 0x1p-58
	// mostFraction is the upper limit of factors of running means. Above it float32 gets 1 - β wrong by
	// more than a thirtieth, and 1 - 2⁻²⁵ is 1: a mean would never forget.
	mostFraction = 1 - 0x1p-20
)

// checkLeast returns an error unless v is 0, which stands for a default or for none, or finite and
// leastNumber or more.
func checkLeast(name string, v float64) error {
	if v > 0 && v < leastNumber {
		return fmt.Errorf("%s is %v, must be 0 or %.3g or more: float32 takes products with it for 0", name, v, float64(leastNumber))
	}
	return checkMin(name, v, 0)
}

// checkFactor returns an error unless v is 0, which stands for a default or for none, or leastNumber
// to mostNumber.
func checkFactor(name string, v float64) error {
	if v > mostNumber && !math.IsInf(v, 0) {
		return fmt.Errorf("%s is %v, must be %.3g or less: float32 takes products with it for infinite", name, v, float64(mostNumber))
	}
	return checkLeast(name, v)
}

// checkEpsilon returns an error unless epsilon is 0, which stands for a default, or so large that a
// step is right where the squares of gradients count as 0. beta is the factor of their mean.
func checkEpsilon(epsilon, beta float64) error {
	low := leastEpsilon / math.Sqrt(1-beta)
	if epsilon > 0 && epsilon < low {
		return fmt.Errorf("%s is %v, must be 0 or %.3g or more: float32 takes the squares of gradients of that size for 0",
			"Epsilon", epsilon, low)
	}
	return checkFactor("Epsilon", epsilon)
}

// checkFraction returns an error unless v is 0 to mostFraction.
func checkFraction(name string, v float64) error {
	if v > mostFraction && v < 1 {
		return fmt.Errorf("%s is %v, must be %.7g or less: float32 cannot hold the rest to 1", name, v, mostFraction)
	}
	if v >= 0 && v < 1 {
		return nil
	}
	return fmt.Errorf("%s is %v, must be 0 or more and below 1", name, v)
}

// checkCount returns an error unless n is 1 or more.
func checkCount(name string, n int64) error {
	if n >= 1 {
		return nil
	}
	return fmt.Errorf("%s is %d, must be 1 or more", name, n)
}

// check returns an OptionError with the errors that are not nil, or nil if there are none.
func check(what string, errs ...error) error {
	e := &OptionError{What: what}
	for _, err := range errs {
		if err != nil {
			e.Problems = append(e.Problems, err)
		}
	}
	if e.Problems == nil {
		return nil
	}
	return e
}
