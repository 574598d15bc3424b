package trainer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Param is a parameter, a constant, or a running statistic of the model where it lies.
type Param struct {
	Name      string
	Spec      kernels.Spec
	Frozen    bool // training does not change it
	Statistic bool // it is the running mean or variance of a batch normalization

	trainer *Trainer
	home    home
}

// Read copies the parameter to dst, of Spec.Bytes() bytes, on any device. While Fit or Evaluate runs it returns ErrBusy.
func (p Param) Read(dst []byte) error { return p.between(func() error { return p.home.Read(dst) }) }

// Write copies src, of Spec.Bytes() bytes, to the parameter, on any device. While Fit or Evaluate runs it returns ErrBusy.
func (p Param) Write(src []byte) error { return p.between(func() error { return p.home.Write(src) }) }

// between runs f while no step runs.
func (p Param) between(f func() error) error {
	p.trainer.mu.Lock()
	defer p.trainer.mu.Unlock()
	if err := p.trainer.idle(); err != nil {
		return fmt.Errorf("parameter %q: %w", p.Name, err)
	}
	return f()
}

// Params returns the parameters, in the order in which the model uses them first, and then the running statistics: all that a model
// has learned.
func (t *Trainer) Params() ([]Param, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.build == nil {
		return nil, ErrClosed
	}
	var ps []Param
	for _, p := range slices.Concat(t.parameters(), t.homes.Parts(ir.Statistics)) {
		h, err := t.homeOf(p.Ref, 0, p.Name)
		if err != nil {
			return nil, err
		}
		ps = append(ps, Param{Name: p.Name, Spec: p.Spec, Frozen: t.fixed(p), Statistic: p.Ref.Region == ir.Statistics, trainer: t, home: h})
	}
	return ps, nil
}

// parameters returns the homes of parameters and constants, wherever they lie, in the order in which they were made.
func (b *build) parameters() []ir.Part {
	all := slices.Concat(b.homes.Parts(ir.Parameters), b.homes.Parts(ir.HostParameters))
	slices.SortFunc(all, func(p, q ir.Part) int { return cmp.Compare(p.Nth, q.Nth) })
	return all
}

// parameter returns the home of the parameter of that name.
func (b *build) parameter(name string) ir.Part {
	p, ok := b.homes.Find(ir.Parameters, name)
	if !ok {
		p, _ = b.homes.Find(ir.HostParameters, name)
	}
	return p
}

// home is where the host reads and writes a program's value between steps.
type home interface {
	Read(dst []byte) error
	Write(src []byte) error
}

// homeOf returns the home of what a program calls ref when it works on slot i.
func (t *Trainer) homeOf(ref arena.Ref, i int, name string) (home, error) {
	if s, ok := t.offloaded(ref); ok {
		return offloaded{t, s, name}, nil
	}
	return t.arena.Handle(t.at(ref, i), name)
}

// offloaded is a home in pinned host memory.
type offloaded struct {
	t    *Trainer
	at   arena.Span
	name string
}

func (o offloaded) Read(dst []byte) error  { return o.move(dst, false) }
func (o offloaded) Write(src []byte) error { return o.move(src, true) }

func (o offloaded) move(b []byte, write bool) error {
	if int64(len(b)) != o.at.Size {
		return fmt.Errorf("%w size: %d bytes for %q, which has %d", arena.ErrInvalid, len(b), o.name, o.at.Size)
	}
	o.t.announce(o.at, write)
	mine := view(o.at)
	if write {
		b, mine = mine, b
	}
	copy(b, mine)
	return nil
}

// fixed reports whether no program changes what lies at a home.
func (t *Trainer) fixed(home ir.Part) bool {
	return !slices.ContainsFunc(t.order, func(k key) bool {
		p := t.programs[k]
		return slices.ContainsFunc(p.Instrs, func(in ir.Instr) bool {
			if len(in.Op.Updates) == 0 {
				return false
			}
			root, _ := p.Root(in.Out[0]) // the output itself may be some rows of it
			return p.Values[root].Ref == home.Ref
		})
	})
}
