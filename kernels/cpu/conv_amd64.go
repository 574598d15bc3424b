//go:build amd64 && !purego

package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"

//go:generate go -C ../../internal/gen run ./conv -dir ../../kernels/cpu

// packers holds the functions that were generated, by the tiles that they serve.
var packers = map[*gemm.Kernels]*packer{
	gemm.AVX512x32: {
		lanes: 16, end: wideEndRows32, input: wideWinoInput32, weight: wideWinoWeight32, output: wideWinoOutput32,
		patches:      [loadKinds]func(*patch){widePatchRuns32, widePatchPairs32, widePatchGathers32},
		depths:       [loadKinds]func(*depth){wideDepthRuns32, wideDepthPairs32, wideDepthGathers32},
		depthWeights: [loadKinds]func(*depth){wideDepthWeightRuns32, wideDepthWeightPairs32, wideDepthWeightGathers32},
	},
	gemm.AVX512x64: {
		lanes: 8, end: wideEndRows64, input: wideWinoInput64, weight: wideWinoWeight64, output: wideWinoOutput64,
		patches:      [loadKinds]func(*patch){widePatchRuns64, widePatchPairs64, widePatchGathers64},
		depths:       [loadKinds]func(*depth){wideDepthRuns64, wideDepthPairs64, wideDepthGathers64},
		depthWeights: [loadKinds]func(*depth){wideDepthWeightRuns64, wideDepthWeightPairs64, wideDepthWeightGathers64},
	},
	gemm.AVX2x32: {
		lanes: 8, end: endRows32, input: winoInput32, weight: winoWeight32, output: winoOutput32,
		patches:      [loadKinds]func(*patch){patchRuns32, nil, patchGathers32},
		depths:       [loadKinds]func(*depth){depthRuns32, nil, depthGathers32},
		depthWeights: [loadKinds]func(*depth){depthWeightRuns32, nil, depthWeightGathers32},
	},
	gemm.AVX2x64: {
		lanes: 4, end: endRows64, input: winoInput64, weight: winoWeight64, output: winoOutput64,
		patches:      [loadKinds]func(*patch){patchRuns64, nil, patchGathers64},
		depths:       [loadKinds]func(*depth){depthRuns64, nil, depthGathers64},
		depthWeights: [loadKinds]func(*depth){depthWeightRuns64, nil, depthWeightGathers64},
	},
}

// packerFor returns the functions beside the tiles of s.
func packerFor(s *gemm.Kernels) *packer {
	s = s.Single()
	if k := packers[s]; k != nil {
		return k
	}
	return goPacker(s)
}
