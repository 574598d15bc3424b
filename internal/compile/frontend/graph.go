// Package frontend lowers a Gorgonia graph: it appends the instructions that compute the graph's
// nodes to a program under construction. The rest of the compiler knows only values and
// instructions, and does not import Gorgonia. Here an op is Gorgonia's, an operation is one of
// package kernels.
//
// A [Model] is a graph and the roles of its nodes. [New] makes a [Graph] of it, which appends to an
// [ir.Builder]:
//
//   - [Graph.Forward] lowers the nodes that a program of the trainer reads, and returns their values
//     and the parameters.
//   - [Graph.CheckReached] reports parameters without a gradient.
//   - [Graph.HostGrad] appends the gradient of an op that falls back.
//   - [Graph.LowerMachine] lowers a graph for a machine: a program whose user calls gorgonia.Grad and
//     gorgonia.Read, and reads and writes the values of nodes.
//
// A rule lowers a node n. It consists of the nodes that it reads and a function build. build gets
// the values of these nodes, appends the instructions that compute n from them, and returns n's
// value. Scalars that depend only on constants and shapes become constants, and some ops are
// refused. Any other op gets its rule in one of four ways:
//
//  1. An operation computes the op as it is. The operation's file names the op (Op.Gorgonia) and
//     decodes its attributes (Op.Decode). Nothing is added here.
//  2. The op, or a pattern of ops, becomes other instructions. A function lowerX in a file
//     lower_<family>.go returns the rule, and the table in lowerings names it. A pattern is
//     recognised at its last node; its other nodes are lowered only if other nodes read them.
//  3. An op of package layers names its operation itself.
//  4. All other ops fall back: the host runs Gorgonia's code, which is slow and allocates.
//
// For each op, a recipe in the tests compares the instructions with Gorgonia's results.
package frontend

