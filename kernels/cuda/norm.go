package cuda

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/kernels"
)

// countable returns an error if a channel or a group has more elements than kernels count in 32
// bits.
func countable(n int) error {
	if n > math.MaxInt32 {
		return fmt.Errorf("%d elements to a mean: at most %d: %w", n, math.MaxInt32, kernels.ErrUnsupported)
	}
	return nil
}

// tallThreads is the number of threads of a block for the n elements of a channel; TALL in norm.cu
// limits it.
func tallThreads(n int) int { return max(32, min((n+31)/32*32, 1024)) }

func bindBatchNorm(b *binding) error {
	a, x := b.Attrs.(kernels.BatchNormAttrs), b.In[0].Shape
	channels, plane := x[1], x[2:].Elems()
	n, relu := x[0]*plane, int32(0)
	if a.ReLU {
		relu = 1
	}
	name := "batchNorm"
	if b.Op == kernels.BatchNormGrad {
		name = "batchNormGrad"
	}
	args := append(b.arguments(), b.out(0), b.out(1), b.out(2), int32(channels), uint32(n), uint32(plane), a.Eps, relu)
	b.launch("norm", name+"_"+suffix(b.In[0].Type), line(channels), line(tallThreads(n)), 0, args...)
	return countable(n)
}

// arguments returns the addresses of all inputs as arguments.
func (b *binding) arguments() []any {
	var args []any
	for k := range b.In {
		args = append(args, b.in(k))
	}
	return args
}

// grouping is x [images, channels, plane] in groups of channels.
type grouping struct{ images, channels, plane, groups int }

// groupingOf reads the operands of a normalization of layers or groups: rows of N are images of N
// channels of one pixel.
func groupingOf(attrs any, x kernels.Shape) (g grouping, eps float64) {
	if a, ok := attrs.(kernels.GroupNormAttrs); ok {
		return grouping{x[0], x[1], x[2:].Elems(), a.Groups}, a.Eps
	}
	last := len(x) - 1
	return grouping{x[:last].Elems(), x[last], 1, 1}, attrs.(kernels.LayerNormAttrs).Eps
}

// size is the number of elements of a group.
func (g grouping) size() int { return g.channels / g.groups * g.plane }

func bindGroupNorm(b *binding) error {
	g, eps := groupingOf(b.Attrs, b.In[0].Shape)
	args := append(b.arguments(), b.out(0), b.out(1), b.out(2), int64(g.images*g.groups), int32(g.groups),
		uint32(g.size()), uint32(g.plane), eps)
	b.launch("norm", "groupNorm"+"_"+suffix(b.In[0].Type), line(rowBlocks(g.images*g.groups)),
		line(rowThreads(g.size())), 0, args...)
	return countable(g.size())
}

// bindGroupNormGrad sums dgamma and dbeta first, since dx may overwrite x or dy.
func bindGroupNormGrad(b *binding) error {
	g, _ := groupingOf(b.Attrs, b.In[0].Shape)
	x, gamma, means, rstds, dy := b.in(0), b.in(1), b.in(2), b.in(3), b.in(4)
	t, n := "_"+suffix(b.In[0].Type), g.images*g.plane
	args := []any{x, means, rstds, dy, b.out(1), b.out(2), int32(g.channels), int32(g.groups)}
	if g.plane == 1 {
		b.launch("norm", "columnGrad"+t, line((g.channels+31)/32), line(blockThreads), 0, append(args, int64(g.images))...)
	} else {
		b.launch("norm", "channelGrad"+t, line(g.channels), line(tallThreads(n)), 0,
			append(args, uint32(n), uint32(g.plane))...)
	}
	b.launch("norm", "groupNormGrad"+t, line(rowBlocks(g.images*g.groups)), line(rowThreads(g.size())), 0,
		x, gamma, means, rstds, dy, b.out(0), int64(g.images*g.groups), int32(g.groups), uint32(g.size()), uint32(g.plane))
	return countable(max(n, g.size()))
}
