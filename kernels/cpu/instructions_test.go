package cpu_test

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

func TestInstructionsAreNamed(t *testing.T) {
	for _, want := range []cpu.Instructions{cpu.Best, cpu.Portable, cpu.AVX2, cpu.AVX512, cpu.AVX512BF16} {
		var got cpu.Instructions
		if err := got.UnmarshalText([]byte(want.String())); err != nil || got != want {
			t.Errorf("%v: got %v, %v", want, got, err)
		}
	}
	got := cpu.AVX2
	if err := got.UnmarshalText(nil); err != nil || got != cpu.Best {
		t.Errorf("no name: got %v, %v", got, err)
	}
	if err := got.UnmarshalText([]byte("sse")); err == nil {
		t.Error("sse: no error")
	}
}

func TestADeviceSaysWhatItsKernelsAreMadeOf(t *testing.T) {
	best, err := open(t, cpu.Options{Threads: 1, Instructions: cpu.Portable}).Instructions()
	if err != nil || best != cpu.Portable {
		t.Errorf("portable: got %v, %v", best, err)
	}
	if best, err = open(t, cpu.Options{Threads: 1}).Instructions(); err != nil || best == cpu.Best {
		t.Errorf("best: got %v, %v", best, err)
	}
}

func TestInstructionsThatAreMissingAreRefusedByEveryCall(t *testing.T) {
	const beyond = cpu.AVX512BF16 + 1 // none has it
	d := cpu.OpenWith(cpu.Options{Threads: 1, Instructions: beyond})
	defer d.Close()
	_, instructions := d.Instructions()
	_, info := d.Info()
	_, alloc := d.Alloc(8)
	_, pin := d.Pin(8)
	_, stream := d.NewStream("s")
	_, event := d.NewEvent()
	_, bind := d.Bind(nil, kernels.Binding{})
	v := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{2}}
	supports := d.Supports(kernels.Relu, nil, []kernels.Spec{v}, []kernels.Spec{v})
	for what, err := range map[string]error{"instructions": instructions, "info": info, "alloc": alloc, "pin": pin, "stream": stream,
		"event": event, "bind": bind, "supports": supports} {
		var e *cpu.InstructionsError
		if !errors.As(err, &e) || e.Want != beyond || !errors.Is(err, kernels.ErrUnsupported) {
			t.Errorf("%s: got %v, want an InstructionsError", what, err)
		}
	}
}
