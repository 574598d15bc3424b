package trainer_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// offsets is small with a scale of its own: a constant of the graph, which is no weight.
func offsets(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	n := layers.New(g)
	x := n.Input("x", batch, 4)
	h := n.Dense(x, "hidden", 8, layers.ReLU)
	h = n.Mul(h, n.Constant([]float64{0, 1, 2, 3, 4, 5, 6, 7}, "scale", 1, 8), "scaled")
	return n.Classifier(x, n.Dense(h, "out", 3, nil))
}

func TestConstantsOfTheGraphAreNoWeights(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		tr := made(t, offsets, trainer.Options{Device: dev, Batch: 4, Fields: samples(t, 4, 4, 3).Fields()})
		ps, err := tr.Params()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, w := range tr.Weights() {
			names = append(names, w.Name)
		}
		if !slices.Equal(names, weights) || len(ps) != len(weights)+1 {
			t.Errorf("weights %q, and %d parameters", names, len(ps))
		}
	})
}

func TestWeightsAreReadAndWrittenInPieces(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 8, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()})
		fit(t, tr, ds)
		var kept trainer.Weights
		err := tr.WriteWeights(t.Context(), func(w trainer.Weights) error {
			kept = w
			for _, c := range []struct {
				name   string
				n      int
				offset int64
				ok     bool
			}{{"out/b", 12, 0, true}, {"out/b", 4, 8, true}, {"out/b", 3, 1, true}, {"out/b", 0, 12, true}, {"out/b", 5, 8, false}, {"out/b", 13, 0, false},
				{"out/b", 1, -1, false}, {"out/b", 0, 13, false}, {"out", 1, 0, false}, {"out/b", 4, math.MaxInt64, false}} {
				got := []error{w.ReadAt(c.name, make([]byte, c.n), c.offset), w.WriteAt(c.name, make([]byte, c.n), c.offset)}
				for _, err := range got {
					if c.ok && err != nil || !c.ok && !errors.Is(err, trainer.ErrOption) {
						t.Errorf("%+v: got %v", c, err)
					}
				}
			}
			return w.WriteAt("out/b", []byte{0, 0, 128, 63}, 4) // 1
		})
		if err != nil {
			t.Fatal(err)
		}
		b := make([]float32, 3)
		if err := tr.Read("out/b", b); err != nil || !slices.Equal(b, []float32{0, 1, 0}) {
			t.Errorf("out/b is %v, %v", b, err)
		}
		if err := kept.ReadAt("out/b", make([]byte, 4), 0); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("after the call: got %v, want ErrOption", err)
		}
		if err := tr.ReadWeights(t.Context(), func(w trainer.Weights) error { return w.WriteAt("out/b", make([]byte, 4), 0) }); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("writing in ReadWeights: got %v, want ErrOption", err)
		}
		own := errors.New("own")
		for what, err := range map[string]error{"read": tr.ReadWeights(t.Context(), func(trainer.Weights) error { return own }), "write": tr.WriteWeights(t.Context(), func(trainer.Weights) error { return own })} {
			if !errors.Is(err, own) {
				t.Errorf("%s: got %v", what, err)
			}
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		none := func(trainer.Weights) error { return nil }
		var absent context.Context
		for _, err := range []error{tr.ReadWeights(t.Context(), none), tr.WriteWeights(t.Context(), none)} {
			if !errors.Is(err, trainer.ErrClosed) {
				t.Errorf("after Close: got %v, want ErrClosed", err)
			}
		}
		for _, err := range []error{tr.ReadWeights(t.Context(), nil), tr.WriteWeights(t.Context(), nil), tr.ReadWeights(absent, none)} {
			if !errors.Is(err, trainer.ErrOption) {
				t.Errorf("nil: got %v, want ErrOption", err)
			}
		}
	})
}

