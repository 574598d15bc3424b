package trainer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Model says what the nodes of a graph are for.
type Model = layers.Model

// ModelFunc adds a model to g for a batch of so many rows. It is called once for each batch size and mode, and must make the
// same parameters, by name and shape, each time.
type ModelFunc func(g *gorgonia.ExprGraph, batch int) (Model, error)

// Guard is how much is checked before a parameter changes.
type Guard uint8

const (
	// GuardStep changes nothing unless the loss and every gradient of the step are finite. It keeps all gradients until then.
	GuardStep Guard = iota
	// GuardEach changes nothing unless the loss is finite, and no parameter whose own gradient is not. A gradient dies with its
	// update, which saves most of their bytes, but where Clip.Norm, LossScale or Accumulate needs them all; parameters updated earlier in a failing step stay changed. Where a gradient
	// would raise the peak it is made, checked and applied in slices of its rows, and rows before a bad slice stay changed too.
	GuardEach
)

// Recompute says which activations are computed a second time, right before the backward pass reads them, in place of being kept from the forward
// pass. It changes no bit of a result: dropout draws the same masks, and running statistics move once.
type Recompute struct {
	Auto   bool     // as many as it takes for the plan to fit in Memory, or in what is free on Device, at the least extra time that is found
	Layers []string // all that are counted under these names in the plan
}

// Offload says what is kept in pinned host memory, outside of the arena, on a device with memory of its own. It is fetched right before a step needs it, and what
// has changed is stowed again behind, by double buffers beside the computation. It changes no bit of a result.
//
// A parameter that is kept there is fetched for the forward pass and again for the backward pass, and once more, in parts, for its update; vectors stay
// in the arena, since they are smaller than what a transfer is worth.
type Offload struct {
	State      bool     // of the optimizer
	Parameters bool     // of all layers
	Layers     []string // whose parameters are kept there, in place of those of all
}

// String returns what is kept in host memory, for tables.
func (o Offload) String() string {
	var what []string
	if o.State {
		what = append(what, "state")
	}
	if o.Parameters {
		what = append(what, "parameters")
	}
	if what = append(what, o.Layers...); len(what) == 0 {
		return "nothing"
	}
	return strings.Join(what, ", ")
}

// any reports whether anything is.
func (o *Offload) any() bool { return o.State || o.Parameters || len(o.Layers) > 0 }

