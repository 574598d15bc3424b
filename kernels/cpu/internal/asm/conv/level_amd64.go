//go:build amd64 && !purego

package conv

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

//go:generate go -C ../../../../../internal/gen run ./conv -dir ../../kernels/cpu/internal/asm/conv

// generated holds the assembly for the tile kernels that it works with.
var generated = map[*gemm.Kernels]*Kernels{
	gemm.For(asm.AVX512, arena.Float32): {
		Lanes: 16, Epilogue: wideEndRows32, Normalize: wideNormRows32, WinogradInput: wideWinoInput32, WinogradWeight: wideWinoWeight32, WinogradOutput: wideWinoOutput32, WinogradTurned: wideWinoTurned32,
		WinogradRows:  wideWinoRows32,
		patches:       [loadKinds]func(*Patch){widePatchRuns32, widePatchPairs32, widePatchGathers32},
		depthwise:     [loadKinds]func(*Depthwise){wideDepthRuns32, wideDepthPairs32, wideDepthGathers32},
		depthwiseGrad: [loadKinds]func(*Depthwise){wideDepthWeightRuns32, wideDepthWeightPairs32, wideDepthWeightGathers32},
	},
	gemm.For(asm.AVX512, arena.Float64): {
		Lanes: 8, Epilogue: wideEndRows64, Normalize: wideNormRows64, WinogradInput: wideWinoInput64, WinogradWeight: wideWinoWeight64, WinogradOutput: wideWinoOutput64, WinogradTurned: wideWinoTurned64,
		patches:       [loadKinds]func(*Patch){widePatchRuns64, widePatchPairs64, widePatchGathers64},
		depthwise:     [loadKinds]func(*Depthwise){wideDepthRuns64, wideDepthPairs64, wideDepthGathers64},
		depthwiseGrad: [loadKinds]func(*Depthwise){wideDepthWeightRuns64, wideDepthWeightPairs64, wideDepthWeightGathers64},
	},
	gemm.For(asm.AVX2, arena.Float32): {
		Lanes: 8, Epilogue: endRows32, Normalize: normRows32, WinogradInput: winoInput32, WinogradWeight: winoWeight32, WinogradOutput: winoOutput32, WinogradTurned: winoTurned32,
		patches:       [loadKinds]func(*Patch){patchRuns32, nil, patchGathers32},
		depthwise:     [loadKinds]func(*Depthwise){depthRuns32, nil, depthGathers32},
		depthwiseGrad: [loadKinds]func(*Depthwise){depthWeightRuns32, nil, depthWeightGathers32},
	},
	gemm.For(asm.AVX2, arena.Float64): {
		Lanes: 4, Epilogue: endRows64, Normalize: normRows64, WinogradInput: winoInput64, WinogradWeight: winoWeight64, WinogradOutput: winoOutput64, WinogradTurned: winoTurned64,
		patches:       [loadKinds]func(*Patch){patchRuns64, nil, patchGathers64},
		depthwise:     [loadKinds]func(*Depthwise){depthRuns64, nil, depthGathers64},
		depthwiseGrad: [loadKinds]func(*Depthwise){depthWeightRuns64, nil, depthWeightGathers64},
	},
}

// For returns the functions that work with the tile kernels of s.
func For(s *gemm.Kernels) *Kernels {
	s = s.Single()
	if k := generated[s]; k != nil {
		return k
	}
	return portable(s)
}
