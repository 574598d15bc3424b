package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/conv"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/elementwise"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// convWork returns the workspace of a convolution in bytes: rounded weights, and what workers pack.
func convWork(d *Device, attrs any, in, out []kernels.Spec) int64 {
	v := newConvolution(d, kernels.Conv, attrs, in, out)
	workers := int64(v.workers(d.pool.threads()))
	return max(int64(v.roundedBytes())+workers*int64(v.workerBytes(v.og, v.cg)), v.winoWork(workers, v.og, v.cg))
}

// workerBytes returns the most bytes that a worker packs of products of up to that many rows and
// channels.
func (v *convolution) workerBytes(rows, channels int) int {
	panel, results := convWorkerBytes(v.kernels, rows, channels*v.taps())
	depth, _ := depthBytes(0)
	return max(panel+results+partBytes(v.kernels, v.taps()), depth) + v.stageBytes(channels)
}

// bindConv prepares a convolution: weights, rounded if need be, times patches of the input.
func bindConv(b *binding) (func(), error) {
	v := newConvolution(b.dev, kernels.Conv, b.Attrs, kernels.Specs(b.In), kernels.Specs(b.Out))
	if v.b == 0 {
		return nil, nil
	}
	a, size, pool := b.Attrs.(kernels.ConvAttrs), v.kernels.Size(), b.dev.pool
	workers := v.workers(pool.threads())
	var bias []byte
	if a.Bias {
		bias = b.bytes(b.In[2])
	}
	flags, act, norm := b.convEpilogue(a)
	// The choice of algorithm: see conv.go.
	if v.winograd() {
		x := v.winoForward(b)
		x.bias, x.flags, x.act, x.norm = bias, flags, act, norm
		x.bind(workers, b.work(), v.winoStage())
		return func() { x.run(pool) }, nil
	}
	work := b.work()
	w, work := work[:v.roundedBytes()], work[v.roundedBytes():]
	plane := v.out[0] * v.out[1] * size
	place := resultLayout{plane: plane, image: v.o * plane, whole: true}
	if v.depthwise() {
		v.useFloat32()
		x := &convDepth{kernels: v.kernels, patches: v.patches(), images: v.b, channels: v.c, layout: place, bias: bias, flags: flags, act: act, norm: norm,
			src: b.bytes(b.In[0]), w: b.bytes(b.In[1]), stepW: v.taps() * size, dst: b.bytes(b.Out[0])}
		x.bind(workers, work, v.stageBytes(1))
		if !v.rounded {
			return func() { x.run(pool) }, nil
		}
		round := b.converted(v.packingsFloat32[1].Across, w, x.w, v.c*v.taps(), size, v.sizes[1])
		x.w = w
		return func() { round(); x.run(pool) }, nil
	}
	x := &convMatmul{
		kernels: v.kernels, patches: v.patches(), images: v.b, groups: v.groups, rows: v.og, channels: v.cg, rounded: v.rounded,
		a: b.bytes(b.In[1]), rowA: v.cg * v.taps() * size, src: b.bytes(b.In[0]), dst: b.bytes(b.Out[0]),
		layout: place, roundPacked: v.packedRounding(0).Across,
	}
	x.setEpilogue(bias, flags, act)
	x.norm = norm
	x.cut(workers)
	x.bind(workers, work, v.stageBytes(v.cg))
	if !v.rounded {
		return func() { x.run(pool) }, nil
	}
	// Rounded weights are packed once a launch, for all images.
	from := x.a
	x.a, x.rowA = w, v.kernels.RowPitch(v.packedElems())
	row := v.cg * v.taps() * v.sizes[1]
	round := b.parallelFor(v.o, max(1, pieceLen/(v.cg*v.taps())), func(lo, hi, _ int) {
		packKBlocks(x.kBlocks, &v.packings[1], w[lo*x.rowA:], from[lo*row:], hi-lo, row, x.rowA)
	})
	return func() { round(); x.run(pool) }, nil
}

// packKBlocks packs rows of weights, row bytes apart, to rows pitch bytes apart, one k block after
// another.
func packKBlocks(all []kBlock, f *gemm.Packing, dst, w []byte, rows, row, pitch int) {
	for i := range all {
		s := &all[i]
		f.Along(dst[s.at*gemm.PackedSize:], w[s.k*f.Size:], rows, row, s.n, pitch)
	}
}

// packedElems returns the most elements of a packed row of weights: of several k blocks, each has
// at least a quarter of the most steps.
func (v *convolution) packedElems() int {
	k := v.cg * v.taps()
	return v.kernels.Elems(k) + (v.kernels.StepsPerElem()-1)*ceilDiv(k, convStepsFactor*gemm.StepsFloat32/2)
}

