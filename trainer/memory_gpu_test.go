//go:build gpu && cgo

package trainer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cudatest"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels/cuda"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// emulated skips a test of what only the emulated driver can be told to do.
func emulated(t *testing.T) {
	t.Helper()
	if !fakecuda.Loaded() {
		t.Skip("needs package fakecuda's driver, on which nobody else allocates and calls fail on demand")
	}
}

// blockBytes is what an allocation of the emulated driver, and of NVIDIA's, is rounded up to.
const blockBytes = 512

// A GPU of which only the plan is free has no room for the compiled kernels, which the driver keeps outside of the arena. That shows when
// they are loaded, after the arena: New says so and leaves nothing. With less than the plan free, New asks for nothing at all.
func TestAGPUWithRoomForThePlanAndItsKernelsIsEnough(t *testing.T) {
	gpu(t, "poison", 0, 1) // of nearly all memory
	dev, ds := cudatest.OpenChecked(t, cuda.Options{}), samples(t, 13, 4, 3)
	opt := trainer.Options{Device: dev, Batch: 50, Optimizer: optim.Adam{}, Fields: ds.Fields()}
	plan, err := trainer.Plan(t.Context(), small, opt)
	if err != nil {
		t.Fatal(err)
	}
	need := (plan.Total + blockBytes - 1) / blockBytes * blockBytes
	leave := func(bytes int64) arena.Memory {
		m, err := dev.Alloc(free(t, dev) - bytes)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	other := leave(need + 64<<10)
	tr := made(t, small, opt)
	fit(t, tr, ds)
	evaluate(t, tr, ds)
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	var e *trainer.CapacityError
	kernels := leave(need)
	if _, err := trainer.New(t.Context(), small, opt); !errors.Is(err, arena.ErrCapacity) || errors.As(err, &e) || !strings.Contains(err.Error(), "module") {
		t.Errorf("without room for kernels: got %v, want arena.ErrCapacity about a module", err)
	}
	if got := free(t, dev); got != need {
		t.Errorf("%d bytes are free after the refusal, %d before", got, need)
	}
	block := leave(need - blockBytes)
	before := countCUDA(dev)
	if _, err := trainer.New(t.Context(), small, opt); !errors.As(err, &e) || e.Need != plan.Total || e.Have != need-blockBytes {
		t.Errorf("with a block less: got %v, want a CapacityError: need %d, have %d", err, plan.Total, need-blockBytes)
	}
	if after := countCUDA(dev); after != before {
		t.Errorf("a refused plan touched the device: %+v, before %+v", after, before)
	}
	for _, m := range []arena.Memory{other, kernels, block} {
		if err := m.Free(); err != nil {
			t.Error(err)
		}
	}
	fit(t, made(t, small, opt), ds)
}

// Where the driver refuses the arena, although it has said that there is room, New asks it nothing more than how much there is.
func TestARefusedArenaEndsNewOnAGPU(t *testing.T) {
	emulated(t)
	dev, ds := cudatest.OpenChecked(t, cuda.Options{}), samples(t, 13, 4, 3)
	questions := func() (n uint64) {
		for _, name := range []string{"cuCtxSetCurrent", "cuMemGetInfo", "cuGetErrorName"} {
			n += fakecuda.Calls(name)
		}
		return n
	}
	asked, calls := questions(), fakecuda.Calls("")
	const outOfMemory = 2
	if err := fakecuda.Fail("cuMemAlloc", 1, outOfMemory); err != nil {
		t.Fatal(err)
	}
	opt := trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields()}
	_, err := trainer.New(t.Context(), small, opt)
	var e *cuda.DriverError
	if !errors.Is(err, arena.ErrCapacity) || !errors.As(err, &e) || e.Call != "cuMemAlloc" {
		t.Errorf("got %v, want the driver's error about cuMemAlloc, and arena.ErrCapacity", err)
	}
	asked, calls = questions()-asked, fakecuda.Calls("")-calls
	if calls-asked != 1 {
		t.Errorf("%d calls beside questions, want one of cuMemAlloc", calls-asked)
	}
	fit(t, made(t, small, opt), ds) // nothing is wrong with the device
}

// huge has a parameter of so many bytes.
func huge(bytes int64) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 16)
		return meanProduct(net, x, net.Param("layer/w", layers.Ones{}, 16, int(bytes/16/4)))
	}
}

