package trainer

import (
	"log/slog"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Model names the nodes of a graph that have a role in training: Inputs, Output, Loss, Weight,
// Correct, Params and Statistics. The elements of the last two are layers.Param, with an Init for
// the initial values. For the fields see layers.Model.
type Model = layers.Model

// ModelFunc adds a model to the empty graph g, for a batch of the given number of rows, and returns
// its nodes. It is called for each batch size and mode (training, evaluation, prediction); calls
// never overlap. So the model function must not wait for a call that makes a plan or uses a
// trainer. In the goroutine of the model function, such a call returns an error that wraps
// ErrModel. In another goroutine, the call blocks until the ctx of the call ends.
//
// If a layer of package layers has an error, that is the error of the model, even if the function
// then panics, or returns another error or none. Every call must make parameters of the same names
// and shapes. A graph in which Gorgonia may have merged nodes that differ is made twice for each
// batch size (see DoubtError). If gorgonia.BatchNorm is called without a scale and a bias, it makes
// its own, which start at 1 and 0.
type ModelFunc func(g *gorgonia.ExprGraph, batch int) (Model, error)

// Options of a Trainer. Batch is required, and so is Device for New.
type Options struct {
	// Device executes the steps; the trainer does not close it. New requires it. Default: none;
	// Plan, MaxBatch and Explore then assume kernels that need no workspace.
	Device kernels.Device
	// Batch is the number of samples of a training step. It has no default. With trained batch
	// normalization it must be 2 or more, since a batch of 1 has no usable variance.
	Batch int
	// EvalBatch is the number of samples of a step of evaluation and prediction. Default: Batch. A
	// larger one costs memory for inputs, outputs and activations.
	EvalBatch int
	// Accumulate adds up the gradients of this many steps before each update, which is then the
	// update of a batch of Accumulate·Batch samples. Default 0 or 1: an update in every step. It
	// keeps all gradients until the update, and batch normalization still sees the samples of one
	// step at a time; see docs/memory.md#accumulation-windows.
	Accumulate int

	// Optimizer computes the updates. Default: optim.SGD{}. Its state takes memory for each trained
	// parameter.
	Optimizer optim.Optimizer
	// Schedule changes the learning rate from update to update. Default: the rate stays as it is.
	Schedule optim.Schedule
	// Average keeps an average of the trained parameters, to evaluate and predict with:
	// Trainer.Averaged. Default: none. It takes as much memory as those parameters, in pinned host
	// memory if Offload.State is set, and changes no bit of training.
	Average optim.Average
	// Clip limits gradients by value, by global norm, or both. Default: no limit. Clipping by norm
	// keeps all gradients until the end of the step.
	Clip optim.Clip
	// GradientNorm computes Step.Norm, the global norm of the gradients of each update. Default: it
	// is computed only if Clip.Norm is set, which needs it. It keeps all gradients until the end of
	// the step, also under GuardEach, and reads them once more.
	GradientNorm bool
	// Objectives sets optimizer, schedule, clipping and frequency of objectives of the model, by their
	// names. Default: all have those of Options. See docs/objectives.md.
	Objectives []Objective
	// Groups sets rate, optimizer and decay of groups of parameters. Default: none. Each group with a
	// rate or an optimizer of its own has a controls vector, 256 bytes, in each slot.
	Groups []Group
	// Frozen excludes parameters from training, by patterns as those of layers.Objective: names of
	// parameters, layers or scopes, prefixes that end in "/", or patterns of path.Match. Default:
	// those with Param.Frozen in the model. Frozen batch normalization uses its running statistics.
	Frozen []string

	// Unfreeze lists stages: Trainer.Unfreeze lets training change the frozen parameters that the
	// patterns of the next stage match. Default: none. The plan has the programs of all stages, and
	// memory for the last. See docs/objectives.md#unfreezing.
	Unfreeze [][]string

	// Memory limits the bytes of device memory. Default: all that the device has free. New
	// allocates exactly what the plan needs; if that is more than the limit or than the device has
	// free, it returns a *CapacityError.
	Memory int64
	// Guard keeps gradients that are not finite from changing parameters. Default: GuardStep, which
	// keeps all gradients until the end of the step; GuardEach frees them earlier.
	Guard Guard
	// Recompute saves memory by computing activations twice. Default: none. It costs time and
	// changes no bit of a result.
	Recompute Recompute
	// Offload saves device memory by keeping tensors in pinned host memory. Default: none. It costs
	// transfers in each step and changes no bit of a result.
	Offload Offload

	// Precision rounds the factors of matrix products and convolutions, and the activations that
	// wait for the backward pass, to arena.BFloat16 or arena.Float16. Default: 0, which means the
	// same as arena.Float32: no rounding. It costs accuracy; sums, other operations, parameters,
	// gradients and optimizer state stay float32. See docs/memory.md#16-bits.
	Precision arena.DType
	// KeepFloat32 excludes layers from Precision, by their names in the plan or those of scopes.
	// Default: none.
	KeepFloat32 []string
	// LossScale multiplies the gradient of the loss so that small gradients do not vanish in 16
	// bits, and skips updates whose gradients overflow. Default: on if Precision is Float16, else
	// off. It keeps all gradients until the end of the step, and each step waits for the result of
	// the update before it. See docs/memory.md#scaling-the-loss.
	LossScale optim.Scaling

	// Fields describes how the data are stored: type, shape and decoding of each model input, by
	// name. Usually it is the dataset's Fields(). Inputs that Model.Output does not depend on, such
	// as targets, may be left out; they are then stored as their nodes are in the graph. So the
	// Fields() of data without labels are enough to predict. Default: each input is stored as its
	// node is in the graph.
	Fields []dataloader.Field
	// Group shares each batch among the ranks of a group, each of which has a device and a trainer of
	// its own: an epoch has steps of Batch samples a rank. Gradients are summed over the ranks, and so
	// are losses, metrics and the running statistics of batch normalization, whose statistics of a
	// batch are each rank's own unless SyncBatchNorm is set. All ranks make the same calls of New, Fit, Steps, Step and Evaluate
	// with the same options and data, and end with the same bits; Predict is a rank's own. If a rank
	// fails, the calls of all end with an error. Default: one rank. It keeps all gradients until the
	// update. See docs/scaling.md.
	Group group.Group
	// Shard saves memory by keeping only a part of the optimizer's state, or of gradients, on each of
	// the ranks of Group. Default: each rank has all. It has no effect without several ranks. See
	// docs/scaling.md#shared-state.
	Shard Shard
	// SyncBatchNorm normalizes a batch by the mean and variance of the samples of all ranks of Group, so
	// that a rank may have few samples, or one. Default: each rank uses those of its own samples. It
	// costs two sums over the ranks for each batch normalization in each step, which the ranks wait
	// for. Frozen layers and evaluation use running statistics in any case. See docs/scaling.md.
	SyncBatchNorm bool
	// Resident datasets stay on the device: the first pass over one uploads it, and its batches are
	// lists of indices. Default: every batch is uploaded. A resident dataset takes
	// dataloader.SampleBytes times its length of device memory. If Resident is not empty and Fields
	// is nil, Fit, Evaluate and Predict accept only these datasets; set Fields to use others, too.
	Resident []dataloader.Dataset

	// Seed drives initial values, shuffling, augmentation and dropout. Default 0, a seed like any
	// other. It has no effect on values that the model function binds itself: gorgonia.WithInit
	// draws without a seed; list the parameter in Model.Params with an Init instead.
	Seed uint64
	// Sequential trains in the dataset's own order. Default: each epoch has an order of its own, a
	// function of Seed.
	Sequential bool
	// Sampler chooses the samples of each training epoch and their order. Default: every sample once,
	// in the order that Sequential says. Evaluate and Predict always use all samples in their order.
	Sampler dataloader.Sampler
	// Tail selects what Fit does with the last samples of an epoch, if they do not fill a batch.
	// Default: they are a step of their own; with trained batch normalization Fit refuses a last
	// batch of 1. Evaluate and Predict always use all samples.
	Tail dataloader.Tail
	// Workers is the number of goroutines that read samples. Default: that of package dataloader.
	Workers int

	// Slots is the number of batches that have a place in the arena, an even number: the device works
	// on one while the others are read ahead. Default: 2. More keep the device busy if the time to read
	// a batch varies; they do not help if reading is slower on average. Each takes the bytes of a batch
	// as its Fields are stored, on the device and, where that has its own memory, once more pinned on
	// the host. TuneSlots chooses the number by measuring.
	Slots int

	// AllowMerged trains graphs in which Gorgonia merged nodes that differ, without a check.
	// Default: they are refused with a *DoubtError; to find merged nodes, the model function may be
	// called twice for each batch size. See docs/from-gorgonia.md#limits.
	AllowMerged bool

	// Checkpoint plans memory for a copy of the trainer's state, so that Trainer.Capture works.
	// Default: off. It takes as much memory as parameters, optimizer state and averages, and with
	// Accumulate also gradients: pinned host memory or, where the memory of the device is the host's,
	// a region of the arena.
	Checkpoint bool
	// SkipNonFinite skips a training step whose loss or gradients are not finite: it changes no
	// parameter, statistic or state of an optimizer, and training goes on with the next batch. After
	// this many such steps of an objective in a row, the next one is an error. With Accumulate the
	// update of the whole window is skipped. Default 0: the first one is an error. Each step then
	// waits for the result of the one before. It needs GuardStep. Step.NonFinite and Result.NonFinite
	// report such steps. Indices outside a table are an error always.
	SkipNonFinite int

	// Keep makes values readable after a step, by Trainer.Read and Trainer.Kept: those of nodes, by
	// their names; the gradient of a parameter, as "hidden/w/grad"; the L2 norm of the gradients of a
	// layer's parameters, as "hidden/gradnorm". "*/grad" means the gradients of all parameters that
	// are trained, "*/gradnorm" the norms of all their layers. Gradients are those of an update: of
	// all its steps, without the loss scale, before Clip; steps without an update have none.
	// Default: none. Each costs twice its size, since two steps can be in flight.
	Keep []string
	// TrainMetrics makes Fit measure Model.Metrics, too, and each step report those of its batch as
	// Step.Metrics. Default: only Evaluate does. It costs the time of the metrics in every step.
	TrainMetrics bool
	// Progress is called after every step of Fit, Steps and Evaluate, in the caller's goroutine.
	// Default: no call.
	Progress func(Progress)
	// Logger gets a line when the trainer is made, after each pass, and for each step that is skipped,
	// a Restore and an Unfreeze. Default: nothing is logged. A step without such an event logs nothing.
	Logger *slog.Logger
	// Debug checks after every operation that it changed no byte of scratch outside the buffers
	// that are live, and names the operation if it did (arena.OverrunError). Bytes that no buffer
	// uses are NaN meanwhile. Default: off. It is slow, enlarges the plan, and needs pinned memory for
	// a copy of the scratch region on a device with memory of its own. Not with a Group.
	Debug bool
}

// Progress is the state of a pass after one of its steps. A batch has a step for each objective.
type Progress struct {
	Objective string // of the step; "" in Evaluate, and if the model has Model.Loss
	Epoch     int    // number of the epoch, counted by Fit from 0; 0 in Evaluate
	Step      int    // batches that are finished or whose step this is, 1 to Steps
	Steps     int
	Samples   int     // of these batches
	Loss      float64 // mean of the objective's loss over the samples of its steps, weighted if it has a Weight
	Accuracy  float64 // share of correct outputs among them, weighted in the same way; NaN if the model has no Correct

	StepLoss float64 // mean over the samples of this step, weighted in the same way
	// StepAccuracy is the share of correct outputs of this step, weighted in the same way; NaN if the
	// model has no Correct.
	StepAccuracy float64
	StepNorm     float64 // Step.Norm of this step; NaN if it is not computed
	StepRate     float64 // Step.Rate of this step; 0 in Evaluate
	StepNumber   int64   // number of this training step, counted from 1 since New; 0 in Evaluate

	Input dataloader.Stalls // since the pass began; see Result.Input
	Waits Waits             // in the same time, for the device
}

// Guard selects what is checked before a parameter changes.
type Guard uint8

const (
	// GuardStep changes parameters only if the loss and every gradient of the step are finite. It
	// keeps all gradients until then.
	GuardStep Guard = iota
	// GuardEach checks each gradient just before its own update and frees it afterwards, which
	// saves most of the gradients' memory unless Clip.Norm, GradientNorm, LossScale or Accumulate
	// needs all of them. If a step fails, parameters that it has already updated stay changed. A
	// large gradient may be made and applied a few rows at a time; then rows of one parameter may
	// be changed and others not. See docs/memory.md#the-guard.
	GuardEach
)

// Recompute selects activations that are computed a second time, right before the backward pass
// reads them, instead of being kept from the forward pass.
type Recompute struct {
	// Auto recomputes as much as the plan needs to fit in Options.Memory, or in the free memory of
	// Options.Device, at the least extra time that the planner finds.
	Auto bool
	// Layers recomputes all activations of these layers, by their names in the plan, or those of
	// scopes.
	Layers []string
}

// Offload selects tensors that are kept in pinned host memory. A step copies each to the device
// before it is needed, and writes changes back afterwards; these copies overlap compute. With
// unified memory it would save nothing and is an ErrOption. Vectors, such as biases, stay on the
// device. See docs/memory.md#offload-to-host-memory.
type Offload struct {
	State      bool     // the optimizer's state
	Parameters bool     // the parameters of all layers
	Layers     []string // the parameters of these layers and scopes
}

// String lists the offloaded tensors, such as "state", for tables.
func (o Offload) String() string {
	var parts []string
	if o.State {
		parts = append(parts, "state")
	}
	if o.Parameters {
		parts = append(parts, "parameters")
	}
	if parts = append(parts, o.Layers...); len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// any reports whether anything is offloaded.
func (o *Offload) any() bool { return o.State || o.Parameters || len(o.Layers) > 0 }

// scaled reports whether the loss is scaled.
func (o *Options) scaled() bool {
	m := o.LossScale.Mode
	return m == optim.ScaleAlways || m == optim.ScaleFloat16 && o.Precision == arena.Float16
}

// optimizer returns Optimizer or its default.
func (o *Options) optimizer() optim.Optimizer {
	if o.Optimizer == nil {
		return optim.SGD{}
	}
	return o.Optimizer
}

// inFlight is the number of steps that are in flight at most, and maxSlots the most Options.Slots.
const (
	inFlight = 2
	maxSlots = 64
)

// slots returns Slots or its default.
func (o *Options) slots() int {
	if o.Slots == 0 {
		return inFlight
	}
	return o.Slots
}

// rows returns the batch of a full step.
func (o *Options) rows(mode compile.Mode) int {
	if mode != compile.Train && o.EvalBatch > 0 {
		return o.EvalBatch
	}
	return o.Batch
}

// windows returns the windows that full batches of a mode occur in. The first one updates
// parameters if mode is Train.
func (o *Options) windows(mode compile.Mode) []compile.Window {
	switch {
	case mode != compile.Train || o.Accumulate <= 1:
		return []compile.Window{compile.Alone}
	case o.Accumulate == 2:
		return []compile.Window{compile.Last, compile.First, compile.Alone}
	}
	return []compile.Window{compile.Last, compile.First, compile.Inner, compile.Alone}
}

// window returns the window of a step in an epoch of the given number of steps. The steps of its
// update are first to end-1.
//
//	Accumulate 3, 7 steps: | First Inner Last | First Inner Last | Alone |
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

// frozen reports whether Options.Frozen names a parameter.
func (o *Options) frozen(name string) bool {
	return matchesAny(o.Frozen, name)
}
