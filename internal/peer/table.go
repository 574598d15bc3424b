package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// print prints the comparison as Markdown tables.
func (c *comparison) print(out io.Writer) error {
	var b strings.Builder
	what, err := machine(c.f.instructions())
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "Evenkeel%s: %d threads, float32; %s, %s.\n", c.others(), c.f.threads, what, time.Now().Format(time.DateOnly))
	fmt.Fprintf(&b, "Medians of %d rounds; in brackets the speed of Evenkeel relative to the other: the median of the ratios within a round.\n%s", c.f.rounds, c.noise())
	for _, n := range slices.Concat(c.exceptions(), c.notes) {
		fmt.Fprintf(&b, "%s.\n", n)
	}
	for _, w := range c.workloads {
		fmt.Fprintf(&b, "%s: %s, batch %d.\n", w, workloads[w].about, c.results[w][0][0].Batch)
	}
	c.speeds(&b, "training, samples/s", func(m *report) float64 { return m.TrainImages })
	c.speeds(&b, "evaluation, samples/s", func(m *report) float64 { return m.EvalImages })
	c.table(&b, "peak resident set, MiB", c.names(), func(w string, i int) string {
		return c.cell(w, i, func(m *report) float64 { return m.RSS.Peak }, func(x float64) string { return humanize.Comma(int64(math.Round(x))) })
	})
	c.steps(&b)
	c.table(&b, "loss of the last epoch", c.names(), func(w string, i int) string {
		return c.cell(w, i, func(m *report) float64 { return m.TrainLoss[len(m.TrainLoss)-1] }, func(x float64) string { return fmt.Sprintf("%.3g", x) })
	})
	_, err = io.WriteString(out, b.String())
	return err
}

// exceptions lists the contenders that run a workload with flags of their own.
func (c *comparison) exceptions() (all []string) {
	for i, n := range c.contenders {
		for _, w := range c.workloads {
			if more := n.more[w]; len(more) > 0 && len(c.results[w][i]) > 0 {
				all = append(all, fmt.Sprintf("%s runs %s with %s", n.name, w, strings.Join(more, " ")))
			}
		}
	}
	return all
}

// others returns the names and versions of the other libraries.
func (c *comparison) others() string {
	var all []string
	for i := range c.contenders[1:] {
		name, _, _ := strings.Cut(c.contenders[1+i].name, ",")
		for _, w := range c.workloads {
			if r := c.results[w][1+i]; len(r) > 0 {
				if s := name + " " + r[0].Version; !slices.Contains(all, s) {
					all = append(all, s)
				}
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	return " and " + strings.Join(all, " and ")
}

// noise describes the variation between rounds and the load of other processes.
func (c *comparison) noise() string {
	type part struct {
		share float64
		of    string
	}
	var apart, others []part
	for _, w := range c.workloads {
		for i, runs := range c.results[w] {
			of := w + ", " + c.contenders[i].name
			var speeds []float64
			for _, m := range runs {
				speeds = append(speeds, m.TrainImages)
				if m.Others >= 0 {
					others = append(others, part{m.Others, of})
				}
			}
			if len(speeds) > 1 {
				apart = append(apart, part{(slices.Max(speeds) - slices.Min(speeds)) / median(speeds), of})
			}
		}
	}
	describe := func(parts []part, text string) string {
		if len(parts) == 0 {
			return ""
		}
		slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.share, b.share) })
		worst := parts[len(parts)-1]
		return fmt.Sprintf(text, 100*parts[len(parts)/2].share, 100*worst.share, worst.of)
	}
	return describe(apart, "From the slowest round to the fastest, training differs by %.0f %% of the median (the middle of all cells), at most by %.0f %% (%s).\n") +
		describe(others, "Other processes used %.1f %% of the CPU time in the middle run, at most %.1f %% (%s).\n")
}

// names returns the names of the contenders, "" for one without a result.
func (c *comparison) names() []string {
	names := make([]string, len(c.contenders))
	for i, n := range c.contenders {
		if slices.ContainsFunc(c.workloads, func(w string) bool { return len(c.results[w][i]) > 0 }) {
			names[i] = n.name
		}
	}
	return names
}

// table prints a row for each workload and a column for each name that is not empty.
func (c *comparison) table(out io.Writer, head string, columns []string, cell func(w string, column int) string) {
	fmt.Fprintf(out, "\n| %s |", head)
	line := "|---|"
	for _, name := range columns {
		if name != "" {
			fmt.Fprintf(out, " %s |", name)
			line += "---:|"
		}
	}
	fmt.Fprintf(out, "\n%s\n", line)
	for _, w := range c.workloads {
		fmt.Fprintf(out, "| %s |", w)
		for i, name := range columns {
			if name != "" {
				fmt.Fprint(out, strings.TrimRight(" "+cell(w, i), " ")+" |")
			}
		}
		fmt.Fprintln(out)
	}
}

// cell returns the median of a measure over the rounds of a workload and a contender, "" if there
// are none.
func (c *comparison) cell(w string, i int, of func(*report) float64, form func(float64) string) string {
	var all []float64
	for k := range c.results[w][i] {
		all = append(all, of(&c.results[w][i][k]))
	}
	if len(all) == 0 {
		return ""
	}
	return form(median(all))
}

// speeds prints a table of a speed, with the ratio of the first contender's speed to each other one.
func (c *comparison) speeds(out io.Writer, head string, of func(*report) float64) {
	c.table(out, head, c.names(), func(w string, i int) string {
		s := c.cell(w, i, of, func(x float64) string { return humanize.Comma(int64(figures(x, 4))) })
		if i == 0 {
			return "**" + s + "**"
		}
		var ratios []float64
		for k := range c.results[w][i] {
			r := &c.results[w][i][k]
			ratios = append(ratios, of(&c.results[w][0][r.round])/of(r))
		}
		if len(ratios) == 0 {
			return s
		}
		return s + " (" + times(median(ratios)) + " ×)"
	})
}

// steps prints the memory of a training step, as each library reports it.
func (c *comparison) steps(out io.Writer) {
	type place struct{ contender, at int }
	var places []place
	var columns []string
	for i, of := range c.contenders {
		if i > 0 && of.module == c.contenders[i-1].module {
			continue
		}
		for _, w := range c.workloads {
			if r := c.results[w][i]; len(r) > 0 {
				for at, s := range r[0].StepBytes {
					name, _, _ := strings.Cut(of.name, ",")
					columns, places = append(columns, name+": "+s.How), append(places, place{i, at})
				}
				break
			}
		}
	}
	c.table(out, "memory of a step without parameters, optimizer state and batch, MiB", columns, func(w string, column int) string {
		p := places[column]
		return c.cell(w, p.contender, func(m *report) float64 { return float64(m.StepBytes[p.at].Bytes) }, func(x float64) string {
			return humanize.Ftoa(figures(x/(1<<20), 3))
		})
	})
}

// times writes a ratio with two or three digits.
func times(x float64) string {
	switch {
	case x < 2:
		return fmt.Sprintf("%.2f", x)
	case x < 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// figures rounds x to n significant digits.
func figures(x float64, n int) float64 {
	if x <= 0 {
		return x
	}
	p := math.Pow10(n - 1 - int(math.Floor(math.Log10(x))))
	return math.Round(x*p) / p
}
