package optim

import (
	"errors"
	"fmt"
)

// Average selects an average of the trained parameters, which a trainer keeps in addition to them
// and moves after each update. The zero value selects none. With Decay it is exponential (EMA), with
// Uniform the mean of the parameters after some updates (SWA):
//
//	average = Decay·average + (1 - Decay)·parameter
//	average = mean of the parameters after updates Start, Start + Every, Start + 2·Every, …
//
// Until update Start the averages are the parameters. So neither kind contains the initial values,
// and no correction of a bias is needed.
//
// Sources: Polyak and Juditsky, 1992; Izmailov et al., UAI 2018 (SWA). The first value is that of
// torch.optim.swa_utils.AveragedModel.
type Average struct {
	Decay   float64 // above 0 and below 1, such as 0.999; 0: no exponential average
	Uniform bool    // the mean of all averaged updates, instead of Decay
	Start   int64   // the first averaged update, counted from 1; 0: 1
	Every   int64   // averaged updates are this many updates apart; 0: 1
}

// On reports whether an average is selected.
func (a Average) On() bool { return a.Decay != 0 || a.Uniform }

// Weight returns the weight that update t, counted from 1, gives the parameters: the averages become
// average + weight·(parameter - average). A weight of 0 leaves them as they are.
func (a Average) Weight(t int64) float64 {
	start, every := max(1, a.Start), max(1, a.Every)
	switch {
	case t <= start:
		return 1
	case (t-start)%every != 0:
		return 0
	case a.Uniform:
		return 1 / float64((t-start)/every+1)
	}
	return 1 - a.Decay
}

// Validate returns an error that names every bad field and wraps ErrOption.
func (a Average) Validate() error {
	var decay, kind, start, every error
	if a.Decay != 0 && !(a.Decay > 0 && a.Decay < 1) {
		decay = fmt.Errorf("%s is %v, must be above 0 and below 1", "Decay", a.Decay)
	}
	switch {
	case a.Decay != 0 && a.Uniform:
		kind = fmt.Errorf("%s and Uniform are both set: choose one", "Decay")
	case !a.On() && a != (Average{}):
		kind = errors.New("neither Decay nor Uniform is set: set one, or leave all fields at 0")
	}
	if a.Start < 0 {
		start = fmt.Errorf("%s is %d, must be the number of an update, from 1, or 0 for 1", "Start", a.Start)
	}
	if a.Every < 0 {
		every = fmt.Errorf("%s is %d, must be 1 or more updates, or 0 for 1", "Every", a.Every)
	}
	return check("average", decay, kind, start, every)
}
