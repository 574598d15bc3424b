package weights_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/atomicfile"
	"github.com/evenkeel/evenkeel/internal/float16"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/weights"
	"github.com/evenkeel/evenkeel/weights/npz"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// Every call of the file system fails in turn, with one file and with shards: the former weights
// load.
func TestTheFormerFileLoadsAfterAnyFaultOfASave(t *testing.T) {
	dev := devices["cpu"](t)
	a, b := made(t, net(8), trainer.Options{Device: dev, Seed: 1}), made(t, net(8), trainer.Options{Device: dev, Seed: 2})
	old, now := values(t, a), values(t, b)
	to := made(t, net(8), trainer.Options{Device: dev, Seed: 3})
	for _, shard := range []int64{0, 100} {
		count := &atomicfile.Faults{NoSync: true}
		check(t, weights.Save(t.Context(), filepath.Join(t.TempDir(), "x.safetensors"), b, weights.SaveOptions{ShardBytes: shard}.WithFiles(count)))
		for n := range count.Calls() {
			path := filepath.Join(t.TempDir(), "x.safetensors")
			check(t, weights.Save(t.Context(), path, a, weights.SaveOptions{ShardBytes: shard}.WithFiles(&atomicfile.Faults{NoSync: true})))
			faults := &atomicfile.Faults{NoSync: true, Fail: func(i int, _, _ string) error {
				if i == n {
					return syscall.ENOSPC
				}
				return nil
			}}
			if err := weights.Save(t.Context(), path, b, weights.SaveOptions{ShardBytes: shard}.WithFiles(faults)); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("call %d: got %v", n, err)
			}
			if _, err := weights.Load(t.Context(), path, to, weights.LoadOptions{RequireChecksum: true}); err != nil {
				t.Fatalf("call %d: %v", n, err)
			}
			if got := values(t, to); differing(got, old) != nil && differing(got, now) != nil {
				t.Errorf("call %d: the weights are a mixture", n)
			}
		}
	}
}

// A model of 16 MB is saved, loaded and cloned with the memory of buffers.
func TestHostMemoryIsBounded(t *testing.T) {
	dev := devices["cpu"](t)
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		n := layers.New(g)
		x := n.Input("x", batch, 4)
		h := n.Dense(n.Dense(x, "wide", 1000, nil), "hidden", 4000, nil)
		return n.Classifier(x, n.Dense(h, "out", 3, nil))
	}
	opt := trainer.PredictorOptions{Device: dev, Batch: 1, Fields: samples(t, 1).Fields()}
	a, err := trainer.NewPredictor(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	b, err := trainer.NewPredictor(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { check(t, errors.Join(a.Close(), b.Close())) }()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	for what, f := range map[string]func() error{
		"save": func() error { return weights.Save(t.Context(), path, a, weights.SaveOptions{}) },
		"clone": func() error {
			_, err := weights.Clone(t.Context(), b, a, weights.LoadOptions{}.WithMemory(1))
			return err
		},
		"load": func() error {
			if err := weights.Save(t.Context(), path, a, weights.SaveOptions{}); err != nil {
				return err
			}
			_, err := weights.Load(t.Context(), path, b, weights.LoadOptions{}.WithMemory(1))
			return err
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := f(); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 8*weights.BufferBytes {
			t.Errorf("%s allocates %d bytes", what, got)
		}
	}
}

// A part of the model is saved, in another type and in shards, which loading widens again.
func TestWeightsAreSavedInAnotherTypeAndInParts(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		tr := made(t, net(8), trainer.Options{Device: dev})
		path := filepath.Join(t.TempDir(), "model.safetensors")
		opt := weights.SaveOptions{DType: safetensors.BFloat16, Except: []string{"norm"}, ShardBytes: 20, Metadata: map[string]string{"epoch": "3"}}
		if err := weights.Save(t.Context(), path, tr, opt); err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := f.Metadata(), opt.Metadata; !reflect.DeepEqual(got, want) {
			t.Errorf("metadata %q, want %q", got, want)
		}
		got := f.Tensors()
		slices.SortFunc(got, func(a, b safetensors.Tensor) int { return strings.Compare(a.Name, b.Name) })
		want := []safetensors.Tensor{{Name: "hidden/b", DType: "BF16", Shape: []int{8}}, {Name: "hidden/w", DType: "BF16", Shape: []int{4, 8}}, {Name: "out/b", DType: "BF16", Shape: []int{3}}, {Name: "out/w", DType: "BF16", Shape: []int{8, 3}}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		check(t, f.Close())
		exact := values(t, tr)
		if _, err := weights.Load(t.Context(), path, tr, weights.LoadOptions{Partial: true}); err != nil {
			t.Fatal(err)
		}
		rounded := values(t, tr)
		for name, b := range exact {
			x, y := dataloader.View[float32]([]byte(b)), dataloader.View[float32]([]byte(rounded[name]))
			for i := range x {
				want := x[i]
				if !strings.HasPrefix(name, "norm") {
					want = float16.FromBFloat16(float16.ToBFloat16(x[i]))
				}
				if y[i] != want {
					t.Errorf("%s: element %d of %v became %v, want %v", name, i, x[i], y[i], want)
				}
			}
		}
	})
}

// NumPy's files are read and written as well, without bfloat16.
func TestNumPysFilesAreSavedAndLoaded(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		a, b := made(t, net(8), trainer.Options{Device: dev, Seed: 1}), made(t, net(8), trainer.Options{Device: dev, Seed: 2})
		path := filepath.Join(t.TempDir(), "model.npz")
		check(t, weights.Save(t.Context(), path, a, weights.SaveOptions{}))
		if _, err := weights.Load(t.Context(), path, b, weights.LoadOptions{Exact: true, RequireChecksum: true}); err != nil {
			t.Fatal(err)
		}
		if d := differing(values(t, a), values(t, b)); d != nil {
			t.Errorf("%q differ", d)
		}
		for _, opt := range []weights.SaveOptions{{DType: safetensors.BFloat16}, {Metadata: map[string]string{"a": "b"}}} {
			if err := weights.Save(t.Context(), path, a, opt); !errors.Is(err, trainer.ErrOption) {
				t.Errorf("%+v: got %v, want ErrOption", opt, err)
			}
		}
		// A flipped bit of an array is found.
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file[bytes.Index(file, []byte("'shape'"))+100] ^= 1
		check(t, os.WriteFile(path, file, 0o600))
		if _, err := weights.Load(t.Context(), path, b, weights.LoadOptions{}); !errors.Is(err, npz.ErrFormat) {
			t.Errorf("a flipped bit: got %v, want npz.ErrFormat", err)
		}
		if d := differing(values(t, a), values(t, b)); d != nil {
			t.Errorf("%q changed", d)
		}
	})
}
