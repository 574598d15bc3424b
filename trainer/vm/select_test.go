package vm_test

import (
	"fmt"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/report"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// weighted differentiates Σ y ⊙ w by xs, with random w, and runs the graph, which must not run
// Gorgonia's code. It returns w.
func (d *builder) weighted(dev kernels.Device, y *gorgonia.Node, xs ...*gorgonia.Node) []float64 {
	d.t.Helper()
	w := d.param("w", y.Shape()...)
	loss := d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(y, w))))
	if _, err := gorgonia.Grad(loss, xs...); err != nil {
		d.t.Fatal(err)
	}
	m := newMachine(d.t, dev, d.g, vm.Options{Keep: gorgonia.Nodes{y}})
	d.wantNative(m.Plan())
	mustRun(d.t, m)
	return elements(w.Value())
}

// wantNative checks that no instruction runs Gorgonia's code.
func (d *builder) wantNative(p *report.Plan) {
	d.t.Helper()
	for _, q := range p.Programs {
		if len(q.Fallbacks) > 0 {
			d.t.Errorf("%q run Gorgonia's code", q.Fallbacks)
		}
	}
}

func (d *builder) wantNear(what string, v gorgonia.Value, want []float64) {
	d.t.Helper()
	if got := elements(v); !allNear(got, want, 1e-12) {
		d.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestElementsAreSelectedAlongEachAxis(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for axis := range 3 {
			t.Run(fmt.Sprint(axis), func(t *testing.T) {
				d := newBuilder(t, tensor.Float64, 3)
				shape, index := []int{3, 4, 5}, []int{2, 0, 2, 1, 2}
				x := d.param("x", shape...)
				at := gorgonia.NewVector(d.g, tensor.Int, gorgonia.WithShape(len(index)), gorgonia.WithName("at"))
				let(t, at, tensor.New(tensor.WithBacking(index)))
				y := d.must(gorgonia.ByIndices(x, at, axis))
				w := d.weighted(dev, y, x)
				from := elements(x.Value())
				want, grad := make([]float64, len(w)), make([]float64, len(from))
				inner := tensor.Shape(shape[axis+1:]).TotalSize()
				for i := range want {
					outer, k, j := i/(inner*len(index)), i/inner%len(index), i%inner
					source := (outer*shape[axis]+index[k])*inner + j
					want[i] = from[source]
					grad[source] += w[i]
				}
				d.wantNear("value", y.Value(), want)
				d.wantNear("gradient", gradOf(t, x), grad)
			})
		}
	})
}

func TestTheLargerAndTheSmallerShareTheGradientOfEqualElements(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for name, c := range map[string]struct {
			between func(a, b *gorgonia.Node) (*gorgonia.Node, error)
			y, of   []float64 // the value, and the share of the gradient that a gets
		}{
			"larger":  {gorgonia.MaxBetween, []float64{2, 3, 5}, []float64{0, 0.5, 1}},
			"smaller": {gorgonia.MinBetween, []float64{1, 3, 4}, []float64{1, 0.5, 0}},
		} {
			t.Run(name, func(t *testing.T) {
				d := newBuilder(t, tensor.Float64, 4)
				a, b := d.in("a", 3), d.in("b", 3)
				let(t, a, vector(1, 3, 5))
				let(t, b, vector(2, 3, 4))
				y := d.must(c.between(a, b))
				w := d.weighted(dev, y, a, b)
				da, db := make([]float64, 3), make([]float64, 3)
				for i, share := range c.of {
					da[i], db[i] = share*w[i], (1-share)*w[i]
				}
				d.wantNear("value", y.Value(), c.y)
				d.wantNear("gradient of a", gradOf(t, a), da)
				d.wantNear("gradient of b", gradOf(t, b), db)
			})
		}
	})
}

func TestUpsamplingRepeatsPixelsAndSumsTheirGradients(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 5)
		const h, width, scale = 2, 3, 3
		x := d.param("x", 2, 3, h, width)
		y := d.must(gorgonia.Upsample2D(x, scale))
		w := d.weighted(dev, y, x)
		from := elements(x.Value())
		want, grad := make([]float64, len(w)), make([]float64, len(from))
		for i := range want {
			plane, row, column := i/(h*width*scale*scale), i/(width*scale)%(h*scale), i%(width*scale)
			source := (plane*h+row/scale)*width + column/scale
			want[i] = from[source]
			grad[source] += w[i]
		}
		d.wantNear("value", y.Value(), want)
		d.wantNear("gradient", gradOf(t, x), grad)
	})
}

func TestWindowsBecomeRowsAndTheirGradientsImages(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 6)
		x := d.param("x", 2, 3, 5, 6)
		y := d.must(gorgonia.Im2Col(x, tensor.Shape{3, 2}, tensor.Shape{1, 2}, tensor.Shape{2, 1}, tensor.Shape{1, 3}))
		w := d.weighted(dev, y, x)
		from := elements(x.Value())
		want, grad := make([]float64, len(w)), make([]float64, len(from))
		s := y.Shape() // [2, 3, 7, 18]
		for i := range want {
			tap, row := i%s[3], i/s[3]
			r, c := row/s[2]%s[1]*2-1+tap/2%3, row%s[2]-2+tap%2*3
			if r < 0 || r >= 5 || c < 0 || c >= 6 {
				continue
			}
			pixel := ((row/(s[1]*s[2])*3+tap/6)*5+r)*6 + c
			want[i] = from[pixel]
			grad[pixel] += w[i]
		}
		d.wantNear("value", y.Value(), want)
		d.wantNear("gradient", gradOf(t, x), grad)
	})
}
