package picture

import (
	"cmp"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/trainer/internal/wording"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// Change is a number of bytes in two plans.
type Change struct {
	Name string `json:"name"` // of a region or layer; "" for what belongs to no layer
	A    int64  `json:"a"`    // bytes in the first plan
	B    int64  `json:"b"`    // bytes in the second plan
}

// Changes lists what differs between two plans.
type Changes struct {
	Regions []Change `json:"regions"` // in order, numbered ones such as "slot 0" and "slot 1" as one; the sums are the sizes of the arenas
	// Live are the bytes that are live at the peak of the first programs, by layer, largest difference
	// first; the sums are their peaks. Each buffer counts with its padding.
	Live []Change `json:"live"`
	// Recomputed are the labels of the instructions whose activations the second plan's first program
	// recomputes, in order, each once: "hidden/act" for "hidden/act again".
	Recomputed []string `json:"recomputed"`
	// Time is the estimated time of a step of the second plan, relative to the first: 0.1 is a tenth
	// longer. 0 if it is not known.
	Time float64 `json:"time"`
}

// Difference compares two plans: all regions, and the first programs, which train. A plan without
// programs has nothing live.
func Difference(a, b *report.Plan) Changes {
	d := Changes{Recomputed: []string{}}
	var regions, live changes
	for _, r := range a.Regions {
		regions.of(wording.Category(r.Name)).A += r.Size
	}
	for _, r := range b.Regions {
		regions.of(wording.Category(r.Name)).B += r.Size
	}
	var p, q report.Program
	if len(a.Programs) > 0 {
		p = a.Programs[0]
	}
	if len(b.Programs) > 0 {
		q = b.Programs[0]
	}
	for owner, n := range liveAt(p, p.Peak()) {
		live.of(owner).A = n
	}
	for owner, n := range liveAt(q, q.Peak()) {
		live.of(owner).B = n
	}
	slices.SortFunc(live.list, func(x, y Change) int {
		return cmp.Or(cmp.Compare(distance(y), distance(x)), cmp.Compare(x.Name, y.Name))
	})
	listed := map[string]bool{}
	for i, pass := range q.Passes {
		if pass == report.Recompute && i < len(q.Labels) {
			label := strings.TrimSuffix(q.Labels[i], " again")
			if !listed[label] {
				d.Recomputed = append(d.Recomputed, label)
			}
			listed[label] = true
		}
	}
	if p.Time > 0 && q.Time > 0 {
		d.Time = float64(q.Time)/float64(p.Time) - 1
	}
	d.Regions, d.Live = regions.list, live.list
	return d
}

// distance returns by how much a number of bytes changed.
func distance(c Change) int64 { return max(c.A-c.B, c.B-c.A) }

// changes is a list with one entry for each name.
type changes struct{ list []Change }

// of returns the entry of a name.
func (c *changes) of(name string) *Change {
	i := slices.IndexFunc(c.list, func(x Change) bool { return x.Name == name })
	if i < 0 {
		i = len(c.list)
		c.list = append(c.list, Change{Name: name})
	}
	return &c.list[i]
}

// liveAt returns the bytes of scratch that are live at an instruction of a program, by layer.
func liveAt(q report.Program, at int32) map[string]int64 {
	live := make(map[string]int64)
	for _, b := range q.Buffers {
		if b.Start <= at && at < b.End {
			live[b.Owner] += b.Reserved()
		}
	}
	return live
}
