package group_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
)

var errTest = errors.New("out of memory")

func TestDifferentOperationsAreFoundAndNamed(t *testing.T) {
	t.Parallel()
	data := func(n int) []byte { return make([]byte, n) }
	usual := func() group.Op {
		return group.Op{Kind: group.Sum, Type: arena.Float32, Data: data(8), Label: "x"}
	}
	for name, odd := range map[string]group.Op{
		"kind":    {Kind: group.Broadcast, Type: arena.Float32, Data: data(8), Label: "x"},
		"type":    {Kind: group.Sum, Type: arena.Int32, Data: data(8), Label: "x"},
		"length":  {Kind: group.Sum, Type: arena.Float32, Data: data(12), Label: "x"},
		"label":   {Kind: group.Sum, Type: arena.Float32, Data: data(8), Label: "y"},
		"barrier": {Kind: group.Barrier},
	} {
		local(t, 3, group.Options{}, func(g group.Group) {
			op := usual()
			if g.Rank() == 1 {
				op = odd
			}
			o := prepare(t, g, op)
			err := group.Run(o)
			wantError(t, name, err, group.ErrMismatch, 1)
			if !strings.Contains(fmt.Sprint(err), odd.String()) || !strings.Contains(fmt.Sprint(err), usual().String()) {
				t.Errorf("%s: %v does not say what the ranks started", name, err)
			}
			if again := o.Start(); again != g.Err() || again == nil {
				t.Errorf("%s: a later start returns %v, want %v", name, again, g.Err())
			}
		})
	}
	shared := data(8)
	local(t, 2, group.Options{}, func(g group.Group) {
		o := prepare(t, g, group.Op{Kind: group.Sum, Type: arena.Float32, Data: shared[:4+4*g.Rank()][4*g.Rank():]})
		if err := group.Run(o); err != nil {
			t.Errorf("neighbours in memory: %v", err)
		}
		o = prepare(t, g, group.Op{Kind: group.Sum, Type: arena.Float32, Data: shared})
		wantError(t, "overlap", group.Run(o), group.ErrMismatch, 1)
	})
	local(t, 2, group.Options{}, func(g group.Group) {
		o := prepare(t, g, group.Op{Kind: group.Broadcast, Type: arena.Uint8, Data: data(1), Root: g.Rank()})
		wantError(t, "root", group.Run(o), group.ErrMismatch, 1)
	})
}

// TestAnAbortAtEachCallEndsAllRanks lets rank 1 give up instead of its k-th call of Start or Wait.
func TestAnAbortAtEachCallEndsAllRanks(t *testing.T) {
	t.Parallel()
	const rounds = 6
	for k := range 4 * rounds {
		local(t, 3, group.Options{}, func(g group.Group) {
			a := prepare(t, g, group.Op{Kind: group.Sum, Type: arena.Float32, Data: make([]byte, 400_000), Label: "a"})
			b := prepare(t, g, group.Op{Kind: group.Barrier, Label: "b"})
			calls := 0
			call := func(f func() error) error {
				if g.Rank() == 1 && calls == k {
					g.Abort(errTest)
					g.Abort(errors.New("another cause"))
				}
				calls++
				return f()
			}
			var err error
			for range rounds {
				for _, f := range []func() error{a.Start, b.Start, a.Wait, b.Wait} {
					if err = call(f); err != nil {
						break
					}
				}
				if err != nil {
					break
				}
			}
			if err == nil { // other ranks may have completed all when rank 1 gives up in its last calls
				err = group.Run(b)
			}
			wantError(t, fmt.Sprint("call ", k), err, group.ErrAborted, 1)
			if !errors.Is(err, errTest) {
				t.Errorf("call %d: %v does not wrap the cause", k, err)
			}
			if g.Err() != err {
				t.Errorf("call %d: Err is %v, the operation's is %v", k, g.Err(), err)
			}
		})
	}
}

func TestARankThatNeverComesIsNamedAfterTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		local(t, 4, group.Options{Limit: time.Minute}, func(g group.Group) {
			o := prepare(t, g, group.Op{Kind: group.Barrier, Label: "epoch"})
			if err := group.Run(o); err != nil { // a limit counts for one operation
				t.Error(err)
			}
			time.Sleep(50 * time.Second)
			if err := group.Run(o); err != nil {
				t.Error(err)
			}
			if g.Rank() >= 2 {
				return
			}
			time.Sleep(time.Duration(g.Rank()) * 30 * time.Second) // it counts from the first start
			wantError(t, "limit", group.Run(o), group.ErrStuck, 2, 3)
			if d := time.Since(start); d != 110*time.Second {
				t.Errorf("rank %d: ended after %v, want 1m50s", g.Rank(), d)
			}
		})
	})
}

func TestTheLimitDoesNotCountBusyTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		local(t, 2, group.Options{Limit: time.Minute}, func(g group.Group) {
			o := prepare(t, g, group.Op{Kind: group.Barrier})
			if g.Rank() == 1 {
				time.Sleep(20 * time.Second) // counts
				compile, write := g.Busy("compiles"), g.Busy("writes a checkpoint")
				time.Sleep(time.Hour)
				compile()
				compile()
				time.Sleep(time.Hour)
				write()
				return
			}
			wantError(t, "busy", group.Run(o), group.ErrStuck, 1)
			if d := time.Since(start); d != 2*time.Hour+time.Minute {
				t.Errorf("ended after %v, want 2h1m", d)
			}
		})
	})
}

func TestQueuedOperationsHaveTheWholeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		local(t, 2, group.Options{Limit: time.Minute}, func(g group.Group) {
			var ops []group.Operation
			for range 5 {
				ops = append(ops, prepare(t, g, group.Op{Kind: group.Barrier}))
			}
			if g.Rank() == 0 {
				for _, o := range ops {
					if err := o.Start(); err != nil {
						t.Error(err)
					}
				}
			}
			for _, o := range ops {
				if g.Rank() == 1 {
					time.Sleep(59 * time.Second)
					if err := o.Start(); err != nil {
						t.Error(err)
					}
				}
				if err := o.Wait(); err != nil {
					t.Error(err)
				}
			}
		})
	})
}

func TestClosingTooEarlyIsNamed(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} { // whether the rank closes before the others start
		ranks, err := group.Local(3, group.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var ops []group.Operation
		for _, g := range ranks {
			ops = append(ops, prepare(t, g, group.Op{Kind: group.Barrier, Label: "end"}))
		}
		if first {
			_ = ranks[1].Close()
			if err := ranks[0].Err(); err != nil {
				t.Errorf("nobody needs the rank, but the group is broken: %v", err)
			}
		}
		started := ops[0].Start()
		if !first {
			_ = ranks[1].Close()
		}
		if started == nil {
			started = ops[0].Wait()
		}
		wantError(t, "rank 0", errors.Join(started, nil), group.ErrMismatch, 1)
		wantError(t, "rank 2", group.Run(ops[2]), group.ErrMismatch, 1)
		for _, g := range ranks {
			_ = g.Close()
		}
	}
}

func TestClosingWithAnOperationInFlightBreaksTheGroup(t *testing.T) {
	t.Parallel()
	local(t, 2, group.Options{}, func(g group.Group) {
		o := prepare(t, g, group.Op{Kind: group.Barrier})
		if g.Rank() == 0 {
			if err := o.Start(); err != nil {
				t.Error(err)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
			wantError(t, "own", o.Wait(), group.ErrMismatch, 0)
			return
		}
		for g.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		wantError(t, "other", group.Run(o), group.ErrMismatch, 0)
	})
}

// TestRandomEndsNeverHang closes, aborts and stops ranks while operations are in flight. Time stands
// while ranks compute, so that only a rank that never comes reaches the limit.
func TestRandomEndsNeverHang(t *testing.T) {
	t.Parallel()
	for k := range 60 {
		synctest.Test(t, func(t *testing.T) {
			class := []error{group.ErrAborted, group.ErrMismatch, group.ErrStuck}[k%3]
			local(t, 4, group.Options{Limit: time.Second}, func(g group.Group) {
				o := prepare(t, g, group.Op{Kind: group.Sum, Type: arena.Float32, Data: make([]byte, 4*(1+k*2000))})
				for i := 0; ; i++ {
					if g.Rank() == k%4 && i == k%10 {
						switch class {
						case group.ErrAborted:
							g.Abort(errTest)
						case group.ErrMismatch:
							_ = o.Start()
							_ = g.Close()
						}
						return
					}
					if err := group.Run(o); err != nil {
						wantError(t, fmt.Sprintf("case %d, rank %d", k, g.Rank()), err, class, k%4)
						return
					}
				}
			})
		})
	}
}

func TestCloseWaitsForTheOperationThatIsComputed(t *testing.T) {
	t.Parallel()
	ranks, err := group.Local(2, group.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var ops []group.Operation
	for _, g := range ranks {
		ops = append(ops, prepare(t, g, group.Op{Kind: group.Sum, Type: arena.Float32, Data: make([]byte, 16<<20)}))
	}
	if err := errors.Join(ops[0].Start(), ops[1].Start(), ranks[0].Close(), ranks[1].Err(), ops[0].Wait(), ops[1].Wait(), ranks[1].Close()); err != nil {
		t.Error(err)
	}
}
