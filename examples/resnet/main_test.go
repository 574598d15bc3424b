package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/examples/internal/runtest"
	"github.com/evenkeel/evenkeel/examples/internal/shapes"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

func TestALinearClassifierFailsWhereTheNetworkLearns(t *testing.T) {
	const samples, epochs = 2000, 2
	linear := example
	linear.Name = "linear"
	linear.Model = func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 3, side, side)
		return net.Classifier(x, net.Dense(net.Flatten(x, "flat"), "out", classes, nil))
	}
	baseline := *runtest.Trains(t, linear, samples, epochs, "-batch", "32").TestAccuracy
	accuracy := *runtest.Trains(t, example, samples, epochs, "-batch", "32").TestAccuracy
	if accuracy < 0.2 || accuracy < baseline+0.1 { // chance is 0.1
		t.Errorf("%d epochs of %d images: accuracy %v, of a linear classifier %v", epochs, samples, accuracy, baseline)
	}
	if !testing.Short() { // one epoch of all images
		baseline = *runtest.Trains(t, linear, 0, 1).TestAccuracy
		accuracy = runtest.Accuracy(t, example, 1)
	}
	if baseline > 0.3 || !testing.Short() && accuracy < 0.5 {
		t.Errorf("a linear classifier reaches %v, the network %v: want at most 0.3 and at least 0.5", baseline, accuracy)
	}
	t.Logf("accuracy %v; linear classifier %v", accuracy, baseline)
}

// sample returns image and label i as the training set of an epoch has them.
func sample(t *testing.T, ds dataloader.Dataset, i, epoch int) (x []byte, y byte) {
	t.Helper()
	dst := [][]byte{make([]byte, 3*side*side), make([]byte, 1)}
	if err := ds.Fetch(t.Context(), dataloader.At{Index: i, Epoch: epoch, Seed: 1}, dst); err != nil {
		t.Fatal(err)
	}
	return dst[0], dst[1][0]
}

func TestShapesAreAFunctionOfTheSeed(t *testing.T) {
	a, test, err := shapes.Sets(7, 50, 50)
	if err != nil {
		t.Fatal(err)
	}
	b, _, _ := shapes.Sets(7, 20, 1)
	c, _, _ := shapes.Sets(8, 20, 1)
	for i := range 20 {
		x, y := sample(t, a, i, 0)
		again, label := sample(t, b, i, 0)
		other, _ := sample(t, c, i, 0)
		held, _ := sample(t, test, i, 0)
		if !bytes.Equal(x, again) || y != label {
			t.Fatalf("image %d depends on how many there are", i)
		}
		if bytes.Equal(x, other) || bytes.Equal(x, held) {
			t.Fatalf("image %d is the same for another seed, or in the test set", i)
		}
	}
}

func TestAugmentationMovesAndMirrorsTheWholeImageTheSameEachTime(t *testing.T) {
	plain, _, err := shapes.Sets(1, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	ds := dataloader.Map(plain, augment)
	from, label := sample(t, plain, 0, 0)
	mirrored, moved := 0, map[[2]int]bool{}
	for epoch := range 60 {
		got, y := sample(t, ds, 0, epoch)
		again, _ := sample(t, ds, 0, epoch)
		if !bytes.Equal(got, again) || y != label {
			t.Fatalf("epoch %d: another image, or label, the second time", epoch)
		}
		dy, dx, mirror, ok := find(from, got)
		if !ok {
			t.Fatalf("epoch %d: no move of the image within %d pixels", epoch, margin)
		}
		moved[[2]int{dy, dx}] = true
		if mirror {
			mirrored++
		}
	}
	if mirrored < 10 || mirrored > 50 || len(moved) < 20 { // of 60 draws of 2, and of 81
		t.Errorf("%d of 60 mirrored, %d moves", mirrored, len(moved))
	}
}

// find returns how got is moved against from.
func find(from, got []byte) (dy, dx int, mirror, ok bool) {
	for dy := -margin; dy <= margin; dy++ {
		for dx := -margin; dx <= margin; dx++ {
			for _, mirror := range []bool{false, true} {
				if bytes.Equal(got, move(from, dy, dx, mirror)) {
					return dy, dx, mirror, true
				}
			}
		}
	}
	return 0, 0, false, false
}

// move cuts an image out of a larger one that is black around it, then mirrors its rows.
func move(from []byte, dy, dx int, mirror bool) []byte {
	out := make([]byte, len(from))
	black := make([]byte, margin)
	for c := range 3 {
		for y := max(0, -dy); y < min(side, side-dy); y++ {
			row := slices.Concat(black, from[(c*side+y+dy)*side:][:side], black)[margin+dx:][:side]
			if mirror {
				slices.Reverse(row)
			}
			copy(out[(c*side+y)*side:], row)
		}
	}
	return out
}

func TestDataNamesTheDirectoryOfCIFAR10(t *testing.T) {
	_, err := runtest.Run(example, 0, "-data", t.TempDir())
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("data_batch_1.bin")) {
		t.Errorf("got %v", err)
	}
	if train, _, err := load(run.Flags{Seed: 1}); err != nil || train.Len() != 10000 {
		t.Errorf("without -data: %v, %v", train, err)
	}
}

// TestDrawASheet writes shapes to the PNG that EVENKEEL_SHEET names, for a person to look at: a column a class.
func TestDrawASheet(t *testing.T) {
	name := os.Getenv("EVENKEEL_SHEET")
	if name == "" {
		t.Skip("needs EVENKEEL_SHEET, the name of a file to write")
	}
	ds, _, err := shapes.Sets(1, 400, 1)
	if err != nil {
		t.Fatal(err)
	}
	sheet := image.NewRGBA(image.Rect(0, 0, classes*side, 8*side))
	var rows [classes]int
	for i := range ds.Len() {
		x, y := sample(t, ds, i, 0)
		for p := range side * side {
			sheet.Set(int(y)*side+p%side, rows[y]*side+p/side, color.RGBA{x[p], x[side*side+p], x[2*side*side+p], 255})
		}
		rows[y]++
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, sheet); err != nil {
		t.Fatal(err)
	}
}

func TestAnInterruptedRunGoesOnWithTheSameBits(t *testing.T) {
	runtest.Resumes(t, example, 640)
}

func TestThePlanNeedsWhatLivesAtOnceAndNoByteMore(t *testing.T) {
	runtest.MeetsTheBound(t, example)
}

func TestThePagesShowWhatIsPrinted(t *testing.T) { runtest.Shows(t, example, 1) }
