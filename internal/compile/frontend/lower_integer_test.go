package frontend

import (
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/kernels"
)

// integers are functions of integers, and conversions. Gorgonia computes none of a tensor and a scalar:
// see TestIntegersAreComputedInTheTypeOfTheGraph in trainer/vm.
func integers() (recipes []recipe) {
	type fn = func(a, b *gorgonia.Node) (*gorgonia.Node, error)
	compare := func(f func(a, b *gorgonia.Node, same bool) (*gorgonia.Node, error), same bool) fn {
		return func(a, b *gorgonia.Node) (*gorgonia.Node, error) { return f(a, b, same) }
	}
	functions := map[string]fn{"add": gorgonia.Add, "sub": gorgonia.Sub, "product": gorgonia.HadamardProd, "larger": gorgonia.MaxBetween,
		"smaller": gorgonia.MinBetween}
	for name, f := range map[string]func(a, b *gorgonia.Node, same bool) (*gorgonia.Node, error){"less": gorgonia.Lt, "greater": gorgonia.Gt,
		"less or equal": gorgonia.Lte, "greater or equal": gorgonia.Gte, "equal": gorgonia.Eq, "unequal": gorgonia.Ne} {
		functions[name], functions[name+", as bool"] = compare(f, true), compare(f, false)
	}
	for name, f := range functions {
		recipes = append(recipes, recipe{name + " of integers", func(d *graphtest.Draft) *gorgonia.Node {
			r, c := d.Dim(), d.Wide()
			return d.Must(f(d.Ints(5, r, c), d.Ints(5, r, c)))
		}, kernels.Integer})
	}
	return append(recipes, []recipe{
		{"broadcast sum of integers", func(d *graphtest.Draft) *gorgonia.Node {
			r, c := d.Wide(), d.Wide()
			return d.Must(gorgonia.BroadcastAdd(d.Ints(9, r, c), d.Ints(9, 1, c), nil, []byte{0}))
		}, kernels.Integer},
		{"quotient of integers", func(d *graphtest.Draft) *gorgonia.Node {
			r, c := d.Wide(), d.Wide()
			return d.Must(gorgonia.HadamardDiv(d.Ints(9, r, c), d.Must(gorgonia.Add(d.Ints(5, r, c), ones(r, c)))))
		}, kernels.Integer},
		{"quotient of integers and a constant", func(d *graphtest.Draft) *gorgonia.Node {
			r, c := d.Wide(), d.Wide()
			return d.Must(gorgonia.HadamardDiv(d.Ints(9, r, c), ones(r, c)))
		}, kernels.Integer},
		{"sum of integers along axes", func(d *graphtest.Draft) *gorgonia.Node {
			x := d.Ints(9, d.Wide(), d.Wide(), d.Wide())
			axes := d.Rand.Perm(3)[:1+d.Rand.IntN(3)]
			slices.Sort(axes)
			return d.Must(gorgonia.Sum(x, axes...))
		}, kernels.IntegerReduce},
		{"maximum of integers", func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.Max(d.Ints(9, d.Wide(), d.Wide(), d.Wide()), d.Rand.IntN(3)))
		}, kernels.IntegerReduce},
		{"sum of integer scalars", func(d *graphtest.Draft) *gorgonia.Node {
			scalar := func(name string, x int) *gorgonia.Node {
				return gorgonia.NewScalar(d.Graph, tensor.Int, gorgonia.WithName(name), gorgonia.WithValue(x))
			}
			return d.Must(gorgonia.Add(scalar("a", 3), scalar("b", d.Rand.IntN(9))))
		}, kernels.Integer},
		{"sum of int32", func(d *graphtest.Draft) *gorgonia.Node {
			return pair(d, []int32{1, -2, 1 << 30}, []int32{5, 6, 1 << 30})
		}, kernels.Integer},
		{"sum of int64", func(d *graphtest.Draft) *gorgonia.Node { return pair(d, []int64{1, -2, 3}, []int64{5, 6, 1 << 60}) }, kernels.Integer},
		{"sum of bytes", func(d *graphtest.Draft) *gorgonia.Node { return pair(d, []uint8{1, 2, 30}, []uint8{5, 6, 250}) }, kernels.Integer},
		{"integers to floats", func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.ConvType(d.Ints(9, d.Wide()), tensor.Int, d.Type))
		}, kernels.Decode},
		{"floats to integers", func(d *graphtest.Draft) *gorgonia.Node {
			return d.Must(gorgonia.ConvType(d.In(d.Wide()), d.Type, tensor.Int))
		}, kernels.Truncate},
	}...)
}

// ones returns a constant of ones.
func ones(shape ...int) *gorgonia.Node {
	return gorgonia.NewConstant(tensor.Ones(tensor.Int, shape...))
}

// pair returns the sum of a tensor with elements as, an input, and one with elements bs, a
// constant.
func pair(d *graphtest.Draft, as, bs any) *gorgonia.Node {
	a, b := tensor.New(tensor.WithBacking(as)), tensor.New(tensor.WithBacking(bs))
	x := gorgonia.NewTensor(d.Graph, a.Dtype(), 1, gorgonia.WithShape(3), gorgonia.WithName("a"), gorgonia.WithValue(a))
	return d.Must(gorgonia.Add(x, gorgonia.NewConstant(b, gorgonia.WithName("b"))))
}
