package cpu_test

import (
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// random returns a generator and its seed, which is printed when the test fails.
func random(t testing.TB) (*rand.Rand, uint64) {
	t.Helper()
	return seed.Rand(t, 0), seed.Value()
}

// A use is one call of an op, bound to memory of its own with the operands' first contents.
type use struct {
	dev    *cpu.Device
	call   kernels.Call
	mem    arena.Memory
	first  []byte // what mem holds before a launch
	prog   kernels.Program
	stream arena.Stream
}

// open opens a device that the test closes.
func open(t testing.TB, o cpu.Options) *cpu.Device {
	t.Helper()
	d := cputest.Open(t, o)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// operandsOf gives every operand of a case a place, outputs on the inputs that they update.
func operandsOf(t testing.TB, d *cpu.Device, op *kernels.Op, c kernels.Case) (call kernels.Call, size int64) {
	t.Helper()
	out, err := op.Infer(c.Attrs, c.In)
	if err != nil {
		t.Fatalf("%s: %v", op.Name, err)
	}
	call = kernels.Call{Op: op, Attrs: c.Attrs, Label: op.Name}
	place := func(bytes int64) arena.Ref {
		r := arena.Ref{Offset: size, Size: bytes}
		size += arena.Round(bytes)
		return r
	}
	for _, s := range c.In {
		call.In = append(call.In, kernels.Operand{Spec: s, Ref: place(s.Bytes())})
	}
	updates := op.UpdatesFor(c.Attrs)
	for k, s := range out {
		o := kernels.Operand{Spec: s}
		if k < len(updates) {
			o.Ref = call.In[updates[k]].Ref
		} else {
			o.Ref = place(s.Bytes())
		}
		call.Out = append(call.Out, o)
	}
	call.Work = place(d.Workspace(op, c.Attrs, c.In, out))
	return call, size
}

// newUse binds a case on d, with values from r.
func newUse(t testing.TB, r *rand.Rand, d *cpu.Device, op *kernels.Op, c kernels.Case) *use {
	t.Helper()
	call, size := operandsOf(t, d, op, c)
	u := &use{dev: d, call: call}
	var err error
	if u.mem, err = d.Alloc(size); err != nil {
		t.Fatal(err)
	}
	all := u.mem.Bytes() // it locks the device, so not once a byte
	for i := range all {
		all[i] = 0xff
	}
	for k, o := range call.In {
		v := make([]float64, o.Shape.Elems())
		switch {
		case c.Fill != nil:
			c.Fill(r, k, v)
		case o.Type.Float() || o.Type.Half():
			for i := range v {
				v[i] = r.NormFloat64()
			}
		}
		kernels.Store(u.bytes(o), o.Type, v)
	}
	u.first = append([]byte(nil), u.mem.Bytes()...)
	if u.prog, err = d.Bind([]kernels.Call{call}, kernels.Binding{Memory: u.mem, Base: []int64{0}}); err != nil {
		t.Fatalf("%s %v: %v", op.Name, c.In, err)
	}
	if u.stream, err = d.NewStream("test"); err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *use) bytes(o kernels.Operand) []byte {
	return u.mem.Bytes()[o.Ref.Offset : o.Ref.Offset+o.Ref.Size]
}

// launch restores the first contents and runs the call.
func (u *use) launch(t testing.TB) {
	t.Helper()
	copy(u.mem.Bytes(), u.first)
	if err := u.prog.Launch(u.stream); err != nil {
		t.Fatalf("%s: %v", u.call.Op.Name, err)
	}
	if err := u.stream.Sync(); err != nil {
		t.Fatalf("%s: %v", u.call.Op.Name, err)
	}
}

// results returns copies of the outputs.
func (u *use) results() [][]byte {
	var all [][]byte
	for _, o := range u.call.Out {
		all = append(all, append([]byte(nil), u.bytes(o)...))
	}
	return all
}

// close frees what newUse made.
func (u *use) close(t testing.TB) {
	t.Helper()
	for _, f := range []func() error{u.prog.Close, u.stream.Close, u.mem.Free} {
		if err := f(); err != nil {
			t.Error(err)
		}
	}
}

// factorSpecs returns the specs of Adafactor's states.
func factorSpecs(param kernels.Spec) (rows, columns kernels.Spec) {
	s := kernels.AdafactorStates(param)
	return s[0].Spec, s[1].Spec
}

var floats = []arena.DType{arena.Float32, arena.Float64}
