package cpu_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// The output before a fault names the op.
func TestRowsAndChainsStayInsideTheirOperands(t *testing.T) {
	r, _ := random(t)
	for _, level := range cpu.Levels() {
		d := open(t, cpu.Options{Threads: 1, Instructions: level})
		check := func(op *kernels.Op, c kernels.Case) {
			for _, upper := range []bool{false, true} {
				call, _ := operandsOf(t, d, op, c)
				m := fence(t, &call, upper)
				fillIn(r, c, call, m.b)
				run(t, d, call, m)
				if err := m.Free(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for n := 1; n <= 140; n += 1 + n/40 {
			for i, c := range rowOps(3, n) {
				check(rowOpsNames[i], c)
			}
			spec := kernels.Spec{Type: floats[0], Shape: kernels.Shape{n}}
			check(kernels.Chain, kernels.Case{In: []kernels.Spec{spec, spec}, Attrs: &kernels.ChainAttrs{Steps: []kernels.Step{
				{Op: kernels.Tanh, A: 0, B: -1}, {Op: kernels.Mul, A: 1, B: 2}, {Op: kernels.Sub, A: 0, B: 3}, {Op: kernels.Div, A: 4, B: 2}}}})
			check(kernels.Decode, kernels.Case{In: []kernels.Spec{{Type: arena.Uint8, Shape: kernels.Shape{n}}}, Attrs: kernels.DecodeAttrs{To: floats[0], Scale: 2}})
		}
	}
}
