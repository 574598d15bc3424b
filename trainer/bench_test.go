package trainer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// digits is 784-512-256-10, the net of examples/mlp.
func digits(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 784)
	h := net.Dense(x, "hidden1", 512, layers.ReLU)
	h = net.Dense(h, "hidden2", 256, layers.ReLU)
	return net.Classifier(x, net.Dense(h, "out", 10, nil))
}

// pixels returns n samples in the form of MNIST, with random contents.
func pixels(tb testing.TB, n int) dataloader.Dataset {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	x, y := make([]uint8, n*784), make([]uint8, n)
	for i := range x {
		x[i] = uint8(r.Uint32())
	}
	for i := range y {
		y[i] = uint8(r.IntN(10))
	}
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", x, 784).Scaled(1.0/255, 0), dataloader.Column("y", y))
	if err != nil {
		tb.Fatal(err)
	}
	return ds
}

// rss returns the resident set of this process in bytes, 0 if the system does not report it.
func rss() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var kb int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kb); err == nil {
			return kb << 10
		}
	}
	return 0
}

// BenchmarkEpoch runs whole epochs and reports what must be flat: arena bytes in use, their drift from epoch to epoch, bytes uploaded
// an epoch, the drift of the resident set, and heap objects. One op is one step; a pass makes a few heap objects of its own, whatever the
// number of its steps.
func BenchmarkEpoch(b *testing.B) {
	for _, c := range []struct {
		name     string
		samples  int
		evaluate bool
		resident bool
	}{
		{"streaming", 60 * 128, false, false},
		{"streaming+validation", 60 * 128, true, false},
		{"ragged", 60*128 - 77, true, false},
		{"resident", 60 * 128, false, true},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkEpoch(b, c.samples, c.evaluate, c.resident) })
	}
}

func benchmarkEpoch(b *testing.B, samples int, evaluate, resident bool) {
	ds := pixels(b, samples)
	dev := cputest.Open(b, cpu.Options{})
	defer dev.Close()
	opt := trainer.Options{Device: dev, Batch: 128, Optimizer: optim.Adam{}, Fields: ds.Fields()}
	if resident {
		opt.Resident = []dataloader.Dataset{ds}
	}
	t, err := trainer.New(b.Context(), digits, opt)
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	ctx := context.Background()
	epoch := func() (steps int) {
		res, err := t.Fit(ctx, ds)
		if err != nil {
			b.Fatal(err)
		}
		steps = res.Steps
		if evaluate {
			val, err := t.Evaluate(ctx, ds)
			if err != nil {
				b.Fatal(err)
			}
			steps += val.Steps
		}
		return steps
	}
	epoch() // compiles the ragged programs, warms caches
	before, resident0 := t.Stats(), rss()
	b.ReportAllocs()
	start, steps, epochs := time.Now(), 0, 0
	for b.Loop() {
		if steps <= 0 || epochs == 0 {
			steps += epoch()
			epochs++
		}
		steps--
	}
	elapsed := time.Since(start)
	after := t.Stats()
	ran := float64(b.N + steps)
	b.ReportMetric(float64(after.Arena.Reserved), "arena-B")
	b.ReportMetric(float64(after.Arena.InUse-before.Arena.InUse)/float64(epochs), "drift-B/epoch")
	b.ReportMetric(float64(after.Uploaded-before.Uploaded)/float64(epochs), "upload-B/epoch")
	b.ReportMetric(float64(rss()-resident0), "rss-drift-B")
	b.ReportMetric(float64(elapsed.Nanoseconds())/ran, "ns/step")
	b.ReportMetric(ran*128/elapsed.Seconds(), "images/s")
}

// BenchmarkLoop compares an epoch of Fit with one of Steps whose body does nothing, in turn. One op is an epoch of each, of 60 steps of 128.
func BenchmarkLoop(b *testing.B) {
	ds := pixels(b, 60*128)
	dev := cputest.Open(b, cpu.Options{})
	defer dev.Close()
	t, err := trainer.New(b.Context(), digits, trainer.Options{Device: dev, Batch: 128, Optimizer: optim.Adam{}, Fields: ds.Fields()})
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	ctx := context.Background()
	ways := [2]func(){
		func() {
			if _, err := t.Fit(ctx, ds); err != nil {
				b.Fatal(err)
			}
		},
		func() {
			for _, err := range t.Steps(ctx, ds) {
				if err != nil {
					b.Fatal(err)
				}
			}
		},
	}
	ways[0]()
	var best [2]time.Duration
	for b.Loop() {
		for i, way := range ways {
			start := time.Now()
			way()
			if d := time.Since(start); best[i] == 0 || d < best[i] {
				best[i] = d
			}
		}
	}
	b.ReportMetric(best[0].Seconds()*1e6/60, "fit-µs/step")
	b.ReportMetric(best[1].Seconds()*1e6/60, "steps-µs/step")
	b.ReportMetric(float64(best[1])/float64(best[0]), "steps/fit")
}

