package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// PredictorOptions are the options of a Predictor. Device and Batch are required.
type PredictorOptions struct {
	// Device executes the predictions; the predictor does not close it. NewPredictor requires it.
	Device kernels.Device
	// Batch is the largest number of rows in one batch, and so in one call of Predict. It has no
	// default.
	Batch int
	// Sizes are the numbers of rows that programs are planned for; a batch runs with the smallest
	// size that holds it, and the rows left over are computed in vain. Default: the powers of two
	// below Batch, and Batch. Every value must be 1 to Batch, and Batch is always added. With one
	// size only, Batch itself, a row has the same bits whatever it is predicted with.
	Sizes []int
	// MaxDelay is how long a batch that is not full waits for further callers, from the time at
	// which its first row arrived. Default 0: a batch takes the rows that wait when the device
	// becomes free, and no row waits for another.
	MaxDelay time.Duration
	// NoPrepack computes weights in the form that the device's kernels read in each batch, not once for
	// each change of the weights: the plan then has no prepacked weights. Single rows take longer; no bit
	// changes. Default: off.
	NoPrepack bool
	// Views is the number of further predictors that share the weights of this one; see
	// Predictor.View. Default: none. Each takes the memory of a slot, of results and of scratch.
	Views int

	// Memory limits the bytes of device memory. Default: all that the device has free. NewPredictor
	// allocates exactly what the plan needs, or returns a *CapacityError.
	Memory int64
	// Fields describes how the inputs are stored, by name, as Options.Fields does; fields that
	// Model.Output does not depend on, such as labels, are left out of the plan. Default: each input
	// is stored as its node is in the graph.
	Fields []dataloader.Field
	// Precision and KeepFloat32 round factors of products, as those of Options do. They should be
	// those of the trainer that the weights come from: then the results are the same.
	Precision   arena.DType
	KeepFloat32 []string
	// Seed draws initial values, as Options.Seed does.
	Seed uint64
	// AllowMerged is that of Options.
	AllowMerged bool
}

// NamedSpec is the name of an input, output or weight of a Predictor, and its type and shape: of one
// row, if it is an input or output.
type NamedSpec struct {
	Name string
	Spec kernels.Spec
}

// Predictor computes the outputs of a model for a few rows at a time, with no dataset. Its plan has
// no loss, no targets, no gradients and no optimizer state. Predict may be called from any number of
// goroutines; the rows of calls that wait at the same time are computed as one batch.
type Predictor struct {
	weights *predictorWeights
	lane    *lane
	sizes   []predictorProgram // by rows, smallest first
	inputs  []predictorInput
	outputs []predictorOutput
	queue   predictorQueue
	counts  predictorCounts

	batch    int
	maxDelay time.Duration
}

// predictorCounts are the counters of PredictorStats.
type predictorCounts struct{ calls, batches, rows, padded atomic.Int64 }

// predictorWeights is the arena of a predictor and its views, and the weights in it.
type predictorWeights struct {
	plan   *predictorPlan
	memory *memory

	// update is held by the one call that changes the weights. It holds the run locks of all lanes
	// while it does.
	update  sync.Mutex
	loaded  arena.Event // passes when the copies of an update are done
	compute arena.Stream
	prepack kernels.Program // computes the prepacked weights; nil if there are none
	stale   error           // why they are not those of the parameters; the run locks guard it

	mu    sync.Mutex
	lanes []*lane
	open  int // lanes that a predictor uses
}

// NewPredictor compiles the model for each planned number of rows, plans the memory, allocates it on
// the device in one piece, and writes the initial values; Load replaces these by the weights of a
// trainer. The model needs an Output. Its Loss may be nil; if it is not, inputs that only the loss
// reads are no inputs of the predictor.
//
// Each row of the output must depend on the same row of the inputs only, since batches are filled
// with rows of other callers. NewPredictor runs the model once to check that, and returns an error
// that wraps ErrModel if rows mix. If the plan needs more than PredictorOptions.Memory or than the
// device has free, NewPredictor allocates nothing and returns a *CapacityError. Cancelling ctx stops
// the planning.
func NewPredictor(ctx context.Context, model ModelFunc, opt PredictorOptions) (_ *Predictor, err error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if err := opt.check(true); err != nil {
		return nil, err
	}
	plan, err := planPredictor(ctx, model, opt)
	if err != nil {
		return nil, err
	}
	if err := plan.checkCapacity(ctx); err != nil {
		return nil, err
	}
	w := &predictorWeights{plan: plan}
	w.memory = &memory{plan: plan.planned, device: opt.Device, unified: opt.Device.Unified()}
	var p *Predictor
	opened := false
	defer func() {
		if !opened { // after an error, or a panic of an initial distribution
			err = errors.Join(err, p.Close(), w.close())
		}
	}()
	if err := w.openMemory(); err != nil {
		return nil, err
	}
	if p, err = w.predictor(); err != nil {
		return nil, err
	}
	if err := p.checkRows(); err != nil {
		return nil, err
	}
	opened = true
	return p, nil
}

