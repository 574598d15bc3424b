package cuda

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// numberType is the number of an index type in index.cuh.
func numberType(t arena.DType) int32 {
	switch t {
	case arena.Uint8:
		return 0
	case arena.Int32:
		return 1
	}
	return 2
}

// bindGather copies a row for each row of the result, in elements of their size.
func bindGather(b *binding) error {
	data, index, y := b.In[0], b.In[1], b.Out[0]
	n := y.Shape.Elems()
	row := data.Shape[1:].Elems()
	b.launch("index", "gather_"+width(y.Type), strided(b.props, int64(n), blockThreads), line(blockThreads), 0,
		b.in(0), b.in(1), numberType(index.Type), b.out(0), int64(data.Shape[0]), int64(row), int64(n))
	return nil
}

// bindScatter uses a block for each 256 columns of each row of the result. Each block scans all
// indices.
func bindScatter(b *binding) error {
	index, y := b.In[0], b.Out[0]
	rows, row := y.Shape[0], y.Shape[1:].Elems()
	grid := dim{x: min(rows, 1<<16), y: (row + blockThreads - 1) / blockThreads}
	if y.Bytes() == 0 {
		return nil
	}
	if grid.y > b.props.gridY {
		return fmt.Errorf("rows of %d elements: at most %d: %w", row, b.props.gridY*blockThreads, kernels.ErrUnsupported)
	}
	b.launch("index", "scatter"+"_"+suffix(y.Type), grid, line(blockThreads), 0,
		b.in(0), numberType(index.Type), b.in(1), b.out(0), int64(index.Shape[0]), int64(row), int64(rows))
	return nil
}

// bindCheckIndex uses one block, so that it always finds the same bad index.
func bindCheckIndex(b *binding) error {
	index := b.In[0]
	b.launch("index", "checkIndex", line(1), line(blockThreads), 0,
		b.in(0), numberType(index.Type), b.out(0), int64(index.Shape[0]), int64(b.Attrs.(kernels.CheckIndexAttrs).Rows), b.Attrs.(kernels.CheckIndexAttrs).Code)
	return nil
}

// bindDropout uses a thread for four elements: the four words of one counter of the generator.
func bindDropout(b *binding) error {
	a, n := b.Attrs.(kernels.DropoutAttrs), b.In[0].Shape.Elems()
	key := a.Key()
	b.launch("dropout", "dropout"+"_"+suffix(b.In[0].Type), strided(b.props, int64(n+3)/4, blockThreads), line(blockThreads), 0,
		b.in(0), b.in(1), b.out(0), int64(n), key[0], key[1], uint32(a.Layer), uint32(a.Layer>>32), a.Threshold(), 1/(1-a.Rate))
	return nil
}
