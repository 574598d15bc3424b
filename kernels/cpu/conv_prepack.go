package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/conv"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// Convolutions by Winograd's algorithm with weights that were transformed beforehand: turned products
// (conv_turned.go), which read their weights from an operand. Of many images, whose products are not
// turned around, the transform takes next to none of the time.

// Prepack splits a convolution whose products are turned around. The sums stay the same, to the bit.
func (d *Device) Prepack(op *kernels.Op, attrs any, in, out []kernels.Spec) (kernels.Prepacked, bool) {
	if op != kernels.Conv || d.Supports(op, attrs, in, out) != nil {
		return kernels.Prepacked{}, false
	}
	v, a := newConvolution(d, op, attrs, in, out), attrs.(kernels.ConvAttrs)
	if v.b == 0 || !v.winograd() || !v.mayTurn() || a.Norm || a.Act != nil && a.Act != kernels.ReLU ||
		!turningPays(v.kernels, v.tiles(), v.og) || v.og%kernels.WinogradPanel != 0 || !readsPanels(v.kernels) {
		return kernels.Prepacked{}, false
	}
	return kernels.Prepacked{Operand: 1, Pack: kernels.WinogradWeight,
		Op: kernels.WinogradConv, Attrs: kernels.WinogradConvAttrs{Pad: a.Pad, Bias: a.Bias, Act: a.Act}}, true
}

// tiles returns the number of tiles of 2x2 pixels of the result.
func (v *convolution) tiles() int { return v.b * ceilDiv(v.out[0], 2) * ceilDiv(v.out[1], 2) }

// readsPanels reports whether panels of columns lie within panels of prepacked weights: on all levels
// but Portable.
func readsPanels(s *gemm.Kernels) bool { return kernels.WinogradPanel%s.Cols == 0 }

// newPrepacked returns the geometry of a WinogradConv.
func newPrepacked(d *Device, attrs any, in, out []kernels.Spec) convolution {
	a, u := attrs.(kernels.WinogradConvAttrs), in[1].Shape
	one := [2]int{1, 1}
	plain := kernels.ConvAttrs{Stride: one, Dilation: one, Pad: a.Pad, Groups: 1, Bias: a.Bias}
	w := kernels.Spec{Type: in[1].Type, Shape: kernels.Shape{u[0] * u[3], u[2], 3, 3}}
	return newConvolution(d, kernels.Conv, plain, []kernels.Spec{in[0], w}, out)
}

// supportsPrepacked returns an error that wraps ErrUnsupported for WinogradWeight and WinogradConv on
// Portable, and for a WinogradConv of more tiles than turned products have, or of images of fewer
// pixels than a vector has.
func (d *Device) supportsPrepacked(op *kernels.Op, attrs any, in, out []kernels.Spec) error {
	if !readsPanels(gemm.For(d.level, out[0].Type)) {
		return fmt.Errorf("cpu: %s with %v instructions: use conv: %w", op.Name, d.instructions, kernels.ErrUnsupported)
	}
	if op == kernels.WinogradWeight {
		return nil
	}
	v := newPrepacked(d, attrs, in, out)
	if n, most := v.tiles(), fewTiles(v.kernels); n > most {
		return fmt.Errorf("cpu: winogradConv of %d tiles, at most %d: use conv: %w", n, most, kernels.ErrUnsupported)
	}
	if n, least := v.out[0]*v.out[1], conv.For(v.kernels).Lanes; v.b > 0 && n < least {
		return fmt.Errorf("cpu: winogradConv of %d pixels, at least %d: use conv: %w", n, least, kernels.ErrUnsupported)
	}
	return nil
}

// winogradConvWork returns the workspace of a WinogradConv in bytes: what workers pack.
func winogradConvWork(d *Device, attrs any, in, out []kernels.Spec) int64 {
	v := newPrepacked(d, attrs, in, out)
	return turnedWorkersBytes(v.kernels, int64(v.workers(d.pool.threads())), v.og, v.cg)
}

// bindWinogradConv prepares turned products.
func bindWinogradConv(b *binding) (func(), error) {
	v := newPrepacked(b.dev, b.Attrs, kernels.Specs(b.In), kernels.Specs(b.Out))
	if v.b == 0 {
		return nil, nil
	}
	a, pool := b.Attrs.(kernels.WinogradConvAttrs), b.dev.pool
	x := v.winoForward(b)
	if a.Bias {
		x.bias, x.flags = b.bytes(b.In[2]), gemm.FlagBias
	}
	if a.Act != nil {
		x.flags |= gemm.FlagRelu
	}
	x.setWorkers(v.workers(pool.threads()))
	x.turned = &winoTurned{weights: prepackedWeights(v.kernels, b.bytes(b.In[1]), v.cg)}
	x.bindTiles(b.work())
	return func() { x.run(pool) }, nil
}

// prepackedWeights returns the transformed weights as WinogradWeight lays them out.
func prepackedWeights(s *gemm.Kernels, u []byte, channels int) turnedWeights {
	row := kernels.WinogradPanel * s.Size()
	plane := channels * row
	return turnedWeights{u: u, row: row, plane: plane, outs: kernels.WinogradPanel, panel: conv.WinogradPlaces * plane}
}

// winogradWeightWork returns the workspace of a WinogradWeight in bytes: what workers pack.
func winogradWeightWork(d *Device, _ any, in, out []kernels.Spec) int64 {
	return int64(d.pool.threads()) * int64(packedKernels(gemm.For(d.level, out[0].Type)))
}

// packedKernels returns the bytes of the kernels of a vector of outputs that are packed at once.
func packedKernels(s *gemm.Kernels) int {
	return winoChannels * winoTaps * conv.For(s).Lanes * s.Size()
}

// bindWinogradWeight prepares the transform: a task is a vector of outputs.
func bindWinogradWeight(b *binding) (func(), error) {
	s := gemm.For(b.dev.level, b.Out[0].Type)
	p := &turnedPacking{kernels: s, packer: conv.For(s), w: b.bytes(b.In[0]), channels: b.In[0].Shape[1]}
	for i := range winoTaps {
		p.taps = append(p.taps, int64(i*p.packer.Lanes*s.Size()))
	}
	dst, work, bytes := prepackedWeights(s, b.bytes(b.Out[0]), p.channels), b.work(), packedKernels(s)
	workers := make([]conv.WinogradWeight, b.dev.pool.threads())
	return b.parallelFor(b.In[0].Shape[0]/p.packer.Lanes, 1, func(lo, hi, worker int) {
		for i := lo; i < hi; i++ {
			p.run(&workers[worker], work[worker*bytes:][:bytes], &dst, i*p.packer.Lanes)
		}
	}), nil
}
