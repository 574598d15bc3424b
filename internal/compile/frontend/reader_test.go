package frontend

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// names returns the operations of a program, in order.
func names(r *reading) (ops []string) {
	for _, in := range r.Instrs {
		ops = append(ops, in.Op.Name)
	}
	return ops
}

func TestLayersBecomeOneOperationEach(t *testing.T) {
	const batch = 5
	for _, c := range []struct {
		name string
		head func(n *layers.Net, x, out *gorgonia.Node) (layers.Model, error)
		want string
	}{
		{"classes", (*layers.Net).Classifier,
			"matmul add relu matmul add cross_entropy correct mean"},
		{"one-hot targets", (*layers.Net).ClassifierOneHot,
			"matmul add relu matmul add cross_entropy_dense correct_dense mean"},
		{"leaky", func(n *layers.Net, x, out *gorgonia.Node) (layers.Model, error) {
			return n.Regressor(x, layers.LeakyReLU(0.1)(n, out, "leaky"))
		}, "matmul add relu matmul add leaky_relu sub square mean"},
		{"values", func(n *layers.Net, x, out *gorgonia.Node) (layers.Model, error) { return n.Regressor(x, out) },
			"matmul add relu matmul add sub square mean"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := gorgonia.NewGraph()
			net := layers.New(g)
			x := net.Input("x", batch, 7)
			m, err := c.head(net, x, net.Dense(net.Dense(x, "hidden", 4, layers.ReLU), "out", 3, nil))
			if err != nil {
				t.Fatal(err)
			}
			if err := net.Values(seed.Value()); err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(seed.Value(), 2))
			d := &draft{r: r, dt: tensor.Float32}
			roots := []*gorgonia.Node{m.Loss}
			for _, n := range m.Inputs {
				if n.Dtype() == tensor.Int {
					gorgonia.Let(n, tensor.New(tensor.WithShape(batch), tensor.WithBacking([]int{0, 2, 1, 1, 2})))
				} else {
					gorgonia.Let(n, d.tensor(d.normal, n.Shape()...))
				}
			}
			if m.Correct != nil {
				roots = append(roots, m.Correct)
			}
			got, err := readGraph(training, roots...)
			if err != nil {
				t.Fatal(err)
			}
			if ops := strings.Join(names(got), " "); ops != c.want {
				t.Errorf("got  %s\nwant %s\n%v", ops, c.want, got.Program)
			}
			if err := got.run(); err != nil {
				t.Fatal(err)
			}
			want, err := tape(roots...)
			if err != nil {
				t.Fatal(err)
			}
			for i, n := range roots {
				if ys := got.floats(got.values[n]); !near(ys, want[i], 1e-5) {
					t.Errorf("seed %d: %q: got %v, Gorgonia computes %v", seed.Value(), n.Name(), ys, want[i])
				}
			}
			if v := got.values[m.Loss]; got.Values[v].Name != m.Loss.Name() {
				t.Errorf("the loss is called %q, want %q", got.Values[v].Name, m.Loss.Name())
			}
		})
	}
}

func TestPlainGorgoniaGraphsBecomeTheSameOperations(t *testing.T) {
	d := newDraft(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float32)
	x, w, b, y := d.in(6, 5), d.in(5, 3), d.in(3), d.of(d.positive, 6, 3)
	h := d.must(gorgonia.Rectify(d.must(gorgonia.BroadcastAdd(d.must(gorgonia.Mul(x, w)), b, nil, []byte{0}))))
	p := d.must(gorgonia.SoftMax(h))
	rows := d.must(gorgonia.Sum(d.must(gorgonia.HadamardProd(d.must(gorgonia.Log(p)), y)), 1))
	loss := d.must(gorgonia.Neg(d.must(gorgonia.Mean(rows))))
	r, err := readGraph(training, loss)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(names(r), " "), "matmul add relu cross_entropy_dense neg mean neg"; got != want {
		t.Errorf("got  %s\nwant %s\n%v", got, want, r.Program)
	}
}

