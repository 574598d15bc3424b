package cpu_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/evenkeel/evenkeel/kernels/cpu"
)

func TestPoolDoesEveryPartOnce(t *testing.T) {
	for _, threads := range []int{0, 1, 2, 3, 8} {
		p := cpu.NewPool(threads)
		for _, n := range []int{0, 1, 2, 3, 7, 64, 1000} {
			seen := make([]atomic.Int32, n)
			for range 20 {
				p.Run(func(i, worker int) {
					if worker < 0 || worker >= max(threads, 1) || worker >= n {
						t.Errorf("%d threads, %d parts: worker %d", threads, n, worker)
					}
					seen[i].Add(1)
				}, n)
			}
			for i := range seen {
				if got := seen[i].Load(); got != 20 {
					t.Fatalf("%d threads, part %d of %d: done %d times in 20 runs", threads, i, n, got)
				}
			}
		}
		p.Close()
	}
}

func TestPoolGivesPartsThatRunAtOnceDifferentWorkers(t *testing.T) {
	p := cpu.NewPool(4)
	defer p.Close()
	var busy [4]atomic.Bool
	for range 200 {
		p.Run(func(_, worker int) {
			if busy[worker].Swap(true) {
				t.Errorf("worker %d does two parts at once", worker)
			}
			runtime.Gosched()
			busy[worker].Store(false)
		}, 16)
	}
}

func TestPoolIsCorrectWhenManyRunAtOnceAndInside(t *testing.T) {
	p := cpu.NewPool(3)
	defer p.Close()
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 200 {
				var sum atomic.Int64
				p.Run(func(i, _ int) {
					p.Run(func(j, _ int) { sum.Add(int64(i * j)) }, 4)
				}, 10)
				if got := sum.Load(); got != 45*6 {
					t.Errorf("sum %d, want %d", got, 45*6)
				}
			}
		})
	}
	wg.Wait()
}

func TestPoolWakesParkedWorkers(t *testing.T) {
	p := cpu.NewPool(2)
	defer p.Close()
	for range 20 {
		time.Sleep(2 * time.Millisecond)
		var met sync.WaitGroup
		met.Add(2) // both parts must be under way for either to end
		p.Run(func(_, _ int) { met.Done(); met.Wait() }, 2)
	}
}

func TestPoolWaitsForAPartThatTakesLong(t *testing.T) {
	p := cpu.NewPool(2)
	defer p.Close()
	for range 20 {
		var met sync.WaitGroup
		met.Add(2)
		var done atomic.Int32
		p.Run(func(_, worker int) {
			met.Done()
			met.Wait()
			if worker > 0 {
				time.Sleep(3 * time.Millisecond) // longer than a caller spins
			}
			done.Add(1)
		}, 2)
		if got := done.Load(); got != 2 {
			t.Fatalf("run returned after %d parts of 2", got)
		}
	}
}

func TestPoolRaisesAPartsPanicInTheCallerAndGoesOn(t *testing.T) {
	p := cpu.NewPool(3)
	defer p.Close()
	for _, bad := range []int{0, 17, 99} {
		got := func() (v any) {
			defer func() { v = recover() }()
			p.Run(func(i, _ int) {
				if i == bad {
					panic(fmt.Sprint("part ", i))
				}
			}, 100)
			return nil
		}()
		if want := fmt.Sprint("part ", bad); got != want {
			t.Errorf("recovered %v, want %q", got, want)
		}
		var done atomic.Int32
		p.Run(func(_, _ int) { done.Add(1) }, 50)
		if done.Load() != 50 {
			t.Errorf("after a panic: %d parts of 50", done.Load())
		}
	}
}

func TestPoolLeavesNoGoroutineAndRunsSeriallyAfterClose(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	p := cpu.NewPool(5)
	p.Run(func(_, _ int) {}, 10)
	p.Close()
	p.Close()
	goleak.VerifyNone(t, ignore)
	n := 0
	p.Run(func(_, _ int) { n++ }, 10)
	if n != 10 {
		t.Errorf("after close: %d parts, want 10", n)
	}
}

func TestPoolRunAllocatesNothing(t *testing.T) {
	p := cpu.NewPool(2)
	defer p.Close()
	var sum atomic.Int64
	f := func(i, _ int) { sum.Add(int64(i)) }
	if got := testing.AllocsPerRun(100, func() { p.Run(f, 16) }); got != 0 {
		t.Errorf("%v allocations a run, want 0", got)
	}
}

func TestWorkersWithoutWorkSleep(t *testing.T) {
	for _, idle := range []time.Duration{-1, 0, time.Millisecond} {
		p := cpu.NewIdlePool(4, idle)
		p.Run(func(int, int) {}, 8)
		for p.Awake() > 0 { // for ever, if they do not
			time.Sleep(time.Millisecond)
		}
		done := new(atomic.Int32)
		p.Run(func(int, int) { done.Add(1) }, 8)
		if done.Load() != 8 {
			t.Errorf("spin %v: %d parts of 8 after the sleep", idle, done.Load())
		}
		p.Close()
	}
}
