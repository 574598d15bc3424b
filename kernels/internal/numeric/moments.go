package numeric

import (
	"iter"
	"math"
)

// Moments are mean and variance of values times a power of 2, the unit. It is 1 unless the values
// are so large that their squares overflow.
type Moments struct{ unit, mean, variance float64 }

// MomentsOf returns the moments of the elements of all runs, of which there is at least one
// element. They are exact for equal elements, and finite for finite ones. If an element is not
// finite, the variance is NaN.
//
// Sums are about the first element, then about the mean: the corrected two-pass algorithm. Source:
// Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1983, equation 1.7.
func MomentsOf[T float32 | float64](runs iter.Seq[[]T]) Moments {
	largest, count := 0.0, 0
	for x := range runs {
		for _, v := range x {
			largest = max(largest, math.Abs(float64(v)))
		}
		count += len(x)
	}
	m, n := Moments{unit: unitOf(largest)}, float64(count)
	first := true
	about := func() (s, q float64) {
		for x := range runs {
			if first {
				m.mean, first = float64(x[0])*m.unit, false
			}
			for _, v := range x {
				d := float64(v)*m.unit - m.mean
				s += d
				q += d * d
			}
		}
		return s / n, q / n
	}
	s, _ := about()
	m.mean += s
	s, q := about()
	m.mean += s
	m.variance = max(q-s*s, 0)
	return m
}

// unitOf returns a power of 2 that brings values up to largest, if that is beyond 2^500, below 1.
func unitOf(largest float64) float64 {
	if !(largest >= 0x1p500) || math.IsInf(largest, 0) {
		return 1
	}
	_, e := math.Frexp(largest)
	return math.Ldexp(1, -e)
}

// Mean returns the mean of the values.
func (m Moments) Mean() float64 { return m.mean / m.unit }

// Variance returns the biased variance of the values; it may overflow.
func (m Moments) Variance() float64 { return m.variance / m.unit / m.unit }

// StoredVariance returns what batch normalization stores in T for a channel of n elements with the
// biased variance v: +Inf if the sum of squares, n·v, is too large for T.
func StoredVariance[T float32 | float64](v, n float64) T {
	if math.IsInf(float64(T(v*n)), 0) {
		return T(math.Inf(1))
	}
	return T(v)
}

// Rstd returns 1/√(variance + eps), which does not overflow where eps is a normal number.
func (m Moments) Rstd(eps float64) float64 {
	if m.unit == 1 {
		return 1 / math.Sqrt(m.variance+eps)
	}
	return 1 / math.Hypot(math.Sqrt(m.variance)/m.unit, math.Sqrt(eps))
}

// Standard returns the function that standardizes the values.
func (m Moments) Standard(eps float64) Standard {
	if m.unit == 1 {
		return Standard{1, m.mean, m.Rstd(eps)}
	}
	return Standard{m.unit, m.mean, 1 / math.Hypot(math.Sqrt(m.variance), math.Sqrt(eps)*m.unit)}
}

// Standard computes x̂ = (x - mean)·rstd, all in the unit of a Moments.
type Standard struct{ unit, mean, rstd float64 }

// StandardOf returns the function for statistics of values without a unit.
func StandardOf(mean, rstd float64) Standard {
	if !(rstd > 0) || rstd >= 0x1p-500 {
		return Standard{1, mean, rstd}
	}
	_, e := math.Frexp(rstd) // a multiple of rstd, so that x - mean does not overflow
	unit := math.Ldexp(1, e)
	return Standard{unit, mean * unit, rstd / unit}
}

// Of returns x̂. It is 0 where x is the mean.
func (s Standard) Of(x float64) float64 {
	d := x*s.unit - s.mean
	if d == 0 {
		return 0 // also where rstd, of equal values and a small eps, is infinite in the unit
	}
	return d * s.rstd
}
