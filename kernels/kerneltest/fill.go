package kerneltest

import (
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/kernels"
)

// Fill returns random operands for a case, rounded to their types.
func Fill(r *rand.Rand, c kernels.Case) []kernels.Tensor {
	in := make([]kernels.Tensor, len(c.In))
	for k, s := range c.In {
		data := make([]float64, s.Shape.Elems())
		switch {
		case c.Fill != nil:
			c.Fill(r, k, data)
		case s.Type.Float():
			for i := range data {
				data[i] = r.NormFloat64()
			}
		}
		in[k] = kernels.Tensor{Spec: s, Data: data}
		round(in[k])
	}
	return in
}

// round rounds the elements of x to its type.
func round(x kernels.Tensor) {
	b := make([]byte, x.Bytes())
	kernels.Store(b, x.Type, x.Data)
	kernels.Load(x.Data, x.Type, b)
}
