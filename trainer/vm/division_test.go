package vm_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// integerVector is an input with elements.
func integerVector(t *testing.T, g *gorgonia.ExprGraph, name string, elements any) *gorgonia.Node {
	t.Helper()
	v := tensor.New(tensor.WithBacking(elements))
	n := gorgonia.NewTensor(g, v.Dtype(), 1, gorgonia.WithShape(v.Shape()...), gorgonia.WithName(name))
	let(t, n, v)
	return n
}

// wantIntegers runs a machine of nodes without fallbacks, and compares their elements, as text.
func wantIntegers(t *testing.T, dev kernels.Device, g *gorgonia.ExprGraph, want map[*gorgonia.Node]string) {
	t.Helper()
	var keep gorgonia.Nodes
	for n := range want {
		keep = append(keep, n)
	}
	m := newMachine(t, dev, g, vm.Options{Keep: keep})
	newBuilder(t, tensor.Float64, 1).wantNative(m.Plan())
	mustRun(t, m)
	for n, w := range want {
		if got := fmt.Sprint(n.Value().Data()); got != w {
			t.Errorf("%v: got %s, want %s", n, got, w)
		}
	}
}

// quotients returns what Go computes, as text.
func quotients[T uint8 | int32 | int64 | int](a, b []T) string {
	y := make([]T, len(a))
	for i := range a {
		y[i] = a[i] / b[i]
	}
	return fmt.Sprint(y)
}

func TestIntegersAreDividedAsInGo(t *testing.T) {
	t8, by8 := []uint8{7, 200, 3, 0, 255}, []uint8{2, 7, 9, 1, 255}
	t32, by32 := []int32{7, -7, math.MinInt32, math.MaxInt32, 3}, []int32{-2, 2, -1, 2, -1}
	t64, by64 := []int64{7, -7, math.MinInt64, math.MaxInt64, math.MinInt64}, []int64{-2, 2, -1, -1, 3}
	tInt, byInt := []int{1<<53 + 1, -7, math.MinInt, 0, 5}, []int{1, -2, -1, -9, 7}
	each(t, func(t *testing.T, dev kernels.Device) {
		g := gorgonia.NewGraph()
		d := newBuilder(t, tensor.Float64, 1)
		want := make(map[*gorgonia.Node]string)
		for name, c := range map[string]struct {
			a, b any
			want string
		}{
			"uint8": {t8, by8, quotients(t8, by8)}, "int32": {t32, by32, quotients(t32, by32)},
			"int64": {t64, by64, quotients(t64, by64)}, "int": {tInt, byInt, quotients(tInt, byInt)},
		} {
			y := d.must(gorgonia.HadamardDiv(integerVector(t, g, "a "+name, c.a), integerVector(t, g, "b "+name, c.b)))
			want[y] = c.want
		}
		x := integerVector(t, g, "x", slices.Clone(tInt))
		want[d.must(gorgonia.HadamardDiv(x, gorgonia.NewConstant(-2)))] = quotients(tInt, []int{-2, -2, -2, -2, -2})
		wantIntegers(t, dev, g, want)
	})
}

func TestIntegersAreRaisedToPowers(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		g := gorgonia.NewGraph()
		d := newBuilder(t, tensor.Float64, 1)
		a := integerVector(t, g, "a", []int{3, 3, -2, 2, 2, 0, 1, -1, -1, 10, -7})
		b := integerVector(t, g, "b", []int{39, 41, 63, 64, -1, 0, -5, -5, -4, 19, 1})
		third := 1
		for range 41 {
			third *= 3 // wraps around
		}
		wantIntegers(t, dev, g, map[*gorgonia.Node]string{
			d.must(gorgonia.Pow(a, b)): fmt.Sprint([]int{4052555153018976267, third, math.MinInt, 0, 0, 1, 1, -1, 1, -8446744073709551616, -7}),
			d.must(gorgonia.Pow(integerVector(t, g, "small", []uint8{2, 3, 15, 0}), integerVector(t, g, "by", []uint8{7, 6, 2, 9}))): "[128 217 225 0]",
		})
	})
}

