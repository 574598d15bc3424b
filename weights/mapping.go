package weights

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/kernels"
)

// mapping is where the elements of a file's tensor are in a parameter, by a rule.
//
//	file [3·E, E], Cut 3, Take [1]  →  [E, E]  →  Transpose  →  ours [E, E]
type mapping struct {
	file      []int // shape that the tensor must have
	cut       []int // shape of its taken blocks; ours is the same, or has the last two axes exchanged
	axis      int
	block     int   // rows of a block along axis; 0: the tensor is not cut
	place     []int // of each block of the tensor: its position in ours, or -1
	transpose bool
}

// mapping returns the mapping of a parameter of that shape.
func (x *Rule) mapping(ours []int) (m mapping, err error) {
	m = mapping{cut: slices.Clone(ours), axis: x.Axis, transpose: x.Transpose}
	if n := len(ours); x.Transpose {
		if n < 2 {
			return m, fmt.Errorf("a tensor of %d dimensions cannot be transposed", n)
		}
		m.cut[n-2], m.cut[n-1] = m.cut[n-1], m.cut[n-2]
	}
	m.file = slices.Clone(m.cut)
	if x.Cut == 0 {
		return m, nil
	}
	if x.Axis >= len(ours) || m.cut[x.Axis]%len(x.Take) != 0 {
		return m, fmt.Errorf("it has no %d equal blocks along axis %d", len(x.Take), x.Axis)
	}
	m.block = m.cut[x.Axis] / len(x.Take)
	m.file[x.Axis] = m.block * x.Cut
	m.place = slices.Repeat([]int{-1}, x.Cut)
	for i, k := range x.Take {
		if k >= 0 {
			m.place[k] = i
		}
	}
	return m, nil
}

// fits reports whether a tensor of that shape can be read as m.file: they differ at most in axes of
// size 1, and not even in these if it is strict.
func (m *mapping) fits(shape []int, strict bool) bool {
	return slices.Equal(m.file, shape) || !strict && slices.Equal(long(m.file), long(shape))
}

// long returns the axes that are not of size 1.
func long(shape []int) []int {
	return slices.DeleteFunc(slices.Clone(shape), func(d int) bool { return d == 1 })
}

// straight reports whether the elements are in one order on both sides.
func (m *mapping) straight() bool { return !m.transpose && m.block == 0 }

// runs calls f for the elements of the file's tensor, in pieces: elements at … at+n-1 of the tensor
// are at to, to+stride, … of the parameter. Elements that it does not have are left out.
func (m *mapping) runs(f func(at, n, to, stride int)) {
	total := kernels.Shape(m.file).Elems()
	if m.straight() {
		f(0, total, 0, 1)
		return
	}
	rank := len(m.file)
	width := m.file[rank-1]
	index := make([]int, rank)
	for at := 0; at < total; {
		n := width - at%width
		for rest, k := at, rank-1; k >= 0; k-- {
			index[k], rest = rest%m.file[k], rest/m.file[k]
		}
		if m.block > 0 {
			k, within := index[m.axis]/m.block, index[m.axis]%m.block
			if m.axis == rank-1 {
				n = min(n, m.block-within)
			}
			if m.place[k] < 0 {
				at += n
				continue
			}
			index[m.axis] = m.place[k]*m.block + within
		}
		to, stride := m.to(index)
		f(at, n, to, stride)
		at += n
	}
}

// to returns the position of an element in the parameter, and the distance to that of the next one
// of its row.
func (m *mapping) to(index []int) (to, stride int) {
	rank := len(index)
	flat := rank
	if m.transpose {
		flat = rank - 2
	}
	for k := range flat {
		to = to*m.cut[k] + index[k]
	}
	if !m.transpose {
		return to, 1
	}
	rows, columns := m.cut[rank-2], m.cut[rank-1]
	return (to*columns+index[rank-1])*rows + index[rank-2], rows
}

// move copies the elements of a tensor, of size bytes each, to their places in the parameter.
func (m *mapping) move(param, tensor []byte, size int) {
	m.runs(func(at, n, to, stride int) {
		if stride == 1 {
			copy(param[to*size:], tensor[at*size:(at+n)*size])
			return
		}
		for i := range n {
			copy(param[(to+i*stride)*size:], tensor[(at+i)*size:(at+i+1)*size])
		}
	})
}

// back copies the elements of the parameter to their places in a tensor.
func (m *mapping) back(tensor, param []byte, size int) {
	m.runs(func(at, n, to, stride int) {
		if stride == 1 {
			copy(tensor[at*size:], param[to*size:(to+n)*size])
			return
		}
		for i := range n {
			copy(tensor[(at+i)*size:], param[(to+i*stride)*size:(to+i*stride+1)*size])
		}
	})
}
