package cpu

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
)

// Layer normalization takes a row at a time, which stays in the cache between its sums and its result. What rows add to
// dgamma and dbeta is summed by blocks of rows, of which there are at most rowBlocks, then over the blocks in their order.
// The gradient's workspace: float64 [blocks][2][N] of sums, then [blocks][2][N] in the type itself, for rowRun rows at a time.

const (
	rowGrain  = 8 * 1024 // elements of a piece
	rowRun    = 64       // rows whose columns are added in their own type
	rowBlocks = 32       // most blocks of rows
)

// rowMost is the elements of a row from which on plain Go is used, that can be interrupted.
const rowMost = 64 * 1024

// A rowCall is the arguments of a row kernel. The assembly knows the fields' offsets.
type rowCall[T float] struct {
	x, dy, y      []T // [rows][n]
	gamma, beta   []T // [n]
	mean, rstd    []T // [rows]
	dgamma, dbeta []T // [n], that rows are added to
	n, rows       int
	eps, share    T // added to a variance; 1/n
}

// rowKernels are the kernels over rows of one element type at one level.
type rowKernels[T float] struct {
	norm     func(c *rowCall[T]) // mean, rstd and y = (x - mean)·rstd·gamma + beta
	gradient func(c *rowCall[T]) // y = dx, and sums of dy·x̂ and dy by column to dgamma and dbeta
}

// rowsOf returns the kernels for T at a level, for rows of n.
func rowsOf[T float](l asm.Level, n int) *rowKernels[T] {
	if n > rowMost {
		l = asm.Portable
	}
	if k, ok := any(rows32(l)).(*rowKernels[T]); ok {
		return k
	}
	return any(rows64(l)).(*rowKernels[T])
}

// reciprocal returns 1/√(variance + eps), of a variance that rounding may have brought below 0.
func reciprocal(variance, eps float64) float64 { return 1 / math.Sqrt(max(variance, 0)+eps) }

// blocksOf returns how many blocks of rows there are. It grows with rows.
func blocksOf(rows int) int { return min(rowBlocks, over(rows, rowRun)) }

func layerNormGradWork(_ *Device, _ any, in, _ []kernels.Spec) int64 {
	n := int64(in[1].Shape[0])
	return int64(blocksOf(in[2].Shape[0])) * 2 * n * (8 + in[0].Type.Size())
}

func bindLayerNorm(b *binding) (func(), error) {
	grad := b.Op == kernels.LayerNormGrad
	switch {
	case b.In[0].Type == arena.Float32 && grad:
		return bindLayerNormGradOf[float32](b), nil
	case b.In[0].Type == arena.Float32:
		return bindLayerNormOf[float32](b), nil
	case b.In[0].Type == arena.Float64 && grad:
		return bindLayerNormGradOf[float64](b), nil
	case b.In[0].Type == arena.Float64:
		return bindLayerNormOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

func bindLayerNormOf[T float](b *binding) func() {
	n := b.In[1].Shape[0]
	x, gamma, beta := in[T](b, 0), in[T](b, 1), in[T](b, 2)
	y, mean, rstd := out[T](b, 0), out[T](b, 1), out[T](b, 2)
	norm, calls := rowsOf[T](b.dev.level, n).norm, make([]rowCall[T], b.dev.pool.threads())
	eps := T(b.Attrs.(kernels.LayerNormAttrs).Eps)
	if len(x) == 0 {
		return nil
	}
	return b.over(len(mean), max(1, rowGrain/n), func(lo, hi, worker int) {
		c := &calls[worker]
		*c = rowCall[T]{x: x[lo*n : hi*n], y: y[lo*n : hi*n], gamma: gamma, beta: beta, mean: mean[lo:hi], rstd: rstd[lo:hi],
			n: n, rows: hi - lo, eps: eps, share: 1 / T(n)}
		norm(c)
	})
}

func bindLayerNormGradOf[T float](b *binding) func() {
	n, rows := b.In[1].Shape[0], b.In[2].Shape[0]
	x, gamma, mean, rstd, dy := in[T](b, 0), in[T](b, 1), in[T](b, 2), in[T](b, 3), in[T](b, 4)
	dx, dgamma, dbeta := out[T](b, 0), out[T](b, 1), out[T](b, 2)
	gradient, calls := rowsOf[T](b.dev.level, n).gradient, make([]rowCall[T], b.dev.pool.threads())
	blocks := blocksOf(rows)
	if blocks == 0 {
		return func() {
			clear(dgamma)
			clear(dbeta)
		}
	}
	total := asm.View[float64](b.work())[:blocks*2*n]
	run := asm.View[T](b.work()[8*len(total):])[:blocks*2*n]
	step := max(1, min(rowRun, rowGrain/n))
	each := b.over(blocks, 1, func(lo, hi, worker int) {
		c := &calls[worker]
		for k := lo; k < hi; k++ {
			sum, part := total[k*2*n:][:2*n], run[k*2*n:][:2*n]
			clear(sum)
			first, end := k*rows/blocks, (k+1)*rows/blocks
			for i := first; i < end; i += step {
				j := min(i+step, end)
				clear(part)
				*c = rowCall[T]{x: x[i*n : j*n], dy: dy[i*n : j*n], y: dx[i*n : j*n], gamma: gamma, mean: mean[i:j], rstd: rstd[i:j],
					dgamma: part[:n], dbeta: part[n:], n: n, rows: j - i, share: 1 / T(n)}
				gradient(c)
				for m, v := range part {
					sum[m] += float64(v)
				}
			}
		}
	})
	join := b.over(n, planeTile, func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			s, q := 0.0, 0.0
			for k := range blocks {
				q += total[k*2*n+i]
				s += total[k*2*n+n+i]
			}
			dgamma[i], dbeta[i] = T(q), T(s)
		}
	})
	return func() {
		each()
		join()
	}
}
