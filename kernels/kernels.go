// Package kernels defines the operations, and the interface of the devices that execute them.
//
// An [Op] holds what is true of an operation on any device: its shape rule, a float64 reference,
// its gradient in terms of other operations, random test cases, and the Gorgonia type that it is
// read from. One file holds one operation, or one family of them: [MatMul], [Conv], [Softmax],
// [Adam]. [All], [ByName] and [ByGorgonia] look operations up. A [Spec] is the type and [Shape] of
// an operand.
//
// A [Call] is one use of an op on operands at known places of an arena. A [Device] checks calls
// (Supports), sizes their workspace (Workspace) and prepares them ([Device.Bind]) to a [Program],
// which launches them on a stream. The devices are kernels/cpu, kernels/cuda and kernels/emu; a
// device may have the capabilities [HostStager], [ReferenceRunner], [GoAllocator], [WeightPrepacker]
// and [HostAccessChecker]. [Run] executes a call by its reference, and [Eval] computes an op on
// tensors in float64.
package kernels

import (
	"errors"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// The classes of error of this package; other errors wrap them.
var (
	// ErrUnsupported: the device has no kernel for a call.
	ErrUnsupported = errors.New("unsupported operation")
	// ErrShape: types or shapes of operands do not fit their operation.
	ErrShape = errors.New("shapes do not fit")
	// ErrAttrs: the operation cannot have these attributes, whatever its operands.
	ErrAttrs = errors.New("attributes do not fit")
	// ErrNonFinite: a value is NaN or infinite.
	ErrNonFinite = errors.New("not finite")
)

// Op is an operation: one row of the table that drives the compiler, the devices and the tests. An
// Op is registered once and never changes; its functions may be called from several goroutines at
// once.
type Op struct {
	// Name is unique and lower-case: "matmul", "softmax".
	Name string

	// Gorgonia lists the Gorgonia operations that the op is read from: a Go type name, followed by
	// ":" and the operator's name where one type stands for several operations
	// ("*gorgonia.softmaxOp", "gorgonia.elemUnaryOp:tanh").
	Gorgonia []string
	// Decode turns the fields of such a Gorgonia op into attributes. Nil: the op has none.
	Decode func(f Fields) (attrs any, err error)

	// Infer returns the specs of the outputs, or an error that names the mismatch: it wraps
	// ErrShape if the operands do not fit, ErrAttrs if no operands would.
	Infer func(attrs any, in []Spec) ([]Spec, error)
	// Ref computes the outputs in float64. It defines the op; kernels are tested against it.
	Ref func(attrs any, in, out []Tensor)
	// Grad returns the gradient of each input, None where there is none. Nil: the op is not
	// differentiable (updates, checks, gradients themselves).
	Grad func(g Graph, n Node, dy []Value) []Value
	// Cases returns a random test case: small, awkward shapes included, values where the op is
	// defined and, if Grad is set, smooth. Every op has it.
	Cases func(r *rand.Rand, float arena.DType) Case

	// InPlace lists the inputs that output 0 may overwrite if no later instruction reads them. See
	// InPlaceFor.
	InPlace []int8
	// Overwrites reports whether output 0 may overwrite the inputs of InPlace under these
	// attributes. Nil: it always may.
	Overwrites func(attrs any) bool
	// Updates pairs outputs with inputs: output k is input Updates[k], changed in place. See
	// UpdatesFor. Such an op exists for its effect (optimizers, status words).
	Updates []int8
	// Block is set for optimizer rules, and Mix, that update each Block elements of a parameter, in
	// row-major order, by themselves and their own part of the states: parts of a parameter may be
	// updated on their own. 0: a rule that needs all of it, or no rule.
	Block int
	// OnHost: it is a function of the host on any device. Its attributes are HostAttrs.
	OnHost bool
	// View returns true if output 0 is an alias of input 0, from offset bytes on: no kernel runs.
	// Nil: never.
	View func(attrs any, in []Spec) (offset int64, ok bool)
	// Moves reports whether output 0 has elements of an input, unchanged to the bit, whatever their
	// type. It has nothing else but zeros. Nil: the op computes.
	Moves func(input int) bool
	// Elem is set for elementwise ops of one or two inputs: it computes an element, from x alone (y
	// is 0) or from x and y. Inputs broadcast as in NumPy. Such ops can be fused into chains.
	Elem func(attrs any, x, y float64) float64
	// Optional is set for ops that only devices execute whose WeightPrepacker.Prepack returns them;
	// others refuse them with ErrUnsupported. Programs have them only on those devices.
	Optional bool
	// Cost returns the number of floating-point operations. Nil: one for each element of output 0.
	Cost func(attrs any, in, out []Spec) (flops int64)
}

// InPlaceFor returns InPlace for these attributes: none if Overwrites excludes them.
func (op *Op) InPlaceFor(attrs any) []int8 {
	if op.Overwrites != nil && !op.Overwrites(attrs) {
		return nil
	}
	return op.InPlace
}

// UpdatesFor returns Updates for these attributes: the states of an optimizer rule that is Scaled
// come one operand later, and those of AllReduce have as many as it has tensors.
func (op *Op) UpdatesFor(attrs any) []int8 {
	if u, ok := attrs.(Updater); ok && u.Common().Scaled {
		updates := append([]int8(nil), op.Updates...)
		for i := 1; i < len(updates); i++ {
			updates[i]++
		}
		return updates
	}
	if a, ok := attrs.(AllReduceAttrs); ok {
		return op.Updates[:a.Tensors]
	}
	return op.Updates
}

// IsTransfer reports whether op copies between device memory and pinned memory.
func (op *Op) IsTransfer() bool { return op == Prefetch || op == Writeback }

// Case is one random use of an op, for tests.
type Case struct {
	Attrs any
	In    []Spec
	// Fill writes values for input k. Nil: standard normal for floats, 0 for integers.
	Fill func(r *rand.Rand, k int, data []float64)
	// Tolerance is the relative error that a float32 device may have against Ref. 0: 1e-5 (float64:
	// 1e-12). The op's file derives any other value.
	Tolerance float64
	// Steps is how far an element of an output of type Uint8 or BFloat16 may be from that of Ref:
	// in codes of an int8 or uint8, or in numbers that bfloat16 can hold. A small error before
	// rounding may decide between two neighbours.
	Steps int8
}

// Tensor is an operand of a reference: a spec and its elements in float64, row-major.
type Tensor struct {
	Spec
	Data []float64
}

// Value names a tensor in a graph under construction.
type Value int32

// None is no value.
const None Value = -1

// Graph is a graph under construction, to which a gradient rule adds operations.
type Graph interface {
	// Apply adds a use of op and returns its first output. Specs that do not fit are a bug in the
	// rule: Apply panics with an error, which the compiler returns.
	Apply(op *Op, attrs any, in ...Value) Value
	// ApplyAll adds a use of an op of several outputs, and returns all of them.
	ApplyAll(op *Op, attrs any, in ...Value) []Value
	// Spec returns the type and shape of v.
	Spec(v Value) Spec
}

// Node is one use of an op in a graph.
type Node struct {
	Op    *Op
	Attrs any
	In    []Value
	Out   []Value
}

// Fields gives a Decode rule the unexported fields of a Gorgonia op, by name; nested fields by
// dots. A field that does not exist, or has another kind, is an error.
type Fields interface {
	Int(name string) (int, error)
	Float(name string) (float64, error)
	Bool(name string) (bool, error)
	Ints(name string) ([]int, error)
}
