package trainer_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// digitsMLP is 784-512-256-10.
func digitsMLP(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 784)
	return net.Classifier(x, nets.DigitsMLP(net, x))
}

// digitsCNN is the network of examples/cnn.
func digitsCNN(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 1, 28, 28)
	return net.Classifier(x, nets.DigitsCNN(net, x, 0.25))
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
