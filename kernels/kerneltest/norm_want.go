package kerneltest

import (
	"fmt"
	"math"
	"math/big"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// normWant is the oracle of a normTest: results with 200 bits and unlimited exponents, rounded to
// float64.
type normWant struct {
	*normTest
	ulp, least     float64   // of the element type: half a unit in the last place of 1, smallest normal number
	hat, d         []float64 // x̂, and dy where a ReLU passes it
	dgamma, dbeta  []float64
	sizes          []float64 // Σ|dy·x̂| of a parameter, for tolerances
	overflown      []bool    // by parameter: a batch variance is infinite, results have no meaning
	mean, rstd, sd []float64 // by part; sd is the square root of the variance
}

// newNormWant computes the oracle, with the ReLU's decisions as in the results of the forward pass.
func newNormWant(c *normTest, dy []float64, out []kernels.Tensor) *normWant {
	n, m := len(c.x.Data), len(c.gamma.Data)
	w := &normWant{normTest: c, ulp: 0x1p-53, hat: make([]float64, n), d: dy, dgamma: make([]float64, m),
		dbeta: make([]float64, m), sizes: make([]float64, m), overflown: make([]bool, m)}
	w.least, _ = rangeOf(c.x.Type)
	if c.x.Type == arena.Float32 {
		w.ulp = 0x1p-24
	}
	a, batch := c.attrs.(kernels.BatchNormAttrs)
	for _, p := range c.parts {
		w.moments(p)
	}
	for i := range dy {
		if batch && a.ReLU && !(out[0].Data[i] > 0) {
			w.d[i] = 0
		}
		k := c.param(i)
		w.dbeta[k] += w.d[i]
		w.dgamma[k] += w.d[i] * w.hat[i]
		w.sizes[k] += math.Abs(w.d[i]) * (1 + math.Abs(w.hat[i]))
	}
	return w
}

// number returns a number with the precision of the oracle.
func number(v float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(v) }

// zero returns a number to set.
func zero() *big.Float { return number(0) }

// moments adds the statistics of part p, and sets its x̂.
func (w *normWant) moments(p []int) {
	count, mean, variance := number(float64(len(p))), zero(), zero()
	for _, i := range p {
		mean.Add(mean, number(w.x.Data[i]))
	}
	mean.Quo(mean, count)
	for _, i := range p {
		d := zero().Sub(number(w.x.Data[i]), mean)
		variance.Add(variance, d.Mul(d, d))
	}
	variance.Quo(variance, count)
	deviation := zero().Sqrt(zero().Add(variance, number(w.eps)))
	for _, i := range p {
		d := zero().Sub(number(w.x.Data[i]), mean)
		w.hat[i], _ = d.Quo(d, deviation).Float64()
	}
	m, _ := mean.Float64()
	r, _ := zero().Quo(number(1), deviation).Float64()
	sd, _ := zero().Sqrt(variance).Float64()
	w.mean, w.rstd, w.sd = append(w.mean, m), append(w.rstd, r), append(w.sd, sd)
}

// checkPart compares y, statistics and dx of part k with elements p.
func (w *normWant) checkPart(k int, p []int, out []kernels.Tensor, dx []float64) error {
	mean, stat := out[1].Data[k], out[2].Data[k]
	largest := 0.0
	for _, i := range p {
		largest = max(largest, math.Abs(w.x.Data[i]))
	}
	if !(math.Abs(mean-w.mean[k]) <= 40*w.ulp*largest+4*w.least) {
		return fmt.Errorf("mean %v, want %v", mean, w.mean[k])
	}
	if w.op == kernels.BatchNorm {
		if done, err := w.checkVariance(k, len(p), stat); done || err != nil {
			return err
		}
	} else if !(math.Abs(stat-w.rstd[k]) <= 1e4*w.ulp*w.rstd[k]+w.least*w.ulp*2) {
		return fmt.Errorf("rstd %v, want %v", stat, w.rstd[k])
	}
	// The rounding of the mean, and of a variance that is denormal, in deviations.
	rounding := 1e4 * w.ulp
	if w.sd[k] > 0 {
		rounding += 4*w.ulp*largest*w.rstd[k] + 4*w.least*w.rstd[k]
	}
	sum, dot := 0.0, 0.0
	for _, i := range p {
		g := w.d[i] * w.gamma.Data[w.param(i)]
		sum, dot = sum+g/float64(len(p)), dot+g*w.hat[i]/float64(len(p))
	}
	for _, i := range p {
		gamma, beta := w.gamma.Data[w.param(i)], w.beta.Data[w.param(i)]
		y := gamma*w.hat[i] + beta
		if a, ok := w.attrs.(kernels.BatchNormAttrs); ok && a.ReLU {
			y = max(y, 0)
		}
		size := 3 + math.Abs(w.hat[i])
		limit := rounding * size * (1 + math.Abs(gamma))
		if w.sd[k] == 0 {
			limit = 0 // equal elements become beta
		}
		if got := out[0].Data[i]; !(math.Abs(got-y) <= limit) {
			return fmt.Errorf("element %d, %v: y is %v, want %v (±%.2g)", i, w.x.Data[i], got, y, limit)
		}
		want := w.rstd[k] * (w.d[i]*gamma - sum - w.hat[i]*dot)
		limit = w.rstd[k]*rounding*40*size + 4*w.least
		if len(p) == 1 {
			want, limit = 0, 0
		}
		if !(math.Abs(dx[i]-want) <= limit) {
			return fmt.Errorf("element %d, %v: dx is %v, want %v (±%.2g)", i, w.x.Data[i], dx[i], want, limit)
		}
	}
	return nil
}

// checkVariance compares the variance of channel k, of n elements. done: it is infinite, as it must
// be.
func (w *normWant) checkVariance(k, n int, got float64) (done bool, err error) {
	_, most := rangeOf(w.x.Type)
	squares := w.sd[k] / math.Sqrt(most) * w.sd[k] / math.Sqrt(most) * float64(n) // as a share of most
	switch want := w.sd[k] * w.sd[k]; {
	case squares > 1:
		w.overflown[k] = true
		if !math.IsInf(got, 1) {
			return true, fmt.Errorf("variance %v, want one that is too large", got)
		}
		return true, nil
	case !(math.Abs(got-want) <= 1e4*w.ulp*want+w.least):
		return true, fmt.Errorf("variance %v, want %v", got, want)
	}
	return false, nil
}

// checkParams compares dgamma and dbeta.
func (w *normWant) checkParams(grads []kernels.Tensor) error {
	for k := range w.dgamma {
		if w.overflown[k] {
			continue
		}
		limit := 1e-5 * w.ulp / 0x1p-24 * (1 + 4*w.sizes[k])
		for i, v := range w.x.Data { // the rounding of means
			if w.param(i) == k && !w.overflown[k] {
				limit += 8 * w.ulp * math.Abs(w.d[i]) * math.Abs(v) * w.rstdOf(i)
			}
		}
		if got := grads[1].Data[k]; !(math.Abs(got-w.dgamma[k]) <= limit) {
			return fmt.Errorf("dgamma %d is %v, want %v (±%.2g)", k, got, w.dgamma[k], limit)
		}
		if got := grads[2].Data[k]; !(math.Abs(got-w.dbeta[k]) <= limit) {
			return fmt.Errorf("dbeta %d is %v, want %v (±%.2g)", k, got, w.dbeta[k], limit)
		}
	}
	return nil
}

// rstdOf returns the reciprocal deviation of the part of element i.
func (w *normWant) rstdOf(i int) float64 {
	for k, p := range w.parts {
		for _, j := range p {
			if i == j {
				return w.rstd[k]
			}
		}
	}
	return 0
}
