package kerneltest

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
)

// planted is a device that runs another's programs, and then does one thing wrong.
type planted struct {
	kernels.Device
	launches int
	wrong    func(p *planted, mem []byte, c kernels.Call, base []int64)
}

func (p *planted) Bind(calls []kernels.Call, at kernels.Binding) (kernels.Program, error) {
	prog, err := p.Device.Bind(calls, at)
	return &faulty{prog, p, calls[0], at}, err
}

type faulty struct {
	kernels.Program
	dev  *planted
	call kernels.Call
	at   kernels.Binding
}

// Launch runs the call, and then writes to memory what the fault wants there, by way of a pinned copy.
func (f *faulty) Launch(s arena.Stream) error {
	if err := f.Program.Launch(s); err != nil {
		return err
	}
	f.dev.launches++
	b := &bench{f.dev.Device, s}
	mem, err := b.read(f.at.Memory)
	if err != nil {
		return err
	}
	f.dev.wrong(f.dev, mem, f.call, f.at.Base)
	return b.write(f.at.Memory, mem)
}

// place returns where an operand starts.
func place(o kernels.Operand, base []int64) int64 { return base[o.Ref.Region] + o.Ref.Offset }

func TestPlantedFaultsAreFound(t *testing.T) {
	flip := func(mem []byte, at int64) { mem[at] ^= 0x40 }
	faults := map[string]struct {
		wrong func(p *planted, mem []byte, c kernels.Call, base []int64)
		says  string
	}{
		"none": {func(*planted, []byte, kernels.Call, []int64) {}, ""},
		"a write past the output": {func(_ *planted, mem []byte, c kernels.Call, base []int64) {
			flip(mem, place(c.Out[0], base)+c.Out[0].Bytes())
		}, "from output 0"},
		"a write before the output": {func(_ *planted, mem []byte, c kernels.Call, base []int64) {
			flip(mem, place(c.Out[0], base)-1)
		}, "was written"},
		"a changed input": {func(_ *planted, mem []byte, c kernels.Call, base []int64) {
			flip(mem, place(c.In[1], base))
		}, "byte 0 from input 1"},
		"a wrong result": {func(_ *planted, mem []byte, c kernels.Call, base []int64) {
			flip(mem, place(c.Out[0], base)+3)
		}, "element 0"},
		"a result that is not the same twice": {func(p *planted, mem []byte, c kernels.Call, base []int64) {
			mem[place(c.Out[0], base)] = byte(p.launches)
		}, "other bits than launch 0"},
		"a result that differs in place": {func(_ *planted, mem []byte, c kernels.Call, base []int64) {
			if c.In[0].Ref == c.Out[0].Ref {
				at := mem[place(c.Out[0], base):]
				binary.LittleEndian.PutUint32(at, binary.LittleEndian.Uint32(at)^1)
			}
		}, "in place of input 0"},
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			b := openBench(t, func() (kernels.Device, error) {
				d, err := emu.Open(emu.Options{})
				return &planted{Device: d, wrong: f.wrong}, err
			})
			r := rand.New(rand.NewPCG(1, 2))
			c := kernels.Case{In: []kernels.Spec{{Type: arena.Float32, Shape: kernels.Shape{5}}, {Type: arena.Float32, Shape: kernels.Shape{5}}}}
			err := b.check(kernels.Add, c, Fill(r, c), arena.Float32, false)
			if f.says == "" && err != nil || f.says != "" && (err == nil || !strings.Contains(err.Error(), f.says)) {
				t.Errorf("got %v, want an error with %q", err, f.says)
			}
		})
	}
}

func TestAGraphPanicsWithAnErrorWhereShapesDoNotFit(t *testing.T) {
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, kernels.ErrShape) {
			t.Errorf("got %v, want an error that wraps ErrShape", err)
		}
	}()
	g := &kernels.Eager{}
	x := g.Input(kernels.Tensor{Spec: kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{2}}, Data: make([]float64, 2)})
	g.Apply(kernels.MatMul, kernels.MatMulAttrs{}, x, x)
}
