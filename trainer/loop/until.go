package loop

import (
	"context"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/trainer"
)

// Until yields the steps of epochs over ds until t has trained that many since New. Restored epochs
// count, and a restored trainer begins with the rest of its epoch: a program that stops and goes on
// from a checkpoint trains as many epochs as one that does not stop. Ranged over again, it goes on
// where t is then.
func Until(ctx context.Context, t *trainer.Trainer, ds dataloader.Dataset, epochs int) Steps {
	return func(yield func(trainer.Step, error) bool) {
		for t.Position().Epoch < epochs {
			for step, err := range t.Steps(ctx, ds) {
				if !yield(step, err) || err != nil {
					return
				}
			}
		}
	}
}
