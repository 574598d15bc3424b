package trainer_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// recorder is a dataset that notes which samples were fetched.
type recorder struct {
	dataloader.Dataset
	mu   sync.Mutex
	seen []int
}

func (r *recorder) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	r.mu.Lock()
	r.seen = append(r.seen, at.Index)
	r.mu.Unlock()
	return r.Dataset.Fetch(ctx, at, dst)
}

// take returns the samples fetched since the last call, sorted.
func (r *recorder) take() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.seen
	r.seen = nil
	slices.Sort(s)
	return s
}

func TestEveryTailIsKeptOrDroppedAsAskedFor(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for n := 8; n <= 16; n++ {
			for _, tail := range []dataloader.Tail{dataloader.KeepTail, dataloader.DropTail} {
				ds := &recorder{Dataset: samples(t, n, 4, 3)}
				tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Tail: tail, Workers: 3})
				for epoch := range 2 {
					ds.take()
					res := fit(t, tr, ds)
					seen := ds.take()
					want := trainer.Result{Samples: n, Steps: (n + 7) / 8}
					if tail == dataloader.DropTail {
						want = trainer.Result{Samples: n / 8 * 8, Steps: n / 8, Dropped: n % 8}
					}
					if res.Samples != want.Samples || res.Steps != want.Steps || res.Dropped != want.Dropped || res.Epoch != epoch {
						t.Errorf("%d samples, tail %d, epoch %d: %+v, want %+v", n, tail, epoch, res, want)
					}
					if len(seen) != want.Samples || len(slices.Compact(slices.Clone(seen))) != want.Samples {
						t.Errorf("%d samples, tail %d: trained on %v", n, tail, seen)
					}
				}
				if res := evaluate(t, tr, ds); res.Samples != n || res.Dropped != 0 {
					t.Errorf("%d samples: evaluated %d", n, res.Samples)
				}
				if err := tr.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func TestAllTailsRunInTheMemoryOfTheFullBatch(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		step := 1
		if testing.Short() && dev.Name() != "cpu" {
			step = 5
		}
		for _, opt := range []trainer.Options{{}, {Guard: trainer.GuardEach}, {Clip: optim.Clip{Norm: 1}}, {Debug: true}} {
			if opt.Debug && !dev.Unified() {
				continue
			}
			opt.Device, opt.Batch, opt.Fields, opt.Optimizer = dev, 33, samples(t, 1, 4, 3).Fields(), optim.Adam{}
			plan, err := trainer.Plan(t.Context(), small, opt)
			if err != nil {
				t.Fatal(err)
			}
			opt.Memory = plan.Total
			tr := made(t, small, opt)
			for n := 1; n <= 33; n += step {
				ds := samples(t, n, 4, 3)
				fit(t, tr, ds)
				evaluate(t, tr, ds)
				outputs(t, tr, ds)
			}
			if got := tr.Plan().Total; got != plan.Total || tr.Stats().Arena.Reserved != plan.Total {
				t.Errorf("%d bytes planned after all tails, %d reserved, want %d", got, tr.Stats().Arena.Reserved, plan.Total)
			}
		}
	})
}

func TestEveryProgramIsCompiledBeforeTheFirstStep(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 8551, 4, 3)
		var tr *trainer.Trainer
		programs := 0
		tr = made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Progress: func(p trainer.Progress) {
			n := tr.Stats().Programs
			if p.Step == 1 {
				programs = n
			}
			if n != programs || p.Steps != 1069 {
				t.Errorf("step %d of %d: %d programs, %d at the first step", p.Step, p.Steps, n, programs)
			}
		}})
		if res := fit(t, tr, ds); res.Steps != 1069 || res.Samples != 8551 {
			t.Errorf("%d steps over %d samples, want 1069 over 8551", res.Steps, res.Samples)
		}
	})
}

