package kernels_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

var seedFlag = flag.Uint64("seed", 0, "seed of random cases; 0: one from the clock")

// random returns a generator whose seed is printed when the test fails.
func random(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with -seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

func TestEveryOperationIsWhole(t *testing.T) {
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

// fill returns the operands of a case with values as their types hold them.
func fill(r *rand.Rand, c kernels.Case) []kernels.Tensor {
	in := make([]kernels.Tensor, len(c.In))
	for k, s := range c.In {
		in[k] = kernels.Tensor{Spec: s, Data: make([]float64, s.Shape.Elems())}
		switch {
		case c.Fill != nil:
			c.Fill(r, k, in[k].Data)
		case s.Type.Float():
			for i := range in[k].Data {
				in[k].Data[i] = r.NormFloat64()
			}
		}
		b := make([]byte, s.Bytes())
		kernels.Store(b, s.Type, in[k].Data)
		kernels.Load(in[k].Data, s.Type, b)
	}
	return in
}

func TestCasesFitTheirOperation(t *testing.T) {
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
			out := make([]kernels.Tensor, len(specs))
			for i, s := range specs {
				out[i] = kernels.Tensor{Spec: s, Data: make([]float64, s.Shape.Elems())}
			}
			op.Ref(c.Attrs, fill(r, c), out)
			for k, u := range kernels.UpdatesOf(op, c.Attrs) {
				if !specs[k].Equal(c.In[u]) {
					t.Errorf("%s: output %d is %v, but updates input %d, %v", op.Name, k, specs[k], u, c.In[u])
				}
			}
		}
	}
}
