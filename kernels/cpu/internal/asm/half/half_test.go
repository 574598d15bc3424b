package half_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/float16"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/asmtest"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/half"
)

// A conversion is one of a level's. from and to are the bytes of an element.
type conversion struct {
	name     string
	from, to int
	run      half.ConvertFunc
}

// conversions lists those of a level for t.
func conversions(l asm.Level, t arena.DType) []conversion {
	c := half.At(l, t)
	return []conversion{{"widen", 2, 4, c.Widen}, {"round", 4, 4, c.Round}, {"encode", 4, 2, c.Encode}}
}

// halfWay returns float32s around which types of 16 bits round: all that one of them holds, what
// lies half-way between two, and their neighbours; and numbers of any bits.
func halfWay(r *rand.Rand) []float32 {
	var all []float32
	for h := range 1 << 16 {
		for _, v := range []float32{float16.FromBFloat16(uint16(h)), float16.FromFloat16(uint16(h))} {
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
	r, seed := asmtest.Rand(t)
	numbers := halfWay(r)
	var halves []uint16
	for h := range 1 << 16 {
		if v := float16.FromFloat16(uint16(h)); v == v { // whether a NaN becomes quiet is left open
			halves = append(halves, uint16(h))
		}
	}
	for _, typ := range []arena.DType{arena.BFloat16, arena.Float16} {
		plain := conversions(asm.Portable, typ)
		for _, level := range asmtest.Levels() {
			for k, c := range conversions(level, typ) {
				src, n := asm.Bytes(numbers), len(numbers)
				if c.from == 2 {
					src, n = asm.Bytes(halves), len(halves)
				}
				got, want := make([]byte, n*c.to), make([]byte, n*c.to)
				c.run(got, src, 1, 0, n, 0)
				plain[k].run(want, src, 1, 0, n, 0)
				for i := range n {
					if a, b := got[i*c.to:][:c.to], want[i*c.to:][:c.to]; !bytes.Equal(a, b) {
						t.Fatalf("%v %v %s of % x: got % x, want % x (seed %d)", level, typ, c.name, src[i*c.from:][:c.from], a, b, seed)
					}
				}
			}
		}
	}
}

func TestConversionsWriteOnlyTheirRows(t *testing.T) {
	r, seed := asmtest.Rand(t)
	for _, typ := range []arena.DType{arena.BFloat16, arena.Float16} {
		for _, level := range asmtest.Levels() {
			for _, c := range conversions(level, typ) {
				for n := range 70 {
					rows, apart, pitch := r.IntN(4), (n+r.IntN(9))*c.from, (n+r.IntN(9))*c.to
					src := make([]byte, max(0, (rows-1)*apart+n*c.from))
					for i := range src {
						src[i] = byte(r.Uint32()) & 0x3f // no NaN
					}
					dst := bytes.Repeat([]byte{0xaa}, max(0, rows-1)*pitch+n*c.to+64)
					want := bytes.Clone(dst)
					c.run(dst, src, rows, apart, n, pitch)
					for i := range rows {
						one := make([]byte, c.to)
						for j := range n {
							c.run(one, src[i*apart+j*c.from:], 1, 0, 1, 0)
							copy(want[i*pitch+j*c.to:], one)
						}
					}
					if !bytes.Equal(dst, want) {
						t.Fatalf("%v %v %s: %d rows of %d differ from their elements, or other bytes changed (seed %d)", level, typ, c.name, rows, n, seed)
					}
				}
			}
		}
	}
}

// BenchmarkConversions times conversions of rows that lie in the first-level cache.
func BenchmarkConversions(b *testing.B) {
	const n = 4096
	src, dst := make([]float32, n), make([]float32, n)
	for _, level := range asmtest.Levels() {
		for _, to := range []arena.DType{arena.BFloat16, arena.Float16} {
			for _, c := range conversions(level, to) {
				b.Run(fmt.Sprintf("%s/%v/%v", c.name, to, level), func(b *testing.B) {
					for b.Loop() {
						c.run(asm.Bytes(dst), asm.Bytes(src), 1, 0, n, 0)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n*16, "ns/16")
				})
			}
		}
	}
}
