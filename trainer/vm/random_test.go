package vm_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

var graphs = flag.Int("graphs", 40, "how many random Gorgonia graphs run on both machines; 3000 take minutes")

// regressions is the folder of graphs that failed once: each is tried first.
const regressions = "testdata/graphs"

// recipe is a Gorgonia graph as a list of statements. Each reads earlier ones.
type recipe []statement

// statement is one node. An input, whose Op is "in", has the shape Args and values of its own.
type statement struct {
	Op   string
	In   []int `json:",omitempty"`
	Args []int `json:",omitempty"`
}

func (r recipe) String() (s string) {
	for i, st := range r {
		s += fmt.Sprintf("v%d = %s %v %v\n", i, st.Op, st.In, st.Args)
	}
	return s
}

// built is the graph of a recipe. Where plain is set, operations that a tape machine computes wrongly
// are formulas of others.
type built struct {
	*graphtest.Draft
	nodes gorgonia.Nodes // by statement
	loss  *gorgonia.Node
}

// build makes the graph. Gorgonia panics, or Must does, where a shape does not fit.
func (r recipe) build(dt tensor.Dtype, plain bool) *built {
	b := &built{Draft: graphtest.New(nil, dt)}
	for i, s := range r {
		if s.Op == "in" {
			b.Rand = rand.New(rand.NewPCG(uint64(i), uint64(len(s.Args))))
			b.nodes = append(b.nodes, b.In(s.Args...))
			continue
		}
		var in gorgonia.Nodes
		for _, k := range s.In {
			in = append(in, b.nodes[k])
		}
		build := randomOps[s.Op].build
		if f := plainOps[s.Op]; plain && f != nil {
			build = f
		}
		b.nodes = append(b.nodes, build(b.Draft, in, s.Args))
	}
	for _, i := range r.roots() {
		n := b.Must(gorgonia.Tanh(b.nodes[i]))
		if len(n.Shape()) > 0 {
			n = b.Must(gorgonia.Mean(n))
		}
		if b.loss == nil {
			b.loss = n
		} else {
			b.loss = b.Must(gorgonia.Add(b.loss, n))
		}
	}
	if _, err := gorgonia.Grad(b.loss, b.Inputs...); err != nil {
		panic(err)
	}
	return b
}

// roots returns the statements that none reads.
func (r recipe) roots() (roots []int) {
	read := make([]bool, len(r))
	for _, s := range r {
		for _, k := range s.In {
			read[k] = true
		}
	}
	for i := range r {
		if !read[i] {
			roots = append(roots, i)
		}
	}
	return roots
}

// grow returns a random recipe of about n statements.
func grow(rnd *rand.Rand, n int, eval bool) recipe {
	g := &randomGrower{Rand: rnd, eval: eval}
	names := randomOpNames()
	for len(g.recipe) < n {
		name := names[rnd.IntN(len(names))]
		before := len(g.recipe)
		if in, args := randomOps[name].pick(g); in == nil || !g.add(statement{Op: name, In: in, Args: args}) {
			g.recipe, g.shapes = g.recipe[:before], g.shapes[:before]
		}
	}
	return g.recipe
}

// randomGrower grows a recipe.
type randomGrower struct {
	*rand.Rand
	recipe recipe
	eval   bool           // for machines that do not train
	shapes []tensor.Shape // by statement
	soft   map[int]bool   // has a softmax: Gorgonia takes a second one for the first
}

// add adds a statement, unless Gorgonia refuses it.
func (g *randomGrower) add(s statement) (ok bool) {
	defer func() { ok = recover() == nil && ok }()
	var shape tensor.Shape
	if s.Op == "in" {
		shape = slices.Clone(s.Args)
	} else {
		d := graphtest.New(g.Rand, tensor.Float64)
		var in gorgonia.Nodes
		for _, k := range s.In {
			n := gorgonia.NewScalar(d.Graph, d.Type, gorgonia.WithName(fmt.Sprint("v", k)))
			if len(g.shapes[k]) > 0 {
				n = gorgonia.NewTensor(d.Graph, d.Type, len(g.shapes[k]), gorgonia.WithShape(g.shapes[k]...), gorgonia.WithName(fmt.Sprint("v", k)))
			}
			in = append(in, n)
		}
		shape = randomOps[s.Op].build(d, in, s.Args).Shape().Clone()
	}
	if shape.TotalSize() > 2000 {
		return false
	}
	g.recipe, g.shapes = append(g.recipe, s), append(g.shapes, shape)
	return true
}

