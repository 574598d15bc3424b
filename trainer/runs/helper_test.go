package runs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hostile is a name that would run in a page that does not escape it.
const hostile = `</script><script>document.title='taken'</script><img src=x onerror="document.title='taken'">{{script}}`

// net is a perceptron whose first layer has a hostile name.
func net(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	n := layers.New(g)
	x := n.Input("x", batch, 2)
	h := n.Dense(x, "a<b>&/"+`"`, 4, layers.ReLU)
	return n.Regressor(x, n.Dense(h, "out", 1, nil))
}

// data returns n samples of a sum.
func data(t testing.TB, n int) dataloader.Dataset {
	x, y := make([]float32, 2*n), make([]float32, n)
	for i := range y {
		x[2*i], x[2*i+1] = float32(i%3), float32(i%5)
		y[i] = x[2*i] + x[2*i+1]
	}
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", x, 2), dataloader.Column("y", y, 1))
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// created creates a run that is closed at the end of the test.
func created(t testing.TB, ctx context.Context, dir string, opt runs.Options) *runs.Run {
	t.Helper()
	r, err := runs.Create(ctx, dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// attached returns a trainer with the norms that a run shows, whose steps the run and also are called for.
func attached(t testing.TB, r *runs.Run, source runs.Source, also func(trainer.Progress)) *trainer.Trainer {
	t.Helper()
	dev := cputest.OpenChecked(t, cpu.Options{Threads: 1})
	opt := trainer.Options{Device: dev, Batch: 4, Seed: 1, Optimizer: optim.SGD{Rate: 0.01}, Progress: func(p trainer.Progress) {
		r.Progress(p)
		if also != nil {
			also(p)
		}
	}}
	runs.Keep(&opt)
	tr, err := trainer.New(t.Context(), net, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = tr.Close() })
	source.Trainer, source.Device = tr, dev
	if err := r.Attach(source); err != nil {
		t.Fatal(err)
	}
	return tr
}

// lines reads metrics.jsonl.
func lines(t testing.TB, dir string) (all []map[string]any) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		var row map[string]any
		if err := json.Unmarshal(in.Bytes(), &row); err != nil {
			t.Fatalf("%s: %v", in.Text(), err)
		}
		all = append(all, row)
	}
	return all
}

// with returns the values of a key by step.
func with(rows []map[string]any, key string) map[int]any {
	all := map[int]any{}
	for _, r := range rows {
		if v, ok := r[key]; ok {
			all[int(r["step"].(float64))] = v
		}
	}
	return all
}