func TestLossAndAccuracyDoNotDependOnTheBatchSize(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 23, 4, 3)
		var want trainer.Result
		for _, batch := range []int{1, 2, 5, 23, 64} {
			tr := made(t, small, trainer.Options{Device: dev, Batch: batch, Fields: ds.Fields(), Seed: 4})
			got := evaluate(t, tr, ds)
			if batch == 1 {
				want = got
			}
			// Sums over other groups of float32 losses: 1e-6 is some 8 of their roundings.
			if !about(got.Loss, want.Loss, 1e-6) || got.Accuracy != want.Accuracy {
				t.Errorf("batch %d: loss %v accuracy %v, want %v and %v", batch, got.Loss, got.Accuracy, want.Loss, want.Accuracy)
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestEpochLossIsTheMeanOverSamples(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ten := numbers(t, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
		for _, batch := range []int{1, 3, 4, 10} {
			tr := made(t, scalar(1), trainer.Options{Device: dev, Batch: batch, Fields: ten.Fields()})
			if got := evaluate(t, tr, ten).Loss; !about(got, 5.5, 1e-15) {
				t.Errorf("batch %d: mean loss %v, want 5.5", batch, got)
			}
			if got := evaluate(t, tr, numbers(t, 1, 8, 20)).Loss; !about(got, 29.0/3, 1e-15) {
				t.Errorf("batch %d: mean loss %v, want 29/3", batch, got)
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestUpdateOfAShortBatchIsThatOfItsMean(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := numbers(t, 1, 2, 3, 4, 5)
		tr := made(t, scalar(0), trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Sequential: true, Optimizer: optim.SGD{Rate: 0.1}})
		fit(t, tr, ds)
		// w = 0 - 0.1·2.5 - 0.1·5
		if got := weight(t, tr); !about(got, -0.75, 1e-15) {
			t.Errorf("w = %v, want -0.75", got)
		}
	})
}

func TestAnySequenceOfBatchSizesRunsInTheSamePlaces(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		r := random(t)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 16, Fields: samples(t, 1, 4, 3).Fields(), Keep: weights})
		use := inUse(tr)
		places := make(map[string]arena.Ref)
		for range 30 {
			ds := samples(t, 1+r.IntN(40), 4, 3)
			fit(t, tr, ds)
			evaluate(t, tr, ds)
			outputs(t, tr, ds)
			if got := inUse(tr); got != use {
				t.Fatalf("%d bytes in use, want %d", got, use)
			}
			if ds.Len()%32 != 16 { // the last batch lies in slot 0
				continue
			}
			for _, name := range weights {
				h, _, err := tr.Kept(name)
				if err != nil {
					t.Fatal(err)
				}
				if was, ok := places[name]; ok && was != h.Ref() {
					t.Fatalf("%q lies at %v, was at %v", name, h.Ref(), was)
				}
				places[name] = h.Ref()
			}
		}
	})
}

func TestADatasetThatGrewIsReadWhole(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := &growing{Dataset: samples(t, 20, 4, 3), n: 10}
		tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()})
		for _, n := range []int{10, 13, 20, 5} {
			ds.n = n
			if res := fit(t, tr, ds); res.Samples != n {
				t.Errorf("trained on %d samples, the dataset has %d", res.Samples, n)
			}
		}
	})
}

type growing struct {
	dataloader.Dataset
	n int
}

func (g *growing) Len() int { return g.n }

func TestDroppingTheTailOfTooFewSamplesIsAnError(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 7, 4, 3)
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Tail: dataloader.DropTail, Keep: weights})
		before := kept(t, tr, ds, weights...)
		if _, err := tr.Fit(context.Background(), ds); !errors.Is(err, dataloader.ErrShort) {
			t.Errorf("got %v, want ErrShort", err)
		}
		for name, b := range kept(t, tr, ds, weights...) {
			if !bytes.Equal(b, before[name]) {
				t.Errorf("%q has changed", name)
			}
		}
		if n := tr.Stats().Epochs; n != 0 {
			t.Errorf("%d epochs have begun, want 0", n)
		}
	})
}

