package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
)

// Scatter: output row r is the sum of the rows dy[i] with index[i] = r. Where there is enough to
// add, output rows are split over scatterParts parts: each part reads all indices and adds, in
// their order, to its own rows. So no two parts write a row, and sums have a fixed order.
const (
	scatterParts = 8
	scatterGrain = 16 * 1024 // elements of dy from which on rows are split
)

// bindScatter prepares a scatter.
func bindScatter(b *binding) (func(), error) {
	switch b.Out[0].Type {
	case arena.Float32:
		return bindScatterOf[float32](b), nil
	case arena.Float64:
		return bindScatterOf[float64](b), nil
	}
	return nil, fmt.Errorf("%s on %v: %w", b.Op.Name, b.Out[0].Spec, kernels.ErrUnsupported)
}

// bindScatterOf binds a scatter for T.
func bindScatterOf[T float](b *binding) func() {
	dy, y := in[T](b, 1), out[T](b, 0)
	rows := b.Out[0].Shape[0]
	index, count := newLabels(b, 0), b.In[0].Shape[0]
	if len(y) == 0 {
		return nil
	}
	size := len(y) / rows
	// Rows are added by the elementwise kernel of Add.
	add := elementwise.Binary[T](b.dev.level, kernels.Add, nil)
	parts := 1
	if len(dy) >= scatterGrain {
		parts = scatterParts
	}
	return b.parallelFor(parts, 1, func(lo, hi, _ int) {
		for part := lo; part < hi; part++ {
			// The part clears its own rows, then adds to them.
			for r := part; r < rows; r += parts {
				clear(y[r*size : (r+1)*size])
			}
			for i := range count {
				r := index.at(i, rows)
				if r < 0 || r%parts != part {
					continue
				}
				to := y[r*size:][:size]
				add(to, to, dy[i*size:][:size])
			}
		}
	})
}
