package trainer_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
)

// images has 8-bit pixels and labels: 17 bytes a sample.
func images(t testing.TB, n int) *dataloader.Slices {
	r := rand.New(rand.NewPCG(uint64(n), 9))
	x, y := make([]uint8, n*16), make([]uint8, n)
	for i := range x {
		x[i] = uint8(r.Uint32())
	}
	for i := range y {
		y[i] = uint8(r.IntN(3))
	}
	return columns(t, n, dataloader.Column("x", x, 4, 4).Scaled(1.0/255, -0.5), dataloader.Column("y", y))
}

func imageNet(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 4, 4)
	h := net.Dense(net.Flatten(x, "flat"), "hidden", 8, layers.ReLU)
	return net.Classifier(x, net.Dense(h, "out", 3, nil))
}

func TestEachSampleCrossesOnceAnEpochInItsStorageType(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		const batch = 256                        // so that full batches have no padding between pixels, labels and controls
		for _, n := range []int{512, 512 + 45} { // and one between labels and controls, which cross in one copy, after 45
			steps, padding := int64((n+batch-1)/batch), int64((batch-n%batch)%batch)
			ds := images(t, n)
			tr := made(t, imageNet, trainer.Options{Device: dev, Batch: batch, Fields: ds.Fields()})
			for epoch := range 3 {
				crossed := traffic(dev)
				res := fit(t, tr, ds)
				if want := int64(n * 17); res.Uploaded != want || tr.Stats().Uploaded != int64(2*epoch+1)*want {
					t.Errorf("epoch %d of %d samples: %d bytes in the epoch, %d in all; want %d an epoch", epoch, n, res.Uploaded, tr.Stats().Uploaded, want)
				}
				crossed(t, fmt.Sprintf("epoch %d of %d samples", epoch, n), int64(n*17)+steps*80+padding) // each step brings 80 bytes of controls too
				crossed = traffic(dev)
				if got := evaluate(t, tr, ds).Uploaded; got != int64(n*17) {
					t.Errorf("evaluation of %d samples: %d bytes, want %d", n, got, n*17)
				}
				crossed(t, fmt.Sprintf("evaluation of %d samples", n), int64(n*17))
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// traffic returns a function that checks that this many bytes were copied to the device between the two calls, where the device counts.
func traffic(dev kernels.Device) (crossed func(t *testing.T, what string, want int64)) {
	before, ok := countOf(dev)
	return func(t *testing.T, what string, want int64) {
		t.Helper()
		after, _ := countOf(dev)
		if got := after.uploaded - before.uploaded; ok && got != want {
			t.Errorf("%s: %d bytes were copied to the device, want %d", what, got, want)
		}
	}
}

func TestPredictionBringsOnlyWhatTheOutputNeeds(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := images(t, 21)
		tr := made(t, imageNet, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
		crossed := traffic(dev)
		outputs(t, tr, ds)
		if got := tr.Stats().Uploaded; got != 21*16 {
			t.Errorf("%d bytes, want %d: pixels without labels", got, 21*16)
		}
		crossed(t, "prediction", 21*16)
	})
}

func TestNothingIsAllocatedOnTheDeviceButByNew(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := images(t, 21)
		start := counted(t, dev)
		tr := made(t, imageNet, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
		before := counted(t, dev)
		if n, bytes := before.allocs-start.allocs, before.device-start.device; n != 1 || bytes != tr.Plan().Total {
			t.Errorf("%d blocks with %d bytes, want 1 with the plan's %d", n, bytes, tr.Plan().Total)
		}
		for range 10 {
			evaluate(t, tr, ds)
			fit(t, tr, ds)
			outputs(t, tr, ds)
		}
		after := counted(t, dev)
		after.uploaded = before.uploaded
		if after != before {
			t.Errorf("after: %+v\nbefore: %+v", after, before)
		}
	})
}

func TestPinnedMemoryIsAsPlanned(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		start := counted(t, dev)
		for name, model := range map[string]trainer.ModelFunc{"images": imageNet, "words": words} {
			ds := images(t, 21)
			if name == "words" {
				ds = columns(t, 3, dataloader.Column("x", make([]uint8, 9), 3), dataloader.Column("y", make([]uint8, 3)))
			}
			opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()}
			plan, err := trainer.Plan(t.Context(), model, opt)
			if err != nil {
				t.Fatal(err)
			}
			tr := made(t, model, opt)
			for range 2 {
				if got, pinned := tr.Stats().Pinned, counted(t, dev).pinned-start.pinned; got != plan.Pinned || pinned != plan.Pinned || plan.Pinned == 0 {
					t.Errorf("%s: %d bytes in Stats, %d on the device, planned %d", name, got, pinned, plan.Pinned)
				}
				fit(t, tr, ds) // a short batch is new to the device
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestPlanDoesNotDependOnTheSizeOfStreamedData(t *testing.T) {
	var want int64
	for _, n := range []int{8, 800, 8000} {
		ds := images(t, n)
		p, err := trainer.Plan(t.Context(), imageNet, trainer.Options{Batch: 8, Fields: ds.Fields()})
		if err != nil {
			t.Fatal(err)
		}
		if want == 0 {
			want = p.Total
		}
		if p.Total != want {
			t.Errorf("%d samples: %d bytes, want %d", n, p.Total, want)
		}
	}
}

func TestOnTheHostAnUploadIsNoCopy(t *testing.T) {
	ds := images(t, 21)
	s := &spy{Device: openCPU(t)}
	for _, opt := range []trainer.Options{{Fields: ds.Fields()}, {Resident: []dataloader.Dataset{ds}}} {
		opt.Device, opt.Batch = s, 8
		tr := made(t, imageNet, opt)
		fit(t, tr, ds)
		evaluate(t, tr, ds)
		outputs(t, tr, ds)
		if st := tr.Stats(); st.Pinned != 0 || st.Uploaded == 0 {
			t.Errorf("%d bytes are pinned, %d uploaded; want none pinned, and some", st.Pinned, st.Uploaded)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
	if s.copies != 0 {
		t.Errorf("%d copies, want none: what is uploaded is written where it is used", s.copies)
	}
}
