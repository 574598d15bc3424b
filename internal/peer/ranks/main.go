// Command ranks measures training with several ranks of one thread each: against one trainer with as
// many threads, and against PyTorch's DistributedDataParallel on gloo.
//
//	go run ./internal/peer/ranks -peer python3 -rounds 3
//	CC=mpicc go run -tags mpi ./internal/peer/ranks -mpirun mpirun -peer python3
//	go run ./internal/peer/ranks -predict -ranks 4
//
// The Python needs torch. Every contender trains the same network on random data in memory, with the
// same batch of all ranks together and the same number of threads, one contender after the other in
// each round. The tables show medians over the rounds. With -predict it prints what docs/scaling.md shows
// of more ranks than a machine has: see step.predict.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/group/mpi"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/internal/peer/python"
)

// result is the result of one run.
type result struct {
	Rate       float64 `json:"rate"` // samples a second of all ranks, in the median epoch
	Step       float64 `json:"step"` // s, in the fastest quarter of an epoch: least disturbed by other programs
	Parameters int     `json:"parameters"`
	Loss       float64 `json:"loss"` // mean of the last epoch
}

// flags are the flags of the command line.
type flags struct {
	peer      string
	mpirun    string
	member    bool // this process is one rank of a run, which mpirun has started
	workloads string
	rounds    int
	ranks     int
	epochs    int
	shrink    int

	predict bool // predict step times instead
	links   string
	compute time.Duration
	bytes   float64
}

// steps are the steps of an epoch of the workloads that are measured, so that it takes about as long
// for each.
var steps = map[string]int{"w1": 64, "w3": 16, "w4": 2}

func main() {
	var f flags
	flag.StringVar(&f.peer, "peer", "", "a Python with torch; empty: this library alone")
	flag.StringVar(&f.mpirun, "mpirun", "", "command that starts processes of MPI, such as 'mpirun --bind-to core' (build with CC=mpicc and -tags mpi); empty: without MPI")
	flag.BoolVar(&f.member, "member", false, "be one rank of those that mpirun has started, and train one workload")
	flag.StringVar(&f.workloads, "workload", "w1,w3,w4", "list of workloads")
	flag.IntVar(&f.rounds, "rounds", 3, "rounds")
	flag.IntVar(&f.ranks, "ranks", 2, "ranks, and threads of the one trainer")
	flag.IntVar(&f.epochs, "epochs", 3, "timed epochs of a run, after one that is not timed")
	flag.IntVar(&f.shrink, "shrink", 1, "divide widths and batches by this number, for slow devices")
	flag.BoolVar(&f.predict, "predict", false, "measure the link between two ranks and the steps of one, predict the steps of 2 to -ranks ranks, compare them with measured ones, and predict those of 8 to 1,024 ranks")
	flag.StringVar(&f.links, "links", "10 Gbit/s=30µs/1.25e9,100 Gbit/s=5µs/1.25e10", "list of links NAME=LATENCY/BYTES for the last table of -predict: latency of a message, bytes a second")
	flag.DurationVar(&f.compute, "compute", 300*time.Millisecond, "time in which a rank computes a step, for that table")
	flag.Float64Var(&f.bytes, "bytes", 102e6, "bytes of gradients, for that table: those of ResNet-50")
	python.Main("ranks", func(ctx context.Context) error { return f.run(ctx, os.Stdout, os.Stderr) })
}