import (
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Errors of graphs that cannot be lowered, for errors.Is. Operations without a kernel or a fallback
// wrap [kernels.ErrUnsupported].
var (
	ErrNoLoss    = errors.New("the model has no loss")
	ErrNoOutput  = errors.New("the model has no output to predict")
	ErrUnreached = errors.New("the loss does not reach a parameter")
	ErrInput     = errors.New("a graph input has no source")
	ErrName      = errors.New("a name is taken")
)

// Model is a graph and the roles of its nodes. Nodes without an op that are neither inputs nor
// statistics are parameters.
type Model struct {
	Graph *gorgonia.ExprGraph
	Batch int // rows of a batch
	// Inputs are the nodes that are fields of the batch.
	Inputs map[*gorgonia.Node]Input
	// Params are the parameters that may be without a value. Others must have one, except in a
	// machine.
	Params map[*gorgonia.Node]bool
	// Statistics are nodes that hold running statistics. Their homes are in region Statistics, and
	// training updates them.
	Statistics map[*gorgonia.Node]bool
	Frozen     func(name string) bool // parameters, and statistics, that training does not change; nil: none
	Untrained  func(name string) bool // further parameters that this program does not change; nil: none
	Seed       uint64                 // of dropout

	Loss    *gorgonia.Node // one floating-point number; with Weight, one for each weight
	Weight  *gorgonia.Node // weights of the losses, constants to the gradient; nil: none
	Output  *gorgonia.Node // prediction; nil: none
	Outputs gorgonia.Nodes // further predictions, under their own names; none without Output
	Correct *gorgonia.Node // 1 for each row that is classified correctly, else 0; nil: none
	Metrics []Metric       // sums over the rows of the batch
	Keep    gorgonia.Nodes // further results, under their own names
	// Others are the losses of the other objectives of the model, which evaluation reports too.
	Others []Objective
	// KeepReached leaves out the nodes of Keep that the loss does not depend on.
	KeepReached bool

	// Accumulate are inputs of a machine whose gradients are added to the contents of their homes.
	Accumulate map[*gorgonia.Node]bool
	// Only are the outputs of a machine that computes nothing else: no gradient gets a home, nothing
	// is assigned, and no running statistic is moved. Empty: the machine runs the whole graph.
	Only gorgonia.Nodes
}

// Metric is a result that the host adds up over steps.
type Metric struct {
	Name string
	Sum  *gorgonia.Node
}

// Objective is a loss with its weights, as Model.Loss and Model.Weight.
type Objective struct {
	Name         string
	Loss, Weight *gorgonia.Node
}

// Options select the program that a graph is lowered for.
type Options struct {
	Training bool // dropout drops elements, batch normalization uses the statistics of the batch
	Predict  bool // the program computes Output; otherwise Loss and Correct
	// Machine lowers for a machine. Parameters may share a name, and running statistics stay where
	// Gorgonia has them: in an op, or in a node's value.
	Machine bool
	// Offloaded reports whether a parameter's home is in pinned host memory; nil: none is.
	Offloaded func(name string, spec kernels.Spec) bool
	// Averaged reads parameters at the homes of their averages, if they have one.
	Averaged bool
	// Normalize appends batch normalization by the statistics of all ranks of a group, given the home
	// of the running mean: y, the mean of the batch, its biased variance and its unbiased one. nil:
	// it normalizes by those of its own batch.
	Normalize func(a kernels.BatchNormAttrs, x, gamma, beta, running kernels.Value) (y, mean, variance, unbiased kernels.Value)
}

// Param is a parameter of the program.
type Param struct {
	Name   string
	Value  kernels.Value
	Frozen bool // training does not change it
}

// StatisticUpdate is a running statistic and the statistic of the batch that a step moves it
// towards.
type StatisticUpdate struct {
	Home  kernels.Value // of the running statistic, [C]
	Batch kernels.Value // of the same statistic of the batch, [C]
	// Mean is the one that updates the running statistic: Batch, or its mean over the ranks of a group.
	Mean  kernels.Value
	Attrs kernels.RunningStatAttrs
	// Variance: it is a variance, which may overflow; a mean does not.
	Variance bool
}

// Forward is the forward graph in the program.
type Forward struct {
	Loss, Weight, Output, Correct kernels.Value // None: the model has none, or the program does not read it
	Outputs, Kept                 []ir.Result   // values of Model.Outputs and of Model.Keep, in their orders
	Metrics                       []ir.Result   // values of Model.Metrics, in its order; none if the program predicts
	Others                        []LossValue   // of Model.Others, in its order
	Params                        []Param       // in the order in which they were lowered
	Statistics                    []StatisticUpdate
}

// LossValue is the loss of an objective. Weight is None where it has no weights.
type LossValue struct {
	Name         string
	Loss, Weight kernels.Value
}

// Graph lowers the nodes of one graph. A node is lowered once, however many nodes read it. Methods
// must not be called concurrently.
type Graph struct {
	*ir.Builder
	Model
	Options
	values     map[*gorgonia.Node]kernels.Value // of lowered nodes
	params     []paramNode                      // in the order in which they were lowered
	byName     map[string]kernels.Value         // parameters
	statistics []StatisticUpdate
	lowerings  map[string]lowering
}

// paramNode is a parameter and its node.
type paramNode struct {
	Param
	node *gorgonia.Node
}

// New returns a graph whose nodes are lowered to instructions of b's program. Nothing is lowered
// yet.
func New(b *ir.Builder, m Model, o Options) *Graph {
	return &Graph{
		Builder: b, Model: m, Options: o, lowerings: lowerings(),
		values: make(map[*gorgonia.Node]kernels.Value), byName: make(map[string]kernels.Value),
	}
}

// Forward lowers the nodes that the program reads. The loss must be one floating-point number. The
// error joins one for each node that cannot be lowered.
func (g *Graph) Forward() (*Forward, error) {
	roots, err := g.roots()
	if err != nil {
		return nil, err
	}
	for _, n := range g.Model.Graph.AllNodes() {
		if isSet(n) {
			return nil, fmt.Errorf("%q: a model assigns nothing but parameters, by its optimizer: "+
				"remove gorgonia.Set, or run the graph with package vm: %w", n.Name(), kernels.ErrUnsupported)
		}
	}
	if err := g.lower(roots); err != nil {
		return nil, err
	}
	// A program that does not predict still has the result "output" if Keep lists that node. One
	// that predicts may compute the losses of its rows, as an output, and has no result "loss".
	valueOf := func(n *gorgonia.Node) kernels.Value {
		if n == nil || g.Predict && n != g.Output || !slices.Contains(roots, n) {
			return kernels.None
		}
		return g.values[n]
	}
	f := &Forward{Loss: valueOf(g.Loss), Weight: valueOf(g.Weight), Output: valueOf(g.Output), Correct: valueOf(g.Correct),
		Statistics: g.statistics}
	if !g.Predict {
		if f.Loss, err = g.lossOf(g.Loss, g.Weight); err != nil {
			return nil, err
		}
		for _, o := range g.Others {
			loss, err := g.lossOf(o.Loss, o.Weight)
			if err != nil {
				return nil, err
			}
			f.Others = append(f.Others, LossValue{Name: o.Name, Loss: loss, Weight: valueOf(o.Weight)})
		}
	}
	if g.Predict {
		for _, n := range g.Outputs {
			f.Outputs = append(f.Outputs, ir.Result{Name: n.Name(), Value: g.values[n]})
		}
	} else {
		for _, m := range g.Model.Metrics {
			f.Metrics = append(f.Metrics, ir.Result{Name: m.Name, Value: g.values[m.Sum]})
		}
	}
	for _, n := range g.Keep {
		if n != nil && slices.Contains(roots, n) {
			f.Kept = append(f.Kept, ir.Result{Name: n.Name(), Value: g.values[n]})
		}
	}
	for _, p := range g.params {
		f.Params = append(f.Params, p.Param)
	}
	return f, nil
}

// roots returns the nodes that the program reads, each once.
func (g *Graph) roots() (gorgonia.Nodes, error) {
	results := gorgonia.Nodes{g.Loss, g.Weight, g.Correct}
	for _, m := range g.Model.Metrics {
		results = append(results, m.Sum)
	}
	switch {
	case g.Predict && g.Output == nil:
		return nil, ErrNoOutput
	case g.Predict:
		results = append(gorgonia.Nodes{g.Output}, g.Outputs...)
	case g.Loss == nil:
		return nil, ErrNoLoss
	}
	keep := g.Keep
	if g.KeepReached {
		keep = reachedFrom(results, keep)
	}
	for _, o := range g.Others {
		if !g.Predict {
			results = append(results, o.Loss, o.Weight)
		}
	}
	var roots gorgonia.Nodes
	for _, n := range slices.Concat(results, keep) {
		if n != nil && !slices.Contains(roots, n) {
			roots = append(roots, n)
		}
	}
	return roots, nil
}

// lower lowers the roots and the nodes that they need, operands first. The error joins one for each
// node that cannot be lowered.
func (g *Graph) lower(roots gorgonia.Nodes) error {
	base := BaseGraph(g.Model.Graph)
	for _, n := range roots {
		if n != nil && n.Graph() != base {
			return fmt.Errorf("%q is not a node of the model's graph: %w", n.Name(), ErrInput)
		}
	}
	r := &reader{Graph: g, values: g.values, readInput: g.input, runAfter: kernels.None}
	r.read(roots)
	g.Label, g.Owner, g.Mark = "", "", ""
	return errors.Join(r.errs...)
}

// reachedFrom returns those of nodes that are among roots, or that these depend on.
func reachedFrom(roots, nodes gorgonia.Nodes) gorgonia.Nodes {
	seen := make(map[*gorgonia.Node]bool)
	stack := slices.Clone(roots)
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if n != nil && !seen[n] {
			seen[n] = true
			stack = append(stack, children(n)...)
		}
	}
	var reached gorgonia.Nodes
	for _, n := range nodes {
		if seen[n] {
			reached = append(reached, n)
		}
	}
	return reached
}

