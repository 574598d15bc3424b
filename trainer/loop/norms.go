package loop

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/trainer"
)

// Norms holds the gradient norms of the last updates: what Step.Norm has with Options.GradientNorm. It
// is not safe for concurrent use.
type Norms struct {
	last   []float64 // a ring
	n      int64     // all norms
	sorted []float64
}

// NewNorms returns a log of the last window norms, 1 or more; it allocates all of its memory.
func NewNorms(window int) *Norms {
	window = max(1, window)
	return &Norms{last: make([]float64, 0, window), sorted: make([]float64, 0, window)}
}

// Add adds the norm of a step. Steps without a norm, whose Norm is NaN, are left out.
func (l *Norms) Add(s trainer.Step) {
	if math.IsNaN(s.Norm) {
		return
	}
	if len(l.last) < cap(l.last) {
		l.last = append(l.last, s.Norm)
	} else {
		l.last[l.n%int64(cap(l.last))] = s.Norm
	}
	l.n++
}

// Quantile returns the norm that a share q, 0 to 1, of the norms in the window does not exceed: 0.5 is
// the median, 1 the largest. It is NaN without norms. A limit for Options.Clip may be Quantile(0.9).
func (l *Norms) Quantile(q float64) float64 {
	if len(l.last) == 0 || !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	l.sorted = append(l.sorted[:0], l.last...)
	slices.Sort(l.sorted)
	return l.sorted[max(0, int(math.Ceil(q*float64(len(l.sorted))))-1)]
}

// Count returns the number of norms that were added since NewNorms.
func (l *Norms) Count() int64 { return l.n }

// Logged yields steps, and after every number of them writes a line with the loss, the rate and the
// norm to w. An error of w ends the steps and is yielded. An every below 1 means 1.
func Logged(steps Steps, w io.Writer, every int) Steps {
	return func(yield func(trainer.Step, error) bool) {
		for step, err := range steps {
			if err == nil && step.Number%int64(max(1, every)) == 0 {
				_, err = fmt.Fprintf(w, "step %d loss %.4g rate %.4g norm %.4g\n", step.Number, step.Loss, step.Rate, step.Norm)
			}
			if !yield(step, err) || err != nil {
				return
			}
		}
	}
}
