package layers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// TestRandomGraphsTrainAsWritten takes a step of gradient descent with random graphs, which keep the
// activations of some layers and recompute those of others.
func TestRandomGraphsTrainAsWritten(t *testing.T) {
	for i, device := range devices {
		dev := device.open(t)
		t.Run(device.name, func(t *testing.T) {
			recomputed := 0
			tryGraphs(t, uint64(50+i), (*graphs+2)/3, "a trainer on "+device.name, func(g randomGraph, dt tensor.Dtype) error {
				n, err := g.train(t.Context(), dev, dt)
				recomputed += n
				return err
			})
			if recomputed == 0 {
				t.Error("no plan recomputes an activation")
			}
		})
	}
}

// train takes a step of the graph with a trainer, and compares the loss and the gradients. It returns
// how many instructions recompute an activation.
func (g randomGraph) train(ctx context.Context, dev kernels.Device, dt tensor.Dtype) (recomputed int, err error) {
	var b *built
	model := func(graph *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		var err error
		if b, err = g.build(graph, dt); err != nil {
			return trainer.Model{}, err
		}
		x := b.net.Input("x", batch, 1) // 0: a model has an input
		loss := b.net.Add(b.loss, b.net.Sum(x, "", layers.Reduce{}), "")
		return trainer.Model{Inputs: b.net.Inputs(), Loss: loss, Params: b.net.Params()}, b.net.Err()
	}
	data, err := dataloader.FromSlices(1, dataloader.Column("x", []float32{0}, 1))
	if err != nil {
		return recomputed, err
	}
	first, err := g.build(gorgonia.NewGraph(), dt)
	if err != nil {
		return 0, err
	}
	opt := trainer.Options{Device: dev, Batch: 1, Optimizer: optim.SGD{Rate: 1}, Fields: data.Fields()}
	learned, trains := g.learned(), false
	for i, s := range g {
		trains = trains || s.Op == leaf && learned[i]
		if layer := fmt.Sprintf("layer%d", i%layersOf); s.Op != leaf && i%layersOf < len(g)%layersOf && !slices.Contains(opt.Recompute.Layers, layer) {
			opt.Recompute.Layers = append(opt.Recompute.Layers, layer)
		}
		if s.Op == leaf && !learned[i] {
			opt.Frozen = append(opt.Frozen, fmt.Sprintf("v%d", i))
		}
	}
	for _, p := range first.net.Params() {
		if strings.Contains(p.Node.Name(), "/") { // of a layer: some have no gradient
			opt.Frozen = append(opt.Frozen, p.Node.Name())
		}
	}
	if !trains {
		return 0, nil
	}
	tr, err := trainer.New(ctx, model, opt)
	if err != nil {
		return recomputed, err
	}
	defer func() { err = errors.Join(err, tr.Close()) }()
	recomputed = tr.Plan().Programs[0].Recomputed
	result, err := tr.Fit(ctx, data)
	if err != nil {
		return recomputed, err
	}
	if err := alikeTo([]float64{result.Loss}, []float64{g.loss(g.values(nil, exact))}, tolerances[dt].value); err != nil {
		return recomputed, fmt.Errorf("loss: %w", err)
	}
	params, err := tr.Params()
	if err != nil {
		return recomputed, err
	}
	after := map[string][]float64{}
	for _, p := range params {
		if after[p.Name], err = floatsIn(p.Spec, p.Read); err != nil {
			return recomputed, err
		}
	}
	grads := make([][]float64, len(b.at))
	for k, i := range b.at {
		for j, x := range after[fmt.Sprintf("v%d", i)] {
			grads[k] = append(grads[k], g[i].Floats[j]-x)
		}
	}
	return recomputed, g.checkGradients(b.at, grads, tolerances[dt].gradient)
}
