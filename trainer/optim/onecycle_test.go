package optim_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/trainer/optim"
)

func TestOneCycleRisesAndFalls(t *testing.T) {
	c := optim.OneCycle{Steps: 10} // the peak is update 3, counted from 1: 0.3·10
	for update, want := range map[int64]float64{
		1: 0.04, 2: 0.52, 3: 1, // half of the rise at update 2
		10: 4e-6, 11: 4e-6, 1 << 40: 4e-6,
		4: 4e-6 + (1-4e-6)*(1+math.Cos(math.Pi/7))/2,
	} {
		if got := c.Rate(2, update); math.Abs(got-2*want) > 1e-15 {
			t.Errorf("update %d: rate %v, want %v", update, got, 2*want)
		}
	}
	for _, c := range []optim.OneCycle{{Steps: 1}, {Steps: 2}, {Steps: 3, Rise: 0.9}, {Steps: 1000, Rise: 0.001, Start: 1, End: 1}} {
		for u := int64(1); u <= c.Steps+1; u++ {
			if r := c.Rate(1, u); !(r > 0 && r <= 1) {
				t.Errorf("%+v: rate %v at update %d", c, r, u)
			}
		}
	}
	err := optim.OneCycle{Rise: 1, Start: -1, End: 2}.Validate()
	for _, want := range []string{"Steps", "Rise", "Start", "End"} {
		if !errors.Is(err, optim.ErrOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

// The peak is the optimizer's own rate.
func ExampleOneCycle() {
	s := optim.OneCycle{Steps: 100}
	for _, update := range []int64{1, 30, 100} {
		fmt.Printf("%.2g\n", s.Rate(0.01, update))
	}
	// Output:
	// 0.0004
	// 0.01
	// 4e-08
}
