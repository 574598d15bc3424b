package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/norm"
)

// Layer normalization of the rows of x [rows, N], and its gradient. A row stays in the cache
// between its sums and its result. dgamma and dbeta are summed by blocks of rows, at most rowBlocks
// of them, and then over the blocks in order. Threads split rows, or blocks of rows. Workspace of
// the gradient: float64 [blocks][2][N] of sums, then [blocks][2][N] in the element type, for rowRun
// rows at a time.

// Sizes of pieces and blocks.
const (
	rowGrain  = 8 * 1024 // elements of a piece
	rowRun    = 64       // rows whose columns are added in their own type
	rowBlocks = 32       // most blocks of rows
)

// blocksOf returns the number of blocks of rows. It never shrinks as rows grow.
func blocksOf(rows int) int { return min(rowBlocks, ceilDiv(rows, rowRun)) }

// layerNormGradWork returns the workspace of the gradient in bytes.
func layerNormGradWork(_ *Device, _ any, in, _ []kernels.Spec) int64 {
	n := int64(in[1].Shape[0])
	return int64(blocksOf(in[2].Shape[0])) * 2 * n * (8 + in[0].Type.Size())
}

// bindLayerNorm prepares a layer normalization or its gradient.
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

// bindLayerNormOf binds the forward pass.
func bindLayerNormOf[T float](b *binding) func() {
	n := b.In[1].Shape[0]
	x, gamma, beta := in[T](b, 0), in[T](b, 1), in[T](b, 2)
	y, mean, rstd := out[T](b, 0), out[T](b, 1), out[T](b, 2)
	forward, calls := norm.RowsAt[T](b.dev.level, n).Forward, make([]norm.RowArgs[T], b.dev.pool.threads())
	eps := T(b.Attrs.(kernels.LayerNormAttrs).Eps)
	if len(x) == 0 {
		return nil
	}
	return b.parallelFor(len(mean), max(1, rowGrain/n), func(lo, hi, worker int) {
		c := &calls[worker]
		*c = norm.RowArgs[T]{X: x[lo*n : hi*n], Y: y[lo*n : hi*n], Gamma: gamma, Beta: beta, Mean: mean[lo:hi], Rstd: rstd[lo:hi],
			N: n, Rows: hi - lo, Eps: eps, Share: 1 / T(n)}
		forward(c)
	})
}

// bindLayerNormGradOf binds the gradient: blocks of rows compute dx and their sums of dgamma and
// dbeta, then join adds the sums of the blocks.
func bindLayerNormGradOf[T float](b *binding) func() {
	n, rows := b.In[1].Shape[0], b.In[2].Shape[0]
	x, gamma, mean, rstd, dy := in[T](b, 0), in[T](b, 1), in[T](b, 2), in[T](b, 3), in[T](b, 4)
	dx, dgamma, dbeta := out[T](b, 0), out[T](b, 1), out[T](b, 2)
	gradient, calls := norm.RowsAt[T](b.dev.level, n).Gradient, make([]norm.RowArgs[T], b.dev.pool.threads())
	blocks := blocksOf(rows)
	if blocks == 0 {
		return func() {
			clear(dgamma)
			clear(dbeta)
		}
	}
	total := asm.View[float64](b.work())[:blocks*2*n]
	run := asm.View[T](b.work()[8*len(total):])[:blocks*2*n]
	// Rows of a call: their dgamma and dbeta are added in the element type, then in float64.
	step := max(1, min(rowRun, rowGrain/n))
	each := b.parallelFor(blocks, 1, func(lo, hi, worker int) {
		c := &calls[worker]
		for k := lo; k < hi; k++ {
			sum, part := total[k*2*n:][:2*n], run[k*2*n:][:2*n]
			clear(sum)
			// Block k has rows first..end-1; blocks differ by at most one row.
			first, end := k*rows/blocks, (k+1)*rows/blocks
			for i := first; i < end; i += step {
				j := min(i+step, end)
				clear(part)
				*c = norm.RowArgs[T]{X: x[i*n : j*n], Dy: dy[i*n : j*n], Y: dx[i*n : j*n], Gamma: gamma, Mean: mean[i:j], Rstd: rstd[i:j],
					Dgamma: part[:n], Dbeta: part[n:], N: n, Rows: j - i, Share: 1 / T(n)}
				gradient(c)
				// The partial sums of the call are added in float64.
				for m, v := range part {
					sum[m] += float64(v)
				}
			}
		}
	})
	join := b.parallelFor(n, planeTile, func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			s, q := 0.0, 0.0
			// Blocks are added in order, so that the sums do not depend on the number of threads.
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
