package layers_test

import (
	"math"
	"slices"
)

// array is a tensor of the interpreter that random graphs are compared with: it shares no code with
// the operations.
type array struct {
	shape []int
	x     []float64 // row-major
}

// newArray returns zeros.
func newArray(shape []int) array {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return array{slices.Clone(shape), make([]float64, n)}
}

// eachIndex calls f with every index of shape in row-major order, and its number.
func eachIndex(shape []int, f func(i int, at []int)) {
	at := make([]int, len(shape))
	n := len(newArray(shape).x)
	for i := range n {
		rest := i
		for d := len(shape) - 1; d >= 0; d-- {
			at[d] = rest % shape[d]
			rest /= shape[d]
		}
		f(i, at)
	}
}

// get returns the element at an index whose last coordinates belong to a. Dimensions of 1 are repeated.
func (a array) get(at []int) float64 {
	at = at[len(at)-len(a.shape):]
	k := 0
	for d, size := range a.shape {
		i := at[d]
		if size == 1 {
			i = 0
		}
		k = k*size + i
	}
	return a.x[k]
}

// gather returns an array of that shape of elements of a.
func (a array) gather(shape []int, from func(at []int) []int) array {
	y := newArray(shape)
	eachIndex(shape, func(i int, at []int) { y.x[i] = a.get(from(at)) })
	return y
}

// each is f of each element.
func (a array) each(f func(x float64) float64) array {
	y := newArray(a.shape)
	for i, v := range a.x {
		y.x[i] = f(v)
	}
	return y
}

// pairShape returns the shape that a and b broadcast to.
func pairShape(a, b []int) (shape []int, ok bool) {
	n := max(len(a), len(b))
	for i := range n {
		x, y := 1, 1
		if k := i - n + len(a); k >= 0 {
			x = a[k]
		}
		if k := i - n + len(b); k >= 0 {
			y = b[k]
		}
		if x != y && x != 1 && y != 1 {
			return nil, false
		}
		shape = append(shape, max(x, y))
	}
	return shape, true
}

// pair is f of the elements of a and b, which broadcast.
func pair(a, b array, f func(x, y float64) float64) array {
	shape, _ := pairShape(a.shape, b.shape)
	y := newArray(shape)
	eachIndex(shape, func(i int, at []int) { y.x[i] = f(a.get(at), b.get(at)) })
	return y
}

// reduce is f of the elements that differ in their index along axes.
func (a array) reduce(axes []int, keep bool, f func(x []float64) float64) array {
	var shape, kept []int
	for d, size := range a.shape {
		if slices.Contains(axes, d) {
			if keep {
				shape = append(shape, 1)
			}
			continue
		}
		shape = append(shape, size)
		kept = append(kept, d)
	}
	some := make([][]float64, len(newArray(shape).x))
	eachIndex(a.shape, func(i int, at []int) {
		k := 0
		for _, d := range kept {
			k = k*a.shape[d] + at[d]
		}
		some[k] = append(some[k], a.x[i])
	})
	y := newArray(shape)
	for k := range y.x {
		y.x[k] = f(some[k])
	}
	return y
}

// along replaces each line along an axis by f of it.
func (a array) along(axis int, f func(line []float64) []float64) array {
	y := newArray(a.shape)
	step := 1
	for _, d := range a.shape[axis+1:] {
		step *= d
	}
	for i := range a.x {
		if i/step%a.shape[axis] > 0 {
			continue
		}
		line := make([]float64, a.shape[axis])
		for k := range line {
			line[k] = a.x[i+k*step]
		}
		for k, v := range f(line) {
			y.x[i+k*step] = v
		}
	}
	return y
}

// transposed exchanges the last two axes.
func (a array) transposed() array {
	n := len(a.shape)
	shape := slices.Clone(a.shape)
	shape[n-2], shape[n-1] = shape[n-1], shape[n-2]
	return a.gather(shape, func(at []int) []int {
		at = slices.Clone(at)
		at[n-2], at[n-1] = at[n-1], at[n-2]
		return at
	})
}

// product multiplies the matrices of a and b, of two axes or more.
func product(a, b array) array {
	ra, rb := len(a.shape)-2, len(b.shape)-2
	lead, _ := pairShape(a.shape[:ra], b.shape[:rb])
	y := newArray(append(slices.Clone(lead), a.shape[ra], b.shape[rb+1]))
	n := len(lead)
	eachIndex(y.shape, func(i int, at []int) {
		left, right := slices.Clone(at), slices.Clone(at)
		for k := range a.shape[ra+1] {
			left[n+1], right[n] = k, k
			y.x[i] += a.get(left) * b.get(right)
		}
	})
	return y
}

// largest returns the largest absolute value, NaN if an element is NaN.
func (a array) largest() (m float64) {
	for _, v := range a.x {
		if !(math.Abs(v) <= m) {
			m = math.Abs(v)
		}
	}
	return m
}

// least returns the smallest element.
func (a array) least() float64 { return slices.Min(a.x) }

// apart returns the smallest distance of two elements of x.
func apart(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	d := math.Inf(1)
	for i := 1; i < len(x); i++ {
		d = min(d, x[i]-x[i-1])
	}
	return d
}
