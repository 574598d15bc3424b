package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
)

// String returns the plan as tables: regions with their shares, layers, programs, and what to know about them.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "memory plan: %s bytes (%s) on %s, %s data\n\n", comma(p.Total), human(p.Total), or(p.Device, "no device"), or(p.Mode, "streaming"))
	p.regions(&b)
	p.layers(&b)
	p.programs(&b)
	return b.String()
}

func (p Plan) regions(b *strings.Builder) {
	t := table{align: "lrrr", rows: [][]string{{"region", "bytes", "", "share"}}}
	for _, r := range p.Regions {
		t.add(r.Name, comma(r.Size), human(r.Size), share(r.Size, p.Total))
	}
	t.rule()
	t.add("arena", comma(p.Total), human(p.Total), share(p.Total, p.Total))
	if p.Pinned > 0 {
		t.add("pinned host memory", comma(p.Pinned), human(p.Pinned), "")
	}
	if p.Offloaded > 0 {
		t.add("  of it offloaded", comma(p.Offloaded), human(p.Offloaded), "")
	}
	if p.Context > 0 {
		t.add("device context", comma(p.Context), human(p.Context), "")
	}
	t.write(b)
}

// layers writes one row a layer, with a column for each category that layers own parts of.
func (p Plan) layers(b *strings.Builder) {
	layers := p.Layers()
	var names []string // categories that some layer has a part in
	for k, r := range p.Regions {
		owned := slices.ContainsFunc(layers[:len(layers)-1], func(l Layer) bool { return l.Bytes[k] > 0 })
		if c := category(r.Name); owned && !slices.Contains(names, c) {
			names = append(names, c)
		}
	}
	if len(layers) == 1 {
		return
	}
	t := table{align: "l" + strings.Repeat("r", len(names)+2)}
	t.add(append(append([]string{"layer"}, names...), "other", "bytes")...)
	row := func(name string, l Layer) {
		cells := []string{name}
		other := l.Total
		for _, c := range names {
			var n int64
			for k, r := range p.Regions {
				if category(r.Name) == c {
					n += l.Bytes[k]
				}
			}
			other -= n
			cells = append(cells, comma(n))
		}
		t.add(append(cells, comma(other), comma(l.Total))...)
	}
	sum := Layer{Bytes: make([]int64, len(p.Regions))}
	for _, l := range layers {
		row(or(l.Name, "shared by all"), l)
		sum.Total += l.Total
		for k, n := range l.Bytes {
			sum.Bytes[k] += n
		}
	}
	t.rule()
	row("arena", sum)
	b.WriteByte('\n')
	t.write(b)
}

func (p Plan) programs(b *strings.Builder) {
	if len(p.Programs) == 0 {
		return
	}
	t := table{align: "lrrrrl", rows: [][]string{{"program", "instructions", "scratch", "most live", "ratio", "at instruction"}}}
	for _, q := range p.Programs {
		ratio := "-"
		if q.Live > 0 {
			ratio = fmt.Sprintf("%.3f", float64(q.Scratch)/float64(q.Live))
		}
		t.add(q.Name, fmt.Sprint(q.Instructions), comma(q.Scratch), comma(q.Live), ratio, q.LiveAt)
	}
	b.WriteByte('\n')
	t.write(b)
	p.bus(b)
	var lines []string
	for _, q := range p.Programs {
		for _, f := range q.Fallbacks {
			lines = append(lines, fmt.Sprintf("! %s: %s: Gorgonia's own code, which allocates on the Go heap", q.Name, f))
		}
		for _, note := range q.Notes {
			lines = append(lines, fmt.Sprintf("* %s: %s", q.Name, note))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "\n%s\n", strings.Join(lines, "\n"))
	}
}

// bus writes what crosses the bus in a step of each program, where anything is said about it.
func (p Plan) bus(b *strings.Builder) {
	t := table{align: "lrrrrr", rows: [][]string{{"bytes over the bus", "uploads", "fetches", "stows", "downloads", "a step"}}}
	for _, q := range p.Programs {
		if n := q.Bus.Total(); n > 0 {
			t.add(q.Name, comma(q.Bus.Uploads), comma(q.Bus.Fetches), comma(q.Bus.Stows), comma(q.Bus.Downloads), comma(n))
		}
	}
	if len(t.rows) > 1 {
		b.WriteByte('\n')
		t.write(b)
	}
}

// table is rows of cells; a nil row is a rule.
type table struct {
	align string // by column: l or r
	rows  [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }
func (t *table) rule()               { t.rows = append(t.rows, nil) }

func (t *table) write(b *strings.Builder) {
	width := make([]int, len(t.align))
	for _, row := range t.rows {
		for i, c := range row {
			width[i] = max(width[i], len([]rune(c)))
		}
	}
	total := 0
	for _, w := range width {
		total += w + 2
	}
	for k, row := range t.rows {
		if row == nil {
			fmt.Fprintln(b, strings.Repeat("─", total-2))
			continue
		}
		var line strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", width[i]-len([]rune(c)))
			if t.align[i] == 'r' {
				line.WriteString(pad + c + "  ")
			} else {
				line.WriteString(c + pad + "  ")
			}
		}
		fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
		if k == 0 {
			fmt.Fprintln(b, strings.Repeat("─", total-2))
		}
	}
}

func comma(n int64) string { return humanize.Comma(n) }

// human writes bytes with a binary unit.
func human(n int64) string {
	if n < 0 {
		return "-" + humanize.IBytes(uint64(-n))
	}
	return humanize.IBytes(uint64(n))
}

func share(n, of int64) string {
	if of <= 0 {
		return "-"
	}
	if percent := 100 * float64(n) / float64(of); n == 0 || percent >= 0.05 {
		return fmt.Sprintf("%.1f %%", percent)
	}
	return "<0.1 %"
}

func or(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
