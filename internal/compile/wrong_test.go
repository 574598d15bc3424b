package compile

import (
	"math"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Gorgonia computes these graphs, or their gradients, wrongly; the graph itself is right.
func TestWhatGorgoniaComputesWronglyIsRight(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(d *graphtest.Draft) (loss *gorgonia.Node, want func(x []float64) float64) // of the elements of all inputs
	}{
		{"log2", func(d *graphtest.Draft) (*gorgonia.Node, func([]float64) float64) {
			return d.Must(gorgonia.Sum(d.Must(gorgonia.Log2(d.Of(d.Positive, 3))))), func(x []float64) (s float64) {
				for _, v := range x {
					s += math.Log2(v)
				}
				return s
			}
		}},
		{"inverse square root", func(d *graphtest.Draft) (*gorgonia.Node, func([]float64) float64) {
			return d.Must(gorgonia.Sum(d.Must(gorgonia.InverseSqrt(d.Of(d.Positive, 3))))), func(x []float64) (s float64) {
				for _, v := range x {
					s += 1 / math.Sqrt(v)
				}
				return s
			}
		}},
		{"outer product", func(d *graphtest.Draft) (*gorgonia.Node, func([]float64) float64) {
			return d.Must(gorgonia.Sum(d.Must(gorgonia.Tanh(d.Must(gorgonia.OuterProd(d.In(3), d.In(3))))))), func(x []float64) (s float64) {
				for _, a := range x[:3] {
					for _, b := range x[3:] {
						s += math.Tanh(a * b)
					}
				}
				return s
			}
		}},
		{"an element at coordinates", func(d *graphtest.Draft) (*gorgonia.Node, func([]float64) float64) {
			return d.Must(gorgonia.Square(d.Must(gorgonia.At(d.In(2, 3), 1, 2)))), func(x []float64) float64 { return x[5] * x[5] }
		}},
		{"mean of log(p ⊙ y)", func(d *graphtest.Draft) (*gorgonia.Node, func([]float64) float64) {
			p := d.Must(gorgonia.SoftMax(d.In(2, 3)))
			y := gorgonia.NewConstant(tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float64{.2, .3, .5, .1, .8, .1})), gorgonia.WithName("y"))
			return d.Must(gorgonia.Neg(d.Must(gorgonia.Mean(d.Must(gorgonia.Log(d.Must(gorgonia.HadamardProd(p, y)))))))), func(x []float64) (s float64) {
				for i, y := range []float64{.2, .3, .5, .1, .8, .1} {
					row := x[i/3*3:][:3]
					s -= math.Log(math.Exp(x[i])/(math.Exp(row[0])+math.Exp(row[1])+math.Exp(row[2]))*y) / 6
				}
				return s
			}
		}},
		{"a large constant of one element", func(d *graphtest.Draft) (*gorgonia.Node, func([]float64) float64) {
			k := make([]float64, 2500)
			k[1234] = 3
			x := d.In(50, 50)
			return d.Must(gorgonia.Sum(d.Must(gorgonia.HadamardProd(x, gorgonia.NewConstant(tensor.New(tensor.WithShape(50, 50), tensor.WithBacking(k))))))),
				func(x []float64) float64 { return 3 * x[1234] }
		}},
		{"pieces longer than 255", func(d *graphtest.Draft) (*gorgonia.Node, func([]float64) float64) {
			x := d.In(600)
			a := d.Must(gorgonia.Slice(x, gorgonia.S(10, 20)))
			return d.Must(gorgonia.Sum(d.Must(gorgonia.Square(d.Must(gorgonia.Concat(0, x, a)))))), func(x []float64) (s float64) {
				for i, v := range x {
					if s += v * v; i >= 10 && i < 20 {
						s += v * v
					}
				}
				return s
			}
		}},
		{"a value that is reshaped and used", func(d *graphtest.Draft) (*gorgonia.Node, func([]float64) float64) {
			e := d.Must(gorgonia.Tanh(d.In(2, 3)))
			r := d.Must(gorgonia.Reshape(e, tensor.Shape{3, 2}))
			a, b := d.Must(gorgonia.Sum(d.Must(gorgonia.Square(r)))), d.Must(gorgonia.Sum(d.Must(gorgonia.Exp(e))))
			return d.Must(gorgonia.Add(a, b)), func(x []float64) (s float64) {
				for _, v := range x {
					s += math.Tanh(v)*math.Tanh(v) + math.Exp(math.Tanh(v))
				}
				return s
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
			loss, want := c.build(d)
			dev := openCPU(t)
			cfg := Config{Model: frontend.Model{Loss: loss}, Mode: Train, Device: dev, Update: updateOf(still{}, optim.Clip{}), Homes: &ir.Homes{}}
			m := load(t, dev, cfg.Homes, compileFor(t, d.Graph, cfg))
			m.start(t, d.Graph, still{})
			got := m.loss(t)
			var x, dx []float64
			for _, n := range d.Inputs {
				x = append(x, graphtest.Numbers(n.Value())...)
				dx = append(dx, m.numbers(t, ir.Gradients, n.Name())...)
			}
			if w := want(x); !graphtest.Near([]float64{got}, []float64{w}, 1e-12) {
				t.Errorf("seed %d: got %v, want %v\n%s", seed.Value(), got, w, listing(m.Program))
			}
			for i := range x {
				const step = 1e-5 // errs by the third derivative times 1e-10
				was := x[i]
				x[i] = was + step
				up := want(x)
				x[i] = was - step
				down := want(x)
				x[i] = was
				if w := (up - down) / (2 * step); !graphtest.Near(dx[i:i+1], []float64{w}, 1e-6) {
					t.Fatalf("seed %d: gradient %d: got %v, want %v\n%s", seed.Value(), i, dx[i], w, listing(m.Program))
				}
			}
		})
	}
}

// Gorgonia names a large constant by some of its elements: constants that differ elsewhere share a
// name.
func TestConstantsThatPrintAlikeHavePlacesOfTheirOwn(t *testing.T) {
	homes := &ir.Homes{}
	var refs []int64
	for _, at := range []int{1234, 1235, 1234} {
		k := make([]float64, 2500)
		k[at] = 3
		d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
		y := d.Must(gorgonia.HadamardProd(d.In(50, 50), gorgonia.NewConstant(tensor.New(tensor.WithShape(50, 50), tensor.WithBacking(k)))))
		p := compileFor(t, d.Graph, Config{Model: frontend.Model{Loss: d.Must(gorgonia.Sum(y))}, Mode: Evaluate, Homes: homes})
		refs = append(refs, p.Values[p.Constants[0].Value].Ref.Offset)
	}
	if refs[0] == refs[1] || refs[0] != refs[2] {
		t.Errorf("got places %v, want the first and the last to be one, and another", refs)
	}
}
