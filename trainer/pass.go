package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// epochPass is one pass over a dataset: the loop of training and of evaluation.
//
// Slots overlap reading, uploading and computing. While the device runs step n, the loader fills the
// other slots, by default one, with the next batches:
//
//	slot 0   │ fill 0 │ step 0 │ fill 2 │ step 2 │ …
//	slot 1            │ fill 1 │ step 1 │ fill 3 │ …
//
// Data of one step:
//
//	loader ─► pinned slot ─upload stream─► device slot ─┐
//	          (one place on unified devices)            └─compute stream─► results ─► sums
type epochPass struct {
	t        *Trainer
	mode     compile.Mode // Train or Evaluate
	averaged bool         // it evaluates with the averages of parameters
	source   batchSource
	ds       dataloader.Dataset // nil: the caller of Trainer.Step makes the batches
	loader   *dataloader.Loader
	reader   reader    // fills the slots
	total    int       // steps of the pass
	epoch    int       // number of the epoch, counted by Fit from 0; 0 in Evaluate
	body     *loopBody // called after each step; nil unless the pass is one of Steps
	last     Step      // the step that was collected last
	waits    Waits     // of the pass; zero without Options.Progress

	// The trainer's counters before this pass. The numbers of steps and updates in the controls
	// continue from them.
	stepsBefore   int64
	updatesBefore []int64 // by objective

	// Sums over the steps that are collected.
	objectives     []objectiveSums // by objective
	correct        float64         // over samples, each times its weight for the first objective
	samples, steps int             // of batches, all steps of which are finished
	uploaded       int64           // bytes
	pending        int             // objective after that of the last step; 0: its batch is finished
	resume         int             // objective that a batch which is read again begins with
	totals         []float64       // of the sums of metrics
	stepMetrics    *stepMetrics    // nil: steps have none

	profiler *profiler // nil: nobody measures the pass
}

// open prepares the pass over ds. After the first pass over a dataset, nothing is left to compile
// or to upload.
func (p *epochPass) open(ctx context.Context, ds dataloader.Dataset) error {
	t := p.t
	if err := t.plan.opt.agreeOnRefusal(ctx, p.prepare(ctx, ds)); err != nil {
		return err
	}
	if p.mode == compile.Train {
		t.begin(p)
	}
	return p.meet(ctx)
}

// prepare is the part of open that changes nothing but p, and may be refused.
func (p *epochPass) prepare(ctx context.Context, ds dataloader.Dataset) (err error) {
	t := p.t
	p.ds = ds
	if p.mode == compile.Train {
		if err := t.checkWindow("another pass"); err != nil {
			return err
		}
	}
	if p.source, err = t.openSource(ctx, p.mode, p.averaged, ds); err != nil {
		return err
	}
	if p.loader, err = t.loaders.get(p.mode, ds, p.source); err != nil {
		return err
	}
	p.source.samples = p.loader.Samples()
	if err := t.openTail(ctx, p.mode, &p.source); err != nil {
		return err
	}
	p.totals = make([]float64, t.plan.metrics.elems)
	if p.body != nil {
		p.stepMetrics = t.plan.newStepMetrics()
	}
	p.objectives = make([]objectiveSums, t.plan.objectives(compile.Train))
	p.total = p.loader.Steps()
	if p.mode == compile.Train {
		return t.checkContinued(p)
	}
	return nil
}

// run submits each batch when the loader has it, and collects the results of each step when they
// are there. At most two steps are in flight: the device works on one while the other waits. The
// second step is not submitted before the first one is collected where updates can be skipped (see
// maySkip), and in a pass of Steps, whose body runs between the two; only its batch is uploaded.
func (p *epochPass) run(ctx context.Context) (err error) {
	defer func() { err = p.finish(err) }()
	var before *slot // of the previous step, if that is in flight
	for {
		b, err := p.next(ctx, before)
		if err == io.EOF {
			return errors.Join(p.collect(ctx, before), p.sumRanks())
		}
		if err != nil {
			return errors.Join(p.collect(ctx, before), err)
		}
		again := false // the body of Steps has used the slots: the batch is read again
		if before, again, err = p.serveSnapshots(ctx, before); err != nil {
			return err
		}
		if again {
			continue
		}
		if before, err = p.batch(ctx, b, before); err != nil {
			return err
		}
	}
}

