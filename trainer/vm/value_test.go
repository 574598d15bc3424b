package vm_test

import (
	"errors"
	"runtime"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// valueOf returns the value of a node on demand.
func valueOf(t testing.TB, m *vm.Machine, n *gorgonia.Node) gorgonia.Value {
	t.Helper()
	v, err := m.ValueOf(n)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAnyNodeHasAValueOnDemandAndNothingElseHappens(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		x, w := d.in("x", 2), d.in("w", 2)
		let(t, w, vector(3, 4))
		inner := d.must(gorgonia.HadamardProd(x, w))
		loss := d.must(gorgonia.Sum(d.must(gorgonia.Square(inner))))
		grads, err := gorgonia.Grad(loss, w)
		if err != nil {
			t.Fatal(err)
		}
		gorgonia.Set(x, d.must(gorgonia.Neg(x)))
		var read gorgonia.Value
		gorgonia.Read(loss, &read)
		machine := newMachine(t, dev, d.g, vm.Options{Bind: gorgonia.Nodes{w}})
		let(t, x, vector(1, 2))
		for k := 1.0; k <= 2; k++ {
			mustRun(t, machine)
			let(t, x, vector(1, 2))
			for range 2 {
				wantValue(t, "inner", valueOf(t, machine, inner), 3, 8)
				wantValue(t, "gradient of this run", valueOf(t, machine, grads[0]), 6, 32)
				wantValue(t, "loss", valueOf(t, machine, loss), 73)
				wantValue(t, "x", valueOf(t, machine, x), 1, 2)
			}
			wantValue(t, "sum of gradients", gradOf(t, w), 6*k, 32*k)
			wantValue(t, "x stays", x.Value(), 1, 2)
			wantValue(t, "read", read, 73)
			if inner.Value() != nil {
				t.Errorf("inner has the value %v: on demand only", inner.Value())
			}
		}
		v := valueOf(t, machine, loss)
		let(t, x, vector(0, 1))
		mustRun(t, machine)
		wantValue(t, "a value of an earlier run", v, 73)
		let(t, x, vector(0, 1))
		if err := machine.Set(x, inner); err != nil {
			t.Fatal(err)
		}
		wantValue(t, "x set to a node that has no value", x.Value(), 0, 4)
		missing := newBuilder(t, tensor.Float64, 1)
		y := missing.in("y", 2)
		neg := missing.must(gorgonia.Neg(y))
		missing.must(gorgonia.Exp(neg))
		var e *vm.ValueError
		if _, err := newMachine(t, dev, missing.g, vm.Options{}).ValueOf(neg); !errors.As(err, &e) || !slices.Equal(e.Nodes, []string{"y"}) {
			t.Errorf("got %v, want a ValueError about y", err)
		}
	})
}

// A node is computed with the dropout masks of the last run, and running statistics stay.
func TestAValueOnDemandIsThatOfTheLastRun(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		build := func() (d *builder, inner, root *gorgonia.Node, statistics gorgonia.Nodes) {
			d = newBuilder(t, tensor.Float64, 1)
			net := layers.New(d.g)
			net.Type = d.dt
			x := net.Input("x", 8, 4)
			h := net.BatchNorm(net.Dense(x, "dense", 6, nil), "norm", nil)
			inner = d.must(gorgonia.Dropout(h, 0.5))
			root = d.must(gorgonia.Exp(inner))
			if err := net.Values(3); err != nil {
				t.Fatal(err)
			}
			let(t, x, randomTensor(d.r, d.dt, 8, 4))
			for _, s := range net.Statistics() {
				statistics = append(statistics, s.Node)
			}
			return d, inner, root, statistics
		}
		d, inner, _, statistics := build()
		machine := newMachine(t, dev, d.g, vm.Options{})
		c, kept, _, _ := build()
		reference := newMachine(t, dev, c.g, vm.Options{Keep: gorgonia.Nodes{kept}})
		for range 3 {
			mustRun(t, machine)
			mustRun(t, reference)
			var before [][]float64
			for _, s := range statistics {
				before = append(before, elements(s.Value()))
			}
			wantValue(t, "after dropout", valueOf(t, machine, inner), elements(kept.Value())...)
			for i, s := range statistics {
				wantValue(t, s.Name(), s.Value(), before[i]...)
			}
		}
	})
}

func TestAValueOnDemandReturnsItsMemoryAndKeepsToTheLimit(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		x := d.param("x", 64, 64)
		inner := d.must(gorgonia.Tanh(x))
		d.must(gorgonia.Sum(d.must(gorgonia.Mul(inner, inner))))
		machine := newMachine(t, dev, d.g, vm.Options{})
		tight := newMachine(t, dev, d.g, vm.Options{Memory: machine.Plan().Total})
		mustRun(t, tight)
		var capacity *vm.CapacityError
		if _, err := tight.ValueOf(inner); !errors.As(err, &capacity) || !errors.Is(err, arena.ErrCapacity) {
			t.Errorf("got %v, want a CapacityError", err)
		}
		before := counted(t, dev)
		valueOf(t, machine, inner)
		if now := counted(t, dev); now.device != before.device || now.pinned != before.pinned || now.allocs == before.allocs {
			t.Errorf("got %+v after the value, had %+v", now, before)
		}
	})
}