// A value that differs between batches has no home that all programs share: it is refused before the first step, by its name and with the cure.
func TestAValueThatDependsOnTheBatchIsRefusedWithItsCure(t *testing.T) {
	named := func(g *gorgonia.ExprGraph, shape ...int) *gorgonia.Node {
		return gorgonia.NewMatrix(g, gorgonia.Float32, gorgonia.WithName("h0"), gorgonia.WithShape(shape...), gorgonia.WithInit(gorgonia.Zeroes()))
	}
	elements := func(g *gorgonia.ExprGraph, shape ...int) *gorgonia.Node {
		return g.AddNode(gorgonia.NewConstant(tensor.New(tensor.WithBacking(tensor.Range(tensor.Float32, 0, tensor.Shape(shape).TotalSize())), tensor.WithShape(shape...))))
	}
	const unlisted = `["h0"] have values and are in none of the model's lists: if they are learned, list them in Model.Params; if not, make them with net.Constant`
	const shape = `"h0" has another shape for another batch: if it is not learned, as the first state of a recurrent layer, make it with net.Constant`
	const rows = `its elements depend on the batch: make it of one row, which broadcasts`
	for _, c := range []struct {
		name   string
		state  func(g *gorgonia.ExprGraph, batch int) *gorgonia.Node
		list   bool // in Params
		frozen []string
		want   string // "": accepted
	}{
		{"a state in no list", func(g *gorgonia.ExprGraph, batch int) *gorgonia.Node { return named(g, batch, 3) }, false, nil, unlisted},
		{"a row in no list", func(g *gorgonia.ExprGraph, _ int) *gorgonia.Node { return named(g, 1, 3) }, false, nil, unlisted},
		{"a learned state", func(g *gorgonia.ExprGraph, batch int) *gorgonia.Node { return named(g, batch, 3) }, true, nil, shape},
		{"a frozen state", func(g *gorgonia.ExprGraph, batch int) *gorgonia.Node { return named(g, batch, 3) }, false, []string{"h0"}, shape},
		{"a constant", func(g *gorgonia.ExprGraph, batch int) *gorgonia.Node { return elements(g, batch, 3) }, false, nil, rows},
		{"a constant column", func(g *gorgonia.ExprGraph, batch int) *gorgonia.Node { return elements(g, batch, 1) }, false, nil, rows},
		{"a column of our own", func(g *gorgonia.ExprGraph, batch int) *gorgonia.Node {
			return layers.New(g).Constant(tensor.Range(tensor.Float32, 0, batch), "column", batch, 1)
		}, false, nil, rows},
		{"a learned row", func(g *gorgonia.ExprGraph, _ int) *gorgonia.Node { return named(g, 1, 3) }, true, nil, ""},
		{"a frozen row", func(g *gorgonia.ExprGraph, _ int) *gorgonia.Node { return named(g, 1, 3) }, false, []string{"h0"}, ""},
		{"zeros of our own", func(g *gorgonia.ExprGraph, batch int) *gorgonia.Node {
			return layers.New(g).Constant(0.0, "h0", batch, 3)
		}, false, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
				net := layers.New(g)
				x, w := net.Input("x", batch, 4), net.Param("layer/w", layers.Ones{}, 4, 3)
				state := c.state(g, batch)
				h := layers.Tanh(net, net.Add(net.MatMul(x, w, "", layers.Transposed{}), state, ""), "h")
				m := trainer.Model{Inputs: net.Inputs(), Params: net.Params(), Output: h, Loss: net.Mean(h, "loss", layers.Reduce{})}
				if c.list {
					m.Params = append(m.Params, layers.Param{Node: state})
				}
				return m, net.Err()
			}
			each(t, func(t *testing.T, dev kernels.Device) {
				for _, batch := range []int{2, 4} {
					ds := columns(t, 6, dataloader.Column("x", make([]float32, 24), 4))
					opt := trainer.Options{Device: dev, Batch: batch, Fields: ds.Fields(), Frozen: c.frozen}
					tr, err := trainer.New(t.Context(), model, opt)
					want := c.want
					if batch == 2 && strings.Contains(c.name, "column") {
						want = "" // the one short batch there is has a number, which needs no home
					}
					switch {
					case want == "" && err != nil:
						t.Errorf("batch %d: refused: %v", batch, err)
					case want == "":
						fit(t, tr, ds)
						evaluate(t, tr, ds)
						if err := tr.Close(); err != nil {
							t.Error(err)
						}
					case !errors.Is(err, trainer.ErrModel) || !strings.Contains(err.Error(), want):
						t.Errorf("batch %d: got %v, want %q", batch, err, want)
					}
					if _, err := trainer.Plan(t.Context(), model, opt); (err == nil) != (want == "") {
						t.Errorf("batch %d, plan: got %v", batch, err)
					}
				}
			})
		})
	}
}
