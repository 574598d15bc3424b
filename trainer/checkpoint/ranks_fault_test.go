package checkpoint_test

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/grouptest"
	"github.com/evenkeel/evenkeel/trainer"
)

// everyFault tests each fault at each operation on each rank; else every other call has one rank and one fault.
var everyFault = flag.Bool("every-fault", false, "each fault at each call of a group, on each rank")

// training trains the ranks of a new group from the newest checkpoint in dir until the end of step 9, and returns the parameters
// and the error of each. watch wraps a rank.
func training(t *testing.T, dir string, size int, limit time.Duration, watch func(g group.Group) group.Group) (params []map[string][]float32, errs []error) {
	t.Helper()
	groups, err := group.Local(size, group.Options{Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	params, errs = make([]map[string][]float32, size), make([]error, size)
	var wg sync.WaitGroup
	for rank, g := range groups {
		wg.Go(func() {
			defer g.Close()
			if params[rank], errs[rank] = trainRank(t, watch(g), dir, 6*size, 9); errs[rank] != nil {
				g.Abort(errs[rank]) // as a program does that ends
			}
		})
	}
	wg.Wait()
	return params, errs
}

// An engine that fails or stalls at any call of a training, on any rank, ends the calls of all ranks with an error that names this
// rank. A new group goes on from the last checkpoint, and learns the bits of a run without a fault.
func TestAFaultOfAnyCallEndsAllRanks(t *testing.T) {
	const size = 3
	all := make([][]grouptest.Call, size) // by rank
	want, errs := training(t, t.TempDir(), size, 0, func(g group.Group) group.Group {
		return grouptest.Watch(g, func(c grouptest.Call) grouptest.Fault {
			all[g.Rank()] = append(all[g.Rank()], c)
			return grouptest.None
		})
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	slots := make(chan struct{}, 24)
	var cases sync.WaitGroup
	for rank, calls := range all {
		for n, c := range calls {
			faults := []grouptest.Fault{grouptest.Fail, grouptest.Lose, grouptest.Stall}
			switch {
			case !c.Start:
				faults = faults[:1]
			case !*everyFault:
				faults = faults[n/(2*size)%3 : n/(2*size)%3+1]
			}
			if !*everyFault && n%(2*size) != rank { // half of the calls
				continue
			}
			for _, fault := range faults {
				slots <- struct{}{}
				cases.Go(func() {
					oneFault(t, place{rank, c, fault, n == len(calls)-1}, size, want[0])
					<-slots
				})
			}
		}
	}
	cases.Wait()
	t.Logf("%d calls of a rank", len(all[0]))
}

// place is a fault of a call on a rank.
type place struct {
	rank  int
	call  grouptest.Call
	fault grouptest.Fault
	last  bool
}

// oneFault trains with a fault of an operation on a rank, and resumes.
func oneFault(t *testing.T, p place, size int, want map[string][]float32) {
	what := fmt.Sprintf("fault %d of rank %d at call %d, start %v, %v", p.fault, p.rank, p.call.Number, p.call.Start, p.call.Op)
	dir, begin, limit := t.TempDir(), time.Now(), 2*time.Second
	var hit atomic.Bool
	_, errs := training(t, dir, size, limit, func(g group.Group) group.Group {
		if g.Rank() != p.rank {
			return g
		}
		return grouptest.Watch(g, func(c grouptest.Call) grouptest.Fault {
			if c.Number == p.call.Number {
				hit.Store(c.Start == p.call.Start && c.Op.Label == p.call.Op.Label)
				return p.fault
			}
			return grouptest.None
		})
	})
	if took := time.Since(begin); took > 20*limit || !hit.Load() {
		t.Errorf("%s: took %v, happened %v", what, took, hit.Load())
	}
	for r, err := range errs {
		var broken *group.RankError
		var refused *trainer.RefusalError // of a program that is compiled when a pass begins
		named := errors.As(err, &broken) && broken.Rank == p.rank
		switch {
		case p.fault == grouptest.Stall && named && errors.Is(err, group.ErrStuck):
		case p.fault != grouptest.Stall && r == p.rank && errors.Is(err, grouptest.ErrFault):
		case p.fault != grouptest.Stall && r != p.rank && named && errors.Is(err, group.ErrAborted):
		case !p.call.Start && r != p.rank && errors.As(err, &refused) && refused.Rank == p.rank:
		case p.fault == grouptest.Lose && r != p.rank && p.last && err == nil: // it had all results before
		default:
			t.Errorf("%s: rank %d: got %v", what, r, err)
		}
	}
	params, errs := training(t, dir, size, 0, func(g group.Group) group.Group { return g })
	if err := errors.Join(errs...); err != nil {
		t.Errorf("%s: resumed: %v", what, err)
		return
	}
	for _, got := range params {
		for name, b := range want {
			if !slices.Equal(got[name], b) {
				t.Errorf("%s: resumed: %s has other bits than that of a run without a fault", what, name)
			}
		}
	}
}
