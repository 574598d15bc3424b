package layers_test

import (
	"math"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"gorgonia.org/gorgonia"
)

// cutMixModel classifies [2, 4, 5] into 3 classes, with CutMix.
func cutMixModel(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	n := layers.New(g)
	image, other := n.Input("image", batch, 2, 4, 5), n.Input("image_partner", batch, 2, 4, 5)
	label, otherLabel := n.Labels("label", batch), n.Labels("label_partner", batch)
	mix, box := n.Input("mix", batch), n.Input("box", batch, 4)
	x := n.CutMix(image, other, box, "mixed")
	out := n.Dense(n.Flatten(x, "flat"), "out", 3, nil)
	losses := n.Mixup(n.CrossEntropy(out, label, "own"), n.CrossEntropy(out, otherLabel, "other"), mix, "losses")
	return n.Model(out, losses, nil)
}

// sampleOf returns the fields of a sample.
func sampleOf(t *testing.T, ds dataloader.Dataset, at dataloader.At) (dst [][]byte) {
	t.Helper()
	for _, f := range ds.Fields() {
		dst = append(dst, make([]byte, f.Bytes()))
	}
	if err := ds.Fetch(t.Context(), at, dst); err != nil {
		t.Fatal(err)
	}
	return dst
}

// pairedImages returns 8 images of bytes with partners: as Pairs draws them, and the same in memory.
func pairedImages(t *testing.T) (drawn dataloader.Dataset, fixed *dataloader.Slices) {
	t.Helper()
	pixels, labels := make([]uint8, 8*40), make([]uint8, 8)
	for i := range pixels {
		pixels[i] = uint8(i * 7)
	}
	for i := range labels {
		labels[i] = uint8(i % 3)
	}
	images, err := dataloader.FromSlices(8, dataloader.Column("image", pixels, 2, 4, 5).Scaled(1./255, -0.5), dataloader.Column("label", labels))
	if err != nil {
		t.Fatal(err)
	}
	if drawn, err = dataloader.Pairs(images, dataloader.PairOptions{Box: "image"}); err != nil {
		t.Fatal(err)
	}
	var all [6][]byte
	for i := range 8 {
		for k, b := range sampleOf(t, drawn, dataloader.At{Index: i, Seed: 5}) {
			all[k] = append(all[k], b...)
		}
	}
	fixed, err = dataloader.FromSlices(8, dataloader.Column("image", all[0], 2, 4, 5).Scaled(1./255, -0.5), dataloader.Column("label", all[1]),
		dataloader.Column("image_partner", all[2], 2, 4, 5).Scaled(1./255, -0.5), dataloader.Column("label_partner", all[3]),
		dataloader.Column("mix", dataloader.View[float32](all[4])), dataloader.Column("box", dataloader.View[int32](all[5]), 4))
	if err != nil {
		t.Fatal(err)
	}
	return drawn, fixed
}

// cutMixLoss is the mean loss of cutMixModel in plain Go. weights is [40, 3].
func cutMixLoss(t *testing.T, ds *dataloader.Slices, weights, bias []float64) (sum float64) {
	t.Helper()
	for i := range 8 {
		dst := sampleOf(t, ds, dataloader.At{Index: i})
		box, mix := dataloader.View[int32](dst[5]), float64(dataloader.View[float32](dst[4])[0])
		logits := append([]float64(nil), bias...)
		for p := range 40 {
			from, y, x := dst[0], int32(p/5%4), int32(p%5)
			if y >= box[0] && y < box[2] && x >= box[1] && x < box[3] {
				from = dst[2]
			}
			for c := range logits {
				logits[c] += (float64(from[p])/255 - 0.5) * weights[3*p+c]
			}
		}
		p := softmax(logits)
		sum -= mix*math.Log(p[dst[1][0]]) + (1-mix)*math.Log(p[dst[3][0]])
	}
	return sum / 8
}

func TestAModelTrainsOnMixedBytesOnEveryDevice(t *testing.T) {
	drawn, fixed := pairedImages(t)
	for _, f := range fixed.Fields() {
		if f.Name == "image" && f.Type != arena.Uint8 {
			t.Fatalf("images travel as %v", f.Type)
		}
	}
	for _, d := range devices {
		device := d.open(t)
		tr, err := trainer.New(t.Context(), cutMixModel, trainer.Options{Device: device, Batch: 4, Optimizer: optim.SGD{Rate: 0.1}, Seed: 3, Fields: drawn.Fields()})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		if _, err := tr.Fit(t.Context(), drawn); err != nil {
			t.Fatalf("%s: %v", d.name, err)
		}
		params, err := tr.Params()
		if err != nil {
			t.Fatal(err)
		}
		values := map[int][]float64{}
		for _, p := range params {
			values[p.Spec.Shape.Elems()] = floatsOf(t, p.Spec, p.Read)
		}
		got, err := tr.Evaluate(t.Context(), fixed)
		if want := cutMixLoss(t, fixed, values[120], values[3]); err != nil || math.Abs(got.Loss-want) > 1e-4*(1+want) {
			t.Errorf("%s: loss %v, %v, want %v", d.name, got.Loss, err, want)
		}
	}
}
