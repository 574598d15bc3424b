package cpu_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// fenced runs a case between pages that fault, against the upper one and the lower one.
func fenced(t *testing.T, d *cpu.Device, op *kernels.Op, c kernels.Case) {
	t.Helper()
	r, _ := random(t)
	for _, upper := range []bool{true, false} {
		call, _ := operandsOf(t, d, op, c)
		m := fence(t, &call, upper)
		fillIn(r, c, call, m.b)
		run(t, d, call, m)
		if err := m.Free(); err != nil {
			t.Fatal(err)
		}
	}
}

// Tails of every length, at every level, for kernels that read and write under masks.
func TestTailsStayInsideTheirOperands(t *testing.T) {
	r, _ := random(t)
	rules := updateOps(r)
	for _, d := range levels(t, 1) {
		for n := 1; n <= 70; n++ {
			for _, float := range floats {
				one := []kernels.Spec{{Type: float, Shape: kernels.Shape{n}}}
				for _, op := range rules {
					fenced(t, d, op, resized(op.Cases(r, float), n))
				}
				if c := kernels.Adam8.Cases(r, float); n > 64 { // whole blocks and one that is not
					fill := c.Fill
					c = coded(c.Attrs.(kernels.Adam8Attrs), kernels.Block8*(n%3)+n-65)
					c.Fill = fill
					fenced(t, d, kernels.Adam8, c)
				}
				p := kernels.Spec{Type: float, Shape: kernels.Shape{3, n}}
				c := kernels.Adafactor.Cases(r, float)
				c.In[0], c.In[1] = p, p
				c.In[len(c.In)-2], c.In[len(c.In)-1] = factorSpecs(p)
				fenced(t, d, kernels.Adafactor, c)
				for _, op := range []*kernels.Op{kernels.Sum, kernels.Max} {
					for axis, shape := range []kernels.Shape{{3, n}, {n, 3}} {
						in := []kernels.Spec{{Type: float, Shape: shape}}
						fenced(t, d, op, kernels.Case{Attrs: kernels.ReduceAttrs{Axes: []int{axis}}, In: in})
						fenced(t, d, op, kernels.Case{Attrs: kernels.ReduceAttrs{Axes: []int{1 - axis}}, In: in})
					}
				}
				fenced(t, d, kernels.SumSquares, kernels.Case{In: one})
				fenced(t, d, kernels.CheckFinite, kernels.Case{Attrs: kernels.CheckFiniteAttrs{Code: 1}, In: []kernels.Spec{one[0], kernels.GuardSpec}})
			}
			for _, typ := range []arena.DType{arena.Uint8, arena.Float32, arena.Float64} {
				in := []kernels.Spec{{Type: typ, Shape: kernels.Shape{n, 1 + r.IntN(40)}}}
				fenced(t, d, kernels.Transpose, kernels.Case{Attrs: kernels.TransposeAttrs{Perm: []int{1, 0}}, In: in})
			}
		}
	}
}
