package weights

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// loadPlan is how the tensors of a source become weights.
type loadPlan struct {
	recipes []recipe // of the weights, in their order
	counts  map[string]bool
	rules   *ruleSet
}

// recipe is how a weight is computed.
type recipe struct {
	target  trainer.NamedSpec
	outside bool     // it is not in the scope of the rules
	looked  []string // names that were looked for
	found   []string // tensors that are it, or would be if they fitted
	parts   []part   // their sum is the weight; none: the source lacks it
	same    []part   // tensors with the same values
	bad     []trainer.Mismatch
}

// part is a tensor of the source and where its elements go.
type part struct {
	tensor safetensors.Tensor
	mapping
}

// planLoad finds the tensors of all weights of a model.
func (r Rules) planLoad(weights []trainer.NamedSpec, have []safetensors.Tensor) (*loadPlan, error) {
	rules, err := r.prepare(weights)
	if err != nil {
		return nil, err
	}
	l := newLookup(rules, have)
	p := &loadPlan{counts: l.counts, rules: rules}
	for _, w := range weights {
		c := recipe{target: w}
		if name, ok := rules.scoped(w.Name); ok {
			l.find(&c, name)
		} else {
			c.outside = true
		}
		p.recipes = append(p.recipes, c)
	}
	return p, nil
}

// drops reports whether a rule drops the tensor of that name.
func (p *loadPlan) drops(name string) bool { return p.counts[name] || p.rules.dropped(name) }

// missing describes a weight that the source lacks.
func (c *recipe) missing() string {
	if len(c.looked) == 0 || c.looked[0] == c.target.Name {
		return c.target.Name
	}
	return fmt.Sprintf("%s (%s)", c.target.Name, strings.Join(c.looked, ", "))
}

// lookup finds tensors by name, with and without prefixes that mean nothing.
type lookup struct {
	rules  *ruleSet
	have   []safetensors.Tensor
	exact  map[string]int
	bare   map[string][]int
	counts map[string]bool // tensors that count something
}

func newLookup(rules *ruleSet, have []safetensors.Tensor) *lookup {
	l := &lookup{rules: rules, have: have,
		exact: make(map[string]int), bare: make(map[string][]int), counts: make(map[string]bool)}
	for i, t := range have {
		l.exact[t.Name] = i
		name := rules.bare(t.Name)
		l.bare[name] = append(l.bare[name], i)
	}
	return l
}

// named returns the index of a tensor, and several if prefixes make names equal.
func (l *lookup) named(name string) []int {
	if i, ok := l.exact[name]; ok {
		return []int{i}
	}
	return l.bare[l.rules.bare(name)]
}

// find finds the tensors of a weight, whose name within the scope is given.
func (l *lookup) find(c *recipe, name string) {
	dims := len(c.target.Spec.Shape)
	for _, x := range slices.Concat(l.rules.values, l.rules.same) {
		if texts, ok := l.rules.match(&x, name, dims); ok {
			l.sum(c, &x, texts, name)
		}
		if len(c.bad) > 0 {
			return
		}
		if len(c.parts) > 0 {
			break
		}
	}
	for i := range l.rules.same {
		if texts, ok := l.rules.match(&l.rules.same[i], name, dims); ok && len(c.parts) > 0 {
			l.add(&c.same, c, &l.rules.same[i], texts)
		}
	}
	for i := range l.rules.counts {
		x := &l.rules.counts[i]
		if texts, ok := l.rules.match(x, name, dims); ok {
			for _, k := range l.named(l.rules.fileName(x, texts)) {
				l.counts[l.have[k].Name] = true
			}
		}
	}
}

// sum adds the tensor of a rule and those that are added to it, or none if one of them is missing.
func (l *lookup) sum(c *recipe, x *rule, texts []string, name string) {
	if !l.add(&c.parts, c, x, texts) {
		return
	}
	for i := range x.adds {
		texts, ok := l.rules.match(&x.adds[i], name, len(c.target.Spec.Shape))
		if ok && !l.add(&c.parts, c, &x.adds[i], texts) {
			c.parts = nil
			return
		}
	}
}

