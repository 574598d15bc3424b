package cpu

// Pool is the worker pool, for tests.
type Pool = pool

// NewPool starts a pool.
func NewPool(threads int) *Pool { return newPool(threads) }

// Run runs f for 0..n-1.
func (p *pool) Run(f func(i, worker int), n int) { p.run(taskFunc(f), n) }

// Close ends the workers.
func (p *pool) Close() { p.close() }

type taskFunc func(i, worker int)

func (f taskFunc) do(i, worker int) { f(i, worker) }
