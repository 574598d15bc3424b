package passes

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// builder builds the program of a case.
type builder struct {
	*ir.Builder
	t testing.TB
	n int // homes
}

func newBuilder(t testing.TB) *builder {
	return &builder{Builder: ir.NewBuilder(&ir.Program{}, &ir.Homes{}), t: t}
}

// homeOf adds a home; its number makes the name unique.
func (b *builder) homeOf(r arena.Region, name string, typ arena.DType, shape ...int) kernels.Value {
	b.t.Helper()
	name = fmt.Sprintf("%s%d", name, b.n)
	b.n++
	v, err := b.Home(r, "layer", name, kernels.Spec{Type: typ, Shape: shape})
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *builder) home(r arena.Region, name string, shape ...int) kernels.Value {
	return b.homeOf(r, name, arena.Float32, shape...)
}

func (b *builder) x(shape ...int) kernels.Value { return b.home(ir.Parameters, "x", shape...) }

func (b *builder) fill(x float64, shape ...int) kernels.Value {
	return b.Apply(kernels.Fill, kernels.FillAttrs{Type: arena.Float32, Shape: shape, Value: x})
}

// op appends an instruction with a label and returns its first result.
func (b *builder) op(label string, op *kernels.Op, attrs any, in ...kernels.Value) kernels.Value {
	return b.ops(label, op, attrs, in...)[0]
}

func (b *builder) ops(label string, op *kernels.Op, attrs any, in ...kernels.Value) []kernels.Value {
	b.Label = label
	defer func() { b.Label = "" }()
	return b.ApplyAll(op, attrs, in...)
}

// root makes vs needed after the step.
func (b *builder) root(vs ...kernels.Value) { b.Roots = append(b.Roots, vs...) }

// example is a program of the golden file of a pass.
type example struct {
	name  string
	build func(b *builder)
}

// golden compares what a pass makes of programs with testdata/<name>.golden.
func golden(t *testing.T, name string, pass func(p *ir.Program), examples []example) {
	t.Helper()
	var got []byte
	for _, e := range examples {
		b := newBuilder(t)
		e.build(b)
		before := b.Program.String()
		pass(b.Program)
		after := b.Program.String()
		if after == before {
			after = "unchanged\n"
		}
		got = fmt.Appendf(got, "== %s\n%s──►\n%s\n", e.name, before, after)
	}
	file := filepath.Join("testdata", name+".golden")
	if *rewrite {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s: got\n%swant\n%s", file, got, want)
	}
}

// tests are the examples of each pass.
var tests = []struct {
	name     string
	pass     func(p *ir.Program)
	examples []example
}{
	{"fold", Fold, foldExamples},
	{"merge", Merge, mergeExamples},
	{"prune", Prune, pruneExamples},
	{"redecode", Redecode, redecodeExamples},
	{"poolrelu", PoolReluGrad, poolExamples},
	{"batchnorm", FuseBatchNormRelu, batchNormExamples},
	{"sum", Sums, sumExamples},
	{"fuse", Fuse, fuseExamples},
	{"reduce", Reduce, reduceExamples},
	{"round", func(p *ir.Program) { Round(p, half) }, roundExamples},
	{"narrow", func(p *ir.Program) { Narrow(p, half) }, narrowExamples},
	{"slices", func(p *ir.Program) { Slices(p, kernels.Sgd, schedule.Options{Order: true, InPlace: true, Views: true}) }, slicesExamples},
	{"offload", func(p *ir.Program) { Offload(p, kernels.Sgd, true) }, offloadExamples},
}

func TestPassesRewriteProgramsLikeTheirGoldenFiles(t *testing.T) {
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) { golden(t, c.name, c.pass, c.examples) })
	}
}

// A pass that has run leaves nothing for a second run.
func TestPassesAreIdempotent(t *testing.T) {
	for _, c := range tests {
		if slices.Contains([]string{"redecode", "narrow", "slices", "offload"}, c.name) {
			continue // a second run finds fields with one reader, 16-bit values, slices and copies, which these leave as they are
		}
		for _, e := range c.examples {
			b := newBuilder(t)
			e.build(b)
			c.pass(b.Program)
			once := b.Program.String()
			if c.pass(b.Program); b.Program.String() != once {
				t.Errorf("%s, %s: got\n%vafter the second run, after the first\n%s", c.name, e.name, b.Program, once)
			}
		}
	}
}
