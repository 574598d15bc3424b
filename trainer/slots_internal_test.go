package trainer

import (
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
)

func TestSlotsAreNotChosenByNoise(t *testing.T) {
	const µs, ms = time.Microsecond, time.Millisecond
	trial := func(slots, steps int, waited, elapsed time.Duration) SlotsTrial {
		return SlotsTrial{Slots: slots, Steps: steps, Input: dataloader.Stalls{Waited: waited, Elapsed: elapsed}}
	}
	short := SlotsTrial{Slots: 8, Err: new(CapacityError)}
	for what, c := range map[string]struct {
		trials []SlotsTrial
		want   int
	}{
		"much":               {[]SlotsTrial{trial(8, 160, 1*ms, 100*ms), trial(4, 160, 2*ms, 100*ms), trial(2, 160, 40*ms, 140*ms)}, 4},
		"waits of a few µs":  {[]SlotsTrial{trial(8, 160, 3*µs, 500*µs), trial(4, 160, 30*µs, 500*µs), trial(2, 160, 80*µs, 600*µs)}, 2},
		"a millisecond":      {[]SlotsTrial{trial(8, 160, 0, 9*ms), trial(4, 160, 0, 9*ms), trial(2, 160, 1*ms, 10*ms)}, 2},
		"more":               {[]SlotsTrial{trial(8, 160, 0, 9*ms), trial(4, 160, 0, 9*ms), trial(2, 160, 1*ms+1, 10*ms)}, 4},
		"ten steps":          {[]SlotsTrial{trial(4, 10, 0, 9*ms), trial(2, 10, 5*ms, 10*ms)}, 4},
		"nine steps":         {[]SlotsTrial{trial(4, 9, 0, 9*ms), trial(2, 9, 5*ms, 10*ms)}, 2},
		"8 slots do not fit": {[]SlotsTrial{short, trial(4, 10, 0, 9*ms), trial(2, 10, 5*ms, 10*ms)}, 4},
	} {
		if got := (&TuneOptions{Gain: 0.02}).choose(c.trials); got != c.want {
			t.Errorf("%s: %d slots, want %d", what, got, c.want)
		}
	}
}
