package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// CopyParams copies the parameters and running statistics whose names begin with src to those that
// begin with dst: "policy/hidden/w" to "target/hidden/w" for CopyParams("target", "policy"). A prefix
// is one or more whole parts of names, which slashes separate. So a model can have two networks of
// the same layers, of which Options.Frozen excludes one from training. The device copies; nothing
// goes through Go memory, and after the first call with the same prefixes nothing is allocated.
//
// Both sides must have the same names after the prefix, with the same types and shapes; else nothing
// is copied and the error is a *CopyError, which wraps ErrOption. While Fit or Evaluate runs it
// returns ErrBusy, after Close ErrClosed. It may be called from any goroutine.
func (t *Trainer) CopyParams(dst, src string) error { return t.MixParams(dst, src, 1) }

// MixParams is CopyParams with a weight, from 0 to 1: dst += weight·(src - dst), as for a target
// network that follows a policy slowly (Polyak averaging). With a weight of 1 it copies, with 0 it
// only checks. Only floats are mixed, and of parameters of Options.Offload, those that are offloaded
// on both sides: the host computes these.
func (t *Trainer) MixParams(dst, src string, weight float64) error {
	what := "copy"
	if weight != 1 {
		what = "mix"
	}
	if !(weight >= 0 && weight <= 1) {
		return fmt.Errorf("mix %q into %q: weight %v must be from 0 to 1: %w", src, dst, weight, ErrOption)
	}
	if err := t.use().acquire(context.Background()); err != nil {
		return fmt.Errorf("%s %q to %q: %w", what, src, dst, err)
	}
	defer t.usage.release()
	c, err := t.copies.find(t.memory, dst, src)
	if err == nil && weight != 0 {
		err = c.run(t.streams.compute, weight)
	}
	if err != nil {
		return fmt.Errorf("%s %q to %q: %w", what, src, dst, err)
	}
	return nil
}

// CopyError lists why parameters cannot be copied from one prefix to another. It wraps ErrOption.
type CopyError struct {
	Dst, Src string
	Problems []string // one for each parameter
}

func (e *CopyError) Error() string {
	return fmt.Sprintf("%s: both prefixes need parameters of the same names, types and shapes: %v",
		strings.Join(e.Problems, "; "), ErrOption)
}

// Unwrap returns ErrOption.
func (e *CopyError) Unwrap() error { return ErrOption }

// maxCopies bounds the pairs of prefixes that are kept ready.
const maxCopies = 8

// paramCopies are the copies that a trainer keeps ready, the least recently used first.
type paramCopies []*paramCopy

// find returns the copy from src to dst, and makes it unless it is kept.
func (cs *paramCopies) find(m *memory, dst, src string) (*paramCopy, error) {
	for i, c := range *cs {
		if c.dst == dst && c.src == src {
			copy((*cs)[i:], (*cs)[i+1:])
			(*cs)[len(*cs)-1] = c
			return c, nil
		}
	}
	c, err := newParamCopy(m, dst, src)
	if err != nil {
		return nil, err
	}
	*cs = append(*cs, c)
	if len(*cs) <= maxCopies {
		return c, nil
	}
	err = (*cs)[0].close()
	*cs = slices.Delete(*cs, 0, 1)
	return c, err
}

