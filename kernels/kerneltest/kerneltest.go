// Package kerneltest checks any device against the reference of every operation.
//
// [Test] is the one line of test that a device needs, [Operations] its part for some operations.
package kerneltest

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/kernels"
)

var seedFlag = flag.Uint64("kerneltest.seed", 0, "seed of random cases; 0: one from the clock")

// Test checks the device that open returns: memory, streams and events as package arena states them, programs, and every
// operation in float32 and float64 on random cases. open is called several times and gives a new device each time;
// Test closes it.
func Test(t *testing.T, open func() kernels.Device) {
	t.Run("memory", func(t *testing.T) { testMemory(t, open) })
	t.Run("streams", func(t *testing.T) { testStreams(t, open) })
	t.Run("events", func(t *testing.T) { testEvents(t, open) })
	t.Run("failures", func(t *testing.T) { testFailures(t, open) })
	t.Run("close", func(t *testing.T) { testClose(t, open) })
	t.Run("not opened", func(t *testing.T) { testNotOpened(t, open) })
	t.Run("supports", func(t *testing.T) { testSupports(t, open) })
	t.Run("programs", func(t *testing.T) { testPrograms(t, open) })
	t.Run("transfers", func(t *testing.T) { testTransfers(t, open) })
	t.Run("operations", func(t *testing.T) { Operations(t, open, kernels.All()...) })
	t.Run("specials", func(t *testing.T) { testSpecials(t, open) })
}

// random returns a generator whose seed is printed when the test fails.
func random(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with -kerneltest.seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// cases returns how many random cases an operation gets.
func cases() int {
	if testing.Short() {
		return 10
	}
	return 40
}
