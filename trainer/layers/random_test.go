package layers_test

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

var graphs = flag.Int("graphs", 20, "how many random graphs of operations are tried on each device; 3000 take some minutes")

// regressions is the folder of graphs that failed once: each is tried first.
const regressions = "testdata/graphs"

// random returns a generator. EVENKEEL_SEED changes its numbers.
func random(t testing.TB) *rand.Rand { return seed.Rand(t, 31) }

func operationNames() []string { return slices.Sorted(maps.Keys(randomOps)) }

// engine makes a machine that runs a graph, and keeps the values of some nodes.
type engine struct {
	name string
	new  func(g *gorgonia.ExprGraph, keep gorgonia.Nodes) (gorgonia.VM, error)
}

// engines are machines on each device, and Gorgonia's own machine.
func engines(t *testing.T) []engine {
	all := []engine{{"tape machine", func(g *gorgonia.ExprGraph, keep gorgonia.Nodes) (gorgonia.VM, error) {
		for i := range keep {
			gorgonia.Read(keep[i], new(gorgonia.Value)) // else another result may overwrite it
		}
		return gorgonia.NewTapeMachine(g), nil
	}}}
	for _, device := range devices {
		dev := device.open(t)
		all = append(all, engine{device.name, func(g *gorgonia.ExprGraph, keep gorgonia.Nodes) (gorgonia.VM, error) {
			return vm.New(g, vm.Options{Device: dev, Keep: keep})
		}})
	}
	return all
}

// TestRandomGraphsComputeWhatIsWritten compares graphs of 5 to 60 operations with an interpreter in
// float64, values and gradients. A graph that fails is shrunk, printed, and kept in testdata.
func TestRandomGraphsComputeWhatIsWritten(t *testing.T) {
	kept := keptGraphs(t)
	for i, e := range engines(t) {
		t.Run(e.name, func(t *testing.T) {
			for path, g := range kept {
				for _, dt := range types {
					if err := g.check(e, dt); err != nil {
						t.Errorf("%s in %v: %v", path, dt, err)
					}
				}
			}
			tryGraphs(t, uint64(40+i), *graphs, e.name, func(g randomGraph, dt tensor.Dtype) error { return g.check(e, dt) })
		})
	}
}

// tryGraphs checks random graphs, and reports those that fail.
func tryGraphs(t *testing.T, stream uint64, tries int, where string, check func(g randomGraph, dt tensor.Dtype) error) {
	t.Helper()
	if testing.Short() {
		tries = min(tries, 6)
	}
	r, failed := rand.New(rand.NewPCG(seed.Value(), stream)), 0
	for range tries {
		g, dt := growGraph(r, 5+r.IntN(56), operationNames()), types[r.IntN(2)]
		if err := check(g, dt); err != nil {
			report(t, g, fmt.Sprintf("%s in %v", where, dt), err, func(g randomGraph) error { return check(g, dt) })
			if failed++; failed == 3 {
				t.Fatal("three graphs fail: the rest is not tried")
			}
		}
	}
}

