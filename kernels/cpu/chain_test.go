package cpu_test

import (
	"bytes"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
)

// eval runs one op on operands given as bytes.
func eval(t testing.TB, d *cpu.Device, op *kernels.Op, attrs any, in []kernels.Spec, data [][]byte) (kernels.Spec, []byte) {
	t.Helper()
	call, size := operandsOf(t, d, op, kernels.Case{Attrs: attrs, In: in})
	mem, err := d.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Free()
	u := &use{dev: d, call: call, mem: mem}
	for k, o := range call.In {
		copy(u.bytes(o), data[k])
	}
	run(t, d, call, mem)
	return call.Out[0].Spec, u.results()[0]
}

// run binds and launches one call.
func run(t testing.TB, d *cpu.Device, call kernels.Call, mem arena.Memory) {
	t.Helper()
	p, err := d.Bind([]kernels.Call{call}, kernels.Binding{Memory: mem, Base: []int64{0}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := d.NewStream("test")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := p.Launch(s); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
}

func TestChainsHaveTheBitsOfTheirSteps(t *testing.T) {
	r, _ := random(t)
	d := open(t, cpu.Options{Threads: 2})
	for _, float := range floats {
		for range 200 {
			c := kernels.Chain.Cases(r, float)
			u := newUse(t, r, d, kernels.Chain, c)
			u.launch(t)
			want := u.results()[0]

			specs := append([]kernels.Spec(nil), c.In...)
			var data [][]byte
			for _, o := range u.call.In {
				data = append(data, append([]byte(nil), u.bytes(o)[:o.Bytes()]...))
			}
			for _, s := range c.Attrs.(*kernels.ChainAttrs).Steps {
				var in []kernels.Spec
				var operands [][]byte
				for _, k := range []int{s.A, s.B} {
					if k >= 0 && s.Op != kernels.Fill {
						in, operands = append(in, specs[k]), append(operands, data[k])
					}
				}
				spec, y := eval(t, d, s.Op, s.Attrs, in, operands)
				specs, data = append(specs, spec), append(data, y)
			}
			got := data[len(data)-1]
			if a := c.Attrs.(*kernels.ChainAttrs); a.Reduce != nil {
				_, got = eval(t, d, a.Reduce, a.ReduceAttrs, specs[len(specs)-1:], data[len(data)-1:])
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("chain %+v of %v: fused and unfused differ", c.Attrs, c.In)
			}
			u.close(t)
		}
	}
}

func TestEveryOpIsTheSameBitsInsideAChain(t *testing.T) {
	r, seed := random(t)
	unary, binary := asmtest.ElementwiseOps(t)
	for _, level := range cpu.Levels() {
		d := open(t, cpu.Options{Threads: 1, Instructions: level})
		for _, n := range []int{5, 64, 3000} {
			x, y := asmtest.Sample32(r, 12)[:n], asmtest.Sample32(r, 12)[:n]
			r.Shuffle(n, func(i, j int) { y[i], y[j] = y[j], y[i] })
			in := []kernels.Spec{{Type: arena.Float32, Shape: kernels.Shape{n}}, {Type: arena.Float32, Shape: kernels.Shape{n}}}
			data := [][]byte{cpu.Bytes(x), cpu.Bytes(y)}
			minus, want := make([]float32, n), make([]float32, n)
			elementwise.Unary[float32](asm.Level(level-cpu.Portable), kernels.Neg, nil)(minus, x)
			check := func(op *kernels.Op, a, b int) {
				steps := []kernels.Step{{Op: kernels.Neg, A: 0, B: -1}, {Op: op, Attrs: asmtest.AttrsFor(op), A: a, B: b}}
				_, got := eval(t, d, kernels.Chain, &kernels.ChainAttrs{Steps: steps}, in, data)
				for i, v := range cpu.Elements[float32](got) {
					if !asmtest.SameFloat(float64(v), float64(want[i])) {
						t.Errorf("%s of %d and %d at %v: %g and %g give %g in a chain, %g alone (seed %v)", op.Name, a, b, level, x[i], y[i], v, want[i], seed)
						return
					}
				}
			}
			for _, op := range unary {
				elementwise.Unary[float32](asm.Level(level-cpu.Portable), op, asmtest.AttrsFor(op))(want, minus)
				check(op, 2, -1)
			}
			for _, op := range binary {
				f := elementwise.Binary[float32](asm.Level(level-cpu.Portable), op, asmtest.AttrsFor(op))
				f(want, minus, y)
				check(op, 2, 1)
				f(want, y, minus)
				check(op, 1, 2)
				f(want, minus, minus)
				check(op, 2, 2)
				f(want, y, x)
				check(op, 1, 0)
			}
		}
	}
}
