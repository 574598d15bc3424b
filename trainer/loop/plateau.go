package loop

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Drop sets when a [Plateau] lowers the rate, and by how much.
type Drop struct {
	Factor   float64        // that the rate is multiplied by, above 0 and below 1; default 0.1
	Patience int            // results in a row without improvement that are accepted; default 0
	MinDelta float64        // how much better than the best one a result must be, 0 or more
	Floor    float64        // least factor of all drops together, 0 to 1; default 0: no limit
	Larger   bool           // larger results are better; default: smaller ones
	Then     optim.Schedule // whose rates are lowered; nil: constant
}

// Plateau is a schedule whose rate falls where results stop to improve. Unlike other schedules it has a
// state, its factor: a run that is resumed sets it by SetFactor. Rate may be called while another
// goroutine calls Add.
type Plateau struct {
	drop     Drop
	progress progress
	factor   atomic.Uint64 // bits of a float64
}

var _ optim.Schedule = (*Plateau)(nil)

// NewPlateau returns a schedule for Options.Schedule. It returns an error that names every bad field
// and wraps optim.ErrOption.
func NewPlateau(d Drop) (*Plateau, error) {
	if d.Factor == 0 {
		d.Factor = 0.1
	}
	var errs []error
	bad := func(ok bool, format string, value any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format+": %w", value, optim.ErrOption))
		}
	}
	bad(d.Factor > 0 && d.Factor < 1, "plateau: Factor is %v, must be above 0 and below 1", d.Factor)
	bad(d.Patience >= 0, "plateau: Patience is %v, must be 0 or more", d.Patience)
	bad(d.MinDelta >= 0 && !math.IsInf(d.MinDelta, 1), "plateau: MinDelta is %v, must be finite and 0 or more", d.MinDelta)
	bad(d.Floor >= 0 && d.Floor <= 1, "plateau: Floor is %v, must be 0 to 1", d.Floor)
	errs = append(errs, optim.ValidateSchedule(d.Then))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	p := &Plateau{drop: d}
	p.SetFactor(1)
	return p, nil
}

// Add adds a result and reports whether it lowered the rate: it did not improve, nor did the Patience
// results before it. The count begins anew after a drop.
func (p *Plateau) Add(value float64) (lowered bool) {
	if p.progress.add(value, p.drop.MinDelta, p.drop.Larger) || p.progress.waited <= p.drop.Patience {
		return false
	}
	p.progress.waited = 0
	was := p.Factor()
	p.SetFactor(max(was*p.drop.Factor, p.drop.Floor))
	return p.Factor() < was
}

// Factor returns the product of all drops so far.
func (p *Plateau) Factor() float64 { return math.Float64frombits(p.factor.Load()) }

// SetFactor sets the product of all drops.
func (p *Plateau) SetFactor(f float64) { p.factor.Store(math.Float64bits(f)) }

// Rate implements optim.Schedule: the rate of Then times the factor.
func (p *Plateau) Rate(base float64, t int64) float64 {
	if p.drop.Then != nil {
		base = p.drop.Then.Rate(base, t)
	}
	return base * p.Factor()
}
