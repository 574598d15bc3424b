package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader/internal/parallel"
)

// The error is that of the first piece that fails, whatever the order in which the pieces end.
func TestTheFirstErrorIsReturned(t *testing.T) {
	for _, workers := range []int{0, 1, 3, 100} {
		var calls atomic.Int64
		late := make(chan struct{})
		err := parallel.Each(t.Context(), 40, workers, func(_ context.Context, i int) error {
			calls.Add(1)
			switch {
			case i == 7 && workers > 1:
				<-late
				return errors.New("piece 7")
			case i == 8:
				close(late)
				return errors.New("piece 8")
			case i > 7:
				return fmt.Errorf("piece %d", i)
			}
			return nil
		})
		want := "piece 7"
		if workers == 1 {
			want = "piece 8"
		}
		if workers != 0 && (err == nil || err.Error() != want) {
			t.Errorf("%d workers: got %v, want %s", workers, err, want)
		}
		if workers == 1 && calls.Load() != 9 {
			t.Errorf("%d pieces were read, want those up to the error", calls.Load())
		}
	}
	var calls atomic.Int64
	if err := parallel.Each(t.Context(), 1000, 0, func(context.Context, int) error { calls.Add(1); return nil }); err != nil || calls.Load() != 1000 {
		t.Errorf("%v after %d pieces", err, calls.Load())
	}
}
