package gemm_test

import (
	"bytes"
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// A pairing packs pairs of bfloat16 from elements of from bytes: of neighbours in a row, or of two
// rows (across). twin is its Go twin.
type pairing struct {
	name      string
	from      int
	across    bool
	run, twin half.ConvertFunc
}

// pairings lists those of this processor.
func pairings() []pairing {
	s := gemm.BFloat16Pairs()
	if s == nil {
		return nil
	}
	a, b := s.BFloat16, asmtest.PairRounding()
	return []pairing{
		{"along, float32", 4, false, a.FromFloat32.Along, b.FromFloat32.Along}, {"along, bfloat16", 2, false, a.FromHalf.Along, b.FromHalf.Along},
		{"across, float32", 4, true, a.FromFloat32.Across, b.FromFloat32.Across}, {"across, bfloat16", 2, true, a.FromHalf.Across, b.FromHalf.Across},
	}
}

func TestPairsHaveTheBitsOfPlainGoAndNothingBeside(t *testing.T) {
	r, seed := asmtest.Rand(t)
	if len(pairings()) == 0 {
		t.Skip("the processor has no AVX512-BF16")
	}
	for _, p := range pairings() {
		for n := 1; n < 70; n++ {
			rows, apart := 1+r.IntN(5), (n+r.IntN(9))*p.from
			width, lines := 2*(n+n&1), rows
			if p.across {
				width, lines = 4*n, (rows+1)/2
			}
			pitch := width + 4*r.IntN(5)
			values := make([]float32, ((rows-1)*apart+n*p.from)/4+1)
			for i := range values {
				values[i] = float32(r.NormFloat64())
			}
			src := asm.Bytes(values)[:(rows-1)*apart+n*p.from] // two bfloat16s are a number too
			got := bytes.Repeat([]byte{0xaa}, (lines-1)*pitch+width+64)
			want := bytes.Clone(got)
			p.run(got, src, rows, apart, n, pitch)
			p.twin(want, src, rows, apart, n, pitch)
			if !bytes.Equal(got, want) {
				t.Fatalf("%s: %d rows of %d: got % x, want % x (seed %d)", p.name, rows, n, got, want, seed)
			}
		}
	}
}

func TestPairsAreMadeInPlace(t *testing.T) {
	r, seed := asmtest.Rand(t)
	for _, p := range pairings() {
		if p.across || p.from != 4 {
			continue
		}
		for n := 1; n < 300; n++ {
			values := make([]float32, 3*(n+1))
			for i := range values {
				values[i] = float32(r.NormFloat64())
			}
			got := asm.Bytes(values)
			want := bytes.Clone(got)
			p.twin(want, bytes.Clone(got), 3, 4*(n+1), n, 4*(n+1))
			p.run(got, got, 3, 4*(n+1), n, 4*(n+1))
			if !bytes.Equal(got, want) {
				t.Fatalf("rows of %d differ in place (seed %d)", n, seed)
			}
		}
	}
}
