package layers

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// Model says what the nodes of a graph are for. Net's methods fill it; a program with a Gorgonia graph of its
// own fills it by hand. Nodes are known by name: for another batch size the names, and the shapes of
// parameters, must be the same.
type Model struct {
	// Inputs are fed from the fields of each batch, by node name; targets are among them. Dimension 0 is the batch.
	Inputs gorgonia.Nodes
	// Output is what Predict returns, one row a sample: scores, or values.
	Output *gorgonia.Node
	// Loss is the scalar to minimise: the mean over the rows of the batch. Required.
	Loss *gorgonia.Node
	// Correct has one element a row, 1 where the output is right and 0 where it is wrong; its sum over all rows
	// divided by their number is the accuracy. Nil: no accuracy is reported.
	Correct *gorgonia.Node
	// Params are learned, in the order in which reports list them.
	Params []Param
	// Statistics are kept beside the parameters and not learned: the running means and variances of batch normalization.
	// Training moves them; evaluation and prediction read them.
	Statistics []Param
}

// Param is a node that is learned, or kept, and how it starts.
type Param struct {
	// Node has a name that is unique in the graph; the part before its last "/" is the layer.
	Node *gorgonia.Node
	// Init fills the parameter. Nil: the value bound to Node is copied.
	Init Init
}

// Classifier adds class indices y [B] as a field and softmax cross entropy as the loss.  logits [B, C].
// A label outside 0..C-1 makes the loss NaN.
func (n *Net) Classifier(x, logits *gorgonia.Node) (Model, error) {
	if !n.head("classifier", x, logits) {
		return Model{}, n.err
	}
	y := n.Labels("y", logits.Shape()[0])
	rows := n.CrossEntropy(logits, y, "loss/rows")
	correct := n.Correct(logits, y, "correct")
	return n.model(x, logits, n.mean(rows, "loss"), correct)
}

// ClassifierOneHot adds targets y [B, C] as a field and softmax cross entropy as the loss.  logits [B, C].
// A row of y is a distribution over the classes; its largest element counts as the right one.
func (n *Net) ClassifierOneHot(x, logits *gorgonia.Node) (Model, error) {
	if !n.head("classifier", x, logits) {
		return Model{}, n.err
	}
	y := n.target(logits)
	rows := n.CrossEntropyOneHot(logits, y, "loss/rows")
	correct := n.CorrectOneHot(logits, y, "correct")
	return n.model(x, logits, n.mean(rows, "loss"), correct)
}

// Regressor adds targets y, of out's shape, as a field and the mean squared error over all elements as the loss.
func (n *Net) Regressor(x, out *gorgonia.Node) (Model, error) {
	if !n.values("regressor", out) {
		return Model{}, n.err
	}
	return n.squared("regressor", x, out, n.target(out))
}

// Autoencoder adds the mean squared error over all elements of out against x itself, which has the same shape, as the loss.
func (n *Net) Autoencoder(x, out *gorgonia.Node) (Model, error) {
	if n.values("autoencoder", out) && n.ready("autoencoder", x) && (!slices.Equal(x.Shape(), out.Shape()) || x.Dtype() != out.Dtype()) {
		n.fail(fmt.Errorf("autoencoder: output %q is %s %s, must be %s %s like input %q: %w", out.Name(),
			typeString(out.Dtype()), shapeString(out.Shape()), typeString(x.Dtype()), shapeString(x.Shape()), x.Name(), ErrShape))
	}
	return n.squared("autoencoder", x, out, x)
}

// values checks an output that is compared with values.
func (n *Net) values(what string, out *gorgonia.Node) bool {
	if n.ready(what, out) && out.Dims() == 0 {
		n.fail(fmt.Errorf("%s: output %q is a scalar: it needs one row a sample: %w", what, out.Name(), ErrShape))
	}
	return n.err == nil
}

// squared makes a model whose loss is the mean squared error of out against y.
func (n *Net) squared(what string, x, out, y *gorgonia.Node) (Model, error) {
	if n.err != nil {
		return Model{}, n.err
	}
	diff, err := gorgonia.Sub(out, y)
	if diff = n.keep(what, "loss/difference", diff, err); diff == nil {
		return Model{}, n.err
	}
	square, err := gorgonia.Square(diff)
	square = n.keep(what, "loss/square", square, err)
	return n.model(x, out, n.mean(square, "loss"), nil)
}

