package weights

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// array is a tensor with its elements.
type array struct {
	shape []int
	x     []float64
}

// drawn returns an array of standard normal float32 numbers.
func drawn(r *rand.Rand, shape ...int) array {
	a := array{shape, make([]float64, kernels.Shape(shape).Elems())}
	for i := range a.x {
		a.x[i] = float64(float32(r.NormFloat64()))
	}
	return a
}

// filed returns a file of the arrays with elements of type as.
func filed(t *testing.T, as safetensors.DType, all map[string]array) *safetensors.File {
	t.Helper()
	var list []safetensors.Tensor
	for name, a := range all {
		list = append(list, safetensors.Tensor{Name: name, DType: as, Shape: a.shape})
	}
	var b bytes.Buffer
	w, err := safetensors.NewWriter(&b, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range w.Tensors() {
		if _, err := w.Write(elementsAs(as, all[x.Name].x)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := safetensors.NewFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// spec is a parameter of float32.
func spec(name string, shape ...int) trainer.NamedSpec {
	return trainer.NamedSpec{Name: name, Spec: kernels.Spec{Type: arena.Float32, Shape: shape}}
}

// specs is a list of parameters.
func specs(all ...trainer.NamedSpec) []trainer.NamedSpec { return all }

// elementsAs returns numbers as elements of a type.
func elementsAs(t safetensors.DType, x []float64) []byte {
	b, wide := make([]byte, len(x)*t.Bits()/8), make([]byte, 8*len(x))
	copy(dataloader.View[float64](wide), x)
	convert(b, t, wide, safetensors.Float64)
	return b
}

// numbersOf returns elements of a type as numbers.
func numbersOf(t safetensors.DType, b []byte) []float64 {
	wide := make([]byte, len(b)*8/t.Bits()*8)
	convert(wide, safetensors.Float64, b, t)
	return slices.Clone(dataloader.View[float64](wide))
}

// shared is the pump of all tests here: its buffers are large.
var shared = newPump(context.Background(), nil)

// pumpOf returns a pump for the tensors of from, until the next call.
func pumpOf(from elementReader) *pump {
	shared.from = from
	return shared
}

// loaded returns the elements of all weights that the plan has tensors for, and the first error.
func loaded(t *testing.T, p *loadPlan, f *safetensors.File) (map[string]array, error) {
	t.Helper()
	all := make(map[string]array)
	for _, c := range p.recipes {
		if len(c.parts) == 0 {
			continue
		}
		a := c.assignment()
		var b []byte
		err := pumpOf(f).run(&a, func(piece []byte, _ int64) error { b = append(b, piece...); return nil })
		if err != nil {
			return nil, err
		}
		all[c.target.Name] = array{c.target.Spec.Shape, numbersOf(safetensors.Float32, b)}
	}
	return all, nil
}

// weightsRead are weights of float32 to save.
type weightsRead map[string]array

// ReadAt copies elements.
func (w weightsRead) ReadAt(name string, dst []byte, offset int64) error {
	copy(dst, elementsAs(safetensors.Float32, w[name].x)[offset:])
	return nil
}

// stored returns the tensors of a plan to save weights, in the type of the file.
func stored(t *testing.T, p *savePlan, weights map[string]array) map[string]array {
	t.Helper()
	all := make(map[string]array)
	r := &planReader{plan: p, weights: weightsRead(weights)}
	for _, o := range p.tensors {
		var b []byte
		err := pumpOf(r).convert(o.stored(), o.tensor.DType, func(piece []byte, _ int64) error { b = append(b, piece...); return nil })
		if err != nil {
			t.Fatal(err)
		}
		all[o.tensor.Name] = array{shape: o.tensor.Shape}
		if kindOf(o.own) == float {
			all[o.tensor.Name] = array{o.tensor.Shape, numbersOf(o.tensor.DType, b)}
		}
	}
	return all
}

// sorted are the lists of what a plan leaves out.
type sorted struct {
	bad                    []trainer.Mismatch
	missing, left, dropped []string
	outside                int
}

// outcome sorts what the plan does not load.
func outcome(p *loadPlan, have []safetensors.Tensor) (s sorted) {
	used := make(map[string]bool)
	for _, c := range p.recipes {
		s.bad = append(s.bad, c.bad...)
		switch {
		case c.outside:
			s.outside++
		case len(c.parts)+len(c.bad) == 0:
			s.missing = append(s.missing, c.missing())
		}
		for _, name := range c.found {
			used[name] = true
		}
	}
	for _, t := range have {
		switch {
		case used[t.Name]:
		case p.drops(t.Name):
			s.dropped = append(s.dropped, t.Name)
		default:
			s.left = append(s.left, t.Name)
		}
	}
	return s
}

// planned returns the plan to load a file, which must have everything.
func planned(t *testing.T, r Rules, weights []trainer.NamedSpec, f *safetensors.File) *loadPlan {
	t.Helper()
	p, err := r.planLoad(weights, f.Tensors())
	if err != nil {
		t.Fatal(err)
	}
	if s := outcome(p, f.Tensors()); len(s.bad)+len(s.missing)+len(s.left) > 0 {
		t.Fatalf("%+v", s)
	}
	return p
}

// values is loaded of a file that must have everything.
func values(t *testing.T, r Rules, weights []trainer.NamedSpec, f *safetensors.File) map[string]array {
	t.Helper()
	all, err := loaded(t, planned(t, r, weights, f), f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
