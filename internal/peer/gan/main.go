// Command gan measures the training steps of the GAN of examples/gan, here and in PyTorch.
//
//	go run ./internal/peer/gan -peer python3 -rounds 5
//
// The Python needs torch. A step trains the discriminator and then the generator on a batch of 64,
// with Adam, and moves an average of the generator. Both libraries train the same networks on
// random pixels in memory, one after the other in each round; the table shows medians over the
// rounds.
package main

import (
	"context"
	_ "embed" // of the script
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/internal/peer/python"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

//go:embed gan.py
var script string

// Of the training.
const (
	batch   = 64
	samples = 64 * batch
	rate    = 4e-4
	beta1   = 0.5
	decay   = 0.998
)

// result is the result of one run.
type result struct {
	Micros     float64   `json:"micros"` // of a step
	Parameters int       `json:"parameters"`
	Losses     []float64 `json:"losses"` // of the last step, by objective
}

// flags are the flags of the command line.
type flags struct {
	peer    string
	rounds  int
	steps   int
	threads int
}

func main() {
	var f flags
	flag.StringVar(&f.peer, "peer", "", "a Python with torch; empty: this library alone")
	flag.IntVar(&f.rounds, "rounds", 3, "rounds")
	flag.IntVar(&f.steps, "steps", 640, "steps of a run: at least 64, an epoch")
	flag.IntVar(&f.threads, "threads", runtime.NumCPU(), "threads of either library")
	python.Main("gan", func(ctx context.Context) error { return compare(ctx, f, os.Stdout) })
}

// contender is a library, or a way to run it.
type contender struct {
	name string
	run  func(ctx context.Context, f flags) (result, error)
}

// compare prints the table.
func compare(ctx context.Context, f flags, out io.Writer) error {
	if f.rounds < 1 || f.steps < 1 || f.threads < 1 {
		return fmt.Errorf("rounds %d, steps %d and threads %d must be above 0", f.rounds, f.steps, f.threads)
	}
	all := []contender{{"Evenkeel", ours}}
	if f.peer != "" {
		all = append(all, contender{"PyTorch", theirs()}, contender{"PyTorch, compiled", theirs("-compile")})
	}
	runs := make([][]result, len(all))
	for range f.rounds {
		for i, c := range all {
			r, err := c.run(ctx, f)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if i > 0 && r.Parameters != runs[0][0].Parameters {
				return fmt.Errorf("%s has %d parameters, want %d", c.name, r.Parameters, runs[0][0].Parameters)
			}
			runs[i] = append(runs[i], r)
		}
	}
	median := func(runs []result) result { return python.Median(runs, func(r result) float64 { return r.Micros }) }
	fmt.Fprintf(out, "%-18s %9s %7s  %s\n", "", "µs a step", "ratio", "losses of the last step")
	for i, c := range all {
		mid := median(runs[i])
		fmt.Fprintf(out, "%-18s %9.0f %7.2f  %.3g\n", c.name, mid.Micros, mid.Micros/median(runs[0]).Micros, mid.Losses)
	}
	return nil
}

// ours measures this library. The first epoch is not measured.
func ours(ctx context.Context, f flags) (r result, err error) {
	dev, err := cpu.Open(cpu.Options{Threads: f.threads})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	random := rand.New(rand.NewPCG(1, 2))
	x, z := make([]uint8, samples*784), make([]float32, samples*nets.DigitsCode)
	for i := range x {
		x[i] = uint8(random.Uint32())
	}
	for i := range z {
		z[i] = float32(random.NormFloat64())
	}
	ds, err := dataloader.FromSlices(samples, dataloader.Column("x", x, 784).Scaled(1.0/255, 0),
		dataloader.Column("z", z, nets.DigitsCode))
	if err != nil {
		return r, err
	}
	t, err := trainer.New(ctx, nets.DigitsGAN, trainer.Options{Device: dev, Batch: batch, Fields: ds.Fields(),
		Optimizer: optim.Adam{Rate: rate, Beta1: beta1}, Average: optim.Average{Decay: decay}})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	params, err := t.Params()
	if err != nil {
		return r, err
	}
	for _, p := range params {
		r.Parameters += p.Spec.Shape.Elems()
	}
	if _, err := t.Fit(ctx, ds); err != nil {
		return r, err
	}
	epochs, begun := max(1, f.steps*batch/samples), time.Now()
	for range epochs {
		if _, err := t.Fit(ctx, ds); err != nil {
			return r, err
		}
	}
	r.Micros = time.Since(begun).Seconds() * 1e6 / float64(epochs*samples/batch)
	for step, err := range t.Steps(ctx, ds) { // one for each objective
		if err != nil {
			return r, err
		}
		if r.Losses = append(r.Losses, step.Loss); len(r.Losses) == 2 {
			break
		}
	}
	return r, nil
}

// theirs returns a function that measures PyTorch.
func theirs(more ...string) func(context.Context, flags) (result, error) {
	return func(ctx context.Context, f flags) (r result, err error) {
		args := append([]string{"-threads", strconv.Itoa(f.threads), "-steps", strconv.Itoa(f.steps)}, more...)
		b, err := python.Run(ctx, f.peer, script, nil, args...)
		if err != nil {
			return r, err
		}
		return r, json.Unmarshal(b, &r)
	}
}
