package trainer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// batchSource is where the batches of a pass or a prediction come from. Data flow one way:
//
//	dataset ─► batchSource ─► loader ─► slot ─► program ─► results
type batchSource struct {
	dataset int                // index into Options.Resident, or streamed
	read    dataloader.Dataset // what the loader reads: the samples, or the indices of resident ones
	data    extent             // of the dataset
	samples int                // of the pass: those of read, or of Options.Sampler
	fields  []dataloader.Field // of read
	full    *boundProgram      // the program of a full batch, of the first objective
	tail    programKey         // of the last, short batch and the first objective; zero if there is none
}

// openSource checks a dataset against the plan, and uploads it if it is resident. The caller has the
// device; it gets the slots, and calls openTail when it knows the samples of the pass.
func (t *Trainer) openSource(ctx context.Context, mode compile.Mode, averaged bool, ds dataloader.Dataset) (
	s batchSource, err error,
) {
	if err := t.takeSlots(); err != nil {
		return s, err
	}
	// A closed device has freed the memory: nothing may be written there.
	if err := t.streams.compute.Sync(); err != nil {
		return s, err
	}
	opt := &t.plan.opt
	s = batchSource{dataset: opt.residentIndex(ds), read: ds}
	if err := dataloader.Check(ds); err != nil {
		return s, err
	}
	now, err := readExtent(ds)
	if err != nil {
		return s, err
	}
	s.data, s.samples, s.fields = now, now.samples, now.fields
	if s.dataset != streamed {
		if planned := t.plan.residents[s.dataset]; !now.equal(planned) {
			return s, &dataloader.ChangedError{Dataset: fmt.Sprintf("%T", ds), Was: planned.samples, Now: now.samples}
		}
		if err := t.residents.ensureUploaded(ctx, s.dataset); err != nil {
			return s, err
		}
		s.read = dataloader.Indices(now.samples)
		s.fields = s.read.Fields()
	}
	if err := t.plan.checkFields(mode, s.dataset, s.fields); err != nil {
		return s, err
	}
	full := t.plan.fullKey(mode, s.dataset)
	full.averaged = averaged
	s.full = t.programs[full]
	return s, nil
}

// openTail compiles the program of the last, short batch of a source if it has one.
func (t *Trainer) openTail(ctx context.Context, mode compile.Mode, s *batchSource) error {
	opt := &t.plan.opt
	// The length of a dataset decides the last batch: its rows, and its place in the window.
	// Example: 1,000 samples in batches of 128 are 7 full batches and one of 104; with Accumulate 4
	// that is step 7, the last one of the second window, so it updates.
	// A rank of a group has its part of the last batch, which may be a full one, or none at all.
	if err := t.checkLone(mode, s); err != nil {
		return err
	}
	tail, steps := opt.ownTail(mode, s.samples)
	if tail == 0 || tail == opt.rows(mode) || mode == compile.Train && opt.Tail == dataloader.DropTail {
		return nil
	}
	window, _, _ := opt.window(mode, steps-1, steps)
	s.tail = t.plan.key(mode, tail, s.dataset, window, 0)
	s.tail.averaged = s.full.averaged
	err := t.ensurePrograms(ctx, s.tail)
	if errors.Is(err, frontend.ErrRows) {
		return opt.shortTail(tail, s.samples, err)
	}
	if err != nil {
		return fmt.Errorf("last batch of %d: %w", tail, err)
	}
	return nil
}

// checkLone returns an error if the last step of an epoch has one sample on all ranks together, and a
// batch normalization over them.
func (t *Trainer) checkLone(mode compile.Mode, s *batchSource) error {
	opt := &t.plan.opt
	if mode != compile.Train || !opt.SyncBatchNorm || opt.ranks() == 1 || opt.Tail == dataloader.DropTail || s.samples%(opt.Batch*opt.ranks()) != 1 {
		return nil
	}
	if prog := t.plan.programs[t.plan.fullKey(mode, s.dataset)]; prog == nil || len(prog.Variances) == 0 {
		return nil
	}
	return opt.shortTail(1, s.samples, fmt.Errorf("%w: %w", frontend.ErrRows, kernels.ErrShape))
}

// shortTail returns the error of a last batch that has too few rows to normalize, as err says.
func (o *Options) shortTail(tail, samples int, err error) error {
	return fmt.Errorf("last batch of %d, of %d samples in batches of %d: "+
		"leave it out (Options.Tail = dataloader.DropTail) or choose another batch: %w", tail, samples, o.Batch*o.ranks(), err)
}

