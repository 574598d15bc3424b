package trainer_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// digitsMLP is 784-512-256-10.
func digitsMLP(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 784)
	h := net.Dense(x, "hidden1", 512, layers.ReLU)
	h = net.Dense(h, "hidden2", 256, layers.ReLU)
	return net.Classifier(x, net.Dense(h, "out", 10, nil))
}

// digitsCNN is the network of examples/cnn.
func digitsCNN(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	filters := layers.Conv2D{Out: 32, Kernel: layers.Square(3), Pad: layers.Square(1)}
	x := net.Input("x", batch, 1, 28, 28)
	h := net.MaxPool(net.Conv(x, "conv1", filters, layers.ReLU), "pool1", halve)
	filters.Out = 64
	h = net.MaxPool(net.Conv(h, "conv2", filters, layers.ReLU), "pool2", halve)
	h = net.Dense(net.Flatten(h, "flat"), "hidden", 128, layers.ReLU)
	h = net.Dropout(h, "dropout", 0.25)
	return net.Classifier(x, net.Dense(h, "out", 10, nil))
}

// BenchmarkPredictor predicts single rows, from 1, 8 and 64 goroutines at once; an operation is one
// call.
func BenchmarkPredictor(b *testing.B) {
	for _, model := range []struct {
		name string
		f    trainer.ModelFunc
	}{{"mlp", digitsMLP}, {"cnn", digitsCNN}} {
		for _, callers := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d", model.name, callers), func(b *testing.B) {
				dev, err := cpu.Open(cpu.Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer dev.Close()
				p := predictor(b, model.f, trainer.PredictorOptions{Device: dev, Batch: 64})
				defer p.Close()
				var left atomic.Int64
				left.Store(int64(b.N))
				var all sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				for range callers {
					all.Go(func() {
						x, dst := make([]float32, 784), make([]float32, 10)
						for left.Add(-1) >= 0 {
							if err := p.Predict(b.Context(), dst, x); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
				s := p.Stats()
				b.ReportMetric(float64(s.Rows)/float64(s.Batches), "rows/batch")
			})
		}
	}
}
