package vm_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// TestMain demands that no test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// random returns a generator. EVENKEEL_SEED changes its numbers.
func random(t testing.TB) *rand.Rand { return seed.Rand(t, 1) }

// target is a device on which every promise is tested.
type target struct {
	name  string
	open  func(t testing.TB) kernels.Device
	count func(dev kernels.Device) counts // nil: the device does not count

	absent, zero kernels.Device // a nil pointer and a zero value of its type: not opened
}

// targets are the devices on which every promise is tested. A new one needs one line.
var targets = []target{
	{"cpu", openCPU, nil, (*cpu.Device)(nil), &cpu.Device{}},
	{"emu", openEmu, countEmu, (*emu.Device)(nil), &emu.Device{}},
}

// each runs a test on every device.
func each(t *testing.T, test func(t *testing.T, dev kernels.Device)) {
	for _, d := range targets {
		t.Run(d.name, func(t *testing.T) { test(t, d.open(t)) })
	}
}

// counts are a device's allocations.
type counts struct {
	allocs         int   // of device memory, ever
	device, pinned int64 // bytes that are allocated now
}

func countEmu(dev kernels.Device) counts {
	l := dev.(*emu.Device).Ledger()
	return counts{l.Allocs.Ever, l.DeviceBytes, l.PinnedBytes}
}

// counted returns the counts of a device. It skips the test if the device does not count.
func counted(t *testing.T, dev kernels.Device) counts {
	t.Helper()
	for _, d := range targets {
		if d.name == dev.Name() && d.count != nil {
			return d.count(dev)
		}
	}
	t.Skipf("needs a device that counts: %s does not", dev.Name())
	return counts{}
}

// openCPU opens the host.
func openCPU(t testing.TB) kernels.Device { return cputest.OpenChecked(t, cpu.Options{Threads: 2}) }

// openEmu opens the emulated device, with a seed of the test.
func openEmu(t testing.TB) kernels.Device {
	return emutest.OpenChecked(t, emu.Options{Seed: random(t).Uint64()})
}

// vector returns a tensor of one dimension.
func vector(x ...float64) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(x)), tensor.WithBacking(x))
}

// mustRun runs a machine. An error ends the test.
func mustRun(t testing.TB, machine gorgonia.VM) {
	t.Helper()
	if err := machine.RunAll(); err != nil {
		t.Fatal(err)
	}
}

// wantValue checks the elements of v.
func wantValue(t testing.TB, what string, v gorgonia.Value, want ...float64) {
	t.Helper()
	if v == nil {
		t.Fatalf("%s: no value, want %v", what, want)
	}
	if got := elements(v); !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// gradOf returns the gradient of a node.
func gradOf(t testing.TB, n *gorgonia.Node) gorgonia.Value {
	t.Helper()
	v, err := n.Grad()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// randomTensor returns a tensor of normally distributed elements.
func randomTensor(r *rand.Rand, dt tensor.Dtype, shape ...int) *tensor.Dense {
	n := tensor.Shape(shape).TotalSize()
	if dt == tensor.Float32 {
		s := make([]float32, n)
		for i := range s {
			s[i] = float32(r.NormFloat64())
		}
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(s))
	}
	s := make([]float64, n)
	for i := range s {
		s[i] = r.NormFloat64()
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(s))
}

// let binds a value to a node.
func let(t testing.TB, n *gorgonia.Node, v any) {
	t.Helper()
	if err := gorgonia.Let(n, v); err != nil {
		t.Fatal(err)
	}
}

// elements returns the elements of a value of floats or ints.
func elements(v gorgonia.Value) []float64 {
	switch x := v.Data().(type) {
	case []float64:
		return append([]float64(nil), x...)
	case float64:
		return []float64{x}
	case float32:
		return []float64{float64(x)}
	case []float32:
		var s []float64
		for _, f := range x {
			s = append(s, float64(f))
		}
		return s
	case []int:
		var s []float64
		for _, i := range x {
			s = append(s, float64(i))
		}
		return s
	}
	panic(fmt.Sprintf("%T", v))
}

// about reports whether a and b differ by at most tol, relative to the larger of b and 1.
func about(a, b, tol float64) bool { return math.Abs(a-b) <= tol*max(1, math.Abs(b)) }

// allNear reports whether a and b differ by at most tol times the largest element of b.
func allNear(a, b []float64, tol float64) bool {
	scale := 0.0
	for _, x := range b {
		scale = max(scale, math.Abs(x))
	}
	for i := range b {
		if len(a) != len(b) || !(math.Abs(a[i]-b[i]) <= tol*scale) {
			return false
		}
	}
	return true
}

// newMachine returns a machine that is closed at the end of the test.
func newMachine(t testing.TB, dev kernels.Device, g *gorgonia.ExprGraph, opt vm.Options) *vm.Machine {
	t.Helper()
	opt.Device = dev
	m, err := vm.New(g, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}
