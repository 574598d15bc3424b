package layers_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// opCase is an operation over parameters, and what it computes, in plain Go.
type opCase struct {
	name  string
	in    [][]int // shapes of the operands
	build func(n *layers.Net, x gorgonia.Nodes) *gorgonia.Node
	shape []int                              // of the result
	want  func(x [][]float64) []float64      // the elements of the result
	fill  func(r *rand.Rand, data []float64) // draws operands; nil: standard normal
	flat  bool                               // the gradient is 0, also where the result jumps
}

// opCases lists the cases of all families.
func opCases() []opCase {
	return slices.Concat(sliceCases(), shapeCases(), constantCases(), compareCases(), scanCases(), topkCases(),
		arithmeticCases(), elementwiseCases(), reduceCases(), matMulCases(), einsumCases(), softmaxCases(), lossCases(), recurrentCases(), mixingCases())
}

// devices are those that operations are tested on. The tag gpu adds one.
var devices = []struct {
	name string
	open func(t testing.TB) kernels.Device
}{
	{"cpu", func(t testing.TB) kernels.Device { return cputest.OpenChecked(t, cpu.Options{Threads: 2}) }},
	{"emu", func(t testing.TB) kernels.Device { return emutest.OpenChecked(t, emu.Options{Seed: seed.Value()}) }},
}

// sample is a case with numbers.
type sample struct {
	opCase
	x    [][]float64
	w, v []float64 // weights of the result in the loss, and of its three broadcast copies
}

// samples draws numbers for cases. In float32 they are rounded to it.
func samples(r *rand.Rand, dt tensor.Dtype, cases []opCase) []*sample {
	rounded := func(d []float64) []float64 {
		for i, v := range d {
			if dt == tensor.Float32 {
				d[i] = float64(float32(v))
			}
		}
		return d
	}
	var all []*sample
	for _, c := range cases {
		s := &sample{opCase: c}
		for _, shape := range c.in {
			d := reals(r, tensor.Shape(shape).TotalSize())
			if c.fill != nil {
				c.fill(r, d)
			}
			s.x = append(s.x, rounded(d))
		}
		n := kernels.Shape(c.shape).Elems()
		s.w, s.v = rounded(reals(r, n)), rounded(reals(r, 3*n))
		all = append(all, s)
	}
	return all
}

// loss is Σ y·w + Σ (y+1)·v over three copies of y, as build makes it.
func (s *sample) loss() (sum float64) {
	y := s.want(s.x)
	for i, v := range y {
		sum += v * s.w[i]
		if len(s.shape) > 0 {
			for j := range 3 {
				sum += (v + 1) * s.v[j*len(y)+i]
			}
		}
	}
	return sum
}

// slope is the derivative of the loss by element i of operand k, by central differences: their error is
// about 1e-9, from rounding and the third derivative.
func (s *sample) slope(k, i int) float64 {
	const h = 1e-5
	was := s.x[k][i]
	defer func() { s.x[k][i] = was }()
	s.x[k][i] = was + h
	up := s.loss()
	s.x[k][i] = was - h
	return (up - s.loss()) / (2 * h)
}

// values is an Init.
type values []float64

func (v values) Fill(_ *rand.Rand, _ []int, at int, dst []float64) { copy(dst, v[at:]) }

// graph adds the operation and its part of the loss to a net. Each operand also adds the half of its
// squares, so that it always has a gradient.
func (s *sample) graph(n *layers.Net) (y, loss *gorgonia.Node) {
	var x gorgonia.Nodes
	var terms gorgonia.Nodes
	for k, shape := range s.in {
		p := n.Param(fmt.Sprintf("%s/%d", s.name, k), values(s.x[k]), shape...)
		terms = append(terms, gorgonia.Must(gorgonia.Mul(gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.Square(p)))), n.Constant(0.5, ""))))
		x = append(x, p)
	}
	y = s.build(n, x)
	if n.Err() != nil {
		panic(n.Err())
	}
	gorgonia.WithName("result of " + s.name)(y)
	terms = append(terms, gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(y, n.Constant(s.w, "", s.shape...))))))
	if len(s.shape) > 0 {
		// Gorgonia's broadcasts, with y on either side.
		row := n.Reshape(y, "", 1, -1)
		left, _, err := gorgonia.Broadcast(row, n.Constant(s.v, "", 3, len(s.w)), gorgonia.NewBroadcastPattern([]byte{0}, nil))
		if err != nil {
			panic(err)
		}
		sum := gorgonia.Must(gorgonia.BroadcastAdd(left, n.Constant(1.0, "", 1, len(s.w)), nil, []byte{0}))
		terms = append(terms, gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(n.Constant(s.v, "", 3, len(s.w)), sum)))))
	}
	return y, gorgonia.Must(gorgonia.ReduceAdd(terms))
}

// check compares results and gradients with the plain ones. got has the value of an operand minus its
// gradient.
func (s *sample) check(t *testing.T, dt tensor.Dtype, y []float64, got [][]float64) {
	t.Helper()
	// Differences are off by 1e-9; float32 rounds each of some dozen steps to 6e-8 of numbers of about 10.
	tol := map[tensor.Dtype]float64{tensor.Float64: 1e-7, tensor.Float32: 1e-4}[dt]
	if want := s.want(s.x); !within(y, want, tol/10) {
		t.Errorf("%s (EVENKEEL_SEED=%d): got %v, want %v for %v", s.name, seed.Value(), y, want, s.x)
	}
	for k, x := range s.x {
		want := make([]float64, len(x))
		for i := range x {
			if !s.flat {
				want[i] = -s.slope(k, i)
			}
		}
		if !within(got[k], want, tol) {
			t.Errorf("%s (EVENKEEL_SEED=%d): gradient of operand %d is minus %v, differences say %v", s.name, seed.Value(), k, got[k], want)
		}
	}
}

