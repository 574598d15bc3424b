package trainer_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// ruined is an Init that panics.
type ruined struct{}

func (ruined) Fill(*rand.Rand, []int, int, []float64) { panic("ruined") }

func TestInitialValuesThatCannotBeAreErrorsOfNew(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		var null *layers.Normal
		for _, init := range []layers.Init{ruined{}, null} {
			_, err := trainer.New(t.Context(), func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
				net := layers.New(g)
				net.Weights = init
				x := net.Input("x", batch, 4)
				return net.Classifier(x, net.Dense(x, "out", 3, nil))
			}, trainer.Options{Device: dev, Batch: 4})
			if !errors.Is(err, layers.ErrInit) || strings.Count(err.Error(), `"out/w"`) != 1 {
				t.Errorf("%T: got %v, want ErrInit and the parameter, once", init, err)
			}
		}
	})
}

func TestAModelWhoseShapesDoNotFitIsAnErrorOfThatClass(t *testing.T) {
	_, err := trainer.New(t.Context(), func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch)
		return net.Classifier(x, net.Dense(x, "out", 3, nil))
	}, trainer.Options{Device: openCPU(t), Batch: 4})
	if !errors.Is(err, kernels.ErrShape) {
		t.Errorf("got %v, want kernels.ErrShape", err)
	}
}