// The divisor is an input, a product of inputs, or a scalar: each time the error names the node
// that divides, and the first element. The next run is as if nothing had happened.
func TestADivisionByZeroNamesNodeAndElement(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(a, b *gorgonia.Node) (*gorgonia.Node, error)
		bad   []int
		at    int
		good  string
	}{
		{"quotient", gorgonia.HadamardDiv, []int{2, 0, 5, 0}, 1, "[3 -3 3 0]"},
		{"quotient of sums", func(a, b *gorgonia.Node) (*gorgonia.Node, error) {
			return gorgonia.HadamardDiv(a, gorgonia.Must(gorgonia.Add(b, b)))
		}, []int{2, 1, 5, 0}, 3, "[1 -1 1 0]"},
		{"power", gorgonia.Pow, []int{2, 1, 5, -1}, 3, "[49 49 49 0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, dev kernels.Device) {
				g := gorgonia.NewGraph()
				a := integerVector(t, g, "a", []int{7, -7, 7, 0})
				b := integerVector(t, g, "b", slices.Clone(c.bad))
				y, err := c.build(a, b)
				if err != nil {
					t.Fatal(err)
				}
				gorgonia.WithName("culprit")(y)
				m := newMachine(t, dev, g, vm.Options{Keep: gorgonia.Nodes{y}})
				newBuilder(t, tensor.Float64, 1).wantNative(m.Plan())
				for range 2 {
					var e *vm.DivisionError
					if err := m.RunAll(); !errors.As(err, &e) || !errors.Is(err, vm.ErrDivision) || e.Node != "culprit" || e.At != c.at {
						t.Fatalf("got %v, want a DivisionError of node culprit, element %d", err, c.at)
					}
				}
				copy(b.Value().Data().([]int), []int{2, 2, 2, 2})
				mustRun(t, m)
				if got := fmt.Sprint(y.Value().Data()); got != c.good {
					t.Errorf("after a good run: got %s, want %s", got, c.good)
				}
			})
		})
	}
}

func TestIntegersAreReducedAlongEachAxis(t *testing.T) {
	x := make([]int, 2*3*5*4)
	for i := range x {
		x[i] = math.MaxInt/7*(i%11-5) + i
	}
	shape := []int{2, 3, 5, 4}
	for _, axes := range [][]int{{0}, {1}, {2}, {3}, {0, 1}, {1, 2}, {0, 3}, {0, 2}, {1, 2, 3}, {0, 1, 2, 3}, nil} {
		t.Run(fmt.Sprint(axes), func(t *testing.T) {
			var sums, largest []int
			place := make(map[string]int)
			for i, v := range x {
				key, rest := "", i
				for k := len(shape) - 1; k >= 0; k-- {
					if len(axes) > 0 && !slices.Contains(axes, k) {
						key = fmt.Sprint(rest%shape[k], key)
					}
					rest /= shape[k]
				}
				at, ok := place[key]
				if !ok {
					at = len(sums)
					place[key], sums, largest = at, append(sums, 0), append(largest, math.MinInt)
				}
				sums[at], largest[at] = sums[at]+v, max(largest[at], v)
			}
			text := func(y []int) string {
				if len(y) == 1 {
					return fmt.Sprint(y[0])
				}
				return fmt.Sprint(y)
			}
			each(t, func(t *testing.T, dev kernels.Device) {
				g := gorgonia.NewGraph()
				d := newBuilder(t, tensor.Float64, 1)
				n := gorgonia.NewTensor(g, tensor.Int, 4, gorgonia.WithShape(shape...), gorgonia.WithName("x"))
				let(t, n, tensor.New(tensor.WithShape(shape...), tensor.WithBacking(slices.Clone(x))))
				wantIntegers(t, dev, g, map[*gorgonia.Node]string{
					d.must(gorgonia.Sum(n, axes...)): text(sums), d.must(gorgonia.Max(n, axes...)): text(largest),
				})
			})
		})
	}
}

// Gorgonia writes a mean as a quotient by sizes.
func TestAMeanOfIntegersIsRoundedTowardsZero(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		g := gorgonia.NewGraph()
		d := newBuilder(t, tensor.Float64, 1)
		x := gorgonia.NewTensor(g, tensor.Int, 3, gorgonia.WithShape(2, 3, 2), gorgonia.WithName("x"))
		let(t, x, tensor.New(tensor.WithShape(2, 3, 2), tensor.WithBacking([]int{-7, 2, 3, 4, -1, 6, 7, -8, 9, 10, -11, 12})))
		wantIntegers(t, dev, g, map[*gorgonia.Node]string{
			d.must(gorgonia.Mean(x, 0)): "[0 -3 6 7 -6 9]", d.must(gorgonia.Mean(x, 1)): "[-1 4 1 4]",
			d.must(gorgonia.Mean(x, 1, 2)): "[1 3]", d.must(gorgonia.Mean(x)): "2",
		})
	})
}
