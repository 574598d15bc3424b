// Package run is what the example programs have in common: flags, the loop of epochs with its progress bar, and the results.
//
// An example states its model and its data and calls [Main]; everything that a program of your own would copy is in the
// example itself or in [Loop].
package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	humanize "github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Flags are the flags that every example has.
type Flags struct {
	Data      string
	Batch     int
	Epochs    int
	Memory    Bytes
	Optimizer string
	Rate      float64
	Constant  bool
	Seed      uint64
	Device    string

	Instructions cpu.Instructions
	Resident     bool
	Lean         bool
	Plan         bool
	Picture      string
	JSON         string
}

// Bytes is an amount of memory on the command line: 1000000, or 64MiB.
type Bytes int64

// String returns the number of bytes.
func (b *Bytes) String() string { return fmt.Sprint(int64(*b)) }

// Set parses an amount; a sign is kept, for the trainer to refuse.
func (b *Bytes) Set(s string) error {
	amount, negative := strings.CutPrefix(s, "-")
	n, err := humanize.ParseBytes(amount)
	if err != nil || n > 1<<62 {
		return fmt.Errorf("%q is no amount of memory: write 67108864 or 64MiB", s)
	}
	*b = Bytes(n)
	if negative {
		*b = -*b
	}
	return nil
}

// Parse reads the flags of os.Args over the defaults in f.
func (f *Flags) Parse(name string, args []string) error {
	if err := f.Instructions.UnmarshalText([]byte(os.Getenv("EVENKEEL_INSTRUCTIONS"))); err != nil {
		return fmt.Errorf("EVENKEEL_INSTRUCTIONS: %w", err)
	}
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.StringVar(&f.Data, "data", f.Data, "`directory` of the data set's files; empty: the copy in the Go module cache")
	fs.IntVar(&f.Batch, "batch", f.Batch, "samples of a step")
	fs.IntVar(&f.Epochs, "epochs", f.Epochs, "passes over the training set")
	fs.Var(&f.Memory, "memory", "`bytes` of device memory that may be used, as 67108864 or 64MiB; 0: what the plan needs")
	fs.StringVar(&f.Optimizer, "optimizer", f.Optimizer, "adam, adamw, lion, momentum, nesterov, rmsprop or sgd")
	fs.Float64Var(&f.Rate, "rate", f.Rate, "learning rate; 0: the optimizer's default")
	fs.BoolVar(&f.Constant, "constant", f.Constant, "keep the learning rate; otherwise it falls along a cosine to 0 at the end of the last epoch")
	fs.Uint64Var(&f.Seed, "seed", f.Seed, "seed of initial values and of the order of samples")
	fs.StringVar(&f.Device, "device", f.Device, "cpu, or emu: the emulated device with memory of its own, for tests; slow")
	fs.TextVar(&f.Instructions, "instructions", f.Instructions, "of the cpu: best, portable, avx2 or avx512; EVENKEEL_INSTRUCTIONS is the default")
	fs.BoolVar(&f.Resident, "resident", f.Resident, "upload the data set once and keep it on the device")
	fs.BoolVar(&f.Lean, "lean", f.Lean, "check each gradient by itself and free it at once, in place of keeping all until the step is known to be finite")
	fs.BoolVar(&f.Plan, "plan", f.Plan, "print the memory plan and stop")
	fs.StringVar(&f.Picture, "picture", f.Picture, "write a map of the memory to this SVG `file`")
	fs.StringVar(&f.JSON, "json", f.JSON, "write the results to this `file`")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if f.Epochs < 0 {
		return fmt.Errorf("-epochs %d: must not be negative", f.Epochs)
	}
	return nil
}

// Options returns the trainer's options for the flags, but for the data. The caller closes the device.
func (f *Flags) Options() (trainer.Options, error) {
	opt := trainer.Options{Batch: f.Batch, Memory: int64(f.Memory), Seed: f.Seed}
	if f.Lean {
		opt.Guard = trainer.GuardEach
	}
	o, err := optim.Parse(f.Optimizer)
	if err != nil {
		return opt, fmt.Errorf("-optimizer: %w", err)
	}
	if f.Rate != 0 {
		if o, err = optim.AtRate(o, f.Rate); err != nil {
			return opt, fmt.Errorf("-rate: %w", err)
		}
	}
	opt.Optimizer = o
	opt.Device, err = f.open()
	return opt, err
}

func (f *Flags) open() (kernels.Device, error) {
	switch f.Device {
	case "cpu":
		d := cpu.OpenWith(cpu.Options{Instructions: f.Instructions})
		if _, err := d.Instructions(); err != nil {
			d.Close()
			return nil, fmt.Errorf("-instructions: %w", err)
		}
		return d, nil
	case "emu":
		return emu.Open(emu.Options{}), nil
	}
	return nil, fmt.Errorf("-device %q: there are cpu and emu", f.Device)
}

