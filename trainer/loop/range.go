package loop

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Sweep is a schedule whose rate rises by a constant factor from From at update 1 to To at update
// Steps. It does not depend on the optimizer's rate.
type Sweep struct {
	From, To float64 // rates, 0 < From < To
	Steps    int     // updates, 2 or more
}

// Rate implements optim.Schedule.
func (s Sweep) Rate(_ float64, t int64) float64 {
	done := min(1, float64(t-1)/float64(s.Steps-1))
	return s.From * math.Pow(s.To/s.From, done)
}

// Validate returns an error that names every bad field and wraps optim.ErrOption.
func (s Sweep) Validate() error {
	var errs []error
	if !(s.From > 0 && s.From < s.To) || math.IsInf(s.To, 1) {
		errs = append(errs, fmt.Errorf("sweep: rates %v to %v: must be finite, above 0 and rising: %w", s.From, s.To, optim.ErrOption))
	}
	if s.Steps < 2 {
		errs = append(errs, fmt.Errorf("sweep: Steps is %d, must be 2 or more: %w", s.Steps, optim.ErrOption))
	}
	return errors.Join(errs...)
}

// Point is an update of a range test.
type Point struct {
	Rate, Loss float64 // Loss is that of the update's last step
	Smooth     float64 // mean of losses up to this one; each update before weighs 0.9 times as much
}

// Curve is the result of a range test, in the order of rates.
type Curve []Point

// RangeTest trains a model at rates that rise from update to update, and returns the losses: a good
// rate is where the loss falls fastest (Smith 2017, "Cyclical learning rates"). It makes a trainer with
// opt and s as its schedule, which needs the memory of its plan meanwhile, and closes it at the end, so
// no trainer of the caller changes.
//
// The test ends after s.Steps updates, or where the loss diverges: it is not finite, or Smooth is more
// than 4 times its least. Then the curve ends before that update; this is no error.
func RangeTest(ctx context.Context, model trainer.ModelFunc, opt trainer.Options, ds dataloader.Dataset, s Sweep) (c Curve, err error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	opt.Schedule = s
	t, err := trainer.New(ctx, model, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	var sum, weight float64
	least := math.Inf(1)
	for len(c) < s.Steps {
		before := len(c)
		for step, err := range t.Steps(ctx, ds) {
			if errors.Is(err, trainer.ErrNonFinite) {
				return c, nil
			}
			if err != nil {
				return c, err
			}
			if !step.Updated {
				continue
			}
			sum, weight = 0.9*sum+step.Loss, 0.9*weight+1
			p := Point{Rate: step.Rate, Loss: step.Loss, Smooth: sum / weight}
			if least = min(least, p.Smooth); p.Smooth > 4*least && least > 0 {
				return c, nil
			}
			if c = append(c, p); len(c) == s.Steps {
				break
			}
		}
		if len(c) == before {
			return c, fmt.Errorf("range test: an epoch without an update: %w", trainer.ErrData)
		}
	}
	return c, nil
}

// Steepest returns the rate at which the smoothed loss falls fastest by the logarithm of the rate: the
// usual choice. It is NaN if the loss falls nowhere. Batches whose losses differ much hide it: look at
// the picture that plot.RangeTest makes, or test with larger batches.
func (c Curve) Steepest() float64 {
	rate, best := math.NaN(), 0.0
	for i := 1; i+1 < len(c); i++ {
		slope := (c[i+1].Smooth - c[i-1].Smooth) / math.Log(c[i+1].Rate/c[i-1].Rate)
		if slope < best {
			rate, best = c[i].Rate, slope
		}
	}
	return rate
}
