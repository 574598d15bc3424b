package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// A kernel that touches a byte outside of its operands ends the test binary with a fault; the output before it names the op.
func TestNormalizationsAndPoolsStayInsideTheirOperandsAtEveryLevel(t *testing.T) {
	r, seed := random(t)
	var cases []timed
	for i, s := range normShapes() {
		if s.Elems() > 20_000 {
			continue
		}
		for _, op := range normOps[:7] {
			if op != kernels.RunningStat {
				c := normCase(op, s, floats[i%2], i%4 < 2)
				cases = append(cases, timed{"", op, c.Attrs, c.In})
			}
		}
		cases = append(cases, timed{"", kernels.Dropout, kernels.DropoutAttrs{Rate: 0.5},
			[]kernels.Spec{{Type: arena.Float32, Shape: s}, kernels.ControlsSpec}})
	}
	pools(func(a kernels.PoolAttrs, s kernels.Shape) {
		out, err := kernels.MaxPool.Infer(a, []kernels.Spec{{Type: arena.Float32, Shape: s}})
		if err != nil {
			t.Fatal(err)
		}
		grad := kernels.PoolGradAttrs{PoolAttrs: a, Size: [2]int{s[2], s[3]}}
		cases = append(cases, timed{"", kernels.MaxPool, a, []kernels.Spec{{Type: arena.Float32, Shape: s}}},
			timed{"", kernels.AvgPool, a, []kernels.Spec{{Type: arena.Float32, Shape: s}}},
			timed{"", kernels.MaxPoolGrad, grad, []kernels.Spec{out[1], out[0]}},
			timed{"", kernels.AvgPoolGrad, grad, out[:1]})
	})
	for _, d := range levels(t, 1) {
		for i, c := range cases {
			values := kernels.Case{Attrs: c.attrs, In: c.in, Fill: func(r *rand.Rand, k int, v []float64) {
				for j := range v {
					v[j] = float64(r.IntN(4))
				}
			}}
			call, _ := operandsOf(t, d, c.op, values)
			m := fence(t, &call, i%2 == 0)
			fillIn(r, values, call, m.b)
			func() {
				defer func() {
					if v := recover(); v != nil {
						panic(fmt.Sprintf("%s %v of %v, seed %d: %v", c.op.Name, c.attrs, c.in, seed, v))
					}
				}()
				run(t, d, call, m)
			}()
			if err := m.Free(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
