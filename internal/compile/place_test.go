package compile

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// net is a classifier of bytes by dense layers of those widths: inputs first, classes last.
type net struct {
	name      string
	widths    []int
	batch     int
	act       layers.Activation
	clip      optim.Clip
	guardEach bool
	frozen    string // layer that is not trained
}

func deep(n, width int) []int {
	w := []int{100}
	for range n - 1 {
		w = append(w, width)
	}
	return append(w, 10)
}

var perceptrons = []net{
	{name: "MLP 784-512-256-10", widths: []int{784, 512, 256, 10}, batch: 128, act: layers.ReLU},
	{name: "MLP 784-512-256-10, sigmoid", widths: []int{784, 512, 256, 10}, batch: 32, act: layers.Sigmoid},
	{name: "MLP of 10 layers", widths: deep(10, 64), batch: 32, act: layers.Tanh},
	{name: "clipped by norm", widths: []int{784, 100, 50, 10}, batch: 16, act: layers.ReLU, clip: optim.Clip{Norm: 1}},
	{name: "GuardEach", widths: []int{784, 100, 50, 10}, batch: 16, act: layers.ReLU, guardEach: true},
	{name: "GuardEach, 10 layers", widths: deep(10, 32), batch: 64, act: layers.ReLU, guardEach: true},
	sliced,
	{name: "GuardEach, clipped by norm and value", widths: []int{30, 20, 10}, batch: 8, act: layers.ReLU, guardEach: true, clip: optim.Clip{Norm: 1, Value: 0.1}},
	{name: "frozen first layer", widths: []int{784, 100, 50, 10}, batch: 16, act: layers.ReLU, frozen: "layer0"},
	{name: "batch of 1", widths: []int{20, 10, 3}, batch: 1, act: layers.ReLU},
}

var adam = optim.Adam{Rate: 0.01}

// config builds the net for a batch size and returns how to compile it.
func (n net) config(t testing.TB, mode Mode, batch int, dev kernels.Device, homes *ir.Homes) (*gorgonia.ExprGraph, Config) {
	t.Helper()
	g := gorgonia.NewGraph()
	l := layers.New(g)
	x := l.Input("x", batch, n.widths[0])
	h := x
	for i, width := range n.widths[1:] {
		act := n.act
		if i == len(n.widths)-2 {
			act = nil
		}
		h = l.Dense(h, fmt.Sprintf("layer%d", i), width, act)
	}
	m, err := l.Classifier(x, h)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Values(seed.Value()); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Model: frontend.Model{Batch: batch, Loss: m.Loss, Output: m.Output, Correct: m.Correct, Inputs: map[*gorgonia.Node]frontend.Input{
		m.Inputs[0]: {Field: "x", Spec: kernels.Spec{Type: arena.Uint8, Shape: kernels.Shape{batch, n.widths[0]}}, Scale: 1. / 255},
		m.Inputs[1]: {Field: "y", Spec: kernels.Spec{Type: arena.Uint8, Shape: kernels.Shape{batch}}},
	}}, Mode: mode, Homes: homes, Device: dev,
		Update: updateOf(adam, n.clip)}
	cfg.Update.GuardEach = n.guardEach
	if n.frozen != "" {
		cfg.Frozen = func(name string) bool { return ir.OwnerOf(name) == n.frozen }
	}
	return g, cfg
}

// program compiles the net.
func (n net) program(t testing.TB, mode Mode, dev kernels.Device, change func(*Config)) (*ir.Program, *gorgonia.ExprGraph, *ir.Homes) {
	t.Helper()
	homes := &ir.Homes{}
	g, cfg := n.config(t, mode, n.batch, dev, homes)
	if change != nil {
		change(&cfg)
	}
	return compileFor(t, g, cfg), g, homes
}

// feed writes random bytes and labels to the slot: the same for the same rows, whatever the batch.
func (n net) feed(m *machine, rows int) {
	x, y := m.field("x"), m.field("y")
	r := rand.New(rand.NewPCG(seed.Value(), 5))
	for i := range rows {
		for j := range n.widths[0] {
			x[i*n.widths[0]+j] = byte(r.IntN(256))
		}
		if label := byte(r.IntN(n.widths[len(n.widths)-1])); y != nil {
			y[i] = label
		}
	}
}

func TestScratchIsAsSmallAsWhatLivesAtOnce(t *testing.T) {
	for _, n := range perceptrons {
		for _, mode := range []Mode{Train, Evaluate, Predict} {
			p, _, _ := n.program(t, mode, openCPU(t), nil)
			if got := float64(p.Plan.Bytes) / float64(max(p.Plan.Live, 1)); got > 1.005 {
				t.Errorf("%s, %v: %d bytes of scratch for %d that live at once: got %.4f, want at most 1.005", n.name, mode, p.Plan.Bytes, p.Plan.Live, got)
			}
		}
	}
}

// Scratch holds other bytes before each run; a step that reads bytes that it has not written has
// another outcome.
func TestNoStepReadsWhatItDidNotWrite(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, n := range perceptrons {
			var want outcome
			for _, poison := range []byte{0, 0xff, 0x41} {
				p, g, homes := n.program(t, Train, dev, nil)
				m := load(t, dev, homes, p)
				m.start(t, g, adam)
				n.feed(m, n.batch)
				for step := range int64(2) {
					m.controls(adam, 1+step)
					for _, r := range []arena.Region{ir.Scratch, ir.Gradients, ir.Results} {
						for i, b := 0, m.region(r); i < len(b); i++ {
							b[i] = poison
						}
					}
					m.run(t)
				}
				got := m.outcome()
				if want == nil {
					want = got
				}
				if name := got.differs(want); name != "" {
					t.Errorf("%s: %s depends on what scratch held before", n.name, name)
				}
				m.memory.Free()
			}
		}
	})
}