// within reports whether elements differ by at most tol, relative to those above 1.
func within(got, want []float64, tol float64) bool {
	return slices.EqualFunc(got, want, func(a, b float64) bool { return a == b || math.Abs(a-b) <= tol*max(1, math.Abs(b)) })
}

// Gorgonia's machine, and ours for programs around a graph.
func TestOperationsAndTheirGradientsAreThoseOfPlainGoOnBothMachines(t *testing.T) {
	dev := cputest.OpenChecked(t, cpu.Options{Threads: 1})
	machines := map[string]func(g *gorgonia.ExprGraph) (gorgonia.VM, error){
		"tape machine": func(g *gorgonia.ExprGraph) (gorgonia.VM, error) { return gorgonia.NewTapeMachine(g), nil },
		"vm":           func(g *gorgonia.ExprGraph) (gorgonia.VM, error) { return vm.New(g, vm.Options{Device: dev}) },
	}
	for name, machine := range machines {
		for _, dt := range types {
			for _, s := range samples(seed.Rand(t, 21), dt, opCases()) {
				t.Run(fmt.Sprint(s.name, " ", dt, " ", name), func(t *testing.T) { s.onMachine(t, dt, machine) })
			}
		}
	}
}

// onMachine checks a case with gradients by gorgonia.Grad.
func (s *sample) onMachine(t *testing.T, dt tensor.Dtype, machine func(g *gorgonia.ExprGraph) (gorgonia.VM, error)) {
	n := layers.New(gorgonia.NewGraph())
	n.Type = dt
	y, loss := s.graph(n)
	if !slices.Equal(y.Shape(), s.shape) {
		t.Fatalf("shape %v, want %v", y.Shape(), s.shape)
	}
	var read gorgonia.Value
	gorgonia.Read(y, &read)
	var params gorgonia.Nodes
	for _, p := range n.Params() {
		params = append(params, p.Node)
	}
	grads, err := gorgonia.Grad(loss, params...)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Values(1); err != nil {
		t.Fatal(err)
	}
	m, err := machine(loss.Graph())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.RunAll(); err != nil {
		t.Fatal(err)
	}
	var got [][]float64
	for k, x := range s.x {
		d := slices.Clone(x)
		for i, g := range numbers(t, grads[k].Value()) {
			d[i] -= g
		}
		got = append(got, d)
	}
	s.check(t, dt, numbers(t, read), got)
}

// One graph has all cases, so that no two of them are merged either.
func TestOperationsAndTheirGradientsAreThoseOfPlainGoOnEveryDevice(t *testing.T) {
	for _, device := range devices {
		for _, dt := range types {
			t.Run(fmt.Sprint(device.name, " ", dt), func(t *testing.T) {
				all := samples(seed.Rand(t, 22), dt, opCases())
				var outputs []string
				model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
					n := layers.New(g)
					n.Type = dt
					outputs = nil
					x := n.Input("x", batch, 1)
					terms := gorgonia.Nodes{gorgonia.Must(gorgonia.Sum(x))}
					for _, s := range all {
						y, loss := s.graph(n)
						outputs, terms = append(outputs, y.Name()), append(terms, loss)
					}
					return trainer.Model{Inputs: n.Inputs(), Loss: gorgonia.Must(gorgonia.ReduceAdd(terms)), Params: n.Params()}, n.Err()
				}
				if _, err := model(gorgonia.NewGraph(), 1); err != nil { // for the names
					t.Fatal(err)
				}
				data, err := dataloader.FromSlices(1, dataloader.Column("x", []float32{0}, 1))
				if err != nil {
					t.Fatal(err)
				}
				tr, err := trainer.New(t.Context(), model, trainer.Options{Device: device.open(t), Batch: 1, Optimizer: optim.SGD{Rate: 1}, Keep: outputs, Fields: data.Fields()})
				if err != nil {
					t.Fatal(err)
				}
				defer tr.Close()
				if _, err := tr.Fit(t.Context(), data); err != nil {
					t.Fatal(err)
				}
				params, err := tr.Params()
				if err != nil {
					t.Fatal(err)
				}
				learned := map[string][]float64{}
				for _, p := range params {
					learned[p.Name] = floatsOf(t, p.Spec, p.Read)
				}
				for i, s := range all {
					h, spec, err := tr.Kept(outputs[i])
					if err != nil {
						t.Fatal(err)
					}
					var got [][]float64
					for k := range s.x {
						got = append(got, learned[fmt.Sprintf("%s/%d", s.name, k)])
					}
					s.check(t, dt, floatsOf(t, spec, h.Read), got)
				}
			})
		}
	}
}

// floatsOf reads a value of floats.
func floatsOf(t *testing.T, spec kernels.Spec, read func([]byte) error) []float64 {
	t.Helper()
	x, err := floatsIn(spec, read)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// floatsIn is floatsOf with an error.
func floatsIn(spec kernels.Spec, read func([]byte) error) ([]float64, error) {
	b := make([]byte, spec.Bytes())
	if err := read(b); err != nil {
		return nil, err
	}
	out := make([]float64, spec.Shape.Elems())
	for i := range out {
		if spec.Type == arena.Float32 {
			out[i] = float64(math.Float32frombits(binary.NativeEndian.Uint32(b[4*i:])))
		} else {
			out[i] = math.Float64frombits(binary.NativeEndian.Uint64(b[8*i:]))
		}
	}
	return out, nil
}