// run compares, or trains as a rank of MPI and prints its result.
func (f flags) run(ctx context.Context, out, messages io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	switch {
	case !f.member && f.predict:
		return f.predictAll(ctx, out)
	case !f.member:
		return f.compare(ctx, out, messages)
	}
	g, err := mpi.Open(mpi.Options{})
	if err != nil {
		return err
	}
	var r any
	if f.predict {
		r, err = measure(g)
	} else {
		r, err = f.train(ctx, f.workloads, 1, g)
	}
	if err != nil {
		g.Abort(err)
	}
	if err = errors.Join(err, g.Close()); err != nil || g.Rank() > 0 {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// check returns every mistake in the flags.
func (f flags) check() error {
	var errs []error
	if f.rounds < 1 || f.epochs < 1 || f.shrink < 1 {
		errs = append(errs, fmt.Errorf("rounds %d, epochs %d and shrink %d must be above 0", f.rounds, f.epochs, f.shrink))
	}
	if f.ranks < 2 || f.ranks > group.MaxLocal {
		errs = append(errs, fmt.Errorf("ranks %d: must be 2 to %d", f.ranks, group.MaxLocal))
	}
	for _, w := range f.names() {
		if steps[w] == 0 {
			errs = append(errs, fmt.Errorf("workload %q: must be w1, w3 or w4, or a list of them", w))
			continue
		}
		if f.ranks > 0 && f.shrink > 0 && nets.Workloads[w].Batch/f.shrink < f.ranks {
			errs = append(errs, fmt.Errorf("workload %s has batches of %d: too small for %d ranks", w, nets.Workloads[w].Batch/f.shrink, f.ranks))
		}
	}
	return errors.Join(errs...)
}

// names returns the names of the workloads.
func (f flags) names() []string { return strings.Split(f.workloads, ",") }

// contender is a way to train.
type contender struct {
	name string
	run  func(ctx context.Context, workload string) (result, error)
}

// contenders returns one trainer, the ways to train with ranks, and PyTorch last.
func (f flags) contenders() []contender {
	all := []contender{
		{fmt.Sprintf("1 trainer, %d threads", f.ranks), f.one},
		{fmt.Sprintf("%d ranks of a process", f.ranks), f.local},
	}
	if f.mpirun != "" {
		all = append(all, contender{fmt.Sprintf("%d ranks of MPI", f.ranks), f.launch})
	}
	if f.peer != "" {
		all = append(all, contender{fmt.Sprintf("PyTorch, %d ranks", f.ranks), f.distributed})
	}
	return all
}

// compare measures in turns, and prints a table; messages get a line for each run.
func (f flags) compare(ctx context.Context, out, messages io.Writer) error {
	all := f.contenders()
	runs := make(map[string][][]result) // by workload, contender and round
	for _, w := range f.names() {
		runs[w] = make([][]result, len(all))
	}
	for round := range f.rounds {
		for _, w := range f.names() {
			for k := range all {
				i := (round + k) % len(all) // each round begins with another one
				r, err := all[i].run(ctx, w)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", w, all[i].name, err)
				}
				runs[w][i] = append(runs[w][i], r)
				fmt.Fprintf(messages, "round %d of %d, %s, %s: %.0f samples/s\n", round+1, f.rounds, w, all[i].name, r.Rate)
			}
			for i, c := range all {
				if got, want := runs[w][i][round].Parameters, runs[w][0][round].Parameters; got != want {
					return fmt.Errorf("%s, %s has %d parameters, want %d", w, c.name, got, want)
				}
			}
		}
	}
	f.print(out, all, runs)
	return nil
}

// print prints the table. A ratio is the median of the ratios of the rounds.
func (f flags) print(out io.Writer, all []contender, runs map[string][][]result) {
	ratio := func(runs, to []result) string {
		ratios := make([]float64, len(runs))
		for i := range runs {
			ratios[i] = runs[i].Rate / to[i].Rate
		}
		slices.Sort(ratios)
		return fmt.Sprintf("%.2f (%.2f to %.2f)", python.Median(ratios, func(x float64) float64 { return x }), ratios[0], ratios[len(ratios)-1])
	}
	head, line := "| | | samples/s | × 1 trainer | loss |", "|---|---|---:|---:|---:|"
	if f.peer != "" {
		head, line = "| | | samples/s | × 1 trainer | × PyTorch | loss |", line+"---:|"
	}
	fmt.Fprintf(out, "%s\n%s\n", head, line)
	for _, w := range f.names() {
		for i, c := range all {
			mid := python.Median(runs[w][i], func(r result) float64 { return r.Rate })
			cells := []string{w, c.name, humanize.Comma(int64(mid.Rate)), ratio(runs[w][i], runs[w][0])}
			if f.peer != "" {
				cells = append(cells, ratio(runs[w][i], runs[w][len(all)-1]))
			}
			fmt.Fprintf(out, "| %s | %.3g |\n", strings.Join(cells, " | "), mid.Loss)
		}
	}
}
