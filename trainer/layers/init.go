package layers

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"gorgonia.org/tensor"
)

// Init computes the initial values of a parameter. Implement it for your own values.
type Init interface {
	// Fill writes elements at, at+1, … of a parameter of the given shape, row-major, to dst. A
	// parameter is filled in consecutive pieces with one generator r, so that the values do not
	// depend on the size of the pieces.
	Fill(r *rand.Rand, shape []int, at int, dst []float64)
}

// Zeros fills with 0.
type Zeros struct{}

// Ones fills with 1.
type Ones struct{}

// Constant fills with Value.
type Constant struct{ Value float64 }

// Uniform draws uniformly from [-Limit, Limit).
type Uniform struct{ Limit float64 }

// Normal draws from a normal distribution with mean 0 and standard deviation Std.
type Normal struct{ Std float64 }

// GlorotUniform draws uniformly within ±√(6/(in+out)), see Fans: Glorot and Bengio, 2010, equation
// 16.
type GlorotUniform struct{}

// GlorotNormal draws normally with standard deviation √(2/(in+out)), see Fans: Glorot and Bengio,
// 2010, equation 12.
type GlorotNormal struct{}

// HeUniform draws uniformly within ±√(6/in), see Fans: the variance of He et al., 2015, equation
// 10.
type HeUniform struct{}

// HeNormal draws normally with standard deviation √(2/in), see Fans: He et al., 2015, equation 10.
type HeNormal struct{}

// Fill implements Init.
func (Zeros) Fill(_ *rand.Rand, _ []int, _ int, dst []float64) { clear(dst) }

// Fill implements Init.
func (Ones) Fill(_ *rand.Rand, _ []int, _ int, dst []float64) { constant(dst, 1) }

// Fill implements Init.
func (c Constant) Fill(_ *rand.Rand, _ []int, _ int, dst []float64) { constant(dst, c.Value) }

// Fill implements Init.
func (u Uniform) Fill(r *rand.Rand, _ []int, _ int, dst []float64) { uniform(r, dst, u.Limit) }

// Fill implements Init.
func (n Normal) Fill(r *rand.Rand, _ []int, _ int, dst []float64) { normal(r, dst, n.Std) }

// Fill implements Init.
func (GlorotUniform) Fill(r *rand.Rand, shape []int, _ int, dst []float64) {
	in, out := Fans(shape)
	uniform(r, dst, math.Sqrt(6/(in+out)))
}

// Fill implements Init.
func (GlorotNormal) Fill(r *rand.Rand, shape []int, _ int, dst []float64) {
	in, out := Fans(shape)
	normal(r, dst, math.Sqrt(2/(in+out)))
}

// Fill implements Init.
func (HeUniform) Fill(r *rand.Rand, shape []int, _ int, dst []float64) {
	in, _ := Fans(shape)
	uniform(r, dst, math.Sqrt(6/in))
}

// Fill implements Init.
func (HeNormal) Fill(r *rand.Rand, shape []int, _ int, dst []float64) {
	in, _ := Fans(shape)
	normal(r, dst, math.Sqrt(2/in))
}

// constant fills dst with v.
func constant(dst []float64, v float64) {
	for i := range dst {
		dst[i] = v
	}
}

// uniform fills dst with draws from [-limit, limit).
func uniform(r *rand.Rand, dst []float64, limit float64) {
	for i := range dst {
		dst[i] = limit * (2*r.Float64() - 1)
	}
}

// normal fills dst with normal draws.
func normal(r *rand.Rand, dst []float64, std float64) {
	for i := range dst {
		dst[i] = std * r.NormFloat64()
	}
}

// Fans returns the fan-in and the fan-out of a parameter: how many inputs each output is computed
// from, and how many outputs each input affects. They are In and Out for a matrix [In, Out], and
// In·H·W and Out·H·W for filters [Out, In, H, W]. For a vector [N] both are N.
func Fans(shape []int) (in, out float64) {
	switch len(shape) {
	case 0:
		return 1, 1
	case 1:
		return float64(shape[0]), float64(shape[0])
	case 2:
		return float64(shape[0]), float64(shape[1])
	}
	field := 1.0
	for _, d := range shape[2:] {
		field *= float64(d)
	}
	return float64(shape[1]) * field, float64(shape[0]) * field
}

// chunk is the number of elements that Fill draws at a time: 8 KiB of float64.
const chunk = 1024

// Fill writes the initial values of a whole parameter to dst, row-major. They depend only on init,
// seed, name and shape. It allocates 8 KiB, whatever the size of the parameter. A dst whose length
// is not that of the shape is an error that wraps ErrShape; an init that is nil, panics, or returns
// a value that is not finite in T is one that wraps ErrInit.
func Fill[T float32 | float64](dst []T, init Init, seed uint64, name string, shape ...int) (err error) {
	if err := checkInit(init); err != nil {
		return err
	}
	if n := tensor.Shape(shape).TotalSize(); n != len(dst) {
		return fmt.Errorf("%d elements for shape %s: %w", len(dst), shapeString(shape), ErrShape)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("init of type %T: panic: %v: %w", init, p, ErrInit)
		}
	}()
	h := fnv.New64a()
	h.Write([]byte(name))
	r := rand.New(rand.NewPCG(seed, h.Sum64()))
	buf := make([]float64, min(chunk, len(dst)))
	for at := 0; at < len(dst); {
		part := buf[:min(len(buf), len(dst)-at)]
		init.Fill(r, shape, at, part)
		for i, v := range part {
			x := T(v)
			if x-x != 0 {
				return fmt.Errorf("init of type %T makes element %d %v: %w", init, at+i, x, ErrInit)
			}
			dst[at+i] = x
		}
		at += len(part)
	}
	return nil
}
