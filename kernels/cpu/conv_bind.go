package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// convWork returns the scratch bytes of a convolution.
func convWork(d *Device, attrs any, in, out []kernels.Spec) int64 {
	v := newConvolution(d.level.isa(out[0].Type), kernels.Conv, attrs, in, out)
	workers := int64(v.workers(d.pool.threads()))
	panel, results := convWorkerBytes(v.isa, v.og, v.cg*v.taps())
	depth, _ := depthBytes(0)
	return max(workers*int64(max(panel+results, depth)), v.winoWork(workers, v.og, v.cg))
}

// bindConv prepares a convolution: the weights as they lie times patches of the input.
func bindConv(b *binding) (func(), error) {
	v := newConvolution(b.dev.level.isa(b.Out[0].Type), kernels.Conv, b.Attrs, kernels.Specs(b.In), kernels.Specs(b.Out))
	if v.b == 0 {
		return nil, nil
	}
	a, size, pool := b.Attrs.(kernels.ConvAttrs), v.isa.size(), b.dev.pool
	workers := v.workers(pool.threads())
	var bias []byte
	if a.Bias {
		bias = b.bytes(b.In[2])
	}
	flags, act := convEnd(b.dev.level, b.Out[0].Type, a)
	if v.winograd() {
		x := v.winoForward(b)
		x.bias, x.flags, x.act = bias, flags, act
		x.bind(workers, b.work())
		return func() { x.run(pool) }, nil
	}
	plane := v.out[0] * v.out[1] * size
	place := convPlace{plane: plane, image: v.o * plane, whole: true}
	if v.depthwise() {
		x := &convDepth{isa: v.isa, patches: v.patches(), images: v.b, channels: v.c, place: place, bias: bias, flags: flags, act: act,
			src: b.bytes(b.In[0]), w: b.bytes(b.In[1]), stepW: v.taps() * size, dst: b.bytes(b.Out[0])}
		x.bind(workers, b.work())
		return func() { x.run(pool) }, nil
	}
	x := &convMatmul{
		isa: v.isa, patches: v.patches(), images: v.b, groups: v.groups, rows: v.og, channels: v.cg,
		a: b.bytes(b.In[1]), rowA: v.cg * v.taps() * size, src: b.bytes(b.In[0]), dst: b.bytes(b.Out[0]),
		place: place,
	}
	x.end(bias, flags, act)
	x.cut(workers)
	x.bind(workers, b.work())
	return func() { x.run(pool) }, nil
}

// convEnd returns what is done at the end with bias and activation: flags, and what they cannot say.
func convEnd(l level, typ arena.DType, a kernels.ConvAttrs) (flags int, act func(data []byte)) {
	if a.Bias {
		flags = flagBias
	}
	switch {
	case a.Act == nil:
	case a.Act == kernels.Relu:
		flags |= flagRelu
	case typ == arena.Float32:
		act = inPlace(unaryTile[float32](l, a.Act, a.ActAttrs))
	default:
		act = inPlace(unaryTile[float64](l, a.Act, a.ActAttrs))
	}
	return flags, act
}

// convInputWork returns the scratch bytes of a gradient by the input: all weights, transposed, and what workers pack.
func convInputWork(d *Device, attrs any, in, out []kernels.Spec) int64 {
	v := newConvolution(d.level.isa(out[0].Type), kernels.ConvGradInput, attrs, in, out)
	panel, results := convWorkerBytes(v.isa, v.cg, v.og*v.taps())
	workers := int64(v.workers(d.pool.threads()))
	depth, _ := depthBytes(0)
	return max(int64(v.transposedBytes())+workers*int64(max(panel+results, depth)), v.winoWork(workers, v.cg, v.og))
}

// transposedBytes returns what the transposed weights take. It grows or stays with each size.
func (v *convolution) transposedBytes() int {
	residues := min(v.stride[0], v.kernel[0]) * min(v.stride[1], v.kernel[1])
	return v.c * (v.og*v.taps()*v.isa.size() + residues*(cacheLine+packedPitch))
}

// A transposition is the weights of some taps as a gradient by the input needs them: rows are channels, and a row has
// the taps of output after output.
type transposition struct {
	taps  []int // of the kernel
	dst   []byte
	pitch int // bytes from row to row
}

