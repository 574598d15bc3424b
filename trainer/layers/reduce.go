package layers

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels"
)

// Reduce selects the elements that a reduction makes one. The zero value selects all of x: the
// result is a scalar.
type Reduce struct {
	Axes []int // axes to reduce, in any order; below 0 they count from the end; none: all
	Keep bool  // reduced axes stay, as dimensions of 1, so that the result broadcasts with x
}

// Sum adds the sum of elements.
//
//	x (4, 3, 5), Axes {1}  →  (4, 5), with Keep (4, 1, 5)
func (n *Net) Sum(x *gorgonia.Node, name string, r Reduce) *gorgonia.Node {
	return n.reduce("sum", x, name, r, func(c calc, x kernels.Value, axes []int) kernels.Value {
		return c.reduce(kernels.Sum, x, axes)
	})
}

// Mean adds the mean of elements.
func (n *Net) Mean(x *gorgonia.Node, name string, r Reduce) *gorgonia.Node {
	return n.reduce("mean", x, name, r, func(c calc, x kernels.Value, axes []int) kernels.Value {
		return c.reduce(kernels.Mean, x, axes)
	})
}

// Max adds the largest element: NaN where one is NaN. Equal elements share the gradient.
func (n *Net) Max(x *gorgonia.Node, name string, r Reduce) *gorgonia.Node {
	return n.reduce("max", x, name, r, func(c calc, x kernels.Value, axes []int) kernels.Value {
		return c.reduce(kernels.Max, x, axes)
	})
}

// Min adds the smallest element: NaN where one is NaN. Equal elements share the gradient.
func (n *Net) Min(x *gorgonia.Node, name string, r Reduce) *gorgonia.Node {
	return n.reduce("min", x, name, r, func(c calc, x kernels.Value, axes []int) kernels.Value {
		return c.of(kernels.Neg, c.reduce(kernels.Max, c.of(kernels.Neg, x), axes))
	})
}

// Variance adds the mean of (x - mean x)², the variance of a population. That of a sample of k
// elements is k/(k - 1) times as large.
func (n *Net) Variance(x *gorgonia.Node, name string, r Reduce) *gorgonia.Node {
	return n.reduce("variance", x, name, r, func(c calc, x kernels.Value, axes []int) kernels.Value {
		// The gradient by the mean is 0: that of Σ(x-m)² is -2·Σ(x-m).
		d := c.two(kernels.Sub, x, c.detach(c.reduce(kernels.Mean, x, axes)))
		return c.reduce(kernels.Mean, c.of(kernels.Square, d), axes)
	})
}

// Norm adds the Euclidean norm √Σx². Squares do not overflow. Its gradient where all elements are 0
// is 0.
func (n *Net) Norm(x *gorgonia.Node, name string, r Reduce) *gorgonia.Node {
	return n.reduce("norm", x, name, r, func(c calc, x kernels.Value, axes []int) kernels.Value {
		return c.norm(x, axes)
	})
}

// LogSumExp adds log Σeˣ. No element overflows. Of elements that are all -Inf it is -Inf, with a
// gradient of 0.
func (n *Net) LogSumExp(x *gorgonia.Node, name string, r Reduce) *gorgonia.Node {
	return n.reduce("logsumexp", x, name, r, func(c calc, x kernels.Value, axes []int) kernels.Value {
		// m + log Σexp(x - m) for any m: the largest element, or a finite number next to it, so that
		// x - m is not Inf - Inf. The sum is 1 or more, or 0 if all elements are -Inf.
		least, most := c.limits(x)
		largest := c.detach(c.reduce(kernels.Max, x, axes))
		m := c.clamp(largest, -most, most)
		sum := c.reduce(kernels.Sum, c.of(kernels.Exp, c.two(kernels.Sub, x, m)), axes)
		log := c.of(kernels.Log, c.two(kernels.Maximum, sum, c.scalar(x, least)))
		return c.Apply(kernels.Where, nil, sum, c.two(kernels.Add, m, log), largest)
	})
}

// Prod adds the product of elements. Its gradient is right where elements are 0.
func (n *Net) Prod(x *gorgonia.Node, name string, r Reduce) *gorgonia.Node {
	return n.reduce("prod", x, name, r, func(c calc, x kernels.Value, axes []int) kernels.Value {
		return c.prod(x, axes)
	})
}

