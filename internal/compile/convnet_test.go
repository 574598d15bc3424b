package compile

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// convnet is a network of package layers with random values for its inputs.
func convnet(t *testing.T, build func(net *layers.Net) (layers.Model, error)) (*gorgonia.ExprGraph, layers.Model) {
	t.Helper()
	g := gorgonia.NewGraph()
	net := layers.New(g)
	m, err := build(net)
	if err != nil {
		t.Fatal(err)
	}
	if err := net.Values(seed.Value()); err != nil {
		t.Fatal(err)
	}
	d := &graphtest.Draft{Graph: g, Rand: rand.New(rand.NewPCG(seed.Value(), 3)), Type: tensor.Float32}
	for _, n := range m.Inputs {
		var v gorgonia.Value = tensor.New(tensor.WithShape(n.Shape()...), tensor.Of(tensor.Int))
		if n.Dtype() == tensor.Float32 {
			v = d.Tensor(d.Normal, n.Shape()...)
		}
		if err := gorgonia.Let(n, v); err != nil {
			t.Fatal(err)
		}
	}
	return g, m
}

// plain is conv, relu, max pooling; normal has batch normalization between.
func plain(net *layers.Net) (layers.Model, error) {
	x := net.Input("x", 3, 2, 9, 8)
	h := net.Conv(x, "conv", layers.Conv2D{Out: 4, Kernel: layers.Square(3), Pad: layers.Square(1)}, layers.ReLU)
	h = net.MaxPool(h, "pool", layers.Pool{Kernel: layers.Square(2), Stride: layers.Square(2)})
	return net.Classifier(x, net.Dense(net.Flatten(h, "flat"), "out", 3, nil))
}

func normal(net *layers.Net) (layers.Model, error) {
	x := net.Input("x", 3, 2, 9, 8)
	h := net.Conv(x, "conv", layers.Conv2D{Out: 4, Kernel: layers.Square(3), NoBias: true}, nil)
	h = net.BatchNorm(h, "bn", layers.ReLU)
	h = net.Conv(h, "conv2", layers.Conv2D{Out: 4, Kernel: layers.Square(3), NoBias: true}, nil)
	h = net.BatchNorm(h, "bn2", layers.ReLU)
	h = net.MaxPool(h, "pool", layers.Pool{Kernel: layers.Square(3), Stride: layers.Square(2)})
	h = net.Dropout(h, "drop", 0.5)
	return net.Classifier(x, net.Dense(net.GlobalAvgPool(h, "mean"), "out", 3, nil))
}

func convnetConfig(m layers.Model, mode Mode) Config {
	cfg := Config{Model: frontend.Model{Loss: m.Loss, Statistics: map[*gorgonia.Node]bool{}}, Mode: mode, Homes: &ir.Homes{}, Update: updateOf(optim.Adam{Rate: 0.1}, optim.Clip{})}
	for _, p := range m.Statistics {
		cfg.Statistics[p.Node] = true
	}
	cfg.Frozen = func(name string) bool { return name == "x" }
	return cfg
}

// calls are the operations that run, in the order in which they were made.
func calls(p *ir.Program) string {
	ops := make([]string, len(p.Instrs))
	for at, i := range p.Order {
		ops[i] = p.Instrs[at].Op.Name
		if p.IsView(&p.Instrs[at]) {
			ops[i] = ""
		}
	}
	return strings.Join(slices.DeleteFunc(ops, func(s string) bool { return s == "" || strings.HasPrefix(s, "check_finite") || s == "adam" }), " ")
}

func TestConvolutionalNetworksBecomeTheFewestOperations(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(net *layers.Net) (layers.Model, error)
		mode  Mode
		want  string
	}{
		{"plain, training", plain, Train, "conv maxPool matmul cross_entropy mean " +
			"fill cross_entropy_grad sum matmul matmul relu_grad maxPoolGrad convGradWeight sum"},
		{"plain, evaluation", plain, Evaluate, "conv maxPool matmul cross_entropy mean"},
		{"normal, training", normal, Train, "conv batchNorm conv batchNorm maxPool dropout mean matmul cross_entropy mean " +
			"fill cross_entropy_grad sum matmul matmul affine broadcast dropout relu_grad maxPoolGrad " +
			"batchNormGrad convGradInput convGradWeight batchNormGrad convGradWeight runningStat runningStat runningStat runningStat"},
		{"normal, evaluation", normal, Evaluate, "chain conv chain conv maxPool mean matmul cross_entropy mean"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, m := convnet(t, c.build)
			cfg := convnetConfig(m, c.mode)
			cfg.Device = openCPU(t)
			p := compileFor(t, g, cfg)
			if got := calls(p); got != c.want {
				t.Errorf("got  %s\nwant %s\n%s", got, c.want, listing(p))
			}
		})
	}
}

func TestEachPassKeepsTheBitsOfConvolutionalNetworks(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for name, build := range map[string]func(net *layers.Net) (layers.Model, error){"plain": plain, "normal": normal} {
			g, m := convnet(t, build)
			run := func(off Pass) (outcome, *ir.Program) {
				cfg := convnetConfig(m, Train)
				cfg.Device, cfg.Off = dev, off
				p := compileFor(t, g, cfg)
				loaded := load(t, dev, cfg.Homes, p)
				defer loaded.memory.Free()
				loaded.start(t, g, optim.Adam{Rate: 0.1})
				for _, r := range m.Statistics {
					part, _ := cfg.Homes.Find(ir.Statistics, r.Node.Name())
					kernels.Store(loaded.at(part.Ref), part.Spec.Type, graphtest.Numbers(r.Node.Value()))
				}
				for k := range 3 {
					loaded.controls(optim.Adam{Rate: 0.1}, int64(k+1))
					loaded.poison()
					loaded.run(t)
				}
				return loaded.outcome(), p
			}
			want, p := run(0)
			for _, pass := range switches {
				got, q := run(pass.off)
				if differs := got.differs(want); differs != "" {
					t.Errorf("%s: passes %s: %s is not what it is with all passes\n%s\n%s", name, pass.name, differs, listing(q), listing(p))
				}
			}
			if _, ok := want["parameter conv/w"]; !ok || len(want) < 8 {
				t.Errorf("%s: compared %d values", name, len(want))
			}
		}
	})
}

// The gradient of a ReLU before pooling does not read the whole image.
func TestTheOperandOfPoolingIsDeadAfterTheForwardPass(t *testing.T) {
	g, m := convnet(t, plain)
	cfg := convnetConfig(m, Train)
	cfg.Device = openCPU(t)
	p := compileFor(t, g, cfg)
	for i, in := range p.Instrs {
		if in.Op != kernels.Conv {
			continue
		}
		for j, later := range p.Instrs[i+1:] {
			if slices.Contains(later.In, in.Out[0]) && later.Op != kernels.MaxPool {
				t.Errorf("instruction %d, %s, reads the activation that was pooled\n%s", i+1+j, later.Op.Name, listing(p))
			}
		}
	}
}