// The sentry looks at guards and dead memory after each call.
func TestNoCallWritesOutsideOfItsOperands(t *testing.T) {
	dev := openCPU(t)
	for _, n := range perceptrons {
		for _, mode := range []Mode{Train, Evaluate} {
			n.batch = min(n.batch, 8)
			plain, g, homes := n.program(t, mode, dev, nil)
			want := load(t, dev, homes, plain)
			want.start(t, g, adam)
			n.feed(want, n.batch)
			want.run(t)
			p, g, homes := n.program(t, mode, dev, func(c *Config) { c.Debug = true })
			m := load(t, dev, homes, p)
			m.start(t, g, adam)
			n.feed(m, n.batch)
			if err := m.watched(t); err != nil {
				t.Errorf("%s, %v: %v\n%s", n.name, mode, err, listing(p))
			}
			if name := m.outcome().differs(want.outcome()); name != "" {
				t.Errorf("%s, %v: %s differs from the run without guards", n.name, mode, name)
			}
		}
	}
	for s := range uint64(20) {
		s += seed.Value() * 1000
		g, loss := randomGraph(s, tensor.Float32, false)
		cfg := g.config(dev, loss)
		cfg.Homes, cfg.Debug = &ir.Homes{}, true
		m := load(t, dev, cfg.Homes, compileFor(t, g.Graph, cfg))
		m.start(t, g.Graph, still{})
		g.feed(m)
		if err := m.watched(t); err != nil {
			t.Errorf("seed %d, %v: %v\n%s", s, g.grown, err, listing(m.Program))
		}
		m.memory.Free()
	}
}

// watched runs the program call by call under a sentry.
func (m *machine) watched(t *testing.T) error {
	t.Helper()
	sentry, err := arena.NewSentry(m.Problem, m.Plan, m.region(ir.Scratch))
	if err != nil {
		return err
	}
	sentry.Begin()
	for i := range m.Instrs {
		if c, ok := m.Call(i); ok {
			exec, err := m.dev.Bind([]kernels.Call{c}, kernels.Binding{Memory: m.memory, Base: m.base})
			if err != nil {
				return err
			}
			if err := exec.Launch(m.stream); err != nil {
				return err
			}
			if err := m.stream.Sync(); err != nil {
				return err
			}
		}
		if err := sentry.After(int32(i), m.Instrs[i].Label); err != nil {
			return err
		}
	}
	return nil
}

// A smaller batch fits wherever the larger one does, and computes the same as in a plan of its own.
func TestSmallerBatchesFitIntoThePlanOfTheLargest(t *testing.T) {
	dev := openCPU(t)
	for _, n := range []net{
		{name: "ReLU", widths: []int{30, 20, 12, 5}, batch: 24, act: layers.ReLU},
		{name: "tanh, clipped", widths: []int{300, 16, 5}, batch: 17, act: layers.Tanh, clip: optim.Clip{Norm: 1}},
		{name: "GuardEach, deep", widths: deep(6, 16), batch: 12, act: layers.Sigmoid, guardEach: true},
		sliced,
		{name: "wide", widths: []int{784, 512, 256, 10}, batch: 9, act: layers.ReLU},
	} {
		for _, mode := range []Mode{Train, Evaluate, Predict} {
			like, _, homes := n.program(t, mode, dev, nil)
			homes.Sealed = true
			for batch := 1; batch < n.batch; batch++ {
				g, cfg := n.config(t, mode, batch, dev, homes)
				cfg.Like = like
				p := compileFor(t, g, cfg)
				if p.Plan.Bytes > like.Plan.Bytes {
					t.Errorf("%s, %v: batch %d needs %d bytes, batch %d only %d", n.name, mode, batch, p.Plan.Bytes, n.batch, like.Plan.Bytes)
				}
				if batch%5 == 1 {
					n.sameAlone(t, mode, dev, homes, p, batch)
				}
			}
		}
	}
}

// sameAlone runs a program that reuses the placement of a larger one, and one of the same batch
// size with a placement of its own.
func (n net) sameAlone(t *testing.T, mode Mode, dev kernels.Device, homes *ir.Homes, p *ir.Program, batch int) {
	t.Helper()
	alone := n
	alone.batch = batch
	q, g, own := alone.program(t, mode, dev, nil)
	var out [2]outcome
	for i, m := range []*machine{load(t, dev, homes, p), load(t, dev, own, q)} {
		m.start(t, g, adam)
		n.feed(m, batch)
		m.run(t)
		out[i] = m.outcome()
		for _, r := range m.Results { // instead of the whole home, which belongs to a larger batch
			out[i]["result "+r.Name] = string(m.at(m.Values[r.Value].Ref))
		}
		m.memory.Free()
	}
	if name := out[0].differs(out[1]); name != "" {
		t.Errorf("%s, %v: batch %d: %s differs from the run in a plan of its own\n%s", n.name, mode, batch, name, listing(p))
	}
}

// The gradient of a reshaped parameter is made at its home.
func TestGradientsOfReshapedParametersAreNotCopied(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float32)
	w := d.Must(gorgonia.Reshape(d.In(2, 3, 5), tensor.Shape{6, 5}))
	loss := d.Must(gorgonia.Mean(d.Must(gorgonia.Tanh(d.Must(gorgonia.Mul(d.In(4, 6), w))))))
	p := compileFor(t, d.Graph, Config{Model: frontend.Model{Loss: loss}, Mode: Train, Update: updateOf(adam, optim.Clip{})})
	for _, c := range p.Calls() {
		if c.Op == kernels.Reshape {
			t.Errorf("%q is copied\n%s", c.Label, listing(p))
		}
	}
}