// any returns a statement whose shape ok accepts, often a late one, or a new input of shape fresh.
func (g *randomGrower) any(ok func(s tensor.Shape) bool, fresh ...int) int {
	var fit []int
	for i, s := range g.shapes {
		if ok(s) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 || g.IntN(8) == 0 {
		g.add(statement{Op: "in", Args: fresh})
		return len(g.recipe) - 1
	}
	return fit[len(fit)-1-min(g.IntN(len(fit)), g.IntN(len(fit)))]
}

// wide is a size that is not 1.
func (g *randomGrower) wide() int { return 2 + g.IntN(3) }

// rank returns a statement of so many dimensions. shaped returns one of a shape.
func (g *randomGrower) rank(n int) int {
	fresh := make([]int, n)
	for i := range fresh {
		fresh[i] = g.wide()
	}
	return g.any(func(s tensor.Shape) bool { return len(s) == n }, fresh...)
}

func (g *randomGrower) shaped(dims ...int) int {
	return g.any(func(s tensor.Shape) bool { return slices.Equal(s, dims) }, dims...)
}

// errDiffers is wrapped by errors about results that differ. errNoReference is wrapped where the tape
// machine has none.
var (
	errDiffers     = errors.New("differs from the tape machine")
	errNoReference = errors.New("no reference")
)

// observed are the results of a graph: loss, gradients of the inputs, and values of the roots.
type observed struct {
	loss, grads []float64
	roots       [][]float64
}

// variant is how a recipe runs.
type variant struct {
	dt   tensor.Dtype
	read bool // the roots have values; else they may be fused with their readers

	eval  bool // dropout and batch normalization work as outside training
	plain bool // see built
}

var variants = []variant{{dt: tensor.Float32}, {dt: tensor.Float32, read: true}, {dt: tensor.Float64}, {dt: tensor.Float64, read: true},
	{dt: tensor.Float32, eval: true}, {dt: tensor.Float64, eval: true, read: true}}

// run runs a recipe on the machine that open makes.
func (r recipe) run(v variant, open func(g *gorgonia.ExprGraph) (gorgonia.VM, error)) (o observed, err error) {
	defer func() {
		if p := recover(); p != nil { // of Gorgonia
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	b := r.build(v.dt, v.plain)
	var reads []*gorgonia.Value
	if v.read {
		for _, i := range r.roots() {
			reads = append(reads, new(gorgonia.Value))
			gorgonia.Read(b.nodes[i], reads[len(reads)-1])
		}
	}
	m, err := open(b.Graph)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := m.RunAll(); err != nil {
		return o, err
	}
	o.loss = graphtest.Numbers(b.loss.Value())
	for _, in := range b.Inputs {
		v, err := in.Grad()
		if err != nil {
			return o, err
		}
		o.grads = append(o.grads, graphtest.Numbers(v)...)
	}
	for _, v := range reads {
		o.roots = append(o.roots, graphtest.Numbers(*v))
	}
	return o, nil
}

// check runs a recipe on both machines. The tolerance is relative to the largest element: a rounding
// grows where functions are steep. Where terms of about 1 cancel, a hundredth of it is allowed.
func (r recipe) check(dev kernels.Device, v variant) error {
	if slices.ContainsFunc(r, func(s statement) bool { return s.Op == "dropout" && !v.eval || s.Op == "batch norm" && v.eval }) {
		return errNoReference
	}
	tol := 1e-8
	if v.dt == tensor.Float32 {
		tol = 1e-3
	}
	tape := v
	tape.plain = true
	want, err := r.run(tape, func(g *gorgonia.ExprGraph) (gorgonia.VM, error) { return gorgonia.NewTapeMachine(g), nil })
	if err != nil {
		return fmt.Errorf("%w: %w", errNoReference, err)
	}
	for _, x := range slices.Concat(append(want.roots, want.loss, want.grads)...) {
		if math.IsNaN(x) || math.Abs(x) > 1e4 {
			return fmt.Errorf("%w: %v", errNoReference, x)
		}
	}
	got, err := r.run(v, func(g *gorgonia.ExprGraph) (gorgonia.VM, error) {
		return vm.New(g, vm.Options{Device: dev, Eval: v.eval, Logger: slog.New(slog.DiscardHandler)})
	})
	if err != nil {
		return err
	}
	near := func(a, b []float64) bool { return allNear(a, b, tol) || graphtest.Near(a, b, tol/100) }
	if !near(got.loss, want.loss) {
		return fmt.Errorf("loss %v, want %v: %w", got.loss, want.loss, errDiffers)
	}
	if !near(got.grads, want.grads) && !r.isGradient(dev, v.eval, got.grads, 10*tol) { // the tape machine's may not be the slope
		return fmt.Errorf("gradients %v, want %v: %w", got.grads, want.grads, errDiffers)
	}
	for i := range want.roots {
		if !near(got.roots[i], want.roots[i]) {
			return fmt.Errorf("v%d: %v, want %v: %w", r.roots()[i], got.roots[i], want.roots[i], errDiffers)
		}
	}
	return nil
}

// isGradient reports whether grads agree with central differences of the loss, which is that of the tape
// machine, along three directions. The tape machine's own gradients may not: it overwrites some values that are
// read later (testdata/graphs/e086bd9e.json).
func (r recipe) isGradient(dev kernels.Device, eval bool, grads []float64, tol float64) bool {
	const step = 1e-5 // errs by the third derivative times 1e-10
	rnd := rand.New(rand.NewPCG(uint64(len(grads)), 5))
	for range 3 {
		along := make([]float64, len(grads))
		slope, size := 0.0, 1e-3
		for i, g := range grads {
			along[i] = rnd.NormFloat64()
			slope += g * along[i]
			size += math.Abs(g * along[i])
		}
		up, err1 := r.lossAt(dev, eval, along, step)
		down, err2 := r.lossAt(dev, eval, along, -step)
		if err1 != nil || err2 != nil || !(math.Abs(slope-(up-down)/(2*step)) <= max(tol, 1e-6)*size) {
			return false
		}
	}
	return true
}

// lossAt returns the loss in float64 after a step of the inputs along a direction.
func (r recipe) lossAt(dev kernels.Device, eval bool, along []float64, step float64) (float64, error) {
	b := r.build(tensor.Float64, false)
	for _, in := range b.Inputs {
		x := graphtest.Numbers(in.Value())
		for i := range x {
			x[i] += step * along[i]
		}
		along = along[len(x):]
		var v any = x[0]
		if shape := in.Shape(); len(shape) > 0 {
			v = tensor.New(tensor.WithShape(shape...), tensor.WithBacking(x))
		}
		if err := gorgonia.Let(in, v); err != nil {
			return 0, err
		}
	}
	m, err := vm.New(b.Graph, vm.Options{Device: dev, Eval: eval, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	if err := errors.Join(m.RunAll(), m.Close()); err != nil {
		return 0, err
	}
	return graphtest.Numbers(b.loss.Value())[0], nil
}

// Random graphs of Gorgonia's functions have the same loss, gradients and roots on both machines. One
// that fails is shrunk, printed, and kept in testdata.
func TestRandomGorgoniaGraphsComputeTheSameOnBothMachines(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for path, r := range keptGraphs(t) {
			for _, v := range variants {
				if err := r.check(dev, v); err != nil && !errors.Is(err, errNoReference) {
					t.Errorf("%s, %+v: %v", path, v, err)
				}
			}
		}
		rnd, compared := random(t), 0
		for range *graphs {
			v := variants[rnd.IntN(len(variants))]
			r := grow(rnd, 5+rnd.IntN(25), v.eval)
			switch err := r.check(dev, v); {
			case errors.Is(err, errNoReference):
			case err != nil:
				keepShrunk(t, r, err, func(h recipe) error { return h.check(dev, v) })
				t.Fatal("the rest is not tried")
			default:
				compared++
			}
		}
		if compared < *graphs*3/4 {
			t.Errorf("only %d of %d graphs have a reference", compared, *graphs)
		}
	})
}

// keptGraphs reads the graphs that failed once, by file.
func keptGraphs(t *testing.T) map[string]recipe {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(regressions, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]recipe{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var r recipe
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		kept[path] = r
	}
	return kept
}

// keepShrunk shrinks a recipe, prints it and keeps it.
func keepShrunk(t *testing.T, r recipe, was error, check func(r recipe) error) {
	t.Helper()
	r = shrink(r, func(h recipe) bool {
		err := check(h)
		return err != nil && !errors.Is(err, errNoReference) && errors.Is(err, errDiffers) == errors.Is(was, errDiffers)
	})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	h := fnv.New32a()
	h.Write(text)
	path := filepath.Join(regressions, fmt.Sprintf("%08x.json", h.Sum32()))
	if err := errors.Join(os.MkdirAll(regressions, 0o777), os.WriteFile(path, append(text, '\n'), 0o666)); err != nil {
		t.Error(err)
	}
	t.Errorf("EVENKEEL_SEED=%d: %s has the smallest graph that fails: %v\n%v", seed.Value(), path, check(r), r)
}

// shrink returns a smaller recipe that fails too: without some statements, or with an input or an
// operand instead of a statement, until no try fails.
func shrink(r recipe, fails func(r recipe) bool) recipe {
	for smaller := true; smaller; {
		smaller = false
		for i := len(r) - 1; i >= 0; i-- {
			for _, h := range r.smaller(i) {
				if len(h) > 0 && fails(h) {
					r, smaller = h, true
					break
				}
			}
			i = min(i, len(r))
		}
	}
	return r
}

// smaller returns recipes without statement i.
func (r recipe) smaller(i int) (tries []recipe) {
	gone := make([]bool, len(r)) // i, and all that read it
	gone[i] = true
	for k, s := range r {
		gone[k] = gone[k] || slices.ContainsFunc(s.In, func(j int) bool { return gone[j] })
	}
	tries = append(tries, r.keep(func(k int) bool { return !gone[k] }))
	if r[i].Op == "in" {
		return tries
	}
	for _, j := range r[i].In { // an operand, if its shape fits
		h := slices.Clone(r)
		for k := range h {
			h[k].In = slices.Clone(h[k].In)
			for n, in := range h[k].In {
				if in == i {
					h[k].In[n] = j
				}
			}
		}
		tries = append(tries, h.keep(func(k int) bool { return k != i }))
	}
	if shape, err := r.shapeOf(i); err == nil { // an input, without what only i read
		h := slices.Clone(r)
		h[i] = statement{Op: "in", Args: shape}
		needed, roots := make([]bool, len(h)), r.roots()
		for k := len(h) - 1; k >= 0; k-- {
			needed[k] = needed[k] || slices.Contains(roots, k)
			for _, j := range h[k].In {
				needed[j] = needed[j] || needed[k]
			}
		}
		tries = append(tries, h.keep(func(k int) bool { return needed[k] }))
	}
	return tries
}

// shapeOf returns the shape of statement i.
func (r recipe) shapeOf(i int) (shape []int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return slices.Clone(r.build(tensor.Float64, false).nodes[i].Shape()), nil
}

// keep returns the statements that ok selects, renumbered.
func (r recipe) keep(ok func(i int) bool) (h recipe) {
	number := make([]int, len(r))
	for i, s := range r {
		if !ok(i) {
			continue
		}
		number[i] = len(h)
		s.In = slices.Clone(s.In)
		for k, in := range s.In {
			s.In[k] = number[in]
		}
		h = append(h, s)
	}
	return h
}

func TestGradientsAreToldFromWrongOnes(t *testing.T) {
	dev := openCPU(t)
	for path, r := range keptGraphs(t) {
		got, err := r.run(variants[2], func(g *gorgonia.ExprGraph) (gorgonia.VM, error) { return vm.New(g, vm.Options{Device: dev}) })
		if err != nil {
			t.Fatal(err)
		}
		if !r.isGradient(dev, false, got.grads, 1e-7) {
			t.Errorf("%s: the gradient is wrong", path)
		}
		for i := range got.grads {
			got.grads[i] *= 1.001
		}
		if r.isGradient(dev, false, got.grads, 1e-7) {
			t.Errorf("%s: 1.001 times the gradient is taken for right", path)
		}
	}
}

func TestAFailingGorgoniaGraphIsShrunkToTheStatementThatFails(t *testing.T) {
	rnd, found := random(t), 0
	for range 60 {
		r := grow(rnd, 25, false)
		// A fault that needs a transposed matrix that something reads.
		fails := func(r recipe) bool {
			if _, err := r.shapeOf(0); err != nil {
				return false
			}
			return slices.ContainsFunc(r, func(s statement) bool {
				return slices.ContainsFunc(s.In, func(i int) bool { return r[i].Op == "transpose" })
			})
		}
		if !fails(r) || found == 8 {
			continue
		}
		found++
		if small := shrink(r, fails); !fails(small) || len(small) > 4 { // an input, transpose, its reader, one operand more
			t.Errorf("%d statements are left:\n%v", len(small), small)
		}
	}
	if found < 4 {
		t.Errorf("only %d graphs have such a transpose", found)
	}
}
