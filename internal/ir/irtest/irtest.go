// Package irtest builds small programs for tests, and compares programs as text with golden files.
package irtest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// Builder is an ir.Builder that fails the test instead of returning errors.
type Builder struct {
	*ir.Builder
	t     testing.TB
	homes int // number of homes so far
}

// New returns a builder of an empty program.
func New(t testing.TB) *Builder {
	return &Builder{Builder: ir.NewBuilder(&ir.Program{Name: "test"}, &ir.Homes{}), t: t}
}

// HomeOf adds a value with a home. The number of homes before it makes its name unique: "x" as the
// second home is "x1".
func (b *Builder) HomeOf(r arena.Region, name string, typ arena.DType, shape ...int) kernels.Value {
	b.t.Helper()
	name = fmt.Sprintf("%s%d", name, b.homes)
	b.homes++
	v, err := b.Home(r, "layer", name, kernels.Spec{Type: typ, Shape: shape})
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// X adds a float32 parameter.
func (b *Builder) X(shape ...int) kernels.Value {
	return b.HomeOf(ir.Parameters, "x", arena.Float32, shape...)
}

// Fill appends a constant.
func (b *Builder) Fill(x float64, shape ...int) kernels.Value {
	return b.Apply(kernels.Fill, kernels.FillAttrs{Type: arena.Float32, Shape: shape, Value: x})
}

// Op appends an instruction with a label and returns its first result.
func (b *Builder) Op(label string, op *kernels.Op, attrs any, in ...kernels.Value) kernels.Value {
	return b.Ops(label, op, attrs, in...)[0]
}

// Ops is Op and returns all results.
func (b *Builder) Ops(label string, op *kernels.Op, attrs any, in ...kernels.Value) []kernels.Value {
	b.Label = label
	defer func() { b.Label = "" }()
	return b.ApplyAll(op, attrs, in...)
}

// Need makes vs needed after the last instruction.
func (b *Builder) Need(vs ...kernels.Value) { b.Needed = append(b.Needed, vs...) }

// Example builds a program for a golden file.
type Example struct {
	Name  string
	Build func(b *Builder)
}

// Golden runs pass on each example and compares the program before and after with
// testdata/<name>.golden. With the flag -rewrite it writes the file.
func Golden(t *testing.T, name string, pass func(p *ir.Program), examples []Example) {
	t.Helper()
	var got []byte
	for _, e := range examples {
		b := New(t)
		e.Build(b)
		before := b.Program.String()
		pass(b.Program)
		after := b.Program.String()
		if after == before {
			after = "unchanged\n"
		}
		got = fmt.Appendf(got, "== %s\n%s──►\n%s\n", e.Name, before, after)
	}
	Compare(t, name, string(got))
}

// Compare compares text with the golden file of a name in testdata. -rewrite writes the file anew.
func Compare(t testing.TB, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *rewrite {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s differs, -rewrite writes it anew:\n%s", file, diff(text, string(want)))
	}
}

// diff returns the lines of got and want that differ.
func diff(got, want string) string {
	var b strings.Builder
	gs, ws := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(gs), len(ws)) {
		var g, w string
		if i < len(gs) {
			g = gs[i]
		}
		if i < len(ws) {
			w = ws[i]
		}
		if g != w {
			b.WriteString("got  " + g + "\nwant " + w + "\n")
		}
	}
	return b.String()
}
