// Command peer trains small networks on the CPU or a GPU and reports the speed, or compares it with
// other libraries.
//
//	go run ./internal/peer -peer python3 -rounds 5              tables of all workloads, with PyTorch and JAX if that Python has them
//	go run ./internal/peer -rounds 5 -workload w1,w5            this library alone
//	go run ./internal/peer -workload w1 -data DIR               one run
//
// Workloads w1 to w3 train on the files of MNIST, w4 and w5 on random data. Data are resident as
// float32. A run trains, evaluates in batches of 100, and writes one JSON object: see [report]. A
// comparison runs itself and its scripts in turns, each in a process of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

// flags are the flags of the command line.
type flags struct {
	workload, data, json, variant string
	peer                          string        // a Python with other libraries to compare with; "": none
	via                           string        // command that starts each run of a comparison
	rounds                        int           // rounds of a comparison; 0: one run
	patience                      time.Duration // longest wait for an idle machine before a run; 0: no wait, and no repeated run
	several                       []string      // workloads of a comparison
	passed                        []string      // flags for all runs of a comparison
	profile                       string        // file of a CPU profile of the steps, "" for none
	device                        string
	products                      cuda.Precision
	cublas                        bool
	epochs, steps, threads        int
	window                        int // 0: the workload's
	trainN, testN                 int
	shrink                        int
	budget                        float64 // seconds
	seed                          uint64
}

// variant is a set of instructions for a run.
type variant struct {
	name         string
	instructions cpu.Instructions
}

var variants = []variant{{"default", cpu.Best}, {"portable", cpu.Portable}, {"avx2", cpu.AVX2}, {"avx512", cpu.AVX512}}

var precisions = []cuda.Precision{cuda.Full, cuda.TF32, cuda.BFloat16, cuda.Float16}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	default:
		fmt.Fprintf(os.Stderr, "peer: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string, messages io.Writer) (f flags, err error) {
	s := flag.NewFlagSet("peer", flag.ContinueOnError)
	s.SetOutput(messages)
	s.StringVar(&f.workload, "workload", "", "w1, w2, w3, w4 or w5; for a comparison a list such as w1,w5, or empty for all")
	s.StringVar(&f.peer, "peer", "", "a Python: compare with its PyTorch and JAX")
	s.IntVar(&f.rounds, "rounds", 0, "compare in this number of rounds and print tables; 0: one run")
	s.StringVar(&f.via, "via", "", "command that starts each run of a comparison, such as 'taskset -c 0,1'")
	s.DurationVar(&f.patience, "patience", time.Minute, "longest wait for an idle machine before each run of a comparison; disturbed runs are repeated; 0: neither")
	s.IntVar(&f.epochs, "epochs", 0, "epochs of w1 to w3; 0: 3")
	s.IntVar(&f.steps, "steps", 0, "timed steps of w4 and w5; 0: 20 and 20000")
	s.IntVar(&f.threads, "threads", 2, "threads of the host")
	s.StringVar(&f.json, "json", "-", "file of the result; - for standard output")
	s.StringVar(&f.data, "data", os.Getenv("BENCH_DATA"), "directory of MNIST's four files")
	s.StringVar(&f.device, "device", "cpu", "cpu, or cuda (build with -tags gpu)")
	precision := s.String("products", cuda.Full.String(), "precision of matrix products on a GPU: float32, tf32, bf16 or f16")
	s.BoolVar(&f.cublas, "cublas", false, "use cuBLAS for matrix products, on a GPU")
	s.IntVar(&f.window, "window", 0, "steps that are timed together; 0: as many as the workload has")
	s.StringVar(&f.variant, "variant", "default", "default, portable, avx2 or avx512")
	s.StringVar(&f.profile, "cpuprofile", "", "file for a CPU profile of training and evaluation")
	s.IntVar(&f.trainN, "train-n", 60000, "number of training images")
	s.IntVar(&f.testN, "test-n", 10000, "number of test images")
	s.IntVar(&f.shrink, "shrink", 1, "divide widths, batches and the random images of w4 by this number, for slow devices")
	s.Float64Var(&f.budget, "budget", 200, "seconds after which training stops")
	s.Uint64Var(&f.seed, "seed", 1, "seed of initial values and of the order of samples")
	if err := s.Parse(args); err != nil {
		return f, err
	}
	var errs []error
	switch at := slices.IndexFunc(precisions, func(p cuda.Precision) bool { return p.String() == *precision }); {
	case at < 0:
		errs = append(errs, fmt.Errorf("products %q: must be one of %v", *precision, precisions))
	default:
		f.products = precisions[at]
	}
	if f.device != "cpu" && f.device != "cuda" {
		errs = append(errs, fmt.Errorf("device %q: must be cpu or cuda", f.device))
	}
	if s.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", s.Arg(0)))
	}
	switch {
	case f.rounds < 0 || f.rounds == 0 && f.peer != "":
		errs = append(errs, fmt.Errorf("rounds %d: must be above 0 to compare with %q", f.rounds, f.peer))
	case f.rounds > 0:
		errs = append(errs, f.comparing(s))
	case !known(f.workload):
		errs = append(errs, fmt.Errorf("workload %q: must be w1, w2, w3, w4 or w5", f.workload))
	}
	if !slices.ContainsFunc(variants, func(v variant) bool { return v.name == f.variant }) {
		errs = append(errs, fmt.Errorf("variant %q: must be default, portable, avx2 or avx512", f.variant))
	}
	if f.window < 0 {
		errs = append(errs, fmt.Errorf("window %d must not be negative", f.window))
	}
	if f.threads < 1 || f.trainN < 1 || f.testN < 1 || f.shrink < 1 || !(f.budget > 0) || f.patience < 0 {
		errs = append(errs, fmt.Errorf("threads %d, train-n %d, test-n %d, shrink %d and budget %v must be above 0, and patience %v not below", f.threads, f.trainN, f.testN, f.shrink,
			f.budget, f.patience))
	}
	return f, errors.Join(errs...)
}

