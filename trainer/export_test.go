package trainer

import "github.com/evenkeel/evenkeel/arena"

// Alone runs build while no model function runs. Tests that add nodes to a graph of their own need
// it if they run beside others: Gorgonia's graphs share package variables.
func Alone(build func()) {
	modelCalls <- struct{}{}
	defer func() { <-modelCalls }()
	build()
}

// Waiting returns the number of rows of each call that waits in the queue of p.
func Waiting(p *Predictor) (rows []int) {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	for r := p.queue.head; r != nil; r = r.next {
		rows = append(rows, r.rows)
	}
	return rows
}

// Looks returns how often t has looked at a step in flight while the next batch was not read yet,
// which depends on the time that reading takes.
func Looks(t *Trainer) int { return t.looks }

// FromFloats sets the elements of type t at b to src.
func FromFloats(b []byte, t arena.DType, src []float64) (i int, ok bool) {
	return fromFloats(b, t, src)
}
