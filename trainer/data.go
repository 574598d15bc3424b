package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
)

// loader is the reader of a dataset, kept from pass to pass.
type loader struct {
	ds    dataloader.Dataset
	n     int // its length
	train bool
	l     *dataloader.Loader
}

// prepare makes ready what a pass over a dataset needs. After the first pass over it there is nothing left to do.
func (t *Trainer) prepare(ctx context.Context, mode compile.Mode, ds dataloader.Dataset) (*walk, error) {
	if err := t.reside(ctx, ds); err != nil { // outside the lock: it may take long
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w, err := t.source(ctx, mode, ds)
	if err != nil {
		return nil, err
	}
	w.loader, err = t.reader(mode, ds, w.read)
	return w, err
}

// residence returns which of the resident datasets ds is, or streamed.
func (t *Trainer) residence(ds dataloader.Dataset) int {
	if i := slices.IndexFunc(t.opt.Resident, func(r dataloader.Dataset) bool { return comparable(ds) && r == ds }); i >= 0 {
		return i
	}
	return streamed
}

// source checks a dataset against the plan and finds what is read for it: its samples, or where it is resident their indices. It
// compiles the program of the last, short batch, if there is one.
func (t *Trainer) source(ctx context.Context, mode compile.Mode, ds dataloader.Dataset) (*walk, error) {
	if err := dataloader.Check(ds); err != nil {
		return nil, err
	}
	w := &walk{t: t, mode: mode, from: t.residence(ds), read: ds}
	w.full = t.bound[key{mode, t.opt.rows(mode), w.from, t.opt.windows(mode)[0]}] // checkFields says so where there is none
	if w.from != streamed {
		w.read = dataloader.Indices(ds.Len())
	}
	w.fields = w.read.Fields()
	if err := t.checkFields(mode, w.from, w.fields); err != nil {
		return nil, err
	}
	tail := ds.Len() % t.opt.rows(mode)
	if mode == compile.Train && t.opt.Tail == dataloader.DropTail {
		tail = 0
	}
	if tail > 0 {
		steps := ds.Len()/t.opt.rows(mode) + 1
		window, _, _ := t.opt.window(mode, steps-1, steps)
		err := t.ensure(ctx, key{mode, tail, w.from, window})
		if errors.Is(err, frontend.ErrRows) {
			return nil, fmt.Errorf("last batch of %d, of %d samples in batches of %d: leave it out (Options.Tail = dataloader.DropTail) or take another batch: %w",
				tail, ds.Len(), t.opt.Batch, err)
		}
		if err != nil {
			return nil, fmt.Errorf("last batch of %d: %w", tail, err)
		}
	}
	return w, nil
}

// ready returns the program for a batch of so many rows, which source has made ready.
func (t *Trainer) ready(k key) (*pair, error) {
	p := t.bound[k]
	if p == nil {
		return nil, fmt.Errorf("a batch of %d: the dataset has changed its length: %w", k.rows, ErrData)
	}
	return p, nil
}

// ensure compiles and binds the program that k names, for a batch smaller than the full one. It runs in the memory that is there:
// it takes over the places of the full batch's program.
func (t *Trainer) ensure(ctx context.Context, k key) error {
	if t.bound[k] != nil {
		return nil
	}
	full := t.programs[key{k.mode, t.opt.rows(k.mode), k.source, k.window}]
	p, err := t.compile(ctx, k, full)
	if err != nil {
		return err
	}
	if p.Plan.Bytes > t.scratch {
		return &arena.CapacityError{Name: "scratch of " + p.Name, Need: p.Plan.Bytes, Have: t.scratch, At: p.Plan.LiveAt}
	}
	if err := sameParameters(p, full); err != nil {
		return err
	}
	t.add(k, p)
	if err := t.bind(k); err != nil {
		delete(t.programs, k)
		t.order = t.order[:len(t.order)-1]
		return err
	}
	return nil
}

// sameParameters returns an error unless both programs train the same parameters.
func sameParameters(p, full *ir.Program) error {
	var errs []error
	for _, name := range full.Trained {
		if !slices.Contains(p.Trained, name) {
			errs = append(errs, fmt.Errorf("parameter %q is missing at batch %d: the model must have the same parameters for every batch size: %w",
				name, p.Batch, ErrModel))
		}
	}
	return errors.Join(errs...)
}

// checkFields reports every field of a dataset that the plan has no place for, and every place that it leaves empty.
func (t *Trainer) checkFields(mode compile.Mode, source int, fields []dataloader.Field) error {
	full := t.programs[key{mode, t.opt.rows(mode), source, t.opt.windows(mode)[0]}]
	if full == nil {
		if mode == compile.Predict && !slices.ContainsFunc(t.order, func(k key) bool { return k.mode == mode }) {
			return blameModel(frontend.ErrNoOutput)
		}
		return fmt.Errorf("the trainer was made for its resident datasets only: set Options.Fields to stream others: %w", ErrData)
	}
	var errs []error
	for _, f := range fields {
		p, ok := t.homes.Find(ir.Slot, f.Name)
		if !ok {
			errs = append(errs, fmt.Errorf("field %q is not an input of the model: leave it out with dataloader.Select: %w", f.Name, ErrData))
			continue
		}
		if want := p.Spec.Shape.Elems() / p.Spec.Shape[0]; p.Spec.Type != f.Type || f.Bytes() != int64(want)*f.Type.Size() || scrambles(f.Shape, p.Spec.Shape[1:]) {
			errs = append(errs, fmt.Errorf("field %q holds %v %v a sample, the plan has %v %v: pass the dataset's Fields in Options.Fields: %w",
				f.Name, f.Type, f.Shape, p.Spec.Type, p.Spec.Shape[1:], ErrData))
		}
		for _, planned := range t.opt.Fields {
			if planned.Name == f.Name && (scale(planned) != scale(f) || planned.Shift != f.Shift) {
				errs = append(errs, fmt.Errorf("field %q is decoded as %v·x + %v, planned as %v·x + %v: pass the dataset's Fields in Options.Fields: %w",
					f.Name, scale(f), f.Shift, scale(planned), planned.Shift, ErrData))
			}
		}
	}
	for _, v := range full.Values {
		if v.Home && v.Ref.Region == ir.Slot && v.Name != ir.ControlsName &&
			!slices.ContainsFunc(fields, func(f dataloader.Field) bool { return f.Name == v.Name }) {
			errs = append(errs, fmt.Errorf("the data have no field %q %v: %w", v.Name, v.Spec, ErrData))
		}
	}
	return errors.Join(errs...)
}

// scale returns the factor that a field is decoded with.
func scale(f dataloader.Field) float64 {
	if f.Scale == 0 {
		return 1
	}
	return f.Scale
}

// maxLoaders bounds the readers that are kept: a program that makes a new dataset for each pass does not pile them up.
const maxLoaders = 8

// reader returns the loader for a dataset, the same one for every pass over it. read is what is read: the dataset, or its indices.
func (t *Trainer) reader(mode compile.Mode, ds, read dataloader.Dataset) (*dataloader.Loader, error) {
	train := mode == compile.Train
	for _, l := range t.loaders {
		if comparable(ds) && comparable(l.ds) && l.ds == ds && l.train == train && l.n == ds.Len() {
			return l.l, nil
		}
	}
	if err := t.forget(func(l loader) bool { return !comparable(l.ds) || comparable(ds) && l.ds == ds && l.train == train }); err != nil {
		return nil, err
	}
	opt := dataloader.Options{Batch: t.opt.rows(mode), Seed: t.opt.Seed, Workers: t.opt.Workers}
	if train {
		opt.Shuffle, opt.Tail = !t.opt.Sequential, t.opt.Tail
	}
	l, err := dataloader.New(read, opt)
	if err != nil {
		return nil, err
	}
	t.loaders = append(t.loaders, loader{ds: ds, n: ds.Len(), train: train, l: l})
	if len(t.loaders) > maxLoaders {
		oldest := t.loaders[0].l
		return l, t.forget(func(l loader) bool { return l.l == oldest })
	}
	return l, nil
}

// forget closes readers that will not be asked for again: of datasets that cannot be told from others, and of those that have
// another length by now.
func (t *Trainer) forget(gone func(loader) bool) error {
	var errs []error
	t.loaders = slices.DeleteFunc(t.loaders, func(l loader) bool {
		if !gone(l) {
			return false
		}
		err := l.l.Close()
		errs = append(errs, err)
		return err == nil
	})
	return errors.Join(errs...)
}

// loaderSlots returns the staging places as a loader wants them, with the fields in the dataset's order.
func (t *Trainer) loaderSlots(fields []dataloader.Field) []dataloader.Slot {
	slots := make([]dataloader.Slot, len(t.slot))
	for i, s := range t.slot {
		slots[i].Ready = s.first
		for _, f := range fields {
			slots[i].Fields = append(slots[i].Fields, s.host[f.Name])
		}
	}
	return slots
}
