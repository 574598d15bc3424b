// Command predict measures how fast single rows are predicted, by 1, 8 and 64 callers at once, here
// and with onnxruntime.
//
//	go run ./internal/peer/predict -peer python3 -rounds 5
//
// The Python needs the packages onnxruntime and onnx. Both libraries run the same networks, one after
// the other in each round; the table shows medians over the rounds. Each library runs with one thread
// a call and with as many as there are processors, and the table shows the faster one. With one
// thread a call, this library has a view for each processor, among which the callers are divided.
package main

import (
	"context"
	_ "embed" // of the script
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/internal/peer/python"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

//go:embed rows.py
var script string

// The libraries.
const here, there = "Evenkeel", "onnxruntime"

// speed is the result of one run.
type speed struct {
	Rate float64 `json:"rate"` // requests a second
	P50  float64 `json:"p50"`  // µs
	P99  float64 `json:"p99"`  // µs
}

// flags are the flags of the command line.
type flags struct {
	peer    string
	rounds  int
	seconds float64
	net     string
	callers int
}

func main() {
	var f flags
	flag.StringVar(&f.peer, "peer", "", "a Python with onnxruntime and onnx; empty: this library alone")
	flag.IntVar(&f.rounds, "rounds", 3, "rounds")
	flag.Float64Var(&f.seconds, "seconds", 1, "seconds of a run")
	flag.StringVar(&f.net, "net", "", "mlp or cnn; empty: both")
	flag.IntVar(&f.callers, "callers", 0, "1, 8 or 64; 0: all three")
	python.Main("predict", func(ctx context.Context) error { return compare(ctx, f, os.Stdout) })
}

// mlp is 784-512-256-10.
func mlp(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 784)
	return trainer.Model{Inputs: net.Inputs(), Output: nets.DigitsMLP(net, x), Params: net.Params()}, net.Err()
}

// cnn is the network of examples/cnn.
func cnn(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 1, 28, 28)
	return trainer.Model{Inputs: net.Inputs(), Output: nets.DigitsCNN(net, x, 0), Params: net.Params()}, net.Err()
}

// compare prints the table.
func compare(ctx context.Context, f flags, out io.Writer) error {
	if !slices.Contains([]string{"", "mlp", "cnn"}, f.net) {
		return fmt.Errorf("net %q: must be mlp, cnn or empty", f.net)
	}
	if !slices.Contains([]int{0, 1, 8, 64}, f.callers) {
		return fmt.Errorf("callers %d: must be 1, 8, 64 or 0", f.callers)
	}
	fmt.Fprintf(out, "%-4s %7s  %-28s %10s %9s %9s\n", "net", "callers", "library", "requests/s", "p50 µs", "p99 µs")
	for _, net := range []string{"mlp", "cnn"} {
		if f.net != "" && f.net != net {
			continue
		}
		for _, callers := range []int{1, 8, 64} {
			if f.callers != 0 && f.callers != callers {
				continue
			}
			runs := make(map[string][]speed)
			for range f.rounds {
				for _, threads := range []int{1, runtime.NumCPU()} {
					s, err := ours(ctx, net, callers, threads, f.seconds)
					if err != nil {
						return err
					}
					name := fmt.Sprintf("%s, threads %d", here, threads)
					runs[name] = append(runs[name], s)
					if f.peer == "" {
						continue
					}
					if s, err = theirs(ctx, f, net, callers, threads); err != nil {
						return err
					}
					name = fmt.Sprintf("%s, threads %d", there, threads)
					runs[name] = append(runs[name], s)
				}
			}
			show(out, net, callers, runs)
		}
	}
	return nil
}

// show prints the medians of the runs of one network, and the ratio to the faster of the peer's.
func show(out io.Writer, net string, callers int, runs map[string][]speed) {
	rate := func(name string) float64 {
		return python.Median(runs[name], func(s speed) float64 { return s.Rate }).Rate
	}
	line := func(name, note string) {
		r := runs[name]
		fmt.Fprintf(out, "%-4s %7d  %-28s %10.0f %9.0f %9.0f%s\n", net, callers, name, rate(name),
			python.Median(r, func(s speed) float64 { return s.P50 }).P50, python.Median(r, func(s speed) float64 { return s.P99 }).P99, note)
	}
	fastest := func(library string) (best string) {
		for name := range runs {
			if strings.HasPrefix(name, library) && (best == "" || rate(name) > rate(best)) {
				best = name
			}
		}
		return best
	}
	mine, other := fastest(here), fastest(there)
	if other == "" {
		line(mine, "")
		return
	}
	line(mine, fmt.Sprintf("  %.2f ×", rate(mine)/rate(other)))
	line(other, "")
}

// predictors returns a predictor, and views of it if there is one thread a call: as many as
// processors that the callers can use.
func predictors(ctx context.Context, dev *cpu.Device, net string, callers, threads int) ([]*trainer.Predictor, error) {
	views := 0
	if threads == 1 {
		views = min(runtime.NumCPU(), callers) - 1
	}
	p, err := trainer.NewPredictor(ctx, map[string]trainer.ModelFunc{"mlp": mlp, "cnn": cnn}[net],
		trainer.PredictorOptions{Device: dev, Batch: 32, Views: views})
	all := []*trainer.Predictor{p}
	for range views {
		if err == nil {
			p, err = p.View()
			all = append(all, p)
		}
	}
	return all, err
}

// ours measures this library.
func ours(ctx context.Context, net string, callers, threads int, seconds float64) (_ speed, err error) {
	dev, err := cpu.Open(cpu.Options{Threads: threads})
	if err != nil {
		return speed{}, err
	}
	defer dev.Close()
	ps, err := predictors(ctx, dev, net, callers, threads)
	defer func() {
		for _, p := range ps {
			err = errors.Join(err, p.Close())
		}
	}()
	if err != nil {
		return speed{}, err
	}
	length := time.Duration(seconds * float64(time.Second))
	taken := make([][]float64, callers)
	failed := make([]error, callers)
	for c := range taken {
		taken[c] = make([]float64, 0, 1<<18)
	}
	var all sync.WaitGroup
	begun := time.Now()
	for c := range callers {
		all.Go(func() {
			x, dst := make([]float32, 784), make([]float32, 10)
			for i := range x {
				x[i] = float32(i%7) / 7
			}
			at := time.Now()
			for at.Sub(begun) < length {
				if failed[c] = ps[c%len(ps)].Predict(ctx, dst, x); failed[c] != nil {
					return
				}
				now := time.Now()
				taken[c] = append(taken[c], float64(now.Sub(at).Nanoseconds())/1e3)
				at = now
			}
		})
	}
	all.Wait()
	wall := time.Since(begun).Seconds()
	for _, err := range failed {
		if err != nil {
			return speed{}, err
		}
	}
	every := slices.Concat(taken...)
	slices.Sort(every)
	return speed{float64(len(every)) / wall, every[len(every)/2], every[len(every)*99/100]}, nil
}

// theirs measures onnxruntime.
func theirs(ctx context.Context, f flags, net string, callers, threads int) (s speed, err error) {
	b, err := python.Run(ctx, f.peer, script, nil, "-net", net, "-callers", strconv.Itoa(callers),
		"-threads", strconv.Itoa(threads), "-seconds", fmt.Sprint(f.seconds))
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(b, &s)
}
