package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// start notes what every parameter, constant and running statistic starts with that p is the first program to have. Only the first
// program, the one that trains, may bring parameters that are trained.
func (b *build) start(m Model, p *ir.Program, first bool) error {
	inits := make(map[string]layers.Init)
	nodes := make(map[string]*gorgonia.Node)
	for _, q := range slices.Concat(m.Params, m.Statistics) {
		inits[q.Node.Name()], nodes[q.Node.Name()] = q.Init, q.Node
	}
	if m.Loss != nil {
		for _, n := range m.Loss.Graph().AllNodes() {
			if n.IsVar() && nodes[n.Name()] == nil {
				nodes[n.Name()], inits[n.Name()] = n, normalizer(m.Loss.Graph(), n)
			}
		}
	}
	type home struct {
		region arena.Region
		name   string
	}
	constants := make(map[home][]byte)
	for _, c := range p.Constants {
		v := p.Values[c.Value]
		constants[home{v.Ref.Region, v.Name}] = c.Data
	}
	var errs []error
	for _, r := range starting {
		for _, part := range b.homes.Parts(r)[len(b.starts[r]):] {
			s := source{name: part.Name, fixed: constants[home{r, part.Name}]}
			if n := nodes[part.Name]; n != nil && s.fixed == nil {
				s.node, s.init = n, b.filler(part.Name, inits[part.Name])
				if s.init == nil && n.Value() == nil {
					errs = append(errs, fmt.Errorf("parameter %q has neither a value nor an initial distribution: %w", part.Name, ErrModel))
				}
				if !first && r != ir.Statistics && part.Spec.Type.Float() && !b.opt.frozen(part.Name) {
					errs = append(errs, fmt.Errorf("parameter %q is in this program and not in the one that trains: the model must have the same "+
						"parameters each time, and what the loss does not need must be frozen: %w", part.Name, ErrModel))
				}
			}
			b.starts[r] = append(b.starts[r], s)
		}
	}
	return errors.Join(errs...)
}

// starting are the regions whose contents the model gives.
var starting = [...]arena.Region{ir.Parameters, ir.HostParameters, ir.Statistics}

// normalizer returns what n starts with where gorgonia.BatchNorm made it, for want of a scale or a bias of the caller's: ones and zeros. Gorgonia
// itself draws them, without a seed. Nil: n is another node.
func normalizer(g *gorgonia.ExprGraph, n *gorgonia.Node) layers.Init {
	of := func(suffix string) bool {
		x, ok := strings.CutSuffix(n.Name(), suffix)
		return ok && slices.ContainsFunc(g.ByName(x), func(x *gorgonia.Node) bool { return x.Shape().Eq(n.Shape()) && readByBatchNorm(g, x) })
	}
	switch {
	case of("_γ"):
		return layers.Ones{}
	case of("_β"):
		return layers.Zeros{}
	}
	return nil
}

// readByBatchNorm reports whether gorgonia.BatchNorm reads x.
func readByBatchNorm(g *gorgonia.ExprGraph, x *gorgonia.Node) bool {
	return slices.ContainsFunc(g.AllNodes(), func(n *gorgonia.Node) bool {
		_, ok := n.Op().(*gorgonia.BatchNormOp)
		return ok && g.HasEdgeBetween(n.ID(), x.ID())
	})
}

// blameNormalizer adds to an error about programs that disagree what to do where gorgonia.BatchNorm has made parameters with rows for a batch.
func blameNormalizer(g *gorgonia.ExprGraph, rows int, err error) error {
	if !errors.Is(err, ir.ErrHome) {
		return err
	}
	for _, n := range g.AllNodes() {
		if n.IsVar() && normalizer(g, n) != nil && n.Shape()[0] == rows {
			return fmt.Errorf("gorgonia.BatchNorm made %q for %d samples: pass a scale and a bias of [1, channels, 1, 1], or use layers.BatchNorm: %w", n.Name(), rows, err)
		}
	}
	return err
}

