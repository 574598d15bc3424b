package weights_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/weights"
)

func TestMain(m *testing.M) {
	if child() {
		return
	}
	goleak.VerifyTestMain(m)
}

// devices opens each kind of device.
var devices = map[string]func(t testing.TB) kernels.Device{
	"cpu": func(t testing.TB) kernels.Device { return cputest.OpenChecked(t, cpu.Options{Threads: 2}) },
	"emu": func(t testing.TB) kernels.Device { return emutest.OpenChecked(t, emu.Options{Seed: 1}) },
}

// each runs a test on every device.
func each(t *testing.T, test func(t *testing.T, dev kernels.Device)) {
	for name, open := range devices {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// net is 4-hidden-3 with batch normalization, so that it has running statistics.
func net(hidden int) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		n := layers.New(g)
		x := n.Input("x", batch, 4)
		h := n.Dense(x, "hidden", hidden, nil)
		h = n.BatchNorm(h, "norm", layers.ReLU)
		return n.Classifier(x, n.Dense(h, "out", 3, nil))
	}
}

// weightNames are those of net.
var weightNames = []string{"hidden/b", "hidden/w", "norm/beta", "norm/gamma", "norm/mean", "norm/variance", "out/b", "out/w"}

// samples returns n samples of 4 numbers and 3 classes.
func samples(t testing.TB, n int) *dataloader.Slices {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), 7))
	x, y := make([]float32, n*4), make([]uint8, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for i := range y {
		y[i] = uint8(r.IntN(3))
	}
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", x, 4), dataloader.Column("y", y))
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// made returns a trainer that is closed at the end of the test.
func made(t testing.TB, model trainer.ModelFunc, opt trainer.Options) *trainer.Trainer {
	t.Helper()
	if opt.Batch == 0 {
		opt.Batch = 8
	}
	if opt.Fields == nil {
		opt.Fields = samples(t, 1).Fields()
	}
	tr, err := trainer.New(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return tr
}

func fit(t testing.TB, tr *trainer.Trainer, ds dataloader.Dataset) {
	t.Helper()
	if _, err := tr.Fit(context.Background(), ds); err != nil {
		t.Fatal(err)
	}
}

// values returns the bytes of all weights, by name.
func values(t testing.TB, s weights.Source) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := s.ReadWeights(t.Context(), func(w trainer.Weights) error {
		for _, x := range s.Weights() {
			b := make([]byte, x.Spec.Bytes())
			if err := w.ReadAt(x.Name, b, 0); err != nil {
				return err
			}
			all[x.Name] = string(b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// differing returns the names whose values differ.
func differing(a, b map[string]string) (names []string) {
	for name := range a {
		if a[name] != b[name] {
			names = append(names, name)
		}
	}
	if len(a) != len(b) {
		names = append(names, fmt.Sprint(len(a), " and ", len(b)))
	}
	return names
}

// predictions returns a hash of all bits that are predicted.
func predictions(t testing.TB, tr *trainer.Trainer, ds dataloader.Dataset) string {
	t.Helper()
	h := sha256.New()
	for p, err := range tr.Predict(context.Background(), ds) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(h, "%x", p.Output)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
