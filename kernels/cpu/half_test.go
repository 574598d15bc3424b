package cpu_test

import (
	"bytes"
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cpu"
)

func TestPairsHaveTheBitsOfPlainGoAndNothingBeside(t *testing.T) {
	r, seed := random(t)
	if len(cpu.Pairings()) == 0 {
		t.Skip("the processor has no AVX512-BF16")
	}
	for _, p := range cpu.Pairings() {
		for n := 1; n < 70; n++ {
			rows, apart := 1+r.IntN(5), (n+r.IntN(9))*p.From
			width, lines := 2*(n+n&1), rows
			if p.Across {
				width, lines = 4*n, (rows+1)/2
			}
			pitch := width + 4*r.IntN(5)
			values := make([]float32, ((rows-1)*apart+n*p.From)/4+1)
			for i := range values {
				values[i] = float32(r.NormFloat64())
			}
			src := cpu.AsBytes(values)[:(rows-1)*apart+n*p.From] // two bfloat16s are a number too
			got := bytes.Repeat([]byte{0xaa}, (lines-1)*pitch+width+64)
			want := bytes.Clone(got)
			p.Run(got, src, rows, apart, n, pitch)
			p.Plain(want, src, rows, apart, n, pitch)
			if !bytes.Equal(got, want) {
				t.Fatalf("%s: %d rows of %d: got % x, want % x (seed %d)", p.Name, rows, n, got, want, seed)
			}
		}
	}
}

func TestPairsAreMadeInPlace(t *testing.T) {
	r, seed := random(t)
	for _, p := range cpu.Pairings() {
		if p.Across || p.From != 4 {
			continue
		}
		for n := 1; n < 300; n++ {
			values := make([]float32, 3*(n+1))
			for i := range values {
				values[i] = float32(r.NormFloat64())
			}
			got := cpu.AsBytes(values)
			want := bytes.Clone(got)
			p.Plain(want, bytes.Clone(got), 3, 4*(n+1), n, 4*(n+1))
			p.Run(got, got, 3, 4*(n+1), n, 4*(n+1))
			if !bytes.Equal(got, want) {
				t.Fatalf("rows of %d differ in place (seed %d)", n, seed)
			}
		}
	}
}
