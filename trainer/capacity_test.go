package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// TestPlanIsExact runs every batch size, and every optimizer, in exactly the planned bytes, and is refused one byte below. A batch size has a third
// of the optimizers. A refusal looks for the batch that fits, which takes a while: each batch size is refused with one optimizer.
func TestPlanIsExact(t *testing.T) {
	parallel(t)
	ds := samples(t, 67, 4, 3)
	for i, o := range optimizers() {
		each(t, func(t *testing.T, dev kernels.Device) {
			first, step := 1, 1
			if testing.Short() || dev.Name() != "cpu" {
				first, step = 1+i, 9
			}
			for batch := first; batch <= 64; batch += step {
				refused := batch%len(optimizers()) == i
				if step == 1 && (batch+i)%3 > 0 && !refused {
					continue
				}
				opt := trainer.Options{Batch: batch, Optimizer: o.Optimizer, Fields: ds.Fields(), Device: dev}
				plan, err := trainer.Plan(t.Context(), small, opt)
				if err != nil {
					t.Fatal(err)
				}
				opt.Memory = plan.Total
				tr := made(t, small, opt)
				fit(t, tr, ds)
				evaluate(t, tr, ds)
				if got := tr.Stats().Arena.Reserved; got != plan.Total {
					t.Fatalf("%s, batch %d: %d bytes reserved, planned %d", o.Name, batch, got, plan.Total)
				}
				if err := tr.Close(); err != nil {
					t.Fatal(err)
				}
				if opt.Memory--; refused {
					checkRefusal(t, opt, plan.Total)
				}
			}
		})
	}
}

// checkRefusal demands that opt is refused in full detail, and that the batch named in the error works.
func checkRefusal(t *testing.T, opt trainer.Options, total int64) {
	t.Helper()
	ds := samples(t, 67, 4, 3)
	_, err := trainer.New(t.Context(), small, opt)
	var e *trainer.CapacityError
	if !errors.As(err, &e) || !errors.Is(err, arena.ErrCapacity) {
		t.Fatalf("batch %d in %d of %d bytes: got %v, want a CapacityError", opt.Batch, opt.Memory, total, err)
	}
	if e.Need != total || e.Have != opt.Memory || e.Batch != opt.Batch || e.Fits >= opt.Batch {
		t.Fatalf("batch %d: need %d, have %d, batch %d, fits %d; want need %d, have %d", opt.Batch, e.Need, e.Have, e.Batch, e.Fits, total, opt.Memory)
	}
	var sum int64
	for _, r := range e.Plan.Regions {
		sum += r.Size
	}
	if sum != total {
		t.Errorf("batch %d: the regions add up to %d bytes, want %d", opt.Batch, sum, total)
	}
	top := e.Plan.Top(5)
	for i := 1; i < len(top); i++ {
		if top[i].Bytes > top[i-1].Bytes {
			t.Errorf("batch %d: %q with %d bytes comes after %q with %d", opt.Batch, top[i].Label(), top[i].Bytes, top[i-1].Label(), top[i-1].Bytes)
		}
	}
	text := err.Error()
	wants := []string{fmt.Sprint(total), fmt.Sprint(opt.Memory), "1 byte", "parameters", "gradients", "slot 0", "scratch"}
	for _, top := range top {
		wants = append(wants, fmt.Sprintf("%s %d (%s)", top.Label(), top.Bytes, top.Region))
	}
	if len(top) != 5 {
		t.Errorf("batch %d: %d largest, want 5", opt.Batch, len(top))
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("batch %d: %q does not contain %q", opt.Batch, text, want)
		}
	}
	if e.Fits == 0 {
		// Places are multiples of 256 bytes: small batches need as much as a batch of 1.
		p, err := trainer.Plan(t.Context(), small, trainer.Options{Batch: 1, Optimizer: opt.Optimizer, Fields: opt.Fields, Device: opt.Device})
		if err != nil || p.Total <= opt.Memory {
			t.Errorf("no batch would fit in %d bytes, but a batch of 1 needs %d (%v)", opt.Memory, p.Total, err)
		}
		return
	}
	opt.Batch = e.Fits
	tr, err := trainer.New(t.Context(), small, opt)
	if err != nil {
		t.Fatalf("the batch of %d that the error names: %v", e.Fits, err)
	}
	fit(t, tr, ds)
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
}

