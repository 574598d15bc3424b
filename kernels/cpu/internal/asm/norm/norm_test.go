package norm_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/norm"
)

func TestFieldsLieWhereTheAssemblyReadsThem(t *testing.T) {
	type fields map[string]uintptr
	for name, c := range map[string]struct{ got, want fields }{ // internal/gen/norm
		"PlaneArgs[float32]": {asmtest.Offsets[norm.PlaneArgs[float32]](), fields{"Dy": 24, "Y": 48, "Param": 72, "Sums": 96, "N": 120, "Channels": 128, "Images": 136, "Stride": 144, "Relu": 152}},
		"RowArgs[float32]": {asmtest.Offsets[norm.RowArgs[float32]](), fields{"Dy": 24, "Y": 48, "Gamma": 72, "Beta": 96, "Mean": 120, "Rstd": 144, "Dgamma": 168, "Dbeta": 192, "N": 216,
			"Rows": 224, "Eps": 232, "Share": 236, "Extremes": 240}},
		"RowArgs[float64]": {asmtest.Offsets[norm.RowArgs[float64]](), fields{"Share": 240, "Extremes": 248}},
	} {
		for field, want := range c.want {
			if got := c.got[field]; got != want {
				t.Errorf("%s.%s lies at %d, the assembly reads %d", name, field, got, want)
			}
		}
	}
	if norm.Params != 8 || norm.LaneBytes != 64 || norm.MaxTile != 64 {
		t.Error("the assembly relies on other sizes")
	}
}
