package weights

import (
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// savePlan is how weights become the tensors of a file, in the order in which the weights name
// them.
type savePlan struct {
	tensors []outgoing
	index   map[string]int // by name
}

// outgoing is a tensor of a file that is written. Its elements that no piece has are 0.
type outgoing struct {
	tensor safetensors.Tensor
	own    safetensors.DType // the type of its weights
	pieces []piece
}

// piece is what a weight gives to a tensor.
type piece struct {
	weight trainer.NamedSpec
	mapping
	taken []int // its blocks of the tensor, those of zeros too
}

// stored returns the tensor in the type of its weights.
func (t *outgoing) stored() safetensors.Tensor {
	own := t.tensor
	own.DType = t.own
	return own
}

// list returns the tensors.
func (p *savePlan) list() (tensors []safetensors.Tensor) {
	for _, t := range p.tensors {
		tensors = append(tensors, t.tensor)
	}
	return tensors
}

// planSave finds the tensors of chosen ones of all weights of a model. as is the type of floats in
// the file; empty: that of each weight.
func (r Rules) planSave(weights, chosen []trainer.NamedSpec, as safetensors.DType) (*savePlan, error) {
	rules, err := r.prepare(weights)
	if err != nil {
		return nil, err
	}
	s := saver{rules: rules, as: as, plan: &savePlan{index: make(map[string]int)}}
	var errs []error
	for _, w := range chosen {
		if err := s.weight(w); err != nil {
			errs = append(errs, fmt.Errorf("weight %q: %w", w.Name, err))
		}
	}
	for _, t := range s.plan.tensors {
		if err := t.check(); err != nil {
			errs = append(errs, fmt.Errorf("tensor %q: %w", t.tensor.Name, err))
		}
	}
	return s.plan, errors.Join(errs...)
}

// saver makes a savePlan.
type saver struct {
	rules *ruleSet
	as    safetensors.DType
	plan  *savePlan
}

// weight adds what a weight gives to tensors.
func (s *saver) weight(w trainer.NamedSpec) error {
	name, ok := s.rules.scoped(w.Name)
	if !ok {
		return nil
	}
	dims := len(w.Spec.Shape)
	matches := func(x *rule) ([]string, bool) { return s.rules.match(x, name, dims) }
	if err := s.value(w, matches); err != nil {
		return err
	}
	for i := range s.rules.same {
		x := &s.rules.same[i]
		if texts, ok := matches(x); ok {
			if err := s.add(w, x, texts, nil); err != nil {
				return err
			}
		}
	}
	for i := range s.rules.counts {
		x := &s.rules.counts[i]
		if texts, ok := matches(x); ok {
			s.tensor(s.rules.fileName(x, texts), safetensors.Int64, safetensors.Int64, []int{})
		}
	}
	return nil
}

// value adds a weight to the tensor of its first rule, and the blocks that this lacks to those that
// are added to it.
func (s *saver) value(w trainer.NamedSpec, matches func(x *rule) ([]string, bool)) error {
	for i := range s.rules.values {
		x := &s.rules.values[i]
		texts, ok := matches(x)
		if !ok {
			continue
		}
		owned := make(map[int]bool) // blocks of the weight that a tensor has
		if err := s.add(w, x, texts, owned); err != nil {
			return err
		}
		for k := range x.adds {
			if texts, ok := matches(&x.adds[k]); ok {
				if err := s.add(w, &x.adds[k], texts, owned); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return fmt.Errorf("no rule names its tensor: add one: %w", ErrRule)
}

// everything is the key of all blocks.
const everything = -1

// add adds a weight to the tensor of a rule, except blocks that are owned already.
func (s *saver) add(w trainer.NamedSpec, x *rule, texts []string, owned map[int]bool) error {
	m, err := x.mapping(w.Spec.Shape)
	if err != nil {
		return fmt.Errorf("%w: %w", err, ErrRule)
	}
	next := piece{weight: w, mapping: m}
	for k, at := range m.place {
		if at >= 0 {
			next.taken = append(next.taken, k)
			if owned[at] || owned[everything] {
				m.place[k] = -1
			}
		}
	}
	if m.block == 0 && len(owned) > 0 { // a second whole tensor is zeros
		next.taken, next.place, next.block = []int{0}, []int{-1}, m.file[0]
	}
	if owned != nil {
		if m.block == 0 {
			owned[everything] = true
		}
		for _, at := range m.place {
			if at >= 0 {
				owned[at] = true
			}
		}
	}
	own := safetensors.TypeOf(w.Spec.Type)
	as := own
	if s.as != "" && kindOf(own) == float {
		as = s.as
	}
	t := s.tensor(s.rules.fileName(x, texts), as, own, m.file)
	if t.own != own || !slices.Equal(t.tensor.Shape, m.file) {
		return fmt.Errorf("it makes tensor %q %s %v, and another weight makes it %v: %w",
			t.tensor.Name, own, m.file, t.tensor, ErrRule)
	}
	t.pieces = append(t.pieces, next)
	return nil
}

// tensor returns the tensor of that name, and makes it if there is none.
func (s *saver) tensor(name string, as, own safetensors.DType, shape []int) *outgoing {
	i, ok := s.plan.index[name]
	if !ok {
		i = len(s.plan.tensors)
		s.plan.index[name] = i
		t := safetensors.Tensor{Name: name, DType: as, Shape: shape}
		s.plan.tensors = append(s.plan.tensors, outgoing{tensor: t, own: own})
	}
	return &s.plan.tensors[i]
}

// check returns an error unless the pieces are the whole tensor, and none of it twice.
func (t *outgoing) check() error {
	if len(t.pieces) == 0 || len(t.pieces) == 1 && t.pieces[0].place == nil {
		return nil
	}
	first := t.pieces[0]
	by := make([]string, len(first.place)) // the weight of each block
	for _, p := range t.pieces {
		if p.axis != first.axis || len(p.place) != len(first.place) || p.place == nil {
			return fmt.Errorf("weights %q and %q are both it: %w", first.weight.Name, p.weight.Name, ErrRule)
		}
		for _, k := range p.taken {
			if by[k] != "" {
				return fmt.Errorf("block %d is of weights %q and %q: %w", k, by[k], p.weight.Name, ErrRule)
			}
			by[k] = p.weight.Name
		}
	}
	if k := slices.Index(by, ""); k >= 0 {
		return fmt.Errorf("no weight has its block %d of %d, and %q has another: %w", k, len(by), first.weight.Name, ErrRule)
	}
	return nil
}

// planReader reads the tensors of a plan from weights, as if they were in a file.
type planReader struct {
	plan    *savePlan
	weights elementReader
	name    string // of the tensor that is in data
	data    []byte // elements that are not those of one weight in the same order
}

// ReadAt copies elements of a tensor, in the type of its weights.
func (r *planReader) ReadAt(name string, dst []byte, offset int64) error {
	t := &r.plan.tensors[r.plan.index[name]]
	if len(t.pieces) == 1 && t.pieces[0].straight() {
		return r.weights.ReadAt(t.pieces[0].weight.Name, dst, offset)
	}
	if r.name != name || r.data == nil {
		if err := r.compute(t); err != nil {
			return err
		}
	}
	copy(dst, r.data[offset:])
	return nil
}

// compute sets data to the elements of a tensor.
func (r *planReader) compute(t *outgoing) error {
	r.name, r.data = t.tensor.Name, make([]byte, t.stored().Bytes())
	for i := range t.pieces {
		p := &t.pieces[i]
		values := make([]byte, p.weight.Spec.Bytes())
		if err := r.weights.ReadAt(p.weight.Name, values, 0); err != nil {
			return err
		}
		p.back(r.data, values, int(p.weight.Spec.Type.Size()))
	}
	return nil
}
