package cpu

import "github.com/evenkeel/evenkeel/kernels"

// Slow returns the ops of a program that run by their reference or element by element.
func Slow(p kernels.Program) []*kernels.Op { return p.(*program).slow }

// OpsWithWorkspace lists the operations of the table whose calls can need workspace.
func OpsWithWorkspace() []*kernels.Op {
	var ops []*kernels.Op
	for op, k := range table {
		if k.work != nil {
			ops = append(ops, op)
		}
	}
	return ops
}
