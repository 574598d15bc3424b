package layers

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// Model lists the nodes of a graph that a trainer uses. The methods of Net return it; a program
// with its own Gorgonia graph fills it itself. A trainer identifies nodes by name: graphs for
// different batch sizes must have the same names and the same shapes of parameters.
type Model struct {
	// Inputs are fed with the fields of each batch, by name; they include the targets. Dimension 0
	// is the batch.
	Inputs gorgonia.Nodes
	// Output is the result of Predict, one row for each sample: logits or values.
	Output *gorgonia.Node
	// Outputs are more results of Predict, one row for each sample, which are found by the names of
	// their nodes: the latent vector of an autoencoder, the attention of a layer. They need an
	// Output, and cost memory and time only in prediction. Nil: none.
	Outputs gorgonia.Nodes
	// Loss is the scalar to minimise, the mean over the rows of the batch. With Weight, it has one
	// loss for each weight instead. Required, unless the model has Objectives. A trainer refuses a
	// loss that is certainly a sum over the rows: use gorgonia.Mean, or multiply the sum by 1/batch.
	Loss *gorgonia.Node
	// MeanLoss states that Loss is meant as it is, so that a trainer does not look for a sum over
	// the rows. Set it if the data make a sum a mean, such as weights that add up to 1.
	MeanLoss bool
	// Weight has one weight for each loss, 0 or more, usually a field of the batch: one for each
	// sample or for each position of a sample. What is minimised and reported is Σ Weight·Loss / Σ
	// Weight, where the sums are over all samples of an update, or of a pass. Weights are constants:
	// no gradient flows through them. An update whose weights are all 0 is skipped. Nil: Loss is a
	// mean.
	Weight *gorgonia.Node
	// Objectives are losses that are minimised in turn, each over parameters of its own, such as those
	// of a generator and a discriminator. Nil: Loss is the only one. Otherwise Loss and Weight must be
	// nil.
	Objectives []Objective
	// Correct has one element for each row, 1 if the output is right and 0 if not: its mean is the
	// accuracy. With a Weight of the loss, or of the first objective, it has one element for each
	// weight. Nil: no accuracy is reported.
	Correct *gorgonia.Node
	// Metrics are measured by Evaluate, in addition to the loss and the accuracy; see
	// trainer.Options.TrainMetrics for training.
	Metrics []Metric
	// Params are learned, in the order in which reports list them, and nothing else is but the scale
	// and the bias that gorgonia.BatchNorm makes if it is given none. A trainer refuses other nodes of
	// floats that have a value, such as those of gorgonia.WithInit, unless Options.Frozen names them.
	Params []Param
	// Statistics are the running means and variances of batch normalization. Training updates them
	// without gradients; evaluation and prediction read them.
	Statistics []Param
}

// Param is a parameter or a running statistic, with its initial value.
type Param struct {
	// Node has a name that is unique in the graph; the part before its last "/" is the layer.
	Node *gorgonia.Node
	// Init computes the initial values. Nil: they are copied from the value bound to Node.
	Init Init
	// Frozen excludes the parameter from training: its values are those that the program writes, by
	// trainer.Param.Write. See Net.Scalar.
	Frozen bool
}

// Classifier adds the field y [B], class indices, and the softmax cross entropy as the loss, and
// returns the model. x is the input, logits [B, C] the output. A label outside 0..C-1 makes the
// loss NaN.
func (n *Net) Classifier(x, logits *gorgonia.Node) (Model, error) {
	if !n.head("classifier", x, logits) {
		return Model{}, n.err
	}
	y := n.Labels("y", logits.Shape()[0])
	rows := n.CrossEntropy(logits, y, "loss/rows")
	correct := n.Correct(logits, y, "correct")
	return n.model(x, logits, n.mean(rows, "loss"), correct)
}

// WeightedClassifier is Classifier with a weight for each sample. weight [B] has the type of the
// logits; it is usually an input, and 0 leaves a sample out of the mean. The sample is computed all
// the same: NaN in its x or a label outside 0..C-1 ends the step, since 0·NaN is NaN. [Net.Ignore]
// replaces labels that are no class.
func (n *Net) WeightedClassifier(x, logits, weight *gorgonia.Node) (Model, error) {
	if !n.head("classifier", x, logits) {
		return Model{}, n.err
	}
	y := n.Labels("y", logits.Shape()[0])
	return n.weighted(x, logits, n.CrossEntropy(logits, y, "loss"), weight, n.Correct(logits, y, "correct"))
}

// WeightedRegressor is Regressor with a weight for each sample. weight [B] has the type of out. The
// loss of a sample is the mean over its squared errors.
func (n *Net) WeightedRegressor(x, out, weight *gorgonia.Node) (Model, error) {
	if !n.values("regressor", out) {
		return Model{}, n.err
	}
	square := n.square("regressor", out, n.target(out))
	if n.err != nil || out.Dims() == 1 {
		return n.weighted(x, out, square, weight, nil)
	}
	var axes []int
	for k := 1; k < out.Dims(); k++ {
		axes = append(axes, k)
	}
	rows, err := gorgonia.Mean(square, axes...)
	return n.weighted(x, out, n.keep("regressor", "loss", rows, err), weight, nil)
}

