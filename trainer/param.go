package trainer

import (
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Param is a parameter, or a constant, of the model where it lies.
type Param struct {
	Name   string
	Spec   kernels.Spec
	Frozen bool // it is not trained
	// Handle reads and writes it, on any device, until Close. Do so between passes: during one its bytes change.
	arena.Handle
}

// Params returns the parameters, in the order in which the model uses them first.
func (t *Trainer) Params() ([]Param, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	var ps []Param
	for _, p := range t.homes.Parts(ir.Parameters) {
		h, err := t.arena.Handle(t.at(p.Ref, 0), p.Name)
		if err != nil {
			return nil, err
		}
		ps = append(ps, Param{Name: p.Name, Spec: p.Spec, Frozen: t.frozenParam(p.Name), Handle: h})
	}
	return ps, nil
}

// frozenParam reports whether no training program updates the parameter.
func (t *Trainer) frozenParam(name string) bool {
	return !slices.ContainsFunc(t.order, func(k key) bool { return slices.Contains(t.programs[k].Trained, name) })
}
