package frontend

import (
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
)

// fallbacks are ops without an operation, first those with a gradient in Gorgonia.
func fallbacks() (differentiable, others []recipe) {
	host := kernels.Host
	differentiable = []recipe{}
	others = []recipe{
		{"diagonal", func(d *graphtest.Draft) *gorgonia.Node { return d.Must(gorgonia.DiagFlat(d.In(d.Wide()))) }, host},
	}
	return differentiable, others
}

func TestFallbacksComputeTheSameAsGorgonia(t *testing.T) {
	differentiable, others := fallbacks()
	runRecipes(t, differentiable)
	runRecipes(t, others)
}

func TestFallbacksRepeatTheirBits(t *testing.T) {
	differentiable, others := fallbacks()
	for _, c := range append(differentiable, others...) {
		t.Run(c.name, func(t *testing.T) {
			d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 3)), tensor.Float32)
			root := c.build(d)
			r, err := readGraph(training, root)
			if err != nil {
				t.Fatal(err)
			}
			var runs [2]string
			for i := range runs {
				if err := r.run(); err != nil {
					t.Fatal(err)
				}
				runs[i] = string(r.bytes[r.values[root]])
			}
			if runs[0] != runs[1] {
				t.Errorf("seed %d: the second run gave %x, the first %x", seed.Value(), runs[1], runs[0])
			}
		})
	}
}

// fallbackGradients returns the operands of the only fallback, whose result is y, and the gradients
// of Σ y ⊙ w for them, as HostGrad appends them.
func fallbackGradients(r *reading, w *gorgonia.Node) (in []kernels.Value, grads []kernels.Value, err error) {
	for _, i := range r.Instrs {
		f, ok := i.Attrs.(*gorgoniaOp)
		if !ok {
			continue
		}
		if i.Mark != ir.FallbackMark {
			return nil, nil, fmt.Errorf("%s is marked %q", f.name, i.Mark)
		}
		grads, err = r.HostGrad(kernels.Node{Op: i.Op, Attrs: i.Attrs, In: i.In, Out: i.Out}, []kernels.Value{r.values[w]})
		return i.In, grads, err
	}
	return nil, nil, errors.New("nothing fell back")
}

func TestGradientsOfFallbacksAreThoseOfGorgonia(t *testing.T) {
	log.SetOutput(io.Discard) // Gorgonia's group normalization prints its gradient
	defer log.SetOutput(os.Stderr)
	differentiable, _ := fallbacks()
	for _, c := range differentiable {
		t.Run(c.name, func(t *testing.T) {
			for s := range uint64(6) {
				checkGradient(t, c, seed.Value()*100+s)
			}
		})
	}
}

// findFallback returns the node among n and its operands that falls back, nil for none.
func findFallback(n *gorgonia.Node) *gorgonia.Node {
	if key := opKeyOf(n); key != "" && lowerings()[strings.Split(key, ":")[0]] == nil && kernels.ByGorgonia(key) == nil {
		return n
	}
	for _, x := range children(n) {
		if found := findFallback(x); found != nil {
			return found
		}
	}
	return nil
}

