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

// integersOf are the numbers of a type that wrap around, and some that do not.
var integersOf = map[tensor.Dtype]any{
	tensor.Uint8: []uint8{0, 1, 2, 200, 255, 16}, tensor.Int32: []int32{0, 1, -1, math.MaxInt32, math.MinInt32, 1 << 16},
	tensor.Int64: []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1<<53 + 1}, tensor.Int: []int{0, 1, -2, math.MaxInt, math.MinInt, 1<<53 + 1},
}

// integerResult is what Go computes of a and b, as text.
func integerResult[T uint8 | int32 | int64 | int](op string, a, b []T) string {
	sum := make([]T, len(a))
	for i := range a {
		switch op {
		case "+":
			sum[i] = a[i] + b[i]
		case "-":
			sum[i] = a[i] - b[i]
		case "·":
			sum[i] = a[i] * b[i]
		case "<":
			if a[i] < b[i] {
				sum[i] = 1
			}
		case "≥":
			if a[i] >= b[i] {
				sum[i] = 1
			}
		}
	}
	return fmt.Sprint(sum)
}

// wantInteger returns what Go computes of all numbers and the one at k.
func wantInteger(op string, dt tensor.Dtype, k int) string {
	switch x := integersOf[dt].(type) {
	case []uint8:
		return integerResult(op, x, []uint8{x[k], x[k], x[k], x[k], x[k], x[k]})
	case []int32:
		return integerResult(op, x, []int32{x[k], x[k], x[k], x[k], x[k], x[k]})
	case []int64:
		return integerResult(op, x, []int64{x[k], x[k], x[k], x[k], x[k], x[k]})
	case []int:
		return integerResult(op, x, []int{x[k], x[k], x[k], x[k], x[k], x[k]})
	}
	panic("no integers")
}

func TestIntegersAreComputedInTheTypeOfTheGraph(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for dt := range integersOf {
			for op, f := range map[string]func(a, b *gorgonia.Node) (*gorgonia.Node, error){
				"+": gorgonia.Add, "-": gorgonia.Sub, "·": gorgonia.HadamardProd,
				"<": func(a, b *gorgonia.Node) (*gorgonia.Node, error) { return gorgonia.Lt(a, b, true) },
				"≥": func(a, b *gorgonia.Node) (*gorgonia.Node, error) { return gorgonia.Gte(a, b, true) },
			} {
				g := gorgonia.NewGraph()
				x := gorgonia.NewTensor(g, dt, 1, gorgonia.WithShape(6), gorgonia.WithName("x"))
				let(t, x, tensor.New(tensor.WithBacking(integersOf[dt])))
				var ys gorgonia.Nodes
				for k := range 6 {
					b := gorgonia.NewTensor(g, dt, 1, gorgonia.WithShape(6), gorgonia.WithName(fmt.Sprint("b", k)))
					one, err := x.Value().(*tensor.Dense).At(k)
					if err != nil {
						t.Fatal(err)
					}
					all := tensor.New(tensor.Of(dt), tensor.WithShape(6))
					if err := all.Memset(one); err != nil {
						t.Fatal(err)
					}
					let(t, b, all)
					y, err := f(x, b)
					if err != nil {
						t.Fatal(err)
					}
					ys = append(ys, y)
				}
				m := newMachine(t, dev, g, vm.Options{Keep: ys})
				newBuilder(t, tensor.Float64, 1).wantNative(m.Plan())
				mustRun(t, m)
				for k, y := range ys {
					if got, want := fmt.Sprint(y.Value().Data()), wantInteger(op, dt, k); got != want {
						t.Errorf("%v: all %s number %d: got %s, want %s", dt, op, k, got, want)
					}
				}
			}
		}
	})
}

// Gorgonia's machine computes none of a tensor of integers and a scalar. x ⊙ (x ≥ 0) is a pattern for
// floats only.
func TestIntegersAndScalarsAreComputed(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		g := gorgonia.NewGraph()
		d := newBuilder(t, tensor.Float64, 1)
		x := gorgonia.NewTensor(g, tensor.Int, 1, gorgonia.WithShape(3), gorgonia.WithName("x"))
		let(t, x, tensor.New(tensor.WithBacking([]int{-3, 0, 5})))
		positive := d.must(gorgonia.HadamardProd(x, d.must(gorgonia.Gte(x, gorgonia.NewConstant(0), true))))
		next := d.must(gorgonia.Add(x, gorgonia.NewConstant(2)))
		small := d.must(gorgonia.ConvType(d.must(gorgonia.Add(x, gorgonia.NewConstant(1<<32))), tensor.Int, tensor.Int32))
		m := newMachine(t, dev, g, vm.Options{Keep: gorgonia.Nodes{positive, next, small}})
		d.wantNative(m.Plan())
		mustRun(t, m)
		for _, c := range []struct {
			n    *gorgonia.Node
			want string
		}{{positive, "[0 0 5]"}, {next, "[-1 2 7]"}, {small, "[-3 0 5]"}} {
			if got := fmt.Sprint(c.n.Value().Data()); got != c.want {
				t.Errorf("%v: got %s, want %s", c.n, got, c.want)
			}
		}
	})
}