// known reports whether w is a workload.
func known(w string) bool { _, ok := workloads[w]; return ok }

// shared are the flags, in addition to workload, data and json, that the scripts of other libraries
// have too.
var shared = []string{"epochs", "steps", "window", "threads", "train-n", "test-n", "shrink", "budget", "seed"}

// comparing sets the workloads and flags of a comparison and returns the mistakes in them.
func (f *flags) comparing(s *flag.FlagSet) error {
	var errs []error
	s.Visit(func(g *flag.Flag) {
		switch {
		case slices.Contains(shared, g.Name):
			f.passed = append(f.passed, "-"+g.Name, g.Value.String())
		case !slices.Contains([]string{"rounds", "peer", "via", "patience", "workload", "data", "variant"}, g.Name):
			errs = append(errs, fmt.Errorf("%s applies to one run: leave out -rounds or it", g.Name))
		}
	})
	f.several = slices.Sorted(maps.Keys(workloads))
	if f.workload != "" {
		f.several = strings.Split(f.workload, ",")
	}
	for i, w := range f.several {
		if !known(w) || slices.Contains(f.several[:i], w) {
			errs = append(errs, fmt.Errorf("workload %q: must be some of w1, w2, w3, w4 and w5, each once", w))
		}
	}
	return errors.Join(errs...)
}

// started returns the words before the command of a run.
func (f flags) started() []string { return strings.Fields(f.via) }

// run runs one workload or a comparison.
func run(ctx context.Context, args []string, out, messages io.Writer) (err error) {
	f, err := parse(args, messages)
	if err != nil {
		return err
	}
	if f.rounds > 0 {
		return compare(ctx, f, out, messages)
	}
	runtime.GOMAXPROCS(f.threads)
	c := newClock(f, workloads[f.workload])
	if err := c.train(ctx); err != nil {
		return err
	}
	r, err := c.report()
	if err != nil {
		return err
	}
	if f.json == "-" {
		return r.write(out)
	}
	w, err := os.Create(f.json)
	if err != nil {
		return err
	}
	fmt.Fprintf(messages, "%-16s %-12s %s t%d: train %.1f img/s (%.2f us/step) eval %.1f img/s acc %v rss %v MB\n",
		r.Peer, r.Variant, r.Workload, r.Threads, r.TrainImages, r.StepMicros, r.EvalImages, r.TestAcc, r.RSS.Peak)
	return errors.Join(r.write(w), w.Close())
}

// seconds converts seconds to a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
