package optim_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/trainer/optim"
)

func TestTheScaleFallsAtOverflowsAndRisesAfterGoodUpdates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		scaling  optim.Scaling
		overflow string // x: an update that overflows
		scales   []float64
		last     optim.ScalingState
	}{
		{"default", optim.Scaling{}, "..x.", []float64{65536, 65536, 65536, 32768, 32768}, optim.ScalingState{Scale: 32768, Good: 1, Skipped: 1}},
		{"growth", optim.Scaling{Initial: 4, Interval: 2}, ".....", []float64{4, 4, 8, 8, 16, 16}, optim.ScalingState{Scale: 16, Good: 1}},
		{"in a row", optim.Scaling{Initial: 4, Interval: 2}, ".x.x..", []float64{4, 4, 2, 2, 1, 1, 2}, optim.ScalingState{Scale: 2, Skipped: 2}},
		{"smallest", optim.Scaling{Initial: 1.5}, "xx", []float64{1.5, 1, 1}, optim.ScalingState{Scale: 1, Skipped: 2}},
		{"largest", optim.Scaling{Initial: 1 << 31, Growth: 8, Interval: 1}, "..", []float64{1 << 31, 1 << 32, 1 << 32}, optim.ScalingState{Scale: 1 << 32}},
		{"other factors", optim.Scaling{Initial: 100, Growth: 1.5, Backoff: 0.1, Interval: 1}, "x.", []float64{100, 10, 15}, optim.ScalingState{Scale: 15, Skipped: 1}},
		{"from a state", optim.Scaling{Interval: 4, State: optim.ScalingState{Scale: 2, Good: 3, Skipped: 7}}, ".x", []float64{2, 4, 2}, optim.ScalingState{Scale: 2, Skipped: 8}},
	} {
		if err := c.scaling.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		s := c.scaling.Start()
		scales := []float64{s.Scale}
		for _, o := range c.overflow {
			s = c.scaling.Next(s, o == 'x')
			scales = append(scales, s.Scale)
		}
		if !slices.Equal(scales, c.scales) || s != c.last {
			t.Errorf("%s: scales %v and %v at the end, want %v and %v", c.name, scales, s, c.scales, c.last)
		}
	}
}

func TestABadScalingSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]optim.Scaling{
		"Mode is 3":           {Mode: 3},
		"Initial is 0.5":      {Initial: 0.5},
		"Initial is +Inf":     {Initial: math.Inf(1)},
		"Initial is NaN":      {Initial: math.NaN()},
		"Growth is 0.9":       {Growth: 0.9},
		"Growth is NaN":       {Growth: math.NaN()},
		"Backoff is 1":        {Backoff: 1},
		"Backoff is -0.5":     {Backoff: -0.5},
		"Interval is -1":      {Interval: -1},
		"State.Scale is 0":    {State: optim.ScalingState{Good: 3}},
		"State.Scale is 1e+1": {State: optim.ScalingState{Scale: 1e10}},
		"-1 good":             {State: optim.ScalingState{Scale: 1, Good: -1}},
		"-2 skipped":          {State: optim.ScalingState{Scale: 1, Skipped: -2}},
	} {
		if err := s.Validate(); !errors.Is(err, optim.ErrOption) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "loss scaling") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
