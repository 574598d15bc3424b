package layers_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// softmax is the reference: probabilities of one row.
func softmax(x []float64) []float64 {
	top, sum := slices.Max(x), 0.0
	p := make([]float64, len(x))
	for i, v := range x {
		p[i] = math.Exp(v - top)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

func TestCrossEntropyAndItsGradientOnATapeMachine(t *testing.T) {
	for _, dt := range types {
		for _, size := range [][2]int{{1, 1}, {1, 4}, {3, 1}, {5, 10}} {
			t.Run(fmt.Sprintf("%v %v", dt, size), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed.Value(), 1))
				b, c := size[0], size[1]
				g := gorgonia.NewGraph()
				net := layers.New(g)
				net.Type = dt
				x := net.Input("x", b, c)
				y := net.Labels("y", b)
				rows := net.CrossEntropy(x, y, "rows")
				right := net.Correct(x, y, "right")
				if net.Err() != nil {
					t.Fatal(net.Err())
				}
				loss := gorgonia.Must(gorgonia.Mean(rows))
				dx, err := gorgonia.Grad(loss, x)
				if err != nil {
					t.Fatal(err)
				}
				in := reals(r, b*c)
				if c > 1 {
					in[0] = 700 // exp overflows in float32 and nearly in float64
				}
				label := make([]int, b)
				wantRows, wantRight, wantDx := make([]float64, b), make([]float64, b), make([]float64, 0, b*c)
				for i := range label {
					label[i] = r.IntN(c)
					row := in[i*c : (i+1)*c]
					if dt == tensor.Float32 {
						for j := range row {
							row[j] = float64(float32(row[j]))
						}
					}
					p := softmax(row)
					top := slices.Max(row)
					sum := 0.0
					for _, v := range row {
						sum += math.Exp(v - top)
					}
					wantRows[i] = math.Log(sum) + top - row[label[i]]
					if row[label[i]] == top {
						wantRight[i] = 1
					}
					p[label[i]]--
					for _, v := range p {
						wantDx = append(wantDx, v/float64(b))
					}
				}
				bind(t, x, in)
				let(t, y, tensor.New(tensor.WithShape(b), tensor.WithBacking(label)))
				run(t, g)
				near(t, "rows", dt, numbers(t, rows.Value()), wantRows)
				near(t, "correct", dt, numbers(t, right.Value()), wantRight)
				near(t, "dx", dt, numbers(t, dx[0].Value()), wantDx)
			})
		}
	}
}

func TestCrossEntropyOneHotAndItsGradientOnATapeMachine(t *testing.T) {
	for _, dt := range types {
		for _, size := range [][2]int{{1, 1}, {1, 4}, {3, 1}, {5, 10}} {
			t.Run(fmt.Sprintf("%v %v", dt, size), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed.Value(), 2))
				b, c := size[0], size[1]
				g := gorgonia.NewGraph()
				net := layers.New(g)
				net.Type = dt
				x, y := net.Input("x", b, c), net.Input("y", b, c)
				rows := net.CrossEntropyOneHot(x, y, "rows")
				right := net.CorrectOneHot(x, y, "right")
				if net.Err() != nil {
					t.Fatal(net.Err())
				}
				loss := gorgonia.Must(gorgonia.Mean(rows))
				dx, err := gorgonia.Grad(loss, x, y)
				if err != nil {
					t.Fatal(err)
				}
				in, target := reals(r, b*c), reals(r, b*c) // a target need not sum to 1
				if dt == tensor.Float32 {
					for i := range in {
						in[i], target[i] = float64(float32(in[i])), float64(float32(target[i]))
					}
				}
				wantRows, wantRight, wantDx, wantDt := make([]float64, b), make([]float64, b), make([]float64, b*c), make([]float64, b*c)
				for i := range b {
					row, want := in[i*c:(i+1)*c], target[i*c:(i+1)*c]
					p, mass := softmax(row), 0.0
					for j := range p {
						mass += want[j]
						wantRows[i] -= want[j] * math.Log(p[j])
					}
					for j := range p {
						wantDx[i*c+j] = (p[j]*mass - want[j]) / float64(b)
						wantDt[i*c+j] = -math.Log(p[j]) / float64(b)
					}
					if slices.Index(row, slices.Max(row)) == slices.Index(want, slices.Max(want)) {
						wantRight[i] = 1
					}
				}
				bind(t, x, in)
				bind(t, y, target)
				run(t, g)
				near(t, "rows", dt, numbers(t, rows.Value()), wantRows)
				near(t, "correct", dt, numbers(t, right.Value()), wantRight)
				near(t, "dx", dt, numbers(t, dx[0].Value()), wantDx)
				near(t, "dtarget", dt, numbers(t, dx[1].Value()), wantDt)
			})
		}
	}
}

