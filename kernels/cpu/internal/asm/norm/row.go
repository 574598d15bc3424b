package norm

import (
	"math"

	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// rowMost is the most elements of a row for assembly, which the Go scheduler cannot interrupt.
const rowMost = 64 * 1024

// RowArgs are the arguments of a kernel over rows. The assembly reads the fields at fixed offsets.
type RowArgs[T asm.Float] struct {
	X, Dy, Y      []T // [Rows][N]
	Gamma, Beta   []T // [N]
	Mean, Rstd    []T // [Rows]
	Dgamma, Dbeta []T // [N], sums that rows are added to
	N, Rows       int
	Eps, Share    T   // added to variances; 1/N
	Extremes      int // kernels add the number of rows that they left as they were
}

// RowKernels are the kernels of a level over rows of one element type. They leave rows whose
// reciprocal deviation is not Regular as they are: forward then sets only an Rstd that is not
// Regular either.
type RowKernels[T asm.Float] struct {
	forward, gradient func(c *RowArgs[T])
}

// Forward sets Mean, Rstd and Y = x̂·gamma + beta.
func (k *RowKernels[T]) Forward(c *RowArgs[T]) {
	k.forward(c)
	c.forExtremes(extremeRow[T])
}

// Gradient sets Y to dx, and adds Σdy·x̂ to Dgamma and Σdy to Dbeta.
func (k *RowKernels[T]) Gradient(c *RowArgs[T]) {
	k.gradient(c)
	c.forExtremes(extremeRowGrad[T])
}

// RowsAt returns the kernels of level l for T and rows of n elements.
func RowsAt[T asm.Float](l asm.Level, n int) *RowKernels[T] {
	if n > rowMost {
		l = asm.Portable
	}
	if k, ok := any(rows32(l)).(*RowKernels[T]); ok {
		return k
	}
	return any(rows64(l)).(*RowKernels[T])
}

// Rstd returns 1/√(variance + eps). A variance that rounding made negative counts as 0.
func Rstd(variance, eps float64) float64 { return 1 / math.Sqrt(max(variance, 0)+eps) }

// The Go twins.
var (
	goRows32 = &RowKernels[float32]{goNormRows[float32], goNormRowsGrad[float32]}
	goRows64 = &RowKernels[float64]{goNormRows[float64], goNormRowsGrad[float64]}
)

// goNormRows is RowKernels.forward.
func goNormRows[T asm.Float](c *RowArgs[T]) {
	n := float64(c.N)
	for r := range c.Rows {
		x, y := c.X[r*c.N:][:c.N], c.Y[r*c.N:][:c.N]
		mean, s, q := float64(x[0]), 0.0, 0.0 // about the first element: exact for equal ones
		for _, v := range x {
			s += float64(v) - mean
		}
		mean, s = mean+s/n, 0
		for _, v := range x {
			d := float64(v) - mean
			s += d
			q += d * d
		}
		c.Mean[r], c.Rstd[r] = T(mean+s/n), T(Rstd((q-s*s/n)/n, float64(c.Eps)))
		m, scale := c.Mean[r], c.Rstd[r]
		if !Regular(scale) {
			c.Extremes++
			continue
		}
		gamma, beta := c.Gamma[:c.N], c.Beta[:c.N]
		for i, v := range x {
			y[i] = (v-m)*scale*gamma[i] + beta[i]
		}
	}
}

// goNormRowsGrad is RowKernels.gradient.
func goNormRowsGrad[T asm.Float](c *RowArgs[T]) {
	n := float64(c.N)
	gamma, dgamma, dbeta := c.Gamma[:c.N], c.Dgamma[:c.N], c.Dbeta[:c.N]
	for r := range c.Rows {
		x, dy, dx := c.X[r*c.N:][:c.N], c.Dy[r*c.N:][:c.N], c.Y[r*c.N:][:c.N]
		mean, rstd := c.Mean[r], c.Rstd[r]
		if !Regular(rstd) {
			c.Extremes++
			continue
		}
		sum, dot := 0.0, 0.0
		for i, d := range dy {
			hat := (x[i] - mean) * rstd
			g := d * gamma[i]
			sum += float64(g)
			dot += float64(g) * float64(hat)
			dgamma[i] += d * hat
			dbeta[i] += d
		}
		s, q := T(sum/n), T(dot/n)
		for i, d := range dy {
			dx[i] = rstd * (d*gamma[i] - s - (x[i]-mean)*rstd*q)
		}
	}
}
