package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/loop"
)

// Results is the content of the file of -json.
type Results struct {
	TestAccuracy        *float64  `json:"test_accuracy,omitempty"` // nil if the model reports none
	TestLoss            float64   `json:"test_loss"`
	TrainLoss           float64   `json:"train_loss"`
	TestLosses          Losses    `json:"test_losses,omitempty"` // of each objective, if there are several
	TrainLosses         Losses    `json:"train_losses,omitempty"`
	ImagesPerS          float64   `json:"images_per_s"` // in the fastest epoch
	ArenaBytes          int64     `json:"arena_bytes"`
	DriftBytes          int64     `json:"drift_bytes"` // change of the arena bytes in use from the first epoch to the last
	UploadBytesPerEpoch int64     `json:"upload_bytes_per_epoch"`
	AllocsPerStep       float64   `json:"allocs_per_step"` // Go heap objects in the last epoch: the median over intervals of 16 steps, without rare objects of the runtime
	Epochs              int       `json:"epochs"`
	EpochSeconds        []float64 `json:"epoch_seconds"`
	ParametersSHA256    string    `json:"parameters_sha256"` // of all parameters after training, in hexadecimal: equal for equal bits
}

// Losses are losses by the name of their objective.
type Losses map[string]float64

// Loop trains for a number of epochs and prints a line after each.
type Loop struct {
	Out    io.Writer
	Epochs int
	Quiet  bool               // it shows no progress during an epoch
	Each   func() error       // called after each epoch; may be nil
	Folder *checkpoint.Folder // for checkpoints; may be nil
	// Group is that of the ranks, or nil. They take checkpoints together, and only the first one sees
	// which there are.
	Group group.Group
	// Stopping, unless nil, stops all ranks after the same step when it is true on the first one. It is
	// for ranks without a Folder, which does so by itself.
	Stopping func() bool
	// History, unless nil, gets the steps and evaluations, and Curves draws it after each epoch.
	History *loop.History
	Curves  func(*loop.History) error
	// Evaluated gets the evaluations; may be nil.
	Evaluated func(data string, r trainer.Result)

	bar    *progressbar.ProgressBar
	log    *progressLog // nil on a terminal
	heap   runtime.MemStats
	allocs []float64 // heap objects a step, by interval
}

// interval is the number of steps between two drawings of the bar.
const interval = 16

// newBar returns a progress bar for n things. It is visible if standard error is a terminal.
func newBar(n int, things string) *progressbar.ProgressBar {
	return progressbar.NewOptions(n, progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString(things), progressbar.OptionSetWidth(20),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetVisibility(terminal()))
}

// Progress is the trainer's Options.Progress.
func (l *Loop) Progress(p trainer.Progress) {
	if l.History != nil {
		l.History.Progress(p)
	}
	if l.log != nil {
		l.log.step(p, time.Now())
	}
	if l.bar == nil || p.Step < p.Steps && p.Step%interval != 0 {
		return
	}
	if before := l.heap.Mallocs; p.Step > interval && p.Step%interval == 0 {
		runtime.ReadMemStats(&l.heap)
		l.allocs = append(l.allocs, float64(l.heap.Mallocs-before)/interval)
	}
	l.bar.Describe(fmt.Sprintf("epoch %2d  loss %s", p.Epoch+1, score(p.Loss, p.Accuracy)))
	_ = l.bar.Set(p.Samples) // training goes on without the bar
	runtime.ReadMemStats(&l.heap)
}

// Run trains and evaluates in each epoch and returns the results. The epochs of a restored trainer
// count. With a Folder it takes checkpoints, and the end of ctx is ErrStopped: the state is then in
// the folder.
func (l *Loop) Run(ctx context.Context, t *trainer.Trainer, train, test dataloader.Dataset) (Results, error) {
	r := Results{Epochs: l.Epochs, ArenaBytes: t.Stats().Arena.Reserved}
	first, begun := int64(-1), t.Position().Epoch
	for epoch := begun; epoch < l.Epochs; epoch = t.Position().Epoch {
		before := t.Position().Step // batches of a restored epoch that are trained
		fit, seconds, err := l.fit(ctx, t, train)
		if err != nil {
			return r, err
		}
		val, err := l.evaluate(ctx, t, test)
		if err != nil {
			return r, err
		}
		if err := l.evaluated(val); err != nil {
			return r, err
		}
		inUse := t.Stats().Arena.InUse
		if first < 0 {
			first = inUse
		}
		speed := float64(fit.Samples) * (1 - float64(before)/float64(fit.Steps)) / seconds
		fmt.Fprint(l.Out, epochLine(columns(l.Out), epoch+1, speed, fit, val, inUse))
		r.tested(val)
		r.TrainLoss, r.TrainLosses = fit.Loss, losses(fit)
		r.ImagesPerS = max(r.ImagesPerS, speed)
		r.DriftBytes = inUse - first
		r.UploadBytesPerEpoch = fit.Uploaded
		r.AllocsPerStep = median(l.allocs)
		r.EpochSeconds = append(r.EpochSeconds, seconds)
		if l.Each != nil {
			if err := l.Each(); err != nil {
				return r, err
			}
		}
	}
	if first < 0 {
		val, err := l.evaluate(ctx, t, test)
		if err != nil {
			return r, err
		}
		state := "untrained"
		if begun > 0 {
			state = fmt.Sprintf("epoch %2d", begun)
		}
		fmt.Fprintf(l.Out, "%s  test loss %s\n", state, lossText(val))
		r.tested(val)
	}
	if err := l.last(ctx, t); err != nil {
		return r, err
	}
	var err error
	r.ParametersSHA256, err = digest(t)
	return r, err
}

