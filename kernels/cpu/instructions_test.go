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

func TestOpenRefusesInstructionsThatAreMissing(t *testing.T) {
	const beyond = cpu.AVX512BF16 + 1 // no processor has it
	d, err := cpu.Open(cpu.Options{Threads: 1, Instructions: beyond})
	var e *cpu.InstructionsError
	if d != nil || !errors.As(err, &e) || e.Want != beyond || !errors.Is(err, kernels.ErrUnsupported) {
		t.Errorf("got %v, %v: want an InstructionsError", d, err)
	}
}

func TestOpenRefusesNegativeOptions(t *testing.T) {
	for option, o := range map[string]cpu.Options{"Threads": {Threads: -1}, "Memory": {Memory: -1}} {
		d, err := cpu.Open(o)
		var e *kernels.OptionError
		if d != nil || !errors.As(err, &e) || e.Option != option || !errors.Is(err, arena.ErrInvalid) {
			t.Errorf("%s below 0: got %v, %v: want an OptionError", option, d, err)
		}
	}
}
