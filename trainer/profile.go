package trainer

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/profile"
)

// UntimedError reports a device that cannot measure its work, for Trainer.Profile. It wraps
// kernels.ErrUnsupported.
type UntimedError struct {
	Device string // its name
}

// Error names the device and what it lacks.
func (e *UntimedError) Error() string {
	return fmt.Sprintf("%s does not measure when it does its work (kernels.WorkTimer): "+
		"profile on another device, such as cpu: %v", e.Device, kernels.ErrUnsupported)
}

// Unwrap returns kernels.ErrUnsupported.
func (e *UntimedError) Unwrap() error { return kernels.ErrUnsupported }

// Profile trains the first n batches of the next epoch, as Fit does and with the same bits, and
// measures what the device, the loader and the slots do meanwhile: see package profile. The epoch then
// ends, as if the body of a loop over Steps had left it; with n of at least the number of batches,
// Profile is Fit. With Options.Accumulate, n is rounded up to whole windows. The first call also
// measures the peak of the device, which takes up to a second and, for that time, up to 64 MiB of
// device memory beyond the arena, or a quarter of what is free if that is less.
//
// Measuring takes time itself: about 0.2 µs for each call on the host, and on CUDA a program is
// launched kernel by kernel with events between its calls, not as a graph. So a profiled step is
// longer than others, where its calls are short. Training that is not profiled is as fast as ever.
//
// A device that cannot measure is an *UntimedError, and n below 1 an error that wraps ErrOption; other
// errors are those of Fit. It may be called when Fit may.
func (t *Trainer) Profile(ctx context.Context, ds dataloader.Dataset, n int) (*profile.Profile, error) {
	if n < 1 {
		return nil, fmt.Errorf("profile of %d batches: must be 1 or more: %w", n, ErrOption)
	}
	if ctx == nil {
		return nil, fmt.Errorf("profile: %w", errNilContext)
	}
	if err := t.preparePeak(ctx); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	p := &epochPass{t: t, mode: compile.Train}
	p.profiler = &profiler{pass: p, batches: n}
	r, err := t.pass(ctx, "Profile", p, ds)
	if err != nil {
		return nil, err
	}
	return p.profiler.profile(r), nil
}

// preparePeak measures the peak of the device, unless that was done.
func (t *Trainer) preparePeak(ctx context.Context) error {
	if err := t.use().acquire(ctx); err != nil {
		return err
	}
	defer t.usage.release()
	dev := t.memory.device
	if _, ok := dev.(kernels.WorkTimer); !ok {
		return &UntimedError{Device: dev.Name()}
	}
	if t.peak != nil {
		return nil
	}
	defer t.plan.opt.busy("measures the peak of its device")()
	p, err := measurePeak(dev)
	if err != nil {
		return fmt.Errorf("peak of %s: %w", dev.Name(), err)
	}
	t.peak = &p
	return nil
}
