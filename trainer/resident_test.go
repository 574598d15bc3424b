package trainer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

func TestResidentDataCrossOnceInAll(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		train, val := images(t, 21), images(t, 10)
		tr := made(t, imageNet, trainer.Options{Device: dev, Batch: 8, Resident: []dataloader.Dataset{train, val}})
		if got := tr.Stats().Uploaded; got != 0 {
			t.Errorf("%d bytes when made, want 0: nothing has been read", got)
		}
		if got := tr.Plan().Category("resident data"); got < 31*17 || got > 31*17+4*arena.Align {
			t.Errorf("%d bytes of resident data in the plan, want %d and rounding", got, 31*17)
		}
		if tr.Plan().Mode != "resident" {
			t.Errorf("mode %q, want resident", tr.Plan().Mode)
		}
		crossed := traffic(dev)
		for range 5 {
			if res := fit(t, tr, train); res.Uploaded != 0 || res.Samples != 21 {
				t.Errorf("%d bytes in an epoch of %d samples, want 0 and 21", res.Uploaded, res.Samples)
			}
			evaluate(t, tr, val)
			outputs(t, tr, val)
		}
		if got := tr.Stats().Uploaded; got != 31*17 {
			t.Errorf("%d bytes after 5 epochs, want %d", got, 31*17)
		}
		// What crosses: the data once, 4 bytes of index a sample, and in a training step 80 of controls, 256 bytes after the first index.
		crossed(t, "5 epochs", 31*17+5*(3*(256+80)+2*10*4))
	})
}

func TestResidentAndStreamingGiveTheSameBits(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := images(t, 21)
		run := func(opt trainer.Options) (numbers []float64) {
			opt.Device, opt.Batch, opt.Seed, opt.Optimizer = dev, 8, 5, optim.Adam{Rate: 0.01}
			tr := made(t, imageNet, opt)
			for range 3 {
				numbers = append(numbers, fit(t, tr, ds).Loss, evaluate(t, tr, ds).Loss)
			}
			return append(numbers, outputs(t, tr, ds)...)
		}
		want := run(trainer.Options{Fields: ds.Fields()})
		same(t, "resident", run(trainer.Options{Resident: []dataloader.Dataset{ds}}), want)
		same(t, "resident, streaming planned too", run(trainer.Options{Fields: ds.Fields(), Resident: []dataloader.Dataset{ds}}), want)
	})
}

// same fails the test unless got and want are equal bit for bit.
func same(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

func TestDataThatAreResidentMayBeOverwritten(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		run := func(overwrite bool) (numbers []float64) {
			x, y := make([]float32, 21*4), make([]uint8, 21)
			for i := range x {
				x[i] = float32(i%11) - 5
			}
			for i := range y {
				y[i] = uint8(i % 3)
			}
			ds := columns(t, 21, dataloader.Column("x", x, 4), dataloader.Column("y", y))
			tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Resident: []dataloader.Dataset{ds}, Seed: 4})
			evaluate(t, tr, ds) // which uploads
			if overwrite {
				for i := range x {
					x[i] = 1e9
				}
				for i := range y {
					y[i] = 200
				}
			}
			numbers = append(numbers, fit(t, tr, ds).Loss, evaluate(t, tr, ds).Loss)
			return append(numbers, outputs(t, tr, ds)...)
		}
		same(t, "overwritten", run(true), run(false))
	})
}

func TestResidentTrainerCanStreamOtherDataOnlyWhenPlannedFor(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds, other := images(t, 16), images(t, 11)
		both := made(t, imageNet, trainer.Options{Device: dev, Batch: 8, Resident: []dataloader.Dataset{ds}, Fields: ds.Fields()})
		if res := evaluate(t, both, other); res.Uploaded != 11*17 || res.Samples != 11 {
			t.Errorf("streamed: %d samples, %d bytes", res.Samples, res.Uploaded)
		}
		only := made(t, imageNet, trainer.Options{Device: dev, Batch: 8, Resident: []dataloader.Dataset{ds}})
		if _, err := only.Evaluate(context.Background(), other); !errors.Is(err, trainer.ErrData) {
			t.Errorf("got %v, want ErrData", err)
		}
		for _, err := range only.Predict(context.Background(), other) {
			if err == nil {
				t.Error("prediction of data that are not resident gave a row, want an error")
			}
		}
		evaluate(t, only, ds)
	})
}

