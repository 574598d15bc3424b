package vm_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/trainer/vm"
)

// A machine runs a graph whose nodes Gorgonia may have merged, and lists them in its plan and log.
func TestNodesThatMayBeSeveralAreMarked(t *testing.T) {
	must := func(n *gorgonia.Node, err error) *gorgonia.Node { return gorgonia.Must(n, err) }
	for _, c := range []struct {
		name, mark string // empty: no mark
		node       func(x *gorgonia.Node) *gorgonia.Node
	}{
		{"slices 256 apart", "bounds differ by a multiple of 256", func(x *gorgonia.Node) *gorgonia.Node {
			return must(gorgonia.Sub(must(gorgonia.Slice(x, nil, gorgonia.S(0, 128))), must(gorgonia.Slice(x, nil, gorgonia.S(256, 384)))))
		}},
		{"a slice that no other is like", "", func(x *gorgonia.Node) *gorgonia.Node {
			return must(gorgonia.Slice(x, nil, gorgonia.S(100, 400)))
		}},
		{"constants that print alike", "leaves elements out", func(x *gorgonia.Node) *gorgonia.Node {
			return must(gorgonia.Add(x, gorgonia.NewConstant(tensor.New(tensor.WithShape(2, 512), tensor.Of(tensor.Float32)))))
		}},
		{"a short constant", "", func(x *gorgonia.Node) *gorgonia.Node {
			return must(gorgonia.HadamardProd(x, gorgonia.NewConstant(float32(2))))
		}},
		{"softmax and its logarithm", "SoftMax and LogSoftMax", func(x *gorgonia.Node) *gorgonia.Node {
			return must(gorgonia.Sub(must(gorgonia.SoftMax(x)), must(gorgonia.LogSoftMax(x))))
		}},
		{"one softmax", "", func(x *gorgonia.Node) *gorgonia.Node { return must(gorgonia.SoftMax(x)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := gorgonia.NewGraph()
			x := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(2, 512), gorgonia.WithName("x"),
				gorgonia.WithInit(gorgonia.Zeroes()))
			loss := must(gorgonia.Sum(c.node(x)))
			differentiate(t, loss, x)
			var log bytes.Buffer
			m, err := vm.New(g, vm.Options{Device: openCPU(t), Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			doubts := strings.Join(m.Plan().Programs[0].Doubts, "\n")
			if (doubts != "") != (c.mark != "") || !strings.Contains(doubts, c.mark) {
				t.Errorf("plan marks %q, want %q", doubts, c.mark)
			}
			if strings.Contains(log.String(), "level=WARN") != (c.mark != "") || !strings.Contains(log.String(), c.mark) {
				t.Errorf("log is %q, want %q", log.String(), c.mark)
			}
			if text := m.Plan().String(); strings.Contains(text, "! machine:") != (c.mark != "") {
				t.Errorf("plan is %s", text)
			}
		})
	}
}

// differentiate differentiates loss.
func differentiate(t *testing.T, loss, x *gorgonia.Node) {
	if _, err := gorgonia.Grad(loss, x); err != nil {
		t.Fatal(err)
	}
}

// vm.Grad leaves the traces of how often a node was made, which gorgonia.Grad overwrites: a softmax
// with two readers is marked only if it may be two.
func TestGradOfThisPackageLeavesNoDoubtAboutASoftmax(t *testing.T) {
	for _, c := range []struct {
		name   string
		marked bool
		other  func(x *gorgonia.Node, axes ...int) (*gorgonia.Node, error)
	}{{"one softmax", false, nil}, {"softmax and its logarithm", true, gorgonia.LogSoftMax}} {
		t.Run(c.name, func(t *testing.T) {
			g := gorgonia.NewGraph()
			x := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(2, 5), gorgonia.WithName("x"), gorgonia.WithInit(gorgonia.Zeroes()))
			p := gorgonia.Must(gorgonia.SoftMax(x))
			q := p
			if c.other != nil {
				q = gorgonia.Must(c.other(x))
			}
			loss := gorgonia.Must(gorgonia.Mean(gorgonia.Must(gorgonia.HadamardProd(gorgonia.Must(gorgonia.Tanh(p)), gorgonia.Must(gorgonia.Square(q))))))
			if _, err := vm.Grad(loss, x); err != nil {
				t.Fatal(err)
			}
			m := newMachine(t, openCPU(t), g, vm.Options{Logger: slog.New(slog.DiscardHandler)})
			if doubts := m.Plan().Programs[0].Doubts; (len(doubts) > 0) != c.marked {
				t.Errorf("the plan marks %q", doubts)
			}
		})
	}
}
