package cuda

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// The part that the products of matmul.cu and conv.cu share.

const (
	productThreads = 256 // as in product.cuh
	smallTile      = 64
	largeTile      = 128
	stepsAtOnce    = 16   // a multiple of the steps of k that each tile handles at once
	leastSteps     = 256  // fewest steps of k for a block of its own
	mostSplits     = 1024 // parts of k
	mostDim        = math.MaxInt32 - largeTile
)

// productPlan divides a product among blocks. It depends on the whole product, not on the selected
// rows, so that these have the bits of the whole.
type productPlan struct {
	splits   int // parts of k, summed in their order at the end
	perSplit int // steps of k in a part
}

// planProduct splits k if the result has fewer tiles than the GPU has processors.
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

// partialBytes is an upper limit of the workspace for partial sums. It grows with every dimension,
// so that a smaller batch never needs more: while there are fewer tiles than processors, there are
// at most two partial tiles for each.
func partialBytes(p *properties, typ arena.DType, m, n, k, batch int) int64 {
	if k < 2*leastSteps {
		return 0
	}
	results := int64(m) * int64(n) * int64(batch)
	splits := int64(min(k/leastSteps, mostSplits))
	return min(results*splits, 2*int64(p.processors)*smallTile*smallTile) * typ.Size()
}

// tilesOf returns the number of tiles of tile rows that cover n rows.
func tilesOf(n, tile int) int { return (n + tile - 1) / tile }

// suffix is the part of a kernel's name for a type.
func suffix(t arena.DType) string {
	if t == arena.Float64 {
		return "f64"
	}
	return "f32"
}

// fits returns an error for dimensions that kernels cannot count in 32 bits.
func fits(dims ...int) error {
	for _, d := range dims {
		if d > mostDim {
			return fmt.Errorf("%d rows, columns or products, more than %d: %w", d, mostDim, kernels.ErrUnsupported)
		}
	}
	return nil
}

// strided returns the grid of a grid-stride loop over n elements: enough blocks to fill the device
// a few times.
func strided(p *properties, n int64, threads int) dim {
	blocks := (n + int64(threads) - 1) / int64(threads)
	return line(int(min(blocks, int64(16*max(p.processors, 1)))))
}