func TestALabelOutsideTheClassesIsNaNAndReadsNothing(t *testing.T) {
	for _, label := range []int{-1, 3, math.MaxInt} {
		g := gorgonia.NewGraph()
		net := layers.New(g)
		x, y := net.Input("x", 2, 3), net.Labels("y", 2)
		rows := net.CrossEntropy(x, y, "rows")
		dx, err := gorgonia.Grad(gorgonia.Must(gorgonia.Mean(rows)), x)
		if err != nil {
			t.Fatal(err)
		}
		bind(t, x, []float64{1, 2, 3, 4, 5, 6})
		let(t, y, tensor.New(tensor.WithShape(2), tensor.WithBacking([]int{label, 0})))
		run(t, g)
		got, grad := numbers(t, rows.Value()), numbers(t, dx[0].Value())
		if !math.IsNaN(got[0]) || math.IsNaN(got[1]) {
			t.Errorf("label %d: rows %v, want NaN for the first alone", label, got)
		}
		if !math.IsNaN(grad[0]) || math.IsNaN(grad[3]) {
			t.Errorf("label %d: gradient %v, want NaN in the first row alone", label, grad)
		}
	}
}

func TestLeakyReLUAndItsGradientForAnyRank(t *testing.T) {
	for _, dt := range types {
		for _, shape := range [][]int{{1}, {7}, {3, 4}, {2, 3, 4}} {
			r := rand.New(rand.NewPCG(seed.Value(), 3))
			g := gorgonia.NewGraph()
			net := layers.New(g)
			net.Type = dt
			x := net.Input("x", shape...)
			y := layers.LeakyReLU(0.25)(net, x, "y")
			z := layers.LeakyReLU(0.5)(net, x, "z") // another slope is another node
			if net.Err() != nil {
				t.Fatal(net.Err())
			}
			dx, err := gorgonia.Grad(gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.Add(y, z)))), x)
			if err != nil {
				t.Fatal(err)
			}
			in := reals(r, tensor.Shape(shape).TotalSize())
			in[0] = 0
			want, wantDx := make([]float64, len(in)), make([]float64, len(in))
			for i, v := range in {
				want[i], wantDx[i] = v, 2
				if v <= 0 {
					want[i], wantDx[i] = 0.25*v, 0.75
				}
			}
			bind(t, x, in)
			var read gorgonia.Value
			gorgonia.Read(y, &read)
			run(t, g)
			near(t, fmt.Sprintf("%v %v y", dt, shape), dt, numbers(t, read), want)
			near(t, fmt.Sprintf("%v %v dx", dt, shape), dt, numbers(t, dx[0].Value()), wantDx)
		}
	}
}

func TestTheGradientOfErfIsABell(t *testing.T) {
	for _, dt := range types {
		g := gorgonia.NewGraph()
		net := layers.New(g)
		net.Type = dt
		x := net.Input("x", 3, 5)
		y := layers.Erf(net, x, "y")
		if net.Err() != nil {
			t.Fatal(net.Err())
		}
		dx, err := gorgonia.Grad(gorgonia.Must(gorgonia.Sum(y)), x)
		if err != nil {
			t.Fatal(err)
		}
		in := reals(rand.New(rand.NewPCG(seed.Value(), 6)), 15)
		want := make([]float64, len(in))
		for i, v := range in {
			want[i] = 2 / math.SqrtPi * math.Exp(-v*v)
		}
		bind(t, x, in)
		run(t, g)
		near(t, "dx", dt, numbers(t, dx[0].Value()), want)
	}
}

func TestOperandsThatDoNotGoWithTheLogitsAreErrors(t *testing.T) {
	g := gorgonia.NewGraph()
	net := layers.New(g)
	x := net.Input("x", 2, 3)
	rows := net.CrossEntropy(x, net.Labels("y", 2), "rows")
	dense := net.CrossEntropyOneHot(x, net.Input("t", 2, 3), "dense")
	leaky := layers.LeakyReLU(0.1)(net, x, "leaky")
	if net.Err() != nil {
		t.Fatal(net.Err())
	}
	reals := func(dims ...int) gorgonia.Value {
		return tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(dims...))
	}
	ints := func(dims ...int) gorgonia.Value { return tensor.New(tensor.Of(tensor.Int), tensor.WithShape(dims...)) }
	for _, c := range []struct {
		name string
		op   gorgonia.Op
		in   []gorgonia.Value
	}{
		{"no labels", rows.Op(), []gorgonia.Value{reals(2, 3)}},
		{"labels as a matrix", rows.Op(), []gorgonia.Value{reals(2, 3), ints(2, 3)}},
		{"too few labels", rows.Op(), []gorgonia.Value{reals(2, 3), ints(1)}},
		{"labels that are floats", rows.Op(), []gorgonia.Value{reals(2, 3), reals(2)}},
		{"logits of three dimensions", rows.Op(), []gorgonia.Value{reals(2, 3, 1), ints(2)}},
		{"a target as a vector", dense.Op(), []gorgonia.Value{reals(2, 3), reals(2)}},
		{"a target of integers", dense.Op(), []gorgonia.Value{reals(2, 3), ints(2, 3)}},
		{"two operands of an activation", leaky.Op(), []gorgonia.Value{reals(2), reals(2)}},
	} {
		if y, err := c.op.Do(c.in...); err == nil {
			t.Errorf("%s: got %v, want an error", c.name, y)
		}
	}
}
