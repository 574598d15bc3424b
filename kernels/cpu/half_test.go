package cpu_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// halfWay returns float32s around which types of 16 bits round: all that one of them holds, what lies half-way between two, and their
// neighbours; and numbers of any bits.
func halfWay(r *rand.Rand) []float32 {
	var all []float32
	for h := range 1 << 16 {
		for _, v := range []float32{numeric.FromBFloat16(uint16(h)), numeric.FromFloat16(uint16(h))} {
			b := math.Float32bits(v)
			for _, beside := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xfff, 0x1000, 0x1001} {
				all = append(all, math.Float32frombits(b+beside))
			}
		}
	}
	for range 1 << 16 {
		all = append(all, math.Float32frombits(r.Uint32()))
	}
	return all
}

func TestConversionsHaveTheBitsOfPlainGo(t *testing.T) {
	r, seed := random(t)
	numbers := halfWay(r)
	var halves []uint16
	for h := range 1 << 16 {
		if v := numeric.FromFloat16(uint16(h)); v == v { // whether a NaN becomes quiet is left open
			halves = append(halves, uint16(h))
		}
	}
	for _, typ := range []arena.DType{arena.Bfloat16, arena.Float16} {
		plain := cpu.Conversions(cpu.Portable, typ)
		for _, level := range cpu.Levels() {
			for k, c := range cpu.Conversions(level, typ) {
				src, n := cpu.AsBytes(numbers), len(numbers)
				if c.From == 2 {
					src, n = cpu.AsBytes(halves), len(halves)
				}
				got, want := make([]byte, n*c.To), make([]byte, n*c.To)
				c.Run(got, src, 1, 0, n, 0)
				plain[k].Run(want, src, 1, 0, n, 0)
				for i := range n {
					if a, b := got[i*c.To:][:c.To], want[i*c.To:][:c.To]; !bytes.Equal(a, b) {
						t.Fatalf("%v %v %s of % x: got % x, want % x (seed %d)", level, typ, c.Name, src[i*c.From:][:c.From], a, b, seed)
					}
				}
			}
		}
	}
}

func TestConversionsOfRowsWriteNothingBesideThem(t *testing.T) {
	r, seed := random(t)
	for _, typ := range []arena.DType{arena.Bfloat16, arena.Float16} {
		for _, level := range cpu.Levels() {
			for _, c := range cpu.Conversions(level, typ) {
				for n := range 70 {
					rows, apart, pitch := r.IntN(4), (n+r.IntN(9))*c.From, (n+r.IntN(9))*c.To
					src := make([]byte, max(0, (rows-1)*apart+n*c.From))
					for i := range src {
						src[i] = byte(r.Uint32()) & 0x3f // no NaN
					}
					dst := bytes.Repeat([]byte{0xaa}, max(0, rows-1)*pitch+n*c.To+64)
					want := bytes.Clone(dst)
					c.Run(dst, src, rows, apart, n, pitch)
					for i := range rows {
						one := make([]byte, c.To)
						for j := range n {
							c.Run(one, src[i*apart+j*c.From:], 1, 0, 1, 0)
							copy(want[i*pitch+j*c.To:], one)
						}
					}
					if !bytes.Equal(dst, want) {
						t.Fatalf("%v %v %s: %d rows of %d differ from their elements, or what lies beside does (seed %d)", level, typ, c.Name, rows, n, seed)
					}
				}
			}
		}
	}
}

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

// BenchmarkConversions times conversions of rows that lie in the first-level cache.
func BenchmarkConversions(b *testing.B) {
	const n = 4096
	src, dst := make([]float32, n), make([]float32, n)
	for _, level := range cpu.Levels() {
		for _, to := range []arena.DType{arena.Bfloat16, arena.Float16} {
			for _, c := range cpu.Conversions(level, to) {
				b.Run(fmt.Sprintf("%s/%v/%v", c.Name, to, level), func(b *testing.B) {
					for b.Loop() {
						c.Run(cpu.AsBytes(dst), cpu.AsBytes(src), 1, 0, n, 0)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n*16, "ns/16")
				})
			}
		}
	}
}