// reduce adds a reduction. f gets sorted axes, and keeps them as dimensions of 1.
func (n *Net) reduce(what string, x *gorgonia.Node, name string, r Reduce,
	f func(c calc, x kernels.Value, axes []int) kernels.Value) *gorgonia.Node {
	layer := operation(what, name, x)
	if !n.floats(layer, x) {
		return nil
	}
	axes, ok := n.axesOf(layer, x, r.Axes)
	if !ok {
		return nil
	}
	return n.compose(what, name, func(g kernels.Graph, in []kernels.Value) kernels.Value {
		c := calc{g}
		y := f(c, in[0], axes)
		if r.Keep {
			return y
		}
		var shape kernels.Shape
		for i, d := range c.Spec(y).Shape {
			if !slices.Contains(axes, i) {
				shape = append(shape, d)
			}
		}
		return c.reshape(y, shape)
	}, x)
}

// axesOf returns axes of x as 0, 1, …, sorted: all for none. It records an error if x lacks one or
// one is there twice.
func (n *Net) axesOf(layer string, x *gorgonia.Node, axes []int) (sorted []int, ok bool) {
	if len(axes) == 0 {
		for i := range x.Dims() {
			sorted = append(sorted, i)
		}
		return sorted, true
	}
	for _, a := range axes {
		if a, ok = n.axisOf(layer, x, a); !ok {
			return nil, false
		}
		if slices.Contains(sorted, a) {
			n.fail(fmt.Errorf("%s: axes %v name axis %d of %s twice: %w", layer, axes, a, shapeString(x.Shape()), ErrShape))
			return nil, false
		}
		sorted = append(sorted, a)
	}
	slices.Sort(sorted)
	return sorted, true
}

// reduce is a reduction of x that keeps axes as dimensions of 1.
func (c calc) reduce(op *kernels.Op, x kernels.Value, axes []int) kernels.Value {
	return c.Apply(op, kernels.ReduceAttrs{Axes: axes, Keep: true}, x)
}

// norm is the Euclidean norm of x along axes, which stay as dimensions of 1.
func (c calc) norm(x kernels.Value, axes []int) kernels.Value {
	// s·√Σ(x/s)², s = max |x|. The sum is 1 or more unless all elements are 0: then the floor has the
	// gradient, and s = 0 makes the result 0.
	s := c.detach(c.reduce(kernels.Max, c.of(kernels.Abs, x), axes))
	least, most := c.limits(x)
	scaled := c.two(kernels.Div, x, c.clamp(s, least, most))
	sum := c.reduce(kernels.Sum, c.of(kernels.Square, scaled), axes)
	return c.mul(s, c.of(kernels.Sqrt, c.two(kernels.Maximum, sum, c.scalar(x, 0.25))))
}

// prod is the product of x along axes, which stay as dimensions of 1.
func (c calc) prod(x kernels.Value, axes []int) kernels.Value {
	shape := c.Spec(x).Shape
	kept := slices.Clone(shape)
	perm, count, others := slices.Clone(axes), 1, 1 // the reduced axes first: halves are contiguous then
	for i, d := range shape {
		if slices.Contains(axes, i) {
			kept[i] = 1
			count *= d
			continue
		}
		perm = append(perm, i)
		others *= d
	}
	x = c.reshape(c.transpose(x, perm), kernels.Shape{count, others})
	rows := func(from, to int) kernels.Value {
		return c.Apply(kernels.Slice, kernels.SliceAttrs{Start: []int{from, 0}, End: []int{to, others}, Step: []int{1, 1}}, x)
	}
	odd := kernels.None // product of rows that had no partner
	for ; count > 1; count /= 2 {
		if count%2 == 1 {
			last := rows(count-1, count)
			if odd != kernels.None {
				last = c.mul(last, odd)
			}
			odd = last
		}
		x = c.mul(rows(0, count/2), rows(count/2, count/2*2))
	}
	if odd != kernels.None {
		x = c.mul(x, odd)
	}
	return c.reshape(x, kept)
}

// transpose is x with its axes in the order of perm.
func (c calc) transpose(x kernels.Value, perm []int) kernels.Value {
	if slices.IsSorted(perm) {
		return x
	}
	return c.Apply(kernels.Transpose, kernels.TransposeAttrs{Perm: perm}, x)
}
