package kernels

import (
	"cmp"
	"fmt"
	"slices"
)

var table = map[string]*Op{}
var byGorgonia = map[string]*Op{}

// Register adds op to the table and returns it. It is called while packages initialise. It panics
// if the name or a Gorgonia type is taken, which is a bug.
func Register(op *Op) *Op {
	if op.Name == "" || table[op.Name] != nil {
		panic(fmt.Sprintf("kernels: operation %q is registered twice or has no name", op.Name))
	}
	if op.Infer == nil || op.Ref == nil {
		panic(fmt.Sprintf("kernels: operation %q needs Infer and Ref", op.Name))
	}
	table[op.Name] = op
	for _, g := range op.Gorgonia {
		if byGorgonia[g] != nil {
			panic(fmt.Sprintf("kernels: Gorgonia type %s belongs to %q and to %q", g, byGorgonia[g].Name, op.Name))
		}
		byGorgonia[g] = op
	}
	return op
}

// All returns the registered operations, sorted by name.
func All() []*Op {
	ops := make([]*Op, 0, len(table))
	for _, op := range table {
		ops = append(ops, op)
	}
	slices.SortFunc(ops, func(a, b *Op) int { return cmp.Compare(a.Name, b.Name) })
	return ops
}

// ByName returns the operation with that name, or nil.
func ByName(name string) *Op { return table[name] }

// ByGorgonia returns the operation for a key of [Op.Gorgonia], or nil.
func ByGorgonia(key string) *Op { return byGorgonia[key] }
