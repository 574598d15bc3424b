package compile

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

var seed = flag.Uint64("seed", 1, "seed of random tests")

// draft builds a small Gorgonia graph with inputs of random values.
type draft struct {
	g      *gorgonia.ExprGraph
	r      *rand.Rand
	dt     tensor.Dtype
	err    error
	inputs gorgonia.Nodes
}

func newDraft(r *rand.Rand, dt tensor.Dtype) *draft {
	return &draft{g: gorgonia.NewGraph(), r: r, dt: dt}
}

// must keeps the first error.
func (d *draft) must(n *gorgonia.Node, err error) *gorgonia.Node {
	if d.err == nil {
		d.err = err
	}
	if n == nil && d.err == nil {
		d.err = fmt.Errorf("no node")
	}
	if d.err != nil {
		panic(d)
	}
	return n
}

// wide returns a random size that is not 1.
func (d *draft) wide() int { return 2 + d.r.IntN(4) }

func (d *draft) normal() float64   { return d.r.NormFloat64() }
func (d *draft) positive() float64 { return 0.3 + 2*d.r.Float64() }

// of returns an input with elements drawn from draw; a scalar without dims.
func (d *draft) of(draw func() float64, dims ...int) *gorgonia.Node {
	name := fmt.Sprintf("in%d", len(d.inputs))
	var n *gorgonia.Node
	if len(dims) == 0 {
		n = gorgonia.NewScalar(d.g, d.dt, gorgonia.WithName(name), gorgonia.WithValue(d.scalar(draw())))
	} else {
		n = gorgonia.NewTensor(d.g, d.dt, len(dims), gorgonia.WithShape(dims...), gorgonia.WithName(name), gorgonia.WithValue(d.tensor(draw, dims...)))
	}
	d.inputs = append(d.inputs, n)
	return n
}

func (d *draft) in(dims ...int) *gorgonia.Node { return d.of(d.normal, dims...) }

func (d *draft) scalar(x float64) any {
	if d.dt == tensor.Float32 {
		return float32(x)
	}
	return x
}

func (d *draft) tensor(draw func() float64, dims ...int) *tensor.Dense {
	n := tensor.Shape(dims).TotalSize()
	f32, f64 := make([]float32, n), make([]float64, n)
	for i := range n {
		f64[i] = draw()
		f32[i] = float32(f64[i])
	}
	if d.dt == tensor.Float32 {
		return tensor.New(tensor.WithShape(dims...), tensor.WithBacking(f32))
	}
	return tensor.New(tensor.WithShape(dims...), tensor.WithBacking(f64))
}

// tape runs the graph of roots on Gorgonia's tape machine.
func tape(roots ...*gorgonia.Node) (out [][]float64, err error) {
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
		out = append(out, numbers(v))
	}
	return out, nil
}

// numbers returns the elements of a Gorgonia value, bools as 1 and 0.
func numbers(v gorgonia.Value) []float64 {
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

// near reports whether two results agree to a tolerance relative to their size, but at least 1.
func near(got, want []float64, tol float64) bool {
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
