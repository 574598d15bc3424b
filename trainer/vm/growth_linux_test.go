package vm_test

import (
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"syscall"
	"testing"
	"time"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// wideGraphs build graphs of about n nodes, in shapes where a search for nodes, readers or live
// ranges may take quadratic time. They return a loss and what to differentiate it by.
var wideGraphs = []struct {
	name  string
	build func(d *growing, n int) (loss *gorgonia.Node, by gorgonia.Nodes)
}{
	{"unrolled LSTM", func(d *growing, n int) (*gorgonia.Node, gorgonia.Nodes) {
		m, err := nets.Unrolled(1, n/31/20*20, 24, 16)(d.ExprGraph, 2)
		d.must(nil, err)
		var weights gorgonia.Nodes
		for _, p := range m.Params {
			weights = append(weights, p.Node)
		}
		return m.Loss, weights
	}},
	{"chain of layers with one weight", func(d *growing, n int) (*gorgonia.Node, gorgonia.Nodes) {
		h, w := d.input("x"), d.input("w")
		for range n / 2 {
			h = d.must(gorgonia.Tanh(d.must(gorgonia.Mul(h, w))))
		}
		return h, gorgonia.Nodes{w}
	}},
	{"many readers of one input", func(d *growing, n int) (*gorgonia.Node, gorgonia.Nodes) {
		x := d.input("x")
		sum := x
		for k := range n / 4 {
			scaled := d.must(gorgonia.HadamardProd(x, gorgonia.NewConstant(float32(k))))
			sum = d.must(gorgonia.Add(sum, d.must(gorgonia.Tanh(scaled))))
		}
		return sum, gorgonia.Nodes{x}
	}},
	{"many values alive at once", func(d *growing, n int) (*gorgonia.Node, gorgonia.Nodes) {
		up := gorgonia.Nodes{d.input("x")}
		for range n / 3 {
			up = append(up, d.must(gorgonia.Sin(up[len(up)-1])))
		}
		h := up[len(up)-1]
		for k := len(up) - 2; k >= 0; k-- {
			h = d.must(gorgonia.Tanh(d.must(gorgonia.HadamardProd(h, up[k]))))
		}
		return h, up[:1]
	}},
	{"many inputs", func(d *growing, n int) (*gorgonia.Node, gorgonia.Nodes) {
		var xs, parts gorgonia.Nodes
		for k := range n / 3 {
			x := d.input(fmt.Sprint("x", k))
			xs, parts = append(xs, x), append(parts, d.must(gorgonia.Sin(x)))
		}
		return d.must(gorgonia.Concat(0, parts...)), xs
	}},
}

// growing is a graph of matrices of 2×2.
type growing struct {
	*gorgonia.ExprGraph
	t testing.TB
}

func (d *growing) must(n *gorgonia.Node, err error) *gorgonia.Node {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

func (d *growing) input(name string) *gorgonia.Node {
	return gorgonia.NewMatrix(d.ExprGraph, tensor.Float32, gorgonia.WithShape(2, 2), gorgonia.WithName(name),
		gorgonia.WithInit(gorgonia.Ones()))
}

// compileTime returns the nodes of a graph, and the CPU time that this thread takes to make a
// machine of it.
func compileTime(t *testing.T, build func(d *growing, n int) (*gorgonia.Node, gorgonia.Nodes), n int) (nodes int, cpu time.Duration) {
	t.Helper()
	d := &growing{gorgonia.NewGraph(), t}
	y, by := build(d, n)
	nodes = len(d.AllNodes())
	loss := d.must(gorgonia.Mean(y))
	if y.IsScalar() {
		loss = y
	}
	_, err := vm.Grad(loss, by...)
	d.must(nil, err)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime(t)
	newMachine(t, openCPU(t), d.ExprGraph, vm.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	return nodes, threadTime(t) - start
}

// threadTime returns the user time of this thread. Other processes hardly change it.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	const thread = 1 // RUSAGE_THREAD
	var r syscall.Rusage
	if err := syscall.Getrusage(thread, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano())
}

// A graph of six times as many nodes takes about six times as long to compile. Work that grows with
// the square of the nodes would take 36 times as long.
func TestCompilingGrowsWithTheNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles graphs of 12,000 nodes")
	}
	for _, c := range wideGraphs {
		t.Run(c.name, func(t *testing.T) {
			compileTime(t, c.build, 700) // the first call fills pools and grows the stack
			few, short := compileTime(t, c.build, 2000)
			many, long := compileTime(t, c.build, 12000)
			growth := float64(long) / float64(short) / (float64(many) / float64(few))
			t.Logf("%d nodes: %v; %d nodes: %v; growth per node: %.2f", few, short, many, long, growth)
			if growth > 2.5 {
				t.Errorf("a node costs %.1f times as much in the larger graph, want at most 2.5", growth)
			}
		})
	}
}