// add appends the tensor of a rule to parts, unless it is a part already. It returns false if the
// source has no such tensor, or it does not fit.
func (l *lookup) add(parts *[]part, c *recipe, x *rule, texts []string) bool {
	name := l.rules.fileName(x, texts)
	if !slices.Contains(c.looked, name) {
		c.looked = append(c.looked, name)
	}
	found := l.named(name)
	var names []string
	for _, i := range found {
		names = append(names, l.have[i].Name)
	}
	c.found = append(c.found, names...)
	if len(found) != 1 {
		if len(found) > 1 {
			c.mismatch("", "one tensor "+name, fmt.Sprintf("%q", names))
		}
		return false
	}
	t := l.have[found[0]]
	if slices.ContainsFunc(c.parts, func(p part) bool { return p.tensor.Name == t.Name }) {
		return true
	}
	spec := c.target.Spec
	m, err := x.mapping(spec.Shape)
	if err != nil {
		c.mismatch(t.Name, fmt.Sprintf("%v, but %v", spec, err), t.String())
		return false
	}
	if own := safetensors.TypeOf(spec.Type); !m.fits(t.Shape, l.rules.strict) || !convertible(own, t.DType) {
		c.mismatch(t.Name, safetensors.Tensor{DType: own, Shape: m.file}.String(), t.String())
		return false
	}
	*parts = append(*parts, part{t, m})
	return true
}

// mismatch records that a tensor does not fit. Its name is in the error if it is not the weight's.
func (c *recipe) mismatch(tensor, want, got string) {
	name := c.target.Name
	if tensor != "" && tensor != name {
		got = tensor + " " + got
	}
	c.bad = append(c.bad, trainer.Mismatch{Name: name, Want: want, Got: got})
}

// assignment returns how the weight is computed, for the pump.
func (c *recipe) assignment() assignment {
	a := assignment{target: c.target}
	for _, p := range slices.Concat(c.parts, c.same) {
		a.sources = append(a.sources, p.tensor)
	}
	if len(a.sources) > 1 || !c.parts[0].straight() {
		a.transform = c.compute
	}
	return a
}

// compute sets dst, the elements of the weight, from those of the sources, which have its type.
func (c *recipe) compute(dst []byte, src [][]byte) error {
	clear(dst)
	c.parts[0].move(dst, src[0], int(c.target.Spec.Type.Size()))
	for i := range c.parts[1:] {
		p, x := &c.parts[1+i], src[1+i]
		switch c.target.Spec.Type {
		case arena.Float32:
			add(p, dataloader.View[float32](dst), dataloader.View[float32](x))
		case arena.Float64:
			add(p, dataloader.View[float64](dst), dataloader.View[float64](x))
		default:
			return fmt.Errorf("%v is a sum of tensors: only float32 and float64 are added: %w", c.target.Spec, ErrRule)
		}
	}
	for i := range c.same {
		if err := c.compare(&c.same[i], dst, src[len(c.parts)+i]); err != nil {
			return err
		}
	}
	return nil
}

// add adds the elements of a tensor to a weight.
func add[T float32 | float64](p *part, dst, src []T) {
	p.runs(func(at, n, to, stride int) {
		for i := range n {
			dst[to+i*stride] += src[at+i]
		}
	})
}

// compare returns an error unless a tensor has the elements of the weight.
func (c *recipe) compare(p *part, dst, src []byte) error {
	again := make([]byte, len(dst))
	p.move(again, src, int(c.target.Spec.Type.Size()))
	if bytes.Equal(dst, again) {
		return nil
	}
	return fmt.Errorf("tensors %q and %q differ, and both are it: give the model a weight for each: %w",
		c.parts[0].tensor.Name, p.tensor.Name, trainer.ErrData)
}
