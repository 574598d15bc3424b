package compile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// small is a regression of a batch of 4, and how to compile it.
func small(t *testing.T) (*graphtest.Draft, Config) {
	t.Helper()
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float32)
	x, w, y := d.In(4, 3), d.In(3, 2), d.In(4, 2)
	out := d.Must(gorgonia.Mul(x, w))
	loss := d.Must(gorgonia.Mean(d.Must(gorgonia.Square(d.Must(gorgonia.Sub(out, y))))))
	gorgonia.WithName("loss")(loss)
	return d, Config{Model: frontend.Model{Batch: 4, Loss: loss, Output: out, Inputs: map[*gorgonia.Node]frontend.Input{
		x: {Field: "x", Spec: kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{4, 3}}},
		y: {Field: "y", Spec: kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{4, 2}}},
	}}, Mode: Train, Update: updateOf(optim.SGD{}, optim.Clip{})}
}

// input changes the configuration of the input at index.
func (c *Config) input(d *graphtest.Draft, index int, change func(*frontend.Input)) {
	n := d.Inputs[index]
	in := c.Inputs[n]
	change(&in)
	c.Inputs[n] = in
}

func TestErrorsNameTheNodeThatCannotBeCompiled(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(d *graphtest.Draft, c *Config)
		err    error
		text   string
	}{
		{"no loss", func(_ *graphtest.Draft, c *Config) { c.Loss = nil }, frontend.ErrNoLoss, "loss"},
		{"no loss to evaluate", func(_ *graphtest.Draft, c *Config) { c.Loss, c.Mode = nil, Evaluate }, frontend.ErrNoLoss, "loss"},
		{"no output", func(_ *graphtest.Draft, c *Config) { c.Output, c.Mode = nil, Predict }, frontend.ErrNoOutput, "output"},
		{"a loss for each row", func(d *graphtest.Draft, c *Config) {
			c.Loss = d.Must(gorgonia.Sum(c.Output, 1))
			gorgonia.WithName("rows")(c.Loss)
		}, kernels.ErrShape, `"rows"`},
		{"a loss for each row, to evaluate", func(d *graphtest.Draft, c *Config) { c.Loss, c.Mode = c.Output, Evaluate }, kernels.ErrShape, "must be one"},
		{"an unreached parameter", func(d *graphtest.Draft, c *Config) { d.In(3) }, frontend.ErrUnreached, `"in3"`},
		{"an input with another batch", func(d *graphtest.Draft, c *Config) { c.Batch = 5 }, kernels.ErrShape, `"in0"`},
		{"data of another shape", func(d *graphtest.Draft, c *Config) {
			c.input(d, 0, func(in *frontend.Input) { in.Spec.Shape = kernels.Shape{4, 2} })
		}, kernels.ErrShape, `"in0"`},
		{"data of another batch", func(d *graphtest.Draft, c *Config) {
			c.input(d, 0, func(in *frontend.Input) { in.Spec.Shape = kernels.Shape{3, 4} })
		}, kernels.ErrShape, `"in0"`},
		{"data without rows", func(d *graphtest.Draft, c *Config) {
			c.input(d, 0, func(in *frontend.Input) { in.Spec.Shape, in.Resident = nil, "all" })
		}, kernels.ErrShape, `"in0"`},
		{"an input without a source", func(d *graphtest.Draft, c *Config) {
			n := gorgonia.NewMatrix(d.Graph, d.Type, gorgonia.WithShape(4, 2), gorgonia.WithName("orphan"))
			c.Loss = d.Must(gorgonia.Mean(d.Must(gorgonia.Sub(c.Output, n))))
		}, frontend.ErrInput, `"orphan"`},
		{"two parameters of one name", func(d *graphtest.Draft, c *Config) {
			w := d.In(4, 2)
			gorgonia.WithName("in1")(w)
			c.Loss = d.Must(gorgonia.Mean(d.Must(gorgonia.Sub(c.Output, w))))
		}, frontend.ErrName, `"in1"`},
		{"two results of one name", func(d *graphtest.Draft, c *Config) {
			n := d.Must(gorgonia.Tanh(c.Output))
			gorgonia.WithName("loss")(n)
			c.Keep = gorgonia.Nodes{n}
		}, frontend.ErrName, `"loss"`},
		{"a node of another graph", func(d *graphtest.Draft, c *Config) {
			c.Keep = gorgonia.Nodes{graphtest.New(d.Rand, d.Type).In(2)}
		}, frontend.ErrInput, `"in0"`},
		{"a parameter that is another elsewhere", func(d *graphtest.Draft, c *Config) {
			c.Homes = &ir.Homes{}
			c.Homes.Place(ir.Parameters, "", "in1", kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{7}})
		}, ir.ErrHome, `"in1"`},
		{"a parameter that the layout has no place for", func(d *graphtest.Draft, c *Config) { c.Homes = &ir.Homes{Sealed: true} }, ir.ErrHome, `"in1"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, cfg := small(t)
			c.change(d, &cfg)
			p, err := compileGraph(d.Graph, cfg)
			if !errors.Is(err, c.err) || !strings.Contains(fmt.Sprint(err), c.text) {
				t.Errorf("got %v, %v, want an error that wraps %q and has %q in it", p, err, c.err, c.text)
			}
		})
	}
}

func TestAnUnreachedParameterIsNamedAndMayBeFrozen(t *testing.T) {
	d, cfg := small(t)
	d.In(2)
	d.In(3)
	_, err := compileGraph(d.Graph, cfg)
	var u *frontend.UnreachedError
	if !errors.As(err, &u) || strings.Join(u.Params, " ") != "in3 in4" || u.Loss != "loss" {
		t.Errorf("got %v, want an UnreachedError of in3 and in4", err)
	}
	cfg.Frozen = func(name string) bool { return name == "in3" || name == "in4" }
	compileFor(t, d.Graph, cfg)
}

// A stored field is decoded to the type of the graph where that is a float; integers are read as
// they are.
func TestStoredTypesThatFitAreAcceptedAndOthersRefused(t *testing.T) {
	types := map[arena.DType]tensor.Dtype{arena.Float32: tensor.Float32, arena.Float64: tensor.Float64, arena.Uint8: tensor.Uint8,
		arena.Int32: tensor.Int32, arena.Int64: tensor.Int}
	for graph, dt := range types {
		for stored := range types {
			for _, scale := range []float64{0, 1, 0.5} {
				g := gorgonia.NewGraph()
				x := gorgonia.NewMatrix(g, dt, gorgonia.WithShape(4, 3), gorgonia.WithName("x"))
				_, err := compileGraph(g, Config{Model: frontend.Model{Batch: 4, Output: x, Inputs: map[*gorgonia.Node]frontend.Input{
					x: {Field: "x", Scale: scale, Spec: kernels.Spec{Type: stored, Shape: kernels.Shape{4, 3}}}}}, Mode: Predict})
				fits := graph.Float() || !stored.Float() && scale != 0.5
				if fits && err != nil || !fits && !errors.Is(err, kernels.ErrShape) {
					t.Errorf("%v in the graph, %v stored, scale %v: got %v, want it to fit: %v", graph, stored, scale, err, fits)
				}
			}
		}
	}
}

// breakage is a mistake in a configuration.
var breakages = []func(r *rand.Rand, g *grower, c *Config){
	func(r *rand.Rand, g *grower, c *Config) { c.Batch = r.IntN(6) - 1 },
	func(r *rand.Rand, g *grower, c *Config) { c.Loss = g.nodes[r.IntN(len(g.nodes))] },
	func(r *rand.Rand, g *grower, c *Config) { c.Output = g.nodes[r.IntN(len(g.nodes))] },
	func(r *rand.Rand, g *grower, c *Config) { c.Correct = g.nodes[r.IntN(len(g.nodes))] },
	func(r *rand.Rand, g *grower, c *Config) {
		c.Keep = append(c.Keep, nil, g.nodes[r.IntN(len(g.nodes))], g.nodes[r.IntN(len(g.nodes))])
	},
	func(r *rand.Rand, g *grower, c *Config) { c.Keep = g.Inputs },
	func(r *rand.Rand, g *grower, c *Config) { c.Mode = Mode(r.IntN(3)) },
	func(r *rand.Rand, g *grower, c *Config) { delete(c.Inputs, g.field) },
	func(r *rand.Rand, g *grower, c *Config) {
		n := g.Inputs[r.IntN(len(g.Inputs))]
		c.Inputs[n] = frontend.Input{Field: "x", Spec: kernels.Spec{Type: arena.DType(r.IntN(7)), Shape: kernels.Shape{randomBatch, r.IntN(4)}}}
	},
	func(r *rand.Rand, g *grower, c *Config) {
		c.input(g.Draft, 0, func(in *frontend.Input) { in.Resident, in.Samples = "all", r.IntN(10)-1 })
	},
	func(r *rand.Rand, g *grower, c *Config) {
		c.Frozen = func(name string) bool { return len(name)%2 == r.IntN(2) }
	},
	func(r *rand.Rand, g *grower, c *Config) { c.Update = Update{} },
	func(r *rand.Rand, g *grower, c *Config) { c.Update.States = optim.Adam{}.States },
	func(r *rand.Rand, g *grower, c *Config) { c.Update.Attrs = nil },
	func(r *rand.Rand, g *grower, c *Config) { c.Update.ClipNorm = 1 }, // without Attrs that say so
	func(r *rand.Rand, g *grower, c *Config) { c.Homes = &ir.Homes{Sealed: true} },
	func(r *rand.Rand, g *grower, c *Config) { c.Off = Pass(r.Uint32()) },
	func(r *rand.Rand, g *grower, c *Config) { c.Debug, c.Update.GuardEach = true, true },
	func(r *rand.Rand, g *grower, c *Config) {
		gorgonia.WithName(g.Inputs[0].Name())(g.Inputs[r.IntN(len(g.Inputs))])
	},
	func(r *rand.Rand, g *grower, c *Config) { g.In(2) },
	func(r *rand.Rand, g *grower, c *Config) {
		gorgonia.NewVector(g.Graph, g.Type, gorgonia.WithName("shapeless"))
	},
	func(r *rand.Rand, g *grower, c *Config) {
		c.Like = &ir.Program{Order: []int32{0, 1}, Instrs: make([]ir.Instr, 2), Plan: arena.Plan{Offsets: []int64{0}}}
	},
}

func TestBrokenGraphsAreErrorsAndNoPanics(t *testing.T) {
	refused := 0
	const graphs = 300
	for s := range uint64(graphs) {
		s += seed.Value() * 1000
		g, loss := randomGraph(s, tensor.Float32, false)
		cfg := g.config(nil, loss)
		r := rand.New(rand.NewPCG(s, 3))
		for range 1 + r.IntN(3) {
			breakages[r.IntN(len(breakages))](r, g, &cfg)
		}
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("seed %d: %v", s, p)
					panic(p)
				}
			}()
			p, err := compileGraph(g.Graph, cfg)
			if err != nil {
				refused++
			} else if err := arena.Check(p.Problem, p.Plan); err != nil {
				t.Errorf("seed %d: %v", s, err)
			}
		}()
	}
	if refused < graphs/10 || refused == graphs {
		t.Errorf("seed %d: %d of %d broken graphs were refused", seed.Value(), refused, graphs)
	}
}
