// Command peer trains small networks on the CPU, or on a GPU, and reports how fast it was, in the form that programs built on other libraries
// report it in, so that one table can show them side by side.
//
//	go build -o evenkeel_peer ./internal/peer
//	./evenkeel_peer -workload w1 -data DIR -json -
//
// Workloads w1 to w3 train on the files of MNIST in DIR, w4 and w5 on random data. Data are resident as float32. A run trains, evaluates in
// batches of 100, and writes one JSON object: see [report].
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/cuda"
)

// flags are what the command line says.
type flags struct {
	workload, data, json, variant string
	profile                       string // file of a CPU profile of the steps, "" for none
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

// variant confines a run to a set of instructions.
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
	s.StringVar(&f.workload, "workload", "", "w1, w2, w3, w4 or w5")
	s.IntVar(&f.epochs, "epochs", 0, "epochs of w1 to w3; 0: 3")
	s.IntVar(&f.steps, "steps", 0, "timed steps of w4 and w5; 0: 20 and 20000")
	s.IntVar(&f.threads, "threads", 2, "threads that compute")
	s.StringVar(&f.json, "json", "-", "where the result goes; - for standard output")
	s.StringVar(&f.data, "data", os.Getenv("BENCH_DATA"), "directory of MNIST's four files")
	s.StringVar(&f.device, "device", "cpu", "cpu, or cuda in a program built with -tags gpu")
	precision := s.String("products", cuda.Full.String(), "what factors of products are rounded to on a GPU: float32, tf32, bf16 or f16")
	s.BoolVar(&f.cublas, "cublas", false, "products of matrices by cuBLAS, on a GPU")
	s.IntVar(&f.window, "window", 0, "steps that are timed together; 0: the workload's")
	s.StringVar(&f.variant, "variant", "default", "default, portable, avx2 or avx512")
	s.StringVar(&f.profile, "cpuprofile", "", "file for a CPU profile of training and evaluation, without start")
	s.IntVar(&f.trainN, "train-n", 60000, "training images that are used")
	s.IntVar(&f.testN, "test-n", 10000, "test images that are used")
	s.IntVar(&f.shrink, "shrink", 1, "divide widths, batches and the random images of w4 by this, to see on a slow device that all runs")
	s.Float64Var(&f.budget, "budget", 200, "seconds after which training stops")
	s.Uint64Var(&f.seed, "seed", 1, "of initial values and the order of samples")
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
	if _, ok := workloads[f.workload]; !ok {
		errs = append(errs, fmt.Errorf("workload %q: must be w1, w2, w3, w4 or w5", f.workload))
	}
	if !slices.ContainsFunc(variants, func(v variant) bool { return v.name == f.variant }) {
		errs = append(errs, fmt.Errorf("variant %q: must be default, portable, avx2 or avx512", f.variant))
	}
	if f.window < 0 {
		errs = append(errs, fmt.Errorf("window %d must not be negative", f.window))
	}
	if f.threads < 1 || f.trainN < 1 || f.testN < 1 || f.shrink < 1 || !(f.budget > 0) {
		errs = append(errs, fmt.Errorf("threads %d, train-n %d, test-n %d, shrink %d and budget %v must be above 0", f.threads, f.trainN, f.testN, f.shrink, f.budget))
	}
	return f, errors.Join(errs...)
}

// run is main without the process around it.
func run(ctx context.Context, args []string, out, messages io.Writer) (err error) {
	f, err := parse(args, messages)
	if err != nil {
		return err
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

// seconds returns a flag's seconds as a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