// BenchmarkGorgonia compares the same net with Adam, on Evenkeel and on Gorgonia's own tape machine. One op is one step of 128.
func BenchmarkGorgonia(b *testing.B) {
	b.Run("evenkeel", func(b *testing.B) {
		ds := pixels(b, 60*128)
		dev := cputest.Open(b, cpu.Options{})
		defer dev.Close()
		t, err := trainer.New(b.Context(), digits, trainer.Options{Device: dev, Batch: 128, Optimizer: optim.Adam{}, Fields: ds.Fields()})
		if err != nil {
			b.Fatal(err)
		}
		defer t.Close()
		left := 0
		b.ReportAllocs()
		for b.Loop() {
			if left == 0 {
				res, err := t.Fit(context.Background(), ds)
				if err != nil {
					b.Fatal(err)
				}
				left = res.Steps
			}
			left--
		}
		b.ReportMetric(128*float64(b.N)/b.Elapsed().Seconds(), "images/s")
	})
	b.Run("tape", func(b *testing.B) {
		step := tape(b)
		b.ReportAllocs()
		for b.Loop() {
			step()
		}
		b.ReportMetric(128*float64(b.N)/b.Elapsed().Seconds(), "images/s")
	})
}

// tape returns a training step of digits on gorgonia.NewTapeMachine with Gorgonia's Adam.
func tape(b *testing.B) (step func()) {
	g := gorgonia.NewGraph()
	const batch = 128
	x := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(batch, 784), gorgonia.WithName("x"))
	y := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(batch, 10), gorgonia.WithName("y"))
	var params gorgonia.Nodes
	h := x
	widths := []int{784, 512, 256, 10}
	for i := range widths[1:] {
		w := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(widths[i], widths[i+1]), gorgonia.WithName(fmt.Sprint("w", i)), gorgonia.WithInit(gorgonia.GlorotU(1)))
		c := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(1, widths[i+1]), gorgonia.WithName(fmt.Sprint("b", i)), gorgonia.WithInit(gorgonia.Zeroes()))
		params = append(params, w, c)
		h = gorgonia.Must(gorgonia.BroadcastAdd(gorgonia.Must(gorgonia.Mul(h, w)), c, nil, []byte{0}))
		if i < len(widths)-2 {
			h = gorgonia.Must(gorgonia.Rectify(h))
		}
	}
	p := gorgonia.Must(gorgonia.SoftMax(h))
	row := gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.HadamardProd(gorgonia.Must(gorgonia.Log(p)), y)), 1))
	loss := gorgonia.Must(gorgonia.Neg(gorgonia.Must(gorgonia.Mean(row))))
	if _, err := gorgonia.Grad(loss, params...); err != nil {
		b.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g, gorgonia.BindDualValues(params...))
	b.Cleanup(func() { vm.Close() })
	solver := gorgonia.NewAdamSolver()
	r := rand.New(rand.NewPCG(3, 4))
	xs, ys := make([]float32, batch*784), make([]float32, batch*10)
	for i := range xs {
		xs[i] = r.Float32()
	}
	for i := range batch {
		ys[i*10+r.IntN(10)] = 1
	}
	xt := tensor.New(tensor.WithShape(batch, 784), tensor.WithBacking(xs))
	yt := tensor.New(tensor.WithShape(batch, 10), tensor.WithBacking(ys))
	return func() {
		if err := gorgonia.Let(x, xt); err != nil {
			b.Fatal(err)
		}
		if err := gorgonia.Let(y, yt); err != nil {
			b.Fatal(err)
		}
		if err := vm.RunAll(); err != nil {
			b.Fatal(err)
		}
		if err := solver.Step(gorgonia.NodesToValueGrads(params)); err != nil {
			b.Fatal(err)
		}
		vm.Reset()
	}
}

// BenchmarkExplore makes the table of what fits, of the net of examples/mlp.
func BenchmarkExplore(b *testing.B) {
	for _, most := range []int{0, 6000} {
		b.Run(fmt.Sprintf("largest=%d", most), func(b *testing.B) {
			opt := trainer.Options{Batch: 128, Optimizer: optim.Adam{}, Memory: 8 << 20}
			for b.Loop() {
				if _, err := trainer.Explore(b.Context(), digits, opt, trainer.ExploreOptions{MaxBatch: most}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Plans of graphs of about 2,500 to 20,000 nodes: LSTMs unrolled with Gorgonia's own functions. The
// model function is called twice for each batch size, to find nodes that Gorgonia merged; its own
// time is another metric.
func BenchmarkPlanUnrolled(b *testing.B) {
	for _, steps := range []int{80, 160, 320, 640} {
		b.Run(fmt.Sprintf("%d steps", steps), func(b *testing.B) {
			var building time.Duration
			calls, nodes := 0, 0
			unrolled := nets.Unrolled(1, steps, 24, 16)
			model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
				start := time.Now()
				m, err := unrolled(g, batch)
				building += time.Since(start)
				calls++
				nodes = len(g.AllNodes())
				return m, err
			}
			for b.Loop() {
				if _, err := trainer.Plan(b.Context(), model, trainer.Options{Batch: 4, Optimizer: optim.Adam{}}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(nodes), "nodes")
			b.ReportMetric(float64(calls)/float64(b.N), "calls/op")
			b.ReportMetric(building.Seconds()/float64(b.N), "Gorgonia-s/op")
		})
	}
}
