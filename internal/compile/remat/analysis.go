package remat

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// analysis is what the search knows of a program in which some activations may have been computed
// again already. An alias is represented by its root: the value that owns its bytes.
//
// The bytes of an activation idle between its last reader in the forward pass and its first reader
// in the backward pass. Dropping it frees them there:
//
//	forward pass                         backward pass
//	maker ─── reader ─── reader          reader ─── reader
//	                      until │ idle… │ first
//
// An instruction counts as forward if it is of the forward pass or a repetition of one. All others
// only read activations.
type analysis struct {
	p *ir.Program
	o schedule.Options

	origin []kernels.Value // by value: the value of the program before the first round that it equals (y for y', y")
	root   []kernels.Value // by value
	maker  []int32         // by value: the instruction that makes it, -1 for homes
	bytes  []int64         // by root
	work   []int64         // by instruction: time, as ir.Work.Time
	space  []int64         // by instruction: bytes of workspace, see schedule.Workspaces
	extra  int64           // time of all repetitions so far
	saved  []kernels.Value // roots of activations that can be computed again, in the order in which they are made; no copies of offloaded values
	until  []int32         // by root: the last forward instruction that reads it
	first  []int32         // by root: the first other instruction that reads it, -1 for none

	updated   []bool // by root: an instruction overwrites its contents, such as a sum over ranks
	refetched []bool // by root: a copy of an offloaded parameter that the backward pass prefetches once more in any case
}

// rewritten describes the program after a round, for the analysis before the next one.
type rewritten struct {
	origin    []kernels.Value // see analysis
	work      []int64         // see analysis
	space     []int64         // see analysis
	extra     int64           // see analysis
	positions []int32         // by instruction of the program before: its index now
}

// producesActivations reports whether in is of the forward pass, or a repetition of such an
// instruction.
func producesActivations(in *ir.Instr) bool { return !in.Backward || in.Recomputed }

// analyse returns the analysis of a program in which nothing has been computed again.
func analyse(p *ir.Program, o schedule.Options) *analysis {
	return analyseRewritten(p, o, rewritten{origin: identity(p), work: works(p, o),
		space: schedule.Workspaces(p, o.Device)})
}

// identity returns the values of p, each at its own index.
func identity(p *ir.Program) []kernels.Value {
	origin := make([]kernels.Value, len(p.Values))
	for v := range origin {
		origin[v] = kernels.Value(v)
	}
	return origin
}

// works returns the time of each instruction, as ir.Work.Time. Transfers overlap with compute: 0.
func works(p *ir.Program, o schedule.Options) []int64 {
	work := make([]int64, len(p.Instrs))
	d := p.CloneValues()
	schedule.Alias(d, o.Views)
	for i := range d.Instrs {
		if in := &d.Instrs[i]; !in.Op.IsTransfer() {
			work[i] = d.WorkOf(in).Time
		}
	}
	return work
}

// analyseRewritten is analyse for the program that a round has made.
func analyseRewritten(p *ir.Program, o schedule.Options, now rewritten) *analysis {
	d, n := p.CloneValues(), len(p.Values)
	schedule.Alias(d, o.Views)
	a := &analysis{p: p, o: o, origin: now.origin, work: now.work, space: now.space, extra: now.extra,
		root: make([]kernels.Value, n), maker: make([]int32, n), bytes: make([]int64, n),
		until: make([]int32, n), first: make([]int32, n), refetched: make([]bool, n), updated: make([]bool, n)}
	for v := range n {
		a.root[v], _ = d.Root(kernels.Value(v))
		a.maker[v], a.until[v], a.first[v] = -1, -1, -1
		if a.root[v] == kernels.Value(v) && !p.Values[v].Home {
			a.bytes[v] = arena.Round(p.Values[v].Spec.Bytes())
		}
	}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		for k, o := range in.Out {
			a.maker[o] = int32(i)
			if k < len(in.Op.Updates) {
				a.updated[a.root[o]] = true
			}
		}
		// Reads of an alias count as reads of its root.
		for _, v := range in.In {
			v = a.root[v]
			switch {
			case producesActivations(in):
				a.until[v] = int32(i)
			case a.first[v] < 0:
				a.first[v] = int32(i)
			}
		}
	}
	for i := range p.Instrs {
		for _, v := range p.Instrs[i].Out {
			if a.root[v] == v && a.first[v] >= 0 && a.recomputable(v) && !a.prefetched(v) {
				a.saved = append(a.saved, v)
			}
		}
	}
	a.findRefetched()
	return a
}