// Options of a Trainer. Batch is required; so is Device, but for Plan.
type Options struct {
	Device    kernels.Device // where to train; the trainer does not close it, and Plan allocates nothing on it
	Batch     int            // rows of a step; 2 or more under batch normalization that is not frozen: of one sample its statistics are not those of data
	EvalBatch int            // rows of a step of evaluation and prediction; 0: Batch
	// Accumulate is the number of steps whose gradients are added up before an update, which is then that of a batch of Accumulate·Batch rows:
	// of the mean over the samples of all of them, also where the last window of an epoch is short. Schedules, clipping and the optimizer count
	// updates. Batch normalization takes each step's own statistics, and running ones move at each step. 0 or 1: every step has its update.
	Accumulate int
	Optimizer  optim.Optimizer // nil: optim.SGD{}
	Schedule   optim.Schedule  // of the learning rate; nil: constant
	Clip       optim.Clip      // of gradients; zero: none
	Frozen     []string        // names of parameters, or of layers, that are not trained; a frozen batch normalization uses its running statistics
	Memory     int64           // bytes of device memory that may be used; 0: what the plan needs
	Guard      Guard           // what is checked before parameters change
	Recompute  Recompute       // which activations are computed again for the backward pass, in place of being kept; zero: none
	Offload    Offload         // what is kept in pinned host memory; zero: nothing

	// Precision is the type to which the factors of products, that is of dense layers, convolutions and their gradients, are rounded, to the nearest:
	// arena.Bfloat16 or arena.Float16; 0 or arena.Float32: not at all. Sums, all other operations, parameters, gradients and states stay float32.
	// Activations of float32 wait in that type from the forward pass to the backward one, for half the bytes, but for what losses, softmax,
	// statistics of norms and comparisons read, vectors, and the last activation, which is read again at once. A factor or an activation above 65504 is
	// infinite in Float16: in the forward pass it stops the step as one that is not finite, in the backward pass see LossScale.
	Precision   arena.DType
	KeepFloat32 []string // layers, by their names in the plan, whose products and activations Precision leaves as they are
	// LossScale multiplies the gradient of the loss, and divides gradients by it again, so that small ones do not vanish in 16 bits; an update that
	// overflows is skipped as a whole, and the scale falls. The zero value does so where Precision is Float16, and not elsewhere. A step then
	// waits for the outcome of the update before it, and all gradients are kept, under GuardEach too.
	LossScale optim.Scaling

	// Fields says how the data are stored: type, shape and decoding of each model input, by name. Usually dataset.Fields().
	// Nil: each input is stored as its node is in the graph.
	Fields []dataloader.Field
	// Resident datasets are uploaded once, in their storage types, by the first pass over them, and gathered by index on the device
	// from then on. Where Fields is nil, only they can be used.
	Resident []dataloader.Dataset

	// Seed is that of initial values, of the order of samples, of what the dataset draws, and of dropout. Values that a model function
	// binds itself are taken as they are: those of gorgonia.WithInit are Gorgonia's, drawn without a seed; list the parameter in
	// Model.Params with an Init instead. The scale x_γ and the bias x_β that gorgonia.BatchNorm makes for x where it is given none start
	// at 1 and 0.
	Seed       uint64
	Sequential bool            // train in the dataset's own order
	Tail       dataloader.Tail // what becomes of the last, short batch of training; evaluation and prediction keep it. Fit refuses one of 1 under batch normalization
	Workers    int             // goroutines that read samples; 0: dataloader's default

	Keep     []string       // names of nodes whose values can be read after a step, see Trainer.Kept
	Progress func(Progress) // called after every step of Fit and Evaluate, and by Explore, in the caller's goroutine
	Debug    bool           // poison freed scratch and verify the bytes around every buffer after every call; slow, on unified devices
}

// Progress is how far a pass has come.
type Progress struct {
	Epoch   int // of Fit, from 0
	Step    int // finished, 1 to Steps
	Steps   int
	Samples int     // finished
	Loss    float64 // mean over those samples
	// Accuracy is the share of right outputs among them, NaN where the model has no Correct.
	Accuracy float64
}

// Errors that callers tell apart. Others are those of arena (ErrCapacity), dataloader and kernels (ErrShape, ErrUnsupported).
var (
	ErrOption    = optim.ErrOption
	ErrModel     = layout.ErrModel
	ErrData      = layout.ErrData
	ErrNonFinite = errors.New("not finite")
	ErrLabel     = errors.New("label outside the classes")
	ErrIndex     = layout.ErrIndex // outside the rows of a table, see IndexError
	ErrBusy      = errors.New("the trainer is in use")
	ErrClosed    = errors.New("the trainer is closed")
)

