package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Sums and maxima of integers along axes. Threads split results; a result is computed in 64 bits.

// bindIntegerReduce prepares a reduction of integers.
func bindIntegerReduce(b *binding) (func(), error) {
	switch b.In[0].Type {
	case arena.Uint8:
		return bindReduceOf[uint8](b)
	case arena.Int32:
		return bindReduceOf[int32](b)
	case arena.Int64:
		return bindReduceOf[int64](b)
	}
	return nil, fmt.Errorf("%s of %v: %w", b.Op.Name, b.In[0].Spec, kernels.ErrUnsupported)
}

// bindReduceOf prepares it for elements of type T.
func bindReduceOf[T integers](b *binding) (func(), error) {
	switch b.Out[0].Type {
	case arena.Uint8:
		return reduceIntegers[T, uint8](b), nil
	case arena.Int32:
		return reduceIntegers[T, int32](b), nil
	case arena.Int64:
		return reduceIntegers[T, int64](b), nil
	}
	return nil, fmt.Errorf("%s to %v: %w", b.Op.Name, b.Out[0].Spec, kernels.ErrUnsupported)
}

// reduceIntegers prepares it for results of type U.
func reduceIntegers[T, U integers](b *binding) func() {
	x, y, a := in[T](b, 0), out[U](b, 0), b.Attrs.(kernels.IntegerReduceAttrs)
	kept, reduced := splitDims(a.ReduceAttrs, b.In[0].Shape)
	count := reduced.elems()
	if len(y) == 0 {
		return nil
	}
	step, fold := 1, sumStrided[T]
	if a.Func == kernels.IntegerMax {
		fold = maxStrided[T]
	}
	if reduced.rank > 0 {
		step = reduced.stride[reduced.rank-1]
	}
	inner := reduced.popDim()
	runs := reduced.elems()
	return b.parallelFor(len(y), cheapGrain/max(1, count), func(lo, hi, _ int) {
		for o := lo; o < hi; o++ {
			v, base := a.First(), kept.offset(o)
			if count > 0 {
				for r := range runs {
					v = fold(v, x[base+reduced.offset(r):], inner, step)
				}
			}
			y[o] = U(v)
		}
	})
}

// sumStrided adds n elements of x, of every step one, to v.
func sumStrided[T integers](v int64, x []T, n, step int) int64 {
	for i, at := 0, 0; i < n; i, at = i+1, at+step {
		v += int64(x[at])
	}
	return v
}

// maxStrided returns the largest of v and n elements of x, of every step one.
func maxStrided[T integers](v int64, x []T, n, step int) int64 {
	for i, at := 0, 0; i < n; i, at = i+1, at+step {
		v = max(v, int64(x[at]))
	}
	return v
}
