package trainer_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// TestMain fails if a test leaves a goroutine running. Planning makes much garbage from a small heap: it is collected less often.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}

// random returns a generator; EVENKEEL_SEED changes its numbers.
func random(t testing.TB) *rand.Rand { return seed.Rand(t, 0) }

// target is a device that promises are tested on.
type target struct {
	name  string                                          // that of its Name
	open  func(t testing.TB, memory int64) kernels.Device // pretends to have this many bytes; 0: all that it has
	count func(dev kernels.Device) counts                 // nil: it does not count

	absent, zero kernels.Device // a nil pointer and a zero value of its type: not opened
}

// targets are the devices that every promise is tested on. A new one needs one line.
var targets = []target{
	{"cpu", func(t testing.TB, memory int64) kernels.Device {
		return cputest.OpenChecked(t, cpu.Options{Threads: 2, Memory: memory})
	}, nil, (*cpu.Device)(nil), &cpu.Device{}},
	{"emu", func(t testing.TB, memory int64) kernels.Device {
		return emutest.OpenChecked(t, emu.Options{Memory: memory, Seed: random(t).Uint64()})
	}, countEmu, (*emu.Device)(nil), &emu.Device{}},
}

// each runs a test on every device.
func each(t *testing.T, test func(t *testing.T, dev kernels.Device)) {
	for _, d := range targets {
		t.Run(d.name, func(t *testing.T) { test(t, d.open(t, 0)) })
	}
}

// parallel lets a test that runs on every device run in parallel with others, except with a GPU: its driver, which
// reports unordered accesses, is one for all tests.
func parallel(t *testing.T) {
	if !slices.ContainsFunc(targets, func(d target) bool { return d.name == "cuda" }) {
		t.Parallel()
	}
}

// counts are what a device has made since it was opened, or since some time before: compare two.
type counts struct {
	allocs, pins, streams, events int
	uploaded                      int64 // bytes
	device, pinned                int64 // bytes that are allocated now
}

func countEmu(dev kernels.Device) counts {
	d := dev.(*emu.Device)
	l := d.Ledger()
	return counts{l.Allocs.Ever, l.Pins.Ever, l.Streams.Ever, l.Events.Ever, d.Traffic().Uploaded, l.DeviceBytes, l.PinnedBytes}
}

// countOf asks a device for its counts. ok is false where it does not count.
func countOf(dev kernels.Device) (c counts, ok bool) {
	for _, d := range targets {
		if d.name == dev.Name() && d.count != nil {
			return d.count(dev), true
		}
	}
	return counts{}, false
}

// counted is countOf for a test that needs it.
func counted(t *testing.T, dev kernels.Device) counts {
	t.Helper()
	c, ok := countOf(dev)
	if !ok {
		t.Skipf("needs a device that counts: %s does not", dev.Name())
	}
	return c
}

// openCPU opens the host.
func openCPU(t testing.TB) kernels.Device { return cputest.OpenChecked(t, cpu.Options{Threads: 2}) }

// within fails the test when f takes longer than limit.
func within(t testing.TB, limit time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s: not done after %v", what, limit)
	}
}

// classifier returns in-hidden-out with ReLU and cross entropy.
func classifier(in, hidden, out int) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, in)
		h := net.Dense(x, "hidden", hidden, layers.ReLU)
		return net.Classifier(x, net.Dense(h, "out", out, nil))
	}
}

// small is 4-8-3: 67 parameters.
var small = classifier(4, 8, 3)

// weights are the names of small's parameters.
var weights = []string{"hidden/w", "hidden/b", "out/w", "out/b"}

// samples returns n samples for in-...-classes, where the class is the index of the largest of the first inputs.
func samples(t testing.TB, n, in, classes int) *dataloader.Slices {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), 7))
	x, y := make([]float32, n*in), make([]uint8, n)
	for i := range y {
		row := x[i*in : (i+1)*in]
		for j := range row {
			row[j] = float32(r.NormFloat64())
		}
		for j := range classes {
			if row[j%in] > row[int(y[i])%in] {
				y[i] = uint8(j)
			}
		}
	}
	return columns(t, n, dataloader.Column("x", x, in), dataloader.Column("y", y))
}

