package run

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	humanize "github.com/dustin/go-humanize"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/runs"
)

// Flags are the flags that every example has. An example sets their defaults.
type Flags struct {
	Data       string
	Batch      int
	Accumulate int // steps for each update
	Epochs     int
	Memory     Bytes
	Optimizer  string
	Rate       float64
	Constant   bool
	Seed       uint64
	Device     string

	Instructions cpu.Instructions
	Resident     bool
	Guard        string // step or each; empty: step
	Recompute    string
	Precision    string
	Offload      string
	Plan         bool
	Quiet        bool
	WhatFits     Bytes
	Picture      string
	Compare      bool
	JSON         string
	Curves       string // file; empty: none
	LogLoss      bool
	Profile      bool
	Trace        string // file; empty: none

	Ranks int  // ranks of this process; below 2: one
	MPI   bool // this process is a rank of its launcher's
	Shard string
	Grace time.Duration // of the group of MPI after SIGTERM, if there are checkpoints

	Run   string // folder of the record of the training; empty: none
	Serve string // address of its page; empty: none
	token string // of the page; empty: a new one
	// stoppable: the first rank has a page, which can stop all.
	stoppable bool

	Checkpoint string // folder; empty: no checkpoints
	Resume     bool
	Every      string // see Interval

	settings []trainer.Setting // all flags, for the page of -run and -serve
}

// defaultGrace is the default of Flags.Grace: Open MPI leaves a second.
const defaultGrace = 800 * time.Millisecond

// Bytes is an amount of memory on the command line, such as 1000000 or 64MiB.
type Bytes int64

// String returns the number of bytes.
func (b *Bytes) String() string { return fmt.Sprint(int64(*b)) }

// Set parses an amount. It keeps a minus sign: the trainer reports negative amounts.
func (b *Bytes) Set(s string) error {
	amount, negative := strings.CutPrefix(s, "-")
	n, err := humanize.ParseBytes(amount)
	if err != nil || n > 1<<62 {
		return fmt.Errorf("%q is not an amount of memory: write 67108864 or 64MiB", s)
	}
	*b = Bytes(n)
	if negative {
		*b = -*b
	}
	return nil
}

// Parse sets f from args. Flags that args does not have keep their values. Errors for all flags are
// reported together. Each add, unless nil, adds flags.
func (f *Flags) Parse(name string, args []string, add ...func(fs *flag.FlagSet)) error {
	if err := f.Instructions.UnmarshalText([]byte(os.Getenv("EVENKEEL_INSTRUCTIONS"))); err != nil {
		return fmt.Errorf("EVENKEEL_INSTRUCTIONS: %w", err)
	}
	f.token = os.Getenv("EVENKEEL_TOKEN")
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.StringVar(&f.Data, "data", f.Data, "`directory` of the data set; empty: the data of the example")
	fs.IntVar(&f.Batch, "batch", f.Batch, "samples in a step")
	fs.IntVar(&f.Accumulate, "accumulate", f.Accumulate, "`steps` whose gradients are accumulated for one update; 0: 1")
	fs.IntVar(&f.Epochs, "epochs", f.Epochs, "passes over the training set; 0: evaluate only")
	fs.Var(&f.Memory, "memory", "limit of device memory in `bytes`, such as 64MiB; 0: no limit")
	fs.StringVar(&f.Optimizer, "optimizer", f.Optimizer, "optimizer: adafactor, adam, adamw, lion, momentum, nesterov, rmsprop or sgd; adam8, adam16, adamw8 and adamw16 keep their state in 8 or 16 bits")
	fs.Float64Var(&f.Rate, "rate", f.Rate, "learning rate; 0: the default of the optimizer")
	fs.BoolVar(&f.Constant, "constant", f.Constant, "keep the learning rate constant, instead of lowering it to 0 along a cosine")
	fs.Uint64Var(&f.Seed, "seed", f.Seed, "seed of initial values, shuffling, augmentation and dropout")
	fs.StringVar(&f.Device, "device", f.Device, "device: cpu; cuda, a GPU (build with -tags gpu); or emu, a slow emulated device for tests")
	fs.TextVar(&f.Instructions, "instructions", f.Instructions, "instructions of the cpu: best, portable, avx2, avx512 or avx512bf16; default: $EVENKEEL_INSTRUCTIONS")
	fs.BoolVar(&f.Resident, "resident", f.Resident, "upload the data set once and keep it on the device")
	fs.StringVar(&f.Guard, "guard", f.Guard, "check gradients at `granularity`: step, all before any update; or each, right before its own update, and free it")
	fs.StringVar(&f.Recompute, "recompute", f.Recompute, "`layers` whose activations are recomputed in the backward pass, such as a,b; auto: as many as -memory requires; empty: none")
	fs.StringVar(&f.Offload, "offload", f.Offload, "`values` to keep in pinned host memory: state, parameters, or both as state,parameters; layer names select layers; empty: none")
	fs.StringVar(&f.Precision, "precision", f.Precision, "type of kept activations and of the inputs of products: float32, bfloat16 or float16")
	fs.BoolVar(&f.Plan, "plan", f.Plan, "print the memory plan and stop")
	fs.BoolVar(&f.Quiet, "quiet", f.Quiet, "print nothing but errors: no plan, no progress bar, no line after an epoch")
	fs.Var(&f.WhatFits, "what-fits", "print the settings that fit in `bytes` of memory, such as 8MiB, with the recommended one marked, and stop")
	fs.StringVar(&f.Picture, "picture", f.Picture, "draw the memory plan to `file`: a page (.html) or a map (.svg, .png); without -plan, .png is the picture of an example that has one")
	fs.BoolVar(&f.Compare, "compare", f.Compare, "show on the page of -picture the plan without -recompute, -offload, -guard and -precision, too, and the difference")
	fs.StringVar(&f.Curves, "curves", f.Curves, "draw losses, accuracies, rates and norms of gradients to `file` after each epoch: .svg or .png")
	fs.BoolVar(&f.LogLoss, "log-loss", f.LogLoss, "draw the losses of -curves on a logarithmic axis")
	fs.BoolVar(&f.Profile, "profile", f.Profile, fmt.Sprintf("train %d steps, print what each layer and operation costs, and stop", profiledSteps))
	fs.StringVar(&f.Trace, "trace", f.Trace, "do as -profile, and write a trace of the steps to `file`, for https://ui.perfetto.dev")
	fs.StringVar(&f.JSON, "json", f.JSON, "write the results to `file` as JSON")
	f.addRecord(fs)
	f.addRanks(fs)
	AddCheckpoint(fs, &f.Checkpoint, &f.Resume, &f.Every)
	for _, add := range add {
		if add != nil {
			add(fs)
		}
	}
	fs.SetOutput(io.Discard) // Main prints the error, without the list of flags
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		fs.SetOutput(os.Stderr)
		fmt.Fprintf(os.Stderr, "Usage of %s:\n", name)
		fs.PrintDefaults()
		return err
	} else if err != nil {
		return fmt.Errorf("%w: -h lists the flags", err)
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: -h lists the flags", fs.Arg(0))
	}
	given := f.note(fs)
	if given["optimizer"] && !given["rate"] {
		f.Rate = 0 // the default of the example is for its own optimizer
	}
	return f.check(given)
}

