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

	"github.com/evenkeel/evenkeel/internal/graphtest"
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
			d := &graphtest.Draft{Rand: r, Type: tensor.Float32}
			roots := []*gorgonia.Node{m.Loss}
			for _, n := range m.Inputs {
				if n.Dtype() == tensor.Int {
					gorgonia.Let(n, tensor.New(tensor.WithShape(batch), tensor.WithBacking([]int{0, 2, 1, 1, 2})))
				} else {
					gorgonia.Let(n, d.Tensor(d.Normal, n.Shape()...))
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
			want, err := graphtest.Tape(roots...)
			if err != nil {
				t.Fatal(err)
			}
			for i, n := range roots {
				if ys := got.floats(got.values[n]); !graphtest.Near(ys, want[i], 1e-5) {
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
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float32)
	x, w, b, y := d.In(6, 5), d.In(5, 3), d.In(3), d.Of(d.Positive, 6, 3)
	h := d.Must(gorgonia.Rectify(d.Must(gorgonia.BroadcastAdd(d.Must(gorgonia.Mul(x, w)), b, nil, []byte{0}))))
	p := d.Must(gorgonia.SoftMax(h))
	rows := d.Must(gorgonia.Sum(d.Must(gorgonia.HadamardProd(d.Must(gorgonia.Log(p)), y)), 1))
	loss := d.Must(gorgonia.Neg(d.Must(gorgonia.Mean(rows))))
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
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	x := d.In(2)
	n := x
	for range depth {
		n = d.Must(gorgonia.Tanh(n))
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
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	x := d.In(3, 4)
	want := d.Must(gorgonia.Sum(x, 1))
	d.Must(gorgonia.Exp(d.In(9)))
	r, err := readGraph(training, want, nil, want)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Instrs) != 1 || len(r.params) != 1 {
		t.Errorf("got %d parameters and\n%v, want one sum of one parameter", len(r.params), r.Program)
	}
}

func TestANodeThatIsUsedTwiceIsLoweredOnce(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	e := d.Must(gorgonia.Exp(d.In(3)))
	n := d.Must(gorgonia.Add(d.Must(gorgonia.Tanh(e)), d.Must(gorgonia.HadamardProd(e, e))))
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
	runRecipes(t, []recipe{{"log(1-p)", func(d *graphtest.Draft) *gorgonia.Node {
		p := d.Must(gorgonia.Exp(d.Must(gorgonia.Neg(d.Of(d.Positive, 3, 4)))))
		l := d.Must(gorgonia.BinaryXent(p, d.Of(d.Positive, 3, 4)))
		return d.Must(gorgonia.Tanh(d.Must(gorgonia.Mul(l, d.In(4, 2)))))
	}, kernels.Log1p}})
}

func TestAllNodesThatCannotBeLoweredAreReportedTogether(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	x := d.In(1, 1, 4, 4)
	a := d.Must(gorgonia.AveragePool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
	b := d.Must(gorgonia.AveragePool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{1, 1}))
	gorgonia.WithName("pool/a")(a)
	gorgonia.WithName("pool/b")(b)
	orphan := gorgonia.NewVector(d.Graph, tensor.Float64, gorgonia.WithShape(9), gorgonia.WithName("orphan"))
	sum := d.Must(gorgonia.Add(d.Must(gorgonia.Sum(a)), d.Must(gorgonia.Sum(b))))
	root := d.Must(gorgonia.Add(sum, d.Must(gorgonia.Sum(orphan))))
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
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float32)
	x := d.In(3, 4, 5)
	size := d.Must(gorgonia.HadamardProd(d.Must(gorgonia.SizeOf(0, x)), d.Must(gorgonia.SizeOf(2, x))))
	third := d.Must(gorgonia.HadamardDiv(d.Must(gorgonia.Sub(size, gorgonia.NewConstant(float32(5)))), gorgonia.NewConstant(float32(30))))
	n := d.Must(gorgonia.HadamardProd(x, third))
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
	runRecipes(t, []recipe{{"less", func(d *graphtest.Draft) *gorgonia.Node {
		return d.Must(gorgonia.Lt(d.In(3, 4), d.In(3, 4), false))
	}, kernels.Less}, {"less, of integers", func(d *graphtest.Draft) *gorgonia.Node {
		return d.Must(gorgonia.Lt(d.Ints(5, 4), d.Ints(5, 4), false))
	}, kernels.Integer}})
}

func TestReadNodesHaveTheirOperandsValueAndATarget(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	y := d.Must(gorgonia.Exp(d.In(3)))
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
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	x := d.In(3, 4)
	n := d.Must(gorgonia.At(x, 2, 1))
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
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	x := gorgonia.NewMatrix(d.Graph, tensor.Float64, gorgonia.WithName("shapeless"))
	if _, err := readGraph(training, x); !errors.Is(err, kernels.ErrShape) || !strings.Contains(fmt.Sprint(err), "shapeless") {
		t.Errorf("a matrix without a shape: got %v, want ErrShape that names it", err)
	}
	set := gorgonia.Set(d.In(2), d.In(2))
	if _, err := readGraph(training, set); !errors.Is(err, kernels.ErrUnsupported) {
		t.Errorf("a statement: got %v, want ErrUnsupported", err)
	}
	other := graphtest.New(d.Rand, tensor.Float64)
	r, err := readGraph(training, d.In(2))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.lower(gorgonia.Nodes{other.In(2)}); !errors.Is(err, ErrInput) {
		t.Errorf("a node of another graph: got %v, want ErrInput", err)
	}
}

func TestFieldsOfOpsAreReadByNameOrRefused(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	f := fields{d.Must(gorgonia.MaxPool2D(d.In(1, 1, 4, 4), tensor.Shape{2, 3}, []int{0, 0}, []int{1, 1})).Op()}
	if w, err := f.Int("w"); w != 3 || err != nil {
		t.Errorf("w: got %v, %v, want 3", w, err)
	}
	if e, err := f.Bool("explicitPadding"); e || err != nil {
		t.Errorf("explicitPadding: got %v, %v, want false", e, err)
	}
	g := fields{d.Must(gorgonia.Dropout(d.In(3), 0.25)).Op()}
	if p, err := g.Float("probability"); p != 0.25 || err != nil {
		t.Errorf("probability: got %v, %v, want 0.25", p, err)
	}
	h := fields{d.Must(gorgonia.Add(d.In(3), d.In(3))).Op()}
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
