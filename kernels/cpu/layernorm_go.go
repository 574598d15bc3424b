package cpu

import "github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/reduce"

// The portable kernels over rows, in plain Go.

var (
	goRows32 = &rowKernels[float32]{goNormRows[float32], goNormRowsGrad[float32]}
	goRows64 = &rowKernels[float64]{goNormRows[float64], goNormRowsGrad[float64]}
)

func goNormRows[T float](c *rowCall[T]) {
	n := float64(c.n)
	for r := range c.rows {
		x, y := c.x[r*c.n:][:c.n], c.y[r*c.n:][:c.n]
		mean := reduce.Sum(x) / n
		s, q := 0.0, 0.0
		for _, v := range x {
			d := float64(v) - mean
			s += d
			q += d * d
		}
		c.mean[r], c.rstd[r] = T(mean+s/n), T(reciprocal((q-s*s/n)/n, float64(c.eps)))
		m, scale := c.mean[r], c.rstd[r]
		gamma, beta := c.gamma[:c.n], c.beta[:c.n]
		for i, v := range x {
			y[i] = (v-m)*scale*gamma[i] + beta[i]
		}
	}
}

func goNormRowsGrad[T float](c *rowCall[T]) {
	n := float64(c.n)
	gamma, dgamma, dbeta := c.gamma[:c.n], c.dgamma[:c.n], c.dbeta[:c.n]
	for r := range c.rows {
		x, dy, dx := c.x[r*c.n:][:c.n], c.dy[r*c.n:][:c.n], c.y[r*c.n:][:c.n]
		mean, rstd := c.mean[r], c.rstd[r]
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