// Results are what -json writes.
type Results struct {
	TestAccuracy        float64   `json:"test_accuracy"`
	TestLoss            float64   `json:"test_loss"`
	TrainLoss           float64   `json:"train_loss"`
	ImagesPerS          float64   `json:"images_per_s"` // of the fastest epoch
	ArenaBytes          int64     `json:"arena_bytes"`
	DriftBytes          int64     `json:"drift_bytes"` // of arena bytes in use, from the first epoch to the last
	UploadBytesPerEpoch int64     `json:"upload_bytes_per_epoch"`
	AllocsPerStep       float64   `json:"allocs_per_step"` // Go heap objects in the last epoch, median of windows of 16 steps: what the runtime makes for itself now and then is left out
	Epochs              int       `json:"epochs"`
	EpochSeconds        []float64 `json:"epoch_seconds"`
}

// Main runs an example: it parses flags over the defaults, loads data, trains, and exits with status 1 on an error.
func Main(name string, f Flags, model trainer.ModelFunc, load func(dir string) (train, test dataloader.Dataset, err error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := f.Run(ctx, name, os.Args[1:], os.Stdout, model, load)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "%s: interrupted\n", name)
	default:
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	stop()
	os.Exit(1)
}

// Run is Main without the process around it.
func (f Flags) Run(ctx context.Context, name string, args []string, out io.Writer, model trainer.ModelFunc,
	load func(dir string) (train, test dataloader.Dataset, err error)) (err error) {
	if err := f.Parse(name, args); err != nil {
		return err
	}
	opt, err := f.Options()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opt.Device.Close()) }()
	train, test, err := load(f.Data)
	if err != nil {
		return err
	}
	opt.Fields = train.Fields()
	if f.Resident {
		opt.Resident, opt.Fields = []dataloader.Dataset{train, test}, nil
	}
	if steps := f.Epochs * ((train.Len() + max(f.Batch, 1) - 1) / max(f.Batch, 1)); steps > 0 && !f.Constant {
		opt.Schedule = optim.Cosine{Steps: int64(steps)}
	}
	plan, err := trainer.Plan(model, opt)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, plan)
	if f.Picture != "" {
		if err := create(f.Picture, plan.SVG); err != nil {
			return err
		}
	}
	if f.Plan {
		return nil
	}
	if f.JSON == "" {
		_, err = f.train(ctx, out, model, opt, train, test)
		return err
	}
	return create(f.JSON, func(w io.Writer) error { // opened before training, so that a wrong name costs no time
		res, err := f.train(ctx, out, model, opt, train, test)
		if err != nil {
			return err
		}
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(res)
	})
}

// train makes a trainer and runs the loop on it.
func (f *Flags) train(ctx context.Context, out io.Writer, model trainer.ModelFunc, opt trainer.Options, train, test dataloader.Dataset) (res Results, err error) {
	l := &Loop{Out: out, Epochs: f.Epochs}
	opt.Progress = l.Progress
	t, err := trainer.New(model, opt)
	if err != nil {
		return Results{}, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return l.Run(ctx, t, train, test)
}

// create opens a file, makes its contents and writes them. Where there are none, an older file stays as it is and a new one goes.
func create(name string, contents func(io.Writer) error) error {
	_, missing := os.Stat(name)
	w, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := contents(&b); err != nil {
		if missing != nil {
			err = errors.Join(err, os.Remove(name))
		}
		return errors.Join(err, w.Close())
	}
	if s, err := w.Stat(); err == nil && s.Mode().IsRegular() {
		if err := w.Truncate(0); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	_, err = w.Write(b.Bytes())
	return errors.Join(err, w.Close())
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

// Progress is the trainer's Options.Progress.
func (l *Loop) Progress(p trainer.Progress) {
	if l.bar == nil || p.Step < p.Steps && p.Step%window != 0 {
		return
	}
	if before := l.heap.Mallocs; p.Step > window && p.Step%window == 0 {
		runtime.ReadMemStats(&l.heap)
		l.allocs = append(l.allocs, float64(l.heap.Mallocs-before)/window)
	}
	l.bar.Describe(fmt.Sprintf("epoch %2d  loss %.4f  accuracy %5.2f %%", p.Epoch+1, p.Loss, 100*p.Accuracy))
	_ = l.bar.Set(p.Samples) // an unwritable terminal is no reason to stop training
	runtime.ReadMemStats(&l.heap)
}

// Run trains and evaluates.
func (l *Loop) Run(ctx context.Context, t *trainer.Trainer, train, test dataloader.Dataset) (Results, error) {
	r := Results{Epochs: l.Epochs, ArenaBytes: t.Stats().Arena.Reserved}
	first := int64(-1)
	for epoch := range l.Epochs {
		l.bar = progressbar.NewOptions(train.Len(), progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(), progressbar.OptionSetItsString("images"), progressbar.OptionSetWidth(20),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetVisibility(terminal()))
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
		fmt.Fprintf(l.Out, "epoch %2d  %7.0f images/s  train loss %.4f  accuracy %5.2f %%  test loss %.4f  accuracy %5.2f %%  arena %d bytes in use, %d free between steps\n",
			epoch+1, speed, fit.Loss, 100*fit.Accuracy, val.Loss, 100*val.Accuracy, inUse, r.ArenaBytes-inUse)
		r.TestAccuracy, r.TestLoss, r.TrainLoss = val.Accuracy, val.Loss, fit.Loss
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
		fmt.Fprintf(l.Out, "untrained  test loss %.4f  accuracy %5.2f %%\n", val.Loss, 100*val.Accuracy)
		r.TestAccuracy, r.TestLoss = val.Accuracy, val.Loss
	}
	return r, nil
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
