package runs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
)

// Options of a Run. The zero value is a good default.
type Options struct {
	// Name is the title of the page. Default: the last part of the folder, or "run" without one.
	Name string
	// Resume goes on with the run in the folder, if it has one: its curves continue. Default: a folder
	// that has anything in it is a *FolderError.
	Resume bool
	// Every records one training step in so many, by its number. Default 0: 1. A step takes about 400
	// bytes in the folder, in both of its logs.
	Every int
	// Settings are shown on the page, such as flags of the program. Default: none.
	Settings []trainer.Setting
	// Logger gets a line when the run is opened, paused, stopped and closed, and for an error of its
	// files. Default: nothing is logged.
	Logger *slog.Logger
}

// Source is what a run reads while a training runs, and what its controls call.
type Source struct {
	// Trainer has the plan, the memory of the arena, and norms of gradients by layer. Nil: none.
	Trainer *trainer.Trainer
	// Group is that of the trainer: its other ranks wait for a paused one without a limit, those on other
	// hosts as long as group.Options.Limit. Nil: none.
	Group group.Group
	// Device has the memory that is used and free on it. Nil: not shown.
	Device kernels.Device
	// Stop ends the training, such as the cancel function of its context. It is called by Run.Stop, from
	// any goroutine. Nil: Run.Stop is an ErrControl.
	Stop func()
	// Checkpointer takes checkpoints, such as a checkpoint.Folder. Nil: Run.Checkpoint is an ErrControl.
	Checkpointer Checkpointer
}

// Checkpointer takes a checkpoint when it is asked to. Its methods may be called from any goroutine.
type Checkpointer interface {
	Request()        // asks for a checkpoint after the step that runs; it does not wait
	Requested() bool // reports whether one is asked for that is not yet taken
}

// Times of a run.
const (
	tick        = 250 * time.Millisecond // between two looks at the ring
	second      = time.Second            // between two records of memory and speed
	normsPeriod = 100 * time.Millisecond // between two readings of norms by layer
	ringSteps   = 4096                   // steps that wait for being written
)

// Run records a training. Progress, Evaluated and Attach are for the goroutine that trains; the other
// methods may be called from any goroutine.
type Run struct {
	opt    Options
	log    *slog.Logger
	begun  time.Time // of this process
	before float64   // seconds that earlier processes have recorded
	steps  *ring[step]
	gate   gate
	norms  normReader

	evaluating atomic.Bool
	source     atomic.Pointer[Source]
	latest     trainer.Progress // training step; only the goroutine that trains uses it
	held       time.Duration    // by pauses after steps of the latest step's pass; as latest

	// mu guards what the page shows.
	mu          sync.Mutex
	charts      charts
	plan        *planView
	state       State
	evaluations []evaluation // that are not recorded yet
	cut         bool         // charts lost points since subscribers had them
	subscribers map[*Subscription]bool

	recorder recorder      // only its goroutine uses it, and Close after that
	wake     chan struct{} // a control was changed
	stop     chan struct{}
	wait     sync.WaitGroup
	closing  sync.Once
	err      error // of Close
}

// Create makes the folder dir and begins a run in it; with an empty dir the run has no files and is
// only shown (package live). A folder that is not empty is a *FolderError, unless it has a run that
// Options.Resume goes on with, or one without a step, which is taken over. One in which another process
// records is a *LockedError. A damaged line of the run that is to go on is a *RowError. The end of ctx ends a pause, so that the training can end. Close the
// run after the training.
func Create(ctx context.Context, dir string, opt Options) (*Run, error) {
	if ctx == nil {
		return nil, fmt.Errorf("create a run: the context is nil: %w", trainer.ErrOption)
	}
	if opt.Every < 0 {
		return nil, fmt.Errorf("create a run: Every %d must not be negative: %w", opt.Every, trainer.ErrOption)
	}
	opt.Name = cmp.Or(opt.Name, filepath.Base(cmp.Or(dir, "run")))
	r := &Run{opt: opt, log: opt.Logger, begun: time.Now(), steps: newRing[step](ringSteps), charts: newCharts(),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), subscribers: make(map[*Subscription]bool)}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.gate.open(ctx)
	r.recorder.run = r
	if dir != "" {
		last, err := r.recorder.files.open(dir, opt, r.begun, r.charts)
		if err != nil {
			return nil, err
		}
		r.before = last.seconds
		r.state.Number, r.state.Epoch = last.step, last.epoch
	}
	r.state.Status = waiting
	r.log.Info("run", "folder", dir, "step", r.state.Number)
	r.wait.Go(r.recorder.loop)
	return r, nil
}