// close releases all copies.
func (cs paramCopies) close() error {
	var errs []error
	for _, c := range cs {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

// paramCopy is a copy between two prefixes, ready to run.
type paramCopy struct {
	memory   *memory
	dst, src string
	copies   []kernels.Copy // of all pairs
	onHost   []paramPair    // pairs of which both sides are offloaded
	unmixed  error          // why the pairs cannot be mixed, but only copied

	mix    kernels.Program // mixes the pairs on the device; nil: there are none
	weight arena.Handle    // of the mix, in scratch, which no program uses between steps
	buffer [8]byte         // the weight
}

// paramPair is a parameter and its source.
type paramPair struct{ dst, src ir.Part }

// newParamCopy prepares the copy from src to dst.
func newParamCopy(m *memory, dst, src string) (*paramCopy, error) {
	pairs, err := m.plan.pair(dst, src)
	if err != nil {
		return nil, err
	}
	c := &paramCopy{memory: m, dst: dst, src: src}
	var calls []kernels.Call
	weight := kernels.Operand{Spec: kernels.Spec{Type: arena.Float64}, Ref: arena.Ref{Region: ir.Scratch, Size: 8}}
	status, _ := m.plan.homes.Find(ir.Guard, ir.GuardName)
	var unmixed []string
	for _, p := range pairs {
		_, dstOffloaded := m.offloadedSpan(p.dst.Ref)
		_, srcOffloaded := m.offloadedSpan(p.src.Ref)
		c.copies = append(c.copies, kernels.Copy{Dst: m.place(p.dst.Ref), Src: m.place(p.src.Ref)})
		switch {
		case !p.dst.Spec.Type.Float():
			unmixed = append(unmixed, fmt.Sprintf("%q is %v, and only floats are mixed", p.dst.Name, p.dst.Spec.Type))
		case dstOffloaded != srcOffloaded:
			unmixed = append(unmixed, fmt.Sprintf("only one of %q and %q is offloaded", p.dst.Name, p.src.Name))
		case dstOffloaded:
			c.onHost = append(c.onHost, p)
		default:
			x, y := kernels.Operand{Spec: p.dst.Spec, Ref: p.dst.Ref}, kernels.Operand{Spec: p.src.Spec, Ref: p.src.Ref}
			calls = append(calls, kernels.Call{Op: kernels.Mix, Label: "mix " + p.dst.Name, Out: []kernels.Operand{x},
				In: []kernels.Operand{x, y, {Spec: kernels.GuardSpec, Ref: status.Ref}, weight}})
		}
	}
	if unmixed != nil {
		c.unmixed = fmt.Errorf("%s: copy them instead: %w", strings.Join(unmixed, "; "), ErrOption)
	}
	if calls == nil {
		return c, nil
	}
	if c.weight, err = m.arena.Handle(m.ref(weight.Ref, 0), "weight"); err == nil {
		c.mix, err = m.device.Bind(calls, m.binding(0))
	}
	return c, err
}

// pair returns the parameters and running statistics of two prefixes, in pairs, or a *CopyError.
func (p *planned) pair(dst, src string) ([]paramPair, error) {
	to, from := strings.TrimSuffix(dst, "/"), strings.TrimSuffix(src, "/")
	e := &CopyError{Dst: dst, Src: src}
	if _, within := restOf(to, from); within {
		e.Problems = append(e.Problems, fmt.Sprintf("%q is part of %q", dst, src))
	} else if _, within := restOf(from, to); within {
		e.Problems = append(e.Problems, fmt.Sprintf("%q is part of %q", src, dst))
	}
	var pairs []paramPair
	found := make(map[string]ir.Part) // of src, by the rest of the name
	all := slices.Concat(p.parameters(), p.homes.Parts(ir.Statistics))
	for _, home := range all {
		if rest, ok := restOf(home.Name, from); ok {
			found[rest] = home
		}
	}
	if len(found) == 0 {
		e.Problems = append(e.Problems, fmt.Sprintf("no parameter begins with %q", src))
	}
	matched := make(map[string]bool)
	for _, home := range all {
		rest, ok := restOf(home.Name, to)
		if !ok {
			continue
		}
		matched[rest] = true
		source, ok := found[rest]
		switch {
		case !ok:
			e.Problems = append(e.Problems, fmt.Sprintf("%q has no counterpart in %q", home.Name, src))
		case !source.Spec.Equal(home.Spec):
			e.Problems = append(e.Problems, fmt.Sprintf("%q is %v, %q is %v", home.Name, home.Spec, source.Name, source.Spec))
		default:
			pairs = append(pairs, paramPair{home, source})
		}
	}
	if len(matched) == 0 {
		e.Problems = append(e.Problems, fmt.Sprintf("no parameter begins with %q", dst))
	} else {
		for _, home := range all {
			if rest, ok := restOf(home.Name, from); ok && !matched[rest] {
				e.Problems = append(e.Problems, fmt.Sprintf("%q has no counterpart in %q", home.Name, dst))
			}
		}
	}
	if e.Problems != nil {
		return nil, e
	}
	return pairs, nil
}

// restOf returns what follows a prefix in a name: "/w" for "a/b/w" and "a/b". ok is false where the
// prefix is not whole parts of the name.
func restOf(name, prefix string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(name, prefix)
	return rest, ok && prefix != "" && (rest == "" || rest[0] == '/')
}

// run copies or mixes, and waits for it.
func (c *paramCopy) run(compute arena.Stream, weight float64) error {
	if weight == 1 {
		for _, pair := range c.copies {
			if err := compute.Copy(pair.Dst, pair.Src); err != nil {
				return err
			}
		}
		return compute.Sync()
	}
	if c.unmixed != nil {
		return c.unmixed
	}
	if c.mix != nil {
		dataloader.View[float64](c.buffer[:])[0] = weight
		if err := c.weight.Write(c.buffer[:]); err != nil {
			return err
		}
		if err := c.mix.Launch(compute); err != nil {
			return err
		}
	}
	err := compute.Sync()
	for _, p := range c.onHost {
		c.mixOnHost(p, weight)
	}
	return err
}

// mixOnHost mixes a pair of which both sides are offloaded.
func (c *paramCopy) mixOnHost(p paramPair, weight float64) {
	dst, _ := c.memory.offloadedSpan(p.dst.Ref)
	src, _ := c.memory.offloadedSpan(p.src.Ref)
	c.memory.willRead(src)
	c.memory.willWrite(dst)
	if p.dst.Spec.Type == arena.Float32 {
		mixSlices(dataloader.View[float32](bytesOf(dst)), dataloader.View[float32](bytesOf(src)), float32(weight))
	} else {
		mixSlices(dataloader.View[float64](bytesOf(dst)), dataloader.View[float64](bytesOf(src)), weight)
	}
}

// mixSlices is kernels.Mix of slices, up to the rounding of the last place.
func mixSlices[T float32 | float64](dst, src []T, weight T) {
	for i, x := range dst {
		dst[i] = x + weight*(src[i]-x)
	}
}

// close releases the copy.
func (c *paramCopy) close() error {
	if c.mix == nil {
		return nil
	}
	return c.mix.Close()
}
