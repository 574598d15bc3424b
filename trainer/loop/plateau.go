package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
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
// state: its factor and what it knows of the results. It is part of a trainer's state, see
// trainer.Capture. Its methods may be called from any goroutine.
type Plateau struct {
	drop   Drop
	factor atomic.Uint64 // bits of a float64

	mu       sync.Mutex
	progress progress
}

var _ optim.Stateful = (*Plateau)(nil)

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
	p.mu.Lock()
	defer p.mu.Unlock()
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

// plateauState is the state of a Plateau as JSON. Numbers that may be infinite are text.
type plateauState struct {
	Factor float64           `json:"factor"`
	Best   string            `json:"best"` // the best result
	At     int               `json:"at"`   // its number, counted from 1; 0: there is none
	Added  int               `json:"added"`
	Waited int               `json:"waited"` // results since the best one or the last drop
	Then   []json.RawMessage `json:"then,omitempty"`
}

// State implements optim.Stateful. It includes the states of Drop.Then.
func (p *Plateau) State() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := &p.progress
	s := plateauState{Factor: p.Factor(), Best: strconv.FormatFloat(x.best, 'g', -1, 64), At: x.at, Added: x.n, Waited: x.waited}
	for _, then := range optim.StatefulOf(p.drop.Then) {
		state, err := then.State()
		if err != nil {
			return nil, err
		}
		s.Then = append(s.Then, state)
	}
	return json.Marshal(s)
}

// SetState implements optim.Stateful.
func (p *Plateau) SetState(state []byte) error {
	var s plateauState
	if err := json.Unmarshal(state, &s); err != nil {
		return fmt.Errorf("plateau: state %q: %w: %w", state, err, optim.ErrOption)
	}
	best, err := strconv.ParseFloat(s.Best, 64)
	then := optim.StatefulOf(p.drop.Then)
	if err != nil || math.IsNaN(best) || !(s.Factor >= 0) || math.IsInf(s.Factor, 0) || s.At < 0 || s.At > s.Added || s.Waited < 0 ||
		s.Waited > s.Added || len(then) != len(s.Then) {
		return fmt.Errorf("plateau: %s is not the state of one: %w", state, optim.ErrOption)
	}
	if err := setStates(then, s.Then); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.SetFactor(s.Factor)
	p.progress = progress{best: best, at: s.At, n: s.Added, waited: s.Waited}
	return nil
}

// setStates sets the states of all schedules, or of none.
func setStates(all []optim.Stateful, states []json.RawMessage) error {
	was := make([][]byte, len(all))
	for i, s := range all {
		var err error
		if was[i], err = s.State(); err == nil {
			err = s.SetState(states[i])
		}
		if err != nil {
			for k, s := range all[:i] {
				err = errors.Join(err, s.SetState(was[k]))
			}
			return err
		}
	}
	return nil
}
