package vm

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
)

// link is a tensor that a machine shares with its graph.
//
//	unified device:        value ─► bytes in the arena
//	device with memory:    value ─► bytes in Go memory ◄─ upload, download ─► arena
//
// Scalars and tensors of bool do not point to the bytes: they are copies, which download refreshes.
type link struct {
	node   *gorgonia.Node // an input, an output, or the input whose gradient this is
	spec   kernels.Spec
	handle arena.Handle // of the bytes in the arena
	bytes  []byte       // those in the arena, or a staging copy of them
	staged bool         // bytes is a staging copy
	value  gorgonia.Value

	// The elements of value if they lie in bytes, else 0.
	addr uintptr
	size uintptr // bytes
}

// openLink returns the link of a node, or of its gradient, to its place in the arena.
func openLink(c frontend.Link, mem *memory, unified bool) (l link, err error) {
	// The clone is ours alone: UnbindAll overwrites the shape of a node that was made with a value.
	spec := kernels.Spec{Type: c.Spec.Type, Shape: slices.Clone(c.Spec.Shape)}
	l = link{node: c.Node, spec: spec, staged: !unified}
	if l.handle, err = mem.handle(c.Ref, c.Node.Name()); err != nil {
		return l, err
	}
	if l.staged {
		l.bytes = make([]byte, spec.Bytes())
	} else if l.bytes, err = l.handle.Bytes(); err != nil {
		return l, err
	}
	l.makeValue()
	return l, nil
}

// makeValue makes a new value over the bytes.
func (l *link) makeValue() {
	shape := l.spec.Shape
	switch {
	case l.node.Dtype() == tensor.Bool && len(shape) == 0:
		l.value = gorgonia.NewB(false)
	case l.node.Dtype() == tensor.Bool:
		l.value = frontend.Unpooled(tensor.New(tensor.WithShape(shape...), tensor.WithBacking(make([]bool, shape.Elems()))))
	default:
		l.value = frontend.ValueOver(l.node, l.bytes)
		if len(shape) > 0 {
			l.addr = l.value.Uintptr()
			l.size = l.value.MemSize()
		}
	}
}

// owns reports whether v is the link's value, or another tensor of its shape over all of its bytes.
// It compares addresses because Gorgonia recycles tensor objects: the same object may be another
// tensor by now.
func (l *link) owns(v gorgonia.Value) bool {
	if d, ok := v.(*tensor.Dense); ok && l.addr != 0 {
		return l.covers(d) && slices.Equal(d.Shape(), tensor.Shape(l.spec.Shape)) && layout.Contiguous(d)
	}
	return v != nil && v == l.value
}

// covers reports whether the elements of d are the link's bytes, in any shape. An emptied tensor
// has none.
func (l *link) covers(d *tensor.Dense) bool {
	return l.addr != 0 && d.MemSize() == l.size && d.Uintptr() == l.addr
}

// current returns the value. It makes a new one if Gorgonia has emptied the old one, or recycled it
// for another tensor.
func (l *link) current() gorgonia.Value {
	if l.addr != 0 && !l.owns(l.value) {
		l.makeValue()
	}
	return l.value
}

// load copies v to the arena, unless it lies there already.
func (l *link) load(v gorgonia.Value) error {
	if l.addr == 0 || !l.owns(v) {
		if d, ok := v.(*tensor.Dense); ok && l.covers(d) {
			v = d.Materialize().(gorgonia.Value) // a transposed view of our own bytes: copy before overwriting them
		}
		if err := layout.Load(l.bytes, v, l.spec); err != nil {
			return err
		}
	}
	return l.upload()
}

// upload copies the staging copy to the arena, if there is one.
func (l *link) upload() error {
	if !l.staged {
		return nil
	}
	return l.handle.Write(l.bytes)
}

// download brings bytes and value up to date with the arena.
func (l *link) download() error {
	if l.staged {
		if err := l.handle.Read(l.bytes); err != nil {
			return err
		}
	}
	l.refresh()
	return nil
}

// refresh brings the value up to date with the bytes. Tensors of numbers are so already, since their
// elements are the bytes.
func (l *link) refresh() {
	switch v := l.value.(type) {
	case *gorgonia.F32:
		*v = gorgonia.F32(dataloader.View[float32](l.bytes)[0])
	case *gorgonia.F64:
		*v = gorgonia.F64(dataloader.View[float64](l.bytes)[0])
	case *gorgonia.I:
		*v = gorgonia.I(dataloader.View[int](l.bytes)[0])
	case *gorgonia.I64:
		*v = gorgonia.I64(dataloader.View[int64](l.bytes)[0])
	case *gorgonia.I32:
		*v = gorgonia.I32(dataloader.View[int32](l.bytes)[0])
	case *gorgonia.U8:
		*v = gorgonia.U8(l.bytes[0])
	case *gorgonia.B:
		*v = gorgonia.B(l.boolAt(0))
	case *tensor.Dense:
		if l.addr == 0 && v.Dtype() == tensor.Bool {
			for i := range v.Bools() {
				v.Bools()[i] = l.boolAt(i)
			}
		}
	}
}

// boolAt returns element i, which the arena holds as a number, as a bool.
func (l *link) boolAt(i int) bool {
	switch l.spec.Type {
	case arena.Float32:
		return dataloader.View[float32](l.bytes)[i] != 0
	case arena.Float64:
		return dataloader.View[float64](l.bytes)[i] != 0
	}
	return l.bytes[i] != 0
}

// drop forgets the bytes, which are about to be freed, and the value over them.
func (l *link) drop() { l.bytes, l.value, l.addr, l.size = nil, nil, 0, 0 }

// detach moves the elements of v from the arena to Go memory, if they are the link's. v stays the
// same tensor, so that its holders keep it.
func (l *link) detach(v gorgonia.Value) (err error) {
	defer recoverError("detach", &err)
	if layout.IsEmpty(v) {
		return nil
	}
	d, ok := v.(*tensor.Dense)
	if !ok || l.staged || !l.covers(d) {
		return nil
	}
	// Decoding allocates memory for the elements, and leaves d itself in place.
	b, err := d.GobEncode()
	if err == nil {
		err = d.GobDecode(b)
	}
	if err != nil {
		return fmt.Errorf("move %q out of the arena: %w", l.node.Name(), err)
	}
	return nil
}
