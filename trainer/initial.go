package trainer

import (
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// modelRegions are the regions whose initial contents the model gives.
var modelRegions = [...]arena.Region{ir.Parameters, ir.HostParameters, ir.Statistics}

// initialValue is what a parameter, a constant or a running statistic starts with: the first of
// constant, init and node's value that is set.
type initialValue struct {
	name     string
	constant []byte
	init     layers.Init // drawn from seed and name
	seed     uint64
	node     *gorgonia.Node
}

// initialValues are the initial contents of the modelRegions, by region, in the order of its parts.
type initialValues [ir.Regions][]initialValue

// has reports whether ok holds for the name of any initial value.
func (v *initialValues) has(ok func(name string) bool) bool {
	return slices.ContainsFunc(modelRegions[:], func(r arena.Region) bool {
		return slices.ContainsFunc(v[r], func(x initialValue) bool { return ok(x.name) })
	})
}

// record appends the initial values of parts that prog, a program of model m, added to homes. A
// parameter for which may is false must have been added before: only programs that train may add
// trained parameters.
func (v *initialValues) record(m Model, prog *ir.Program, homes *ir.Homes, seed uint64, may func(name string) bool) error {
	// The values themselves are not computed here: a plan that is only inspected never needs them,
	// and fill writes them straight to the device's memory.
	inits, nodes := initializers(m)
	type home struct {
		region arena.Region
		name   string
	}
	// Constants of the graph have homes among the parameters.
	constants := make(map[home][]byte)
	for _, c := range prog.Constants {
		value := prog.Values[c.Value]
		constants[home{value.Ref.Region, value.Name}] = c.Data
	}
	var errs []error
	// Invariant: v has one value for each part, in their order. What earlier programs recorded
	// stays: a later program finds the same homes.
	for _, r := range modelRegions {
		for _, part := range homes.Parts(r)[len(v[r]):] {
			x := initialValue{name: part.Name, constant: constants[home{r, part.Name}], seed: seed}
			if n := nodes[part.Name]; n != nil && x.constant == nil {
				x.node, x.init = n, inits[part.Name]
				if x.init == nil && n.Value() == nil {
					errs = append(errs, fmt.Errorf("parameter %q has neither a value nor an initial distribution: %w",
						part.Name, ErrModel))
				}
				if r != ir.Statistics && part.Spec.Type.Float() && !may(part.Name) {
					errs = append(errs, fmt.Errorf("parameter %q is in this program and not in the one that trains: "+
						"the model must have the same parameters each time, "+
						"and what the loss does not need must be frozen: %w", part.Name, ErrModel))
				}
			}
			v[r] = append(v[r], x)
		}
	}
	return errors.Join(errs...)
}

// initializers returns the initial distributions and the nodes of m's parameters and statistics, by
// name.
func initializers(m Model) (inits map[string]layers.Init, nodes map[string]*gorgonia.Node) {
	inits, nodes = make(map[string]layers.Init), make(map[string]*gorgonia.Node)
	for _, p := range slices.Concat(m.Params, m.Statistics) {
		inits[p.Node.Name()], nodes[p.Node.Name()] = p.Init, p.Node
	}
	root := objectivesOf(m)[0].Loss
	if root == nil { // the model of a predictor
		root = m.Output
	}
	if root == nil {
		return inits, nodes
	}
	// A model need not list frozen values and integers, and those that Gorgonia made: see checkValues.
	for _, n := range root.Graph().AllNodes() {
		if n.IsVar() && nodes[n.Name()] == nil {
			nodes[n.Name()], inits[n.Name()] = n, batchNormInit(root.Graph(), n)
		}
	}
	return inits, nodes
}

// fill writes the value to dst, whose type and shape spec states.
func (x *initialValue) fill(dst []byte, spec kernels.Spec) error {
	switch {
	case x.constant != nil:
		copy(dst, x.constant)
	case x.init != nil && spec.Type == arena.Float32:
		return layers.Fill(dataloader.View[float32](dst), x.init, x.seed, x.name, spec.Shape...)
	case x.init != nil:
		return layers.Fill(dataloader.View[float64](dst), x.init, x.seed, x.name, spec.Shape...)
	case x.node != nil:
		return layout.Load(dst, x.node.Value(), spec)
	}
	return nil
}

// clearState sets the state of optimizers to zero, with which it starts.
func (m *memory) clearState(compute arena.Stream) error {
	if err := m.clear(ir.State, compute); err != nil {
		return err
	}
	for _, home := range m.plan.homes.Parts(ir.HostState) {
		if err := m.write(home, func(dst []byte) error { clear(dst); return nil }); err != nil {
			return err
		}
	}
	return nil
}

// writeInitialValues writes parameters, constants and running statistics, and clears what starts at
// zero.
func (m *memory) writeInitialValues(compute arena.Stream) error {
	// The status word means by zero that nothing is wrong.
	for _, r := range []arena.Region{ir.Gradients, ir.Guard} {
		if err := m.clear(r, compute); err != nil {
			return err
		}
	}
	if err := m.clearState(compute); err != nil {
		return err
	}
	for _, r := range modelRegions {
		for i, home := range m.plan.homes.Parts(r) {
			err := m.write(home, func(dst []byte) error {
				if err := m.plan.initial[r][i].fill(dst, home.Spec); err != nil {
					return err
				}
				return m.plan.opt.broadcast(dst, "initial value of "+home.Name) // the model may have drawn it
			})
			if err != nil {
				return fmt.Errorf("parameter %q: %w", home.Name, err)
			}
		}
	}
	return m.writeAverages()
}
