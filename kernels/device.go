package kernels

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
)

// Operand is a tensor of a call and its place.
type Operand struct {
	Spec
	Ref arena.Ref
}

// Call is one use of an op on operands whose places are known. It holds references, never pointers,
// until it is bound.
type Call struct {
	Op    *Op
	Attrs any
	In    []Operand
	Out   []Operand
	Work  arena.Ref // workspace, of the size that Device.Workspace returns
	Label string    // for errors: layer and node
}

// Specs returns the types and shapes of operands.
func Specs(operands []Operand) []Spec {
	s := make([]Spec, len(operands))
	for i, o := range operands {
		s[i] = o.Spec
	}
	return s
}

// Device executes calls on the memory of an arena. Its methods may be called from several
// goroutines at once.
//
// A device may have more capabilities than these. Each is an interface, and its user finds it by a
// type assertion:
//
//	HostStager         it pins memory of its own for functions of the host
//	ReferenceRunner    it runs operations without a kernel by their reference
//	GoAllocator        it allocates Go memory, too
//	WeightPrepacker    some calls are faster on weights in another form
//	HostAccessChecker  it checks accesses of the host to pinned memory against work in its streams
//	WorkTimer          it measures when its streams do their work
type Device interface {
	arena.Device
	// Supports returns nil if the device executes op on such operands. The error wraps
	// ErrUnsupported if it has no kernel, ErrShape or ErrAttrs if the operands or attributes do not
	// fit op.
	Supports(op *Op, attrs any, in, out []Spec) error
	// Workspace returns the bytes of scratch that the device's kernel needs for such a call, 0 if
	// it does not support it.
	Workspace(op *Op, attrs any, in, out []Spec) int64
	// Bind prepares calls, which a launch executes in this order, for memory at fixed addresses. It
	// reports all mistakes at once.
	Bind(calls []Call, at Binding) (Program, error)
}

// HostStager is the capability of a device that copies the operands of functions of the host
// ([Host]) through pinned memory of its own. All calls of a device share one block, as large as the
// largest StagingBytes of any call; the plan counts it as pinned memory. kernels/cuda has the
// capability.
type HostStager interface {
	// StagingBytes returns the bytes of pinned memory that a call on such operands needs, 0 for
	// none.
	StagingBytes(op *Op, attrs any, in, out []Spec) int64
}

// ReferenceRunner is the capability of a device that executes operations without a kernel by their
// reference: slowly, with allocations on the Go heap. The trainer asks for each operation of a
// program, and notes those in the plan. kernels/cpu has the capability.
type ReferenceRunner interface {
	// RunsByReference reports whether op has no kernel on the device.
	RunsByReference(op *Op) bool
}

// GoAllocator is the capability of a device that can allocate its memory on the Go heap, for users
// who hand out slices of it. The trainer does not need it; a machine (trainer/vm) does, since Gorgonia
// programs keep slices of values. kernels/cpu has the capability.
type GoAllocator interface {
	// AllocGo is Alloc, in memory that the garbage collector frees: slices of it stay valid after
	// its Free.
	AllocGo(bytes int64) (arena.Memory, error)
}

// WeightPrepacker is the capability of a device that computes some calls faster on weights in another
// form, such as Winograd's transform of a convolution's. A predictor makes that form once for each
// change of its weights, and keeps it in the arena. kernels/cpu has the capability.
type WeightPrepacker interface {
	// Prepack returns how a call is split in two. ok is false where that is not faster.
	Prepack(op *Op, attrs any, in, out []Spec) (p Prepacked, ok bool)
}

// Prepacked is a call split in two, with the same results to the bit: Pack makes the other form of one
// operand, the weights, from that operand alone; Op is the rest, and takes the form in its place.
//
//	y = conv x w b   ──►   u = winogradWeight w;  y = winogradConv x u b
type Prepacked struct {
	Operand   int // of the call: the weights
	Pack      *Op // one operand, one output
	PackAttrs any
	Op        *Op
	Attrs     any
}

// HostAccessChecker is the capability of a device that finds unordered accesses: work in a stream
// and a read or write by the host that touch the same bytes of pinned memory while no event or Sync
// orders them. Trainer and loader announce every access of theirs to pinned memory before they make
// it. The device reports what it finds in its own way; no call fails. kernels/emu has the
// capability.
type HostAccessChecker interface {
	// Touch announces that the host is about to read, or write, the bytes of s, which lie in pinned
	// memory.
	Touch(s arena.Span, write bool)
}

// Binding holds the addresses of the regions that calls refer to.
type Binding struct {
	Memory arena.Memory
	Base   []int64 // by region: bytes from the start of Memory
	// Pinned holds the regions that lie in pinned host memory instead, all in one block of it. Only
	// transfers refer to them. A device with unified memory refuses them.
	Pinned map[arena.Region]arena.Span
	// After lists copies at the end of each launch, such as those of results to pinned memory.
	After []Copy
}

// UsesPinned reports whether a call refers to pinned memory, which only transfers may.
func (at Binding) UsesPinned(c *Call) bool {
	for _, operands := range [][]Operand{c.In, c.Out} {
		for _, o := range operands {
			if _, ok := at.Pinned[o.Ref.Region]; ok {
				return true
			}
		}
	}
	return false
}

// Copy is a copy between spans of equal length, in device or pinned memory.
type Copy struct{ Dst, Src arena.Span }

// Program is a list of calls, prepared by Bind.
type Program interface {
	// Launch enqueues all calls, and the copies after them, on a stream of the device. It allocates
	// nothing.
	Launch(s arena.Stream) error
	// Close releases what Bind made. Safe to call twice.
	Close() error
}

// OptionError is an option that a device cannot be opened with. It wraps [arena.ErrInvalid].
type OptionError struct {
	Device string // "cpu", "cuda" or "emu"
	Option string // its field of the device's Options
	Value  int64
}

// Error names the option and its value.
func (e *OptionError) Error() string {
	return fmt.Sprintf("%s: open: option %s is %d: it must not be negative", e.Device, e.Option, e.Value)
}

// Unwrap returns arena.ErrInvalid.
func (e *OptionError) Unwrap() error { return arena.ErrInvalid }
