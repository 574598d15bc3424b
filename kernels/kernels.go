// Package kernels is the table of operations, and how a device executes calls of them.
//
// An [Op] is everything that is true of an operation on any device: the shapes it takes and makes, a
// float64 reference, its gradient in terms of other operations, and the Gorgonia type that it is
// read from. A [Call] is one use of an op on operands whose places are known, and a [Device] executes calls.
package kernels

import (
	"errors"
	"math/rand/v2"

	"github.com/evenkeel/evenkeel/arena"
)

// ErrUnsupported is wrapped by errors about calls that a device has no kernel for.
var ErrUnsupported = errors.New("unsupported operation")

// ErrShape is wrapped by errors about operands whose types or shapes do not fit their operation.
var ErrShape = errors.New("shapes do not fit")

// ErrAttrs is wrapped by errors about attributes that an operation cannot have.
var ErrAttrs = errors.New("attributes do not fit")

// Op is an operation: one row of the table that compiler, devices and tests are driven by.
type Op struct {
	// Name is unique, lower-case, from the field: "matmul", "softmax".
	Name string

	// Gorgonia lists what the op is read from: a Go type name, with ":" and the operator's name where one type
	// stands for several operations ("*gorgonia.softmaxOp", "gorgonia.elemUnaryOp:tanh").
	Gorgonia []string
	// Decode turns the fields of such a Gorgonia op into attributes. Nil: the op has none.
	Decode func(f Fields) (attrs any, err error)

	// Infer returns the specs of the outputs, or an error that names the mismatch: it wraps ErrShape where the operands
	// do not fit, ErrAttrs where no operands could.
	Infer func(attrs any, in []Spec) ([]Spec, error)
	// Ref computes the outputs in float64. It is the meaning of the op.
	Ref func(attrs any, in, out []Tensor)
	// Grad returns the gradient of each input, None where there is none. Nil: the op is not differentiable
	// (updates, checks, gradients themselves).
	Grad func(g Graph, n Node, dy []Value) []Value
	// Cases returns a random test case: small, awkward shapes included, values where the op is defined
	// and, if Grad is set, smooth. Every op has it.
	Cases func(r *rand.Rand, float arena.DType) Case

	// InPlace lists the inputs whose memory output 0 may take over when nobody else reads them. See InPlaceOf.
	InPlace []int8
	// Overwrites reports whether InPlace holds for these attributes. Nil: for any.
	Overwrites func(attrs any) bool
	// Updates pairs outputs with inputs: output k is input Updates[k], changed where it lies.
	// Such an op exists for its effect (optimizers, status words).
	Updates []int8
	// View, when set and true for a call, says that output 0 is input 0's bytes from offset on: nothing runs.
	View func(attrs any, in []Spec) (offset int64, ok bool)
	// Elem is set for elementwise ops, of one or two inputs (y is 0 for one): what happens to an element.
	// Inputs broadcast as in NumPy. Such ops can be fused into chains.
	Elem func(attrs any, x, y float64) float64
	// Cost returns floating-point operations. Nil: one an output element.
	Cost func(attrs any, in, out []Spec) (flops int64)
}

// InPlaceOf returns op.InPlace as it is for these attributes.
func InPlaceOf(op *Op, attrs any) []int8 {
	if op.Overwrites != nil && !op.Overwrites(attrs) {
		return nil
	}
	return op.InPlace
}

// Case is one random use of an op, for tests.
type Case struct {
	Attrs any
	In    []Spec
	// Fill writes values for input k. Nil: standard normal for floats, 0 for integers.
	Fill func(r *rand.Rand, k int, data []float64)
	// Tolerance is the relative error that a float32 device may have against Ref, 0 for 1e-5 (float64: 1e-12).
	// Where it is set, the op's file says where it comes from.
	Tolerance float64
	// Steps is by how many codes an element of an output of type Uint8, or by how many neighbours one of type Bfloat16, may differ from Ref:
	// such as are roundings of numbers that may differ themselves. Codes are those of an int8, or of a uint8.
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

// Graph is what a gradient rule builds with.
type Graph interface {
	// Apply adds a use of op and returns its first output. Specs that do not fit are a bug in the rule: it panics
	// with an error, which the compiler returns.
	Apply(op *Op, attrs any, in ...Value) Value
	// ApplyAll is Apply for an op of several outputs: it returns all of them.
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

// Fields gives a Decode rule the unexported fields of a Gorgonia op, by name; nested fields by dots.
// A field that does not exist, or has another kind, is an error.
type Fields interface {
	Int(name string) (int, error)
	Float(name string) (float64, error)
	Bool(name string) (bool, error)
	Ints(name string) ([]int, error)
}

// Operand is a tensor of a call and its place.
type Operand struct {
	Spec
	Ref arena.Ref
}

// Call is one use of an op on operands whose places are known. It holds references, never pointers, until bound.
type Call struct {
	Op    *Op
	Attrs any
	In    []Operand
	Out   []Operand
	Work  arena.Ref // workspace, of the size that Device.Workspace gave
	Label string    // what errors call it: layer and node
}

// Specs returns the types and shapes of operands.
func Specs(operands []Operand) []Spec {
	s := make([]Spec, len(operands))
	for i, o := range operands {
		s[i] = o.Spec
	}
	return s
}

// Device executes calls on the memory of an arena.
type Device interface {
	arena.Device
	// Supports returns nil, or an error that wraps ErrUnsupported, for an op on such operands.
	Supports(op *Op, attrs any, in, out []Spec) error
	// Workspace returns the scratch bytes that the device's kernel for such a call wants.
	Workspace(op *Op, attrs any, in, out []Spec) int64
	// Bind prepares calls, to be launched in this order, for memory at fixed places.
	Bind(calls []Call, at Binding) (Program, error)
}

// Binding is where the regions that calls refer to lie.
type Binding struct {
	Memory arena.Memory
	Base   []int64 // by region: bytes from the start of Memory
	// Pinned are regions that lie in pinned host memory instead, all in one block of it: only transfers refer to them. A device whose memory is the
	// host's takes none.
	Pinned map[arena.Region]arena.Span
	// After are copies that end each launch, such as those of results to pinned memory.
	After []Copy
}

// Copy is a copy of equally long spans, of device or pinned memory.
type Copy struct{ Dst, Src arena.Span }

// Program is a list of calls, prepared.
type Program interface {
	// Launch enqueues all calls, and the copies after them. It allocates nothing.
	Launch(s arena.Stream) error
	// Close releases what Bind made. Safe to call twice.
	Close() error
}