// checkLayers returns an error for each name in Options.Recompute, Options.KeepFloat32 and Options.Offload that no layer has, and for a Precision of nothing.
func (b *build) checkLayers() error {
	var errs []error
	check := func(option string, names []string) {
		for _, name := range names {
			if !slices.ContainsFunc(b.programs[b.order[0]].Values, func(v ir.Value) bool { return v.Owner == name }) {
				errs = append(errs, fmt.Errorf("%s %q: no layer has this name, the plan lists them: %w", option, name, ErrOption))
			}
		}
	}
	for _, name := range b.opt.Offload.Layers {
		if !slices.ContainsFunc(b.homes.Parts(ir.HostParameters), func(p ir.Part) bool { return p.Owner == name }) {
			errs = append(errs, fmt.Errorf("offload %q: no layer of this name has a parameter of two dimensions or more, the plan lists them: %w", name, ErrOption))
		}
	}
	check("recompute", b.opt.Recompute.Layers)
	check("keep float32", b.opt.KeepFloat32)
	of := func(t arena.DType) bool {
		return slices.ContainsFunc(b.parameters(), func(p ir.Part) bool { return p.Spec.Type == t })
	}
	if p := b.opt.Precision; p.Half() && of(arena.Float64) && !of(arena.Float32) {
		errs = append(errs, fmt.Errorf("precision %v: all parameters are float64, and factors are rounded from float32 only: leave it at 0: %w", p, ErrOption))
	}
	return errors.Join(errs...)
}

// checkFrozen returns an error for each name in Options.Frozen that no parameter and no layer has.
func (b *build) checkFrozen() error {
	var errs []error
	for _, name := range b.opt.Frozen {
		here := func(s source) bool { return s.name == name || owner(s.name) == name }
		if !slices.ContainsFunc(starting[:], func(r arena.Region) bool { return slices.ContainsFunc(b.starts[r], here) }) {
			errs = append(errs, fmt.Errorf("frozen %q: the model has no such parameter or layer: %w", name, ErrOption))
		}
	}
	return errors.Join(errs...)
}

// filler returns what fills a parameter's bytes from the seed, nil without an initial distribution.
func (b *build) filler(name string, init layers.Init) func([]byte, kernels.Spec) error {
	if init == nil {
		return nil
	}
	return func(dst []byte, s kernels.Spec) error {
		if s.Type == arena.Float32 {
			return layers.Fill(dataloader.View[float32](dst), init, b.opt.Seed, name, s.Shape...)
		}
		return layers.Fill(dataloader.View[float64](dst), init, b.opt.Seed, name, s.Shape...)
	}
}

// write fills dst with the source's contents.
func (s source) write(dst []byte, spec kernels.Spec) error {
	switch {
	case s.fixed != nil:
		copy(dst, s.fixed)
	case s.init != nil:
		return s.init(dst, spec)
	case s.node != nil:
		return layout.Load(dst, s.node.Value(), spec)
	}
	return nil
}

// initialise writes parameters, constants and running statistics, and clears what starts at zero.
func (t *Trainer) initialise() error {
	for _, r := range []arena.Region{ir.Gradients, ir.State, ir.Guard} {
		if err := t.clear(r); err != nil {
			return err
		}
	}
	for _, p := range t.homes.Parts(ir.HostState) {
		err := t.write(p, func(dst []byte) error { clear(dst); return nil })
		if err != nil {
			return err
		}
	}
	for _, r := range starting {
		for i, p := range t.homes.Parts(r) {
			if err := t.write(p, func(dst []byte) error { return t.starts[r][i].write(dst, p.Spec) }); err != nil {
				return fmt.Errorf("parameter %q: %w", p.Name, err)
			}
		}
	}
	return nil
}

// clear sets a region of the program to zero and waits for it.
func (t *Trainer) clear(r arena.Region) error {
	for _, p := range t.homes.Parts(r) {
		if err := t.compute.Fill(t.span(t.at(p.Ref, 0)), 0); err != nil {
			return fmt.Errorf("clear %q: %w", p.Name, err)
		}
	}
	return t.compute.Sync()
}