// weighted returns a model with weights, which have the type and shape of the losses.
func (n *Net) weighted(x, out, losses, weight, correct *gorgonia.Node) (Model, error) {
	if n.err != nil {
		return Model{}, n.err
	}
	if err := n.checkNode("model", "weight", weight); err != nil {
		n.fail(err)
		return Model{}, err
	}
	if weight.Dtype() != losses.Dtype() || !slices.Equal(weight.Shape(), losses.Shape()) {
		n.fail(fmt.Errorf("model: weight %q is %s %s, must be %s %s like the losses: %w", weight.Name(), typeString(weight.Dtype()),
			shapeString(weight.Shape()), typeString(losses.Dtype()), shapeString(losses.Shape()), ErrShape))
		return Model{}, n.err
	}
	m, err := n.model(x, out, losses, correct)
	m.Weight = weight
	return m, err
}

// ClassifierOneHot adds the field y [B, C] and the softmax cross entropy as the loss, and returns
// the model. Each row of y is a distribution over the classes; its largest element is the right
// class. x is the input, logits [B, C] the output.
func (n *Net) ClassifierOneHot(x, logits *gorgonia.Node) (Model, error) {
	if !n.head("classifier", x, logits) {
		return Model{}, n.err
	}
	y := n.target(logits)
	rows := n.CrossEntropyOneHot(logits, y, "loss/rows")
	correct := n.CorrectOneHot(logits, y, "correct")
	return n.model(x, logits, n.mean(rows, "loss"), correct)
}

// Regressor adds the field y, the targets, with the shape of out, and the mean squared error over
// all elements as the loss, and returns the model. x is the input.
func (n *Net) Regressor(x, out *gorgonia.Node) (Model, error) {
	if !n.values("regressor", out) {
		return Model{}, n.err
	}
	return n.squared("regressor", x, out, n.target(out))
}

// Autoencoder adds the mean squared error between out and x, which has the same shape, as the loss,
// and returns the model.
func (n *Net) Autoencoder(x, out *gorgonia.Node) (Model, error) {
	if n.values("autoencoder", out) && n.ready("autoencoder", x) && (!slices.Equal(x.Shape(), out.Shape()) || x.Dtype() != out.Dtype()) {
		n.fail(fmt.Errorf("autoencoder: output %q is %s %s, must be %s %s like input %q: %w", out.Name(),
			typeString(out.Dtype()), shapeString(out.Shape()), typeString(x.Dtype()), shapeString(x.Shape()), x.Name(), ErrShape))
	}
	return n.squared("autoencoder", x, out, x)
}

// values checks the output of a regression.
func (n *Net) values(what string, out *gorgonia.Node) bool {
	if n.ready(what, out) && out.Dims() == 0 {
		n.fail(fmt.Errorf("%s: output %q is a scalar: it needs one row for each sample: %w", what, out.Name(), ErrShape))
	}
	return n.err == nil
}

// squared returns a model whose loss is the mean squared error between out and y.
func (n *Net) squared(what string, x, out, y *gorgonia.Node) (Model, error) {
	return n.model(x, out, n.mean(n.square(what, out, y), "loss"), nil)
}

// square adds the squares of the differences between out and y.
func (n *Net) square(what string, out, y *gorgonia.Node) *gorgonia.Node {
	if n.err != nil {
		return nil
	}
	diff, err := gorgonia.Sub(out, y)
	if diff = n.keep(what, "loss/difference", diff, err); diff == nil {
		return nil
	}
	square, err := gorgonia.Square(diff)
	return n.keep(what, "loss/square", square, err)
}

// CrossEntropy adds the softmax cross entropy of each row with its class index.  logits [B, C],
// labels [B] → [B].
//
//	row = log Σ exp(logits) - logits[label], computed without overflow
func (n *Net) CrossEntropy(logits, labels *gorgonia.Node, name string) *gorgonia.Node {
	return n.perRow("cross entropy", logits, labels, name, true, kernels.CrossEntropy)
}

// CrossEntropyOneHot adds the softmax cross entropy of each row with its distribution.  logits,
// target [B, C] → [B].
//
//	row = -Σ target · log softmax(logits)
func (n *Net) CrossEntropyOneHot(logits, target *gorgonia.Node, name string) *gorgonia.Node {
	return n.perRow("cross entropy", logits, target, name, false, kernels.CrossEntropyDense)
}

// Correct adds 1 for each row whose largest logit is that of its label, else 0; of equal logits the
// first counts.
// logits [B, C], labels [B] → [B].
func (n *Net) Correct(logits, labels *gorgonia.Node, name string) *gorgonia.Node {
	return n.perRow("correct", logits, labels, name, true, kernels.Correct)
}

// CorrectOneHot adds 1 for each row whose largest logit is at the largest element of its target,
// else 0.
// logits, target [B, C] → [B].
func (n *Net) CorrectOneHot(logits, target *gorgonia.Node, name string) *gorgonia.Node {
	return n.perRow("correct", logits, target, name, false, kernels.CorrectDense)
}

// perRow checks the operands of an operation that returns one number for each row, and adds it.
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

// model returns the model, or the net's error.
func (n *Net) model(x, out, loss, correct *gorgonia.Node) (Model, error) {
	if n.err != nil {
		return Model{}, n.err
	}
	if err := n.checkNode("model", "input", x); err != nil {
		n.fail(err)
		return Model{}, err
	}
	inputs := slices.Clone(n.inputs)
	if !slices.Contains(inputs, x) {
		inputs = slices.Insert(inputs, 0, x)
	}
	return Model{Inputs: inputs, Output: out, Loss: loss, Correct: correct, Params: slices.Clone(n.params), Statistics: slices.Clone(n.statistics)}, nil
}
