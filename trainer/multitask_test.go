package trainer_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// tasks is a regression of y on two heads over a trunk. loss makes the loss from those of the heads.
func tasks(loss func(net *layers.Net, a, b *gorgonia.Node) *gorgonia.Node) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x, y := net.Input("x", batch, 4), net.Input("y", batch, 2)
		trunk := net.Dense(x, "trunk", 16, layers.Tanh)
		targets := net.Split(y, "task", 1, 1, 1)
		var losses []*gorgonia.Node
		for i, name := range []string{"a", "b"} {
			miss := net.Sub(net.Dense(trunk, name, 1, nil), targets[i], "")
			losses = append(losses, net.Mean(net.Square(miss, ""), name+"/loss", layers.Reduce{}))
		}
		total := loss(net, losses[0], losses[1])
		return trainer.Model{Inputs: net.Inputs(), Loss: total, Output: trunk, Params: net.Params()}, net.Err()
	}
}

// noisy returns n samples for tasks: linear functions of x with noise of two standard deviations.
func noisy(t testing.TB, n int, a, b float64) *dataloader.Slices {
	r := rand.New(rand.NewPCG(3, 4))
	x, y := make([]float32, 4*n), make([]float32, 2*n)
	for i := range n {
		for k := range 4 {
			x[4*i+k] = float32(r.NormFloat64())
		}
		y[2*i] = x[4*i] + float32(a*r.NormFloat64())
		y[2*i+1] = x[4*i+1] - x[4*i+2] + float32(b*r.NormFloat64())
	}
	return columns(t, n, dataloader.Column("x", x, 4), dataloader.Column("y", y, 2))
}

// setScalar writes a parameter of one element.
func setScalar(t testing.TB, tr *trainer.Trainer, name string, v float32) {
	t.Helper()
	setValues(t, tr, map[string]string{name: string(bytesOf([]float32{v}))})
}

// The weights of a sum of losses are numbers that the program sets: training leaves them alone, and a new number takes
// effect in the next step.
func TestWeightsOfTasksChangeWhileItRuns(t *testing.T) {
	weighted := func(b float64) trainer.ModelFunc {
		return tasks(func(net *layers.Net, x, y *gorgonia.Node) *gorgonia.Node {
			return net.Add(net.Mul(net.Scalar("weight/a", 1), x, ""), net.Mul(net.Scalar("weight/b", b), y, ""), "loss")
		})
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := noisy(t, 40, 0.1, 0.1)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Sequential: true}
		tr, other := made(t, weighted(0.5), opt), made(t, weighted(0), opt)
		n := 0
		for step, err := range tr.Steps(t.Context(), ds) {
			if err != nil {
				t.Fatal(err)
			}
			before := learned(t, tr)
			if n++; step.Step == 2 {
				setScalar(t, tr, "weight/b", 0)
				delete(before, "weight/b")
				setValues(t, other, before)
				fit(t, other, someOf(t, ds, 16, 40))
			}
		}
		got, want := learned(t, tr), learned(t, other)
		if d := differing(got, want); len(d) > 0 || n != 5 {
			t.Errorf("after %d steps, %q differ from a trainer whose weight is 0", n, d)
		}
		ps, err := tr.Params()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ps {
			if fixed := p.Name == "weight/a" || p.Name == "weight/b"; p.Frozen != fixed {
				t.Errorf("%s: frozen %v", p.Name, p.Frozen)
			}
		}
		if got := decoded([]byte(got["weight/a"])); got[0] != 1 {
			t.Errorf("weight/a is %v after training", got)
		}
	})
}

// someOf returns some samples of noisy.
func someOf(t testing.TB, ds *dataloader.Slices, first, end int) *dataloader.Slices {
	t.Helper()
	x, y := make([]float32, 4*(end-first)), make([]float32, 2*(end-first))
	for i := range end - first {
		dst := [][]byte{bytesOf(x[4*i : 4*i+4]), bytesOf(y[2*i : 2*i+2])}
		if err := ds.Fetch(t.Context(), dataloader.At{Index: first + i}, dst); err != nil {
			t.Fatal(err)
		}
	}
	return columns(t, end-first, dataloader.Column("x", x, 4), dataloader.Column("y", y, 2))
}

// Learned weights (Kendall, Gal, Cipolla, 2018), Σ exp(-s)·loss + s/2, find the noise of each task: where the loss is least,
// exp(s) is twice the task's loss.
func TestLearnedWeightsFindTheNoiseOfTasks(t *testing.T) {
	t.Parallel()
	model := tasks(func(net *layers.Net, a, b *gorgonia.Node) *gorgonia.Node {
		term := func(name string, loss *gorgonia.Node) *gorgonia.Node {
			s := net.Reshape(net.Param(name, layers.Zeros{}, 1), "")
			return net.Add(net.Mul(net.Exp(net.Neg(s, ""), ""), loss, ""), net.Affine(s, "", 0.5, 0), "")
		}
		return net.Add(term("s/a", a), term("s/b", b), "loss")
	})
	ds := noisy(t, 1024, 0.1, 1)
	tr := made(t, model, trainer.Options{Device: openCPU(t), Batch: 64, Fields: ds.Fields(), Optimizer: optim.Adam{Rate: 0.02}, Keep: []string{"a/loss", "b/loss"}})
	for range 60 {
		fit(t, tr, ds)
	}
	all := learned(t, tr)
	for name, noise := range map[string]float64{"a": 0.1, "b": 1} {
		if got, want := math.Exp(decoded([]byte(all["s/"+name]))[0]), 2*noise*noise; got < 0.7*want || got > 1.5*want {
			t.Errorf("task %s: exp(s) is %v, want about %v", name, got, want)
		}
	}
}

// bytesOf returns the bytes of numbers.
func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}