// Keep sets the options whose numbers a run can show: the norm of all gradients, and those of each
// layer unless Shard is set, since no rank has the whole gradient of a layer then. They cost memory,
// which the plan contains, and a little time in each step. Call it after Shard is set.
func Keep(opt *trainer.Options) {
	opt.GradientNorm = true
	if opt.Shard == trainer.ShardNothing {
		opt.Keep = append(opt.Keep, "*"+gradNorm)
	}
}

// Attach gives the run a trainer and a device to read from until Close, and its controls. It may be
// called once, before the training. The run must be closed before the trainer and the device are.
func (r *Run) Attach(s Source) error {
	if !r.source.CompareAndSwap(nil, &s) {
		return fmt.Errorf("attach to run %q: it has a source: %w", r.opt.Name, trainer.ErrOption)
	}
	r.mu.Lock()
	r.state.Can.Stop, r.state.Can.Checkpoint = s.Stop != nil, s.Checkpointer != nil
	r.mu.Unlock()
	r.gate.attach(s.Checkpointer, s.Group)
	if s.Trainer == nil {
		return nil
	}
	r.norms.open(s.Trainer)
	for i := range r.steps.records { // the goroutine that trains fills them, and it calls Attach
		r.steps.records[i].norms = make([]float32, len(r.norms.layers))
	}
	plan := s.Trainer.Plan()
	r.mu.Lock()
	r.plan = newPlanView(plan)
	r.mu.Unlock()
	r.recorder.plan.Store(plan)
	return nil
}

// Progress records a step, as trainer.Options.Progress. It allocates nothing. While the run is paused
// it does not return.
func (r *Run) Progress(p trainer.Progress) {
	r.evaluating.Store(p.StepNumber == 0)
	if p.StepNumber == 0 {
		r.gate.pass()
		return
	}
	if anotherPass(&r.latest, &p) {
		r.held = 0
	}
	r.latest = p
	if r.opt.Every < 2 || p.StepNumber%int64(r.opt.Every) == 0 || p.Step == p.Steps {
		r.record(p)
	}
	r.held += r.gate.pass()
}

// record puts a step into the ring.
func (r *Run) record(p trainer.Progress) {
	s := r.steps.next()
	if s == nil {
		return
	}
	s.Progress, s.at = p, time.Since(r.begun)
	s.Input.Elapsed -= r.held
	s.layers = r.norms.read(s)
	r.steps.put()
}

// evaluation is a result that is not recorded yet.
type evaluation struct {
	data   string
	result trainer.Result
	at     time.Time
}

// Evaluated records the result of an evaluation after the latest step. data names the dataset, such as
// "test".
func (r *Run) Evaluated(data string, result trainer.Result) {
	r.evaluating.Store(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.evaluations = append(r.evaluations, evaluation{data, result, time.Now()})
}

// Close records what is left, draws the files for the last time, and ends pauses. It returns the first
// error of the numbers and of the pictures, which Options.Logger has had and which has not ended the
// training. It is safe to call twice.
func (r *Run) Close() error {
	r.closing.Do(func() {
		r.gate.close()
		close(r.stop)
		r.wait.Wait()
		r.err = r.recorder.close()
		r.log.Info("run closed", "step", r.state.Number, "error", r.err)
	})
	return r.err
}

// Dir returns the folder, "" if the run has none.
func (r *Run) Dir() string { return r.recorder.files.dir }

// Name returns the title of the page.
func (r *Run) Name() string { return r.opt.Name }
