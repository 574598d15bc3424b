// Package report shows memory plans as text, data and pictures.
//
// A [Plan] is plain data that the trainer fills: regions of the arena and the programs that share its scratch.
// [Plan.String] is a table for people, [Plan.JSON] the same for programs, [Plan.SVG] a map of the memory.
package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
)

// Plan says what every byte of an arena is for.
type Plan struct {
	Device    string // "cpu"
	Mode      string // how data reach the device: "streaming" or "resident"
	Regions   []arena.RegionInfo
	Programs  []Program // training first; they share the region "scratch"
	Pinned    int64     // bytes of pinned host memory, outside the arena
	Offloaded int64     // of Pinned: what lies there in place of the arena
	Context   int64     // bytes of device memory outside the arena: the device's own context, and other programs
	Total     int64     // bytes of the arena: the sizes of all regions
}

// Program is one compiled graph: what it does to scratch, instruction by instruction.
type Program struct {
	Recomputed   int     // instructions that compute an activation again
	Extra        float64 // their time, as a share of the forward pass's, by the cost model
	Name         string  // "train 128", "evaluate 128"
	Batch        int     // samples
	Instructions int
	Bus          Bus            // zero where the device's memory is the host's, or the device is not known and nothing offloaded
	Time         int64          // of a run by the cost model, in bytes that could cross memory meanwhile: good for ratios
	Scratch      int64          // bytes that its buffers need, placed
	Live         int64          // most bytes that live at once: no placement needs fewer
	LiveAt       string         // label of the instruction at which they do
	Buffers      []arena.Buffer // what lives in scratch, with lifetimes in instructions
	Offsets      []int64        // by buffer, bytes from the start of scratch
	Labels       []string       // by instruction
	Fallbacks    []string       // labels of instructions that run Gorgonia's own code, which allocates
	Notes        []string       // anything else worth saying
}

// Bus is what crosses between the host's memory and the device's in a step, in bytes.
type Bus struct {
	Uploads   int64 // of a batch
	Downloads int64 // of results
	Fetches   int64 // of what is offloaded
	Stows     int64 // of it, changed
}

// Total is all of it.
func (b Bus) Total() int64 { return b.Uploads + b.Downloads + b.Fetches + b.Stows }

// Share is a tensor and what it takes.
type Share struct {
	Region string
	Owner  string // layer, "" for none
	Name   string
	Bytes  int64
}

// Label returns owner/name, without saying the owner twice.
func (s Share) Label() string { return label(s.Owner, s.Name) }

// Category returns the bytes of the regions of that name: "parameters", "scratch". A numbered region counts under its
// name without the number too: Category("slot") is "slot 0" and "slot 1" together.
func (p Plan) Category(name string) int64 {
	var n int64
	for _, r := range p.Regions {
		if r.Name == name || category(r.Name) == name {
			n += r.Size
		}
	}
	return n
}

// Categories returns the bytes of all categories.
func (p Plan) Categories() map[string]int64 {
	all := make(map[string]int64)
	for _, r := range p.Regions {
		all[category(r.Name)] += r.Size
	}
	return all
}

// Top returns the n largest tensors, largest first: of the regions, and of scratch those that live at the peak of the
// program that needs most.
func (p Plan) Top(n int) []Share {
	var all []Share
	for _, r := range p.Regions {
		for _, part := range r.Parts {
			all = append(all, Share{Region: r.Name, Owner: part.Owner, Name: part.Name, Bytes: part.Size})
		}
	}
	if i := p.largest(); i >= 0 {
		q := p.Programs[i]
		at := q.peak()
		for _, b := range q.Buffers {
			if b.Start <= at && at < b.End {
				all = append(all, Share{Region: "scratch", Owner: b.Owner, Name: b.Name, Bytes: b.Size})
			}
		}
	}
	slices.SortFunc(all, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Region, b.Region), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(max(n, 0), len(all))]
}

// Layer is what one layer takes. The sum of all layers is the arena.
type Layer struct {
	Name  string  // "" for what belongs to no layer
	Bytes []int64 // by region of the plan, rounded up to arena.Align
	Total int64
}

// Layers returns the bytes of each layer, in the order of first appearance. What no part of a region claims, such as
// scratch, belongs to the layer "", which comes last.
func (p Plan) Layers() []Layer {
	rest := Layer{Bytes: make([]int64, len(p.Regions))}
	var out []Layer
	index := map[string]int{}
	for k, r := range p.Regions {
		left := r.Size
		for _, part := range r.Parts {
			if part.Owner == "" {
				continue
			}
			i, ok := index[part.Owner]
			if !ok {
				i = len(out)
				index[part.Owner] = i
				out = append(out, Layer{Name: part.Owner, Bytes: make([]int64, len(p.Regions))})
			}
			n := min(arena.Round(part.Size), left)
			out[i].Bytes[k] += n
			out[i].Total += n
			left -= n
		}
		rest.Bytes[k] += left
		rest.Total += left
	}
	return append(out, rest)
}

// largest returns the index of the program that needs most scratch, the first on ties, -1 without programs.
func (p Plan) largest() int {
	best := -1
	for i, q := range p.Programs {
		if best < 0 || q.Scratch > p.Programs[best].Scratch {
			best = i
		}
	}
	return best
}

// peak returns the first instruction at which most bytes live, alignment included.
func (q Program) peak() int32 {
	_, at := arena.Bound(arena.Problem{Buffers: q.Buffers})
	return at
}

// instructions returns how many instructions the program has, going by its buffers too.
func (q Program) instructions() int {
	n := max(q.Instructions, len(q.Labels))
	for _, b := range q.Buffers {
		n = max(n, int(b.End))
	}
	return n
}

// category is the name of a region without a number at its end.
func category(region string) string {
	return strings.TrimRight(strings.TrimRight(region, "0123456789"), " ")
}

func label(owner, name string) string {
	switch {
	case owner == "" || owner == name || strings.Contains(name, owner+"/"):
		return name
	case name == "":
		return owner
	}
	return owner + "/" + name
}
