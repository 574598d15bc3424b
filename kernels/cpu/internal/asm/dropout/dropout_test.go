package dropout_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/dropout"
)

func TestFieldsLieWhereTheAssemblyReadsThem(t *testing.T) {
	type fields map[string]uintptr
	for name, c := range map[string]struct{ got, want fields }{ // internal/gen/norm
		"Args[float32]": {asmtest.Offsets[dropout.Args[float32]](), fields{"Y": 24, "N": 48, "Counter": 56, "Keys": 72, "Threshold": 232, "Scale": 236}},
	} {
		for field, want := range c.want {
			if got := c.got[field]; got != want {
				t.Errorf("%s.%s lies at %d, the assembly reads %d", name, field, got, want)
			}
		}
	}
}
