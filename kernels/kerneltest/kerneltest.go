// Package kerneltest tests a device: its memory, streams, events and programs, and every operation
// against its float64 reference.
//
// [Test] is all that the tests of a device need to call:
//
//	func TestDevice(t *testing.T) {
//		kerneltest.Test(t, func() (kernels.Device, error) { return mine.Open(mine.Options{}) })
//	}
//
// [Operations] tests some operations only, [Norms] normalizations of extreme values, [Updates] the optimizers, and [Fill] makes
// the operands of a random case.
//
// Random cases have a fixed seed. The flag -kerneltest.seed or the environment variable
// EVENKEEL_SEED sets another one, and a failure prints it.
package kerneltest

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
)

var seedFlag = flag.Uint64("kerneltest.seed", 0, "seed of random cases; 0: that of EVENKEEL_SEED")

// opener opens a new device.
type opener = func() (kernels.Device, error)

// Test tests the device that open returns: memory, streams and events as package arena documents
// them, programs, capabilities, and every operation in float32 and float64 on random cases. It
// calls open several times, and closes each device.
func Test(t *testing.T, open func() (kernels.Device, error)) {
	t.Run("memory", func(t *testing.T) { testMemory(t, open) })
	t.Run("streams", func(t *testing.T) { testStreams(t, open) })
	t.Run("events", func(t *testing.T) { testEvents(t, open) })
	t.Run("failures", func(t *testing.T) { testFailures(t, open) })
	t.Run("close", func(t *testing.T) { testClose(t, open) })
	t.Run("not opened", func(t *testing.T) { testNotOpened(t, open) })
	t.Run("supports", func(t *testing.T) { testSupports(t, open) })
	t.Run("programs", func(t *testing.T) { testPrograms(t, open) })
	t.Run("transfers", func(t *testing.T) { testTransfers(t, open) })
	t.Run("timings", func(t *testing.T) { testTimings(t, open) })
	t.Run("operations", func(t *testing.T) { Operations(t, open, kernels.All()...) })
	t.Run("norms", func(t *testing.T) { Norms(t, open) })
	t.Run("updates", func(t *testing.T) { Updates(t, open) })
	t.Run("specials", func(t *testing.T) { testSpecials(t, open) })
	t.Run("moves", func(t *testing.T) { testMoves(t, open) })
}

// random returns a generator whose seed is printed when the test fails.
func random(t testing.TB) *rand.Rand {
	t.Helper()
	if *seedFlag == 0 {
		return seed.Rand(t, 0)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with -kerneltest.seed %d", *seedFlag)
		}
	})
	return rand.New(rand.NewPCG(*seedFlag, 0))
}

// cases returns the number of random cases for an operation.
func cases() int {
	if testing.Short() {
		return 10
	}
	return 40
}
