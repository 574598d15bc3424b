package group_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
)

func TestBadOperationsAreRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	f32 := make([]byte, 12)
	for want, op := range map[string]group.Op{
		"its kind is unknown":         {Type: arena.Float32, Data: f32},
		"kind(9)":                     {Kind: 9, Type: arena.Float32, Data: f32},
		"its type is unknown":         {Kind: group.Sum, Data: f32},
		"bfloat16 is not summed":      {Kind: group.Sum, Type: arena.BFloat16, Data: f32},
		"uint8 is not summed":         {Kind: group.ReduceScatter, Type: arena.Uint8, Data: f32},
		"float32 is not compared":     {Kind: group.Max, Type: arena.Float32, Data: f32},
		"11 bytes are not a multiple": {Kind: group.Sum, Type: arena.Float32, Data: f32[:11]},
		"pad them to 4":               {Kind: group.AllGather, Type: arena.Float32, Data: f32},
		"not aligned":                 {Kind: group.Sum, Type: arena.Float32, Data: f32[1:5]},
		"root 2 is not a rank":        {Kind: group.Broadcast, Type: arena.Float32, Data: f32, Root: 2},
		"root -1 is not a rank":       {Kind: group.Broadcast, Type: arena.Float32, Data: f32, Root: -1},
		"only a broadcast has a root": {Kind: group.Sum, Type: arena.Float32, Data: f32, Root: 1},
		"a barrier has no type":       {Kind: group.Barrier, Data: f32},
	} {
		local(t, 2, group.Options{}, func(g group.Group) {
			o, err := g.Prepare(op)
			var e *group.OpError
			if o != nil || !errors.As(err, &e) || !errors.Is(err, arena.ErrOption) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want an error with %q", op, err, want)
			}
		})
	}
	for _, n := range []int{-1, 0, group.MaxLocal + 1} {
		if _, err := group.Local(n, group.Options{}); !errors.Is(err, arena.ErrOption) {
			t.Errorf("%d ranks: %v", n, err)
		}
	}
	if _, err := group.Local(1, group.Options{Limit: -1}); !errors.Is(err, arena.ErrOption) {
		t.Errorf("a negative limit: %v", err)
	}
}

func TestCallsOutOfOrderReturnErrors(t *testing.T) {
	t.Parallel()
	ranks, err := group.Local(2, group.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := ranks[0]
	o := prepare(t, g, group.Op{Kind: group.Barrier})
	want := func(what string, got, want error) {
		t.Helper()
		if !errors.Is(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	want("wait before start", o.Wait(), group.ErrNotStarted)
	want("start", o.Start(), nil)
	want("second start", o.Start(), arena.ErrBusy)
	want("close in flight", o.Close(), arena.ErrBusy)
	want("the other rank", prepare(t, ranks[1], group.Op{Kind: group.Barrier}).Start(), nil)
	want("wait", o.Wait(), nil)
	want("second wait", o.Wait(), group.ErrNotStarted)
	want("close", o.Close(), nil)
	want("second close", o.Close(), nil)
	want("start after close", o.Start(), arena.ErrClosed)
	o = prepare(t, g, group.Op{Kind: group.Barrier})
	for range 2 {
		want("close of the rank", g.Close(), nil)
	}
	want("start on a closed rank", o.Start(), arena.ErrClosed)
	_, err = g.Prepare(group.Op{Kind: group.Barrier})
	want("prepare on a closed rank", err, arena.ErrClosed)
	g.Abort(errTest)
	want("an abort after close", ranks[1].Err(), nil)
	want("close of the other", ranks[1].Close(), nil)
}

func TestExchangeReturnsTheBytesOfAllRanks(t *testing.T) {
	t.Parallel()
	for size := 1; size <= 5; size++ {
		local(t, size, group.Options{}, func(g group.Group) {
			for round := range 4 {
				mine := bytes.Repeat([]byte{byte('a' + g.Rank())}, (g.Rank()+round)%3*g.Rank()*1000)
				all, err := group.Exchange(context.Background(), g, mine)
				if err != nil || len(all) != size {
					t.Errorf("%d texts, %v", len(all), err)
					return
				}
				for r, text := range all {
					if !bytes.Equal(text, bytes.Repeat([]byte{byte('a' + r)}, (r+round)%3*r*1000)) {
						t.Errorf("rank %d of %d: wrong bytes of rank %d in round %d", g.Rank(), size, r, round)
					}
				}
			}
		})
	}
}

func TestADoneContextEndsAnExchange(t *testing.T) {
	t.Parallel()
	local(t, 2, group.Options{}, func(g group.Group) {
		ctx, cancel := context.WithCancel(context.Background())
		if g.Rank() == 1 {
			for g.Err() == nil {
				g.Busy("")()
			}
			_, err := group.Exchange(ctx, g, nil)
			wantError(t, "other", err, group.ErrAborted, 0)
			cancel()
			return
		}
		go cancel()
		_, err := group.Exchange(ctx, g, []byte("x"))
		wantError(t, "cancelled", err, group.ErrAborted, 0)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v does not wrap the error of the context", err)
		}
	})
}

func TestExitCodesAreThoseOfTheClass(t *testing.T) {
	t.Parallel()
	of := func(class error) error { return fmt.Errorf("step 3: %w", &group.RankError{Rank: 1, Err: class}) }
	for want, err := range map[int]error{
		0: nil, 1: errTest, 65: of(group.ErrMismatch), 70: of(group.ErrDied), 75: of(group.ErrStuck), 143: of(group.ErrSignalled),
	} {
		if got := group.ExitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
	if got := group.ExitCode(of(group.ErrAborted)); got != 70 {
		t.Errorf("another rank gave up: %d, want 70", got)
	}
	if got := group.ExitCode(group.Aborted(0, "", errTest)); got != 1 {
		t.Errorf("this rank gave up: %d, want 1", got)
	}
}

func TestErrorsNameTheRankTheOperationAndTheCause(t *testing.T) {
	t.Parallel()
	op := group.Op{Kind: group.Broadcast, Type: arena.Int32, Data: make([]byte, 8), Root: 1, Label: "weights"}.String()
	for want, e := range map[string]*group.RankError{
		`rank 2: died in broadcast int32[2] from rank 1 "weights": exit`:           {Rank: 2, Ranks: []int{2}, Op: op, Cause: "exit", Err: group.ErrDied},
		`ranks 0 3: is stuck: late`:                                                {Rank: 0, Ranks: []int{0, 3}, Cause: "late", Err: group.ErrStuck},
		`rank 1: gave up: out of memory`:                                           group.Aborted(1, "", errTest),
		`group: ended by SIGTERM`:                                                  {Rank: -1, Err: group.ErrSignalled},
		`rank 1: started another operation in barrier "a": it started barrier "b"`: group.Mismatch([]string{`barrier "a"`, `barrier "b"`}),
	} {
		if e.Error() != want {
			t.Errorf("got  %s\nwant %s", e, want)
		}
	}
	if e := group.Mismatch([]string{"b", "a", "a"}); e.Rank != 0 || e.Op != "a" {
		t.Errorf("%+v: most ranks started a", e)
	}
}
