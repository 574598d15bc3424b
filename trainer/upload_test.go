package trainer_test

import (
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
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
	net := layers.On(g)
	x := net.Input("x", batch, 4, 4)
	h := net.Dense(net.Flatten(x, "flat"), "hidden", 8, layers.ReLU)
	return net.Classifier(x, net.Dense(h, "out", 3, nil))
}

func TestEachSampleCrossesOnceAnEpochInItsStorageType(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, n := range []int{24, 21} {
			ds := images(t, n)
			tr := made(t, imageNet, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
			for epoch := range 3 {
				before := traffic(dev)
				res := fit(t, tr, ds)
				if want := int64(n * 17); res.Uploaded != want || tr.Stats().Uploaded != int64(2*epoch+1)*want {
					t.Errorf("epoch %d of %d samples: %d bytes in the epoch, %d in all; want %d an epoch", epoch, n, res.Uploaded, tr.Stats().Uploaded, want)
				}
				// Each step brings 64 bytes of controls too.
				if got, want := traffic(dev)-before, int64(n*17+3*64); dev.Name() == "emu" && got != want {
					t.Errorf("epoch %d of %d samples: %d bytes were copied to the device, want %d", epoch, n, got, want)
				}
				before = traffic(dev)
				if got := evaluate(t, tr, ds).Uploaded; got != int64(n*17) {
					t.Errorf("evaluation of %d samples: %d bytes, want %d", n, got, n*17)
				}
				if got := traffic(dev) - before; dev.Name() == "emu" && got != int64(n*17) {
					t.Errorf("evaluation of %d samples: %d bytes were copied to the device, want %d", n, got, n*17)
				}
			}
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// traffic returns the bytes copied to an emulated device so far.
func traffic(dev kernels.Device) int64 {
	if d, ok := dev.(*emu.Device); ok {
		return d.Traffic().Uploaded
	}
	return 0
}

func TestPredictionBringsOnlyWhatTheOutputNeeds(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := images(t, 21)
		tr := made(t, imageNet, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
		before := traffic(dev)
		outputs(t, tr, ds)
		if got := tr.Stats().Uploaded; got != 21*16 {
			t.Errorf("%d bytes, want %d: pixels without labels", got, 21*16)
		}
		if got := traffic(dev) - before; dev.Name() == "emu" && got != 21*16 {
			t.Errorf("%d bytes were copied to the device, want %d", got, 21*16)
		}
	})
}

func TestEvaluatingAgainAllocatesNothingOnTheDevice(t *testing.T) {
	dev := openEmu(t, emu.Options{})
	ds := images(t, 21)
	tr := made(t, imageNet, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()})
	before := dev.Ledger()
	if before.Allocs.Ever != 1 || before.DeviceBytes != tr.Plan().Total {
		t.Errorf("%d blocks with %d bytes, want 1 with the plan's %d", before.Allocs.Ever, before.DeviceBytes, tr.Plan().Total)
	}
	for range 10 {
		evaluate(t, tr, ds)
		fit(t, tr, ds)
		outputs(t, tr, ds)
	}
	after := dev.Ledger()
	if after.Allocs != before.Allocs || after.Pins != before.Pins || after.Streams != before.Streams || after.Events != before.Events {
		t.Errorf("after: %+v\nbefore: %+v", after, before)
	}
}

func TestPinnedMemoryIsAsPlanned(t *testing.T) {
	dev := openEmu(t, emu.Options{})
	ds := images(t, 21)
	opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields()}
	plan, err := trainer.Plan(imageNet, opt)
	if err != nil {
		t.Fatal(err)
	}
	tr := made(t, imageNet, opt)
	if got, pinned := tr.Stats().Pinned, dev.Ledger().PinnedBytes; got != plan.Pinned || pinned != plan.Pinned || plan.Pinned == 0 {
		t.Errorf("%d bytes in Stats, %d on the device, planned %d", got, pinned, plan.Pinned)
	}
}

func TestPlanDoesNotDependOnTheSizeOfStreamedData(t *testing.T) {
	var want int64
	for _, n := range []int{8, 800, 8000} {
		ds := images(t, n)
		p, err := trainer.Plan(imageNet, trainer.Options{Batch: 8, Fields: ds.Fields()})
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
