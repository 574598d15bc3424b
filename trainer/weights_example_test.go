package trainer_test

import (
	"context"
	"fmt"
	"log"

	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
)

// A bias is set, and read as numbers.
func ExampleParam_WriteFloat32() {
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	t, err := trainer.New(context.Background(), xor, trainer.Options{Device: device, Batch: 4, Fields: xorData().Fields()})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	params, err := t.Params()
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range params {
		if p.Name != "out/b" {
			continue
		}
		if err := p.WriteFloat32([]float32{0.5, -1}); err != nil {
			log.Fatal(err)
		}
		bias := make([]float64, 2)
		if err := p.ReadFloat64(bias); err != nil {
			log.Fatal(err)
		}
		fmt.Println(p.Name, p.Spec, bias)
	}
	// Output:
	// out/b float32 (2) [0.5 -1]
}

// All weights of one step are read, piece by piece, also while another goroutine trains.
func ExampleTrainer_ReadWeights() {
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	t, err := trainer.New(context.Background(), xor, trainer.Options{Device: device, Batch: 4, Fields: xorData().Fields()})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	buffer := make([]byte, 16)
	err = t.ReadWeights(context.Background(), func(w trainer.Weights) error {
		for _, x := range t.Weights() {
			n := int64(0)
			for ; n < x.Spec.Bytes(); n += int64(len(buffer)) {
				piece := buffer[:min(int64(len(buffer)), x.Spec.Bytes()-n)]
				if err := w.ReadAt(x.Name, piece, n); err != nil {
					return err
				}
			}
			fmt.Println(x.Name, x.Spec)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// hidden/w float32 (2, 16)
	// hidden/b float32 (16)
	// out/w float32 (16, 2)
	// out/b float32 (2)
}