// roundedBytes returns the bytes of rounded weights. It never shrinks as a size grows.
func (v *convolution) roundedBytes() int {
	if !v.rounded {
		return 0
	}
	return max(v.o*v.kernels.RowPitch(v.packedElems()), asm.AlignLine(v.groups*v.taps()*gemm.PackedSize))
}

// convEpilogue returns bias and activation as flags, the activation as a function where it has no
// flag, and what normalizes between the two.
func (b *binding) convEpilogue(a kernels.ConvAttrs) (flags int, act func(data []byte), norm convNorm) {
	l, typ := b.dev.level, b.Out[0].Type
	if a.Bias {
		flags = gemm.FlagBias
	}
	if a.Norm {
		in := b.In[a.NormAt():]
		norm = convNorm{size: int(typ.Size()), mean: b.bytes(in[0]), scale: b.bytes(in[1]), shift: b.bytes(in[2])}
	}
	switch {
	case a.Act == nil:
	case a.Act == kernels.ReLU && a.Norm:
		norm.flags = gemm.FlagRelu
	case a.Act == kernels.ReLU:
		flags |= gemm.FlagRelu
	case typ == arena.Float32:
		act = inPlace(elementwise.Unary[float32](l, a.Act, a.ActAttrs))
	default:
		act = inPlace(elementwise.Unary[float64](l, a.Act, a.ActAttrs))
	}
	return flags, act, norm
}

// A convNorm normalizes results of a convolution by channel. It is off without a mean.
type convNorm struct {
	mean, scale, shift []byte
	size, flags        int // bytes of an element; gemm.FlagRelu
}

// on reports whether there is something to normalize.
func (n *convNorm) on() bool { return n.mean != nil }

// run normalizes the rows of with, of channels from c on. It uses e, memory of the worker.
func (n *convNorm) run(k *conv.Kernels, e *conv.Epilogue, c int, with conv.Epilogue) {
	at := c * n.size
	*e = with
	e.Mean, e.Scale, e.Shift, e.Flags = n.mean[at:], n.scale[at:], n.shift[at:], n.flags
	k.Normalize(e)
}

// convInputWork returns the workspace of a gradient by the input in bytes: all weights, transposed,
// and what workers pack.
func convInputWork(d *Device, attrs any, in, out []kernels.Spec) int64 {
	v := newConvolution(d, kernels.ConvGradInput, attrs, in, out)
	threads := d.pool.threads()
	workers := int64(v.workers(threads))
	products := int64(v.transposedBytes()) + int64(threads)*int64(v.transposedRowBytes()) + workers*int64(v.workerBytes(v.cg, v.og))
	return max(products, v.winoWork(workers, v.cg, v.og))
}

// transposedRowBytes returns the bytes of a transposed row before it is rounded. It never shrinks
// as a size grows.
func (v *convolution) transposedRowBytes() int {
	if !v.rounded {
		return 0
	}
	return asm.AlignLine(v.og * v.taps() * v.sizes[0])
}

// transposedBytes returns the bytes of the transposed weights. It never shrinks as a size grows.
func (v *convolution) transposedBytes() int {
	residues := min(v.stride[0], v.kernel[0]) * min(v.stride[1], v.kernel[1])
	return v.c * (v.og*v.taps()*v.kernels.Size() + residues*(asm.CacheLine+gemm.PackedPitch))
}

// A transposition is the weights of some taps in the order of a gradient by the input: rows are
// channels, and a row has those taps of each output.
type transposition struct {
	taps    []int // of the kernel
	kBlocks []kBlock
	dst     []byte
	pitch   int // bytes from row to row
}

