package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/evenkeel/evenkeel/trainer/internal/wording"
)

// Choices lists combinations of settings for training one model, with the memory and time of each.
type Choices struct {
	Limit   int64    // bytes of memory that may be used
	Axes    []string // names of the settings: "optimizer", "batch", …
	Choices []Choice
	// Best is the index of the recommended choice, -1 if none fits. Of the choices that fit it
	// prefers the results of the requested settings, then the optimizer with the most state, then
	// the shortest time.
	Best int
}

// Choice is one combination of settings.
type Choice struct {
	Settings []string         // values, in the order of the names
	Regions  map[string]int64 // bytes by region, as Plan.Categories returns them
	Total    int64            // bytes of the arena
	Time     float64          // relative change of the estimated time of an update: 0.1 is a tenth longer than with the requested settings
	MaxBatch int              // largest batch of one step that fits, 0 if none does, -1 if it is not known
	Fits     bool             // Total is at most Limit
	Same     bool             // results are those of the requested settings, up to the rounding of sums
}

// JSON writes all choices, also those that String leaves out.
func (c Choices) JSON(w io.Writer) error {
	j := json.NewEncoder(w)
	j.SetIndent("", "  ")
	return j.Encode(c)
}

// String returns Text(100).
func (c Choices) String() string { return c.Text(maxWidth) }

// Text returns the choices that no other one beats (see Beaten), as a table of at most that many
// columns, a width of a terminal. If the columns for regions do not all fit, it leaves out the first
// ones.
func (c Choices) Text(columns int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "what fits in %s bytes (%s):\n\n", comma(c.Limit), wording.Bytes(c.Limit))
	names := c.categories()
	t := c.table(names)
	for t.width() > columns && len(names) > 0 {
		names = names[1:]
		t = c.table(names)
	}
	t.write(&b, columns)
	if c.Best < 0 {
		b.WriteString("\nnothing fits\n")
	}
	return b.String()
}

// table returns one row for each choice that no other one beats, with columns for the given
// categories.
func (c Choices) table(names []string) *table {
	t := &table{align: strings.Repeat("l", len(c.Axes)+1) + strings.Repeat("r", len(names)+3)}
	t.add(append(append(append([]string{""}, c.Axes...), names...), "bytes", "time", "max batch")...)
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
		batch := comma(int64(x.MaxBatch))
		switch {
		case x.MaxBatch < 0:
			batch = ""
		case x.MaxBatch == 0:
			batch = "none"
		}
		t.add(append(row, comma(x.Total), fmt.Sprintf("%+d %%", int(math.Round(100*x.Time))), batch)...)
	}
	return t
}

// categories returns the categories in which the choices differ, in the order of a plan.
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

// Beaten reports whether another choice with the same results, or else with the same optimizer,
// needs neither more bytes nor more time than choice i. Of several choices with the same bytes and
// time only the first is not beaten. Best is never beaten.
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
