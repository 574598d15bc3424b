package trainer_test

import (
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
)

// The waits of a pass, for data and for the device, and the time of its hook are parts of its time.
func TestWaitsOfAPassAreWithinItsTime(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 64, 4, 3)
		var last trainer.Progress
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Workers: 1, Progress: func(p trainer.Progress) {
			if p.Waits.Compute < last.Waits.Compute || p.Waits.Copy < last.Waits.Copy {
				t.Errorf("waits go back from %v to %v", last.Waits, p.Waits)
			}
			last = p
			time.Sleep(time.Millisecond)
		}}
		if _, err := made(t, small, opt).Fit(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		hooks := 7 * time.Millisecond // before the last Progress
		if sum := last.Input.Waited + last.Waits.Copy + last.Waits.Compute; sum+hooks > last.Input.Elapsed+time.Millisecond {
			t.Errorf("waits %v and %v for data, in %v", last.Waits, last.Input.Waited, last.Input.Elapsed)
		}
		if dev.Unified() && (last.Waits.Copy != 0 || last.Waits.Compute <= 0) {
			t.Errorf("on a unified device: %v", last.Waits)
		}
	})
	// A device that is slow at each piece of work is waited for. The copies of the only batch of a pass
	// hide behind no step.
	ds := samples(t, 8, 4, 3)
	var last trainer.Progress
	var sum trainer.Waits
	var elapsed time.Duration
	opt := trainer.Options{Device: emutest.OpenChecked(t, emu.Options{Delay: 2 * time.Millisecond}), Batch: 8, Fields: ds.Fields(),
		Progress: func(p trainer.Progress) { last = p }}
	tr := made(t, small, opt)
	for range 8 {
		if _, err := tr.Fit(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		sum.Copy += last.Waits.Copy
		sum.Compute += last.Waits.Compute
		elapsed += last.Input.Elapsed
	}
	if sum.Copy < 2*time.Millisecond || sum.Compute < 4*time.Millisecond || sum.Copy+sum.Compute < elapsed/2 {
		t.Errorf("on a slow device: %v of %v", sum, elapsed)
	}
}
