package main

import (
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/examples/internal/runtest"
	"github.com/evenkeel/evenkeel/internal/seed"
)

func TestTheAutoencoderLearnsInFlatMemoryAndDrawsWhatItLearned(t *testing.T) {
	samples, loss := seed.Cases(9000, 18000), seed.Cases(0.05, 0.03)
	if testing.Short() {
		samples, loss = 6000, 0.06 // the mean digit of all leaves 0.067
	}
	file := filepath.Join(t.TempDir(), "digits.png")
	r := runtest.Trains(t, example, samples, 3, "-picture", file)
	if r.TestLoss > loss || r.TestAccuracy != nil || r.UploadBytesPerEpoch != int64(samples*side*side) {
		t.Errorf("results %+v, want loss %v", r, loss)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	picture, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	const cell = side*enlarge + gap
	if want := image.Rect(0, 0, columns*cell+gap, 2*cell+gap); picture.Bounds() != want {
		t.Fatalf("a picture of %v, want %v", picture.Bounds(), want)
	}
	// The lower row is about as far from the upper one as the outputs of the whole test set are from their inputs.
	if got := difference(picture, cell); got == 0 || math.Abs(got-r.TestLoss) > r.TestLoss {
		t.Errorf("the picture's digits differ by %v on average, the test set's by %v", got, r.TestLoss)
	}
	t.Logf("3 epochs of %d images: test loss %v", samples, r.TestLoss)
}

// difference is the mean squared difference of the pixels of both rows of a picture.
func difference(picture image.Image, cell int) float64 {
	sum := 0.0
	for p := range columns * side * side {
		x, y := gap+p/(side*side)*cell+p%side*enlarge, gap+p/side%side*enlarge
		above, _, _, _ := picture.At(x, y).RGBA()
		below, _, _, _ := picture.At(x, y+cell).RGBA()
		d := (float64(above) - float64(below)) / 0xffff
		sum += d * d
	}
	return sum / (columns * side * side)
}

func TestAPictureIsDrawnOfResidentData(t *testing.T) {
	file := filepath.Join(t.TempDir(), "digits.png")
	if _, err := runtest.Run(example, 600, "-epochs", "1", "-resident", "-picture", file); err != nil {
		t.Fatal(err)
	}
}

func TestAnyOtherPictureIsAMapOfTheMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.svg")
	if _, err := runtest.Run(example, 600, "-plan", "-picture", file); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "<svg") {
		t.Errorf("%v, %d bytes", err, len(b))
	}
}

func TestAnInterruptedRunGoesOnWithTheSameBits(t *testing.T) {
	runtest.Resumes(t, example, 960, "-picture", "")
}

func TestThePlanNeedsWhatLivesAtOnceAndNoByteMore(t *testing.T) {
	runtest.MeetsTheBound(t, example)
}