func checkGradient(t *testing.T, c recipe, s uint64) {
	t.Helper()
	d := graphtest.New(rand.New(rand.NewPCG(s, 5)), tensor.Float64)
	y := findFallback(c.build(d))
	inputs := gorgonia.Nodes(children(y))
	w := d.In(y.Shape()...)
	r, err := readGraph(training, y, w)
	if err != nil {
		t.Fatalf("seed %d: %v", s, err)
	}
	in, grads, err := fallbackGradients(r, w)
	if err != nil {
		t.Fatalf("seed %d: %v", s, err)
	}
	if err := r.run(); err != nil {
		t.Fatalf("seed %d: %v", s, err)
	}
	cost := d.Must(gorgonia.Sum(d.Must(gorgonia.HadamardProd(y, w))))
	var wrt gorgonia.Nodes
	for _, n := range inputs {
		if n.Dtype() == tensor.Float64 {
			wrt = append(wrt, n)
		}
	}
	dx, err := gorgonia.Grad(cost, wrt...)
	if err != nil {
		t.Fatalf("seed %d: %v", s, err)
	}
	want, err := graphtest.Tape(dx...)
	if err != nil {
		t.Fatalf("seed %d: %v", s, err)
	}
	for i, n := range wrt {
		if in[i] != r.values[n] {
			t.Fatalf("seed %d: operand %d is not %q", s, i, n.Name())
		}
		if grads[i] == kernels.None {
			t.Fatalf("seed %d: no gradient of %q", s, n.Name())
		}
		if got := r.floats(grads[i]); !graphtest.Near(got, want[i], 1e-9) {
			t.Errorf("seed %d: gradient of %q: got %v, Gorgonia computes %v", s, n.Name(), got, want[i])
		}
	}
	for i := len(wrt); i < len(in); i++ {
		if grads[i] != kernels.None {
			t.Errorf("seed %d: operand %d of integers has a gradient", s, i)
		}
	}
}

func TestOperationsWithoutAGradientAreRefusedByName(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 1)), tensor.Float64)
	y := d.Must(gorgonia.DiagFlat(d.In(3)))
	gorgonia.WithName("spread")(y)
	r, err := readGraph(training, y)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = fallbackGradients(r, d.Inputs[0])
	if !errors.Is(err, kernels.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), "DiagFlat") {
		t.Errorf("got %v, want ErrUnsupported that names DiagFlat", err)
	}
}

func TestRandomNodesAreDrawnAgainInEachRun(t *testing.T) {
	d := graphtest.New(nil, tensor.Float64)
	n := gorgonia.GaussianRandomNode(d.Graph, tensor.Float64, 0, 1, 30, 40)
	r, err := readGraph(training, n)
	if err != nil {
		t.Fatal(err)
	}
	var runs [2][]float64
	for i := range runs {
		if err := r.run(); err != nil {
			t.Fatal(err)
		}
		runs[i] = r.floats(r.values[n])
	}
	if len(runs[0]) != 1200 || graphtest.Near(runs[0], runs[1], 0.01) {
		t.Errorf("got %v twice", runs[0][:5])
	}
}

func TestOpsThatGorgoniaComputesWronglyAreRefused(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 1)), tensor.Float64)
	pool := d.Must(gorgonia.AveragePool2D(d.In(1, 1, 4, 4), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
	_, err := readGraph(inference, pool)
	if !errors.Is(err, kernels.ErrUnsupported) {
		t.Fatalf("got %v, want ErrUnsupported", err)
	}
	for _, want := range []string{"avgPoolOp", "AvgPool of package layers"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestAnIndexOutOfRangeIsInTheStatusWord(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 1)), tensor.Float64)
	y := d.Must(gorgonia.ByIndices(d.In(2, 3), d.Ints(1, 2), 0))
	gorgonia.WithName("embedding")(y)
	d.Inputs[1].Value().Data().([]int)[1] = 2
	r, err := readGraph(training, y)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	if got, want := r.floats(r.Guard), []float64{float64(ir.FirstIndices), 1, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("the status word is %v, want %v", got, want)
	}
	if got, want := r.Indices, []ir.Indices{{Node: "embedding", Rows: 2}}; !slices.Equal(got, want) {
		t.Errorf("indices %+v, want %+v", got, want)
	}
}

// bomb is a user's op that panics.
type bomb struct{ gorgonia.Iop }

func (bomb) Do(...gorgonia.Value) (gorgonia.Value, error) { panic("no fuse") }
func (bomb) String() string                               { return "bomb" }

