package report

import (
	"cmp"
	"strconv"
	"strings"
)

// Group is a list of parameters with options of their own, as trainer.Options.Groups selects them.
type Group struct {
	Objective  string   // that trains the parameters; "" if there is one objective, or if Frozen is set
	Match      []string // patterns; nil: the parameters that no group matches
	Parameters int      // number of parameters
	Elements   int64    // numbers in them
	Optimizer  string   // type, such as "AdamW"; "" if Frozen is set
	Rate       float64  // learning rate with the group's factor, before the schedule; 0 if the optimizer sets none
	Decay      float64  // the optimizer's weight decay; 0: none
	Controls   int64    // bytes of the group's own controls vector in each slot; 0: it has that of its objective
	Frozen     bool     // the parameters are not trained, for whichever reason
}

// Groups lists the parameters of a model by group, one entry for each objective that trains some of a
// group, and one for those of a group that are not trained. It is empty without groups.
type Groups []Group

// String returns Text(100).
func (g Groups) String() string { return g.Text(maxWidth) }

// Text returns the groups as a table of at most that many columns; "" if there are none.
func (g Groups) Text(columns int) string {
	if len(g) == 0 {
		return ""
	}
	var b strings.Builder
	t := table{align: "llrrrrr", rows: [][]string{{"group", "optimizer", "parameters", "elements", "rate", "decay", "controls"}}}
	digits := func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
	for _, e := range g {
		optimizer, rate, decay := e.Optimizer, digits(e.Rate), digits(e.Decay)
		if e.Rate == 0 {
			rate = "-"
		}
		if e.Decay == 0 {
			decay = "-"
		}
		if e.Frozen {
			optimizer = "frozen"
		}
		t.add(e.name(), optimizer, comma(int64(e.Parameters)), comma(e.Elements), rate, decay, comma(e.Controls))
	}
	t.write(&b, columns)
	return b.String()
}

// name returns the patterns, after the objective where there are several.
func (g Group) name() string {
	name := cmp.Or(strings.Join(g.Match, ", "), "all others")
	if g.Objective != "" {
		name = g.Objective + ": " + name
	}
	return name
}
