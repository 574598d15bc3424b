package trainer

import (
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
	handle  arena.Handle
}

// Read copies the parameter to dst, of Spec.Bytes() bytes, on any device. While Fit or Evaluate runs it returns ErrBusy.
func (p Param) Read(dst []byte) error { return p.between(func() error { return p.handle.Read(dst) }) }

// Write copies src, of Spec.Bytes() bytes, to the parameter, on any device. While Fit or Evaluate runs it returns ErrBusy.
func (p Param) Write(src []byte) error { return p.between(func() error { return p.handle.Write(src) }) }

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
	for _, r := range starting {
		for _, p := range t.homes.Parts(r) {
			h, err := t.arena.Handle(t.at(p.Ref, 0), p.Name)
			if err != nil {
				return nil, err
			}
			ps = append(ps, Param{Name: p.Name, Spec: p.Spec, Frozen: t.fixed(p), Statistic: r == ir.Statistics, trainer: t, handle: h})
		}
	}
	return ps, nil
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
