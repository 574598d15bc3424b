//go:build amd64 && !purego

package cpu

//go:generate go -C ../../internal/gen run ./conv -dir ../../kernels/cpu

// packers holds the packing functions that were generated, by the tiles that they serve.
var packers = map[*isa]*packer{
	avx512x32: {16, widePatchRuns32, widePatchPairs32, widePatchGathers32, wideEndRows32,
		wideWinoInput32, wideWinoWeight32, wideWinoOutput32},
	avx512x64: {8, widePatchRuns64, widePatchPairs64, widePatchGathers64, wideEndRows64,
		wideWinoInput64, wideWinoWeight64, wideWinoOutput64},
	avx2x32: {8, patchRuns32, nil, patchGathers32, endRows32,
		winoInput32, winoWeight32, winoOutput32},
	avx2x64: {4, patchRuns64, nil, patchGathers64, endRows64,
		winoInput64, winoWeight64, winoOutput64},
}

// packerFor returns the packing functions for the tiles of s.
func packerFor(s *isa) *packer {
	if k := packers[s]; k != nil {
		return k
	}
	return goPacker(s)
}
