package conv_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/conv"
)

func TestFieldsLieWhereTheAssemblyReadsThem(t *testing.T) {
	type fields map[string]uintptr
	for name, c := range map[string]struct{ got, want fields }{ // internal/gen/conv
		"Patch": {asmtest.Offsets[conv.Patch](), fields{"Dst": 0, "Src": 24, "Taps": 48, "Masks": 72, "Segments": 96, "Lanes": 120,
			"TapCount": 144, "SegCount": 152, "Channels": 160, "Plane": 168, "Pitch": 176}},
		"Epilogue": {asmtest.Offsets[conv.Epilogue](), fields{"C": 0, "Bias": 24, "Rows": 48, "RowC": 56, "N": 64, "Flags": 72,
			"Mean": 80, "Scale": 104, "Shift": 128}},
		"Depthwise":      {asmtest.Offsets[conv.Depthwise](), fields{"Patch": 0, "W": 192, "StepW": 216, "N": 224}},
		"WinogradInput":  {asmtest.Offsets[conv.WinogradInput](), fields{"Src": 0, "Dst": 24, "Plane": 48, "Channels": 56}},
		"WinogradWeight": {asmtest.Offsets[conv.WinogradWeight](), fields{"Src": 0, "Taps": 24, "Dst": 48, "Plane": 72, "N": 80}},
		"WinogradOutput": {asmtest.Offsets[conv.WinogradOutput](), fields{"M": 0, "Dst": 24, "Bias": 48, "Segments": 72, "Masks": 96,
			"SegCount": 120, "Rows": 128, "RowM": 136, "PlaneM": 144, "RowDst": 152, "Width": 160, "Flags": 168}},
		"WinogradTurned": {asmtest.Offsets[conv.WinogradTurned](), fields{"M": 0, "Dst": 24, "Bias": 48, "Pixels": 72,
			"Tiles": 96, "RowM": 104, "PlaneM": 112, "Flags": 120}},
		"WinogradRows": {asmtest.Offsets[conv.WinogradRows](), fields{"Src": 0, "Dst": 24, "Offsets": 48, "Masks": 72, "Rows": 96,
			"Step": 104, "Channels": 112, "PlaneSrc": 120, "RowDst": 128, "PlaneDst": 136}},
	} {
		for field, want := range c.want {
			if got := c.got[field]; got != want {
				t.Errorf("%s.%s lies at %d, the assembly reads %d", name, field, got, want)
			}
		}
	}
}
