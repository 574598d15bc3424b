package pool2d_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/pool2d"
)

func TestFieldsLieWhereTheAssemblyReadsThem(t *testing.T) {
	type fields map[string]uintptr
	for name, c := range map[string]struct{ got, want fields }{ // internal/gen/norm
		"Args2x2": {asmtest.Offsets[pool2d.Args2x2](), fields{"Y": 24, "Index": 48, "Rows": 72, "Width": 80, "Stride": 88}},
		"RowArgs": {asmtest.Offsets[pool2d.RowArgs](), fields{"Y": 24, "Index": 48, "Rows": 72, "Stride": 80, "Place": 88, "Width": 96, "Image": 104, "Kernel": 112, "Pad": 120,
			"Step": 128, "Share": 136}},
	} {
		for field, want := range c.want {
			if got := c.got[field]; got != want {
				t.Errorf("%s.%s lies at %d, the assembly reads %d", name, field, got, want)
			}
		}
	}
}