func TestAPanicOfAnOpIsAnErrorThatNamesItsNode(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 1)), tensor.Float64)
	y := d.Must(gorgonia.ApplyOpWithName(bomb{}, "cellar/box", d.In(2)))
	r, err := readGraph(training, y)
	if err != nil {
		t.Fatal(err)
	}
	err = r.run()
	for _, want := range []string{"cellar/box", "bomb", "no fuse"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestACTCLossOfBadLabelsIsAnErrorThatNamesThem(t *testing.T) {
	for _, c := range []struct {
		targets, steps, lengths []int
		want                    string
	}{
		{[]int{1, 2, 3, 1}, []int{4, 4}, []int{2, 2}, "label 0 of sample 1 is 3: not in 0..2"},
		{[]int{1, -1, 2, 1}, []int{4, 4}, []int{2, 2}, "label 1 of sample 0 is -1"},
		{[]int{1, 2, 2, 1}, []int{4, 5}, []int{2, 2}, "sample 1 has 5 steps"},
		{[]int{1, 2, 2, 1}, []int{0, 4}, []int{2, 2}, "sample 0 has 0 steps"},
		{[]int{1, 2, 2, 1}, []int{4, 4}, []int{2, 3}, "sample 1 has 4 steps and 3 labels"},
		{[]int{1, 2, 2, 1}, []int{4, 4}, []int{3, 1}, "sample 0 has 4 steps and 3 labels"},
	} {
		d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 1)), tensor.Float32)
		in := []*gorgonia.Node{d.In(4, 2, 3), d.Ints(3, 2, 2), d.Ints(3, 2), d.Ints(3, 2)}
		for i, x := range [][]int{c.targets, c.steps, c.lengths} {
			copy(in[i+1].Value().Data().([]int), x)
		}
		y := d.Must(gorgonia.CTCLoss(in[0], in[1], in[2], in[3], gorgonia.ReductionMean))
		gorgonia.WithName("culprit")(y)
		r, err := readGraph(training, y)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.run(); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "culprit") {
			t.Errorf("got %v, want %q about the culprit", err, c.want)
		}
	}
}

// scaled is a user's op that stores the factor of its last run, which its gradient reads.
type scaled struct {
	gorgonia.Iop
	factor *float64
}

func (s scaled) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	*s.factor = 3
	return gorgonia.NewF64(3 * in[0].Data().(float64)), nil
}
func (s scaled) String() string     { return "scaled" }
func (s scaled) DiffWRT(int) []bool { return []bool{true} }
func (s scaled) SymDiff(_ gorgonia.Nodes, _, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	n, err := gorgonia.ApplyOp(scaledGrad{factor: s.factor}, dy)
	return gorgonia.Nodes{n}, err
}

type scaledGrad struct {
	gorgonia.Iop
	factor *float64
}

func (s scaledGrad) Do(in ...gorgonia.Value) (gorgonia.Value, error) {
	return gorgonia.NewF64(*s.factor * in[0].Data().(float64)), nil
}
func (s scaledGrad) String() string { return "scaledGrad" }

func TestAGradientRunsAfterTheOpWhoseStateItReads(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 1)), tensor.Float64)
	x, w := d.In(), d.In()
	y := d.Must(gorgonia.ApplyOpWithName(scaled{factor: new(float64)}, "user/scaled", x))
	r, err := readGraph(training, y, w)
	if err != nil {
		t.Fatal(err)
	}
	_, grads, err := fallbackGradients(r, w)
	if err != nil {
		t.Fatal(err)
	}
	last := r.Instrs[len(r.Instrs)-1]
	if want := []kernels.Value{r.values[w], r.values[y]}; !slices.Equal(last.In, want) {
		t.Errorf("the gradient reads %v, want %v: dy, and the result of the op that it runs after", last.In, want)
	}
	if last.Label != "user/scaled" || last.Owner != "user" {
		t.Errorf("the gradient is called %q of %q", last.Label, last.Owner)
	}
	if err := r.run(); err != nil {
		t.Fatal(err)
	}
	if got, want := r.floats(grads[0]), 3*r.floats(r.values[w])[0]; len(got) != 1 || got[0] != want {
		t.Errorf("seed %d: got %v, want %v", seed.Value(), got, want)
	}
}
