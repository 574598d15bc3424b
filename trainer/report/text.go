package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/trainer/internal/wording"

	"github.com/dustin/go-humanize"
)

// String returns Text(100).
func (p Plan) String() string { return p.Text(maxWidth) }

// Text returns the plan as tables of at most that many columns, a width of a terminal: regions,
// layers, parameter groups, programs, bytes that cross the bus, and notes. Narrow tables shorten
// names and count small categories as other. Numbers are never cut: in few columns a table may be
// wider.
func (p Plan) Text(columns int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "memory plan: %s bytes (%s) on %s, %s data\n\n", comma(p.Total), wording.Bytes(p.Total), or(p.Device, "no device"), or(p.Mode, "streaming"))
	p.regions(&b, columns)
	p.layers(&b, columns)
	if len(p.Groups) > 0 {
		b.WriteString("\n" + p.Groups.Text(columns))
	}
	p.programs(&b, columns)
	return b.String()
}

// regions writes one row for each region.
func (p Plan) regions(b *strings.Builder, columns int) {
	t := table{align: "lrrr", rows: [][]string{{"region", "bytes", "", "share"}}}
	for _, r := range p.Regions {
		t.add(r.Name, comma(r.Size), wording.Bytes(r.Size), wording.Share(r.Size, p.Total))
	}
	t.rule()
	t.add("arena", comma(p.Total), wording.Bytes(p.Total), wording.Share(p.Total, p.Total))
	if p.Pinned > 0 {
		t.add("pinned host memory", comma(p.Pinned), wording.Bytes(p.Pinned), "")
	}
	if p.Offloaded > 0 {
		t.add("  offloaded", comma(p.Offloaded), wording.Bytes(p.Offloaded), "")
	}
	if p.Context > 0 {
		t.add("device context", comma(p.Context), wording.Bytes(p.Context), "")
	}
	t.write(b, columns)
}

// layers writes one row for each layer, with a column for each category that has parts of layers.
// If the table is too wide, the smallest categories are counted as other.
func (p Plan) layers(b *strings.Builder, columns int) {
	layers := p.Layers()
	var names []string // categories with a part of some layer
	for k, r := range p.Regions {
		owned := slices.ContainsFunc(layers[:len(layers)-1], func(l Layer) bool { return l.Bytes[k] > 0 })
		if c := wording.Category(r.Name); owned && !slices.Contains(names, c) {
			names = append(names, c)
		}
	}
	if len(layers) == 1 {
		return
	}
	t := p.layerTable(layers, names)
	for t.width() > columns && len(names) > 1 {
		least := 0
		for i, n := range names {
			if p.Category(n) < p.Category(names[least]) {
				least = i
			}
		}
		names = slices.Delete(names, least, least+1)
		t = p.layerTable(layers, names)
	}
	b.WriteByte('\n')
	t.write(b, columns)
}

// layerTable returns the table of layers with a column for each of the categories, and one for all
// others.
func (p Plan) layerTable(layers []Layer, categories []string) *table {
	t := &table{align: "l" + strings.Repeat("r", len(categories)+2)}
	t.add(append(append([]string{"layer"}, categories...), "other", "bytes")...)
	row := func(name string, l Layer) {
		cells := []string{name}
		other := l.Total
		for _, c := range categories {
			var n int64
			for k, r := range p.Regions {
				if wording.Category(r.Name) == c {
					n += l.Bytes[k]
				}
			}
			other -= n
			cells = append(cells, comma(n))
		}
		t.add(append(cells, comma(other), comma(l.Total))...)
	}
	all := Layer{Bytes: make([]int64, len(p.Regions))}
	for _, l := range layers {
		row(or(l.Name, "shared by all"), l)
		all.Total += l.Total
		for k, n := range l.Bytes {
			all.Bytes[k] += n
		}
	}
	t.rule()
	row("arena", all)
	return t
}