// addRanks adds the flags of ranks to fs.
func (f *Flags) addRanks(fs *flag.FlagSet) {
	fs.IntVar(&f.Ranks, "ranks", f.Ranks, "`number` of ranks in this process, each with a device of its own and -batch samples of each step; 0: 1")
	fs.BoolVar(&f.MPI, "mpi", f.MPI, "be one rank of those that mpirun or srun has started (build with CC=mpicc and -tags mpi)")
	fs.StringVar(&f.Shard, "shard", f.Shard, "`values` of which each rank has a part: state, or state,gradients; empty: none")
	fs.DurationVar(&f.Grace, "grace", defaultGrace, "`time` that SIGTERM leaves for the last step and its checkpoint, with -mpi and -checkpoint: less than the launcher's until SIGKILL")
}

// note returns the names of flags on the command line, and keeps the values of all flags.
func (f *Flags) note(fs *flag.FlagSet) map[string]bool {
	given := map[string]bool{}
	fs.Visit(func(g *flag.Flag) { given[g.Name] = true })
	f.settings, f.stoppable = nil, f.Serve != ""
	fs.VisitAll(func(g *flag.Flag) {
		f.settings = append(f.settings, trainer.Setting{Name: g.Name, Value: g.Value.String()})
	})
	return given
}

// list splits s at commas.
func list(s string) (parts []string) {
	if s == "" {
		return nil
	}
	for _, p := range strings.Split(s, ",") {
		parts = append(parts, strings.TrimSpace(p))
	}
	return parts
}

// Options returns the options of a trainer, without the data, the device and the group.
func (f *Flags) Options() (trainer.Options, error) {
	opt := trainer.Options{Batch: f.Batch, Accumulate: f.Accumulate, Memory: int64(f.Memory), Seed: f.Seed, Checkpoint: f.Checkpoint != "", GradientNorm: f.Curves != ""}
	if err := f.saveMemory(&opt); err != nil {
		return opt, err
	}
	if f.records() {
		runs.Keep(&opt)
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
	return opt, nil
}

// saveMemory sets the options that need less memory.
func (f *Flags) saveMemory(opt *trainer.Options) error {
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
	var err error
	if opt.Shard, err = f.shard(); err != nil {
		return err
	}
	switch f.Guard {
	case "", "step":
	case "each":
		opt.Guard = trainer.GuardEach
	default:
		return &FlagError{"guard", strconv.Quote(f.Guard), "use step or each"}
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
	case arena.BFloat16.String():
		opt.Precision = arena.BFloat16
	case arena.Float16.String():
		opt.Precision = arena.Float16
	default:
		return &FlagError{"precision", strconv.Quote(f.Precision), "use float32, bfloat16 or float16"}
	}
	return nil
}

// shard returns the value of -shard.
func (f *Flags) shard() (trainer.Shard, error) {
	switch values := list(f.Shard); {
	case len(values) == 0, slices.Equal(values, []string{"none"}):
		return trainer.ShardNothing, nil
	case slices.Equal(values, []string{"state"}):
		return trainer.ShardState, nil
	case slices.Equal(values, []string{"state", "gradients"}), slices.Equal(values, []string{"gradients", "state"}):
		return trainer.ShardGradients, nil
	}
	return 0, &FlagError{"shard", strconv.Quote(f.Shard), "use state, or state,gradients"}
}

// open opens the device: of several, number n.
func (f *Flags) open(n int) (kernels.Device, error) {
	switch f.Device {
	case "cpu":
		d, err := cpu.Open(cpu.Options{Instructions: f.Instructions, Threads: f.threads()})
		if err != nil {
			return nil, fmt.Errorf("-instructions: %w", err)
		}
		return d, nil
	case "cuda":
		d, err := cuda.Open(cuda.Options{Device: n})
		if err != nil {
			return nil, fmt.Errorf("-device cuda: %w", err)
		}
		return d, nil
	case "emu":
		return emu.Open(emu.Options{})
	}
	return nil, &FlagError{"device", strconv.Quote(f.Device), "use cpu, cuda or emu"}
}
