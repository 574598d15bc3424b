package compile

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
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

// normalized is a graph that convolves, normalizes, and adds up: b images of 3 channels become c
// channels.
type normalized struct {
	*graphtest.Draft
	x, w, gamma, beta, y, loss *gorgonia.Node
	op                         *gorgonia.BatchNormOp
}

func newNormalized(b, c int) normalized {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 4)), tensor.Float64)
	n := normalized{Draft: d, x: d.In(b, 3, 5, 4), w: d.In(c, 3, 3, 3), gamma: d.Of(d.Positive, 1, c, 1, 1), beta: d.In(1, c, 1, 1)}
	conv := d.Must(gorgonia.Conv2d(n.x, n.w, tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
	gorgonia.WithName("conv/out")(conv)
	var err error
	n.y, _, _, n.op, err = gorgonia.BatchNorm(conv, n.gamma, n.beta, 0.25, 1e-3)
	d.Must(n.y, err)
	for _, m := range d.Graph.AllNodes() {
		if _, ok := m.Op().(*gorgonia.BatchNormOp); ok {
			gorgonia.WithName("bn")(m)
		}
	}
	n.loss = d.Must(gorgonia.Mean(d.Must(gorgonia.Square(n.y))))
	return n
}

// load compiles the graph for a mode over common homes and loads it.
func (n normalized) load(t *testing.T, mode Mode, homes *ir.Homes, more func(*Config)) *machine {
	t.Helper()
	dev := openCPU(t)
	cfg := Config{Model: frontend.Model{Loss: n.loss, Keep: gorgonia.Nodes{n.y}}, Mode: mode, Device: dev, Homes: homes, Update: updateOf(optim.SGD{Rate: 0.1}, optim.Clip{})}
	if more != nil {
		more(&cfg)
	}
	m := load(t, dev, homes, compileFor(t, n.Graph, cfg))
	m.start(t, n.Graph, optim.SGD{Rate: 0.1})
	return m
}

// moments returns mean and biased variance of each channel of images [B, C, HW].
func moments(x []float64, b, c, hw int) (mean, variance []float64) {
	mean, variance = make([]float64, c), make([]float64, c)
	n := float64(b * hw)
	for pass := range 2 {
		for i, v := range x {
			if k := i / hw % c; pass == 0 {
				mean[k] += v / n
			} else {
				variance[k] += (v - mean[k]) * (v - mean[k]) / n
			}
		}
	}
	return mean, variance
}

func TestRunningStatisticsFollowTheBatchUnlessTheStepStops(t *testing.T) {
	const b, c = 4, 5
	n := newNormalized(b, c)
	m := n.load(t, Train, &ir.Homes{}, nil)
	m.run(t)
	conv, err := graphtest.Tape(n.Graph.ByName("conv/out")[0])
	if err != nil {
		t.Fatal(err)
	}
	mean, variance := moments(conv[0], b, c, 20)
	gotMean, gotVar := m.numbers(t, ir.Statistics, "bn/mean"), m.numbers(t, ir.Statistics, "bn/variance")
	for i := range c {
		want := [2]float64{0.25 * mean[i], 0.75 + 0.25*variance[i]*80/79}
		if math.Abs(gotMean[i]-want[0]) > 1e-9 || math.Abs(gotVar[i]-want[1]) > 1e-9 {
			t.Errorf("channel %d: got %v and %v, want %v", i, gotMean[i], gotVar[i], want)
		}
	}
	guard, _ := m.homes.Find(ir.Guard, ir.GuardName)
	elementsOf[int32](m.at(guard.Ref))[0] = 7
	before := string(m.region(ir.Statistics))
	m.run(t)
	if string(m.region(ir.Statistics)) != before {
		t.Error("a step that is stopped moved the running statistics")
	}
}

func TestEvaluationNormalizesByRunningStatisticsAndLeavesThem(t *testing.T) {
	const b, c = 3, 4
	n := newNormalized(b, c)
	homes := &ir.Homes{}
	n.load(t, Train, homes, nil)
	m := n.load(t, Evaluate, homes, nil)
	means, _ := m.homes.Find(ir.Statistics, "bn/mean")
	vars, _ := m.homes.Find(ir.Statistics, "bn/variance")
	for i := range c {
		elementsOf[float64](m.at(means.Ref))[i], elementsOf[float64](m.at(vars.Ref))[i] = float64(i)-1.5, 0.5+float64(i)
	}
	before := string(m.region(ir.Statistics))
	m.run(t)
	if string(m.region(ir.Statistics)) != before {
		t.Error("evaluation changed the running statistics")
	}
	for _, in := range m.Instrs {
		if in.Op == kernels.Conv && !in.Attrs.(kernels.ConvAttrs).Norm {
			t.Errorf("the convolution does not take over what normalizes it:\n%s", listing(m.Program))
		}
	}
	conv, err := graphtest.Tape(n.Graph.ByName("conv/out")[0])
	if err != nil {
		t.Fatal(err)
	}
	got := m.numbers(t, ir.Results, n.y.Name())
	for i, x := range conv[0] {
		k := i / 20 % c
		scale := graphtest.Numbers(n.gamma.Value())[k] / math.Sqrt(0.5+float64(k)+1e-3)
		if want := (x-float64(k)+1.5)*scale + graphtest.Numbers(n.beta.Value())[k]; math.Abs(got[i]-want) > 1e-9*max(1, math.Abs(want)) {
			t.Fatalf("element %d: got %v, want %v", i, got[i], want)
		}
	}
}

func TestAFrozenNormalizationUsesAndKeepsItsRunningStatistics(t *testing.T) {
	n := newNormalized(3, 2)
	m := n.load(t, Train, &ir.Homes{}, func(c *Config) { c.Frozen = func(name string) bool { return name == "bn" } })
	before := string(m.region(ir.Statistics))
	m.run(t)
	if string(m.region(ir.Statistics)) != before || len(before) == 0 {
		t.Errorf("the statistics of a frozen layer moved, or there are none\n%s", listing(m.Program))
	}
	for _, in := range m.Instrs {
		if in.Op == kernels.BatchNorm {
			t.Error("a frozen layer normalizes by the batch")
		}
	}
}

func TestStatisticsStartAsTheOperationHasThem(t *testing.T) {
	n := newNormalized(3, 2)
	mean, variance := n.Tensor(n.Normal, 2), n.Tensor(n.Positive, 2)
	if err := n.op.SetStats(mean, variance); err != nil {
		t.Fatal(err)
	}
	m := n.load(t, Evaluate, &ir.Homes{}, nil)
	if got, want := m.numbers(t, ir.Statistics, "bn/mean"), graphtest.Numbers(mean); !graphtest.Near(got, want, 0) {
		t.Errorf("mean %v, want %v", got, want)
	}
	if got, want := m.numbers(t, ir.Statistics, "bn/variance"), graphtest.Numbers(variance); !graphtest.Near(got, want, 0) {
		t.Errorf("variance %v, want %v", got, want)
	}
}

func TestABatchOfOneUnderNormalizationIsRefusedByName(t *testing.T) {
	n := newNormalized(1, 2)
	for _, mode := range []Mode{Train, Evaluate} {
		_, err := compileGraph(n.Graph, Config{Model: frontend.Model{Loss: n.loss}, Mode: mode, Update: updateOf(still{}, optim.Clip{})})
		if mode == Evaluate {
			if err != nil {
				t.Errorf("evaluation of one image: %v", err)
			}
			continue
		}
		if !errors.Is(err, frontend.ErrRows) || !errors.Is(err, kernels.ErrShape) {
			t.Fatalf("got %v, want ErrRows and ErrShape", err)
		}
		for _, want := range []string{`"bn"`, "(1, 2, 5, 4)", "larger batch", "layer normalization", "freeze"} {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("got %v, want %q in it", err, want)
			}
		}
	}
}
