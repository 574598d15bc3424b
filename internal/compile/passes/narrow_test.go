package passes

import (
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/ir/irtest"
	"github.com/evenkeel/evenkeel/kernels"
)

// An activation of a layer stays in float32 if the layer, or a scope that it is in, is to stay so.
func TestActivationsOfAScopeStayInFloat32(t *testing.T) {
	for _, c := range []struct {
		float32 []string
		narrow  bool // its activation waits in 16 bits
	}{
		{nil, true},
		{[]string{"encoder/block/layer"}, false},
		{[]string{"encoder/block"}, false},
		{[]string{"encoder"}, false},
		{[]string{"enc", "block"}, true},
	} {
		b := irtest.New(t)
		twoLayers(b, kernels.Tanh)
		h := slices.IndexFunc(b.Values, func(v ir.Value) bool { return v.Name == "h" })
		b.Values[h].Owner = "encoder/block/layer"
		want := half
		want.Float32 = c.float32
		Narrow(b.Program, want)
		got := slices.ContainsFunc(b.Instrs, func(in ir.Instr) bool { return in.Op == kernels.Encode && int(in.In[0]) == h })
		if got != c.narrow {
			t.Errorf("float32 %q: the activation waits in 16 bits: %t, want %t", c.float32, got, c.narrow)
		}
	}
}
