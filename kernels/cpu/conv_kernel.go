package cpu

import (
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/conv"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// winoWeights is the first half of a winograd: a task transforms the weights of some rows.
type winoWeights struct{ *winograd }

// do computes task i.
func (x winoWeights) do(i, worker int) {
	for row := i * winoWeightRows; row < min((i+1)*winoWeightRows, x.groups*x.rows); row++ {
		x.row(row, worker)
	}
}

// row transforms the weights of row i, counted over all groups.
func (x winoWeights) row(i, worker int) {
	w, size := &x.workers[worker].weight, x.kernels.Size()
	group, row := i/x.rows, i%x.rows
	w.Src, w.Taps, w.Plane = x.workers[worker].packed, x.taps, x.planeU
	src, next := x.w[group*x.groupW+row*x.rowW:], x.channelW
	if x.convertW != nil {
		x.convertW(x.workers[worker].w, src, x.channels, next, winoTaps, winoTaps*gemm.PackedSize)
		src, next = x.workers[worker].w, winoTaps*gemm.PackedSize
	}
	for c := 0; c < x.channels; c += x.packer.Lanes {
		w.N = min(x.packer.Lanes, x.channels-c)
		x.kernels.PackCols(w.Src, src[c*next:], winoTaps, next, w.N, x.packer.Lanes*size)
		w.Dst = x.u[group*conv.WinogradPlaces*x.planeU+row*x.rowU+c*size:]
		x.packer.WinogradWeight(w)
	}
}
