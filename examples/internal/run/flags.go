package run

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	humanize "github.com/dustin/go-humanize"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Flags are the flags that every example has.
type Flags struct {
	Data      string
	Batch     int
	Windows   int // steps of an update
	Epochs    int
	Memory    Bytes
	Optimizer string
	Rate      float64
	Constant  bool
	Seed      uint64
	Device    string

	Instructions cpu.Instructions
	Resident     bool
	Guard        string // step or each; empty: step
	Recompute    string
	Precision    string
	Offload      string
	Plan         bool
	WhatFits     Bytes
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
	fs.StringVar(&f.Data, "data", f.Data, "`directory` of the data set's files; empty: the data that come with the example")
	fs.IntVar(&f.Batch, "batch", f.Batch, "samples of a step")
	fs.IntVar(&f.Windows, "accumulate", f.Windows, "`steps` whose gradients are added up before an update; 0 or 1: each has its own")
	fs.IntVar(&f.Epochs, "epochs", f.Epochs, "passes over the training set")
	fs.Var(&f.Memory, "memory", "`bytes` of device memory that may be used, as 67108864 or 64MiB; 0: what the plan needs")
	fs.StringVar(&f.Optimizer, "optimizer", f.Optimizer, "adafactor, adam, adam16, adam8, adamw, adamw16, adamw8, lion, momentum, nesterov, rmsprop or sgd; 16: states in bfloat16, 8: in bytes")
	fs.Float64Var(&f.Rate, "rate", f.Rate, "learning rate; 0: the optimizer's default")
	fs.BoolVar(&f.Constant, "constant", f.Constant, "keep the learning rate; otherwise it falls along a cosine to 0 at the end of the last epoch")
	fs.Uint64Var(&f.Seed, "seed", f.Seed, "seed of initial values and of the order of samples")
	fs.StringVar(&f.Device, "device", f.Device, "cpu; cuda: a GPU, where the example was built with -tags gpu; or emu: the emulated device with memory of its own, for tests; slow")
	fs.TextVar(&f.Instructions, "instructions", f.Instructions, "of the cpu: best, portable, avx2, avx512 or avx512bf16; EVENKEEL_INSTRUCTIONS is the default")
	fs.BoolVar(&f.Resident, "resident", f.Resident, "upload the data set once and keep it on the device")
	fs.StringVar(&f.Guard, "guard", f.Guard, "`when` gradients are checked: step, all of them before any parameter changes (the default), or each, right before its own update, and freed")
	fs.StringVar(&f.Recompute, "recompute", f.Recompute, "`layers` whose activations are computed again for the backward pass, as a,b; auto: what it takes to fit in -memory, or in what the device has; empty: none")
	fs.StringVar(&f.Offload, "offload", f.Offload, "`what` is kept in pinned host memory, on a device with memory of its own: state, of the optimizer, and parameters, of all layers, or the names of some, as state,hidden; empty: nothing")
	fs.StringVar(&f.Precision, "precision", f.Precision, "float32, or bfloat16 or float16, to which factors of products are rounded and in which activations wait for the backward pass")
	fs.BoolVar(&f.Plan, "plan", f.Plan, "print the memory plan and stop")
	fs.Var(&f.WhatFits, "what-fits", "print what would fit in so many `bytes`, as 8MiB: other batches, optimizers, guards, precisions, and what to compute again, with the one to take marked; and stop")
	fs.StringVar(&f.Picture, "picture", f.Picture, "write a picture to this `file`: .svg, a map of the memory; .png, what the example draws when it is done")
	fs.StringVar(&f.JSON, "json", f.JSON, "write the results to this `file`")
	fs.SetOutput(io.Discard) // its error is printed once, without the list of flags above it
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		fs.SetOutput(os.Stderr)
		fmt.Fprintf(os.Stderr, "Usage of %s:\n", name)
		fs.PrintDefaults()
		return err
	} else if err != nil {
		return fmt.Errorf("%w: -h lists the flags and what they take", err)
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: -h lists the flags", fs.Arg(0))
	}
	given := map[string]bool{}
	fs.Visit(func(g *flag.Flag) { given[g.Name] = true })
	if given["optimizer"] && !given["rate"] {
		f.Rate = 0 // the example's is for its own optimizer
	}
	return f.check(given)
}

// list returns the parts of s between commas.
func list(s string) (parts []string) {
	if s == "" {
		return nil
	}
	for _, p := range strings.Split(s, ",") {
		parts = append(parts, strings.TrimSpace(p))
	}
	return parts
}

// Options returns the trainer's options for the flags, but for the data. The caller closes the device.
func (f *Flags) Options() (trainer.Options, error) {
	opt := trainer.Options{Batch: f.Batch, Accumulate: f.Windows, Memory: int64(f.Memory), Seed: f.Seed}
	if f.Offload != "none" {
		for _, what := range list(f.Offload) {
			switch what {
			case "state":
				opt.Offload.State = true
			case "parameters":
				opt.Offload.Parameters = true
			default:
				opt.Offload.Layers = append(opt.Offload.Layers, what)
			}
		}
	}
	switch f.Guard {
	case "", "step":
	case "each":
		opt.Guard = trainer.GuardEach
	default:
		return opt, &FlagError{"guard", strconv.Quote(f.Guard), "there are step and each"}
	}
	switch f.Recompute {
	case "", "none":
	case "auto":
		opt.Recompute.Auto = true
	default:
		opt.Recompute.Layers = list(f.Recompute)
	}
	switch f.Precision {
	case "", arena.Float32.String():
	case arena.Bfloat16.String():
		opt.Precision = arena.Bfloat16
	case arena.Float16.String():
		opt.Precision = arena.Float16
	default:
		return opt, &FlagError{"precision", strconv.Quote(f.Precision), "there are float32, bfloat16 and float16"}
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
		d, err := cpu.Open(cpu.Options{Instructions: f.Instructions})
		if err != nil {
			return nil, fmt.Errorf("-instructions: %w", err)
		}
		return d, nil
	case "cuda":
		d, err := cuda.Open(cuda.Options{})
		if err != nil {
			return nil, fmt.Errorf("-device cuda: %w", err)
		}
		return d, nil
	case "emu":
		return emu.Open(emu.Options{})
	}
	return nil, &FlagError{"device", strconv.Quote(f.Device), "there are cpu, cuda and emu"}
}