func TestDeviceOfExactlyThePlannedSizeIsEnough(t *testing.T) {
	for _, d := range targets {
		t.Run(d.name, func(t *testing.T) {
			ds := samples(t, 13, 4, 3)
			dev := d.open(t, 0)
			opt := trainer.Options{Device: dev, Batch: 50, Optimizer: optim.Adam{}, Fields: ds.Fields()}
			plan, err := trainer.Plan(t.Context(), small, opt)
			if err != nil {
				t.Fatal(err)
			}
			opt.Device = d.open(t, plan.Total)
			tr := made(t, small, opt)
			fit(t, tr, ds)
			evaluate(t, tr, ds)
			if err := tr.Close(); err != nil {
				t.Fatal(err)
			}
			short := d.open(t, plan.Total-1)
			before, counts := countOf(short)
			opt.Device = short
			var e *trainer.CapacityError
			_, err = trainer.New(t.Context(), small, opt)
			if !errors.As(err, &e) || e.Need-e.Have != 1 || e.Total != plan.Total-1 || !strings.Contains(err.Error(), "free of the device's") {
				t.Fatalf("one byte less: got %v, want a CapacityError about 1 byte of %d", err, plan.Total-1)
			}
			if after, _ := countOf(short); counts && after != before {
				t.Errorf("a refused plan touched the device: %+v, before %+v", after, before)
			}
			opt.Batch = e.Fits
			fit(t, made(t, small, opt), ds)
		})
	}
}

func TestARefusedArenaEndsNewWithoutAnotherCall(t *testing.T) {
	refused := errors.New("refused")
	var after []string
	done := false
	dev := emutest.OpenChecked(t, emu.Options{Fault: func(call string, n int) error {
		if done {
			after = append(after, call)
		}
		if call == "alloc" {
			done = true
			return refused
		}
		return nil
	}})
	if _, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Batch: 4}); !errors.Is(err, refused) {
		t.Errorf("got %v, want the device's error", err)
	}
	if len(after) > 0 {
		t.Errorf("calls after the refusal: %v", after)
	}
}

func TestOverBudgetIsAnsweredWithinASecond(t *testing.T) {
	dev := openCPU(t)
	start := time.Now()
	_, err := trainer.New(t.Context(), digits, trainer.Options{Device: dev, Batch: 4096, Optimizer: optim.Adam{}, Memory: 16 << 20})
	var e *trainer.CapacityError
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a CapacityError", err)
	}
	t.Logf("answered after %v: %v", time.Since(start), err)
	within(t, 10*time.Second, "an over-budget answer, which takes well under a second on a quiet machine", func() {
		_, err = trainer.New(t.Context(), digits, trainer.Options{Device: dev, Batch: 2048, Memory: 8 << 20})
	})
	if !errors.Is(err, arena.ErrCapacity) {
		t.Errorf("got %v, want ErrCapacity", err)
	}
}

func TestMaxBatchIsTheLargestThatFits(t *testing.T) {
	fields := samples(t, 1, 4, 3).Fields()
	plans := make(map[int]int64)
	for batch := 1; batch <= 40; batch++ {
		p, err := trainer.Plan(t.Context(), small, trainer.Options{Batch: batch, Fields: fields, Optimizer: optim.Adam{}})
		if err != nil {
			t.Fatal(err)
		}
		plans[batch] = p.Total
		if p.Total < plans[batch-1] {
			t.Errorf("batch %d needs %d bytes, batch %d %d: more", batch, p.Total, batch-1, plans[batch-1])
		}
	}
	for _, limit := range []int64{plans[1], plans[1] + 1, plans[17] - 1, plans[17], plans[39], 1 << 40} {
		want := 0
		for batch := 1; batch <= 30; batch++ {
			if plans[batch] <= limit {
				want = batch
			}
		}
		got, err := trainer.MaxBatch(t.Context(), small, trainer.Options{Memory: limit, Fields: fields, Optimizer: optim.Adam{}}, 30)
		if err != nil || got != want {
			t.Errorf("%d bytes: %d, %v; want %d", limit, got, err, want)
		}
	}
	if _, err := trainer.MaxBatch(t.Context(), small, trainer.Options{Memory: plans[1] - 1, Fields: fields, Optimizer: optim.Adam{}}, 30); !errors.Is(err, arena.ErrCapacity) {
		t.Errorf("a batch of 1 does not fit: got %v, want ErrCapacity", err)
	}
}

func TestMaxBatchTakesTheDevicesFreeMemoryAndChangesNothing(t *testing.T) {
	ds := samples(t, 50, 4, 3)
	each(t, func(t *testing.T, dev kernels.Device) {
		tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
		fit(t, tr, ds)
		before := outputs(t, tr, ds)
		use := inUse(tr)
		got, err := trainer.MaxBatch(t.Context(), small, trainer.Options{Device: dev, Fields: ds.Fields()}, 50)
		if err != nil || got != 50 {
			t.Errorf("got %d, %v; want the limit of 50", got, err)
		}
		if inUse(tr) != use {
			t.Errorf("%d bytes in use, %d before", inUse(tr), use)
		}
		same(t, "outputs", outputs(t, tr, ds), before)
	})
	dev := cputest.Open(t, cpu.Options{Memory: 20000})
	t.Cleanup(func() { dev.Close() })
	got, err := trainer.MaxBatch(t.Context(), small, trainer.Options{Device: dev, Fields: ds.Fields()}, 1000)
	if err != nil || got < 2 || got == 1000 {
		t.Fatalf("got %d, %v; want what fits in 20000 bytes", got, err)
	}
	fit(t, made(t, small, trainer.Options{Device: dev, Fields: ds.Fields(), Batch: got}), samples(t, 400, 4, 3))
}

