package vm_test

import (
	"fmt"
	"math"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// Values have the Go type and the shape that they have after a run of a tape machine: a scalar, a
// tensor of shape (), and one of shape (1) are three things.
func TestValuesHaveTheTypesAndShapesOfTheTapeMachine(t *testing.T) {
	nodes := func(d *builder) map[string]*gorgonia.Node {
		one, v, m, c, s := d.param("one", 1), d.param("v", 3), d.param("m", 2, 3), d.param("c", 3, 1), d.param("s", 2, 2, 3, 3)
		row, a := d.param("row", 1, 3), gorgonia.NewScalar(d.g, d.dt, gorgonia.WithName("a"))
		if let(d.t, a, 0.5); d.dt == tensor.Float32 {
			let(d.t, a, float32(0.5))
		}
		n := make(map[string]*gorgonia.Node)
		add := func(name string) func(*gorgonia.Node, error) {
			return func(y *gorgonia.Node, err error) { n[name] = d.must(y, err) }
		}
		add("neg of a scalar")(gorgonia.Neg(a))
		add("neg of (1)")(gorgonia.Neg(one))
		add("scalar + scalar")(gorgonia.Add(a, d.must(gorgonia.Exp(a))))
		add("scalar ⊙ vector")(gorgonia.HadamardProd(a, v))
		add("scalar ⊙ (1)")(gorgonia.HadamardProd(a, one))
		add("comparison of scalars")(gorgonia.Gt(a, d.must(gorgonia.Exp(a)), true))
		add("comparison of vectors")(gorgonia.Gt(v, d.must(gorgonia.Exp(v)), false))
		add("sum")(gorgonia.Sum(m))
		add("sum of (1)")(gorgonia.Sum(one))
		add("sum along 0")(gorgonia.Sum(m, 0))
		add("sum along 1")(gorgonia.Sum(m, 1))
		add("sum along 0 and 1")(gorgonia.Sum(m, 0, 1))
		add("sum of a vector along 0")(gorgonia.Sum(v, 0))
		add("sum of a column along 0")(gorgonia.Sum(c, 0))
		add("sum of a row along 0")(gorgonia.Sum(row, 0))
		add("mean")(gorgonia.Mean(m))
		add("mean along 1")(gorgonia.Mean(m, 1))
		add("mean of a vector along 0")(gorgonia.Mean(v, 0))
		add("max")(gorgonia.Max(m))
		add("max along 0")(gorgonia.Max(m, 0))
		add("max of a vector along 0")(gorgonia.Max(v, 0))
		add("dot")(gorgonia.Mul(v, d.param("v2", 3)))
		add("row × column")(gorgonia.Mul(row, c))
		add("matrix × vector")(gorgonia.Mul(m, v))
		add("matrix × column")(gorgonia.Mul(m, c))
		add("outer")(gorgonia.OuterProd(v, v))
		add("row of a matrix")(gorgonia.Slice(m, gorgonia.S(1)))
		add("rows of a matrix")(gorgonia.Slice(m, gorgonia.S(1, 2)))
		add("column of a matrix")(gorgonia.Slice(m, nil, gorgonia.S(1)))
		add("columns of a matrix")(gorgonia.Slice(m, nil, gorgonia.S(1, 3)))
		add("element of a vector")(gorgonia.Slice(v, gorgonia.S(1)))
		add("element of a matrix")(gorgonia.Slice(m, gorgonia.S(1), gorgonia.S(2)))
		add("reshape to (1, 3)")(gorgonia.Reshape(v, tensor.Shape{1, 3}))
		add("transpose of a column")(gorgonia.Transpose(c, 1, 0))
		add("softmax of a vector")(gorgonia.SoftMax(v))
		add("concat of (1)")(gorgonia.Concat(0, one, d.must(gorgonia.Exp(one))))
		add("global average")(gorgonia.GlobalAveragePool2D(s))
		add("max pool")(gorgonia.MaxPool2D(s, tensor.Shape{3, 3}, []int{0, 0}, []int{1, 1}))
		return n
	}
	for _, dt := range []tensor.Dtype{tensor.Float64, tensor.Float32} {
		t.Run(dt.String(), func(t *testing.T) {
			want := make(map[string]string)
			describe := func(v gorgonia.Value) string {
				if v == nil {
					return "no value"
				}
				return fmt.Sprintf("%T %v %v", v, v.Shape(), v.Dtype())
			}
			ref := newBuilder(t, dt, 1)
			refs := nodes(ref)
			tape := gorgonia.NewTapeMachine(ref.g)
			defer tape.Close()
			mustRun(t, tape)
			for name, n := range refs {
				want[name] = describe(n.Value())
			}
			for _, target := range targets {
				d := newBuilder(t, dt, 1)
				ns := nodes(d)
				opt := vm.Options{} // nodes that others read have no value otherwise
				for _, n := range ns {
					opt.Keep = append(opt.Keep, n)
				}
				dev := target.open(t)
				mustRun(t, newMachine(t, dev, d.g, opt))
				bare := newMachine(t, dev, d.g, vm.Options{}) // computes on demand what others read
				for name, n := range ns {
					if got := describe(n.Value()); got != want[name] {
						t.Errorf("%s: %s is %s, on a tape machine %s", target.name, name, got, want[name])
					}
					if got := describe(valueOf(t, bare, n)); got != want[name] {
						t.Errorf("%s: ValueOf %s is %s, on a tape machine %s", target.name, name, got, want[name])
					}
				}
			}
		})
	}
}

// A tape machine overwrites a reshaped value that is still read: of this graph it reads x over the square of the divisor.
func TestReshapedValuesAreNotOverwritten(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		x, y := d.in("x", 2), d.in("y", 2)
		let(t, x, vector(-0.5, 1))
		let(t, y, vector(0.25, -2))
		quotient := d.must(gorgonia.HadamardDiv(x, d.must(gorgonia.Exp(d.must(gorgonia.Tanh(y))))))
		shaped := d.must(gorgonia.Reshape(quotient, tensor.Shape{2}))
		var read gorgonia.Value
		gorgonia.Read(shaped, &read)
		if _, err := gorgonia.Grad(d.must(gorgonia.Mean(d.must(gorgonia.Tanh(shaped)))), x, y); err != nil {
			t.Fatal(err)
		}
		mustRun(t, newMachine(t, dev, d.g, vm.Options{}))
		want := []float64{-0.5 / math.Exp(math.Tanh(0.25)), 1 / math.Exp(math.Tanh(-2))}
		q := []float64{math.Tanh(want[0]), math.Tanh(want[1])}
		if got := elements(read); !allNear(got, want, 1e-12) {
			t.Errorf("the reshaped value is %v, want %v", got, want)
		}
		dq := []float64{(1 - q[0]*q[0]) / 2, (1 - q[1]*q[1]) / 2}
		dx := []float64{dq[0] * want[0] / -0.5, dq[1] * want[1]}
		dy := []float64{-dq[0] * want[0] * (1 - math.Pow(math.Tanh(0.25), 2)), -dq[1] * want[1] * (1 - math.Pow(math.Tanh(-2), 2))}
		if got := elements(gradOf(t, x)); !allNear(got, dx, 1e-12) {
			t.Errorf("dx is %v, want %v", got, dx)
		}
		if got := elements(gradOf(t, y)); !allNear(got, dy, 1e-12) {
			t.Errorf("dy is %v, want %v", got, dy)
		}
	})
}