// write lets fill write a home: there where the host can, else through Go memory and a staged copy.
func (t *Trainer) write(p ir.Part, fill func(dst []byte) error) error {
	if s, ok := t.offloaded(p.Ref); ok {
		t.announce(s, true)
		return fill(view(s))
	}
	h, err := t.arena.Handle(t.at(p.Ref, 0), "initial value")
	if err != nil {
		return err
	}
	if t.unified {
		b, err := h.Bytes()
		if err != nil {
			return err
		}
		return fill(b)
	}
	b := make([]byte, p.Ref.Size)
	if err := fill(b); err != nil {
		return err
	}
	return h.Write(b)
}

// uploadBytes bounds a chunk of an upload, where it goes through Go memory.
const uploadBytes = 1 << 20

// reside uploads ds if it is a resident dataset that is not on the device yet.
func (t *Trainer) reside(ctx context.Context, ds dataloader.Dataset) error {
	i := t.residence(ds)
	if i == streamed || t.resident[i] {
		return nil
	}
	if err := t.upload(ctx, i, ds); err != nil {
		return fmt.Errorf("upload resident dataset %d: %w", i, err)
	}
	t.resident[i] = true
	return nil
}

// upload copies a dataset to its place on the device, in its storage types: in one go where the host can write there, else
// chunk by chunk.
func (t *Trainer) upload(ctx context.Context, i int, ds dataloader.Dataset) (err error) {
	fields := ds.Fields()
	places, err := t.residentPlaces(i, fields)
	if err != nil {
		return err
	}
	rows, slot := ds.Len(), dataloader.Slot{}
	if !t.unified {
		rows = int(min(int64(rows), max(1, uploadBytes/dataloader.SampleBytes(ds))))
	}
	for k, f := range fields {
		var b []byte
		if t.unified {
			s := t.span(places[k])
			b = s.Memory.Bytes()[s.Offset : s.Offset+s.Size]
		} else {
			b = make([]byte, f.Bytes()*int64(rows))
		}
		slot.Fields = append(slot.Fields, b)
	}
	l, err := dataloader.New(ds, dataloader.Options{Batch: rows, Seed: t.opt.Seed, Workers: t.opt.Workers})
	if err != nil {
		return err
	}
	defer func() {
		if e := l.Close(); e != nil { // Close of the trainer tries again, and keeps the memory until then
			t.loaders = append(t.loaders, loader{ds: ds, l: l})
			err = errors.Join(err, e)
		}
	}()
	run, err := l.Epoch(ctx, 0, []dataloader.Slot{slot})
	if err != nil {
		return err
	}
	for {
		b, err := run.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := t.uploadChunk(fields, places, slot, b, int64(rows)); err != nil {
			return err
		}
		if err := run.Release(b.Slot, nil); err != nil {
			return err
		}
	}
}

// residentPlaces returns where the fields of resident dataset i lie.
func (t *Trainer) residentPlaces(i int, fields []dataloader.Field) ([]arena.Ref, error) {
	places := make([]arena.Ref, len(fields))
	for k, f := range fields {
		p, ok := t.homes.Find(ir.Resident, residentName(i)+"/"+f.Name)
		if !ok {
			return nil, fmt.Errorf("field %q is not an input of the model: %w", f.Name, ErrData)
		}
		places[k] = t.at(p.Ref, 0)
	}
	return places, nil
}

// uploadChunk brings a filled chunk to the device, where the loader has not written it there. Chunks have rows samples.
func (t *Trainer) uploadChunk(fields []dataloader.Field, places []arena.Ref, slot dataloader.Slot, b dataloader.Batch, rows int64) error {
	for k, f := range fields {
		n := f.Bytes() * int64(b.Rows)
		t.uploaded.Add(n)
		if t.unified {
			continue
		}
		ref := places[k]
		ref.Offset, ref.Size = ref.Offset+f.Bytes()*int64(b.Step)*rows, n
		h, err := t.arena.Handle(ref, f.Name)
		if err != nil {
			return err
		}
		if err := h.Write(slot.Fields[k][:n]); err != nil {
			return err
		}
	}
	return nil
}