// programs writes one row for each program, and the notes.
func (p Plan) programs(b *strings.Builder, columns int) {
	if len(p.Programs) == 0 {
		return
	}
	t := table{align: "lrrrrl", rows: [][]string{{"program", "instructions", "scratch", "peak live", "ratio", "at instruction"}}}
	for _, q := range p.Programs {
		ratio := "-"
		if q.Live > 0 {
			ratio = fmt.Sprintf("%.3f", float64(q.Scratch)/float64(q.Live))
		}
		t.add(q.Name, comma(int64(q.Instructions)), comma(q.Scratch), comma(q.Live), ratio, q.LiveAt)
	}
	b.WriteByte('\n')
	t.write(b, columns)
	p.bus(b, columns)
	var lines []string
	for _, q := range p.Programs {
		for _, f := range q.Fallbacks {
			lines = append(lines, wrap(fmt.Sprintf("! %s: %s: Gorgonia's own code, which allocates on the Go heap", q.Name, f), columns))
		}
		for _, d := range q.Doubts {
			lines = append(lines, wrap(fmt.Sprintf("! %s: %s", q.Name, d), columns))
		}
		for _, note := range q.Notes {
			lines = append(lines, wrap(fmt.Sprintf("* %s: %s", q.Name, note), columns))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "\n%s\n", strings.Join(lines, "\n"))
	}
}

// bus writes the bytes that cross the bus in a step of each program, if the plan has them.
func (p Plan) bus(b *strings.Builder, columns int) {
	t := table{align: "lrrrrr", rows: [][]string{{"bytes on the bus", "uploads", "prefetches", "writebacks", "downloads", "each step"}}}
	for _, q := range p.Programs {
		if n := q.Bus.Total(); n > 0 {
			t.add(q.Name, comma(q.Bus.Uploads), comma(q.Bus.Prefetches), comma(q.Bus.Writebacks), comma(q.Bus.Downloads), comma(n))
		}
	}
	if len(t.rows) > 1 {
		b.WriteByte('\n')
		t.write(b, columns)
	}
}

// maxWidth is the largest width of a table or note of String, in characters: a screen.
const maxWidth = 100

// minText is the width to which a text column may be shortened.
const minText = 5

// table is a list of rows. A nil row is a rule; another rule follows the first row.
type table struct {
	align string // by column: l or r
	rows  [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }
func (t *table) rule()               { t.rows = append(t.rows, nil) }

// widths returns the width of each column in characters.
func (t *table) widths() []int {
	width := make([]int, len(t.align))
	for _, row := range t.rows {
		for i, c := range row {
			width[i] = max(width[i], len([]rune(c)))
		}
	}
	return width
}

// width returns the width of the table: the columns with two spaces between them.
func (t *table) width() int { return sum(t.widths()) + 2*(len(t.align)-1) }

// write writes the table. If it is wider than columns, the widest text columns are shortened, down
// to minText characters.
func (t *table) write(b *strings.Builder, columns int) {
	width := t.widths()
	for over := t.width() - columns; over > 0; over-- {
		widest := -1
		for i, w := range width {
			if t.align[i] == 'l' && (widest < 0 || w > width[widest]) {
				widest = i
			}
		}
		if widest < 0 || width[widest] <= minText {
			break
		}
		width[widest]--
	}
	total := sum(width) + 2*(len(width)-1)
	for k, row := range t.rows {
		if row == nil {
			fmt.Fprintln(b, strings.Repeat("─", total))
			continue
		}
		var line strings.Builder
		for i, c := range row {
			c = wording.Clip(c, width[i])
			pad := strings.Repeat(" ", width[i]-len([]rune(c)))
			if t.align[i] == 'r' {
				line.WriteString(pad + c + "  ")
			} else {
				line.WriteString(c + pad + "  ")
			}
		}
		fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
		if k == 0 {
			fmt.Fprintln(b, strings.Repeat("─", total))
		}
	}
}

// sum returns the sum of the widths.
func sum(width []int) (n int) {
	for _, w := range width {
		n += w
	}
	return n
}

// wrap breaks a note between words into lines of at most that many columns. Further lines are
// indented.
func wrap(note string, columns int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Split(note, " ") {
		n := len([]rune(word))
		switch {
		case i == 0:
		case column+1+n > columns:
			b.WriteString("\n  ")
			column = 2
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// comma writes n with thousands separators.
func comma(n int64) string { return humanize.Comma(n) }

// or returns s, or def if s is empty.
func or(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
