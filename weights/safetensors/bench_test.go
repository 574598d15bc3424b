package safetensors_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// benchBytes is the size of the file of the benchmarks.
const benchBytes = 100 << 20

// What a checksum costs: the writer with one, without one, and a copy of the bytes.
func BenchmarkWriter(b *testing.B) {
	data := make([]byte, benchBytes)
	for i := range data {
		data[i] = byte(i * 7)
	}
	tensors := []safetensors.Tensor{{Name: "a", DType: safetensors.Uint8, Shape: []int{benchBytes}}}
	for name, metadata := range map[string]map[string]string{"checksum": {safetensors.ChecksumKey: ""}, "none": nil} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(benchBytes)
			for b.Loop() {
				w, err := safetensors.NewWriter(io.Discard, tensors, metadata)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := w.Write(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(benchBytes)
		dst := make([]byte, benchBytes)
		for b.Loop() {
			copy(dst, data)
		}
	})
	file := written(b, map[string]string{safetensors.ChecksumKey: ""}, safetensors.Tensor{Name: "a", DType: safetensors.Uint8, Shape: []int{1 << 20}})
	b.Run("verify 1 MiB", func(b *testing.B) {
		b.SetBytes(1 << 20)
		f, err := safetensors.NewFile(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := f.Verify(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
