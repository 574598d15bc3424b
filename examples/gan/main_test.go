package main

import (
	"context"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/examples/internal/runtest"
)

func TestBothLearnInFlatMemoryAndTheirDigitsAreDrawn(t *testing.T) {
	samples, epochs := 30000, 3 // the digits are foggy still
	if testing.Short() {
		samples, epochs = 600, 2
	}
	file := filepath.Join(t.TempDir(), "digits.png")
	r := runtest.Trains(t, example, samples, epochs, "-picture", file)
	for name, losses := range map[string]run.Losses{"training": r.TrainLosses, "test": r.TestLosses} {
		d, g := losses["discriminator"], losses["generator"]
		if len(losses) != 2 || !(d > 0.3 && d < 1.8) || !(g > 0.3 && g < 4) {
			t.Errorf("losses of %s %v: one of both has won", name, losses)
		}
	}
	if want := int64(samples * (side*side + 4*code)); r.UploadBytesPerEpoch != want {
		t.Errorf("%d bytes uploaded in an epoch, want %d", r.UploadBytesPerEpoch, want)
	}
	digits := digitsIn(t, file)
	if testing.Short() {
		return
	}
	real := reals(t, 2000)
	near, random := distance(digits, real), distance(shuffled(digits), real)
	t.Logf("mean distance to the nearest of %d test digits: %.2f, with shuffled pixels %.2f; ink %.3f, of MNIST %.3f",
		len(real), near, random, ink(digits), ink(real))
	if near > 0.85*random {
		t.Errorf("generated digits are as far from the test digits as shuffled pixels are: %.2f and %.2f", near, random)
	}
	if a, b := ink(digits), ink(real); a < b/2 || a > 2*b {
		t.Errorf("generated digits have the mean brightness %.3f, those of MNIST %.3f", a, b)
	}
	if s := spread(digits); s < spread(real)/3 {
		t.Errorf("generated digits differ from their mean by %.2f, those of MNIST by %.2f: they are all alike", s, spread(real))
	}
}

// digitsIn returns the brightness of the digits in a picture.
func digitsIn(t *testing.T, file string) [][]float64 {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	picture, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if want := image.Rect(0, 0, columns*cell+gap, columns*cell+gap); picture.Bounds() != want {
		t.Fatalf("a picture of %v, want %v", picture.Bounds(), want)
	}
	digits := make([][]float64, columns*columns)
	for k := range digits {
		digits[k] = make([]float64, side*side)
		for i := range digits[k] {
			grey, _, _, _ := picture.At(gap+k%columns*cell+i%side*enlarge, gap+k/columns*cell+i/side*enlarge).RGBA()
			digits[k][i] = float64(grey) / 0xffff
		}
	}
	return digits
}

// reals returns the first n digits of the test set.
func reals(t *testing.T, n int) [][]float64 {
	t.Helper()
	_, test, err := load(run.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	digits, dst := make([][]float64, n), [][]byte{make([]byte, side*side), make([]byte, 4*code)}
	for k := range digits {
		if err := test.Fetch(context.Background(), dataloader.At{Index: k}, dst); err != nil {
			t.Fatal(err)
		}
		digits[k] = make([]float64, side*side)
		for i, b := range dst[0] {
			digits[k][i] = float64(b) / 255
		}
	}
	return digits
}

// shuffled returns images with the pixels of each in another order.
func shuffled(images [][]float64) [][]float64 {
	random := dataloader.At{Seed: 1}.Rand()
	to := make([][]float64, len(images))
	for k, x := range images {
		to[k] = append([]float64(nil), x...)
		for i := len(x) - 1; i > 0; i-- {
			j := random.IntN(i + 1)
			to[k][i], to[k][j] = to[k][j], to[k][i]
		}
	}
	return to
}

// apart is the distance of two images.
func apart(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return math.Sqrt(sum)
}

// distance is the mean distance of images to the nearest of others.
func distance(images, others [][]float64) float64 {
	sum := 0.0
	for _, x := range images {
		nearest := math.Inf(1)
		for _, y := range others {
			nearest = min(nearest, apart(x, y))
		}
		sum += nearest
	}
	return sum / float64(len(images))
}

// mean is the mean of images.
func mean(images [][]float64) []float64 {
	m := make([]float64, len(images[0]))
	for _, x := range images {
		for i := range x {
			m[i] += x[i] / float64(len(images))
		}
	}
	return m
}

// ink is the mean brightness of images.
func ink(images [][]float64) float64 {
	sum := 0.0
	for _, x := range mean(images) {
		sum += x
	}
	return sum / float64(len(images[0]))
}

// spread is the mean distance of images to their mean.
func spread(images [][]float64) float64 {
	sum, m := 0.0, mean(images)
	for _, x := range images {
		sum += apart(x, m)
	}
	return sum / float64(len(images))
}

func TestDigitsAreDrawnOfResidentData(t *testing.T) {
	file := filepath.Join(t.TempDir(), "digits.png")
	if _, err := runtest.Run(example, 600, "-epochs", "1", "-resident", "-picture", file); err != nil {
		t.Fatal(err)
	}
	digitsIn(t, file)
}

func TestWhatFitsIsShown(t *testing.T) {
	if out, err := runtest.Run(example, 600, "-what-fits", "24MiB"); err != nil || len(out) == 0 {
		t.Errorf("%v, output %q", err, out)
	}
}

func TestNoiseIsNormalAndDiffersBetweenEpochs(t *testing.T) {
	b := [3][]byte{}
	for i, at := range []dataloader.At{{Index: 3}, {Index: 3}, {Index: 3, Epoch: 1}} {
		b[i] = make([]byte, 4*code)
		if err := (noise{samples: 9}).Fetch(t.Context(), at, [][]byte{b[i]}); err != nil {
			t.Fatal(err)
		}
	}
	if string(b[0]) != string(b[1]) || string(b[0]) == string(b[2]) {
		t.Error("noise must be that of the sample in its epoch, and of no other epoch")
	}
	sum, squares, n := 0.0, 0.0, 0
	for k := range 500 {
		if err := (noise{samples: 500}).Fetch(t.Context(), dataloader.At{Index: k}, b[:1]); err != nil {
			t.Fatal(err)
		}
		for _, z := range dataloader.View[float32](b[0]) {
			sum, squares, n = sum+float64(z), squares+float64(z)*float64(z), n+1
		}
	}
	if m, v := sum/float64(n), squares/float64(n); math.Abs(m) > 0.03 || math.Abs(v-1) > 0.05 {
		t.Errorf("mean %v and variance %v, want 0 and 1", m, v)
	}
}

func TestAnInterruptedRunGoesOnWithTheSameBits(t *testing.T) {
	runtest.Resumes(t, example, 320, "-picture", "")
}

func TestThePlanNeedsWhatLivesAtOnceAndNoByteMore(t *testing.T) {
	runtest.MeetsTheBound(t, example)
}
