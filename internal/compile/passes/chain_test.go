package passes

import (
	"testing"

	"github.com/evenkeel/evenkeel/internal/ir/irtest"
	"github.com/evenkeel/evenkeel/kernels"
)

// ladders are elementwise operations on 40 values, more than one chain may hold: nested to the
// left, to the right, and as a tree.
func ladders(b *irtest.Builder) map[string]kernels.Value {
	xs := make([]kernels.Value, 40)
	for i := range xs {
		xs[i] = b.X(3, 4)
	}
	left, right := xs[0], xs[0]
	for _, x := range xs[1:] {
		left = b.Apply(kernels.Add, nil, b.Apply(kernels.Tanh, nil, left), x)
		right = b.Apply(kernels.Add, nil, x, b.Apply(kernels.Tanh, nil, right))
	}
	level := xs
	for len(level) > 1 {
		var next []kernels.Value
		for i := 0; i+1 < len(level); i += 2 {
			next = append(next, b.Apply(kernels.Mul, nil, b.Apply(kernels.Tanh, nil, level[i]), level[i+1]))
		}
		level = append(next, level[len(next)*2:]...)
	}
	return map[string]kernels.Value{"left": left, "right": right, "tree": level[0]}
}

func TestChainsStayWithinTheirLimits(t *testing.T) {
	for _, name := range []string{"left", "right", "tree"} {
		b := irtest.New(t)
		b.Need(b.Apply(kernels.Sum, kernels.ReduceAttrs{}, ladders(b)[name]))
		Prune(b.Program)
		Fuse(b.Program)
		chains := 0
		for _, in := range b.Instrs {
			if in.Op != kernels.Chain {
				continue
			}
			chains++
			if steps := len(in.Attrs.(*kernels.ChainAttrs).Steps); len(in.In) > maxChainInputs || steps > maxChainSteps {
				t.Errorf("%s: a chain of %d inputs and %d steps, at most %d and %d are allowed", name, len(in.In), steps, maxChainInputs, maxChainSteps)
			}
		}
		if chains < 2 || chains > 12 {
			t.Errorf("%s: got %d chains\n%v", name, chains, b.Program)
		}
	}
}
