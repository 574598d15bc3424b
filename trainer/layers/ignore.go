package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// Ignore returns labels in which class is replaced by 0, and weights of type Net.Type: 0 for the
// labels that were class, 1 for all others. With the weights as Model.Weight, labels of that class
// count for nothing: padding of sequences, pixels without a class. labels are integers of any shape,
// at most 2^24 where Net.Type is float32; class need not be one of the classes, and is a number that
// Net.Type holds exactly. A name may be empty.
func (n *Net) Ignore(labels *gorgonia.Node, name string, class int) (kept, weight *gorgonia.Node) {
	layer := operation("ignore", name, labels)
	if !n.operands(layer, labels) {
		return nil, nil
	}
	if storage[labels.Dtype()].Float() {
		n.fail(fmt.Errorf("%s: labels are of type %s, must be of an integer type: %w", layer, typeString(labels.Dtype()), ErrShape))
		return nil, nil
	}
	if c := kernels.Round(storage[n.Type], float64(class)); c >= 1<<63 || int(c) != class {
		n.fail(fmt.Errorf("%s: class %d is not exact in %s, in which labels are compared: use a smaller one, or set Net.Type to tensor.Float64: %w",
			layer, class, typeString(n.Type), ErrShape))
		return nil, nil
	}
	part := func(s string) string {
		if name == "" {
			return ""
		}
		return name + "/" + s
	}
	// In floats, since a field of labels may be stored in any integer type.
	numbers := n.Cast(labels, part("numbers"), n.Type)
	weight = n.NotEqual(numbers, n.Constant(float64(class), part("class")), part("weight"))
	if n.err != nil {
		return nil, nil
	}
	kept = n.operate("ignore", part("kept"), kernels.Mul, nil, numbers, weight)
	return n.Cast(kept, part("labels"), tensor.Int), weight
}