func TestResidentUploadThroughManyChunksArrivesWhole(t *testing.T) {
	// 3 MiB on a device that is not the host's go in chunks of 1 MiB.
	each(t, func(t *testing.T, dev kernels.Device) {
		const n = 3<<20/64 + 5
		x := make([]float32, n*16)
		for i := range x {
			x[i] = float32(i / 16 % 251)
		}
		ds := columns(t, n, dataloader.Column("x", x, 16))
		tr := made(t, rowSum, trainer.Options{Device: dev, Batch: 4096, Resident: []dataloader.Dataset{ds}})
		i := 0
		for p, err := range tr.Predict(context.Background(), ds) {
			if err != nil {
				t.Fatal(err)
			}
			if want := float64(16 * (i % 251)); p.Output[0] != want || p.Sample != i {
				t.Fatalf("sample %d (%d): %v, want %v", p.Sample, i, p.Output[0], want)
			}
			i++
		}
		if i != n {
			t.Errorf("%d samples, want %d", i, n)
		}
	})
}

// A resident dataset is read by the first pass over it, under that pass's context, and again after a failure.
func TestAResidentDatasetThatCannotBeReadFailsItsPassOnly(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := &unsteady{Slices: images(t, 21)}
		tr := made(t, imageNet, trainer.Options{Device: dev, Batch: 8, Resident: []dataloader.Dataset{ds}})
		ds.fail = errors.New("disk on fire")
		var sample *dataloader.SampleError
		if _, err := tr.Fit(context.Background(), ds); !errors.As(err, &sample) || sample.Index != 5 || !errors.Is(err, ds.fail) {
			t.Errorf("got %v", err)
		}
		ds.fail, ds.block = nil, true
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		within(t, 5*time.Second, "a blocked upload", func() {
			if _, err := tr.Fit(ctx, ds); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
		ds.block = false
		if res := fit(t, tr, ds); res.Samples != 21 || tr.Stats().Uploaded < 21*17 {
			t.Errorf("after the failures: %+v, %d bytes", res, tr.Stats().Uploaded)
		}
	})
}

// unsteady is a dataset whose sample 5 fails, or blocks until the context is done.
type unsteady struct {
	*dataloader.Slices
	fail  error
	block bool
}

func (u *unsteady) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if at.Index == 5 && u.fail != nil {
		return u.fail
	}
	if at.Index == 5 && u.block {
		<-ctx.Done()
		return ctx.Err()
	}
	return u.Slices.Fetch(ctx, at, dst)
}

// sizedDataset has a number of samples that changes.
type sizedDataset struct {
	dataloader.Dataset
	samples int
}

func (d *sizedDataset) Len() int { return d.samples }

// Lengths keep or change the size of the last batch: what is refused is not only what another program would need.
func TestAResidentDatasetThatChangesIsRefused(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, c := range []struct {
			was, now int
			uploaded bool // before it changes
		}{{16, 24, false}, {16, 24, true}, {20, 28, false}, {20, 28, true}, {20, 12, false}, {20, 12, true}, {20, 7, true}} {
			ds := &sizedDataset{samples(t, 40, 4, 3), c.was}
			tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Resident: []dataloader.Dataset{ds}})
			if c.uploaded {
				fit(t, tr, ds)
			}
			ds.samples = c.now
			predict := func() error {
				for _, err := range tr.Predict(t.Context(), ds) {
					return err
				}
				return nil
			}
			_, fitted := tr.Fit(t.Context(), ds)
			for call, err := range map[string]error{"Fit": fitted, "Predict": predict()} {
				if !errors.Is(err, dataloader.ErrChanged) {
					t.Errorf("%+v: %s: got %v, want dataloader.ErrChanged", c, call, err)
				}
			}
			ds.samples = c.was
			fit(t, tr, ds)
		}
	})
}

// fragileDataset panics in one of its calls of Len.
type fragileDataset struct {
	dataloader.Dataset
	calls, breaks int
}

func (d *fragileDataset) Len() int {
	if d.calls++; d.calls == d.breaks {
		panic("broken")
	}
	return d.Dataset.Len()
}

func TestAResidentDatasetThatPanicsEndsInAnError(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for breaks := range 12 {
			ds := &fragileDataset{Dataset: samples(t, 20, 4, 3), breaks: breaks + 1}
			tr, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Batch: 8, Resident: []dataloader.Dataset{ds}})
			if err == nil {
				_, err = tr.Fit(t.Context(), ds)
				err = errors.Join(err, tr.Close())
			}
			if panicked := ds.calls >= ds.breaks; errors.Is(err, dataloader.ErrPanic) != panicked || !panicked && err != nil {
				t.Errorf("panic in call %d: got %v", breaks+1, err)
			}
		}
	})
}
