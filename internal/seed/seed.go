// Package seed seeds random tests: every run tests the same cases, and EVENKEEL_SEED selects others.
//
// [Value] is the seed; [Rand] returns a generator and prints the seed if the test fails; [Cases]
// returns how many cases a test computes.
package seed

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Value returns the number in the environment variable EVENKEEL_SEED, a new random one if it is
// "random", and 1 if it is not set. Within a process the value does not change.
func Value() uint64 { return value }

var value = read(os.Getenv("EVENKEEL_SEED"))

// read returns the seed that the text sets.
func read(text string) uint64 {
	switch text {
	case "":
		return 1
	case "random":
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("EVENKEEL_SEED=%s: must be a number or random: %v", text, err))
	}
	return n
}

// Rand returns a generator seeded by Value and stream: generators of different streams are
// independent. If t fails, the log shows how to repeat the run.
func Rand(t testing.TB, stream uint64) *rand.Rand {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with EVENKEEL_SEED=%d", value)
		}
	})
	return rand.New(rand.NewPCG(value, stream))
}
