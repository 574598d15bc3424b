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

// ErrOption is wrapped by errors about options outside their range.
var ErrOption = errors.New("bad option")

// OptionError is every mistake in one thing. It unwraps to ErrOption and to the mistakes.
type OptionError struct {
	What     string // "adam", "clip", or the Go type of what is not of this package
	Problems []error
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

// Check returns every mistake in how a model is to be trained: what the parts say of themselves, nil pointers, and what panics or gives
// a first rate that is none. s may be nil. The error wraps ErrOption.
func Check(o Optimizer, s Schedule, c Clip) error {
	return errors.Join(checkOptimizer(o, c), c.Validate(), ValidateSchedule(s))
}

// checkOptimizer is o.Validate, and asks o once for everything that a trainer will ask it for.
func checkOptimizer(o Optimizer, c Clip) error {
	if o == nil {
		return check("optimizer", errors.New("it is nil: use optim.SGD{} or another"))
	}
	return try(o, func() error {
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
		return rate(dst[0], 1)
	})
}

// ValidateSchedule returns what s.Validate returns, where s has such a method, and otherwise what is wrong with its first rate. s may
// be nil.
func ValidateSchedule(s Schedule) error {
	if s == nil {
		return nil
	}
	return try(s, func() error {
		if v, ok := s.(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				return err
			}
		}
		return rate(s.Rate(1, 1), 1)
	})
}

// Write fills the controls of update t: those of o, and the rate that s makes of the rate of o. s may be nil. A rate that is negative or
// not finite, and a panic in either, is an error that wraps ErrOption. It allocates nothing otherwise.
func Write(o Optimizer, s Schedule, t int64, dst []float64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("update %d: panic in %T with schedule %T: %v: %w", t, o, s, p, ErrOption)
		}
	}()
	o.Controls(t, dst)
	if s != nil {
		dst[0] = s.Rate(dst[0], t)
	}
	if r := dst[0]; r >= 0 && !math.IsInf(r, 0) {
		return nil
	}
	return fmt.Errorf("%w: %w", rate(dst[0], t), ErrOption)
}

// rate returns an error unless r can be the rate of update t.
func rate(r float64, t int64) error {
	if r >= 0 && !math.IsInf(r, 0) {
		return nil
	}
	return fmt.Errorf("the rate of update %d is %v, must be finite and 0 or more", t, r)
}

// try returns what f finds out about v as an error that wraps ErrOption, a panic included. A nil pointer is not tried.
func try(v any, f func() error) (err error) {
	what := fmt.Sprintf("%T", v)
	if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
		return check(what, errors.New("it is a nil pointer"))
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

// least returns an error unless v is finite and low or more.
func least(name string, v, low float64) error {
	if v >= low && !math.IsInf(v, 0) {
		return nil
	}
	return fmt.Errorf("%s is %v, must be finite and %v or more", name, v, low)
}

// share returns an error unless v is from 0 to below 1.
func share(name string, v float64) error {
	if v >= 0 && v < 1 {
		return nil
	}
	return fmt.Errorf("%s is %v, must be 0 or more and below 1", name, v)
}

// atLeast returns an error unless n is 1 or more.
func atLeast(name string, n int64) error {
	if n >= 1 {
		return nil
	}
	return fmt.Errorf("%s is %d, must be 1 or more", name, n)
}

// check makes one error of those about the fields of one thing.
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
