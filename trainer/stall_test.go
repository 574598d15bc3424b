package trainer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
)

// paced is a dataset whose samples take some time.
type paced struct {
	dataloader.Dataset
	sample time.Duration
}

func (p *paced) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	time.Sleep(p.sample)
	return p.Dataset.Fetch(ctx, at, dst)
}

// A result says whether the device has waited for data, and so does each report of progress.
func TestAResultSaysWhetherTheInputIsTheBottleneck(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 64, 4, 3)
		var last dataloader.Stalls
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Workers: 2, Progress: func(p trainer.Progress) { last = p.Input }}
		tr := made(t, small, opt)
		res, err := tr.Fit(t.Context(), &paced{ds, 5 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		in := res.Input
		if in.Share() < 0.3 || in.Workers != 2 || in.Elapsed < 75*time.Millisecond || !strings.Contains(in.String(), "the input is the bottleneck: ") {
			t.Errorf("slow samples: %v", in)
		}
		if last.Elapsed <= 0 || last.Elapsed > in.Elapsed || last.Waited > in.Waited {
			t.Errorf("progress: %v, result: %v", last, in)
		}
		opt.Progress = func(trainer.Progress) { time.Sleep(10 * time.Millisecond) } // a slow step
		if res, err = made(t, small, opt).Evaluate(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		if in := res.Input; in.Share() > 0.3 || in.Idle < in.Elapsed/2 {
			t.Errorf("slow steps: %v", in)
		}
		opt.Resident, opt.Progress = []dataloader.Dataset{ds}, nil
		if res, err = made(t, small, opt).Fit(t.Context(), ds); err != nil || dev.Unified() && res.Input.Waited != 0 {
			t.Errorf("resident data: %v, %v", res.Input, err)
		}
	})
}

// The time in which a batch is read while the device works is no stall.
func TestReadingWhileTheDeviceWorksIsNoStall(t *testing.T) {
	ds := samples(t, 80, 4, 3)
	dev := emutest.OpenChecked(t, emu.Options{Delay: 4 * time.Millisecond}) // before each part of a step
	opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Workers: 1}
	res, err := made(t, small, opt).Fit(t.Context(), &paced{ds, 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(res.Input)
	if share := res.Input.Share(); share > 0.12 { // the first batch alone is 5 %; 17 % if all waits of Next counted
		t.Errorf("%v: batches of 16 ms were read while the device worked", res.Input)
	}
}

func TestStallsAreALine(t *testing.T) {
	for s, want := range map[string]string{
		dataloader.Stalls{Elapsed: 10 * time.Second, Waited: 3700 * time.Millisecond, Workers: 8}.String():                  "the input is the bottleneck: 37 % of 10s waited for data, 8 workers",
		dataloader.Stalls{Elapsed: 10 * time.Second, Waited: time.Millisecond, Idle: 40 * time.Second, Workers: 8}.String(): "the input keeps up: 0 % of 10s waited for data, 8 workers idle for 50 %",
		dataloader.Stalls{Elapsed: 123456 * time.Nanosecond, Waited: 33 * time.Microsecond, Workers: 1}.String():            "the input is the bottleneck: 27 % of 123µs waited for data, 1 worker",
		dataloader.Stalls{Elapsed: 87654 * time.Microsecond, Idle: 84 * time.Millisecond, Workers: 1}.String():              "the input keeps up: 0 % of 87.7ms waited for data, 1 worker idle for 96 %",
		dataloader.Stalls{}.String(): "the input keeps up: 0 % of 0s waited for data, 0 workers idle for 0 %",
	} {
		if s != want {
			t.Errorf("got %q, want %q", s, want)
		}
	}
}
