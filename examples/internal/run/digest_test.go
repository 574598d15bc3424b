package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// line is a model of one dense layer that learns the sum of two numbers.
var line = Example{
	Name:  "line",
	Flags: Flags{Batch: 2, Epochs: 2, Optimizer: "sgd", Seed: 1, Device: "cpu"},
	Model: func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 2)
		return net.Regressor(x, net.Dense(x, "sum", 1, nil))
	},
	Load: func(Flags) (train, test dataloader.Dataset, err error) {
		x := dataloader.Column("x", []float32{0, 1, 1, 0, 1, 1, 2, 1}, 2)
		train, err = dataloader.FromSlices(4, x, dataloader.Column("y", []float32{1, 1, 2, 3}, 1))
		return train, train, err
	},
}

func TestResultsHoldTheDigestOfTheParametersAfterTraining(t *testing.T) {
	t.Parallel()
	run := func(args ...string) (digest string) {
		file := filepath.Join(t.TempDir(), "results.json")
		if err := line.Run(t.Context(), append(args, "-json", file), io.Discard); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r Results
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		return r.ParametersSHA256
	}
	got := run()
	if again := run(); again != got || len(got) != 2*sha256.Size {
		t.Errorf("the same run twice: %q and %q", got, again)
	}
	for _, args := range [][]string{{"-epochs", "1"}, {"-seed", "2"}} {
		if other := run(args...); other == got {
			t.Errorf("%v: the same digest", args)
		}
	}
	// Draw runs after training: it sees the parameters that the results are of.
	e, h := line, sha256.New()
	e.Draw = func(_ context.Context, tr *trainer.Trainer, _ dataloader.Dataset, _ io.Writer) error {
		params, err := tr.Params()
		for _, p := range params {
			b := make([]byte, p.Spec.Bytes())
			if err := p.Read(b); err != nil {
				return err
			}
			h.Write(b)
		}
		return err
	}
	if err := e.Run(t.Context(), []string{"-picture", filepath.Join(t.TempDir(), "line.png")}, io.Discard); err != nil {
		t.Fatal(err)
	}
	if want := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}
