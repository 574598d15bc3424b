package cpu_test

import (
	"bytes"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

func TestDecodingIsTheSameBitsAtEveryLevel(t *testing.T) {
	r, seed := random(t)
	for _, typ := range []arena.DType{arena.Uint8, arena.Int32, arena.Int64, arena.Float32, arena.Float64} {
		for _, n := range []int{1, 7, 8, 9, 31, 1000, 20_001} {
			in := []kernels.Spec{{Type: typ, Shape: kernels.Shape{n}}}
			data, v := make([]byte, in[0].Bytes()), make([]float64, n)
			for i := range v {
				v[i] = float64(r.IntN(256))
			}
			kernels.Store(data, typ, v)
			attrs := kernels.DecodeAttrs{To: arena.Float32, Scale: r.Float64() / 255, Shift: -r.Float64()}
			var want []byte
			for _, level := range cpu.Levels() {
				_, got := eval(t, open(t, cpu.Options{Threads: 1, Instructions: level}), kernels.Decode, attrs, in, [][]byte{data})
				if want == nil {
					want = got
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%d of %v with %+v: other bits at %v than portable (seed %v)", n, typ, attrs, level, seed)
				}
			}
		}
	}
}
