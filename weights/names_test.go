package weights_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights"
)

// A name of another format is refused, as its readers could not read the file.
func TestNamesOfOtherFormatsAreRefused(t *testing.T) {
	dir, tr := t.TempDir(), made(t, net(8), trainer.Options{Device: devices["cpu"](t)})
	for _, name := range []string{"a.pt", "a.pth", "a.bin", "a.onnx", "a.PT", "a.npy", "a.safetensors.index.json"} {
		path := filepath.Join(dir, name)
		err := weights.Save(t.Context(), path, tr, weights.SaveOptions{})
		if !errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), `".safetensors"`) || !strings.Contains(err.Error(), `".npz"`) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is written", name)
		}
	}
	for _, name := range []string{"a", "a.safetensors", "a.npz", "epoch.3", "a.pt.safetensors"} {
		check(t, weights.Save(t.Context(), filepath.Join(dir, name), tr, weights.SaveOptions{}))
	}
}

func TestErrorsOfCloneSayClone(t *testing.T) {
	dev := devices["cpu"](t)
	tr, other := made(t, net(8), trainer.Options{Device: dev}), made(t, net(7), trainer.Options{Device: dev})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	bad := made(t, net(8), trainer.Options{Device: dev})
	spoil(t, bad, "hidden/w", 3)
	for what, c := range map[string]struct {
		call func() (weights.Report, error)
		is   error
	}{
		"shapes": {func() (weights.Report, error) { return weights.Clone(t.Context(), tr, other, weights.LoadOptions{}) }, trainer.ErrData},
		"pattern": {func() (weights.Report, error) {
			return weights.Clone(t.Context(), tr, bad, weights.LoadOptions{Only: []string{"none"}})
		}, trainer.ErrOption},
		"values":      {func() (weights.Report, error) { return weights.Clone(t.Context(), tr, bad, weights.LoadOptions{}) }, trainer.ErrNonFinite},
		"no target":   {func() (weights.Report, error) { return weights.Clone(t.Context(), nil, tr, weights.LoadOptions{}) }, trainer.ErrOption},
		"no source":   {func() (weights.Report, error) { return weights.Clone(t.Context(), tr, nil, weights.LoadOptions{}) }, trainer.ErrOption},
		"its context": {func() (weights.Report, error) { return weights.Clone(cancelled, tr, other, weights.LoadOptions{}) }, context.Canceled},
	} {
		_, err := c.call()
		if !errors.Is(err, c.is) {
			t.Errorf("%s: got %v, want %v", what, err, c.is)
		} else if s := err.Error(); !strings.HasPrefix(s, "clone weights: ") || strings.Count(s, "weights: ") != 1 {
			t.Errorf("%s: %s", what, s)
		}
	}
	var e *trainer.WeightsError
	if _, err := weights.Clone(t.Context(), tr, other, weights.LoadOptions{}); !errors.As(err, &e) || len(e.Other) == 0 {
		t.Errorf("got %v, want a *WeightsError", err)
	}
	path := filepath.Join(t.TempDir(), "a.safetensors")
	check(t, weights.Save(t.Context(), path, other, weights.SaveOptions{}))
	if _, err := weights.Load(t.Context(), path, tr, weights.LoadOptions{}); err == nil || !strings.HasPrefix(err.Error(), "load weights: ") {
		t.Errorf("Load: got %v", err)
	}
}

// Save names the weights that are not finite, and no other one, wherever they are in the file.
func TestSaveNamesOnlyTheWeightsThatAreNotFinite(t *testing.T) {
	dev := devices["cpu"](t)
	for _, name := range []string{"hidden/b", "norm/gamma", "out/w"} {
		for _, file := range []string{"a.safetensors", "a.npz"} {
			tr := made(t, net(8), trainer.Options{Device: dev})
			spoil(t, tr, name, 1)
			path := filepath.Join(t.TempDir(), file)
			err := weights.Save(t.Context(), path, tr, weights.SaveOptions{})
			var bad *weights.ValueError
			if !errors.As(err, &bad) || len(bad.Tensors) != 1 || bad.Tensors[0] != (weights.BadValue{Name: name, Index: 1, Value: "NaN", Count: 1}) {
				t.Fatalf("%s, %s: got %v", name, file, err)
			}
			for _, other := range weightNames {
				if strings.Contains(err.Error(), other) != (other == name) {
					t.Errorf("%s, %s: %v", name, file, err)
				}
			}
			if _, err := os.Stat(path); err == nil {
				t.Errorf("%s, %s: the file is written", name, file)
			}
		}
	}
}

// spoil sets an element of a weight to NaN.
func spoil(t *testing.T, tr *trainer.Trainer, name string, element int64) {
	t.Helper()
	check(t, tr.WriteWeights(t.Context(), func(w trainer.Weights) error {
		return w.WriteAt(name, floats(float32(math.NaN())), 4*element)
	}))
}
