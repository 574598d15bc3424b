package cpu

// bindRows is Gather: rows of input 0 at the indices of input 1, zeros where there is no such row.
func bindRows(b *binding) (func(), error) {
	to, from := b.bytes(b.Out[0]), b.bytes(b.In[0])
	n, rows := b.In[0].Shape[0], b.In[1].Shape[0]
	index := newLabels(b, 1)
	if len(to) == 0 {
		return nil, nil
	}
	size := len(to) / rows
	switch {
	case size == 4 && b.Out[0].Type.Size() == 4:
		return bindWords(b, view[uint32](to), view[uint32](from), index), nil
	case size == 8 && b.Out[0].Type.Size() == 8:
		return bindWords(b, view[uint64](to), view[uint64](from), index), nil
	}
	return b.over(rows, 4*moveGrain/size, func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			dst := to[i*size : (i+1)*size]
			if k := index.at(i, n); k >= 0 {
				copy(dst, from[k*size:(k+1)*size])
			} else {
				clear(dst)
			}
		}
	}), nil
}

// bindWords gathers rows of one element, such as labels.
func bindWords[T word](b *binding, to, from []T, index labels) func() {
	return b.over(len(to), moveGrain, func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			var v T
			if k := index.at(i, len(from)); k >= 0 {
				v = from[k]
			}
			to[i] = v
		}
	})
}