// fullKey returns the key of the program for full batches of a dataset; in training, of the one
// that updates, and of the first objective.
func (p *planned) fullKey(mode compile.Mode, dataset int) programKey {
	return p.key(mode, p.opt.rows(mode), dataset, p.opt.windows(mode)[0], 0)
}

// checkFields returns an error for each field of a dataset that the plan has no place for or
// another format, and for each place without a field.
func (p *planned) checkFields(mode compile.Mode, dataset int, fields []dataloader.Field) error {
	const passFields = "pass the dataset's Fields in Options.Fields"
	full := p.programs[p.fullKey(mode, dataset)]
	if full == nil {
		if mode == compile.Predict && !slices.ContainsFunc(p.order, func(k programKey) bool { return k.mode == mode }) {
			return blameModel(frontend.ErrNoOutput, 0)
		}
		return fmt.Errorf("the trainer was made for its resident datasets only: "+
			"set Options.Fields to stream others: %w", ErrData)
	}
	var errs []error
	// One pass over the data's fields, then one over the plan's, so that a renamed field is
	// reported with both of its names.
	for _, f := range fields {
		home, ok := p.homes.Find(ir.Slot, f.Name)
		if !ok {
			errs = append(errs, errNoInput(f.Name))
			continue
		}
		// A home has the rows of the largest batch; a sample is one of them. A flat field may feed
		// an input of any shape.
		elems, sample := home.Spec.Shape.Elems()/home.Spec.Shape[0], home.Spec.Shape[1:]
		if home.Spec.Type != f.Type || f.Bytes() != int64(elems)*f.Type.Size() || reordersElements(f.Shape, sample) {
			errs = append(errs, fmt.Errorf("field %q holds %v %v a sample, the plan has %v %v: %s: %w",
				f.Name, f.Type, f.Shape, home.Spec.Type, sample, passFields, ErrData))
		}
		for _, planned := range p.opt.Fields {
			if planned.Name == f.Name && (scaleOf(planned) != scaleOf(f) || planned.Shift != f.Shift) {
				errs = append(errs, fmt.Errorf("field %q is decoded as %v·x + %v, planned as %v·x + %v: %s: %w",
					f.Name, scaleOf(f), f.Shift, scaleOf(planned), planned.Shift, passFields, ErrData))
			}
		}
	}
	// A program of prediction reads no labels: what it does not read need not be in the data.
	var values []ir.Value
	for k := p.fullKey(mode, dataset); k.objective < p.objectives(mode); k.objective++ {
		values = append(values, slotValues(p.programs[k])...)
	}
	for i, v := range values {
		again := slices.ContainsFunc(values[:i], func(o ir.Value) bool { return o.Name == v.Name })
		if !again && !ir.IsControls(v.Name) &&
			!slices.ContainsFunc(fields, func(f dataloader.Field) bool { return f.Name == v.Name }) {
			errs = append(errs, fmt.Errorf("the data have no field %q %v: %w", v.Name, v.Spec, ErrData))
		}
	}
	return errors.Join(errs...)
}

// scaleOf returns the factor that a field is decoded with.
func scaleOf(f dataloader.Field) float64 {
	if f.Scale == 0 {
		return 1
	}
	return f.Scale
}

// extent is what a plan or a pass has to know of a dataset. It is read once, as the dataset's code may
// panic or return another value the next time.
type extent struct {
	samples     int
	fields      []dataloader.Field
	fingerprint uint64 // 0: unknown
}

// readExtent returns the extent of ds. A panic in ds is an error.
func readExtent(ds dataloader.Dataset) (e extent, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("dataset of type %T: %w", ds, &dataloader.PanicError{Value: p, Stack: debug.Stack()})
		}
	}()
	e = extent{samples: ds.Len(), fields: slices.Clone(ds.Fields())}
	// A wrapper of the user's that hides what it wraps must not look like other data.
	if _, ok := ds.(dataloader.Fingerprinter); ok {
		e.fingerprint = dataloader.Fingerprint(ds)
	}
	return e, nil
}

// sampleBytes returns the size of one sample.
func (e extent) sampleBytes() (n int64) {
	for _, f := range e.fields {
		n += f.Bytes()
	}
	return n
}

// equal reports whether two extents are the same.
func (e extent) equal(f extent) bool {
	return e.samples == f.samples && slices.EqualFunc(e.fields, f.fields, func(a, b dataloader.Field) bool {
		return a.Name == b.Name && a.Type == b.Type && slices.Equal(a.Shape, b.Shape) && a.Scale == b.Scale && a.Shift == b.Shift
	})
}
