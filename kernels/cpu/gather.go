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
