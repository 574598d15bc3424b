package update_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/update"
)

func TestFieldsLieWhereTheAssemblyReadsThem(t *testing.T) {
	type fields map[string]uintptr
	for name, c := range map[string]struct{ got, want fields }{ // internal/gen/update
		"Rule[float32]": {asmtest.Offsets[update.Rule[float32]](), fields{"P": 0, "G": 24, "S": 48, "V": 72, "Prepare": 96,
			"Scale": 104, "Max": 108, "Min": 112, "Decay": 116, "Down": 120, "Coef": 124}},
		"Rule[float64]": {asmtest.Offsets[update.Rule[float64]](), fields{"P": 0, "G": 24, "S": 48, "V": 72, "Prepare": 96,
			"Scale": 104, "Max": 112, "Min": 120, "Decay": 128, "Down": 136, "Coef": 144}},
		"Rule16": {asmtest.Offsets[update.Rule16[float32]](), fields{"Rule": 0, "M": 160, "V": 184, "Key": 208}},
		"Rule8": {asmtest.Offsets[update.Rule8[float32]](), fields{"Rule": 0, "M": 160, "Root": 184, "Largest": 208,
			"HalfInverse": 232, "RootNoise": 236, "MeanNoise": 240}},
		"FactorScalars": {asmtest.Offsets[update.FactorScalars](), fields{"Scale": 0, "Max": 8, "Min": 16, "Epsilon": 24, "Decay": 32}},
	} {
		for field, want := range c.want {
			if got := c.got[field]; got != want {
				t.Errorf("%s.%s lies at %d, the assembly reads %d", name, field, got, want)
			}
		}
	}
}