func columns(t testing.TB, n int, c ...dataloader.Array) *dataloader.Slices {
	t.Helper()
	ds, err := dataloader.FromSlices(n, c...)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// made returns a trainer that is closed at the end of the test.
func made(t testing.TB, model trainer.ModelFunc, opt trainer.Options) *trainer.Trainer {
	t.Helper()
	tr, err := trainer.New(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return tr
}

func fit(t testing.TB, tr *trainer.Trainer, ds dataloader.Dataset) trainer.Result {
	t.Helper()
	res, err := tr.Fit(context.Background(), ds)
	if err != nil {
		t.Fatal(err)
	}
	res.Input = dataloader.Stalls{} // which differs from run to run
	return res
}

func evaluate(t testing.TB, tr *trainer.Trainer, ds dataloader.Dataset) trainer.Result {
	t.Helper()
	res, err := tr.Evaluate(context.Background(), ds)
	if err != nil {
		t.Fatal(err)
	}
	res.Input = dataloader.Stalls{} // which differs from run to run
	return res
}

// outputs returns what Predict yields, row after row.
func outputs(t testing.TB, tr *trainer.Trainer, ds dataloader.Dataset) []float64 {
	t.Helper()
	var all []float64
	for p, err := range tr.Predict(context.Background(), ds) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p.Output...)
	}
	return all
}

// kept returns the bytes of nodes of Options.Keep as an evaluation of ds finds them.
func kept(t testing.TB, tr *trainer.Trainer, ds dataloader.Dataset, names ...string) map[string][]byte {
	t.Helper()
	evaluate(t, tr, ds)
	values := make(map[string][]byte)
	for _, name := range names {
		h, _, err := tr.Kept(name)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, h.Ref().Size)
		if err := h.Read(b); err != nil {
			t.Fatal(err)
		}
		values[name] = b
	}
	return values
}

// decoded returns float32 values.
func decoded(b []byte) []float64 {
	f := make([]float64, len(b)/4)
	for i := range f {
		f[i] = float64(math.Float32frombits(binary.NativeEndian.Uint32(b[4*i:])))
	}
	return f
}

// about reports whether a and b differ by no more than tol, relative to the larger of b and 1.
func about(a, b, tol float64) bool { return math.Abs(a-b) <= tol*max(1, math.Abs(b)) }

// scalar is loss = mean(x·w) over a batch of scalars, with w in float64 starting at start.
func scalar(start float64) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		net.Type = gorgonia.Float64
		x := net.Input("x", batch, 1)
		w := net.Param("layer/w", layers.Constant{Value: start}, 1, 1)
		if err := net.Err(); err != nil {
			return trainer.Model{}, err
		}
		xw, err := gorgonia.Mul(x, w)
		if err != nil {
			return trainer.Model{}, err
		}
		loss, err := gorgonia.Mean(xw)
		return trainer.Model{Inputs: net.Inputs(), Output: xw, Loss: loss, Params: net.Params()}, err
	}
}

// numbers is a dataset of scalars x in float64.
func numbers(t testing.TB, x ...float64) *dataloader.Slices {
	return columns(t, len(x), dataloader.Column("x", x, 1))
}

// weight reads w of scalar: its output for 1.
func weight(t testing.TB, tr *trainer.Trainer) float64 {
	t.Helper()
	return outputs(t, tr, numbers(t, 1))[0]
}

// optimizers is optim.All, so that a new one is tested.
func optimizers() []optim.Named { return optim.All() }

// inUse returns the bytes in use.
func inUse(tr *trainer.Trainer) int64 { return tr.Stats().Arena.InUse }

// rowSum is loss = mean of rows x·1, for rows of 16.
func rowSum(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 16)
	return meanProduct(net, x, net.Param("layer/w", layers.Ones{}, 16, 1))
}

// meanProduct is loss = mean(x·w).
func meanProduct(net *layers.Net, x, w *gorgonia.Node) (trainer.Model, error) {
	if err := net.Err(); err != nil {
		return trainer.Model{}, err
	}
	y, err := gorgonia.Mul(x, w)
	if err != nil {
		return trainer.Model{}, err
	}
	loss, err := gorgonia.Mean(y)
	return trainer.Model{Inputs: net.Inputs(), Output: y, Loss: loss, Params: net.Params()}, err
}

// stack is depth layers of the same width.
func stack(g *gorgonia.ExprGraph, batch, depth, width int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, width)
	h := x
	for i := range depth {
		h = net.Dense(h, fmt.Sprint("layer", i), width, layers.ReLU)
	}
	return net.Classifier(x, net.Dense(h, "out", 4, nil))
}