// lossOf returns the value of a loss: one floating-point element, or one for each weight. weight
// may be nil.
func (g *Graph) lossOf(loss, weight *gorgonia.Node) (kernels.Value, error) {
	switch {
	case loss == nil:
		return kernels.None, ErrNoLoss
	case weight == nil:
		return g.scalarOf(loss)
	}
	return g.values[loss], g.checkWeight(loss, weight)
}

// scalarOf returns the value of a loss, which must have one floating-point element.
func (g *Graph) scalarOf(loss *gorgonia.Node) (kernels.Value, error) {
	v := g.values[loss]
	if s := g.Spec(v); s.Shape.Elems() != 1 || !s.Type.Float() {
		return kernels.None, fmt.Errorf("loss %q is %v: it must be one floating-point number, the mean over the batch: %w",
			loss.Name(), s, kernels.ErrShape)
	}
	return v, nil
}

// checkWeight returns an error unless each loss has a weight of its type.
func (g *Graph) checkWeight(lossNode, weightNode *gorgonia.Node) error {
	loss, weight := g.Spec(g.values[lossNode]), g.Spec(g.values[weightNode])
	if !loss.Type.Float() || weight.Type != loss.Type || weight.Shape.Elems() != loss.Shape.Elems() {
		return fmt.Errorf("weight %q is %v, loss %q is %v: with weights, the loss needs one floating-point number for each weight: %w",
			weightNode.Name(), weight, lossNode.Name(), loss, kernels.ErrShape)
	}
	return nil
}

// frozen reports whether training leaves the parameter, or statistic, of that name unchanged.
func (g *Graph) frozen(name string) bool { return g.Frozen != nil && g.Frozen(name) }

// untrained reports whether the program leaves the parameter of that name unchanged.
func (g *Graph) untrained(name string) bool {
	return g.frozen(name) || g.Untrained != nil && g.Untrained(name)
}

func (g *Graph) isInput(n *gorgonia.Node) bool { _, ok := g.Inputs[n]; return ok }

// UnreachedError lists the parameters that a loss does not depend on. It wraps ErrUnreached.
type UnreachedError struct {
	Loss   string
	Params []string
}

func (e *UnreachedError) Error() string {
	return fmt.Sprintf("%v: %q does not depend on %q: freeze them or remove them from the graph",
		ErrUnreached, e.Loss, e.Params)
}

// Unwrap returns ErrUnreached.
func (e *UnreachedError) Unwrap() error { return ErrUnreached }

// CheckReached returns an *UnreachedError unless each trainable parameter of the graph, lowered or
// not, has a gradient. grads has the gradient of each value of the program, None where it has none.
func (g *Graph) CheckReached(grads []kernels.Value) error {
	var missing []string
	for _, n := range g.Model.Graph.AllNodes() {
		isParam := n.IsVar() && !g.isInput(n) && !g.Model.Statistics[n] && (n.Value() != nil || g.Model.Params[n])
		if !isParam || g.untrained(n.Name()) || !isFloat(n) {
			continue
		}
		if v, ok := g.values[n]; !ok || grads[v] == kernels.None {
			missing = append(missing, n.Name())
		}
	}
	if missing == nil {
		return nil
	}
	return &UnreachedError{Loss: g.Loss.Name(), Params: missing}
}

func isFloat(n *gorgonia.Node) bool {
	t, err := dtypeOf(n.Dtype())
	return err == nil && t.Float()
}
