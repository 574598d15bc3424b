package trainer_test

import (
	"fmt"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// perceptronNet is 784-512-256-10 with rectifiers.
func perceptronNet(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 784)
	h := net.Dense(x, "hidden1", 512, layers.ReLU)
	h = net.Dense(h, "hidden2", 256, layers.ReLU)
	return net.Classifier(x, net.Dense(h, "out", 10, nil))
}

var (
	three = layers.Conv2D{Kernel: layers.Square(3), Pad: layers.Square(1)}
	halve = layers.Pool{Kernel: layers.Square(2), Stride: layers.Square(2)}
)

// digitsNet is [conv 3×3, relu, max pooling]×2 and two dense layers, for 28×28.
func digitsNet(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 1, 28, 28)
	h := x
	for i, out := range []int{32, 64} {
		c := three
		c.Out = out
		h = net.Conv(h, fmt.Sprint("conv", i), c, layers.ReLU)
		h = net.MaxPool(h, fmt.Sprint("pool", i), halve)
	}
	h = net.Dense(net.Flatten(h, "flat"), "hidden", 128, layers.ReLU)
	return net.Classifier(x, net.Dense(h, "out", 10, nil))
}

// picturesNet is [conv 3×3, batch norm, relu]×2 at 64, 128 and 256 channels, with max pooling between, for 3×32×32.
func picturesNet(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 3, 32, 32)
	h := x
	for i, out := range []int{64, 128, 256} {
		if i > 0 {
			h = net.MaxPool(h, fmt.Sprint("pool", i), halve)
		}
		for k := range 2 {
			c := three
			c.Out, c.NoBias = out, true
			h = net.Conv(h, fmt.Sprintf("conv%d%d", i, k), c, nil)
			h = net.BatchNorm(h, fmt.Sprintf("norm%d%d", i, k), layers.ReLU)
		}
	}
	return net.Classifier(x, net.Dense(net.GlobalAvgPool(h, "mean"), "out", 10, nil))
}

// A step's scratch and gradients stay below limits that are 5 % above what AVX-512 kernels on two threads need with their workspaces. live is
// what must be there at once, whatever the device: a golden number, to be lowered by hand.
func TestStepsStayWithinTheirMemory(t *testing.T) {
	dev := cputest.Open(t, cpu.Options{Threads: 2})
	t.Cleanup(func() { dev.Close() })
	for _, c := range []struct {
		name               string
		model              trainer.ModelFunc
		batch              int
		live               int64 // bytes of scratch
		scratch, gradients int64 // limits, bytes, with the workspaces of the host's kernels
		guard              trainer.Guard
		optimizer          optim.Optimizer
	}{
		{"perceptron", perceptronNet, 128, 655_360, 757_000, 2_200_000, trainer.GuardStep, nil},
		{"perceptron, GuardEach", perceptronNet, 128, 786_432, 1_015_000, 0, trainer.GuardEach, nil},
		{"perceptron, GuardEach, Adam", perceptronNet, 128, 786_432, 1_015_000, 0, trainer.GuardEach, optim.Adam{}},
		{"digits", digitsNet, 64, 8_429_568, 8_851_000, 1_700_000, trainer.GuardStep, nil},
		{"pictures", picturesNet, 64, 100_211_712, 108_216_000, 4_600_000, trainer.GuardStep, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			bare, err := trainer.Plan(t.Context(), c.model, trainer.Options{Batch: c.batch, Guard: c.guard, Optimizer: c.optimizer})
			if err != nil {
				t.Fatal(err)
			}
			if got := bare.Programs[0].Live; got != c.live {
				t.Errorf("%d bytes of scratch are live at %s, want %d", got, bare.Programs[0].LiveAt, c.live)
			}
			plan, err := trainer.Plan(t.Context(), c.model, trainer.Options{Batch: c.batch, Guard: c.guard, Optimizer: c.optimizer, Device: dev})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range plan.Regions {
				limit, ok := map[string]int64{"scratch": c.scratch, "gradients": c.gradients}[r.Name]
				if ok && r.Size > limit {
					t.Errorf("%s: %d bytes, at most %d are allowed", r.Name, r.Size, limit)
				}
			}
			t.Logf("scratch %d bytes, %d live at %s", plan.Programs[0].Scratch, plan.Programs[0].Live, plan.Programs[0].LiveAt)
		})
	}
}
