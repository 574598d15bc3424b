package group_test

import (
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
)

// An operation completes when the last rank has started it, not when a rank waits for it.
func TestALocalOperationKnowsWhenItCompleted(t *testing.T) {
	all, err := group.Local(2, group.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var ops []group.Operation
	for _, g := range all {
		defer g.Close()
		op, err := g.Prepare(group.Op{Kind: group.Sum, Type: arena.Float32, Data: make([]byte, 64)})
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, op)
	}
	const pause = 20 * time.Millisecond
	start := func(op group.Operation) {
		if err := op.Start(); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	start(ops[0])
	time.Sleep(pause)
	start(ops[1])
	time.Sleep(10 * pause) // the group's own goroutines compute it
	waited := time.Now()
	for i, op := range ops {
		if err := op.Wait(); err != nil {
			t.Fatal(err)
		}
		if done := op.(group.Timed).Completed(); done.Sub(begin) < pause || done.After(waited) {
			t.Errorf("rank %d: complete %v after the first start, want after the second one, and before the wait at %v", i, done.Sub(begin), waited.Sub(begin))
		}
		if err := op.Close(); err != nil {
			t.Error(err)
		}
	}
}
