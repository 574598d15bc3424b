package trainer_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// wide is one matrix of 5,000 × 10,000: 50 million parameters.
func wide(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 5000)
	w := net.Param("wide/w", layers.Zeros{}, 5000, 10000)
	if err := net.Err(); err != nil {
		return trainer.Model{}, err
	}
	y := gorgonia.Must(gorgonia.Mul(x, w))
	return trainer.Model{Inputs: net.Inputs(), Output: y, Loss: gorgonia.Must(gorgonia.Mean(y)), Params: net.Params()}, nil
}

func TestAPlanOfFiftyMillionParametersIsArithmetic(t *testing.T) {
	const want = 4 * 4 * 50_000_000 // parameters, gradients, and two moments, of 4 bytes
	within(t, 10*time.Second, "a plan, which takes milliseconds on a quiet machine", func() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		plan, err := trainer.Plan(t.Context(), wide, trainer.Options{Batch: 1, Optimizer: optim.Adam{}})
		t.Logf("planned in %v", time.Since(start))
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Error(err)
			return
		}
		var got int64
		for _, r := range plan.Regions {
			if slices.Contains([]string{"parameters", "gradients", "optimizer state"}, r.Name) {
				got += r.Bytes
			}
		}
		if got != want || plan.Total < want || plan.Total > want+want/100 {
			t.Errorf("parameters, gradients and state have %d bytes, the plan %d; want %d, and less than 1 %% more", got, plan.Total, want)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 10<<20 {
			t.Errorf("planning made %d bytes of heap objects", n)
		}
	})
}

// What a step of a thousand operations is to compute again is found in about a second, 10 where the machine has other work.
func TestAThousandOperationsAreComputedAgainInASecond(t *testing.T) {
	if cputest.Race {
		t.Skip("takes ten times as long under the race detector")
	}
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 64)
		h := x
		for i := range 110 {
			h = net.Dense(h, fmt.Sprint("hidden", i), 64, layers.Tanh)
		}
		return net.Classifier(x, net.Dense(h, "out", 10, nil))
	}
	opt := trainer.Options{Batch: 256, Optimizer: optim.Adam{}}
	plain, err := trainer.Plan(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	scratch := plain.Category("scratch")
	opt.Recompute.Auto, opt.Memory = true, plain.Total-scratch+scratch/4
	within(t, 10*time.Second, "a plan with recomputation", func() {
		start := time.Now()
		plan, err := trainer.Plan(t.Context(), model, opt)
		if err != nil {
			t.Error(err)
			return
		}
		n := plain.Programs[0].Instructions
		t.Logf("%d instructions planned in %v", n, time.Since(start))
		if n < 1000 || plan.Total > opt.Memory {
			t.Errorf("%d instructions in %d bytes of %d", n, plan.Total, opt.Memory)
		}
	})
}

func TestLargerBatchesRunInTheirPlansToo(t *testing.T) {
	parallel(t)
	each(t, func(t *testing.T, dev kernels.Device) {
		step := 7
		if !dev.Unified() { // on the slow one
			step = 21
		}
		if testing.Short() {
			step = 73
		}
		ds := samples(t, 600, 4, 3)
		for batch := 1; batch <= 512; batch += step {
			opt := trainer.Options{Batch: batch, Optimizer: optim.Adam{}, Fields: ds.Fields(), Device: dev}
			plan, err := trainer.Plan(t.Context(), small, opt)
			if err != nil {
				t.Fatal(err)
			}
			opt.Memory = plan.Total
			tr := made(t, small, opt)
			if res := fit(t, tr, ds); res.Samples != 600 || tr.Stats().Arena.Reserved != plan.Total {
				t.Errorf("batch %d: %d samples in %d bytes, want 600 in %d", batch, res.Samples, tr.Stats().Arena.Reserved, plan.Total)
			}
			if err := tr.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestABudgetBetweenTwoOptimizersIsRefusedBeforeAnySampleIsRead(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := &recorder{Dataset: samples(t, 20, 4, 3)}
		for _, opt := range []trainer.Options{{Fields: ds.Fields()}, {Resident: []dataloader.Dataset{ds}}} {
			opt.Device, opt.Batch = dev, 8
			sgd, err := trainer.Plan(t.Context(), small, opt)
			if err != nil {
				t.Fatal(err)
			}
			opt.Optimizer = optim.Adam{}
			adam, err := trainer.Plan(t.Context(), small, opt)
			if err != nil {
				t.Fatal(err)
			}
			opt.Memory = (sgd.Total + adam.Total) / 2
			if _, err := trainer.New(t.Context(), small, opt); !errors.Is(err, arena.ErrCapacity) || sgd.Total >= adam.Total {
				t.Errorf("Adam in %d bytes, of %d: got %v, want ErrCapacity", opt.Memory, adam.Total, err)
			}
			if read := ds.take(); len(read) > 0 {
				t.Errorf("samples %v were read", read)
			}
			opt.Optimizer = nil
			tr := made(t, small, opt)
			fit(t, tr, ds)
			if read := ds.take(); len(read) != 20 {
				t.Errorf("SGD read %d samples, want 20", len(read))
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAPlanForADeviceIsWhatItReservesAndTakesNothing(t *testing.T) {
	dev := cputest.Open(t, cpu.Options{})
	defer dev.Close()
	opt := trainer.Options{Device: dev, Batch: 32, Optimizer: optim.Adam{}}
	plan, err := trainer.Plan(t.Context(), digits, opt)
	if err != nil {
		t.Fatal(err)
	}
	if bytes, blocks := dev.Allocated(); bytes != 0 || blocks != 0 {
		t.Errorf("a plan left %d bytes in %d blocks", bytes, blocks)
	}
	tr := made(t, digits, opt)
	if got := tr.Stats().Arena.Reserved; got != plan.Total {
		t.Errorf("%d bytes reserved, planned %d", got, plan.Total)
	}
	if bytes, blocks := dev.Allocated(); bytes != plan.Total || blocks != 1 {
		t.Errorf("%d bytes in %d blocks, want the plan's %d in one", bytes, blocks, plan.Total)
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
}

func TestHooksCostNoMemoryAndOnlyKeepDoes(t *testing.T) {
	plan := func(opt trainer.Options) string {
		opt.Batch = 64
		p, err := trainer.Plan(t.Context(), small, opt)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%+v", *p)
	}
	bare := plan(trainer.Options{})
	if got := plan(trainer.Options{Progress: func(trainer.Progress) {}, Keep: []string{}}); got != bare {
		t.Errorf("with a hook, and nothing kept: %s\nwithout: %s", got, bare)
	}
	if got := plan(trainer.Options{Keep: []string{"hidden/act"}}); got == bare {
		t.Error("a node that is kept does not show in the plan")
	}
}
