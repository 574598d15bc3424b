package kernels

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
)

// MaxReduced is the most tensors of one AllReduce.
const MaxReduced = 100

// ReducedTypes are the types whose elements are summed over ranks.
var ReducedTypes = []arena.DType{arena.Float32, arena.Float64, arena.Int32, arena.Int64}

// AllReduceAttrs are the attributes of AllReduce and of its Await.
type AllReduceAttrs struct {
	Group   group.Group // nil: a group of one rank
	Label   string      // of the operation; unique in a program, and the same on all ranks
	Type    arena.DType // of the elements: one of ReducedTypes
	Tensors int         // operands, 1 to MaxReduced
	Kind    group.Kind  // 0: group.Sum; group.ReduceScatter or group.AllGather, of a bucket: see ShardAttrs
}

// AllReduce begins to replace tensors by their sums over all ranks of a group. Await ends it:
//
//	x … → x …, n tensors of one type, in place; nobody reads them before Await
//
// With another Kind it is that operation, on the rows of a bucket instead of on tensors.
//
// Every rank runs the same operations in the same order. On kernels/cpu and kernels/emu
// AllReduce returns at once, so that other calls run meanwhile, and on kernels/cuda with a group that
// Device.Join made; else it returns there with the sums, and Await does nothing. Neither has a
// gradient: the compiler adds them after the gradients.
var AllReduce = Register(&Op{
	Name: "all_reduce", Updates: reducedOperands, OnHost: true,
	Infer: func(attrs any, in []Spec) ([]Spec, error) { return inferReduced("all_reduce", attrs, in) },
	Ref:   refHost, Cost: noFlops, Cases: reducedCase,
})

// Await waits for the AllReduce with the same attributes and operands.
//
//	x … → x …, n tensors, in place
var Await = Register(&Op{
	Name: "await", Updates: reducedOperands,
	Infer: func(attrs any, in []Spec) ([]Spec, error) { return inferReduced("await", attrs, in) },
	Ref: func(_ any, in, out []Tensor) {
		for k := range out {
			copy(out[k].Data, in[k].Data)
		}
	},
	Cost: noFlops, Cases: reducedCase,
})

// reducedOperands pairs each output of AllReduce with the input of its number.
var reducedOperands = func() []int8 {
	all := make([]int8, MaxReduced)
	for k := range all {
		all[k] = int8(k)
	}
	return all
}()

func inferReduced(name string, attrs any, in []Spec) ([]Spec, error) {
	a, err := attrsOf[AllReduceAttrs](name, attrs)
	if err != nil {
		return nil, err
	}
	if a.Tensors < 1 || a.Tensors > MaxReduced || !slices.Contains(ReducedTypes, a.Type) {
		return nil, attrError(name, "takes 1 to %d tensors of one of %v, not %d of %v", MaxReduced, ReducedTypes, a.Tensors, a.Type)
	}
	if err := count(name, in, a.Tensors); err != nil {
		return nil, err
	}
	return a.Infer(in)
}

func reducedCase(r *rand.Rand, float arena.DType) Case {
	a := AllReduceAttrs{Label: "case", Type: float, Tensors: 1 + r.IntN(4)}
	if r.IntN(3) == 0 {
		a.Type = []arena.DType{arena.Int32, arena.Int64}[r.IntN(2)]
	}
	c := Case{Attrs: a, Fill: fillAny}
	for range a.Tensors {
		c.In = append(c.In, Spec{a.Type, randomShape(r, randomRank(r))})
	}
	return c
}

// Infer returns the specs of the sums.
func (a AllReduceAttrs) Infer(in []Spec) ([]Spec, error) {
	for _, s := range in {
		if s.Type != a.Type {
			return nil, shapeError("all_reduce", "takes tensors of %v, not %v", a.Type, s)
		}
	}
	return in, nil
}

// Run computes the sums and waits for them.
func (a AllReduceAttrs) Run(in, out [][]byte) (err error) {
	var ops []group.Operation
	for k := range out {
		copy(out[k], in[k])
		op, e := a.Prepare(out[k])
		if e != nil {
			return e
		}
		if op != nil {
			ops = append(ops, op)
		}
	}
	for _, op := range ops {
		err = errors.Join(err, op.Start())
	}
	for _, op := range ops {
		err = errors.Join(err, op.Wait(), op.Close())
	}
	return err
}

// Prepare prepares the sum of data, nil in a group of one rank.
func (a AllReduceAttrs) Prepare(data []byte) (group.Operation, error) {
	if alone(a.Group) || len(data) == 0 {
		return nil, nil
	}
	return a.Group.Prepare(group.Op{Kind: max(a.Kind, group.Sum), Type: a.Type, Data: data, Label: a.Label})
}

// alone reports whether g has no other ranks.
func alone(g group.Group) bool { return g == nil || g.Size() == 1 }

// Sums reports whether ranks add, else they exchange parts.
func (a AllReduceAttrs) Sums() bool { return a.Kind != group.AllGather }

// String names the operation in plans and errors.
func (a AllReduceAttrs) String() string { return a.Label }
