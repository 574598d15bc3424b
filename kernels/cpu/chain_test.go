package cpu_test

import (
	"bytes"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
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
