package layers_test

import (
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// count returns 0, 1, 2, … as an input of the given shape.
func count(n int) []float64 {
	d := make([]float64, n)
	for i := range d {
		d[i] = float64(i)
	}
	return d
}

// TestNodesThatGorgoniaMergesAreDistinct has graphs in which Gorgonia's own nodes would be one, and the
// value that every element of the result has.
func TestNodesThatGorgoniaMergesAreDistinct(t *testing.T) {
	for _, c := range []struct {
		name  string
		in    []int
		build func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node
		want  func(i int) float64
	}{
		{"slices whose bounds differ by 256", []int{2, 512}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			part := func(start int) *gorgonia.Node {
				return n.Slice(x, "", layers.Range{Axis: 1, Start: start, End: start + 128})
			}
			return gorgonia.Must(gorgonia.Sub(part(0), part(256)))
		}, func(int) float64 { return -256 }},
		{"gates of 128 units", []int{2, 512}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			gates := n.Split(x, "gates", 1, 128, 128, 128, 128)
			return gorgonia.Must(gorgonia.Sub(gorgonia.Must(gorgonia.Sub(gates[0], gates[2])), gorgonia.Must(gorgonia.Sub(gates[3], gates[1]))))
		}, func(int) float64 { return -512 }},
		{"steps 256 apart", []int{3, 300, 2}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return gorgonia.Must(gorgonia.Sub(n.At(x, "", 1, 256), n.At(x, "", 1, 0)))
		}, func(int) float64 { return 512 }},
		{"constants that print alike", []int{2, 64}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			mask := func(v float64) *gorgonia.Node {
				d := make([]float64, 128)
				d[30] = v
				return n.Constant(d, "", 2, 64)
			}
			a, b := mask(1000), mask(2000)
			return gorgonia.Must(gorgonia.Sub(gorgonia.Must(gorgonia.Add(x, b)), gorgonia.Must(gorgonia.Add(x, a))))
		}, func(i int) float64 { return map[bool]float64{true: 1000}[i == 30] }},
		{"softmax and its logarithm", []int{2, 8}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			share, log := n.Softmax(x, "share"), n.LogSoftmax(x, "log")
			apart := n.Abs(n.Sub(n.Log(share, ""), log, ""), "")
			return n.Less(apart, n.Constant(1e-9, ""), "") // as one node, the share would be its own logarithm
		}, func(int) float64 { return 1 }},
		{"sums of other axes", []int{3, 3}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			return n.Sub(n.Sum(x, "", layers.Reduce{Axes: []int{1}}), n.Sum(x, "", layers.Reduce{Axes: []int{0}}), "")
		}, func(i int) float64 { return []float64{-6, 0, 6}[i] }},
		{"operations of two nets", []int{2, 8}, func(n *layers.Net, x *gorgonia.Node) *gorgonia.Node {
			other := layers.New(x.Graph())
			first := n.Slice(x, "first", layers.Range{Axis: 1, Start: 0, End: 4})
			second := other.Slice(x, "second", layers.Range{Axis: 1, Start: 4, End: 8})
			return gorgonia.Must(gorgonia.Sub(second, first))
		}, func(int) float64 { return 4 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			size := tensor.Shape(c.in).TotalSize()
			var out *gorgonia.Node
			model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
				n := layers.New(g)
				n.Type = tensor.Float64
				x := n.Input("x", append([]int{batch}, c.in[1:]...)...)
				out = c.build(n, x)
				return trainer.Model{Inputs: n.Inputs(), Output: out, Loss: gorgonia.Must(gorgonia.Mean(out))}, n.Err()
			}
			check := func(who string, got []float64) {
				t.Helper()
				for i, v := range got {
					if v != c.want(i) {
						t.Fatalf("%s: element %d is %v, want %v", who, i, v, c.want(i))
					}
				}
			}
			if _, err := model(gorgonia.NewGraph(), c.in[0]); err != nil {
				t.Fatal(err)
			}
			x := out.Graph().ByName("x")[0]
			bind(t, x, count(size))
			var read gorgonia.Value
			gorgonia.Read(out, &read)
			run(t, out.Graph())
			check("tape machine", numbers(t, read))

			data, err := dataloader.FromSlices(c.in[0], dataloader.Column("x", count(size), c.in[1:]...))
			if err != nil {
				t.Fatal(err)
			}
			for _, device := range devices {
				tr, err := trainer.New(t.Context(), model, trainer.Options{Device: device.open(t), Batch: c.in[0], Fields: data.Fields()})
				if err != nil {
					t.Fatal(err)
				}
				var got []float64
				for p, err := range tr.Predict(t.Context(), data) {
					if err != nil {
						t.Fatal(err)
					}
					for _, v := range p.Output {
						got = append(got, float64(v))
					}
				}
				check(device.name, got)
				if err := tr.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Activations of one operand are nodes of their own, each with its name, also where Gorgonia would make
// one node of two.
func TestActivationsOfOneOperandKeepTheirNames(t *testing.T) {
	for name, act := range map[string]layers.Activation{"relu": layers.ReLU, "leaky relu": layers.LeakyReLU(0.1), "sigmoid": layers.Sigmoid,
		"tanh": layers.Tanh, "gelu": layers.GELU, "clamp": layers.Clamp(0, 1)} {
		n := layers.New(gorgonia.NewGraph())
		x := n.Input("x", 2, 3)
		all := gorgonia.Nodes{act(n, x, "first"), act(n, x, "second"), act(n, x, ""), act(n, x, "")}
		if err := n.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		names := make(map[string]bool)
		for _, y := range all {
			names[y.Name()] = true
		}
		if len(names) != 4 || !names["first"] || !names["second"] {
			t.Errorf("%s: the nodes are called %v", name, names)
		}
		if act(n, x, "first"); n.Err() == nil {
			t.Errorf("%s: a name twice is accepted", name)
		}
	}
}

// BenchmarkPlanOfAnUnrolledNet plans a net of 3,000 time steps, of three nodes each, that all read one
// input.
func BenchmarkPlanOfAnUnrolledNet(b *testing.B) {
	const steps = 3000
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		n := layers.New(g)
		x := n.Input("x", batch, steps, 8)
		h := n.Param("w", layers.Ones{}, batch, 8)
		for s := range steps {
			h = gorgonia.Must(gorgonia.Add(h, n.At(x, "", 1, s)))
		}
		return trainer.Model{Inputs: n.Inputs(), Output: h, Loss: gorgonia.Must(gorgonia.Mean(h)), Params: n.Params()}, n.Err()
	}
	dev := devices[0].open(b)
	for b.Loop() {
		if _, err := trainer.Plan(b.Context(), model, trainer.Options{Device: dev, Batch: 2}); err != nil {
			b.Fatal(err)
		}
	}
}
