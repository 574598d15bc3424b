package profile

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// nameWidth is the width of the column of names: a table has 80 columns.
const nameWidth = 27

// String returns the profile as text of at most 80 columns: a line for each subject, and the tables of
// layers and operations. Times are means over the steps.
func (p *Profile) String() string {
	var b strings.Builder
	steps := max(1, p.Steps)
	fmt.Fprintf(&b, "%d steps on %s, %s ms a step; the device is idle for %.1f %% of it\n", p.Steps, p.Device,
		millis(p.Elapsed, steps), 100*ratio(p.Elapsed-p.Busy, p.Elapsed))
	fmt.Fprintf(&b, "peak: %s GFLOP/s, %s GB/s in memory, %s GB/s to and from the host\n", number(p.Peak.Flops/1e9),
		number(p.Peak.Bytes/1e9), number(p.Peak.Bus/1e9))
	overlap := func(what string, o Overlap) {
		if o.Total > 0 {
			fmt.Fprintf(&b, "%s: %s ms a step, %.0f %% of it hidden behind compute\n", what, millis(o.Total, steps), 100*o.Share())
		}
	}
	overlap("copies", p.Copies)
	overlap("sums over ranks", p.Sums)
	if p.Input.Elapsed > 0 {
		fmt.Fprintf(&b, "%v\n", p.Input)
	}
	p.table(&b, "layer", p.Layers, steps)
	p.table(&b, "operation", p.Operations, steps)
	return b.String()
}

// table writes a table with the rows and their total.
func (p *Profile) table(b *strings.Builder, what string, rows []Cost, steps int) {
	fmt.Fprintf(b, "\n%-*s %7s %9s %7s %9s %7s %8s\n", nameWidth, what, "calls", "ms", "share", "GFLOP/s", "GB/s", "roofline")
	for _, c := range append(rows[:len(rows):len(rows)], p.Total) {
		fmt.Fprintf(b, "%s %7s %9s %7s %9s %7s %8s\n", fit(c.Name), number(float64(c.Calls)/float64(steps)), millis(c.Time, steps),
			percent(ratio(c.Time, p.Total.Time)), number(c.FlopRate()/1e9), number(c.ByteRate()/1e9), percent(c.Roofline()))
	}
}

// fit returns a name in the width of its column.
func fit(name string) string {
	n := utf8.RuneCountInString(name)
	if n > nameWidth {
		r := []rune(name)
		return "…" + string(r[n-nameWidth+1:])
	}
	return name + strings.Repeat(" ", nameWidth-n)
}

// millis returns d/steps in milliseconds.
func millis(d time.Duration, steps int) string {
	return fmt.Sprintf("%.3f", d.Seconds()*1e3/float64(steps))
}

// percent returns a share of 1 in percent.
func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

// number returns v with few digits, "-" for 0.
func number(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