func TestDeepGraphsAreLoweredWithoutRecursionInLinearTime(t *testing.T) {
	const depth = 10_000
	d := newDraft(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	x := d.in(2)
	n := x
	for range depth {
		n = d.must(gorgonia.Tanh(n))
	}
	start := time.Now()
	r, err := readGraph(training, n)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Instrs) != depth {
		t.Errorf("got %d instructions, want %d", len(r.Instrs), depth)
	}
	t.Logf("%d nodes in %v", depth, time.Since(start))
}

func TestOnlyNodesThatTheRootsNeedAreLowered(t *testing.T) {
	d := newDraft(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	x := d.in(3, 4)
	want := d.must(gorgonia.Sum(x, 1))
	d.must(gorgonia.Exp(d.in(9)))
	r, err := readGraph(training, want, nil, want)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Instrs) != 1 || len(r.params) != 1 {
		t.Errorf("got %d parameters and\n%v, want one sum of one parameter", len(r.params), r.Program)
	}
}

func TestANodeThatIsUsedTwiceIsLoweredOnce(t *testing.T) {
	d := newDraft(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	e := d.must(gorgonia.Exp(d.in(3)))
	n := d.must(gorgonia.Add(d.must(gorgonia.Tanh(e)), d.must(gorgonia.HadamardProd(e, e))))
	r, err := readGraph(training, n)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.count(kernels.Exp), 1; got != want {
		t.Errorf("got %d exponentials, want %d", got, want)
	}
}

// Gorgonia removes nodes when it rewrites log(1-p); the ids and edges in the graph are wrong
// afterwards.
func TestChildrenAreRightAfterGorgoniaRemovedNodes(t *testing.T) {
	runRecipes(t, []recipe{{"log(1-p)", func(d *draft) *gorgonia.Node {
		p := d.must(gorgonia.Exp(d.must(gorgonia.Neg(d.of(d.positive, 3, 4)))))
		l := d.must(gorgonia.BinaryXent(p, d.of(d.positive, 3, 4)))
		return d.must(gorgonia.Tanh(d.must(gorgonia.Mul(l, d.in(4, 2)))))
	}, kernels.Log1p}})
}

func TestAllNodesThatCannotBeLoweredAreReportedTogether(t *testing.T) {
	d := newDraft(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	x := d.in(1, 1, 4, 4)
	a := d.must(gorgonia.AveragePool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
	b := d.must(gorgonia.AveragePool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{1, 1}))
	gorgonia.WithName("pool/a")(a)
	gorgonia.WithName("pool/b")(b)
	orphan := gorgonia.NewVector(d.g, tensor.Float64, gorgonia.WithShape(9), gorgonia.WithName("orphan"))
	sum := d.must(gorgonia.Add(d.must(gorgonia.Sum(a)), d.must(gorgonia.Sum(b))))
	root := d.must(gorgonia.Add(sum, d.must(gorgonia.Sum(orphan))))
	r, err := readGraph(training, root)
	if err == nil {
		t.Fatalf("got\n%v, want an error", r.Program)
	}
	if !errors.Is(err, kernels.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported in it", err)
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 2 {
		t.Errorf("got %d errors, want one for each of the two nodes:\n%v", len(lines), err)
	}
	for _, want := range []string{"pool/a", "pool/b", "avgPoolOp", "width of its input"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestConstantScalarsAreEvaluatedDuringLowering(t *testing.T) {
	d := newDraft(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float32)
	x := d.in(3, 4, 5)
	size := d.must(gorgonia.HadamardProd(d.must(gorgonia.SizeOf(0, x)), d.must(gorgonia.SizeOf(2, x))))
	third := d.must(gorgonia.HadamardDiv(d.must(gorgonia.Sub(size, gorgonia.NewConstant(float32(5)))), gorgonia.NewConstant(float32(30))))
	n := d.must(gorgonia.HadamardProd(x, third))
	r, err := readGraph(training, n)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(r); !slices.Equal(got, []string{"fill", "mul"}) {
		t.Fatalf("got %v, want a constant and a product", got)
	}
	if got, want := r.Instrs[0].Attrs.(kernels.FillAttrs).Value, float64(float32(10)/float32(30)); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestComparisonsWithoutRetSameAreOneAndZeroInTheTypeThatTheyCompare(t *testing.T) {
	runRecipes(t, []recipe{{"less", func(d *draft) *gorgonia.Node {
		return d.must(gorgonia.Lt(d.in(3, 4), d.in(3, 4), false))
	}, kernels.Less}, {"less, of integers", func(d *draft) *gorgonia.Node {
		return d.must(gorgonia.Lt(d.ints(5, 4), d.ints(5, 4), false))
	}, kernels.Host}})
}

func TestReadNodesHaveTheirOperandsValueAndATarget(t *testing.T) {
	d := newDraft(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	y := d.must(gorgonia.Exp(d.in(3)))
	var into gorgonia.Value
	read := gorgonia.Read(y, &into)
	r, err := readGraph(training, y, read)
	if err != nil {
		t.Fatal(err)
	}
	if r.values[read] != r.values[y] {
		t.Errorf("the read is value %d, its operand %d", r.values[read], r.values[y])
	}
	if got, ok := readTarget(read); !ok || got != &into {
		t.Errorf("got %p, %v, want %p", got, ok, &into)
	}
	if _, ok := readTarget(y); ok {
		t.Error("an exponential has a read target")
	}
}

func TestElementsAtCoordinatesAreSelected(t *testing.T) {
	d := newDraft(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	x := d.in(3, 4)
	n := d.must(gorgonia.At(x, 2, 1))
	r, err := readGraph(training, n)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	if got, want := r.floats(r.values[n]), r.floats(r.values[x])[2*4+1]; len(got) != 1 || got[0] != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMalformedNodesAreErrors(t *testing.T) {
	d := newDraft(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	x := gorgonia.NewMatrix(d.g, tensor.Float64, gorgonia.WithName("shapeless"))
	if _, err := readGraph(training, x); !errors.Is(err, kernels.ErrShape) || !strings.Contains(fmt.Sprint(err), "shapeless") {
		t.Errorf("a matrix without a shape: got %v, want ErrShape that names it", err)
	}
	set := gorgonia.Set(d.in(2), d.in(2))
	if _, err := readGraph(training, set); !errors.Is(err, kernels.ErrUnsupported) {
		t.Errorf("a statement: got %v, want ErrUnsupported", err)
	}
	other := newDraft(d.r, tensor.Float64)
	r, err := readGraph(training, d.in(2))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.lower(gorgonia.Nodes{other.in(2)}); !errors.Is(err, ErrInput) {
		t.Errorf("a node of another graph: got %v, want ErrInput", err)
	}
}

func TestFieldsOfOpsAreReadByNameOrRefused(t *testing.T) {
	d := newDraft(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	f := fields{d.must(gorgonia.MaxPool2D(d.in(1, 1, 4, 4), tensor.Shape{2, 3}, []int{0, 0}, []int{1, 1})).Op()}
	if w, err := f.Int("w"); w != 3 || err != nil {
		t.Errorf("w: got %v, %v, want 3", w, err)
	}
	if e, err := f.Bool("explicitPadding"); e || err != nil {
		t.Errorf("explicitPadding: got %v, %v, want false", e, err)
	}
	g := fields{d.must(gorgonia.Dropout(d.in(3), 0.25)).Op()}
	if p, err := g.Float("probability"); p != 0.25 || err != nil {
		t.Errorf("probability: got %v, %v, want 0.25", p, err)
	}
	h := fields{d.must(gorgonia.Add(d.in(3), d.in(3))).Op()}
	if k, err := h.Int("ʘBinaryOperator.ʘBinaryOperatorType"); k != 0 || err != nil {
		t.Errorf("nested: got %v, %v, want 0", k, err)
	}
	for name, err := range map[string]error{
		"missing":     second(f.Int("missing")),
		"not an int":  second(f.Int("explicitPadding")),
		"not a float": second(f.Float("w")),
		"not a bool":  second(f.Bool("w")),
		"not ints":    second(f.Ints("w")),
		"not nested":  second(f.Int("w.h")),
	} {
		if !errors.Is(err, errVersion) || !strings.Contains(fmt.Sprint(err), "maxPoolOp") {
			t.Errorf("%s: got %v, want errVersion that names the op", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
