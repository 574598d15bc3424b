package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// The first server trains and writes the file, the second one loads it and answers with the same
// bits.
func TestWeightsAreWrittenOnceAndThenServed(t *testing.T) {
	train, test := digits(t, 320, 32)
	dev := cputest.OpenChecked(t, cpu.Options{Threads: 2})
	img, _ := digitOf(t, test, 0)
	f := flags{epochs: 1, batch: 32, rows: 4, seed: 1, weights: filepath.Join(t.TempDir(), "digits.safetensors")}
	logits := func(f flags, want string) (all [10]float32) {
		t.Helper()
		var out bytes.Buffer
		s := &server{training: f.training}
		defer func() {
			if err := s.close(); err != nil {
				t.Error(err)
			}
		}()
		if err := s.open(t.Context(), dev, train, test, f, &out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want+" "+f.weights) || strings.Contains(out.String(), "epoch") != (want == "saved") {
			t.Errorf("it prints\n%s", out.String())
		}
		if err := s.predictor.Predict(t.Context(), all[:], img.Pix); err != nil {
			t.Fatal(err)
		}
		return all
	}
	first := logits(f, "saved")
	f.seed = 2
	if got := logits(f, "loaded"); got != first {
		t.Errorf("got %v, want %v", got, first)
	}
	f.training = true
	if got := logits(f, "loaded"); got != first {
		t.Errorf("with -training: got %v, want %v", got, first)
	}
	if err := os.WriteFile(f.weights, []byte("no weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{}
	err := s.open(t.Context(), dev, train, test, f, &bytes.Buffer{})
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if !errors.Is(err, safetensors.ErrFormat) {
		t.Errorf("a damaged file: got %v", err)
	}
	if _, err := parse([]string{"-weights", "a", "-checkpoint", "b"}, &bytes.Buffer{}); err == nil {
		t.Error("-weights and -checkpoint are accepted together")
	}
}
