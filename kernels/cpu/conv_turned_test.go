package cpu_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// Few tiles of 2x2 pixels are multiplied the other way around, see conv_turned.go.
func TestConvolutionOfFewTilesHasTheBitsOfMany(t *testing.T) {
	t.Parallel()
	const many = 24
	fill := func(_ *rand.Rand, operand int, v []float64) {
		own := rand.New(rand.NewPCG(uint64(operand), 5)) // so that a smaller batch is the begin of a larger one
		for i := range v {
			v[i] = own.NormFloat64()
		}
		if operand == 0 {
			v[7] = math.Inf(1)
		}
	}
	for _, level := range []cpu.Instructions{cpu.AVX512, cpu.AVX2, cpu.Portable} {
		for _, threads := range []int{1, 3} {
			d, err := cpu.Open(cpu.Options{Threads: threads, Instructions: level})
			if err != nil {
				continue // the processor lacks them
			}
			defer d.Close()
			for _, g := range []geometry{
				{1, 32, 64, 14, 3, 1, 1, 1, 1},
				{2, 33, 96, 7, 3, 1, 1, 1, 1}, // two images, whose last row and column is half
				{1, 40, 96, 5, 3, 1, 1, 1, 1},
				{1, 40, 96, 4, 3, 1, 1, 1, 1}, // in plain Go
				{1, 35, 96, 9, 3, 1, 0, 1, 1},
				{1, 33, 96, 13, 3, 1, 1, 1, 1}, // two panels of whole rows of tiles
				{3, 33, 96, 7, 3, 1, 1, 1, 1},
				{1, 33, 96, 15, 3, 1, 0, 1, 1},
			} {
				for _, typ := range floats {
					for _, act := range []*kernels.Op{nil, kernels.ReLU} {
						run := func(batch int) []byte {
							g := g
							g.batch = batch
							attrs, in := g.call(kernels.Conv, typ)
							a := attrs.(kernels.ConvAttrs)
							if a.Act = act; act != nil {
								a.Bias = true
								in = append(in, kernels.Spec{Type: typ, Shape: kernels.Shape{g.out}})
							}
							u := newUse(t, newRand(), d, kernels.Conv, kernels.Case{Attrs: a, In: in, Fill: fill})
							defer u.close(t)
							for range 2 { // each launch restores the memory, the workspace too
								u.launch(t)
							}
							return bytes.Clone(u.results()[0])
						}
						few, all := run(g.batch), run(many)
						if !sameNumbers(typ, few, all[:len(few)]) {
							t.Errorf("%v, %d threads, %v of %v: the images have other bits in a batch of %d", level, threads, g, typ, many)
						}
					}
				}
			}
		}
	}
}

// sameNumbers reports whether a and b are the same bits, or not a number in the same places.
func sameNumbers(typ arena.DType, a, b []byte) bool {
	n := len(a) / int(typ.Size())
	x, y := make([]float64, n), make([]float64, n)
	kernels.Load(x, typ, a)
	kernels.Load(y, typ, b)
	for i := range x {
		if math.Float64bits(x[i]) != math.Float64bits(y[i]) && !(math.IsNaN(x[i]) && math.IsNaN(y[i])) {
			return false
		}
	}
	return true
}
