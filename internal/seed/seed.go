// Package seed gives random tests a generator: the same numbers in each run, or others where EVENKEEL_SEED asks for them.
//
//	EVENKEEL_SEED=42 go test ./trainer       # the numbers of seed 42
//	EVENKEEL_SEED=random go test ./trainer   # new numbers in each run
package seed

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Variable is the environment variable that names the seed: a number, "random", or nothing for a fixed one.
const Variable = "EVENKEEL_SEED"

// fixed is the seed without Variable.
const fixed = 1

// drawn is the seed of this process where Variable is "random".
var drawn = rand.Uint64()

// Random returns a generator for t. Its numbers are a function of the seed and the name of the test. If the test
// fails, it logs how to have the same numbers again.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	seed, err := parse(os.Getenv(Variable))
	if err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s=%d", Variable, seed)
		}
	})
	name := fnv.New64a()
	name.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(seed, name.Sum64()))
}

// parse returns the seed that a value of Variable means.
func parse(value string) (uint64, error) {
	switch value {
	case "":
		return fixed, nil
	case "random":
		return drawn, nil
	}
	return strconv.ParseUint(value, 10, 64)
}
