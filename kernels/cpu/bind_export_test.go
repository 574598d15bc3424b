package cpu

import "github.com/evenkeel/evenkeel/kernels"

// Slow returns the ops of a program that run by their reference or element by element.
func Slow(p kernels.Program) []*kernels.Op { return p.(*program).slow }

// Float32 functions, for tests of their accuracy.
var (
	Exp32      = exp32
	Log32      = log32
	Tanh32     = tanh32
	Sigmoid32  = sigmoid32
	Softplus32 = softplus32
)

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
