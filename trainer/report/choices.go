package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Choices are ways of training one model, with what each costs.
type Choices struct {
	Limit   int64    // bytes that may be used
	Levers  []string // what the settings are of: "optimizer", "batch", …
	Choices []Choice
	// Best is the index of the recommended one of those that fit, -1 where none does: it has the results that were asked for where that can be, an
	// optimizer with as much state as can be, and then takes the least time.
	Best int
}

// Choice is one way: a setting of each lever.
type Choice struct {
	Settings []string
	Regions  map[string]int64 // bytes by category
	Total    int64            // bytes
	Time     float64          // extra share of a step's time beside the way that was asked for, by the cost model: 0.1 is a tenth more
	MaxBatch int              // the largest batch of a step that fits, 0 where none does, -1 where it is not known
	Fits     bool
	Same     bool // the results are those of the way that was asked for, up to the rounding of sums
}

// JSON writes all choices.
func (c Choices) JSON(w io.Writer) error {
	j := json.NewEncoder(w)
	j.SetIndent("", "  ")
	return j.Encode(c)
}

// String returns a table of the choices that no other beats: one with the settings of the same results that takes neither more bytes nor more time.
func (c Choices) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "what fits in %s bytes (%s):\n\n", comma(c.Limit), human(c.Limit))
	names := c.categories()
	t := table{align: strings.Repeat("l", len(c.Levers)+1) + strings.Repeat("r", len(names)+3)}
	t.add(append(append(append([]string{""}, c.Levers...), names...), "bytes", "time", "largest batch")...)
	for i, x := range c.Choices {
		if c.Beaten(i) {
			continue
		}
		mark := "fits"
		switch {
		case i == c.Best:
			mark = "take this"
		case !x.Fits:
			mark = ""
		}
		row := append([]string{mark}, x.Settings...)
		for _, n := range names {
			row = append(row, comma(x.Regions[n]))
		}
		batch := fmt.Sprint(x.MaxBatch)
		switch {
		case x.MaxBatch < 0:
			batch = ""
		case x.MaxBatch == 0:
			batch = "none"
		}
		t.add(append(row, comma(x.Total), fmt.Sprintf("%+.0f %%", 100*x.Time), batch)...)
	}
	t.write(&b)
	if c.Best < 0 {
		b.WriteString("\nnothing fits\n")
	}
	return b.String()
}

// categories returns the kinds of bytes in which the choices differ, in the order of a plan.
func (c Choices) categories() []string {
	var names []string
	for _, n := range []string{"parameters", "gradients", "optimizer state", "slot", "scratch"} {
		for _, x := range c.Choices {
			if x.Regions[n] != c.Choices[0].Regions[n] {
				names = append(names, n)
				break
			}
		}
	}
	return names
}

// Beaten reports whether another choice takes neither more bytes nor more time, and less of one or comes earlier.
func (c Choices) Beaten(i int) bool {
	x := c.Choices[i]
	for k, y := range c.Choices {
		if k == i || i == c.Best || y.Same != x.Same || !y.Same && y.Settings[0] != x.Settings[0] {
			continue
		}
		if y.Total <= x.Total && y.Time <= x.Time && (y.Total < x.Total || y.Time < x.Time || k < i) {
			return true
		}
	}
	return false
}
