package compile

import (
	"math"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Gorgonia computes these graphs, or their gradients, wrongly; the graph itself is right.
func TestWhatGorgoniaComputesWronglyIsRight(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(d *draft) (loss *gorgonia.Node, want func(x []float64) float64) // of the elements of all inputs
	}{
		{"log2", func(d *draft) (*gorgonia.Node, func([]float64) float64) {
			return d.must(gorgonia.Sum(d.must(gorgonia.Log2(d.of(d.positive, 3))))), func(x []float64) (s float64) {
				for _, v := range x {
					s += math.Log2(v)
				}
				return s
			}
		}},
		{"inverse square root", func(d *draft) (*gorgonia.Node, func([]float64) float64) {
			return d.must(gorgonia.Sum(d.must(gorgonia.InverseSqrt(d.of(d.positive, 3))))), func(x []float64) (s float64) {
				for _, v := range x {
					s += 1 / math.Sqrt(v)
				}
				return s
			}
		}},
		{"outer product", func(d *draft) (*gorgonia.Node, func([]float64) float64) {
			return d.must(gorgonia.Sum(d.must(gorgonia.Tanh(d.must(gorgonia.OuterProd(d.in(3), d.in(3))))))), func(x []float64) (s float64) {
				for _, a := range x[:3] {
					for _, b := range x[3:] {
						s += math.Tanh(a * b)
					}
				}
				return s
			}
		}},
		{"an element at coordinates", func(d *draft) (*gorgonia.Node, func([]float64) float64) {
			return d.must(gorgonia.Square(d.must(gorgonia.At(d.in(2, 3), 1, 2)))), func(x []float64) float64 { return x[5] * x[5] }
		}},
		{"mean of log(p ⊙ y)", func(d *draft) (*gorgonia.Node, func([]float64) float64) {
			p := d.must(gorgonia.SoftMax(d.in(2, 3)))
			y := gorgonia.NewConstant(tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float64{.2, .3, .5, .1, .8, .1})), gorgonia.WithName("y"))
			return d.must(gorgonia.Neg(d.must(gorgonia.Mean(d.must(gorgonia.Log(d.must(gorgonia.HadamardProd(p, y)))))))), func(x []float64) (s float64) {
				for i, y := range []float64{.2, .3, .5, .1, .8, .1} {
					row := x[i/3*3:][:3]
					s -= math.Log(math.Exp(x[i])/(math.Exp(row[0])+math.Exp(row[1])+math.Exp(row[2]))*y) / 6
				}
				return s
			}
		}},
		{"a large constant of one element", func(d *draft) (*gorgonia.Node, func([]float64) float64) {
			k := make([]float64, 2500)
			k[1234] = 3
			x := d.in(50, 50)
			return d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(x, gorgonia.NewConstant(tensor.New(tensor.WithShape(50, 50), tensor.WithBacking(k))))))),
				func(x []float64) float64 { return 3 * x[1234] }
		}},
		{"pieces longer than 255", func(d *draft) (*gorgonia.Node, func([]float64) float64) {
			x := d.in(600)
			a := d.must(gorgonia.Slice(x, gorgonia.S(10, 20)))
			return d.must(gorgonia.Sum(d.must(gorgonia.Square(d.must(gorgonia.Concat(0, x, a)))))), func(x []float64) (s float64) {
				for i, v := range x {
					if s += v * v; i >= 10 && i < 20 {
						s += v * v
					}
				}
				return s
			}
		}},
		{"a value that is reshaped and used", func(d *draft) (*gorgonia.Node, func([]float64) float64) {
			e := d.must(gorgonia.Tanh(d.in(2, 3)))
			r := d.must(gorgonia.Reshape(e, tensor.Shape{3, 2}))
			a, b := d.must(gorgonia.Sum(d.must(gorgonia.Square(r)))), d.must(gorgonia.Sum(d.must(gorgonia.Exp(e))))
			return d.must(gorgonia.Add(a, b)), func(x []float64) (s float64) {
				for _, v := range x {
					s += math.Tanh(v)*math.Tanh(v) + math.Exp(math.Tanh(v))
				}
				return s
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDraft(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
			loss, want := c.build(d)
			dev := openCPU(t)
			cfg := Config{Model: frontend.Model{Loss: loss}, Mode: Train, Device: dev, Update: updateOf(still{}, optim.Clip{}), Homes: &ir.Homes{}}
			m := load(t, dev, cfg.Homes, compileFor(t, d.g, cfg))
			m.start(t, d.g, still{})
			got := m.loss(t)
			var x, dx []float64
			for _, n := range d.inputs {
				x = append(x, numbers(n.Value())...)
				dx = append(dx, m.numbers(t, ir.Gradients, n.Name())...)
			}
			if w := want(x); !near([]float64{got}, []float64{w}, 1e-12) {
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
				if w := (up - down) / (2 * step); !near(dx[i:i+1], []float64{w}, 1e-6) {
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
		d := newDraft(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
		y := d.must(gorgonia.HadamardProd(d.in(50, 50), gorgonia.NewConstant(tensor.New(tensor.WithShape(50, 50), tensor.WithBacking(k)))))
		p := compileFor(t, d.g, Config{Model: frontend.Model{Loss: d.must(gorgonia.Sum(y))}, Mode: Evaluate, Homes: homes})
		refs = append(refs, p.Values[p.Constants[0].Value].Ref.Offset)
	}
	if refs[0] == refs[1] || refs[0] != refs[2] {
		t.Errorf("got places %v, want the first and the last to be one, and another", refs)
	}
}