// keptGraphs reads the graphs that failed once, by file.
func keptGraphs(t *testing.T) map[string]randomGraph {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(regressions, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]randomGraph{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if kept[path], err = parseGraph(string(text)); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return kept
}

// report shrinks a graph, prints it and keeps it.
func report(t *testing.T, g randomGraph, where string, was error, check func(g randomGraph) error) {
	t.Helper()
	g = shrink(g, func(h randomGraph) bool {
		err := check(h)
		return err != nil && errors.Is(err, errDiffers) == errors.Is(was, errDiffers)
	})
	h := fnv.New32a()
	h.Write([]byte(g.String()))
	path := filepath.Join(regressions, fmt.Sprintf("%08x.txt", h.Sum32()))
	text := fmt.Sprintf("%s: %v\n\n%v", where, check(g), g)
	if err := errors.Join(os.MkdirAll(regressions, 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
		t.Error(err)
	}
	t.Errorf("EVENKEEL_SEED=%d: %s has the smallest graph that fails:\n%s", seed.Value(), path, text)
}

// errDiffers is wrapped by errors about wrong results.
var errDiffers = errors.New("wrong result")

// tolerances of elements, relative to the largest one of a value, or of all gradients. Most graphs stay
// a hundred times below them: steep functions amplify the roundings before them.
var tolerances = map[tensor.Dtype]struct{ value, gradient float64 }{
	tensor.Float64: {1e-11, 1e-7},
	tensor.Float32: {1e-4, 1e-3},
}

// check runs the graph on an engine, and compares the roots and the gradients of the parameters.
func (g randomGraph) check(e engine, dt tensor.Dtype) (err error) {
	defer func() {
		if p := recover(); p != nil { // of Gorgonia
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	b, err := g.build(gorgonia.NewGraph(), dt)
	if err != nil {
		return err
	}
	if err := b.net.Values(1); err != nil {
		return err
	}
	if len(b.leaves) > 0 {
		if _, err := gorgonia.Grad(b.loss, b.leaves...); err != nil {
			return err
		}
	}
	var roots gorgonia.Nodes
	for _, i := range g.roots() {
		roots = append(roots, b.nodes[i])
	}
	if len(g)%2 == 0 {
		roots = nil // so that their results may be fused with their readers
	}
	m, err := e.new(b.loss.Graph(), roots)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := m.RunAll(); err != nil {
		return err
	}
	all := g.values(nil, exact)
	for k, n := range roots {
		i := g.roots()[k]
		if !slices.Equal(n.Shape(), all[i].shape) {
			return fmt.Errorf("v%d has shape %v, want %v: %w", i, n.Shape(), all[i].shape, errDiffers)
		}
		if err := alikeTo(elements(n.Value()), all[i].x, tolerances[dt].value); err != nil {
			return fmt.Errorf("v%d: %w", i, err)
		}
	}
	if err := alikeTo(elements(b.loss.Value()), []float64{g.loss(all)}, tolerances[dt].value); err != nil {
		return fmt.Errorf("loss: %w", err)
	}
	grads := make([][]float64, len(b.leaves))
	for k, p := range b.leaves {
		v, err := p.Grad()
		if err != nil {
			return err
		}
		grads[k] = elements(v)
	}
	return g.checkGradients(b.at, grads, tolerances[dt].gradient)
}

// checkGradients compares gradients of parameters, the statements leaves, with central differences:
// along a random direction, and of some elements.
func (g randomGraph) checkGradients(leaves []int, grads [][]float64, tol float64) error {
	r := rand.New(rand.NewPCG(uint64(len(g)), 3))
	const h = 1e-5
	at := func(step map[int][]float64, by float64) float64 {
		x := map[int][]float64{}
		for i, d := range step {
			x[i] = slices.Clone(g[i].Floats)
			for k := range d {
				x[i][k] += by * d[k]
			}
		}
		return g.loss(g.values(x, exact))
	}
	central := func(step map[int][]float64, h float64) float64 { return (at(step, h) - at(step, -h)) / (2 * h) }
	// Two steps cancel the error that the third derivative makes.
	difference := func(step map[int][]float64) float64 { return (4*central(step, h) - central(step, 2*h)) / 3 }
	largest, slope, step := 1.0, 0.0, map[int][]float64{}
	for k, i := range leaves {
		d := make([]float64, len(grads[k]))
		for j, x := range grads[k] {
			d[j] = 2*r.Float64() - 1
			slope += d[j] * x
			largest = max(largest, math.Abs(x))
		}
		step[i] = d
	}
	for k, leaf := range leaves {
		for range min(2, len(grads[k])) {
			i := r.IntN(len(grads[k]))
			d := make([]float64, len(grads[k]))
			d[i] = 1
			if want := difference(map[int][]float64{leaf: d}); !(math.Abs(grads[k][i]-want) <= tol*largest) {
				return fmt.Errorf("gradient of v%d at %d is %v, differences say %v: %w", leaf, i, grads[k][i], want, errDiffers)
			}
		}
	}
	if want := difference(step); !(math.Abs(slope-want) <= tol*largest*math.Sqrt(float64(len(step)))) {
		return fmt.Errorf("the slope along a direction is %v, differences say %v: %w", slope, want, errDiffers)
	}
	return nil
}

// alikeTo returns an error unless elements differ by at most tol times the largest one.
func alikeTo(got, want []float64, tol float64) error {
	largest := 1.0
	for _, w := range want {
		largest = max(largest, math.Abs(w))
	}
	if !slices.EqualFunc(got, want, func(g, w float64) bool { return math.Abs(g-w) <= tol*largest }) {
		return fmt.Errorf("got %v, want %v: %w", got, want, errDiffers)
	}
	return nil
}

// elements returns the elements of a value of floats.
func elements(v gorgonia.Value) (x []float64) {
	switch d := v.Data().(type) {
	case []float64:
		return slices.Clone(d)
	case []float32:
		for _, e := range d {
			x = append(x, float64(e))
		}
		return x
	case float64:
		return []float64{d}
	case float32:
		return []float64{float64(d)}
	}
	return nil
}
