package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
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
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/loop"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

func TestMain(m *testing.M) {
	if child, ok := children[os.Getenv(childVariable)]; ok {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

// target is a device that the tests run on.
type target struct {
	name string
	open func(t testing.TB, memory int64) kernels.Device // 0 bytes: as many as it has
}

var targets = []target{
	{"cpu", func(t testing.TB, memory int64) kernels.Device {
		return cputest.OpenChecked(t, cpu.Options{Threads: 1, Memory: memory})
	}},
	{"emu", func(t testing.TB, memory int64) kernels.Device {
		return emutest.OpenChecked(t, emu.Options{Seed: 1, Memory: memory})
	}},
}

// each runs a test on every device.
func each(t *testing.T, test func(t *testing.T, dev kernels.Device)) {
	for _, d := range targets {
		t.Run(d.name, func(t *testing.T) { test(t, d.open(t, 0)) })
	}
}

// net is 4-8-3 with batch normalization and dropout.
func net(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	n := layers.New(g)
	x := n.Input("x", batch, 4)
	h := n.BatchNorm(n.Dense(x, "hidden", 8, nil), "norm", layers.ReLU)
	return n.Classifier(x, n.Dense(n.Dropout(h, "dropout", 0.25), "out", 3, nil))
}

// samples returns n samples for net.
func samples(t testing.TB, n int) *dataloader.Slices {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	x, y := make([]float32, n*4), make([]int64, n)
	for i := range x {
		x[i] = r.Float32()
	}
	for i := range y {
		y[i] = int64(r.IntN(3))
	}
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", x, 4), dataloader.Column("y", y))
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// options are those of most tests: 5 steps in an epoch of 40 samples.
func options(dev kernels.Device) trainer.Options {
	return trainer.Options{Device: dev, Batch: 8, Optimizer: optim.Adam{}, Seed: 7, Checkpoint: true,
		Schedule: optim.Warmup{Steps: 5, Then: optim.Cosine{Steps: 50}}}
}

// made returns a trainer of net that is closed at the end of the test.
func made(t testing.TB, opt trainer.Options) *trainer.Trainer {
	t.Helper()
	tr, err := trainer.New(t.Context(), net, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// opened returns a folder that is closed at the end of the test, if it is not before.
func opened(t testing.TB, dir string, opt checkpoint.Options) *checkpoint.Folder {
	t.Helper()
	f, err := checkpoint.Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// closed closes a folder.
func closed(t testing.TB, f *checkpoint.Folder) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// train trains with checkpoints until that many epochs are done, and returns the numbers of the
// steps.
func train(t testing.TB, f *checkpoint.Folder, tr *trainer.Trainer, ds dataloader.Dataset, epochs int) (all []int64) {
	t.Helper()
	for step, err := range f.Steps(context.Background(), tr, loop.Until(context.Background(), tr, ds, epochs)) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, step.Number)
	}
	return all
}

// trainTo trains with checkpoints, and leaves the loop after a step.
func trainTo(t testing.TB, f *checkpoint.Folder, tr *trainer.Trainer, ds dataloader.Dataset, step int64) {
	t.Helper()
	for s, err := range f.Steps(context.Background(), tr, loop.Until(context.Background(), tr, ds, 1000)) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Number == step {
			return
		}
	}
}

// resume restores tr from the folder, which must have a checkpoint.
func resume(t testing.TB, f *checkpoint.Folder, tr *trainer.Trainer) checkpoint.Resumed {
	t.Helper()
	r, err := f.Resume(context.Background(), tr)
	if err != nil || !r.Found {
		t.Fatalf("resumed %+v, %v", r, err)
	}
	return r
}

// bits returns all bytes of parameters and statistics.
func bits(t testing.TB, tr *trainer.Trainer) string {
	t.Helper()
	s, err := digest(tr)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// digest is bits for programs.
func digest(tr *trainer.Trainer) (string, error) {
	params, err := tr.Params()
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, p := range params {
		b := make([]byte, p.Spec.Bytes())
		if err := p.Read(b); err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "%s %x\n", p.Name, b)
	}
	return all.String(), nil
}

// uninterrupted returns the bits after that many epochs without a checkpoint.
func uninterrupted(t testing.TB, opt trainer.Options, ds dataloader.Dataset, epochs int) string {
	t.Helper()
	opt.Checkpoint = false
	tr := made(t, opt)
	for range epochs {
		if _, err := tr.Fit(context.Background(), ds); err != nil {
			t.Fatal(err)
		}
	}
	return bits(t, tr)
}

// names returns the names of all files of a folder but the lock.
func names(t testing.TB, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "lock" {
			all = append(all, e.Name())
		}
	}
	return all
}

// stepsOf returns the steps of the checkpoints.
func stepsOf(f *checkpoint.Folder) (all []int64) {
	for _, c := range f.Checkpoints() {
		all = append(all, c.Step)
	}
	return all
}
