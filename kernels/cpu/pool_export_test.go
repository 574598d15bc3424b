package cpu

import "time"

// Pool is the worker pool, for tests.
type Pool = pool

// NewPool starts a pool.
func NewPool(threads int) *Pool { return newPool(threads, 0) }

// NewIdlePool starts a pool whose workers spin for so long.
func NewIdlePool(threads int, idle time.Duration) *Pool { return newPool(threads, idle) }

// Awake returns how many workers do not sleep.
func (p *pool) Awake() int {
	n := 0
	for _, w := range p.workers {
		if w.parked.Load() == 0 {
			n++
		}
	}
	return n
}

// Run runs f for 0..n-1.
func (p *pool) Run(f func(i, worker int), n int) { p.run(taskFunc(f), n) }

// Close ends the workers.
func (p *pool) Close() { p.close() }

type taskFunc func(i, worker int)

func (f taskFunc) do(i, worker int) { f(i, worker) }