// next waits for the next batch. It opens the reader first if that is not open: at the start, and
// after the body of a pass of Steps has used the slots. before is the slot of the step in flight, or
// nil.
func (p *epochPass) next(ctx context.Context, before *slot) (dataloader.Batch, error) {
	if !p.reader.isOpen() {
		if p.steps == p.total {
			return dataloader.Batch{}, io.EOF
		}
		if err := p.openReader(ctx); err != nil {
			return dataloader.Batch{}, err
		}
	}
	if p.profiler.enough() {
		return dataloader.Batch{}, io.EOF
	}
	p.awaitIdle(before)
	b, err := p.reader.run.Next(ctx)
	if err == nil {
		p.profiler.took(b)
	}
	return b, err
}

// openReader opens the reader at the first step that is not collected.
func (p *epochPass) openReader(ctx context.Context) (err error) {
	t := p.t
	if p.steps > 0 {
		// Calls in the body may have dropped the loader and the program of the last batch.
		if p.loader, err = t.loaders.get(p.mode, p.ds, p.source); err != nil {
			return err
		}
		if p.source.tail != (programKey{}) {
			if err := t.ensurePrograms(ctx, p.source.tail); err != nil {
				return err
			}
		}
	}
	run, err := p.loader.EpochFrom(ctx, p.epoch, p.steps, loaderSlots(t.slots, p.source.fields))
	if err != nil {
		return err
	}
	p.reader.open(run)
	p.resume = p.pending
	return nil
}

// finish ends a pass that ended with err. Afterwards no step is in flight, the status word is
// clear, and the slots are free. A pass whose body ended the loop has no step in flight, and no
// right to the device either: see loopBody.
func (p *epochPass) finish(err error) error {
	if p.body != nil && p.body.paused {
		return err
	}
	drained, closed := p.t.streams.drain(p.t.slots), p.reader.close(nil)
	switch {
	case err == nil:
		err = drained
	case drained == nil: // else err contains the same error
		err = errors.Join(err, p.t.memory.clear(ir.Guard, p.t.streams.compute))
	}
	return errors.Join(err, closed)
}

// selectProgram selects the program of batch b in slot s, and enqueues the uploads that need not
// wait for the previous step.
func (p *epochPass) selectProgram(s *slot, b dataloader.Batch) error {
	t := p.t
	window, _, _ := t.plan.opt.window(p.mode, b.Step, p.total)
	program := p.source.full
	s.rows = b.Rows
	if p.mode == compile.Train {
		s.rows = p.stepRows(b.Step)
	}
	if b.Rows != program.rows || window != program.window || s.objective != program.objective {
		var err error
		if program, err = t.programs.find(p.key(b.Rows, window, s.objective)); err != nil {
			return err
		}
	}
	s.batch, s.program, s.uploads = b, program, &program.controls
	if s.first {
		s.uploads = &program.batch
	}
	s.indices = append(s.indices[:0], b.Indices...)
	if err := t.invalidateKept(s); err != nil {
		return err
	}
	p.profiler.enqueues(b.Step)
	return t.streams.enqueueCopies(s.uploads.prefetch[s.index])
}

// key returns the key of the program for a batch of rows.
func (p *epochPass) key(rows int, w compile.Window, objective int) programKey {
	k := p.t.plan.key(p.mode, rows, p.source.dataset, w, objective)
	k.averaged = p.averaged
	if rows == 0 { // of a step of all ranks
		k.rows, k.idle = p.t.plan.opt.rows(p.mode), true
	}
	return k
}