func TestStateOfOptimizersIsCountedAndReservedBeforeTheFirstStep(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		// 67 parameters in 4 tensors; offsets are multiples of 256.
		// In bfloat16 four bytes a parameter, in bytes two and one float for each tensor, all of which are below 256 elements.
		for name, want := range map[string]int64{"adam16": 4 * 67, "adamw16": 4 * 67, "adam8": 2*67 + 4*4, "adamw8": 2*67 + 4*4, "sgd": 0, "momentum": 268, "nesterov": 268, "rmsprop": 268, "adam": 536, "adamw": 536, "lion": 268,
			"adafactor": 4 * ((4 + 8) + (8 + 1) + (8 + 3) + (3 + 1))} {
			o, err := optim.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Optimizer: o})
			var got int64
			for _, r := range tr.Plan().Regions {
				if r.Name == "optimizer state" {
					got = r.Bytes
				}
			}
			if got != want {
				t.Errorf("%s: %d bytes of state, want %d", name, got, want)
			}
		}
		for _, o := range optimizers() {
			if p, err := trainer.Plan(t.Context(), small, trainer.Options{Batch: 4, Optimizer: o.Optimizer}); err != nil || p.Category("gradients") == 0 {
				t.Errorf("%s: gradients %d bytes, %v", o.Name, p.Category("gradients"), err)
			}
		}
	})
}

func TestFrozenLayersCostNoGradientBytes(t *testing.T) {
	bytes := func(opt trainer.Options) (n int64) {
		opt.Batch = 4
		p, err := trainer.Plan(t.Context(), small, opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Regions {
			if r.Name == "gradients" {
				n = r.Bytes
			}
		}
		return n
	}
	if all, some := bytes(trainer.Options{}), bytes(trainer.Options{Frozen: []string{"hidden"}}); all != 268 || some != 27*4 {
		t.Errorf("%d bytes of gradients, %d with the first layer frozen; want 268 and 108", all, some)
	}
}

func TestPassesWithoutGradientsNeedTwoLayersNotAll(t *testing.T) {
	deep := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) { return stack(g, batch, 10, 32) }
	p, err := trainer.Plan(t.Context(), deep, trainer.Options{Batch: 64})
	if err != nil {
		t.Fatal(err)
	}
	layer := int64(64 * 32 * 4)
	for _, q := range p.Programs {
		if !strings.HasPrefix(q.Name, "train") && q.Scratch > 2*layer+2048 {
			t.Errorf("%s: %d bytes of scratch, want at most two layers of %d and small change", q.Name, q.Scratch, layer)
		}
		if strings.HasPrefix(q.Name, "train") && q.Scratch < 9*layer {
			t.Errorf("%s: %d bytes of scratch, want at least nine layers of %d", q.Name, q.Scratch, layer)
		}
	}
	if got := p.Category("scratch"); got != arena.Round(p.Programs[0].Scratch) {
		t.Errorf("scratch has %d bytes, want those of %s: %d", got, p.Programs[0].Name, p.Programs[0].Scratch)
	}
}

func TestPlanNeedsNoDeviceAndAddsUpByLayer(t *testing.T) {
	p, err := trainer.Plan(t.Context(), small, trainer.Options{Batch: 16, Optimizer: optim.Adam{}})
	if err != nil {
		t.Fatal(err)
	}
	var regions, layers int64
	for _, r := range p.Regions {
		regions += r.Size
	}
	for _, l := range p.Layers() {
		layers += l.Total
	}
	if regions != p.Total || layers != p.Total {
		t.Errorf("regions add up to %d, layers to %d, the total is %d", regions, layers, p.Total)
	}
	tr := made(t, small, trainer.Options{Device: openCPU(t), Batch: 16, Optimizer: optim.Adam{}})
	if got := tr.Stats().Arena.Reserved; got != tr.Plan().Total {
		t.Errorf("%d bytes reserved, planned %d", got, tr.Plan().Total)
	}
	if _, err := tr.Fit(context.Background(), nil); err == nil {
		t.Error("a nil dataset was trained on")
	}
}

// The zero value has a text, too.
func TestAnEmptyCapacityErrorHasAText(t *testing.T) {
	t.Parallel()
	if text := new(trainer.CapacityError).Error(); !strings.Contains(text, "needs 0 bytes") {
		t.Errorf("got %q", text)
	}
}
