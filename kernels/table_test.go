package kernels_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/kerneltest"
)

// random returns a generator whose seed is printed when the test fails.
func random(t testing.TB) *rand.Rand { return seed.Rand(t, 0) }

func TestEveryOperationIsWhole(t *testing.T) {
	t.Parallel()
	for _, op := range kernels.All() {
		if op.Infer == nil || op.Ref == nil || op.Cases == nil {
			t.Errorf("%s lacks Infer, Ref or Cases", op.Name)
		}
		if kernels.ByName(op.Name) != op {
			t.Errorf("ByName(%q) is another op", op.Name)
		}
		for _, key := range op.Gorgonia {
			if kernels.ByGorgonia(key) != op {
				t.Errorf("ByGorgonia(%q) is not %s", key, op.Name)
			}
		}
	}
}

func TestCasesFitTheirOperation(t *testing.T) {
	t.Parallel()
	r := random(t)
	for _, op := range kernels.All() {
		for range 50 {
			float := []arena.DType{arena.Float32, arena.Float64}[r.IntN(2)]
			c := op.Cases(r, float)
			specs, err := op.Infer(c.Attrs, c.In)
			if err != nil {
				t.Errorf("%s: case %v of %v is refused: %v", op.Name, c.Attrs, c.In, err)
				break
			}
			if _, err := kernels.Eval(op, c.Attrs, kerneltest.Fill(r, c)); err != nil {
				t.Errorf("%s: case %v of %v: %v", op.Name, c.Attrs, c.In, err)
			}
			for k, u := range op.UpdatesFor(c.Attrs) {
				if !specs[k].Equal(c.In[u]) {
					t.Errorf("%s: output %d is %v, but updates input %d, %v", op.Name, k, specs[k], u, c.In[u])
				}
			}
		}
	}
}

// underived says why an operation has no gradient rule. Those that exist for their effect, that
// take nothing, that are gradients themselves, and optional ones, which only predictors have, need no
// entry.
var underived = map[string]string{
	"chain":       "is made after gradients",
	"host":        "has the gradient that its maker gives it",
	"encode":      "is put in after gradients are made",
	"sum_squares": "serves clipping, after gradients",
	"clip_norm":   "serves clipping, after gradients",
	"prefetch":    "is put in after gradients are made",

	"pack_shards":  "is put in after gradients are made",
	"take_shard":   "is put in after gradients are made",
	"place_shards": "is put in after gradients are made",
}

// isGradient reports whether op is called a gradient: softmax_grad, maxPoolGrad.
func isGradient(op *kernels.Op) bool {
	return strings.HasSuffix(op.Name, "_grad") || strings.HasSuffix(op.Name, "Grad")
}

func TestEveryOperationHasAGradientOrAReasonForNone(t *testing.T) {
	t.Parallel()
	r := random(t)
	for _, op := range kernels.All() {
		c := op.Cases(r, arena.Float64)
		excused := len(op.Updates) > 0 || len(c.In) == 0 || isGradient(op) || underived[op.Name] != "" || op.Optional
		if (op.Grad == nil) != excused {
			t.Errorf("%s: has a gradient: %v, is excused from one: %v", op.Name, op.Grad != nil, excused)
		}
	}
}

// TestWrongOperandsAreRefused gives every operation too many and too few operands, attributes of
// another type, and integers where floats belong: an error that wraps ErrShape or ErrAttrs and
// names the operation, never a panic.
func TestWrongOperandsAreRefused(t *testing.T) {
	t.Parallel()
	r := random(t)
	type other struct{}
	for _, op := range kernels.All() {
		c := op.Cases(r, arena.Float32)
		refused := func(what string, attrs any, in []kernels.Spec) {
			t.Helper()
			_, err := op.Infer(attrs, in)
			if !errors.Is(err, kernels.ErrShape) && !errors.Is(err, kernels.ErrAttrs) {
				t.Errorf("%s with %s: got %v, want an error that wraps ErrShape or ErrAttrs", op.Name, what, err)
			} else if op != kernels.Host && !strings.HasPrefix(err.Error(), op.Name+": ") {
				t.Errorf("%s with %s: %q does not name the operation", op.Name, what, err)
			}
		}
		refused("attributes of another type", other{}, c.In)
		if op != kernels.Fill && op != kernels.Concat && op != kernels.ClipNorm {
			refused("no operands", c.Attrs, nil)
		}
		if op != kernels.Concat && op != kernels.ClipNorm && op != kernels.Chain {
			refused("an operand too many", c.Attrs, append(slices.Clone(c.In), kernels.Spec{Type: arena.Float32}))
		}
		for k := range c.In {
			in := slices.Clone(c.In)
			in[k].Type = arena.DType(99)
			if movesOnly(op, c) || op == kernels.Decode {
				continue // takes any type
			}
			refused(fmt.Sprintf("operand %d of no type", k), c.Attrs, in)
		}
	}
}

// movesOnly reports whether op computes nothing in this case, so that operands may be of any type.
func movesOnly(op *kernels.Op, c kernels.Case) bool {
	out, err := op.Infer(c.Attrs, c.In)
	return err == nil && op.Cost != nil && op.Cost(c.Attrs, c.In, out) == 0
}

// Products of dimensions may overflow to anything, 0 among it.
func TestTensorsBeyondAllMemoryAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []kernels.Shape{{1 << 40, 1 << 24}, {1 << 40, 1 << 22}, {1 << 60}, {1 << 32, 1 << 32, 1 << 32}, {1<<44 + 1}, {3, -1}} {
		if err := (kernels.Spec{Type: arena.Float32, Shape: s}).Check(); !errors.Is(err, kernels.ErrShape) {
			t.Errorf("%v: got %v, want %v", s, err, kernels.ErrShape)
		}
	}
	for _, s := range []kernels.Shape{{}, {1 << 44}, {0, 1 << 60}, {1 << 22, 1 << 22}} {
		if err := (kernels.Spec{Type: arena.Float32, Shape: s}).Check(); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
}