// CrossEntropy adds the loss of each row from class indices.  logits [B, C], labels [B] → [B].
// row = log Σ exp(logits) - logits[label], computed so that it cannot overflow.
func (n *Net) CrossEntropy(logits, labels *gorgonia.Node, name string) *gorgonia.Node {
	return n.perRow("cross entropy", logits, labels, name, true, kernels.CrossEntropy)
}

// CrossEntropyOneHot adds the loss of each row from a distribution.  logits, target [B, C] → [B].
// row = -Σ target · log softmax(logits).
func (n *Net) CrossEntropyOneHot(logits, target *gorgonia.Node, name string) *gorgonia.Node {
	return n.perRow("cross entropy", logits, target, name, false, kernels.CrossEntropyDense)
}

// Correct adds 1 for each row whose largest logit (the first, on ties) is at its label, else 0.  logits [B, C], labels [B] → [B].
func (n *Net) Correct(logits, labels *gorgonia.Node, name string) *gorgonia.Node {
	return n.perRow("correct", logits, labels, name, true, kernels.Correct)
}

// CorrectOneHot adds 1 for each row whose largest logit is where the target's largest element is, else 0.  logits, target [B, C] → [B].
func (n *Net) CorrectOneHot(logits, target *gorgonia.Node, name string) *gorgonia.Node {
	return n.perRow("correct", logits, target, name, false, kernels.CorrectDense)
}

// perRow checks the operands of an operation that makes one number a row, and adds it.
func (n *Net) perRow(what string, logits, y *gorgonia.Node, name string, indices bool, op *kernels.Op) *gorgonia.Node {
	layer := fmt.Sprintf("%s %q", what, name)
	if !n.ready(layer, logits) {
		return nil
	}
	if err := n.checkNode(layer, "target", y); err != nil {
		n.fail(err)
		return nil
	}
	integer := y.Dtype() != tensor.Float32 && y.Dtype() != tensor.Float64
	want := slices.Clone(logits.Shape())
	if indices && len(want) == 2 {
		want = want[:1]
	}
	switch {
	case logits.Dims() != 2:
		n.fail(fmt.Errorf("%s: logits %s need 2 dimensions: %w", layer, shapeString(logits.Shape()), ErrShape))
	case !slices.Equal(y.Shape(), want):
		n.fail(fmt.Errorf("%s: target %q is %s, must be %s: %w", layer, y.Name(), shapeString(y.Shape()), shapeString(want), ErrShape))
	case indices && !integer:
		n.fail(fmt.Errorf("%s: target %q is of type %s, must be an integer type: %w", layer, y.Name(), typeString(y.Dtype()), ErrShape))
	case !indices && y.Dtype() != logits.Dtype():
		n.fail(fmt.Errorf("%s: target %q is of type %s, must be %s like the logits: %w", layer, y.Name(), typeString(y.Dtype()), typeString(logits.Dtype()), ErrShape))
	}
	return n.apply(layer, name, op, nil, logits, y)
}

// head checks the logits of a classifier.
func (n *Net) head(what string, x, logits *gorgonia.Node) bool {
	if n.ready(what, logits) && logits.Dims() != 2 {
		n.fail(fmt.Errorf("%s: logits %s need 2 dimensions, [batch, classes]: %w", what, shapeString(logits.Shape()), ErrShape))
	}
	return n.err == nil
}

// target adds the field y, of the type and shape of out.
func (n *Net) target(out *gorgonia.Node) *gorgonia.Node {
	y := n.leaf("target", "y", out.Dtype(), out.Shape())
	if y != nil {
		n.inputs = append(n.inputs, y)
	}
	return y
}

// mean adds the mean over all elements.
func (n *Net) mean(x *gorgonia.Node, name string) *gorgonia.Node {
	if n.err != nil {
		return nil
	}
	m, err := gorgonia.Mean(x)
	return n.keep(name, name, m, err)
}

func (n *Net) model(x, out, loss, correct *gorgonia.Node) (Model, error) {
	if n.err != nil {
		return Model{}, n.err
	}
	if err := n.checkNode("model", "input", x); err != nil {
		n.fail(err)
		return Model{}, err
	}
	inputs := n.Inputs()
	if !slices.Contains(inputs, x) {
		inputs = slices.Insert(inputs, 0, x)
	}
	return Model{Inputs: inputs, Output: out, Loss: loss, Correct: correct, Params: n.Params(), Statistics: n.Statistics()}, nil
}
