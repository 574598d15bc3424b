package vm_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0: a new one each run")

// TestMain demands that no test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// random returns a generator whose seed is printed when the test fails.
func random(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("-seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

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

// openCPU opens the host. At the end of the test no memory may be left.
func openCPU(t testing.TB) kernels.Device {
	dev := cputest.Open(t, cpu.Options{Threads: 2})
	t.Cleanup(func() {
		if bytes, blocks := dev.Allocated(); blocks != 0 {
			t.Errorf("%d bytes in %d blocks are left on the device", bytes, blocks)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// openEmu opens a hostile device. At the end of the test nothing may be left on it, and no two accesses may have been unordered.
func openEmu(t testing.TB) kernels.Device {
	dev := emu.Open(emu.Options{Seed: random(t).Uint64()})
	t.Cleanup(func() {
		if l := dev.Ledger(); !l.Empty() {
			t.Errorf("left on the device: %v", l)
		}
		for _, err := range dev.Races() {
			t.Error(err)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// about reports whether a and b differ by no more than tol, relative to the larger of b and 1.
func about(a, b, tol float64) bool { return math.Abs(a-b) <= tol*max(1, math.Abs(b)) }
