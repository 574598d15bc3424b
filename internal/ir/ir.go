// Package ir is a step as a list of instructions over values.
//
// A [Program] is in static single assignment form: every [Value] has a home (a place that outlives
// the step) or is made by one [Instr]. A [Builder] appends instructions; the compiler's passes
// rewrite them until each value has an address; then [Program.Calls] returns what a device runs.
// [Homes] gives a value that several programs share the same place in all of them. [Program.String]
// prints a program, [Program.Work] estimates its time.
package ir

import (
	"math"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// The regions that a program refers to. A slot is one of two batch buffers: the host fills one
// while a step reads the other. A program is bound (its regions given addresses) once for each
// slot; only the addresses of Slot and Results differ.
const (
	Parameters     arena.Region = iota // weights and constants
	Gradients                          // gradients that are kept until the update
	State                              // optimizer state
	HostParameters                     // offloaded weights, in pinned host memory: no region of the arena
	HostState                          // offloaded optimizer state, the same
	HostAverages                       // offloaded averages, the same
	Statistics                         // running statistics
	Averages                           // averages of parameters
	Prepacked                          // weights in the form that a device's kernels read, of a predictor
	Slot                               // one batch in storage types, and the controls of its step
	Guard                              // the status word: once set, no update changes anything
	Results                            // what the host reads after a step
	Resident                           // datasets that stay on the device
	Scratch                            // values that end with the step
	Regions                            // number of regions
)

// Offloaded are the regions in pinned host memory, which only transfers refer to.
var Offloaded = [...]arena.Region{HostParameters, HostState, HostAverages}

// Value is a tensor of a program.
type Value struct {
	Name  string // of the node it comes from
	Owner string // layer that its bytes are reported under
	Spec  kernels.Spec
	Ref   arena.Ref // its home, or its range of Scratch once placed
	Home  bool      // it has a home, outside Scratch

	// Of is the value whose bytes it aliases, as a view or a result in place; None: it has bytes of
	// its own. Delta is the distance in bytes from the first byte of Of. For y = x[2:], of float32:
	// Of x, Delta 8.
	Of    kernels.Value
	Delta int64
}

// weightRoots begins the label of an instruction whose result is NaN where a weight is below 0.
const weightRoots = "root of weights "

// WeightRoots returns the label of the instruction whose result is NaN where one of the weights is
// below 0, which the node called name has.
func WeightRoots(name string) string { return weightRoots + name }

// WeightOf returns the name of the node of weights whose roots an instruction labelled so computes.
// ok is false for other labels.
func WeightOf(label string) (name string, ok bool) { return strings.CutPrefix(label, weightRoots) }

// WeightOwner owns the homes in region Gradients of what a window of weighted steps adds up besides
// gradients. Their names begin with WeightUnit, the weights of the window's first step, and WeightSum,
// those of all its steps.
const (
	WeightOwner = "weights"
	WeightUnit  = "unit of weights"
	WeightSum   = "sum of weights"
)

// OfWeights reports whether p is the home of weights of a window, and not that of a gradient.
func (p Part) OfWeights() bool {
	return p.Owner == WeightOwner && (strings.HasPrefix(p.Name, WeightUnit) || strings.HasPrefix(p.Name, WeightSum))
}

// FallbackMark is the mark of instructions that run Gorgonia's own code.
const FallbackMark = "fallback, allocates"

// Instr is one use of an operation.
type Instr struct {
	Op         *kernels.Op
	Attrs      any
	In, Out    []kernels.Value
	Work       arena.Ref // workspace, once placed
	Label      string    // layer and node, for errors and plans
	Owner      string    // layer
	Mark       string    // a remark for plans, such as FallbackMark
	Steps      []string  // labels of the operations that a kernels.Chain instruction joins
	Backward   bool      // of the backward pass or the update
	Recomputed bool      // a repetition, for the backward pass, of an instruction of the forward pass
}

// Codes of the status word. LossCode: the loss is not finite. WeightCode: all weights of the window
// are 0. FirstGradient + i: the gradient of Program.Trained[i] is not finite. FirstVariance + i:
// the variance of the batch for the running variance Program.Variances[i] is not finite.
// PeerCode: a check of another rank of the group failed.
// FirstIndices - i, below 0: one of Program.Indices[i] is out of range, or a divisor is 0.
const (
	LossCode      int32 = 1
	WeightCode    int32 = 2
	FirstGradient int32 = 3
	FirstVariance int32 = 1 << 30
	PeerCode      int32 = math.MaxInt32
	FirstIndices  int32 = -1
)

// Program is a graph compiled for one batch size and mode.
type Program struct {
	Name   string // "train 128"
	Batch  int    // rows
	Values []Value
	Instrs []Instr
	Needed []kernels.Value // values that are needed after the last instruction: results, updates

	Results   []Result   // values that the host reads after a step
	Constants []Constant // values that are written once, before the first step
	Prepacked []Packing  // values of region Prepacked, which are computed whenever the weights have changed
	Trained   []string   // parameters that are updated
	Variances []string   // running variances that are updated
	Indices   []Indices  // indices that are checked
	// Follows are dependencies that operands do not show. Follows[v] = w: the instruction that
	// makes v runs after the one that makes w. So each slice of a gradient is computed only after
	// the update has read the slice before it.
	Follows map[kernels.Value]kernels.Value
	// Slices is the number of slices of each trained parameter's gradient, 0 where it is whole;
	// nil: all are whole.
	Slices []int
	// Buckets lists the parameters whose gradients are summed over the ranks of a group in one
	// operation; nil: there is no group.
	Buckets [][]string
	// Recomputation lists the activations that are computed again; nil: it was not asked for.
	Recomputation *Recomputation
	Order         []int32 // Order[i] is the index that Instrs[i] had before schedule.Run reordered them

	Problem arena.Problem // buffers of Scratch: sizes and lifetimes in instructions
	Plan    arena.Plan    // their offsets
}

// Recomputation lists the activations that a program computes again, so that a program at another
// batch size can do the same.
type Recomputation struct {
	Values int     // number of values before the rewrite: another program with as many can reuse it
	Order  []int32 // order of the instructions before recomputation, as indices into Instrs at the start of remat.Run
	Rounds []Round // in order; none: nothing is computed again
}

// Round lists values to drop and recompute for the backward pass, and values to keep as starting
// points. Both are indices into Values before the first round. If an earlier round recomputed y as
// y', Dropped y in this round drops y'.
type Round struct {
	Dropped []kernels.Value
	Kept    []kernels.Value
}

// Indices describe an operand that selects rows, such as word numbers for an embedding of Rows
// words. Each index must be in 0 … Rows-1. Or they mark the elements of a division of integers: 0
// where the quotient is defined, and 1 where the divisor is 0.
type Indices struct {
	Node  string // name of the node that selects the rows, or that divides
	Rows  int    // number of rows to select from
	Field string // field of the batch that holds the indices; "": the graph computes them
	Each  int    // indices in one sample of the batch; 0: the graph computes the indices

	Divides bool // they mark the elements of a division; Rows is 1
}

// Result is a value in region Results.
type Result struct {
	Name  string
	Value kernels.Value
}

// Constant is a value with fixed contents.
type Constant struct {
	Value kernels.Value
	Data  []byte
}

// Packing is a weight in another form: Op makes the value at the home To of the one at From.
type Packing struct {
	Op       *kernels.Op
	Attrs    any
	From, To Part
}

// Root follows aliases to the value that owns v's bytes, and returns it and the byte offset of v in
// it.
func (p *Program) Root(v kernels.Value) (root kernels.Value, delta int64) {
	for p.Values[v].Of != kernels.None {
		delta += p.Values[v].Delta
		v = p.Values[v].Of
	}
	return v, delta
}

// Result returns the result called name.
func (p *Program) Result(name string) (Value, bool) {
	for _, r := range p.Results {
		if r.Name == name {
			return p.Values[r.Value], true
		}
	}
	return Value{}, false
}

// Clone returns a copy of p whose instructions and values can be replaced. Operand lists and all
// else are shared with p.
func (p *Program) Clone() *Program {
	q := *p
	q.Instrs, q.Values = slices.Clone(p.Instrs), slices.Clone(p.Values)
	return &q
}

// CloneValues returns a copy of p whose values can be replaced, and whose Instrs can be set to
// another slice. The instructions themselves are shared with p: do not change them.
func (p *Program) CloneValues() *Program {
	q := *p
	q.Values = slices.Clone(p.Values)
	return &q
}

// Add appends a value and returns its index in p.Values.
func (p *Program) Add(v Value) kernels.Value {
	p.Values = append(p.Values, v)
	return kernels.Value(len(p.Values) - 1)
}

// Calls returns the instructions that run, in order, with the addresses of their operands. Views
// run nothing.
func (p *Program) Calls() []kernels.Call {
	calls := make([]kernels.Call, 0, len(p.Instrs))
	for i := range p.Instrs {
		if c, ok := p.Call(i); ok {
			calls = append(calls, c)
		}
	}
	return calls
}

// Call returns instruction i with the addresses of its operands, and false where it is a view.
func (p *Program) Call(i int) (kernels.Call, bool) {
	in := &p.Instrs[i]
	if p.IsView(in) {
		return kernels.Call{}, false
	}
	return kernels.Call{
		Op: in.Op, Attrs: in.Attrs, Work: in.Work, Label: in.Label,
		In: p.operands(in.In), Out: p.operands(in.Out),
	}, true
}

// IsView reports whether in runs nothing because its output aliases its operand. It is false until
// Of of the output is set (schedule.Alias).
func (p *Program) IsView(in *Instr) bool {
	if in.Op.View == nil || p.Values[in.Out[0]].Of != in.In[0] {
		return false
	}
	_, ok := in.Op.View(in.Attrs, p.Specs(in.In))
	return ok
}

// Specs returns the specs of vs.
func (p *Program) Specs(vs []kernels.Value) []kernels.Spec {
	specs := make([]kernels.Spec, len(vs))
	for i, v := range vs {
		specs[i] = p.Values[v].Spec
	}
	return specs
}

func (p *Program) operands(vs []kernels.Value) []kernels.Operand {
	ops := make([]kernels.Operand, len(vs))
	for i, v := range vs {
		ops[i] = kernels.Operand{Spec: p.Values[v].Spec, Ref: p.Values[v].Ref}
	}
	return ops
}