// evaluated passes the result of an evaluation on, and draws the curves.
func (l *Loop) evaluated(val trainer.Result) error {
	if l.Evaluated != nil {
		l.Evaluated("test", val)
	}
	if l.History == nil {
		return nil
	}
	l.History.Evaluated("test", val)
	return l.Curves(l.History)
}

// last takes a checkpoint of the last step, unless there is one. One that cannot be written is no
// error: the log has it.
func (l *Loop) last(ctx context.Context, t *trainer.Trainer) error {
	if l.Folder == nil {
		return nil
	}
	_ = l.Folder.Wait()
	if all := l.Folder.Checkpoints(); l.Group == nil && len(all) > 0 && all[len(all)-1].Step == t.Stats().Steps {
		return nil
	}
	err := l.Folder.Save(context.WithoutCancel(ctx), t)
	if errors.Is(err, checkpoint.ErrSave) {
		return nil
	}
	return err
}

// fit trains an epoch, or the rest of a restored one, and returns the seconds that it took.
func (l *Loop) fit(ctx context.Context, t *trainer.Trainer, train dataloader.Dataset) (r trainer.Result, seconds float64, err error) {
	if !l.Quiet {
		l.bar = newBar(train.Len(), "images")
		if !terminal() {
			l.log = newProgressLog(os.Stderr, train.Len(), time.Now())
		}
	}
	l.allocs = l.allocs[:0]
	start := time.Now()
	switch {
	case l.Folder == nil && l.Stopping == nil:
		r, err = t.Fit(ctx, train)
	case l.Folder == nil:
		r, err = l.fitTogether(ctx, t, train)
	default: // the end of ctx is Folder's Stop
		r, err = l.Folder.Fit(context.WithoutCancel(ctx), t, train)
	}
	seconds = time.Since(start).Seconds()
	if l.bar != nil {
		_ = l.bar.Finish()
	}
	l.bar, l.log = nil, nil
	if err == nil && l.Folder != nil && l.Folder.Stopped() {
		err = Stopped(l.Folder, l.Out)
	}
	return r, seconds, err
}

// evaluate evaluates. If ctx ends it, the trained epoch is kept. Ranks that take checkpoints together end
// it together: they stop before the next epoch.
func (l *Loop) evaluate(ctx context.Context, t *trainer.Trainer, test dataloader.Dataset) (trainer.Result, error) {
	if l.Folder != nil && l.Group != nil {
		ctx = context.WithoutCancel(ctx)
	}
	r, err := t.Evaluate(ctx, test)
	if err == nil || l.Folder == nil || ctx.Err() == nil {
		return r, err
	}
	if err := l.Folder.Save(context.WithoutCancel(ctx), t); err != nil {
		return r, err
	}
	return r, Stopped(l.Folder, l.Out)
}

// tested sets the results of an evaluation.
func (r *Results) tested(val trainer.Result) {
	r.TestLoss, r.TestLosses, r.TestAccuracy = val.Loss, losses(val), nil
	if !math.IsNaN(val.Accuracy) {
		r.TestAccuracy = &val.Accuracy
	}
}

// losses returns the losses of several objectives, or nil if there is one.
func losses(r trainer.Result) Losses {
	if len(r.Losses) < 2 {
		return nil
	}
	all := Losses{}
	for _, l := range r.Losses {
		all[l.Name] = l.Loss
	}
	return all
}

// lossText writes the losses of a pass, with their names if there are several.
func lossText(r trainer.Result) string {
	if len(r.Losses) < 2 {
		return score(r.Loss, r.Accuracy)
	}
	var b strings.Builder
	for i, l := range r.Losses {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %.4f", l.Name, l.Loss)
	}
	return b.String()
}

// score writes a loss, followed by the accuracy in parentheses where there is one.
func score(loss, accuracy float64) string {
	if math.IsNaN(accuracy) {
		return fmt.Sprintf("%.4f", loss)
	}
	return fmt.Sprintf("%.4f (%.2f %%)", loss, 100*accuracy)
}

// median returns the middle value, the lower one of two, or 0 if there is none. It sorts x.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	return x[(len(x)-1)/2]
}
