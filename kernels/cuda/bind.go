package cuda

import (
	"errors"
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/devcheck"
)

// kernel is this device's code for an operation.
type kernel struct {
	// bind appends the steps of a call to its binding: none, if there is nothing to do.
	bind func(b *binding) error
	// work returns the workspace of a call in bytes. Nil: none.
	work func(p *properties, attrs any, in, out []kernels.Spec) int64
}

// address is an address in device memory, 0 for an operand without elements.
type address uint64

// dim is a number of blocks or threads in each direction. 0 in y or z stands for 1.
type dim struct{ x, y, z int }

// line is n in the first direction.
func line(n int) dim { return dim{n, 1, 1} }

// stepKind is the kind of a step.
type stepKind int32

const (
	stepKernel     stepKind = iota
	stepCopy                // bytes from src to dst, either of which may be pinned
	stepFill                // bytes of value at dst
	stepGemm                // a product by cuBLAS
	stepRecord              // an event of its stream
	stepWait                // for an event of another stream
	stepCollective          // a collective by NCCL
	stepHost                // a function of the host
)

// streamIndex is a stream of a program.
type streamIndex int32

const (
	onProgram   streamIndex = iota // the one that it is launched on
	onTransfers                    // transfers
	onSums                         // collectives: the stream of their communicator
)

// step is one action of the device.
type step struct {
	kind stepKind
	call int // index of its call in the list given to Bind

	stream streamIndex
	event  int // of stepRecord and stepWait

	// a kernel
	module      module
	function    string
	grid, block dim
	shared      int      // bytes of dynamic shared memory a block
	args        []uint64 // a parameter each, in its low bytes

	// a copy, or a fill; bytes of staging for a function of the host
	dst, src address
	bytes    int64
	value    byte

	gemm       *gemm       // a product by cuBLAS
	collective *collective // by NCCL

	// a function of the host
	host    kernels.HostAttrs
	in, out []extent
}

// module is the PTX of a kernel: an embedded file, or text written for a call.
type module struct {
	family string // zz_family.ptx
	text   string // where there is no family
}

// extent is a range of device memory.
type extent struct {
	at    address
	bytes int64
}

// binding is one call while it is prepared. Its operands are checked: they lie inside the memory
// and are aligned for their types.
type binding struct {
	kernels.Call
	props *properties
	index int

	stream streamIndex // that it is enqueued on
	places
	steps []step
}

// places are the addresses of the regions that calls refer to.
type places struct {
	mem    address
	pinned map[arena.Region]address // of regions in pinned memory
	check  devcheck.Memory
	sums   *sums // of the program
}

// in returns the address of input k.
func (b *binding) in(k int) address { return b.at(b.In[k].Ref, b.In[k].Bytes()) }

// out returns the address of output k.
func (b *binding) out(k int) address { return b.at(b.Out[k].Ref, b.Out[k].Bytes()) }

// work returns the address of the call's workspace.
func (b *binding) work() address { return b.at(b.Work, b.Work.Size) }

func (b *binding) at(r arena.Ref, bytes int64) address {
	if bytes == 0 {
		return 0
	}
	if x, ok := b.pinned[r.Region]; ok {
		return x + address(r.Offset)
	}
	return b.mem + address(b.check.Base[r.Region]+r.Offset)
}

// launch appends a kernel of an embedded family, zz_family.ptx. Arguments are address, int32,
// uint32, int64, uint64, float32 or float64, as the kernel declares its parameters. A grid without
// blocks is no step.
func (b *binding) launch(family, function string, grid, block dim, shared int, args ...any) {
	b.kernel(module{family: family}, function, grid, block, shared, args)
}

// launchText appends a kernel of a module that was written for the call.
func (b *binding) launchText(ptx, function string, grid, block dim, shared int, args ...any) {
	b.kernel(module{text: ptx}, function, grid, block, shared, args)
}

func (b *binding) kernel(m module, function string, grid, block dim, shared int, args []any) {
	if grid.x == 0 {
		return
	}
	s := step{kind: stepKernel, module: m, function: function, grid: grid.whole(), block: block.whole(), shared: shared}
	for _, a := range args {
		s.args = append(s.args, slot(a))
	}
	b.append(s)
}

// copy appends a copy of bytes within device memory. One onto itself is no step.
func (b *binding) copy(dst, src address, bytes int64) {
	if bytes > 0 && dst != src {
		b.append(step{kind: stepCopy, dst: dst, src: src, bytes: bytes})
	}
}

// fill appends a step that sets bytes of device memory to value.
func (b *binding) fill(dst address, value byte, bytes int64) {
	if bytes > 0 {
		b.append(step{kind: stepFill, dst: dst, bytes: bytes, value: value})
	}
}

func (b *binding) append(s step) {
	s.call = b.index
	if s.stream == onProgram {
		s.stream = b.stream
	}
	b.steps = append(b.steps, s)
}

func (d dim) whole() dim { return dim{d.x, max(d.y, 1), max(d.z, 1)} }

// slot is an argument as the driver reads it: its bytes first, on the little-endian hosts that CUDA
// supports.
func slot(a any) uint64 {
	switch v := a.(type) {
	case address:
		return uint64(v)
	case int32:
		return uint64(uint32(v))
	case uint32:
		return uint64(v)
	case int64:
		return uint64(v)
	case uint64:
		return v
	case float32:
		return uint64(math.Float32bits(v))
	case float64:
		return math.Float64bits(v)
	}
	panic(fmt.Sprintf("cuda: a kernel has no parameter of type %T", a))
}

// bindAll returns the steps of calls, in the order of schedule. It reports all mistakes at once.
func bindAll(p *properties, calls []kernels.Call, at places, schedule []kernels.StreamOp) ([]step, error) {
	var steps []step
	var errs []error
	for _, o := range schedule {
		if o.Kind != kernels.Enqueue {
			kind := stepRecord
			if o.Kind == kernels.Wait {
				kind = stepWait
			}
			steps = append(steps, step{kind: kind, call: o.Call, stream: streamFor(o.Transfer), event: o.Event})
			continue
		}
		c := calls[o.Call]
		b := &binding{Call: c, props: p, index: o.Call, stream: streamFor(o.Transfer), places: at}
		if err := b.bind(); err != nil {
			errs = append(errs, fmt.Errorf("cuda: call %d %q: %w", o.Call, c.Label, err))
			continue
		}
		steps = append(steps, b.steps...)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return append(steps, at.sums.awaitAll(len(calls)-1)...), nil
}

// streamFor returns the stream of a call that is a transfer, or not.
func streamFor(transfer bool) streamIndex {
	if transfer {
		return onTransfers
	}
	return onProgram
}

func (b *binding) bind() error {
	c := &b.Call
	in, out := kernels.Specs(c.In), kernels.Specs(c.Out)
	if err := supports(c.Op, c.Attrs, in, out); err != nil {
		return err
	}
	// Blocks of device memory are aligned to 256 bytes, and so are regions in pinned memory.
	if err := b.check.Call(c, workspace(b.props, c.Op, c.Attrs, in, out)); err != nil {
		return err
	}
	k, _ := lookup(c.Op)
	if err := k.bind(b); err != nil {
		return fmt.Errorf("%s: %w", c.Op.Name, err)
	}
	return nil
}
