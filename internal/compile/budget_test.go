package compile

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/ir/irtest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Compiling makes much garbage from a small heap: TestMain lets it be collected less often.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// regions are the parts of a plan that golden files list, in order.
var regions = []struct {
	region arena.Region
	name   string
}{{ir.Parameters, "parameters"}, {ir.Gradients, "gradients"}, {ir.State, "state"}, {ir.Slot, "slot"}, {ir.Guard, "guard"}, {ir.Results, "results"}}

// Plans are for a device without workspaces, so that the numbers are the same on every machine. A
// number changes only on purpose: then run with -rewrite and give the reason in the commit.
func TestPlansOfReferenceModelsNeedTheBytesOfTheirGoldenFile(t *testing.T) {
	var got []byte
	for _, n := range []net{
		{name: "MLP 784-512-256-10, batch 128, Adam", widths: []int{784, 512, 256, 10}, batch: 128, act: layers.ReLU},
		{name: "MLP 784-512-256-10, batch 128, Adam, GuardEach", widths: []int{784, 512, 256, 10}, batch: 128, act: layers.ReLU, guardEach: true},
		{name: "MLP of 10 layers of 64, batch 32, Adam, clipped by norm", widths: deep(10, 64), batch: 32, act: layers.Tanh, clip: optim.Clip{Norm: 1}},
	} {
		got = fmt.Appendf(got, "%s\n", n.name)
		for _, mode := range []Mode{Train, Evaluate, Predict} {
			p, _, homes := n.program(t, mode, nil, nil)
			got = fmt.Appendf(got, "\t%v:", mode)
			for _, r := range regions {
				got = fmt.Appendf(got, " %s %d,", r.name, homes.Bytes(r.region))
			}
			got = fmt.Appendf(got, " scratch %d, live %d, instructions %d\n", p.Plan.Bytes, p.Plan.Live, len(p.Instrs))
		}
	}
	irtest.Compare(t, "plans", string(got))
}

// payload is the bytes of the tensors in a region, without padding.
func payload(homes *ir.Homes, r arena.Region) (bytes int64) {
	for _, part := range homes.Parts(r) {
		bytes += part.Spec.Bytes()
	}
	return bytes
}

func TestAnMLPNeedsNoMoreThanItsTensorsAndItsLargestLiveSet(t *testing.T) {
	const batch = 128
	n := net{widths: []int{784, 512, 256, 10}, batch: batch, act: layers.ReLU}
	p, _, homes := n.program(t, Train, nil, nil)
	// At the peak the decoded input [128, 784] meets the first layer's activation [128, 512], or
	// its gradient.
	const live = batch * (784 + 512) * 4
	const params = (784*512 + 512 + 512*256 + 256 + 256*10 + 10) * 4
	if got := payload(homes, ir.Parameters); got != params {
		t.Fatalf("parameters: got %d bytes, want %d", got, params)
	}
	slot := int64(batch*784 + batch + 64)
	results := payload(homes, ir.Results)
	want := float64(params + params + 2*params + 2*slot + 2*results + live)
	got := 2*homes.Bytes(ir.Slot) + 2*homes.Bytes(ir.Results) + homes.Bytes(ir.Parameters) + homes.Bytes(ir.Gradients) + homes.Bytes(ir.State) + p.Plan.Bytes
	if float64(got) > 1.02*want {
		t.Errorf("got %d bytes, want at most 1.02 of %.0f\n%s", got, want, listing(p))
	}
}

func TestAnUpdateUnderGuardEachKeepsNoGradients(t *testing.T) {
	n := net{widths: []int{784, 512, 256, 10}, batch: 128, act: layers.ReLU}
	full, _, homes := n.program(t, Train, nil, nil)
	n.guardEach = true
	each, _, eachHomes := n.program(t, Train, nil, nil)
	if got := eachHomes.Bytes(ir.Gradients); got != 0 {
		t.Errorf("gradients under GuardEach: got %d bytes, want 0", got)
	}
	if got, most := each.Plan.Bytes, full.Plan.Bytes+homes.Bytes(ir.Gradients); got >= most {
		t.Errorf("GuardEach: got %d bytes of scratch, want less than the %d of scratch and gradients", got, most)
	}
}