// check returns every mistake that shows without a model. needDevice makes a missing device one.
func (o *PredictorOptions) check(needDevice bool) error {
	bad := &mistakes{class: ErrOption}
	if needDevice && o.Device == nil {
		bad.addf("no device: set PredictorOptions.Device, for example to the device of cpu.Open")
	}
	if o.Batch < 1 || o.Batch > math.MaxInt32 {
		bad.addf("batch %d: must be 1 to %d", o.Batch, math.MaxInt32)
	}
	for _, n := range o.Sizes {
		if n < 1 || n > o.Batch {
			bad.addf("size %d: must be 1 to %d, the batch", n, o.Batch)
		}
	}
	if o.MaxDelay < 0 {
		bad.addf("delay %v: must be positive, or 0 to wait for no further rows", o.MaxDelay)
	}
	if o.Views < 0 || o.Views > math.MaxInt16 {
		bad.addf("views %d: must be 0 to %d", o.Views, math.MaxInt16)
	}
	if o.Memory < 0 {
		bad.addf("memory %d bytes: must be positive, or 0 for what the plan needs", o.Memory)
	}
	if p := o.Precision; p != 0 && p != arena.Float32 && !p.Half() {
		bad.addf("precision %v: must be float32, bfloat16 or float16", p)
	}
	if len(o.KeepFloat32) > 0 && !o.Precision.Half() {
		bad.addf("keep float32 %q: set Precision to bfloat16 or float16: these layers are its exceptions",
			o.KeepFloat32)
	}
	data := Options{Fields: o.Fields}
	return errors.Join(append(bad.errs, data.checkData())...)
}

// sizes returns the numbers of rows of the programs, smallest first; the last one is Batch.
func (o *PredictorOptions) sizes() []int {
	sizes := slices.Clone(o.Sizes)
	if len(sizes) == 0 {
		for n := 1; n < o.Batch; n *= 2 {
			sizes = append(sizes, n)
		}
	}
	sizes = append(sizes, o.Batch)
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// Plan returns the memory plan of the arena, which views share. It may be called at any time, also
// after Close.
func (p *Predictor) Plan() *report.Plan {
	if p == nil || p.weights == nil {
		return &report.Plan{}
	}
	return p.weights.plan.report()
}

// Inputs returns the inputs in the order in which Predict takes them, which is that of
// Model.Inputs, with the type and shape of one row as Predict takes it.
func (p *Predictor) Inputs() []NamedSpec {
	if p == nil {
		return nil
	}
	var all []NamedSpec
	for _, in := range p.inputs {
		all = append(all, NamedSpec{Name: in.name, Spec: in.spec})
	}
	return all
}

// Outputs returns the outputs in the order in which PredictAll returns them: Model.Output is the
// first, as "output". The type is that of the device; Predict returns float32 whatever it is.
func (p *Predictor) Outputs() []NamedSpec {
	if p == nil {
		return nil
	}
	var all []NamedSpec
	for _, out := range p.outputs {
		all = append(all, NamedSpec{Name: out.name, Spec: out.spec})
	}
	return all
}

// PredictorStats are a predictor's counters since NewPredictor or View.
type PredictorStats struct {
	Arena  arena.Stats // bytes of device memory, which views share
	Pinned int64       // bytes of pinned host memory, which views share
	// Host is the bytes of Go memory that the predictor keeps: instruction lists, which views share,
	// and one record for each call that has waited at the same time as others.
	Host    int64
	Calls   int64 // of Predict and PredictAll that were computed
	Batches int64 // that they were computed in
	Rows    int64 // of the calls
	Padded  int64 // rows computed in vain, to fill batches up to a planned size
}

// Stats returns the counters as they are now. It may be called at any time, also after Close.
func (p *Predictor) Stats() PredictorStats {
	if p == nil || p.weights == nil {
		return PredictorStats{}
	}
	s := PredictorStats{Calls: p.counts.calls.Load(), Batches: p.counts.batches.Load(),
		Rows: p.counts.rows.Load(), Padded: p.counts.padded.Load()}
	w := p.weights
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.memory.arena != nil {
		s.Arena = w.memory.arena.Stats()
		s.Pinned = s.Arena.Pinned + w.memory.extraPinnedBytes()
	}
	s.Host = w.plan.hostBytes() + p.queue.bytes()
	return s
}

// View returns a predictor with the weights of p, in the memory that PredictorOptions.Views has
// planned: nothing is copied, and Load of either changes both. It has a batch of its own, so that
// both may compute at the same time. If all views are in use, the error wraps ErrBusy: Close one.
// The memory is released when p and all views are closed.
func (p *Predictor) View() (*Predictor, error) {
	if p == nil || p.weights == nil || p.queue.isClosed() {
		return nil, errPredictorClosed
	}
	return p.weights.predictor()
}

// Close ends the calls that wait, with ErrClosed, waits for the batch that is being computed, and
// releases the memory if no view uses it; the device stays open. It is safe to call twice, and from
// any goroutine.
func (p *Predictor) Close() error {
	if p == nil || p.weights == nil {
		return nil // NewPredictor did not make it
	}
	if !p.queue.close() {
		return nil
	}
	p.lane.run.Lock() // wait for the batch that is being computed
	errs := []error{}
	for i := range p.sizes {
		errs = append(errs, p.sizes[i].close())
	}
	p.lane.run.Unlock()
	return errors.Join(append(errs, p.weights.release(p.lane))...)
}

// errPredictorClosed is the error of a closed predictor.
var errPredictorClosed = fmt.Errorf("the predictor is %w", ErrClosed)