// writeControls writes the controls of the step in slot s: the optimizer's numbers, the step's
// number, and the factor of its loss.
func (p *epochPass) writeControls(s *slot) error {
	t, b := p.t, s.batch
	opt := t.plan.own[s.objective]
	_, first, end := opt.window(p.mode, b.Step, p.total)
	t.memory.willWrite(s.controlsSpan)
	windows := first / max(1, opt.Accumulate) / t.plan.every(s.objective) // of the objective in this epoch
	update := p.updatesBefore[s.objective] - p.objectives[s.objective].skipped + int64(windows) + 1
	if err := optim.WriteControls(opt.optimizer(), opt.Schedule, update, s.controls); err != nil {
		return err
	}
	t.lowerRate(s.controls)
	s.rate = s.controls[0]
	// The gradient of the loss starts with the step's share of the window's samples, so that the
	// sum over the window is the gradient of the mean over all of them, short steps included. With
	// weights, all steps of a window start with the share of its first step.
	rows := b.Rows
	s.controls[kernels.ControlRank] = float64(rows) / float64(s.rows)
	if s.program.hasWeight {
		rows = p.rowsBefore(first+1) - p.rowsBefore(first)
	}
	share := float64(rows) / float64(p.rowsBefore(end)-p.rowsBefore(first))
	if opt.scaled() {
		scale := t.counters.scaling.Scale
		share *= scale
		s.controls[kernels.ControlUnscale] = 1 / scale
	}
	if p.objectives[s.objective].lost && s.program.window.Updates() {
		share = math.NaN() // no update: the guard finds gradients that are not finite
	}
	s.controls[kernels.ControlShare] = share
	// Each rank draws other numbers, those of a step of its own.
	s.controls[kernels.ControlStep] = float64((p.number(s.objective, b.Step)-1)*int64(opt.ranks()) + int64(opt.rank()) + 1)
	t.plan.weighAverages(s, update)
	return p.writeGroupControls(s, update)
}

// rowsBefore returns the number of samples in all steps before a step, those of all ranks.
func (p *epochPass) rowsBefore(step int) int {
	return min(step*p.source.full.rows*p.t.plan.opt.ranks(), p.source.samples)
}

// submit enqueues the step whose batch is in slot s, and whose controls are written.
func (p *epochPass) submit(s *slot) error {
	if err := p.enqueueStep(s); err != nil {
		return err
	}
	p.profiler.submitted(s)
	p.uploaded += s.uploads.sampleBytes
	if !s.last || p.t.memory.unified {
		return nil // collect releases the slot, when the kernels are done with it
	}
	return p.reader.run.Release(s.index, s.writable)
}

// collect finishes the step in slot s, and calls Options.Progress and the body of Steps. It does
// nothing if s is nil.
func (p *epochPass) collect(ctx context.Context, s *slot) error {
	if s == nil {
		return nil
	}
	if err := p.finishStep(ctx, s); err != nil {
		return err
	}
	t := p.t
	if s.last && t.memory.unified {
		if err := p.reader.run.Release(s.index, nil); err != nil {
			return err
		}
	}
	if report := t.plan.opt.Progress; report != nil {
		sums := &p.objectives[s.objective]
		report(Progress{Objective: p.last.Objective, Epoch: p.epoch, Step: p.last.Step, Steps: p.total,
			Samples: p.rowsBefore(p.last.Step), Loss: sums.loss / sums.weight, Accuracy: p.accuracy(),
			StepLoss: p.last.Loss, StepAccuracy: p.last.Accuracy, StepNorm: p.last.Norm,
			StepRate: p.last.Rate, StepNumber: p.last.Number, Input: p.reader.stalls(), Waits: p.waits})
	}
	if p.body != nil {
		return p.body.call(ctx, p)
	}
	return nil
}

// finishStep waits for the step in slot s and adds its numbers to the sums.
func (p *epochPass) finishStep(ctx context.Context, s *slot) error {
	t := p.t
	if err := p.awaitStep(s); err != nil {
		return p.stepError(s.batch.Step, err)
	}
	p.profiler.finished(s)
	t.memory.willRead(s.outcome)
	// The status word is 0 if everything was finite. Else it names what was not, and no update
	// after that changed anything.
	o := p.outcomeOf(s, s.loss())
	if !p.skips(s, o) {
		return p.exchangeCauses(ctx, s, p.tooMany(s, p.diagnose(s)))
	}
	if o != succeeded {
		p.logSkipped(s, o)
		if err := t.memory.clear(ir.Guard, t.streams.compute); err != nil {
			return p.stepError(s.batch.Step, err)
		}
	}
	if p.mode == compile.Train {
		p.objectives[s.objective].skipWindow(s, o)
	}
	p.add(s, o)
	t.countStep(s, o)
	return nil
}

// stepError adds the number of a step to its error. A step of Trainer.Step has none, and rows
// instead of samples of a dataset.
func (p *epochPass) stepError(step int, err error) error {
	if p.ds != nil {
		return fmt.Errorf("step %d: %w", step, err)
	}
	var number *NonFiniteError
	var index *IndexError
	var division *DivisionError
	if errors.As(err, &number) {
		number.row = true
	}
	if errors.As(err, &division) {
		division.row = true
	}
	if errors.As(err, &index) {
		index.row = true
	}
	return err
}
