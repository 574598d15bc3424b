package run

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
)

// Results are what -json writes.
type Results struct {
	TestAccuracy        *float64  `json:"test_accuracy,omitempty"` // nil where the model has none
	TestLoss            float64   `json:"test_loss"`
	TrainLoss           float64   `json:"train_loss"`
	ImagesPerS          float64   `json:"images_per_s"` // of the fastest epoch
	ArenaBytes          int64     `json:"arena_bytes"`
	DriftBytes          int64     `json:"drift_bytes"` // of arena bytes in use, from the first epoch to the last
	UploadBytesPerEpoch int64     `json:"upload_bytes_per_epoch"`
	AllocsPerStep       float64   `json:"allocs_per_step"` // Go heap objects in the last epoch, median of windows of 16 steps: what the runtime makes for itself now and then is left out
	Epochs              int       `json:"epochs"`
	EpochSeconds        []float64 `json:"epoch_seconds"`
	ParametersSHA256    string    `json:"parameters_sha256"` // of all parameters after training, in hexadecimal: equal for equal bits
}

// Loop trains for some epochs and shows how it goes.
type Loop struct {
	Out    io.Writer
	Epochs int

	bar    *progressbar.ProgressBar
	heap   runtime.MemStats
	allocs []float64 // heap objects a step, by window of steps between two drawings of the bar
}

// window is how many steps lie between two drawings of the bar.
const window = 16

// newBar shows how many of n things are done, where standard error is a terminal.
func newBar(n int, things string) *progressbar.ProgressBar {
	return progressbar.NewOptions(n, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowCount(),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString(things), progressbar.OptionSetWidth(20),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetVisibility(terminal()))
}

// Progress is the trainer's Options.Progress.
func (l *Loop) Progress(p trainer.Progress) {
	if l.bar == nil || p.Step < p.Steps && p.Step%window != 0 {
		return
	}
	if before := l.heap.Mallocs; p.Step > window && p.Step%window == 0 {
		runtime.ReadMemStats(&l.heap)
		l.allocs = append(l.allocs, float64(l.heap.Mallocs-before)/window)
	}
	l.bar.Describe(fmt.Sprintf("epoch %2d  loss %s", p.Epoch+1, score(p.Loss, p.Accuracy)))
	_ = l.bar.Set(p.Samples) // an unwritable terminal is no reason to stop training
	runtime.ReadMemStats(&l.heap)
}

// Run trains and evaluates.
func (l *Loop) Run(ctx context.Context, t *trainer.Trainer, train, test dataloader.Dataset) (Results, error) {
	r := Results{Epochs: l.Epochs, ArenaBytes: t.Stats().Arena.Reserved}
	first := int64(-1)
	for epoch := range l.Epochs {
		l.bar = newBar(train.Len(), "images")
		l.allocs = l.allocs[:0]
		start := time.Now()
		fit, err := t.Fit(ctx, train)
		seconds := time.Since(start).Seconds()
		_ = l.bar.Finish()
		l.bar = nil
		if err != nil {
			return r, err
		}
		val, err := t.Evaluate(ctx, test)
		if err != nil {
			return r, err
		}
		inUse := t.Stats().Arena.InUse
		if first < 0 {
			first = inUse
		}
		speed := float64(fit.Samples) / seconds
		fmt.Fprintf(l.Out, "epoch %2d  %7.0f images/s  train loss %s  test loss %s  %d bytes in use\n",
			epoch+1, speed, score(fit.Loss, fit.Accuracy), score(val.Loss, val.Accuracy), inUse)
		r.tested(val)
		r.TrainLoss = fit.Loss
		r.ImagesPerS = max(r.ImagesPerS, speed)
		r.DriftBytes = inUse - first
		r.UploadBytesPerEpoch = fit.Uploaded
		r.AllocsPerStep = median(l.allocs)
		r.EpochSeconds = append(r.EpochSeconds, seconds)
	}
	if l.Epochs == 0 {
		val, err := t.Evaluate(ctx, test)
		if err != nil {
			return r, err
		}
		fmt.Fprintf(l.Out, "untrained  test loss %s\n", score(val.Loss, val.Accuracy))
		r.tested(val)
	}
	var err error
	r.ParametersSHA256, err = digest(t)
	return r, err
}

// tested takes what an evaluation found.
func (r *Results) tested(val trainer.Result) {
	r.TestLoss, r.TestAccuracy = val.Loss, nil
	if !math.IsNaN(val.Accuracy) {
		r.TestAccuracy = &val.Accuracy
	}
}

// score writes a loss, followed by the accuracy in parentheses where there is one.
func score(loss, accuracy float64) string {
	if math.IsNaN(accuracy) {
		return fmt.Sprintf("%.4f", loss)
	}
	return fmt.Sprintf("%.4f (%.2f %%)", loss, 100*accuracy)
}

// median returns the middle of the values, 0 of none.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	return x[len(x)/2]
}

// terminal reports whether progress is worth drawing.
func terminal() bool {
	s, err := os.Stderr.Stat()
	return err == nil && s.Mode()&os.ModeCharDevice != 0
}
