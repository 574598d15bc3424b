package optim_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// custom is an optimizer of a program's own, which says nothing against itself.
type custom struct {
	optim.SGD
	op       *kernels.Op
	validate func() error
	rate     float64
}

func (c custom) Op() *kernels.Op                 { return c.op }
func (c custom) Validate() error                 { return c.validate() }
func (c custom) Controls(t int64, dst []float64) { dst[0], dst[1] = c.rate, float64(t) }

// changed returns a good one that f has changed.
func changed(f func(c *custom)) custom {
	c := custom{op: kernels.SGD, validate: func() error { return nil }, rate: 1}
	f(&c)
	return c
}

// ratesOf is a schedule of a program's own.
type ratesOf func(base float64, t int64) float64

func (f ratesOf) Rate(base float64, t int64) float64 { return f(base, t) }

func constantly(r float64) ratesOf { return func(float64, int64) float64 { return r } }

func panics(float64, int64) float64 {
	var none []float64
	return none[len(none)]
}

func TestCheckFindsEveryMistakeBeforeTheFirstUpdate(t *testing.T) {
	t.Parallel()
	var null *optim.Adam
	var cosine *optim.Cosine
	for _, c := range []struct {
		name string
		o    optim.Optimizer
		s    optim.Schedule
		want string // "": none
	}{
		{"defaults", optim.SGD{}, nil, ""},
		{"pointers", &optim.Adam{}, &optim.Cosine{Steps: 1}, ""},
		{"user-written", changed(func(*custom) {}), constantly(0), ""},
		{"no optimizer", nil, nil, "optimizer: nil: use optim.SGD{} or another"},
		{"nil optimizer", null, nil, "*optim.Adam: nil pointer"},
		{"nil schedule", optim.SGD{}, cosine, "*optim.Cosine: nil pointer"},
		{"nil schedule after a warm-up", optim.SGD{}, optim.Warmup{Steps: 1, Then: cosine}, "warmup: *optim.Cosine: nil pointer"},
		{"said once", optim.Adam{Rate: -1}, nil, "adam: Rate is -1, must be finite and 0 or more"},
		{"all said", optim.SGD{Rate: -1, Decay: -1}, nil, "sgd: Rate is -1, must be finite and 0 or more; Decay is -1, must be finite and 0 or more"},
		{"error of another class", changed(func(c *custom) { c.validate = func() error { return errors.New("out of luck") } }), nil, "optim_test.custom: out of luck"},
		{"panic", changed(func(c *custom) { c.validate = nil }), nil, "optim_test.custom: panic: runtime error: invalid memory address or nil pointer dereference"},
		{"no operation", changed(func(c *custom) { c.op = nil }), nil, "optim_test.custom: Op is nil"},
		{"rate of the optimizer", changed(func(c *custom) { c.rate = math.NaN() }), nil, "optim_test.custom: the rate of update 1 is NaN, must be finite and 0 or more"},
		{"rate of the schedule", optim.SGD{}, constantly(-1), "optim_test.ratesOf: the rate of update 1 is -1, must be finite and 0 or more"},
		{"panic of the schedule", optim.SGD{}, ratesOf(panics), "optim_test.ratesOf: panic: runtime error: index out of range [0] with length 0"},
	} {
		err := optim.Check(c.o, c.s, optim.Clip{})
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: got %v, want no error", c.name, err)
			}
			continue
		}
		if err == nil || err.Error() != c.want || !errors.Is(err, optim.ErrOption) {
			t.Errorf("%s: got %v, want %q and ErrOption", c.name, err, c.want)
		}
		var e *optim.OptionError
		if !errors.As(err, &e) || len(e.Problems) == 0 {
			t.Errorf("%s: got %T, want an OptionError", c.name, err)
		}
	}
	err := optim.Check(null, cosine, optim.Clip{Norm: -1})
	for _, w := range []string{"Adam", "Cosine", "clip"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("got %v, want %q in it", err, w)
		}
	}
}

func TestARateThatIsNoneIsAnErrorOfItsUpdate(t *testing.T) {
	t.Parallel()
	dst := make([]float64, optim.Controls)
	later := func(r float64) ratesOf {
		return func(base float64, t int64) float64 {
			if t < 3 {
				return base
			}
			return r
		}
	}
	for _, r := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1), -math.SmallestNonzeroFloat64, 1e19, 1e300} {
		if err := optim.WriteControls(optim.SGD{}, later(r), 2, dst); err != nil || dst[0] != 0.01 {
			t.Errorf("update 2 before rate %v: got %v, %v", r, dst[0], err)
		}
		err := optim.WriteControls(optim.SGD{}, later(r), 3, dst)
		if !errors.Is(err, optim.ErrOption) || !strings.Contains(err.Error(), fmt.Sprintf("ratesOf: the rate of update 3 is %v, must be", r)) {
			t.Errorf("rate %v: got %v, want ErrOption, the schedule, the update and the rate", r, err)
		}
	}
	for r, want := range map[float64]float64{0: 0, 0x1p-63: 0x1p-63, 0x1p63: 0x1p63, math.SmallestNonzeroFloat64: 0, 1e-19: 0, 0x1.fffffp-64: 0} {
		if err := optim.WriteControls(optim.SGD{}, later(r), 3, dst); err != nil || dst[0] != want {
			t.Errorf("rate %v: got %v, %v, want %v", r, dst[0], err, want)
		}
	}
	for _, r := range []float64{math.SmallestNonzeroFloat64, 1e-19} {
		if err := optim.ValidateSchedule(constantly(r)); !errors.Is(err, optim.ErrOption) {
			t.Errorf("first rate %v: got %v, want ErrOption", r, err)
		}
	}
	if err := optim.WriteControls(optim.SGD{}, ratesOf(panics), 3, dst); !errors.Is(err, optim.ErrOption) || !strings.Contains(err.Error(), "update 3") {
		t.Errorf("panic: got %v, want ErrOption and the update", err)
	}
}