// check returns every mistake in the options.
func (o *Options) check(needDevice bool) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(format+": %w", append(args, ErrOption)...))
	}
	if needDevice && o.Device == nil {
		bad("no device: set Options.Device, for example to the device of cpu.Open")
	}
	if o.Batch < 1 || o.Batch > math.MaxInt32 {
		bad("batch %d: must be 1 to %d", o.Batch, math.MaxInt32)
	}
	if o.EvalBatch < 0 || o.EvalBatch > math.MaxInt32 {
		bad("evaluation batch %d: must be 1 to %d, or 0 for Batch", o.EvalBatch, math.MaxInt32)
	}
	if o.Accumulate < 0 {
		bad("accumulate %d: must be 1 or more steps, or 0 for an update at each", o.Accumulate)
	}
	if o.Recompute.Auto && len(o.Recompute.Layers) > 0 {
		bad("recompute %q and what the planner chooses: only one of both", o.Recompute.Layers)
	}
	if p := o.Precision; p != 0 && p != arena.Float32 && !p.Half() {
		bad("precision %v: must be float32, bfloat16 or float16", p)
	}
	if len(o.KeepFloat32) > 0 && !o.Precision.Half() {
		bad("keep float32 %q: set Precision to bfloat16 or float16, of which these layers are to be left out", o.KeepFloat32)
	}
	if o.Memory < 0 {
		bad("memory %d bytes: must be positive, or 0 for what the plan needs", o.Memory)
	}
	if o.Offload.any() && o.Device != nil && o.Device.Unified() {
		bad("offload: %s has no memory but the host's, so that nothing would be saved: leave it out", o.Device.Name())
	}
	if o.Offload.Parameters && len(o.Offload.Layers) > 0 {
		bad("offload of the parameters of %q and of all layers: only one of both", o.Offload.Layers)
	}
	if o.Workers < 0 {
		bad("workers %d: must not be negative", o.Workers)
	}
	if o.Guard > GuardEach {
		bad("guard %d: must be GuardStep or GuardEach", o.Guard)
	}
	if o.Tail > dataloader.DropTail {
		bad("tail %d: must be KeepTail or DropTail", o.Tail)
	}
	if o.Debug && o.Device != nil && !o.Device.Unified() {
		bad("debug needs a device whose memory is the host's: %s has its own", o.Device.Name())
	}
	errs = append(errs, o.checkData())
	return errors.Join(append(errs, optim.Check(o.optimizer(), o.Schedule, o.Clip), o.LossScale.Validate())...)
}

// checkData returns every mistake in Fields and Resident.
func (o *Options) checkData() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(format+": %w", append(args, ErrOption)...))
	}
	for i, f := range o.Fields {
		if slices.ContainsFunc(o.Fields[:i], func(g dataloader.Field) bool { return g.Name == f.Name }) {
			bad("two fields are called %q", f.Name)
		}
		if math.IsNaN(f.Scale+f.Shift) || math.IsInf(f.Scale+f.Shift, 0) {
			bad("field %q: scale %v and shift %v must be finite", f.Name, f.Scale, f.Shift)
		}
	}
	for i, ds := range o.Resident {
		if err := dataloader.Check(ds); err != nil {
			errs = append(errs, fmt.Errorf("resident dataset %d: %w", i, err))
		} else if !comparable(ds) {
			bad("resident dataset %d: a %T cannot be compared, pass a pointer", i, ds)
		}
	}
	return errors.Join(errs...)
}

// scaled reports whether the loss is scaled.
func (o *Options) scaled() bool {
	m := o.LossScale.Mode
	return m == optim.ScaleAlways || m == optim.ScaleFloat16 && o.Precision == arena.Float16
}

func (o *Options) optimizer() optim.Optimizer {
	if o.Optimizer == nil {
		return optim.SGD{}
	}
	return o.Optimizer
}

// rows returns the batch of a mode's full steps.
func (o *Options) rows(mode compile.Mode) int {
	if mode != compile.Train && o.EvalBatch > 0 {
		return o.EvalBatch
	}
	return o.Batch
}

// windows returns the programs that a full batch has in a mode, by their places among the steps of an update. The one that updates is the first.
func (o *Options) windows(mode compile.Mode) []compile.Window {
	switch {
	case mode != compile.Train || o.Accumulate <= 1:
		return []compile.Window{compile.Alone}
	case o.Accumulate == 2:
		return []compile.Window{compile.Last, compile.First, compile.Alone}
	}
	return []compile.Window{compile.Last, compile.First, compile.Inner, compile.Alone}
}

// window returns the place of a step, of so many in an epoch, among those of its update, which are from first to before end.
func (o *Options) window(mode compile.Mode, step, steps int) (w compile.Window, first, end int) {
	n := max(1, o.Accumulate)
	if mode != compile.Train {
		n = 1
	}
	first = step - step%n
	end = first + min(n, steps-first)
	switch {
	case end-first == 1:
		return compile.Alone, first, end
	case step == first:
		return compile.First, first, end
	case step == end-1:
		return compile.Last, first, end
	}
	return compile.Inner, first, end
}

// frozen reports whether the parameter of that name is not trained.
func (o *Options) frozen(name string) bool {
	return slices.Contains(o.Frozen, name) || slices.Contains(o.Frozen, owner(name))
}
