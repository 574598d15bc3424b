package compile

import (
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// sliced is a net with two gradients that are cut: one whose rows are a multiple of a slice's, and
// one whose rows are not.
var sliced = net{name: "sliced", widths: []int{500, 384, 20, 5}, batch: 24, act: layers.ReLU, guardEach: true}

// train runs steps of n and returns the outcome.
func (n net) train(t *testing.T, dev kernels.Device, o optim.Optimizer, off Pass, steps int) (outcome, *ir.Program) {
	t.Helper()
	p, g, homes := n.program(t, Train, dev, func(c *Config) {
		c.Off, c.Update = off, updateOf(o, n.clip)
		c.Update.GuardEach = n.guardEach
	})
	m := load(t, dev, homes, p)
	defer m.memory.Free()
	m.start(t, g, o)
	n.feed(m, n.batch)
	for k := range steps {
		m.controls(o, int64(k+1))
		m.poison()
		m.run(t)
	}
	return m.outcome(), p
}

func TestSlicesOfGradientsKeepTheBits(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, o := range optim.All() {
			whole, p := sliced.train(t, dev, o.Optimizer, Slices, 3)
			if p.Slices != nil {
				t.Fatalf("%s: got slices %v without the pass", o.Name, p.Slices)
			}
			byRows := !slices.ContainsFunc(o.Optimizer.States(kernels.Spec{Shape: kernels.Shape{512, 256}}), func(s kernels.State) bool {
				return !s.Shape.Equal(kernels.Shape{512, 256})
			})
			for _, off := range []Pass{0, Order, InPlace, Fuse | Reduce, AllPasses &^ (Slices | Views)} {
				got, q := sliced.train(t, dev, o.Optimizer, off, 3)
				if off == 0 && (q.Slices != nil) != byRows {
					t.Fatalf("%s: slices %v; its states have rows: %v\n%s", o.Name, q.Slices, byRows, listing(q))
				}
				if name := got.differs(whole); name != "" {
					t.Errorf("%s, without %b: %s differs from the run without slices\n%s", o.Name, off, name, listing(q))
				}
			}
		}
	})
}

func TestSlicesLowerThePeakAndAreAsFewAsDoSo(t *testing.T) {
	n := net{widths: []int{784, 512, 256, 10}, batch: 128, act: layers.ReLU, guardEach: true}
	whole, _, _ := n.program(t, Train, nil, func(c *Config) { c.Off = Slices })
	p, _, _ := n.program(t, Train, nil, nil)
	// The decoded input, the first layer's gradient and the smallest slice of its weights' gradient
	// are live at once.
	const least = 128*(784+512)*4 + 144*512*4
	if p.Plan.Bytes != least {
		t.Errorf("got %d bytes, want %d; %d without slices\n%s", p.Plan.Bytes, least, whole.Plan.Bytes, listing(p))
	}
	// All of [512, 256] would raise the peak, with the first layer's activation, its gradient and
	// that of the second layer; half of it does not.
	if got, want := p.Slices, []int{0, 0, 0, 2, 0, 6}; !slices.Equal(got, want) {
		t.Errorf("slices of %q: got %v, want %v", p.Trained, got, want)
	}
	for name, change := range map[string]func(*Config){
		"GuardStep":       func(c *Config) { c.Update.GuardEach = false },
		"clipped by norm": func(c *Config) { c.Update = updateOf(adam, optim.Clip{Norm: 1}); c.Update.GuardEach = true },
		"without views":   func(c *Config) { c.Off = Views },
	} {
		if p, _, _ := n.program(t, Train, nil, change); p.Slices != nil {
			t.Errorf("%s: got %v slices, want none", name, p.Slices)
		}
	}
}

// Activations of a large batch are more than the gradients of small layers.
func TestGradientsThatDoNotRaiseThePeakStayWhole(t *testing.T) {
	n := net{widths: []int{200, 250, 200, 10}, batch: 1024, act: layers.ReLU, guardEach: true}
	whole, _, _ := n.program(t, Train, nil, func(c *Config) { c.Off = Slices })
	p, _, _ := n.program(t, Train, nil, nil)
	for i, rows := range p.Slices {
		if p.Trained[i] == "layer0/w" && rows > 0 {
			continue // with the decoded input live, it raises the peak
		}
		if rows > 0 {
			t.Errorf("%s is cut into %d slices; %d bytes without slices, %d with\n%s", p.Trained[i], rows, whole.Plan.Bytes, p.Plan.Bytes, listing(p))
		}
	}
}
