package cpu_test

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// geometry is a convolution of square images and kernels.
type geometry struct {
	batch, in, out, size, kernel, stride, pad, dilation, groups int
}

func (g geometry) y() int { return (g.size+2*g.pad-g.dilation*(g.kernel-1)-1)/g.stride + 1 }

func both(n int) [2]int { return [2]int{n, n} }

// call returns attributes and operands of one of the three operations.
func (g geometry) call(op *kernels.Op, typ arena.DType) (any, []kernels.Spec) {
	spec := func(s ...int) kernels.Spec { return kernels.Spec{Type: typ, Shape: s} }
	x, y := spec(g.batch, g.in, g.size, g.size), spec(g.batch, g.out, g.y(), g.y())
	w := spec(g.out, g.in/g.groups, g.kernel, g.kernel)
	a := kernels.ConvGradAttrs{Stride: both(g.stride), Pad: both(g.pad), Dilation: both(g.dilation), Groups: g.groups}
	switch op {
	case kernels.ConvGradInput:
		a.Size = both(g.size)
		return a, []kernels.Spec{w, y}
	case kernels.ConvGradWeight:
		a.Size = both(g.kernel)
		return a, []kernels.Spec{x, y}
	}
	return kernels.ConvAttrs{Stride: a.Stride, Pad: a.Pad, Dilation: a.Dilation, Groups: a.Groups}, []kernels.Spec{x, w}
}

// scaledConv returns a convolution at two sizes. What attributes say of sizes stays.
func scaledConv(op *kernels.Op) func(r *rand.Rand, typ arena.DType) scaled {
	return func(r *rand.Rand, typ arena.DType) scaled {
		for {
			g := geometry{batch: sizeUpTo(r, 70), in: sizeUpTo(r, 600), out: sizeUpTo(r, 600), size: 1 + r.IntN(40),
				kernel: 1 + r.IntN(7), stride: 1 + r.IntN(3), pad: r.IntN(4), dilation: 1 + r.IntN(2), groups: 1}
			if r.IntN(3) == 0 {
				g.groups = 1 + r.IntN(8)
			}
			g.in, g.out = over(g.in, g.groups)*g.groups, over(g.out, g.groups)*g.groups
			small := g
			small.batch = sizeUpTo(r, g.batch)
			small.in = sizeUpTo(r, g.in/g.groups) * g.groups
			small.out = sizeUpTo(r, g.out/g.groups) * g.groups
			switch op {
			case kernels.Conv:
				small.size, small.kernel = 1+r.IntN(g.size), 1+r.IntN(g.kernel)
			case kernels.ConvGradInput:
				small.kernel = 1 + r.IntN(g.kernel)
			default:
				small.size = 1 + r.IntN(g.size)
			}
			fits := func(g geometry) bool { return g.size+2*g.pad >= g.dilation*(g.kernel-1)+1 }
			if !fits(g) || !fits(small) || small.y() > g.y() {
				continue
			}
			var c scaled
			c.attrs, c.big = g.call(op, typ)
			_, c.small = small.call(op, typ)
			return c
		}
	}
}

func over(a, b int) int { return (a + b - 1) / b }