// The averages of the weights that were written are these weights; the others' stay.
func TestAveragesGoOnFromWrittenWeights(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 16, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Average: optim.Average{Decay: 0.9}})
		fit(t, tr, ds)
		averages := func() map[string]string {
			ps, err := tr.Averaged().Params()
			if err != nil {
				t.Fatal(err)
			}
			all := map[string]string{}
			for _, p := range ps {
				b := make([]byte, p.Spec.Bytes())
				if err := p.Read(b); err != nil {
					t.Fatal(err)
				}
				all[p.Name] = string(b)
			}
			return all
		}
		before := averages()
		err := tr.WriteWeights(t.Context(), func(w trainer.Weights) error { return w.WriteAt("out/b", make([]byte, 4), 4) })
		if err != nil {
			t.Fatal(err)
		}
		after, now := averages(), learned(t, tr)
		if after["out/b"] != now["out/b"] || after["out/b"] == before["out/b"] {
			t.Errorf("the average of out/b is % x, the parameter % x", after["out/b"], now["out/b"])
		}
		if d := differing(before, after); !slices.Equal(d, []string{"out/b"}) {
			t.Errorf("the averages of %q changed", d)
		}
	})
}

func TestParametersAreReadAndWrittenAsNumbers(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: samples(t, 4, 4, 3).Fields()})
		ps, err := tr.Params()
		if err != nil {
			t.Fatal(err)
		}
		p := ps[slices.IndexFunc(ps, func(p trainer.Param) bool { return p.Name == "out/b" })]
		narrow, wide := make([]float32, 3), make([]float64, 3)
		if err := p.WriteFloat32([]float32{1, -2, 0.5}); err != nil {
			t.Fatal(err)
		}
		if err := p.ReadFloat64(wide); err != nil || !slices.Equal(wide, []float64{1, -2, 0.5}) {
			t.Errorf("got %v, %v", wide, err)
		}
		if err := p.WriteFloat64([]float64{1 + 1e-12, math.Pi, -1e-50}); err != nil {
			t.Fatal(err)
		}
		if err := p.ReadFloat32(narrow); err != nil || !slices.Equal(narrow, []float32{1, math.Pi, 0}) {
			t.Errorf("got %v, %v", narrow, err)
		}
		for n := range 5 {
			var length *trainer.LengthError
			read, write := p.ReadFloat32(make([]float32, n)), p.WriteFloat64(make([]float64, n))
			if n != 3 && (!errors.As(read, &length) || length.Need != 3 || length.Got != n || !errors.Is(write, trainer.ErrOption)) || n == 3 && (read != nil || write != nil) {
				t.Errorf("%d numbers: got %v and %v", n, read, write)
			}
		}
		if n := testing.AllocsPerRun(20, func() {
			if p.ReadFloat32(narrow) != nil || p.WriteFloat32(narrow) != nil {
				t.Fail()
			}
		}); n > allocsOfACopy(t, p) {
			t.Errorf("%v allocations", n)
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		if err := p.ReadFloat32(narrow); !errors.Is(err, trainer.ErrClosed) {
			t.Errorf("after Close: got %v, want ErrClosed", err)
		}
	})
}

// allocsOfACopy returns what Read and Write of bytes allocate: a device may allocate in its copies.
func allocsOfACopy(t *testing.T, p trainer.Param) float64 {
	t.Helper()
	b := make([]byte, p.Spec.Bytes())
	return testing.AllocsPerRun(20, func() {
		if p.Read(b) != nil || p.Write(b) != nil {
			t.Fail()
		}
	})
}

// Integers below, above and between what a type holds are refused.
func TestIntegersMustFit(t *testing.T) {
	for _, c := range []struct {
		x  float64
		ok bool
	}{{0, true}, {-1 << 31, true}, {1<<31 - 1, true}, {1 << 31, false}, {-1<<31 - 1, false}, {0.5, false}, {math.NaN(), false}, {math.Inf(1), false}} {
		b := make([]byte, 8)
		i, ok := trainer.FromFloats(b[:8], arena.Int32, []float64{7, c.x})
		if ok != c.ok || !ok && i != 1 {
			t.Errorf("%v: got %v at %d", c.x, ok, i)
		}
		if ok && dataloader.View[int32](b)[1] != int32(c.x) {
			t.Errorf("%v became %v", c.x, dataloader.View[int32](b))
		}
	}
}
