package dataloader_test

import (
	"errors"
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// imagesOf returns n images [1, 8, 10], whose pixels are all their number, with labels.
func imagesOf(t *testing.T, n int) *dataloader.Slices {
	t.Helper()
	pixels, labels := make([]uint8, n*80), make([]int32, n)
	for i := range pixels {
		pixels[i] = uint8(i / 80)
	}
	for i := range labels {
		labels[i] = int32(i)
	}
	return must[*dataloader.Slices](t)(dataloader.FromSlices(n, dataloader.Column("image", pixels, 1, 8, 10), dataloader.Column("label", labels)))
}

func TestPairsHaveAPartnerAndACoefficient(t *testing.T) {
	const n = 50
	images := imagesOf(t, n)
	for _, alpha := range []float64{0.01, 0.2, 1, 5} {
		ds := must[dataloader.Dataset](t)(dataloader.Pairs(images, dataloader.PairOptions{Alpha: alpha}))
		partners := make([]int, n)
		sum, squares, count := 0.0, 0.0, 0
		dst := memoryOf(ds)
		for epoch := range 100 {
			for i := range n {
				at := dataloader.At{Index: i, Epoch: epoch, Seed: 3}
				if err := ds.Fetch(t.Context(), at, dst); err != nil {
					t.Fatal(err)
				}
				partner, mix := int(dst[2][0]), float64(dataloader.View[float32](dst[4])[0])
				if int(dst[0][79]) != i || int(dataloader.View[int32](dst[1])[0]) != i || int(dataloader.View[int32](dst[3])[0]) != partner || mix < 0 || mix > 1 {
					t.Fatalf("sample %d: %v", i, dst)
				}
				partners[partner]++
				sum, squares, count = sum+mix, squares+mix*mix, count+1
				again := memoryOf(ds)
				if err := ds.Fetch(t.Context(), at, again); err != nil || int(again[2][0]) != partner || float64(dataloader.View[float32](again[4])[0]) != mix {
					t.Fatalf("the second fetch of sample %d differs, %v", i, err)
				}
			}
		}
		// Beta(a, a) has mean 1/2 and variance 1/(8a + 4).
		mean, variance := sum/float64(count), squares/float64(count)-sum*sum/float64(count)/float64(count)
		if want := 1 / (8*alpha + 4); math.Abs(mean-0.5) > 5*math.Sqrt(want/float64(count)) || math.Abs(variance-want) > 0.05*want {
			t.Errorf("alpha %v: mean %v, variance %v, want 0.5, %v", alpha, mean, variance, want)
		}
		for i, c := range partners { // 100 expected
			if c < 50 || c > 150 {
				t.Errorf("sample %d was partner %d times of 5000", i, c)
			}
		}
		if a := testing.AllocsPerRun(100, func() { _ = ds.Fetch(t.Context(), dataloader.At{}, dst) }); a != 0 {
			t.Errorf("Fetch allocates %v times", a)
		}
	}
}

// memoryOf returns memory for one sample.
func memoryOf(ds dataloader.Dataset) (dst [][]byte) {
	for _, f := range ds.Fields() {
		dst = append(dst, make([]byte, f.Bytes()))
	}
	return dst
}

func TestTheBoxOfAPairIsItsShareOfTheImage(t *testing.T) {
	ds := must[dataloader.Dataset](t)(dataloader.Pairs(imagesOf(t, 20), dataloader.PairOptions{Box: "image", Share: 0.5}))
	dst := memoryOf(ds)
	plain, sizes, centre := 0, map[int]bool{}, map[int]int{}
	for epoch := range 50 {
		for i := range 20 {
			if err := ds.Fetch(t.Context(), dataloader.At{Index: i, Epoch: epoch}, dst); err != nil {
				t.Fatal(err)
			}
			mix, box := float64(dataloader.View[float32](dst[4])[0]), dataloader.View[int32](dst[5])
			area := int(box[2]-box[0]) * int(box[3]-box[1])
			if box[0] < 0 || box[1] < 0 || box[2] > 8 || box[3] > 10 || box[2] < box[0] || box[3] < box[1] || math.Abs(mix-(1-float64(area)/80)) > 1e-6 {
				t.Fatalf("box %v with coefficient %v", box, mix)
			}
			if mix == 1 {
				plain++
			}
			if area > 0 {
				centre[int(box[0]+box[2])*10/8]++ // halves of rows
			}
			sizes[area] = true
		}
	}
	upper, lower := 0, 0
	for c, n := range centre {
		switch {
		case c < 10:
			upper += n
		case c > 10:
			lower += n
		}
	}
	if math.Abs(float64(upper-lower)) > 100 { // even on both sides of the middle
		t.Errorf("%d boxes lie above the middle, %d below", upper, lower)
	}
	if plain < 430 || plain > 680 || len(sizes) < 20 { // half are not mixed, and some boxes are empty
		t.Errorf("%d of 1000 are not mixed, boxes have %d sizes", plain, len(sizes))
	}
}

func TestPairsOfWrongOptionsAreErrors(t *testing.T) {
	images := imagesOf(t, 4)
	for i, c := range []struct {
		ds  dataloader.Dataset
		opt dataloader.PairOptions
		is  error
	}{
		{images, dataloader.PairOptions{Alpha: -1}, dataloader.ErrOption}, {images, dataloader.PairOptions{Alpha: math.NaN()}, dataloader.ErrOption},
		{images, dataloader.PairOptions{Share: 1.5}, dataloader.ErrOption}, {images, dataloader.PairOptions{Box: "picture"}, dataloader.ErrOption},
		{images, dataloader.PairOptions{Box: "label"}, dataloader.ErrField}, {nil, dataloader.PairOptions{}, dataloader.ErrOption},
		{must[dataloader.Dataset](t)(dataloader.Pairs(images, dataloader.PairOptions{})), dataloader.PairOptions{}, dataloader.ErrField},
	} {
		if _, err := dataloader.Pairs(c.ds, c.opt); !errors.Is(err, c.is) {
			t.Errorf("case %d: got %v", i, err)
		}
	}
}
