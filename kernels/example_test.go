package kernels_test

import (
	"fmt"
	"log"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// A matrix product by its reference, in float64 and without a device.
func ExampleEval() {
	matrix := func(rows, columns int, data ...float64) kernels.Tensor {
		return kernels.Tensor{Spec: kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{rows, columns}}, Data: data}
	}
	a, b := matrix(2, 2, 1, 2, 3, 4), matrix(1, 2, 10, 1)
	out, err := kernels.Eval(kernels.MatMul, kernels.MatMulAttrs{TransB: true}, []kernels.Tensor{a, b})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out[0].Spec, out[0].Data)
	_, err = kernels.Eval(kernels.MatMul, kernels.MatMulAttrs{}, []kernels.Tensor{a, b})
	fmt.Println(err)
	// Output:
	// float32 (2, 1) [12 34]
	// matmul: (2, 2) and (1, 2) do not multiply (transposed: false, false): 2 against 1: shapes do not fit
}
