//go:build gpu && cgo

package cuda

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels"
)

// The transfers of a launch begin behind all that the program's stream has come to, here the launch
// before, which reads the bytes that are fetched: left out, the record or the wait that says so is
// found by the driver's checker.
func TestTransfersBeginBehindTheLaunchBefore(t *testing.T) {
	emulated(t)
	d := opened(t, Options{Graphs: Never})
	s, e1 := d.NewStream("test")
	mem, e2 := d.Alloc(2 * arena.Align)
	away, e3 := d.Pin(arena.Align)
	if err := errors.Join(e1, e2, e3); err != nil {
		t.Fatal(err)
	}
	clear(away.Bytes())
	at := func(r arena.Region, offset int64) []kernels.Operand {
		spec := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{arena.Align / 4}}
		return []kernels.Operand{{Spec: spec, Ref: arena.Ref{Region: r, Offset: offset, Size: arena.Align}}}
	}
	p, err := d.Bind([]kernels.Call{
		{Op: kernels.Prefetch, In: at(1, 0), Out: at(0, 0), Label: "fetch"},
		{Op: kernels.ReLU, In: at(0, 0), Out: at(0, arena.Align), Label: "read"},
	}, kernels.Binding{Memory: mem, Base: []int64{0, -1}, Pinned: map[arena.Region]arena.Span{1: {Memory: away, Size: arena.Align}}})
	if err != nil {
		t.Fatal(err)
	}
	thrice := func() error { return errors.Join(p.Launch(s), p.Launch(s), p.Launch(s), s.Sync()) }
	for _, call := range []string{"cuEventRecord", "cuStreamWaitEvent"} {
		fakecuda.Forget()
		if err := thrice(); err != nil || len(fakecuda.Reports()) > 0 {
			t.Fatalf("with all calls in place: %v, %v", err, fakecuda.Reports())
		}
		calls := fakecuda.Calls(call)
		if calls != 6 {
			t.Fatalf("three launches call %s %d times, want a start and a fetch for each", call, calls)
		}
		for n := uint64(2); n <= 4; n++ { // the first launch has none before it, and the last none behind it
			fakecuda.Forget()
			if err := fakecuda.Omit(call, n); err != nil {
				t.Fatal(err)
			}
			if err := thrice(); err != nil || len(fakecuda.Reports()) == 0 {
				t.Errorf("without %s %d of %d nothing was reported: %v", call, n, calls, err)
			}
		}
	}
	fakecuda.Forget() // the races were asked for
}
