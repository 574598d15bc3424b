package cuda

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// What products of matrices have in common, those of matmul.cu and conv.cu.

const (
	productThreads = 256 // as in product.cuh
	smallTile      = 64
	largeTile      = 128
	stepsAtOnce    = 16   // a multiple of the steps of k that every tile takes at once
	leastSteps     = 256  // of k, that are worth a block of their own
	mostSplits     = 1024 // parts of k
	mostDim        = math.MaxInt32 - largeTile
)

// A productPlan says how blocks share a product. It depends on the whole product, not on which of
// its rows are asked for, so that these have the bits that they have in the whole.
type productPlan struct {
	splits   int // parts of k, summed in their order at the end
	perSplit int // steps of k in a part
}

// planProduct splits k where the tiles of the result are too few for the processors.
func planProduct(p *properties, m, n, k, batch int) productPlan {
	blocks := tilesOf(m, smallTile) * tilesOf(n, smallTile) * batch
	if blocks == 0 || blocks >= p.processors || k < 2*leastSteps {
		return productPlan{1, k}
	}
	splits := min((p.processors+blocks-1)/blocks, k/leastSteps, mostSplits)
	per := (k + splits - 1) / splits
	per = (per + stepsAtOnce - 1) / stepsAtOnce * stepsAtOnce
	return productPlan{max(1, (k+per-1)/per), per}
}

// partialBytes bounds the workspace of partial sums. It grows with every dimension, so that a
// smaller batch never needs more: before there are as many tiles as processors, there are no more
// than two partial tiles for each.
func partialBytes(p *properties, typ arena.DType, m, n, k, batch int) int64 {
	if k < 2*leastSteps {
		return 0
	}
	results := int64(m) * int64(n) * int64(batch)
	splits := int64(min(k/leastSteps, mostSplits))
	return min(results*splits, 2*int64(p.processors)*smallTile*smallTile) * typ.Size()
}

// tilesOf returns how many tiles of so many rows cover n.
func tilesOf(n, tile int) int { return (n + tile - 1) / tile }

// suffix is how names of kernels end, or go on, for a type.
func suffix(t arena.DType) string {
	if t == arena.Float64 {
		return "f64"
	}
	return "f32"
}

// fits returns an error where dimensions are more than kernels can count in 32 bits.
func fits(dims ...int) error {
	for _, d := range dims {
		if d > mostDim {
			return fmt.Errorf("%d rows, columns or products, more than %d: %w", d, mostDim, kernels.ErrUnsupported)
		}
	}
	return nil
}

// strided returns the blocks of a loop over n elements with a grid as its stride: enough to fill
// the device a few times.
func strided(p *properties, n int64, threads int) dim {
	blocks := (n + int64(threads) - 1) / int64(threads)
	return line(int(min(blocks, int64(16*max(p.processors, 1)))))
}
