package layers

import (
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// Cast adds x in another type: tensor.Float32 or tensor.Float64, to which numbers are rounded, or
// tensor.Int, to which floats are truncated. Floats beyond int become its smallest or largest value,
// NaN becomes 0. A name may be empty.
//
// The gradient passes between floats; integers have none. Operations that read integers accept any
// integer type: they need no cast.
func (n *Net) Cast(x *gorgonia.Node, name string, to tensor.Dtype) *gorgonia.Node {
	layer := operation("cast", name, x)
	if !n.operands(layer, x) {
		return nil
	}
	from := storage[x.Dtype()]
	switch {
	case to.Type == nil || !storage[to].Float() && (to != tensor.Int || !from.Float()):
		n.fail(fmt.Errorf("%s: %s to %s: only numbers to tensor.Float32 or tensor.Float64, and floats to tensor.Int, are converted: %w",
			layer, typeString(x.Dtype()), typeString(to), ErrShape))
		return nil
	case to == tensor.Int:
		return n.operate("cast", name, kernels.Truncate, nil, x)
	}
	return n.operate("cast", name, kernels.Decode, kernels.DecodeAttrs{To: storage[to], Scale: 1}, x)
}
