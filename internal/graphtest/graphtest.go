// Package graphtest builds small Gorgonia graphs with random inputs for tests, and runs them on
// Gorgonia's tape machine.
package graphtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Draft builds a small Gorgonia graph with inputs of random values.
type Draft struct {
	Graph  *gorgonia.ExprGraph
	Rand   *rand.Rand   // of sizes and values
	Type   tensor.Dtype // of inputs, Float32 or Float64
	Err    error        // the first one of Must
	Inputs gorgonia.Nodes
}

// New returns a draft of a new graph.
func New(r *rand.Rand, dt tensor.Dtype) *Draft {
	return &Draft{Graph: gorgonia.NewGraph(), Rand: r, Type: dt}
}

// Must returns n. After an error it keeps the first one in Err and panics with d: Gorgonia refuses
// some random shapes.
func (d *Draft) Must(n *gorgonia.Node, err error) *gorgonia.Node {
	if d.Err == nil {
		d.Err = err
	}
	if n == nil && d.Err == nil {
		d.Err = fmt.Errorf("no node")
	}
	if d.Err != nil {
		panic(d)
	}
	return n
}

// Dim returns a random size, often 1.
func (d *Draft) Dim() int { return 1 + d.Rand.IntN(5) }

// Wide returns a random size that is not 1.
func (d *Draft) Wide() int { return 2 + d.Rand.IntN(4) }

// Normal returns a normally distributed number.
func (d *Draft) Normal() float64 { return d.Rand.NormFloat64() }

// Positive returns a number of [0.3, 2.3).
func (d *Draft) Positive() float64 { return 0.3 + 2*d.Rand.Float64() }

// Of returns an input with elements drawn from draw; a scalar without dims.
func (d *Draft) Of(draw func() float64, dims ...int) *gorgonia.Node {
	name := fmt.Sprintf("in%d", len(d.Inputs))
	var n *gorgonia.Node
	if len(dims) == 0 {
		n = gorgonia.NewScalar(d.Graph, d.Type, gorgonia.WithName(name), gorgonia.WithValue(d.Scalar(draw())))
	} else {
		n = gorgonia.NewTensor(d.Graph, d.Type, len(dims), gorgonia.WithShape(dims...), gorgonia.WithName(name), gorgonia.WithValue(d.Tensor(draw, dims...)))
	}
	d.Inputs = append(d.Inputs, n)
	return n
}

// In returns an input with normally distributed elements.
func (d *Draft) In(dims ...int) *gorgonia.Node { return d.Of(d.Normal, dims...) }

// Scalar returns x in the draft's type.
func (d *Draft) Scalar(x float64) any {
	if d.Type == tensor.Float32 {
		return float32(x)
	}
	return x
}

// Tensor returns a tensor of the draft's type with elements drawn from draw.
func (d *Draft) Tensor(draw func() float64, dims ...int) *tensor.Dense {
	n := tensor.Shape(dims).TotalSize()
	f32, f64 := make([]float32, n), make([]float64, n)
	for i := range n {
		f64[i] = draw()
		f32[i] = float32(f64[i])
	}
	if d.Type == tensor.Float32 {
		return tensor.New(tensor.WithShape(dims...), tensor.WithBacking(f32))
	}
	return tensor.New(tensor.WithShape(dims...), tensor.WithBacking(f64))
}

// Ints returns an input of integers below n.
func (d *Draft) Ints(n int, dims ...int) *gorgonia.Node {
	xs := make([]int, tensor.Shape(dims).TotalSize())
	for i := range xs {
		xs[i] = d.Rand.IntN(n)
	}
	name := fmt.Sprintf("in%d", len(d.Inputs))
	in := gorgonia.NewTensor(d.Graph, tensor.Int, len(dims), gorgonia.WithShape(dims...), gorgonia.WithName(name),
		gorgonia.WithValue(tensor.New(tensor.WithShape(dims...), tensor.WithBacking(xs))))
	d.Inputs = append(d.Inputs, in)
	return in
}

// Tape runs the graph of roots on Gorgonia's tape machine.
func Tape(roots ...*gorgonia.Node) (out [][]float64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	into := make([]gorgonia.Value, len(roots))
	for i, n := range roots {
		gorgonia.Read(n, &into[i])
	}
	m := gorgonia.NewTapeMachine(roots[0].Graph())
	defer m.Close()
	if err := m.RunAll(); err != nil {
		return nil, err
	}
	for i, v := range into {
		if v == nil {
			return nil, fmt.Errorf("root %d has no value", i)
		}
		out = append(out, Numbers(v))
	}
	return out, nil
}

// Numbers returns the elements of a Gorgonia value, bools as 1 and 0.
func Numbers(v gorgonia.Value) []float64 {
	if d, ok := v.(*tensor.Dense); ok && (d.RequiresIterator() || !d.DataOrder().IsRowMajor() || d.IsView()) {
		v = d.Materialize().(gorgonia.Value)
	}
	data := reflect.ValueOf(v.Data())
	if data.Kind() != reflect.Slice {
		return []float64{number(data)}
	}
	xs := make([]float64, data.Len())
	for i := range xs {
		xs[i] = number(data.Index(i))
	}
	return xs
}

// number returns x as a float64, a bool as 1 or 0.
func number(x reflect.Value) float64 {
	switch {
	case x.CanFloat():
		return x.Float()
	case x.CanInt():
		return float64(x.Int())
	case x.CanUint():
		return float64(x.Uint())
	case x.Bool():
		return 1
	}
	return 0
}

// Near reports whether two results agree to a tolerance relative to their size, but at least 1.
func Near(got, want []float64, tol float64) bool {
	if len(got) != len(want) {
		return false
	}
	for i, w := range want {
		if got[i] == w || math.IsNaN(got[i]) && math.IsNaN(w) {
			continue
		}
		if !(math.Abs(got[i]-w) <= tol*max(1, math.Abs(w))) {
			return false
		}
	}
	return true
}
