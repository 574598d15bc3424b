// Package report shows memory plans as text and JSON.
//
// A [Plan] is plain data that trainer.Plan and Trainer.Plan return: the regions of the arena, and
// the programs that share its scratch, each a [Program]. [Plan.String] prints it as tables,
// and [Plan.JSON] writes all of it. [Plan.Category], [Plan.Layers] and [Plan.Top] sum it up. Package
// trainer/picture draws it.
//
// [Choices], from trainer.Explore, compares plans with different settings.
package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/trainer/internal/wording"
)

// Plan lists what every byte of an arena is for. All sizes are bytes.
type Plan struct {
	Device    string             // name of the device, such as "cpu"
	Mode      string             // "streaming" (batches are uploaded), "resident" (the data stay on the device) or "machine" (the plan of a vm.Machine)
	Regions   []arena.RegionInfo // the arena, in order
	Specs     [][]string         // by region and part: type and shape, such as "float32 (784, 512)"; "" where a part has none
	Programs  []Program          // the training program first; they share the region "scratch"
	Groups    Groups             // parameters by group of the trainer's options; nil without groups
	Pinned    int64              // pinned host memory, outside the arena
	Offloaded int64              // part of Pinned: offloaded parameters and optimizer state
	Context   int64              // device memory outside the arena: of the driver, and of other processes
	Total     int64              // size of the arena, the sum of all regions
}

// Program is one compiled graph and its use of scratch.
type Program struct {
	Name         string // mode and batch size, such as "train 128" or "evaluate 128"
	Batch        int    // samples
	Instructions int
	Scratch      int64          // bytes of scratch that it needs
	Live         int64          // peak: the most bytes that are live at one instruction; no placement needs fewer
	LiveAt       string         // label of the first instruction at the peak
	Buffers      []arena.Buffer // values in scratch, with live ranges in instructions
	Offsets      []int64        // by buffer, bytes from the start of scratch
	Specs        []string       // by buffer: type and shape, such as "float32 (128, 512)"; "" for a workspace
	Labels       []string       // by instruction
	Ops          []string       // by instruction: name of the operation, such as "matmul"
	Passes       []Pass         // by instruction
	Fallbacks    []string       // labels of instructions that run Gorgonia's own code, which allocates
	Doubts       []string       // nodes that may stand for several: Gorgonia merges nodes of equal hashes
	Recomputed   int            // instructions that recompute an activation
	Extra        float64        // estimated time of these, as a fraction of that of the forward pass
	Time         int64          // estimated time of a step, in the unit of moving one byte of device memory; only ratios of it mean something
	Bus          Bus            // zero if device memory is host memory, or if there is no device and nothing is offloaded
	Network      int64          // bytes that each rank of a group adds to sums in a step; 0 without a group
	Notes        []string       // further remarks
}

// Pass is the part of a step that an instruction belongs to.
type Pass string

// Passes.
const (
	Forward   Pass = "forward"
	Recompute Pass = "recompute" // a repetition of an instruction of the forward pass
	Backward  Pass = "backward"  // of the backward pass or the update
)

// Bus counts the bytes that cross between host and device memory in one step.
type Bus struct {
	Uploads    int64 // a batch, to the device
	Downloads  int64 // results, to the host
	Prefetches int64 // prefetched offloaded values, to the device
	Writebacks int64 // writeback of offloaded values that changed, to the host
}

// Total returns the sum.
func (b Bus) Total() int64 { return b.Uploads + b.Downloads + b.Prefetches + b.Writebacks }

// Tensor is a named part of a region, or a value in scratch.
type Tensor struct {
	Region string
	Owner  string // layer, "" for none
	Name   string
	Bytes  int64
}

// Label returns owner/name, or the name alone if it contains the owner.
func (t Tensor) Label() string { return label(t.Owner, t.Name) }

// Category returns the bytes of the regions called name, such as "parameters" or "scratch". A name
// without a number also stands for the numbered regions: Category("slot") is the sum of "slot 0"
// and "slot 1".
func (p Plan) Category(name string) int64 {
	var n int64
	for _, r := range p.Regions {
		if r.Name == name || wording.Category(r.Name) == name {
			n += r.Size
		}
	}
	return n
}

// Categories returns the bytes of all categories, by name.
func (p Plan) Categories() map[string]int64 {
	all := make(map[string]int64)
	for _, r := range p.Regions {
		all[wording.Category(r.Name)] += r.Size
	}
	return all
}

// Top returns the n largest tensors, largest first: parts of regions, and the values in scratch
// that are live at the peak of the program that needs the most scratch.
func (p Plan) Top(n int) []Tensor {
	var all []Tensor
	for _, r := range p.Regions {
		for _, part := range r.Parts {
			all = append(all, Tensor{Region: r.Name, Owner: part.Owner, Name: part.Name, Bytes: part.Size})
		}
	}
	if i := p.largest(); i >= 0 {
		q := p.Programs[i]
		at := q.Peak()
		for _, b := range q.Buffers {
			if b.Start <= at && at < b.End {
				all = append(all, Tensor{Region: "scratch", Owner: b.Owner, Name: b.Name, Bytes: b.Size})
			}
		}
	}
	slices.SortFunc(all, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Region, b.Region), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(max(n, 0), len(all))]
}

// Layer is the memory of one layer. The sum of all layers is the arena.
type Layer struct {
	Name  string  // "" for memory that belongs to no layer
	Bytes []int64 // by region of the plan, rounded up to arena.Align
	Total int64
}

// Layers returns the bytes of each layer, in the order of the regions. The last layer, "", has the
// bytes that belong to no layer, such as scratch.
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

// largest returns the index of the first program that needs the most scratch, -1 without programs.
func (p Plan) largest() int {
	best := -1
	for i, q := range p.Programs {
		if best < 0 || q.Scratch > p.Programs[best].Scratch {
			best = i
		}
	}
	return best
}

// Peak returns the first instruction with the most live bytes.
func (q Program) Peak() int32 {
	_, at := arena.Bound(arena.Problem{Buffers: q.Buffers})
	return at
}

// label returns owner/name, or the name alone if it contains the owner.
func label(owner, name string) string {
	switch {
	case owner == "" || owner == name || strings.Contains(name, owner+"/"):
		return name
	case name == "":
		return owner
	}
	return owner + "/" + name
}
