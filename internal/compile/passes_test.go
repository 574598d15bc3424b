package compile

import (
	"math"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// switches turn passes off: each alone, and combinations. No pass changes an operation's
// arithmetic, so there is no tolerance.
var switches = []struct {
	name string
	off  Pass
}{
	{"none", AllPasses}, {"all but fuse", Fuse}, {"all but order", Order}, {"all but in place", InPlace}, {"all but views", Views},
	{"all but merge", Merge}, {"all but fold", Fold}, {"all but redecode", Redecode}, {"all but reduce", Reduce}, {"all but pool ReLU grad", PoolReLUGrad},
	{"all but fuse batch norm ReLU", FuseBatchNormReLU}, {"all but slices", Slices}, {"all but identity", Identity}, {"all but sums", Sums}, {"fuse only", AllPasses &^ Fuse},
	{"in place only", AllPasses &^ InPlace}, {"views only", AllPasses &^ Views},
}

func TestEveryPassIsSwitchedOffAlone(t *testing.T) {
	var single Pass
	for _, p := range switches {
		if p.off&(p.off-1) == 0 {
			single |= p.off
		}
	}
	if single != AllPasses {
		t.Errorf("passes that are switched off singly: got %b, want %b", single, AllPasses)
	}
}

// steps trains for n steps with the same batch and returns the outcome.
func (g *grower) steps(t *testing.T, dev kernels.Device, cfg Config, o optim.Optimizer, n int) (outcome, *ir.Program) {
	t.Helper()
	cfg.Homes = &ir.Homes{}
	p := compileFor(t, g.Graph, cfg)
	m := load(t, dev, cfg.Homes, p)
	defer m.memory.Free()
	m.start(t, g.Graph, o)
	g.feed(m)
	for k := range n {
		m.controls(o, int64(k+1))
		m.poison()
		m.run(t)
	}
	return m.outcome(), p
}

func TestEachPassKeepsTheBitsOfRandomGraphs(t *testing.T) {
	parallel(t)
	each(t, func(t *testing.T, dev kernels.Device) {
		optimizers := optim.All()
		for s := range uint64(40) {
			s += seed.Value() * 1000
			dt := []tensor.Dtype{tensor.Float32, tensor.Float64}[s%2]
			g, loss := randomGraph(s, dt, false)
			o := optimizers[g.Rand.IntN(len(optimizers))].Optimizer
			cfg := g.config(dev, loss)
			cfg.Update = updateOf(o, optim.Clip{Norm: float64(g.Rand.IntN(3))})
			want, p := g.steps(t, dev, cfg, o, 2)
			for _, pass := range switches {
				cfg.Off = pass.off
				got, q := g.steps(t, dev, cfg, o, 2)
				if name := got.differs(want); name != "" {
					t.Fatalf("seed %d, %v: passes %s: %s differs from the run with all passes: %x, %x\n%v\n%v", s, g.grown, pass.name, name,
						got[name], want[name], listing(q), listing(p))
				}
			}
			cfg.Off, cfg.Distinct = Sums, true
			distinct, q := g.steps(t, dev, cfg, o, 2)
			if name := distinct.differs(want); name != "" {
				t.Fatalf("seed %d, %v: with equal values computed for each reader: %s differs\n%v", s, g.grown, name, listing(q))
			}
			cfg.Distinct, cfg.Update.GuardEach = false, true
			guardEach, q := g.steps(t, dev, cfg, o, 2)
			if name := guardEach.differs(want); name != "" {
				t.Fatalf("seed %d, %v: the update under GuardEach: %s differs\n%v", s, g.grown, name, listing(q))
			}
		}
	})
}

// The shape of a chain may come from a constant alone.
func TestAChainWhoseInputsAreSmallerThanItsConstantsHasTheShapeOfThose(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	x := d.In()
	ones := gorgonia.NewConstant(tensor.Ones(tensor.Float64, 3, 4), gorgonia.WithName("ones"))
	loss := d.Must(gorgonia.Sum(d.Must(gorgonia.Tanh(d.Must(gorgonia.HadamardProd(x, ones))))))
	dev := openCPU(t)
	cfg := Config{Model: frontend.Model{Loss: loss}, Mode: Train, Update: updateOf(still{}, optim.Clip{}), Device: dev, Homes: &ir.Homes{}}
	m := load(t, dev, cfg.Homes, compileFor(t, d.Graph, cfg))
	m.start(t, d.Graph, still{})
	if got, want := m.loss(t), 12*math.Tanh(graphtest.Numbers(x.Value())[0]); !graphtest.Near([]float64{got}, []float64{want}, 1e-12) {
		t.Errorf("got %v, want %v\n%s", got, want, listing(m.Program))
	}
}

// A bias of one row is the epilogue of its matmul as a vector is.
func TestABiasOfOneRowIsAnEpilogue(t *testing.T) {
	for _, shape := range [][]int{{5}, {1, 5}} {
		d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float32)
		y := d.Must(gorgonia.BroadcastAdd(d.Must(gorgonia.Mul(d.In(4, 3), d.In(3, 5))), d.In(shape...), nil, []byte{0}))
		p := compileFor(t, d.Graph, Config{Model: frontend.Model{Loss: d.Must(gorgonia.Sum(d.Must(gorgonia.Tanh(y))))}, Mode: Evaluate, Device: openCPU(t)})
		if got := len(p.Calls()); got != 2 {
			t.Errorf("bias %v: got %d calls, want a matmul and a sum\n%s", shape, got, listing(p))
		}
	}
}

// A product that accumulates has no epilogue, even where the other addend of the gradient of a
// single row looks like a bias.
func TestASumOfProductsHasNoEpilogue(t *testing.T) {
	dev := openCPU(t)
	for _, rows := range []int{1, 3} {
		d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float32)
		w := d.In(rows, 5)
		sum := func(n *gorgonia.Node) *gorgonia.Node { return d.Must(gorgonia.Sum(n)) }
		loss := sum(d.Must(gorgonia.Tanh(w)))
		for range 2 {
			loss = d.Must(gorgonia.Add(loss, sum(d.Must(gorgonia.Square(d.Must(gorgonia.Mul(d.In(4, rows), w)))))))
		}
		var want outcome
		for _, off := range []Pass{Fuse, 0} {
			cfg := Config{Model: frontend.Model{Loss: loss}, Mode: Train, Update: updateOf(optim.SGD{}, optim.Clip{}), Device: dev, Homes: &ir.Homes{}, Off: off}
			m := load(t, dev, cfg.Homes, compileFor(t, d.Graph, cfg))
			m.start(t, d.Graph, optim.SGD{})
			m.run(t)
			if got := m.outcome(); want == nil {
				want = got
			} else if name := got.differs(want); name != "" {
				t.Errorf("%d rows: %s differs from the run without fusion\n%s", rows, name, listing(m.Program))
			}
		}
	}
}
