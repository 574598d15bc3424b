package norm

import (
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// Rows and groups of an extreme scale: their sums of squares overflow in their type, or lose what
// denormal numbers hold. Go code normalizes them, in float64 and a unit of their own
// (numeric.Moments). It is slow, but only such rows need it.

// RegularVariance returns the least and the largest variance, with eps, of values that kernels can
// process. From the largest on, squares of values may overflow, and factors of the gradient, of order
// 1/variance, become denormal numbers. Below the least, squares that are flushed to 0 count.
func RegularVariance[T asm.Float]() (least, most float64) {
	if _, ok := any(T(0)).(float32); ok {
		return 0x1p-102, 0x1p80
	}
	return 0x1p-968, 0x1p800
}

// Regular reports whether kernels can process values of the reciprocal deviation rstd.
func Regular[T asm.Float](rstd T) bool {
	r := math.Abs(float64(rstd))
	if _, ok := any(rstd).(float32); ok {
		return r >= 0x1p-40 && r <= 0x1p51
	}
	return r >= 0x1p-400 && r <= 0x1p484
}

// forExtremes calls f for the rows that a kernel left as they were.
func (c *RowArgs[T]) forExtremes(f func(c *RowArgs[T], r int)) {
	for r := 0; r < c.Rows && c.Extremes > 0; r++ {
		if !Regular(c.Rstd[r]) {
			f(c, r)
			c.Extremes--
		}
	}
}

// extremeRow normalizes row r.
func extremeRow[T asm.Float](c *RowArgs[T], r int) {
	x, eps := c.X[r*c.N:][:c.N], float64(c.Eps)
	m := numeric.MomentsOf(slices.Values([][]T{x}))
	c.Mean[r], c.Rstd[r] = T(m.Mean()), T(m.Rstd(eps))
	ExtremePlanes(m.Standard(eps), x, c.Y[r*c.N:][:c.N], c.Gamma, c.Beta, 1)
}

// ExtremePlanes sets y to x̂·gamma + beta, for x of neighbouring planes of n elements, each of a
// channel.
func ExtremePlanes[T asm.Float](s numeric.Standard, x, y, gamma, beta []T, n int) {
	for i, v := range x {
		c := i / n
		y[i] = T(s.Of(float64(v))*float64(gamma[c]) + float64(beta[c]))
	}
}

// extremeRowGrad computes the gradient of row r.
func extremeRowGrad[T asm.Float](c *RowArgs[T], r int) {
	ExtremePlanesGrad(c.X[r*c.N:][:c.N], c.Dy[r*c.N:][:c.N], c.Y[r*c.N:][:c.N], c.Gamma, c.Mean[r], c.Rstd[r], 1,
		func(i int, dbeta, dgamma float64) {
			c.Dgamma[i] += T(dgamma)
			c.Dbeta[i] += T(dbeta)
		})
}

// ExtremePlanesGrad sets dx for x of neighbouring planes of n elements that have one mean and rstd,
// and calls keep with each plane's index and its sums Σdy and Σdy·x̂. dx may be x or dy.
func ExtremePlanesGrad[T asm.Float](x, dy, dx, gamma []T, mean, rstd T, n int, keep func(channel int, dbeta, dgamma float64)) {
	s, sum, dot := numeric.StandardOf(float64(mean), float64(rstd)), 0.0, 0.0
	for c := range len(x) / n {
		dbeta, dgamma := 0.0, 0.0
		for i := c * n; i < (c+1)*n; i++ {
			dbeta += float64(dy[i])
			dgamma += float64(dy[i]) * s.Of(float64(x[i]))
		}
		keep(c, dbeta, dgamma)
		sum += float64(gamma[c]) * dbeta
		dot += float64(gamma[c]) * dgamma
	}
	// Where x has one element, its g is the sum: the gradient is 0 exactly.
	sum, dot = sum/float64(len(x)), dot/float64(len(x))
	for i, d := range dy {
		dx[i] = T(float64(rstd) * (float64(d)*float64(gamma[i/n]) - sum - s.Of(float64(x[i]))*dot))
	}
}