func TestEvaluationNeedsTheTwoLargestAdjacentActivations(t *testing.T) {
	for _, n := range []net{
		{name: "wide input", widths: deep(10, 64), batch: 32, act: layers.Tanh},
		{name: "wide middle", widths: []int{16, 32, 64, 128, 256, 256, 128, 64, 32, 16, 10}, batch: 32, act: layers.ReLU},
	} {
		var want int64
		for i, width := range n.widths[1:] {
			want = max(want, arena.Round(int64(n.batch*n.widths[i]*4))+arena.Round(int64(n.batch*width*4)))
		}
		p, _, _ := n.program(t, Evaluate, nil, nil)
		if got := p.Plan.Bytes; got != want {
			t.Errorf("%s: got %d bytes, want %d\n%s", n.name, got, want, listing(p))
		}
		q, _, _ := n.program(t, Train, nil, nil)
		if q.Plan.Bytes <= p.Plan.Bytes {
			t.Errorf("%s: training needs %d bytes, evaluation %d: want more", n.name, q.Plan.Bytes, p.Plan.Bytes)
		}
	}
}

func TestFreezingALayerDropsItsGradientsAndLeavesTheOthers(t *testing.T) {
	dev := openCPU(t)
	n := net{widths: []int{4, 8, 3}, batch: 5, act: layers.ReLU}
	var grads [2][]byte
	for i, want := range []int64{268, 108} {
		n.frozen = []string{"", "layer0"}[i]
		p, g, homes := n.program(t, Train, dev, nil)
		if got := payload(homes, ir.Gradients); got != want {
			t.Errorf("frozen %q: got %d bytes of gradients, want %d", n.frozen, got, want)
		}
		m := load(t, dev, homes, p)
		m.start(t, g, adam)
		n.feed(m, n.batch)
		before := m.home(t, ir.Parameters, "layer0/w")
		m.run(t)
		grads[i] = append(m.home(t, ir.Gradients, "layer1/w"), m.home(t, ir.Gradients, "layer1/b")...)
		if same := string(before) == string(m.home(t, ir.Parameters, "layer0/w")); same != (n.frozen != "") {
			t.Errorf("frozen %q: the first layer's weights stayed: %v", n.frozen, same)
		}
		if got := len(p.Trained); got != 4-2*i {
			t.Errorf("frozen %q: got %d trained parameters, want %d", n.frozen, got, 4-2*i)
		}
	}
	if string(grads[0]) != string(grads[1]) {
		t.Error("freezing the first layer changed the gradients of the second")
	}
}

func TestTheOrderNeverHasAHigherPeakThanTheOrderOfBuilding(t *testing.T) {
	for _, n := range perceptrons {
		p, _, _ := n.program(t, Train, nil, nil)
		q, _, _ := n.program(t, Train, nil, func(c *Config) { c.Off = Order })
		if p.Plan.Live > q.Plan.Live {
			t.Errorf("%s: got a peak of %d bytes, in the order of building %d", n.name, p.Plan.Live, q.Plan.Live)
		}
		t.Logf("%s: %d bytes live, in the order of building %d", n.name, p.Plan.Live, q.Plan.Live)
	}
	for s := range uint64(30) {
		s += seed.Value() * 1000
		g, loss := randomGraph(s, tensor.Float32, false)
		cfg := g.config(nil, loss)
		cfg.Update.GuardEach = s%2 == 0
		p := compileFor(t, g.Graph, cfg)
		cfg.Homes, cfg.Off = nil, Order
		q := compileFor(t, g.Graph, cfg)
		if p.Plan.Live > q.Plan.Live {
			t.Errorf("seed %d, %v: got a peak of %d bytes, in the order of building %d", s, g.grown, p.Plan.Live, q.Plan.Live)
		}
		for _, p := range []*ir.Program{p, q} { // schedule.Peak and the placement count bytes each in its own way
			if got := schedule.Peak(p, nil); got != p.Plan.Live {
				t.Errorf("seed %d, %v: a peak of %d bytes, but %d live in the plan", s, g.grown, got, p.Plan.Live)
			}
		}
	}
}
