package compile

import (
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/compile/passes"
	"github.com/evenkeel/evenkeel/internal/compile/remat"
	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Names of a program's results.
const (
	LossName    = "loss"    // the mean over the batch; of a model with weights, the sum of weight·loss
	WeightName  = "weight"  // the sum of the weights, if the model has them
	CorrectName = "correct" // the number of correct rows; of a model with weights, the sum of their weights
	OutputName  = "output"
	NormName    = "gradient norm²" // of the gradients of an update, before clipping: see Update.Norm
)

// IsResult reports whether programs have a result of that name whatever the model is.
func IsResult(name string) bool {
	return name == LossName || name == WeightName || name == CorrectName || name == OutputName || name == NormName
}

// MetricName returns the name of the result that is the sum of a metric.
func MetricName(metric string) string { return "metric " + metric }

// LossOf returns the name of the result LossName of an objective; "" is the first one.
func LossOf(objective string) string { return ofObjective(LossName, objective) }

// WeightOf returns the name of the result WeightName of an objective; "" is the first one.
func WeightOf(objective string) string { return ofObjective(WeightName, objective) }

// ofObjective returns the name of what an objective other than the first has for itself.
func ofObjective(name, objective string) string {
	if objective == "" {
		return name
	}
	return name + " of " + objective
}

// Mode is what a program computes.
type Mode uint8

// The modes.
const (
	Train    Mode = iota // loss, gradients and update
	Evaluate             // loss and correct answers
	Predict              // output
	Machine              // a user's own graph, for CompileMachine
	Average              // averages of parameters, for CompileAverages
	Prepack              // prepacked weights, for CompilePrepacking
)

// String returns the mode's name in plans.
func (m Mode) String() string {
	return [...]string{"train", "evaluate", "predict", "machine", "averages", "prepack"}[m]
}

// Config is a model and how to compile it.
type Config struct {
	frontend.Model
	Mode      Mode
	Objective string // name of the objective that the program trains; "": the first of the model
	Eval      bool   // of a machine: dropout and batch normalization work as outside training
	Prepack   bool   // to predict: weights may be read in region ir.Prepacked, see CompilePrepacking
	Averaged  bool   // to evaluate or predict: parameters that have averages are read at the homes of these
	Update    Update
	Recompute Recompute
	Precision Precision
	Offload   Offload
	Homes     *ir.Homes      // shared by all programs of the model; nil: the program has homes of its own
	Device    kernels.Device // nil: planned for a device without workspaces
	Like      *ir.Program    // the same model and mode at a larger batch, whose order and placement are reused; nil: none
	Off       Pass           // passes that are switched off
	// Distinct computes equal values once for each reader, so that those that are equal at this batch
	// alone are not live for longer than at others.
	Distinct bool
	// Group of ranks that share each step; nil: one rank. See ranks.go.
	Group group.Group
	// Buckets lists the parameters whose gradients are summed over the ranks together, as an earlier
	// program for the same parameters has them in ir.Program.Buckets; nil: they are chosen.
	Buckets [][]string
	// Idle: the rank has no samples in this step. It adds zeros to the sums of the others, and updates
	// as they do.
	Idle  bool
	Debug bool // leave guard bytes after each scratch buffer, for arena.Sentry
	// Twice returns the same model for twice the batch, to find a loss that is a sum over the rows;
	// nil: the loss is not checked.
	Twice func() (frontend.Model, error)

	scheduler *schedule.Scheduler // the only one, for tests; nil: all compete
}

// controls returns the name of the controls vector of the program's step.
func (cfg *Config) controls() string {
	if cfg.Objective == "" {
		return ir.ControlsName
	}
	return ir.ControlsName + "/" + cfg.Objective
}

// Recompute selects the activations that are computed again, Precision the values of 16 bits.
type (
	Recompute = remat.Goal
	Precision = passes.Precision
)

// Pass is a set of passes that can be switched off.
type Pass uint32

// The passes that can be switched off. See the files of packages passes and schedule.
const (
	Fuse              Pass = 1 << iota // epilogues of products, and chains of elementwise operations
	Order                              // search an order with a low peak
	InPlace                            // results reuse the bytes of operands
	Views                              // reshapes and slices alias their operand
	Merge                              // compute equal instructions once
	Fold                               // compute constants at compile time
	Redecode                           // decode fields of the batch separately for each reader
	Reduce                             // elementwise operations become the prologue of a reduction
	PoolReLUGrad                       // gradients of ReLUs are computed on pooled results
	FuseBatchNormReLU                  // a ReLU becomes part of the batch normalization before it
	Slices                             // slice large gradients that are checked right before their update; it needs Views
	Identity                           // remove products with the constant 1
	Sums                               // products accumulate into the value that they are added to; changes bits

	AllPasses = Fuse | Order | InPlace | Views | Merge | Fold | Redecode | Reduce |
		PoolReLUGrad | FuseBatchNormReLU | Slices | Identity | Sums
)

// on reports whether a pass runs.
func (cfg *Config) on(p Pass) bool { return cfg.Off&p == 0 }

// schedule returns the options of package schedule.
func (cfg *Config) schedule() schedule.Options {
	return schedule.Options{Device: cfg.Device, Like: cfg.Like, Debug: cfg.Debug,
		Order: cfg.on(Order), InPlace: cfg.on(InPlace), Views: cfg.on(Views), Scheduler: cfg.scheduler}
}

// Rule is the update of a parameter.
type Rule struct {
	Op       *kernels.Op
	Attrs    any                                      // of Op; Attrs.Scaled (not Update.Scaled) is true where gradients are multiplied by a factor: see Factor
	States   func(param kernels.Spec) []kernels.State // optimizer state of a parameter; nil: none
	Controls string                                   // name of the controls vector that it reads; "": that of the step
}

// Update is the optimizer's part of a step.
type Update struct {
	Rule                                                 // of parameters that have no other
	RuleOf   func(param string, spec kernels.Spec) *Rule // of a parameter; nil, or a nil result: Rule
	ClipNorm float64                                     // largest global norm of the gradients, 0 for no limit
	Norm     bool                                        // the squared norm of all gradients is a result of a step that updates; all gradients are kept
	Window   Window                                      // the place of the step in its window
	Keep     []string                                    // names of gradients that are results, if the step updates: see GradSuffix
	// Own reports whether gradients and state of a parameter have homes of this objective's own,
	// because an objective before it trains the parameter too; nil: none has.
	Own func(param string) bool
	// Shares: gradients that are kept until the update are values of scratch, which programs of other
	// objectives use too, unless Window is another than Alone.
	Shares bool
	// Scaled: the loss is multiplied by the loss scale, which the host includes in
	// kernels.ControlShare. The update multiplies gradients by kernels.ControlUnscale, 1 / that
	// scale. All gradients are kept.
	Scaled bool
	// GuardEach checks the loss first and each gradient right before its own update, so that none is
	// kept. ClipNorm, Norm, a Window other than Alone, and Scaled override it: all gradients are kept.
	GuardEach bool
	// Ranks: gradients are summed over the ranks of Config.Group before the update. All are kept.
	Ranks bool
	// Shard selects what each of several ranks has only its part of. See shard.go.
	Shard Shard
	// Accumulates: there are windows of several steps, though the step may have an update of its own.
	// With ShardState gradients then have homes in any case.
	Accumulates bool
	// SyncNorms: batch normalization uses the statistics of the samples of all ranks. See syncnorm.go.
	SyncNorms bool
}

// Sums reports whether an update starts from the sum of gradients of several steps or ranks.
func (u *Update) Sums() bool { return u.Window != Alone || u.Ranks }

// homesGradients reports whether gradients have homes in region Gradients.
func (u *Update) homesGradients() bool { return u.KeepsGradients() && (!u.Shares || u.Sums()) }

// RuleFor returns the rule of a parameter.
func (u *Update) RuleFor(param string, spec kernels.Spec) *Rule {
	if u.RuleOf != nil {
		if r := u.RuleOf(param, spec); r != nil {
			return r
		}
	}
	return &u.Rule
}

// Factor reports whether the update multiplies all gradients by a factor in any case: 1 / the loss
// scale, or, in a window of a model with weights, 1 / the sum of weights.
func (u *Update) Factor(weighted bool) bool { return u.Scaled || weighted && u.Sums() }

// KeepsGradients reports whether all gradients are kept until the update, which then happens as a
// whole or not at all.
func (u *Update) KeepsGradients() bool {
	return !u.GuardEach || u.ClipNorm > 0 || u.Norm || u.Sums() || u.Scaled
}

// Window is the place of a step in a window of steps whose gradients are accumulated for one
// update. Region Gradients holds the sum. The host sends the step's share of the window's samples
// (kernels.ControlShare); it scales the loss, so that the sum is the mean over the window.
//
//	steps of a window of 3   First: g = dw │ Inner: g += dw │ Last: g += dw, update by g
type Window uint8

// The places.
const (
	Alone Window = iota // the step has an update of its own
	First               // writes the gradients
	Inner               // adds to them
	Last                // adds to them, and updates
)

// String describes the place in plans.
func (w Window) String() string {
	return [...]string{"", ", first of a window", ", within a window", ", last of a window"}[w]
}

// adds reports whether gradients are added to those of earlier steps.
func (w Window) adds() bool { return w == Inner || w == Last }

// Updates reports whether parameters change in the step.
func (w Window) Updates() bool { return w == Alone || w == Last }

// Offload selects the values whose homes are in pinned host memory instead of the arena.
type Offload struct {
	State      bool     // of the optimizer
	Parameters bool     // of all layers, those of two dimensions or more
	Layers     []string // layers and scopes whose parameters of two dimensions or more are offloaded
}

// Offloads reports whether a parameter is offloaded. Vectors are not: their transfers would take
// longer to begin than to run.
func (o *Offload) Offloads(name string, spec kernels.Spec) bool {
	return len(spec.Shape) > 1 && (o.Parameters || ir.Selects(o.Layers, ir.OwnerOf(name)))
}
