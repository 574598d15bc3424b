package trainer_test

import (
	"context"
	"fmt"
	"io"
	"log"

	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
)

// A profile trains some batches, and says what each layer of the model costs.
func ExampleTrainer_Profile() {
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	data := xorData()
	t, err := trainer.New(context.Background(), xor, trainer.Options{Device: dev, Batch: 1, Fields: data.Fields()})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	p, err := t.Profile(context.Background(), data, 3)
	if err != nil {
		log.Fatal(err)
	}
	if err := p.WriteTrace(io.Discard); err != nil { // to a file for https://ui.perfetto.dev
		log.Fatal(err)
	}
	fmt.Print(p.Steps, " steps")
	for _, l := range p.Layers {
		if l.Name == "hidden" && l.Time > 0 && l.Time < p.Total.Time {
			fmt.Print(", a part of their time in layer ", l.Name)
		}
	}
	// Output: 3 steps, a part of their time in layer hidden
}
