package picture

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/trainer/internal/wording"

	"github.com/dustin/go-humanize"

	"github.com/evenkeel/evenkeel/trainer/report"
)

// scratch draws the buffers of the first program: offset upwards, instructions to the right.
func (d *drawing) scratch() {
	if len(d.plan.Programs) == 0 {
		d.text(mapLeft, 44, 20, ink, "start", true, "No program")
		return
	}
	q := d.plan.Programs[0]
	m := scratchMap{drawing: d, q: q, instructions: max(instructions(q), 1), bytes: max(q.Scratch, 1)}
	d.text(mapLeft, 44, 20, ink, "start", true, fmt.Sprintf("Scratch during %q: %s", wording.Clip(q.Name, 40), wording.Bytes(q.Scratch)))
	d.text(mapLeft, 68, 13, faint, "start", false, fmt.Sprintf("%d buffers; offsets upwards, instructions to the right; all programs share these bytes", len(q.Buffers)))
	d.rect(mapLeft, panelTop, mapWidth, panelHeight, "#f6f8fa", none, "")
	m.grid()
	m.buffers()
	m.live()
	m.names()
	m.peak()
	d.rect(mapLeft, panelTop, mapWidth, panelHeight, none, ink, "")
}

// scratchMap is the right panel: scratch over the instructions of one program.
type scratchMap struct {
	*drawing
	q            report.Program
	instructions int
	bytes        int64 // offset at the top of the map
}

// x returns the coordinate of an instruction.
func (m *scratchMap) x(instruction int) float64 {
	return mapLeft + mapWidth*float64(instruction)/float64(m.instructions)
}

// y returns the coordinate of an offset.
func (m *scratchMap) y(offset int64) float64 {
	return panelBottom - panelHeight*float64(offset)/float64(m.bytes)
}

// grid draws the axes.
func (m *scratchMap) grid() {
	step := int64(1)
	for m.bytes/step > 6 {
		step *= 2
	}
	for k := int64(0); k <= m.bytes/step; k++ {
		at := k * step
		m.line(mapLeft, m.y(at), mapRight, m.y(at), "#d8dee4", 0.6, false)
		m.text(mapLeft-8, m.y(at)+4, 11, faint, "end", false, wording.Bytes(at))
	}
	for at, step := 0, niceStep(m.instructions); at <= m.instructions; at += step {
		m.line(m.x(at), panelBottom, m.x(at), panelBottom+5, ink, 0.8, false)
		m.text(m.x(at), panelBottom+18, 11, faint, "middle", false, fmt.Sprint(at))
	}
	m.text((mapLeft+mapRight)/2, panelBottom+38, 12, faint, "middle", false, "instruction")
}

// buffers draws one rectangle for each buffer.
func (m *scratchMap) buffers() {
	for i, b := range m.q.Buffers {
		at := wording.At(m.q.Offsets, i)
		x, w := m.x(int(b.Start)), m.x(int(b.End))-m.x(int(b.Start))
		y, h := m.y(at+b.Size), m.y(at)-m.y(at+b.Size)
		name := label(b.Owner, b.Name)
		tip := fmt.Sprintf("%s: %s bytes at %s, instructions %d to %d", name, humanize.Comma(b.Size), humanize.Comma(at), b.Start, b.End-1)
		m.rect(x, y, w, h, m.colours[b.Owner], "#ffffff", tip)
	}
}

// names labels the buffers that have room for 6 characters or the whole name, at 11 pixels.
func (m *scratchMap) names() {
	for i, b := range m.q.Buffers {
		at := wording.At(m.q.Offsets, i)
		w, h := m.x(int(b.End))-m.x(int(b.Start)), m.y(at)-m.y(at+b.Size)
		name := label(b.Owner, b.Name)
		if n := int((w - 6) / textWidth("m", 11)); h >= 14 && n >= min(6, len([]rune(name))) {
			m.text(m.x(int(b.Start))+5, m.y(at)-h/2+4, 11, lettersOn(m.colours[b.Owner]), "start", false, wording.Clip(name, n))
		}
	}
}

// live draws the sum of live bytes at each instruction: the height of the buffers without free space
// between or below them.
func (m *scratchMap) live() {
	path := []point{{mapLeft, panelBottom}}
	for _, s := range liveSteps(m.q) {
		x := m.x(int(s.at))
		path = append(path, point{x, path[len(path)-1].y}, point{x, m.y(min(s.bytes, m.bytes))})
	}
	m.lines(append(path, point{mapRight, path[len(path)-1].y}), none, ink, 1.6, false)
}

// peak marks the instruction with the most live bytes.
func (m *scratchMap) peak() {
	if len(m.q.Buffers) == 0 {
		return
	}
	at := int(m.q.Peak())
	middle := (m.x(at) + m.x(at+1)) / 2
	m.line(middle, panelTop, middle, panelBottom, alarm, 1.4, true)
	m.line(mapLeft, m.y(m.q.Live), mapRight, m.y(m.q.Live), alarm, 1.4, true)
	where := m.q.LiveAt
	if where == "" {
		where = fmt.Sprintf("instruction %d", at)
	} else {
		where = fmt.Sprintf("instruction %d, %s", at, where)
	}
	note := wording.Clip(fmt.Sprintf("peak: %s at %s", wording.Bytes(m.q.Live), where), 90)
	// On the side with more room.
	x, anchor := middle+8, "start"
	if at > m.instructions/2 {
		x, anchor = middle-8, "end"
	}
	m.text(x, panelTop-8, 13, alarm, anchor, true, note)
}

// niceStep returns 1, 2 or 5 times a power of ten, with at most 12 steps in n.
func niceStep(n int) int {
	for step := 1; ; step *= 10 {
		for _, k := range []int{1, 2, 5} {
			if n/(k*step) <= 12 {
				return k * step
			}
		}
	}
}

// instructions returns the number of instructions, at least as many as labels and live ranges have.
func instructions(q report.Program) int {
	n := max(q.Instructions, len(q.Labels))
	for _, b := range q.Buffers {
		n = max(n, int(b.End))
	}
	return n
}

// liveStep is an instruction from which on a number of bytes is live.
type liveStep struct {
	at    int32
	bytes int64
}

// liveSteps returns the instructions at which the number of live bytes changes, in order. Buffers
// count with their padding, so that the largest number is the peak.
func liveSteps(q report.Program) (steps []liveStep) {
	var changes []liveStep
	for _, b := range q.Buffers {
		if b.Start >= 0 && b.Start < b.End {
			changes = append(changes, liveStep{b.Start, b.Reserved()}, liveStep{b.End, -b.Reserved()})
		}
	}
	slices.SortFunc(changes, func(a, b liveStep) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.bytes, b.bytes)) })
	var live int64
	for i, c := range changes {
		live += c.bytes
		if i+1 == len(changes) || changes[i+1].at != c.at {
			steps = append(steps, liveStep{c.at, live})
		}
	}
	return steps
}
