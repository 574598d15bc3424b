package loop

import "math"

// Early stops a loop whose results no longer improve. Set the fields before the first Add. It is not
// safe for concurrent use.
type Early struct {
	// Patience is the number of results in a row without improvement after which the next one that
	// does not improve stops. 0: the first one that does not. Below 0: none does.
	Patience int
	// MinDelta is how much better than the best result a new one must be. 0: any improvement counts.
	MinDelta float64
	// Larger results are better, as an accuracy. Default: smaller ones, as a loss.
	Larger bool
	// Weights keeps the parameters of the best result. Nil: nothing is kept.
	Weights *Weights

	progress progress
}

// Add judges a result. stop reports that the loop should end. The error is that of Weights.Keep, which
// Add calls if the result is the best one.
func (e *Early) Add(value float64) (stop bool, err error) {
	better := e.progress.add(value, e.MinDelta, e.Larger)
	if better && e.Weights != nil {
		err = e.Weights.Keep()
	}
	return e.Patience >= 0 && e.progress.waited > e.Patience, err
}

// Best returns the best result and the number of its Add, counted from 1: NaN and 0 if there is none.
func (e *Early) Best() (value float64, n int) { return e.progress.bestValue() }

// progress follows the best of a series of values.
type progress struct {
	best          float64
	at, n, waited int // number of the best value, 0: none; of all values; of those since it was the best
}

// add adds a value and reports whether it is better than all before it.
func (p *progress) add(value, delta float64, larger bool) bool {
	p.n++
	if math.IsNaN(value) || p.at > 0 && !improves(value, p.best, delta, larger) {
		p.waited++
		return false
	}
	p.best, p.at, p.waited = value, p.n, 0
	return true
}

func (p *progress) bestValue() (value float64, n int) {
	if p.at == 0 {
		return math.NaN(), 0
	}
	return p.best, p.at
}

// improves reports whether a number is better than another by more than delta.
func improves(value, best, delta float64, larger bool) bool {
	if larger {
		return value > best+delta
	}
	return value < best-delta
}
