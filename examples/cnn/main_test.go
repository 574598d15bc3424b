package main

import (
	"testing"

	"github.com/evenkeel/evenkeel/examples/internal/runtest"
	"github.com/evenkeel/evenkeel/internal/seed"
)

func TestTheNetworkLearnsDigitsInFlatMemory(t *testing.T) {
	samples, accuracy := seed.Cases(6000, 12000), seed.Cases(0.92, 0.95)
	if testing.Short() {
		samples, accuracy = 3000, 0.85
	}
	r := runtest.Trains(t, example, samples, 2)
	if r.TestAccuracy == nil || *r.TestAccuracy < accuracy {
		t.Fatalf("results %+v, want accuracy %v", r, accuracy)
	}
	t.Logf("2 epochs of %d images: accuracy %v", samples, *r.TestAccuracy)
}

func TestAnInterruptedRunGoesOnWithTheSameBits(t *testing.T) {
	runtest.Resumes(t, example, 320)
}

func TestThePlanNeedsWhatLivesAtOnceAndNoByteMore(t *testing.T) {
	runtest.MeetsTheBound(t, example)
}

func TestAccuracyIsKeptIn16Bits(t *testing.T) {
	runtest.KeepsItsAccuracy(t, example, seed.Cases(6000, 20000), 1)
}

func TestThePagesShowWhatIsPrinted(t *testing.T) { runtest.Shows(t, example, 1) }