// bindConvInput prepares a gradient by the input: for each pair of residues, the weights of its
// taps times patches of dy.
func bindConvInput(b *binding) (func(), error) {
	v := newConvolution(b.dev, kernels.ConvGradInput, b.Attrs, kernels.Specs(b.In), kernels.Specs(b.Out))
	dx, pool := b.bytes(b.Out[0]), b.dev.pool
	if len(dx) == 0 {
		return nil, nil
	}
	workers := v.workers(pool.threads())
	// The gradient by the input is a convolution of dy with kernels rotated by 180°.
	if v.b > 0 && v.winograd() {
		x := v.winoInput(b)
		x.bind(workers, b.work(), v.winoStage())
		return func() { x.run(pool) }, nil
	}
	if v.depthwise() {
		v.useFloat32()
	}
	transposed := b.work()
	var rows, work []byte
	if v.b > 0 {
		n, turned := v.transposedBytes(), pool.threads()*v.transposedRowBytes()
		transposed, rows, work = transposed[:n], transposed[n:n+turned], transposed[n+turned:]
	}
	var products []product
	var moves []transposition
	idle := false // some pixels lie in no window
	// Pixels of x in different residues are reached by different taps, so each pair of residues is
	// a convolution of its own.
	for _, row := range v.residues(0) {
		for _, col := range v.residues(1) {
			t := transposition{taps: v.tapsOf(row, col), dst: transposed}
			if len(t.taps) == 0 {
				idle = true
				continue
			}
			t.kBlocks = splitPackedK(v.kernels, v.og, len(t.taps), v.rounded)
			last := &t.kBlocks[len(t.kBlocks)-1]
			t.pitch = v.kernels.RowPitch(last.at + v.kernels.Elems(last.n))
			transposed = transposed[v.c*t.pitch:]
			moves = append(moves, t)
			products = append(products, v.residueProduct(b, row, col, t, workers, work))
		}
	}
	move := b.parallelFor(v.c, max(1, pieceLen/(v.og*v.taps())), v.transposer(b.bytes(b.In[0]), moves, rows))
	clean := b.parallelFor(len(dx), 256<<10, func(lo, hi, _ int) { clear(dx[lo:hi]) })
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

// A product is one residue's part of a gradient by the input.
type product interface{ run(p *pool) }

// residueProduct prepares the gradient by the input for the pixels of two residues. t holds their
// weights.
func (v *convolution) residueProduct(b *binding, row, col residue, t transposition, workers int, work []byte) product {
	size := v.kernels.Size()
	plane := v.in[0] * v.in[1] * size
	q := newPatches(newAxis(v.out[0], row.n, 1, row.at), newAxis(v.out[1], col.n, 1, col.at), v.sizes[1], v.out[1], v.out[0], v.o)
	v.setConversion(&q, 1)
	place := resultLayout{plane: plane, image: v.c * plane, first: [2]int{row.first, col.first}, step: v.stride,
		width: v.in[1], whole: v.stride == [2]int{1, 1}}
	if v.depthwise() {
		x := &convDepth{kernels: v.kernels, patches: q, images: v.b, channels: v.c, layout: place,
			src: b.bytes(b.In[1]), w: t.dst, stepW: t.pitch, dst: b.bytes(b.Out[0])}
		x.bind(workers, work, v.stageBytes(1))
		return x
	}
	x := &convMatmul{
		kernels: v.kernels, patches: q, images: v.b, groups: v.groups, rows: v.cg, channels: v.og, rounded: v.rounded,
		a: t.dst, rowA: t.pitch, src: b.bytes(b.In[1]), dst: b.bytes(b.Out[0]), layout: place, roundPacked: v.packedRounding(1).Across,
	}
	x.cut(workers)
	x.bind(workers, work, v.stageBytes(v.og))
	return x
}

// tapsOf returns the taps that reach pixels of both residues.
func (v *convolution) tapsOf(row, col residue) []int {
	var taps []int
	for _, kh := range row.taps {
		for _, kw := range col.taps {
			taps = append(taps, kh*v.kernel[1]+kw)
		}
	}
	return taps
}

// transposer returns a function that transposes the weights of channels lo:hi. Weights that are
// rounded pass through a row of each worker.
func (v *convolution) transposer(w []byte, moves []transposition, rows []byte) func(lo, hi, worker int) {
	turn := transposeWeights[uint64]
	switch v.sizes[0] {
	case 2:
		turn = transposeWeights[uint16]
	case 4:
		turn = transposeWeights[uint32]
	}
	row := v.transposedRowBytes()
	return func(lo, hi, worker int) {
		for i := range moves {
			m := &moves[i]
			for c := lo; c < hi; c++ {
				dst := m.dst[c*m.pitch : (c+1)*m.pitch]
				if !v.rounded {
					turn(v, dst, w, m.taps, c)
					continue
				}
				whole := rows[worker*row:][:row]
				turn(v, whole, w, m.taps, c)
				packKBlocks(m.kBlocks, &v.packings[0], dst, whole, 1, 0, 0)
			}
		}
	}
}

// transposeWeights writes the row of channel c: these taps of each output.
func transposeWeights[T uint16 | uint32 | uint64](v *convolution, row, w []byte, taps []int, c int) {
	dst, from, all := asm.View[T](row), asm.View[T](w), v.taps()
	group, channel := c/v.cg, c%v.cg
	for o := range v.og {
		src := from[((group*v.og+o)*v.cg+channel)*all:][:all]
		to := dst[o*len(taps):][:len(taps)]
		for j, tap := range taps {
			to[j] = src[tap]
		}
	}
}
