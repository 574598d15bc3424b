package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// limit bounds the difference of outputs, relative to the largest: float32 rounds to 6e-8, and the
// sums of both libraries are in another order.
const limit = 1e-5

// devices are those on which weights are loaded.
var devices = map[string]func(t testing.TB) kernels.Device{
	"cpu": func(t testing.TB) kernels.Device { return cputest.OpenChecked(t, cpu.Options{Threads: 1}) },
	"emu": func(t testing.TB) kernels.Device { return emutest.OpenChecked(t, emu.Options{}) },
}

// What PyTorch saved predicts here what it predicted there.
func TestNetsOfPyTorchPredictTheSameHere(t *testing.T) {
	for file, name := range map[string]string{"mlp": "mlp", "mlp-bf16": "mlp", "mlp-f16": "mlp", "cnn": "cnn", "lstm": "lstm", "gru": "gru",
		"encoder": "encoder", "gpt2": "gpt2"} {
		for device, open := range devices {
			t.Run(file+" "+device, func(t *testing.T) { predictsTheSame(t, named(name), file, open(t)) })
		}
	}
}

// predictsTheSame loads a file of testdata and compares the outputs.
func predictsTheSame(t *testing.T, m net, file string, dev kernels.Device) {
	x, y, err := readIO("testdata", file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := x.dataset(y.shape[1])
	if err != nil {
		t.Fatal(err)
	}
	tr, err := m.open(t.Context(), dev, data)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if before, err := compare(t.Context(), tr, data, y.floats); err != nil || before < 0.1 {
		t.Errorf("initial weights predict it, too: %v, %v", before, err)
	}
	report, err := weights.Load(t.Context(), saved("testdata", file), tr, weights.LoadOptions{Rules: m.rules(), Exact: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Loaded) != len(tr.Weights()) {
		t.Errorf("report %v", report)
	}
	if d, err := compare(t.Context(), tr, data, y.floats); err != nil || d > limit {
		t.Errorf("differs by %v of the largest output: %v", d, err)
	}
}

// What is saved of PyTorch's weights has the names, types and shapes of its state_dict, and its
// values: but a second bias is added to the first, GPT-2's tied projection is there, and batches
// are not counted.
func TestWhatIsSavedIsPyTorchsStateDict(t *testing.T) {
	for _, m := range nets() {
		t.Run(m.name, func(t *testing.T) {
			tr := loadedNet(t, m)
			path := filepath.Join(t.TempDir(), "w.safetensors")
			if err := weights.Save(t.Context(), path, tr, weights.SaveOptions{Rules: m.rules()}); err != nil {
				t.Fatal(err)
			}
			want, err := safetensors.Open(saved("testdata", m.name))
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			got, err := safetensors.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Close()
			extra := 0
			if m.name == "gpt2" {
				extra = 1
				equalTensors(t, got, "lm_head.weight", got, "transformer.wte.weight")
			}
			if len(got.Tensors()) != len(want.Tensors())+extra {
				t.Errorf("%d tensors, want %d", len(got.Tensors()), len(want.Tensors())+extra)
			}
			for _, x := range want.Tensors() {
				name := strings.TrimPrefix(x.Name, "module.")
				y, ok := got.Find(name)
				if !ok || y.DType != x.DType || !slices.Equal(y.Shape, x.Shape) {
					t.Errorf("%s: got %v, want %v", name, y, x)
				} else if !strings.Contains(name, ".bias_") && x.DType == safetensors.Float32 {
					equalTensors(t, got, name, want, x.Name)
				}
			}
		})
	}
}

// equalTensors compares bytes.
func equalTensors(t *testing.T, f *safetensors.File, name string, g *safetensors.File, other string) {
	t.Helper()
	x, _ := f.Find(name)
	a, b := make([]byte, x.Bytes()), make([]byte, x.Bytes())
	if err := errors.Join(f.Read(name, a), g.Read(other, b)); err != nil {
		t.Error(err)
	} else if !bytes.Equal(a, b) {
		t.Errorf("%s has other values than %s", name, other)
	}
}

// loadedNet returns a trainer with PyTorch's weights.
func loadedNet(t *testing.T, m net) *trainer.Trainer {
	t.Helper()
	x, y, err := readIO("testdata", m.name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := x.dataset(y.shape[1])
	if err != nil {
		t.Fatal(err)
	}
	tr, err := m.open(t.Context(), cputest.OpenChecked(t, cpu.Options{Threads: 1}), data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	if _, err := weights.Load(t.Context(), saved("testdata", m.name), tr, weights.LoadOptions{Rules: m.rules()}); err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestAPeerThatIsMissingIsNamed(t *testing.T) {
	var out strings.Builder
	if err := table(t.Context(), "no-such-python", &out); err == nil || !strings.Contains(err.Error(), "no-such-python") || out.Len() > 0 {
		t.Errorf("got %v after %q", err, &out)
	}
}