// bindConvInput prepares a gradient by the input: for each residue of the stride, its weights times patches of dy.
func bindConvInput(b *binding) (func(), error) {
	v := newConvolution(b.dev.level.isa(b.Out[0].Type), kernels.ConvGradInput, b.Attrs, kernels.Specs(b.In), kernels.Specs(b.Out))
	dx, pool := b.bytes(b.Out[0]), b.dev.pool
	if len(dx) == 0 {
		return nil, nil
	}
	workers := v.workers(pool.threads())
	if v.b > 0 && v.winograd() {
		x := v.winoInput(b)
		x.bind(workers, b.work())
		return func() { x.run(pool) }, nil
	}
	transposed := b.work()
	var work []byte
	if v.b > 0 {
		transposed, work = transposed[:v.transposedBytes()], transposed[v.transposedBytes():]
	}
	var products []product
	var moves []transposition
	idle := false // some pixels are in no window
	for _, row := range v.residues(0) {
		for _, col := range v.residues(1) {
			t := transposition{taps: v.tapsOf(row, col), dst: transposed}
			if len(t.taps) == 0 {
				idle = true
				continue
			}
			t.pitch = v.isa.pitch(v.og * len(t.taps))
			transposed = transposed[v.c*t.pitch:]
			moves = append(moves, t)
			products = append(products, v.residueProduct(b, row, col, t, workers, work))
		}
	}
	move := b.over(v.c, max(1, pieceLen/(v.og*v.taps())), v.transposer(b.bytes(b.In[0]), moves))
	clean := b.over(len(dx), 256<<10, func(lo, hi, _ int) { clear(dx[lo:hi]) })
	return func() {
		if idle {
			clean()
		}
		move()
		for _, x := range products {
			x.run(pool)
		}
	}, nil
}

// A product is part of a gradient by the input.
type product interface{ run(p *pool) }

// residueProduct prepares the gradient by the input for the pixels of two residues, whose weights t has.
func (v *convolution) residueProduct(b *binding, row, col residue, t transposition, workers int, work []byte) product {
	size := v.isa.size()
	plane := v.in[0] * v.in[1] * size
	q := newPatches(newAxis(v.out[0], row.n, 1, row.at), newAxis(v.out[1], col.n, 1, col.at), size, v.out[1], v.out[0], v.o)
	place := convPlace{plane: plane, image: v.c * plane, first: [2]int{row.first, col.first}, step: v.stride,
		width: v.in[1], whole: v.stride == [2]int{1, 1}}
	if v.depthwise() {
		x := &convDepth{isa: v.isa, patches: q, images: v.b, channels: v.c, place: place,
			src: b.bytes(b.In[1]), w: t.dst, stepW: t.pitch, dst: b.bytes(b.Out[0])}
		x.bind(workers, work)
		return x
	}
	x := &convMatmul{
		isa: v.isa, patches: q, images: v.b, groups: v.groups, rows: v.cg, channels: v.og,
		a: t.dst, rowA: t.pitch, src: b.bytes(b.In[1]), dst: b.bytes(b.Out[0]), place: place,
	}
	x.cut(workers)
	x.bind(workers, work)
	return x
}

// tapsOf returns the taps that both residues have.
func (v *convolution) tapsOf(row, col residue) []int {
	var taps []int
	for _, kh := range row.taps {
		for _, kw := range col.taps {
			taps = append(taps, kh*v.kernel[1]+kw)
		}
	}
	return taps
}

// transposer returns what moves the weights of channels lo:hi.
func (v *convolution) transposer(w []byte, moves []transposition) func(lo, hi, _ int) {
	if v.isa.size() == 4 {
		return func(lo, hi, _ int) { transposeWeights(v, view[uint32](w), moves, lo, hi) }
	}
	return func(lo, hi, _ int) { transposeWeights(v, view[uint64](w), moves, lo, hi) }
}

func transposeWeights[T word](v *convolution, w []T, moves []transposition, lo, hi int) {
	taps := v.taps()
	for i := range moves {
		m := &moves[i]
		for c := lo; c < hi; c++ {
			dst := view[T](m.dst[c*m.pitch : (c+1)*m.pitch])
			group, channel := c/v.cg, c%v.cg
			for o := range v.og {
				src := w[((group*v.og+o)*v.cg+channel)*taps:][:taps]
				to := dst[o*len(m.taps):][:len(m.taps)]
				for j, tap := range m.taps {
					to[j] = src[tap]
				}
			}
		}
	}
}
