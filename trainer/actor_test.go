package trainer_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// A corridor has places 0 to corridor-1. An episode starts at place 0; the actions are left and right; a step to the right of the
// last place has reward 1 and ends it. Rewards later are worth less by the factor discount.
const (
	corridor = 5
	discount = 0.9
)

// actorCritic chooses actions and estimates the value of a place, with a network for each. Its output is the logits and
// the value.
func actorCritic(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	place, action := net.Input("place", batch, corridor), net.Labels("action", batch)
	target, advantage := net.Input("target", batch, 1), net.Input("advantage", batch)
	logits := net.Dense(net.Dense(place, "actor/hidden", 16, layers.Tanh), "actor/out", 2, nil)
	value := net.Dense(net.Dense(place, "critic/hidden", 16, layers.Tanh), "critic/out", 1, nil)
	miss := net.Mean(net.Square(net.Sub(value, target, ""), ""), "critic/loss", layers.Reduce{})
	gain := net.Mean(net.Mul(net.CrossEntropy(logits, action, "surprise"), advantage, ""), "actor/loss", layers.Reduce{})
	return trainer.Model{
		Inputs: net.Inputs(), Params: net.Params(), Output: net.Concat(gorgonia.Nodes{logits, value}, "output", 1),
		Objectives: []layers.Objective{
			{Name: "critic", Loss: miss, Params: []string{"critic/"}},
			{Name: "actor", Loss: gain, Params: []string{"actor/"}},
		},
	}, net.Err()
}

// An actor and a critic learn from batches that the program makes: to go right everywhere, and what each place is worth.
func TestAnActorAndACriticLearnACorridor(t *testing.T) {
	t.Parallel()
	const batch = 32
	places := make([]float32, corridor*corridor)
	for i := range corridor {
		places[i*corridor+i] = 1
	}
	all := columns(t, corridor, dataloader.Column("place", places, corridor))
	fields := append(all.Fields(), dataloader.Field{Name: "action", Type: arena.Uint8},
		dataloader.Field{Name: "target", Type: arena.Float32, Shape: []int{1}}, dataloader.Field{Name: "advantage", Type: arena.Float32})
	tr := made(t, actorCritic, trainer.Options{Device: openCPU(t), Batch: batch, EvalBatch: corridor, Fields: fields, Seed: 1,
		Optimizer: optim.Adam{Rate: 0.01}, Objectives: []trainer.Objective{{Name: "critic", Optimizer: optim.Adam{Rate: 0.03}}}})
	r := rand.New(rand.NewPCG(1, 1))
	at := 0 // the place now
	for range 400 {
		out := outputs(t, tr, all)
		place, action := make([]float32, batch*corridor), make([]uint8, batch)
		target, advantage := make([]float32, batch), make([]float32, batch)
		for i := range batch {
			from, row := at, out[3*at:3*at+3]
			place[i*corridor+from] = 1
			if r.Float64() < 1/(1+math.Exp(row[0]-row[1])) {
				action[i] = 1
			}
			worth := 1.0
			if at = max(0, at-1+2*int(action[i])); at == corridor {
				at = 0
			} else {
				worth = discount * out[3*at+2]
			}
			target[i], advantage[i] = float32(worth), float32(worth-row[2])
		}
		fill := func(f trainer.Fields) error {
			copy(f.Float32("place"), place)
			copy(f.Uint8("action"), action)
			copy(f.Float32("target"), target)
			copy(f.Float32("advantage"), advantage)
			return nil
		}
		for _, objective := range []string{"critic", "actor"} {
			if _, err := tr.Step(t.Context(), trainer.Batch{Objective: objective, Rows: batch, Fill: fill}); err != nil {
				t.Fatal(err)
			}
		}
	}
	out := outputs(t, tr, all)
	for i := range corridor {
		worth := math.Pow(discount, float64(corridor-1-i))
		if row := out[3*i : 3*i+3]; row[1] < row[0]+1 || math.Abs(row[2]-worth) > 0.15 {
			t.Errorf("place %d: logits %v, value %v, want the second logit above the first and about %v", i, row[:2], row[2], worth)
		}
	}
}