// The roots of a subgraph have values, also those that other roots read.
func TestTheRootsOfASubgraphHaveValues(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		d := newBuilder(t, tensor.Float64, 1)
		x, other := d.in("x", 2), d.in("other", 2)
		let(t, x, vector(1, 2))
		a := d.must(gorgonia.Square(x))
		b := d.must(gorgonia.Neg(a))
		loss := d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(b, other))))
		grads, err := gorgonia.Grad(loss, x, other)
		if err != nil {
			t.Fatal(err)
		}
		mustRun(t, newMachine(t, dev, d.g.SubgraphRoots(a, b), vm.Options{}))
		wantValue(t, "a root that another root reads", a.Value(), 1, 4)
		var readA, readLoss gorgonia.Value
		statement := gorgonia.Read(a, &readA)
		gorgonia.Read(loss, &readLoss)
		mustRun(t, newMachine(t, dev, d.g.SubgraphRoots(a, b), vm.Options{})) // needs no value of other
		wantValue(t, "a", a.Value(), 1, 4)
		wantValue(t, "b", b.Value(), -1, -4)
		wantValue(t, "read a", readA, 1, 4)
		if v, _ := x.Grad(); v != nil || readLoss != nil {
			t.Errorf("a subgraph without its loss has gradient %v and loss %v", v, readLoss)
		}
		let(t, other, vector(5, 6))
		readA = nil
		exact := newMachine(t, dev, d.g.ExactSubgraphRoots(grads[0]), vm.Options{}) // the gradient of one input
		mustRun(t, exact)
		wantValue(t, "gradient node", grads[0].Value(), -10, -24)
		wantValue(t, "gradient", gradOf(t, x), -10, -24)
		if v, _ := other.Grad(); v != nil || readA != nil {
			t.Errorf("an exact subgraph of one gradient has another one, %v, or reads %v", v, readA)
		}
		mustRun(t, newMachine(t, dev, d.g.ExactSubgraphRoots(grads[1], statement), vm.Options{})) // as CompileFunction does
		wantValue(t, "the other gradient", gradOf(t, other), -1, -4)
		wantValue(t, "read by an exact subgraph", readA, 1, 4)
	})
}

// Gorgonia's constants hold their values; those of package layers get one from the machine.
func TestConstantsHaveValues(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		graph := gorgonia.NewGraph()
		net := layers.New(graph)
		net.Type = tensor.Float64
		cases := []struct {
			node *gorgonia.Node
			want []float64
		}{
			{net.Constant([]float64{1, -2}, "elements"), []float64{1, -2}},
			{net.Constant(0.5, "scalar"), []float64{0.5}},
			{net.Constant(3.0, "", 2, 2), []float64{3, 3, 3, 3}},
			{net.Constant([]int{7, 8, 9}, ""), []float64{7, 8, 9}},
			{net.Constant(1<<53-1, "", 2), []float64{1<<53 - 1, 1<<53 - 1}},
			{graph.AddNode(gorgonia.NewConstant(vector(4, 5))), []float64{4, 5}},
		}
		keep := make(gorgonia.Nodes, len(cases))
		read := make([]gorgonia.Value, len(cases))
		for i, c := range cases {
			keep[i] = c.node
			gorgonia.Read(c.node, &read[i])
		}
		if err := net.Err(); err != nil {
			t.Fatal(err)
		}
		machine := newMachine(t, dev, graph, vm.Options{Keep: keep})
		mustRun(t, machine)
		for i, c := range cases {
			wantValue(t, "kept "+c.node.Name(), c.node.Value(), c.want...)
			wantValue(t, "read "+c.node.Name(), read[i], c.want...)
			wantValue(t, "on demand "+c.node.Name(), valueOf(t, machine, c.node), c.want...)
		}
		// In a machine that keeps nothing, a constant that others read has a value on demand alone.
		graph = gorgonia.NewGraph()
		net = layers.New(graph)
		c := net.Constant([]float32{1, 2}, "c")
		net.Neg(c, "root")
		machine = newMachine(t, dev, graph, vm.Options{})
		wantValue(t, "before a run", valueOf(t, machine, c), 1, 2)
		mustRun(t, machine)
		wantValue(t, "after a run", valueOf(t, machine, c), 1, 2)
	})
}

// A number stands for its repetitions until a program fills them: a shape beyond all memory is
// refused like that of any value. An integer stays one.
func TestARepeatedNumberTakesNoGoMemory(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		const whole = 1<<52 + 1
		for name, value := range map[string]any{"float": 1.0, "int": whole} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			graph := gorgonia.NewGraph()
			net := layers.New(graph)
			net.Constant(value, "huge", 1<<13, 1<<10)
			if err := net.Err(); err != nil {
				t.Fatal(err)
			}
			var capacity *vm.CapacityError
			if _, err := vm.New(graph, vm.Options{Device: dev, Memory: 1 << 20}); !errors.As(err, &capacity) {
				t.Errorf("%s: got %v, want a CapacityError", name, err)
			}
			if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 1<<23 {
				t.Errorf("%s: %d bytes of Go memory", name, after.TotalAlloc-before.TotalAlloc)
			}
		}
		graph := gorgonia.NewGraph()
		c := layers.New(graph).Constant(whole, "", 2, 3)
		mustRun(t, newMachine(t, dev, graph, vm.Options{}))
		if got := c.Value().Data(); !slices.Equal(got.([]int), slices.Repeat([]int{whole}, 6)) {
			t.Errorf("got %v, want %d", got, whole)
		}
	})
}
