package kernels

import (
	"math"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// caseFunc makes a random test case of an op for one floating-point type.
type caseFunc = func(r *rand.Rand, float arena.DType) Case

// awkward are dimensions around the widths of vector units and the sizes of tiles.
var awkward = []int{1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 33}

// randomDim returns an awkward dimension.
func randomDim(r *rand.Rand) int { return awkward[r.IntN(len(awkward))] }

// randomShape returns a shape of the given rank, usually of less than 2,000 elements, sometimes of
// about 20,000, so that devices split the work among threads.
func randomShape(r *rand.Rand, rank int) Shape {
	s := make(Shape, rank)
	limit := 2000
	for i := range s {
		s[i] = min(randomDim(r), max(1, limit))
		limit /= s[i]
	}
	if rank > 0 && r.IntN(16) == 0 {
		k := r.IntN(rank)
		rest := s.Elems() / s[k]
		s[k] = max(1, (18000+r.IntN(4000))/rest)
	}
	return s
}

// randomRank returns a rank from 0 to 4.
func randomRank(r *rand.Rand) int { return []int{0, 1, 1, 2, 2, 2, 3, 3, 4}[r.IntN(9)] }

// normal fills data from the standard normal distribution.
func normal(r *rand.Rand, data []float64) {
	for i := range data {
		data[i] = r.NormFloat64()
	}
}

// between fills data evenly from [lo, hi).
func between(r *rand.Rand, data []float64, lo, hi float64) {
	for i := range data {
		data[i] = lo + (hi-lo)*r.Float64()
	}
}

// labels fills data with class indices below n.
func labels(r *rand.Rand, data []float64, n int) {
	for i := range data {
		data[i] = float64(r.IntN(n))
	}
}

// indices fills data with row indices below n, and makes up to wrong of them invalid: past the last
// row, negative, or very large.
func indices(r *rand.Rand, data []float64, t arena.DType, n, wrong int) {
	labels(r, data, max(1, min(n, 256)))
	outside := []float64{min(float64(n), 255), 255}
	switch t {
	case arena.Int32:
		outside = append(outside, -1, -1<<31, 1<<31-1)
	case arena.Int64:
		outside = append(outside, -1, -1<<40, 1<<40+3, 1<<31, 1<<32)
	}
	for range min(wrong, len(data)) {
		data[r.IntN(len(data))] = outside[r.IntN(len(outside))]
	}
}

// distinct fills data with different numbers, at least 1/64 apart.
func distinct(r *rand.Rand, data []float64) {
	for i, p := range r.Perm(len(data)) {
		data[i] = float64(p-len(data)/2) / 64
	}
}

// awayFromZero moves values away from 0 by gap and keeps their signs.
func awayFromZero(data []float64, gap float64) {
	for i, v := range data {
		data[i] = v + math.Copysign(gap, v)
	}
}

// randomInteger returns a type for labels.
func randomInteger(r *rand.Rand) arena.DType {
	return []arena.DType{arena.Uint8, arena.Int32, arena.Int64}[r.IntN(3)]
}

// randomType returns any storage type.
func randomType(r *rand.Rand, float arena.DType) arena.DType {
	return []arena.DType{float, float, arena.Uint8, arena.Int32, arena.Int64}[r.IntN(5)]
}

// randomHalf returns a 16-bit type.
func randomHalf(r *rand.Rand) arena.DType {
	return []arena.DType{arena.BFloat16, arena.Float16}[r.IntN(2)]
}

// wideRange fills data with float32 numbers that 16-bit types treat differently: normal and
// denormal ones, ties between two, and overflows.
func wideRange(r *rand.Rand, data []float64) {
	for i := range data {
		v := math.Ldexp(r.NormFloat64(), r.IntN(60)-40)
		switch r.IntN(4) {
		case 0:
			v = Round([]arena.DType{arena.BFloat16, arena.Float16}[r.IntN(2)], v) * (1 + []float64{0x1p-8, 0x1p-11}[r.IntN(2)])
		case 1:
			v *= 0x1p-80
		}
		data[i] = float64(float32(v))
	}
}

// fillAny writes whole numbers of at most 100, which every storage type holds.
func fillAny(r *rand.Rand, _ int, data []float64) { labels(r, data, 101) }

// unaryCases returns cases of one float operand with values from fill. Nil: standard normal.
func unaryCases(fill func(r *rand.Rand, data []float64)) caseFunc {
	return func(r *rand.Rand, float arena.DType) Case {
		c := Case{In: []Spec{{float, randomShape(r, randomRank(r))}}}
		if fill != nil {
			c.Fill = func(r *rand.Rand, _ int, data []float64) { fill(r, data) }
		}
		return c
	}
}

// binaryCases returns cases of two float operands whose shapes broadcast. fill[k] fills operand k.
// Nil: standard normal.
func binaryCases(fill ...func(r *rand.Rand, data []float64)) caseFunc {
	return func(r *rand.Rand, float arena.DType) Case {
		out := randomShape(r, randomRank(r))
		c := Case{In: []Spec{{float, narrow(r, out)}, {float, narrow(r, out)}}}
		c.Fill = func(r *rand.Rand, k int, data []float64) {
			if k < len(fill) && fill[k] != nil {
				fill[k](r, data)
				return
			}
			normal(r, data)
		}
		return c
	}
}

// narrow returns a shape that broadcasts to out: in half of the cases out itself, else with
// dimensions removed or set to 1.
func narrow(r *rand.Rand, out Shape) Shape {
	s := append(Shape{}, out...)
	if r.IntN(2) == 0 {
		return s
	}
	s = s[r.IntN(len(s)+1):]
	for i := range s {
		if r.IntN(3) == 0 {
			s[i] = 1
		}
	}
	return s
}

// sumTolerance is the tolerance of a float32 sum of n terms of size about 1 in any order: each of n
// additions has an error of 2^-24 of the partial sum, which grows like √n for random signs.
func sumTolerance(n int) float64 { return 1e-5 + 3e-7*float64(n) }