func TestTwiceTheMemoryOfAGPUIsRefusedWithItsNumbers(t *testing.T) {
	emulated(t)
	dev, ds := cudatest.OpenChecked(t, cuda.Options{}), samples(t, 13, 4, 3)
	tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Keep: weights})
	want := fit(t, tr, ds)
	info, err := dev.Info()
	if err != nil {
		t.Fatal(err)
	}
	before := countCUDA(dev)
	within(t, 10*time.Second, "a refusal, which takes milliseconds on a quiet machine", func() {
		var e *trainer.CapacityError
		_, err = trainer.New(t.Context(), huge(2*info.Total), trainer.Options{Device: dev, Batch: 1})
		if !errors.As(err, &e) || e.Need < 2*info.Total || e.Have != info.Free || e.Total != info.Total {
			t.Errorf("got %v, want a CapacityError: more than %d needed, %d free of %d", err, 2*info.Total, info.Free, info.Total)
		}
		_, err = dev.Alloc(2 * info.Total)
	})
	for _, n := range []int64{2 * info.Total, info.Free, info.Total} {
		if !errors.Is(err, arena.ErrCapacity) || !strings.Contains(err.Error(), fmt.Sprint(n)) {
			t.Errorf("alloc: got %v, want %d in it", err, n)
		}
	}
	after := countCUDA(dev)
	after.allocs = before.allocs // the driver was asked for the bare block
	if after != before {
		t.Errorf("refusals changed the device: %+v, before %+v", after, before)
	}
	if got := fit(t, tr, ds); got.Samples != 13 || !(got.Loss < want.Loss) {
		t.Errorf("after the refusals the first trainer has %+v, before %+v", got, want)
	}
}

func TestAPlanForAGPUSaysWhatTheContextTakes(t *testing.T) {
	gpu(t, "context", 3<<20, 1<<20)
	dev := cudatest.OpenChecked(t, cuda.Options{})
	opt := trainer.Options{Device: dev, Batch: 4}
	plan, err := trainer.Plan(t.Context(), small, opt)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Context != 3<<20 || !strings.Contains(plan.String(), "device context") {
		t.Errorf("%d bytes of context, want %d, in\n%v", plan.Context, 3<<20, plan)
	}
	made(t, small, opt)
	info, err := dev.Info()
	if err != nil || info.Context != plan.Context {
		t.Errorf("with a trainer on it the device says %d bytes of context, want %d (%v)", info.Context, plan.Context, err)
	}
}

// What is free on a GPU is the same after each of 2,000 steps as it was when New returned; where there is a short batch, whose program is made
// in the first epoch, as after that.
func TestFreeMemoryOfAGPUIsTheSameAfterEveryStep(t *testing.T) {
	steps := 2000
	if testing.Short() {
		steps = 300
	}
	for name, c := range map[string]struct {
		graphs   cuda.Graphs
		resident bool
		tail     int
	}{
		"graphs": {}, "launches": {graphs: cuda.Never}, "resident": {resident: true}, "short batch": {tail: 3}, "resident, launches, short batch": {cuda.Never, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			dev, ds := cudatest.OpenChecked(t, cuda.Options{Graphs: c.graphs}), samples(t, 4*50+c.tail, 4, 3)
			opt := trainer.Options{Device: dev, Batch: 4, Optimizer: optim.Adam{}, Fields: ds.Fields()}
			if c.resident {
				opt.Fields, opt.Resident = nil, []dataloader.Dataset{ds}
			}
			want, seen := int64(-1), 0
			opt.Progress = func(p trainer.Progress) {
				seen++
				if got := free(t, dev); want >= 0 && got != want {
					t.Fatalf("epoch %d step %d: %d bytes are free, %d before", p.Epoch, p.Step, got, want)
				}
			}
			tr := made(t, small, opt)
			if c.tail == 0 {
				want = free(t, dev)
			}
			for seen < steps {
				fit(t, tr, ds)
				evaluate(t, tr, ds)
				if want < 0 {
					want = free(t, dev)
				}
			}
		})
	}
}

// On a GPU of 108 multiprocessors a step's scratch, with the workspaces of its kernels, stays below limits that are 5 % above what it needs.
func TestStepsStayWithinTheirMemoryOnAGPU(t *testing.T) {
	gpu(t, "processors", 108, 8)
	dev := cudatest.OpenChecked(t, cuda.Options{})
	for _, c := range []struct {
		name    string
		model   trainer.ModelFunc
		batch   int
		scratch int64 // limit, bytes
	}{
		{"perceptron", perceptronNet, 128, 1_101_000},
		{"digits", digitsNet, 64, 9_195_000},
		{"pictures", picturesNet, 64, 108_869_000},
	} {
		plan, err := trainer.Plan(t.Context(), c.model, trainer.Options{Batch: c.batch, Device: dev})
		if err != nil {
			t.Fatal(err)
		}
		p := plan.Programs[0]
		if p.Scratch > c.scratch {
			t.Errorf("%s: %d bytes of scratch, at most %d are allowed; %d are live at %s", c.name, p.Scratch, c.scratch, p.Live, p.LiveAt)
		}
	}
}
