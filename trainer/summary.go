package trainer

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Summary lists the layers of a model. String prints it as a table of 100 columns, Text in fewer.
type Summary struct {
	Batch  int            // samples of a training step
	Layers []LayerSummary // in the order in which a step computes them
	Total  LayerSummary   // sums over the layers; it has no name and no output
	Groups report.Groups  // parameters by group; nil without Options.Groups
	Arena  int64          // bytes of device memory, all together
}

// LayerSummary is what the training program of a full batch has of one layer.
type LayerSummary struct {
	Name string
	// Output is the type and shape of the last result of the layer in the forward pass. What has no
	// parameters, such as a pooling, belongs to the layer before it.
	Output     kernels.Spec
	Parameters int64 // elements of parameters and constants; running statistics are not counted
	Trained    int64 // those among them that training changes
	Bytes      int64 // of parameters, gradients, optimizer state and running statistics, with padding
	// Forward and Backward are the floating-point operations of a step; the update is part of
	// Backward. A multiplication and the addition of its product are two.
	Forward, Backward int64
}

// otherLayers is the name of the last row of a summary: sums of results, checks, and what belongs to no
// layer.
const otherLayers = "other"

// layerOf returns the name of the layer that owns something, as tables have it.
func layerOf(owner string) string {
	if owner == "" || owner == "results" || owner == "guard" {
		return otherLayers
	}
	return owner
}

// Summary returns the layers of the model, as the training program of a full batch computes them. It
// may be called while a pass runs. After Close, and of a trainer that New did not make, it is empty.
func (t *Trainer) Summary() Summary {
	if t == nil {
		return Summary{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.plan == nil || t.use().isClosed() {
		return Summary{}
	}
	return t.plan.summary()
}

// summary returns the layers of the program that trains.
func (p *planned) summary() Summary {
	prog := p.trainings()[0]
	s := Summary{Batch: prog.Batch, Arena: p.layout.Total()}
	index := make(map[string]int)
	layer := func(name string) *LayerSummary {
		i, ok := index[name]
		if !ok {
			i = len(s.Layers)
			index[name] = i
			s.Layers = append(s.Layers, LayerSummary{Name: name})
		}
		return &s.Layers[i]
	}
	for i := range prog.Instrs {
		in := &prog.Instrs[i]
		l, work := layer(layerOf(in.Owner)), prog.WorkOf(in).Flops
		if in.Backward || in.Recomputed {
			l.Backward += work
			continue
		}
		l.Forward += work
		if !prog.IsView(in) && in.Op != kernels.Correct && in.Op != kernels.CorrectDense {
			l.Output = prog.Spec(in.Out[0])
		}
	}
	for _, home := range p.parameters() {
		l, n := layer(layerOf(home.Owner)), int64(home.Spec.Shape.Elems())
		l.Parameters += n
		if slices.Contains(prog.Trained, home.Name) {
			l.Trained += n
		}
	}
	plan := p.report()
	s.Groups = plan.Groups
	for _, r := range plan.Layers() {
		if i, ok := index[r.Name]; ok && r.Name != otherLayers {
			s.Layers[i].Bytes = r.Total
		}
	}
	if i, ok := index[otherLayers]; ok { // last, and without an output
		other := s.Layers[i]
		other.Output = kernels.Spec{}
		s.Layers = append(slices.Delete(s.Layers, i, i+1), other)
	}
	for _, l := range s.Layers {
		s.Total.Parameters += l.Parameters
		s.Total.Trained += l.Trained
		s.Total.Bytes += l.Bytes
		s.Total.Forward += l.Forward
		s.Total.Backward += l.Backward
	}
	return s
}

// String returns Text(100).
func (s Summary) String() string { return s.Text(100) }

// Text returns the summary as a table of at most that many columns, a width of a terminal, but at
// least 70. Names and shapes that are too long are shortened.
func (s Summary) Text(columns int) string {
	var b strings.Builder
	const numbers = 52 // columns of numbers
	width := max(columns-numbers, 18) / 2
	row := func(name, output, parameters, bytes, forward, backward string) {
		fmt.Fprintf(&b, "%s %s %15s %10s %11s %11s\n", fitted(name, width), fitted(output, width), parameters, bytes, forward, backward)
	}
	row("layer", "output", "parameters", "bytes", "forward", "backward")
	line := func(l LayerSummary) {
		output := ""
		if l.Output.Type != 0 {
			output = l.Output.String()
		}
		row(l.Name, output, humanize.Comma(l.Parameters), humanize.IBytes(uint64(l.Bytes)), flops(l.Forward), flops(l.Backward))
	}
	for _, l := range s.Layers {
		line(l)
	}
	total := s.Total
	total.Name = "total"
	line(total)
	fmt.Fprintf(&b, "batch of %d, %s trained parameters, arena of %s\n", s.Batch, humanize.Comma(s.Total.Trained), humanize.IBytes(uint64(s.Arena)))
	if len(s.Groups) > 0 {
		b.WriteString("\n" + s.Groups.Text(columns))
	}
	return b.String()
}

// flops prints a number of floating-point operations.
func flops(n int64) string {
	v, unit := humanize.ComputeSI(float64(n))
	return fmt.Sprintf("%.3g %sFLOP", v, unit)
}

// fitted returns s in width columns: shortened, or with spaces at its end.
func fitted(s string, width int) string {
	if n := utf8.RuneCountInString(s); n <= width {
		return s + strings.Repeat(" ", width-n)
	}
	return string([]rune(s)[:width-1]) + "…"
}
