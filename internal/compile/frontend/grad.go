package frontend

import (
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
)

// gradOp is the op of a node that Grad made. Its operands are the loss and the input; a machine
// gives the node the gradient of the loss by the input as its value.
type gradOp struct {
	loss, input int64 // ids of the operands: Gorgonia merges nodes with equal hashes
}

// Grad adds a node to the graph for the gradient of loss, one floating-point number, by each of the
// inputs, and returns these nodes. Only a machine gives them a value. Unlike gorgonia.Grad it makes
// no nodes for Gorgonia's own way to compute them. The first gradient node that is made for an
// input becomes the input's Deriv.
func Grad(loss *gorgonia.Node, inputs ...*gorgonia.Node) (gorgonia.Nodes, error) {
	if loss == nil || loss.Graph() == nil || loss.Shape().TotalSize() != 1 || !isFloat(loss) {
		return nil, fmt.Errorf("loss %v: it must be one floating-point number: %w", loss, kernels.ErrShape)
	}
	reached := operandsOf(loss)
	for _, n := range inputs {
		switch {
		case n == nil || n.Op() != nil || !isFloat(n):
			return nil, fmt.Errorf("gradient of %q by %v: it is not an input of floating-point numbers: %w", loss.Name(), n, ErrInput)
		case !reached[n]:
			return nil, &UnreachedError{Loss: loss.Name(), Params: []string{n.Name()}}
		}
	}
	var grads gorgonia.Nodes
	for _, n := range inputs {
		d, err := gorgonia.ApplyOp(&gradOp{loss.ID(), n.ID()}, loss, n)
		if err != nil {
			return nil, fmt.Errorf("gradient of %q by %q: %w", loss.Name(), n.Name(), err)
		}
		if gorgonia.WithName(fmt.Sprintf("gradient of %s by %s", loss.Name(), n.Name()))(d); n.Deriv() == nil {
			gorgonia.SetDerivOf(d, n)
		}
		grads = append(grads, d)
	}
	return grads, nil
}

// gradOperands returns the loss and the input of a node that Grad made, nil for other nodes.
func gradOperands(n *gorgonia.Node) (loss, input *gorgonia.Node) {
	if n == nil {
		return nil, nil
	}
	if _, ok := n.Op().(*gradOp); !ok {
		return nil, nil
	}
	in := children(n)
	return in[0], in[1]
}

// operandsOf returns n and all nodes that it is computed from.
func operandsOf(n *gorgonia.Node) map[*gorgonia.Node]bool {
	seen := map[*gorgonia.Node]bool{n: true}
	for stack := (gorgonia.Nodes{n}); len(stack) > 0; {
		x := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, c := range children(x) {
			if !seen[c] {
				seen[c] = true
				stack = append(stack, c)
			}
		}
	}
	return seen
}

func (op *gradOp) Arity() int { return 2 }
func (op *gradOp) Type() hm.Type {
	return hm.NewFnType(hm.TypeVariable('a'), hm.TypeVariable('b'), hm.TypeVariable('b'))
}
func (op *gradOp) ReturnsPtr() bool     { return false }
func (op *gradOp) CallsExtern() bool    { return false }
func (op *gradOp) OverwritesInput() int { return -1 }
func (op *gradOp) WriteHash(h hash.Hash) {
	fmt.Fprintf(h, "evenkeel/gradient of %d by %d", op.loss, op.input)
}
func (op *gradOp) String() string { return "gradient" }

func (op *gradOp) Hashcode() uint32 {
	h := fnv.New32a()
	op.WriteHash(h)
	return h.Sum32()
}

// InferShape returns the shape of the input.
func (op *gradOp) InferShape(in ...gorgonia.DimSizer) (tensor.Shape, error) {
	s, ok := in[1].(tensor.Shape)
	if !ok {
		return nil, fmt.Errorf("gradient by %T, not by a shape: %w", in[1], kernels.ErrShape)
	}
	return s.Clone(), nil
}

// Do returns an error: Gorgonia's machines know no gradient of this kind.
func (op *gradOp) Do(...gorgonia.Value) (gorgonia.Value, error) {
	return nil, fmt.Errorf("vm.Grad makes gradients for machines of package vm only: use gorgonia.Grad: %w", kernels.ErrUnsupported)
}

// DiffWRT returns that it has no gradients. With this method gorgonia.Grad ignores the node.
func (op *gradOp) DiffWRT(inputs int) []bool { return make([]bool, inputs) }

// SymDiff returns an error, as DiffWRT says.
func (op *gradOp) SymDiff(gorgonia.Nodes, *gorgonia.Node, *gorgonia.Node) (gorgonia.Nodes, error) {
	return nil, fmt.Errorf("a gradient of a gradient: %w", kernels.ErrUnsupported)
}
