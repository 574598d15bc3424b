// Train is the program of a rank in tests of package mpi. It trains for 50 steps as a rank of MPI, and
// rank 0 compares what it has learned with one rank that has all samples, and with a local group; or,
// with -checkpoint, it trains until the end of -epochs or until a signal stops it.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/group/mpi"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

var (
	strict = flag.Bool("strict", false, "sum in the order of ranks")
	log    = flag.String("log", "", "a file to print to: a launcher may lose output when it ends a job")
	notes  = flag.String("notes", "", "folder of notes")

	checkpoints = flag.String("checkpoint", "", "folder of checkpoints, to stop and go on")
	epochs      = flag.Int("epochs", 1, "of a training with checkpoints")
	pace        = flag.Duration("pace", 0, "of its steps")
	grace       = flag.Duration("grace", 0, "of the group after SIGTERM")
)

const (
	batch   = 8   // of a rank
	updates = 50  // of a training
	samples = 103 // of an epoch: the last step has 7 of 8, 16, 24 or 32; rounding grows where few samples are normalized
)

func main() {
	flag.Parse()
	if *log != "" {
		f, err := os.OpenFile(*log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
		os.Stdout = f
	}
	g, err := mpi.Open(mpi.Options{Options: group.Options{Strict: *strict}, Notes: *notes, Grace: *grace})
	if err == nil {
		run := compare
		if *checkpoints != "" {
			run = stoppable
		}
		err = errors.Join(run(context.Background(), g), g.Close())
	}
	if err != nil {
		fmt.Println("error", err)
	}
	os.Exit(group.ExitCode(err))
}

// network is a network of one type; norm: with batch normalization over all ranks; shard: what ranks share.
type network struct {
	name  string
	of    tensor.Dtype
	norm  bool
	shard trainer.Shard
	most  float64 // by which what it learns may differ from what one rank learns, relative to numbers above 1
}

var networks = []network{{"float32", gorgonia.Float32, false, 0, 1e-6}, {"float64", gorgonia.Float64, false, 0, 1e-12},
	{"float32, normalized", gorgonia.Float32, true, 0, 1e-6}, {"float64, normalized", gorgonia.Float64, true, 0, 1e-12},
	{"float32, shared", gorgonia.Float32, false, trainer.ShardState, 1e-6}, {"float64, shared", gorgonia.Float64, false, trainer.ShardGradients, 1e-12}}

// compare trains each network, prints a digest of what this rank has learned, and compares it on rank 0.
func compare(ctx context.Context, g group.Group) error {
	ranks := g.Size()
	for _, n := range networks {
		learned, err := n.train(ctx, trainer.Options{Batch: batch, Group: g, SyncBatchNorm: n.norm, Shard: n.shard})
		if err != nil {
			return err
		}
		fmt.Printf("rank %d: %s learned %x\n", g.Rank(), n.name, digest(learned))
		if g.Rank() > 0 {
			continue
		}
		one := trainer.Options{Batch: batch, Accumulate: ranks}
		if n.norm {
			one = trainer.Options{Batch: batch * ranks}
		}
		alone, err := n.train(ctx, one)
		if err != nil {
			return err
		}
		off := n.apart(learned, alone)
		fmt.Printf("%s: off %.3g, right %v\n", n.name, off, off <= n.most)
		local, err := n.local(ctx, ranks)
		if err != nil {
			return err
		}
		fmt.Printf("%s: the bits of a local group: %v\n", n.name, maps.EqualFunc(learned, local, slices.Equal))
	}
	return nil
}

// local returns what rank 0 of a local group learns.
func (n network) local(ctx context.Context, ranks int) (learned map[string][]byte, err error) {
	groups, err := group.Local(ranks, group.Options{})
	if err != nil {
		return nil, err
	}
	errs := make([]error, ranks)
	var all sync.WaitGroup
	for i, g := range groups {
		all.Go(func() {
			got, err := n.train(ctx, trainer.Options{Batch: batch, Group: g, SyncBatchNorm: n.norm, Shard: n.shard})
			if errs[i] = errors.Join(err, g.Close()); i == 0 {
				learned = got
			}
		})
	}
	all.Wait()
	return learned, errors.Join(errs...)
}

// train trains for a number of updates and returns the parameters and running statistics.
func (n network) train(ctx context.Context, opt trainer.Options) (learned map[string][]byte, err error) {
	dev, err := cpu.Open(cpu.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	ds, err := data()
	if err != nil {
		return nil, err
	}
	t, err := n.trainer(ctx, dev, ds, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	for t.Stats().Updates < updates {
		for _, err := range t.Steps(ctx, ds) {
			if err != nil {
				return nil, err
			}
			if t.Stats().Updates == updates {
				break
			}
		}
	}
	return learnedBy(t)
}

// trainer returns a trainer of the network.
func (n network) trainer(ctx context.Context, dev kernels.Device, ds dataloader.Dataset, opt trainer.Options) (*trainer.Trainer, error) {
	opt.Device, opt.Optimizer, opt.Fields, opt.Seed = dev, optim.SGD{Rate: 0.05, Momentum: 0.9}, ds.Fields(), 3
	return trainer.New(ctx, n.model, opt)
}

// learnedBy returns the bytes of parameters and running statistics by name.
func learnedBy(t *trainer.Trainer) (learned map[string][]byte, err error) {
	params, err := t.Params()
	if err != nil {
		return nil, err
	}
	learned = make(map[string][]byte)
	for _, p := range params {
		learned[p.Name] = make([]byte, p.Spec.Bytes())
		if err := p.Read(learned[p.Name]); err != nil {
			return nil, err
		}
	}
	return learned, nil
}

// model is a network of two layers.
func (n network) model(g *gorgonia.ExprGraph, rows int) (trainer.Model, error) {
	net := layers.New(g)
	net.Type = n.of
	x := net.Input("x", rows, 6)
	h := net.Dense(x, "hidden", 16, layers.Tanh)
	if n.norm {
		h = net.BatchNorm(h, "norm", nil)
	}
	return net.Classifier(x, net.Dense(h, "out", 3, nil))
}

// data returns random samples, each of the class of its largest of three numbers.
func data() (*dataloader.Slices, error) {
	r := rand.New(rand.NewPCG(1, 2))
	x, y := make([]float32, 6*samples), make([]uint8, samples)
	for i := range y {
		row := x[6*i : 6*i+6]
		for j := range row {
			row[j] = float32(r.NormFloat64())
		}
		for j := range 3 {
			if row[j] > row[y[i]] {
				y[i] = uint8(j)
			}
		}
	}
	return dataloader.FromSlices(samples, dataloader.Column("x", x, 6), dataloader.Column("y", y))
}

// apart returns the largest difference of two trainings, relative to numbers above 1; NaN if a number is
// NaN.
func (n network) apart(a, b map[string][]byte) (most float64) {
	for name := range b {
		x, y := n.numbers(a[name]), n.numbers(b[name])
		for i := range y {
			if off := math.Abs(x[i]-y[i]) / max(1, math.Abs(y[i])); !(off <= most) {
				most = off
			}
		}
	}
	return most
}

// numbers decodes the elements of a parameter.
func (n network) numbers(b []byte) []float64 {
	if n.of == gorgonia.Float64 {
		return dataloader.View[float64](b)
	}
	var all []float64
	for _, v := range dataloader.View[float32](b) {
		all = append(all, float64(v))
	}
	return all
}

// digest identifies the bits of all parameters.
func digest(learned map[string][]byte) []byte {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(learned)) {
		h.Write([]byte(name))
		h.Write(learned[name])
	}
	return h.Sum(nil)[:8]
}