// prefetched reports whether v, which an instruction makes, is a copy of an offloaded value.
func (a *analysis) prefetched(v kernels.Value) bool {
	return a.p.Instrs[a.maker[v]].Op == kernels.Prefetch
}

// findRefetched finds the copies that are prefetched once more for the backward pass: those that
// both passes read. The copy of the last layer is an exception: the backward pass reads it before
// any other copy, so it stays in scratch.
//
//	reads of copies   w1 w2 w3 │ w3 w2 w1      w1 and w2 are prefetched again, w3 is not
func (a *analysis) findRefetched() {
	// Consecutive reads of one copy are one run: while no other copy is read in between, the copy
	// may as well stay in scratch.
	readSeq, last := 0, kernels.None     // number of the present run, from 1, and the copy that it reads
	until := make(map[kernels.Value]int) // by copy: the run in which the forward pass reads it last
	for i := range a.p.Instrs {
		in := &a.p.Instrs[i]
		for _, v := range in.In {
			v = a.root[v]
			if !a.recomputable(v) || !a.prefetched(v) {
				continue
			}
			if v != last {
				readSeq, last = readSeq+1, v
			}
			switch {
			case producesActivations(in):
				until[v] = readSeq
			case a.first[v] == int32(i) && until[v] < readSeq:
				a.refetched[v] = true
			}
		}
	}
}

// recomputable reports whether v is an activation in scratch that can be computed once more: its
// instruction has no effect and runs on the device.
func (a *analysis) recomputable(v kernels.Value) bool {
	i := a.maker[v]
	if i < 0 || a.p.Values[a.root[v]].Home || a.updated[a.root[v]] {
		return false
	}
	in := &a.p.Instrs[i]
	return producesActivations(in) && in.Op != kernels.Host && len(in.Op.Updates) == 0
}

// emptyRound returns a round that drops nothing.
func (a *analysis) emptyRound() round {
	return round{drop: make([]bool, len(a.root)), keep: make([]bool, len(a.root))}
}

// drops reports whether x drops v.
func (a *analysis) drops(x *round, v kernels.Value) bool {
	root := a.root[v]
	return a.recomputable(v) && (x.drop[a.origin[root]] || a.refetched[root])
}

// available reports whether the backward pass can read v without computing it again: v cannot be
// recomputed (homes, host results), or is not dropped and stays live, because the backward pass
// reads it or x.keep has it.
func (a *analysis) available(x *round, v kernels.Value) bool {
	root := a.root[v]
	return !a.recomputable(v) || !a.drops(x, v) && (x.keep[a.origin[root]] || a.first[root] >= 0)
}

// measure fills in the peak (bytes) and the extra work of x by applying its rounds to a copy of the
// program of a. It is the only exact source of both; all else predicts.
func (a *analysis) measure(x *choice) {
	d := a.p.CloneValues()
	now := a.apply(d, x.rounds)
	x.work = now.extra
	_, x.peak = schedule.Live(d, a.o, now.space)
}

// costs returns, indexed by value, the work of computing it again for the backward pass, plus the
// work of computing those of its operands again that are not available. Operands that two values
// share count for each of them.
func (a *analysis) costs(x *round) []int64 {
	cost := make([]int64, len(a.root))
	for i := range a.p.Instrs {
		in := &a.p.Instrs[i]
		if !producesActivations(in) {
			continue
		}
		total := a.work[i]
		for _, v := range in.In {
			if !a.available(x, v) {
				total += cost[v]
			}
		}
		for _, o := range in.Out {
			cost[o] = total
		}
	}
	return cost
}
