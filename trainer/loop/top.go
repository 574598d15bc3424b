package loop

import (
	"math"
	"slices"
)

// Top lists the best results of a loop, such as those whose weights are in files. Set the fields before
// the first Add. It is not safe for concurrent use.
type Top struct {
	K      int  // results that are listed; below 1 none is
	Larger bool // larger values are better; default: smaller ones

	ranked []Ranked
}

// Ranked is a result that Top lists.
type Ranked struct {
	Value float64
	Name  string // given to Add
}

// Add adds a result. kept reports whether it is among the K best: of equal ones the earlier is better,
// and NaN never is. dropped is the name of the one that is no longer listed, "" if there is none: its
// file can be removed.
func (t *Top) Add(value float64, name string) (kept bool, dropped string) {
	if math.IsNaN(value) || t.K < 1 {
		return false, ""
	}
	at := slices.IndexFunc(t.ranked, func(r Ranked) bool { return improves(value, r.Value, 0, t.Larger) })
	if at < 0 {
		at = len(t.ranked)
	}
	if at >= t.K {
		return false, ""
	}
	t.ranked = slices.Insert(t.ranked, at, Ranked{value, name})
	if len(t.ranked) > t.K {
		dropped = t.ranked[t.K].Name
		t.ranked = t.ranked[:t.K]
	}
	return true, dropped
}

// Ranked returns the list, the best first. The caller owns it.
func (t *Top) Ranked() []Ranked { return slices.Clone(t.ranked) }
