// Package devcheck validates calls for devices, so that all devices refuse the same mistakes:
// [Specs] checks the operands of an operation, [Memory.Call] the places of a call.
package devcheck

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// MaxRank is the largest number of dimensions that the kernels of cpu and cuda iterate over.
const MaxRank = 8

// Specs returns an error unless op takes operands in with these attributes and makes out. Tensors
// have at most rank dimensions; 0: any number. The error wraps kernels.ErrUnsupported,
// kernels.ErrShape or kernels.ErrAttrs.
func Specs(op *kernels.Op, attrs any, in, out []kernels.Spec, rank int) error {
	if op == nil || op.Infer == nil {
		return fmt.Errorf("no operation: %w", kernels.ErrUnsupported)
	}
	for _, specs := range [][]kernels.Spec{in, out} {
		for _, s := range specs {
			if rank > 0 && len(s.Shape) > rank {
				return fmt.Errorf("%s on %v: more than %d dimensions: %w", op.Name, s, rank, kernels.ErrUnsupported)
			}
			if slices.ContainsFunc(s.Shape, func(n int) bool { return n < 0 }) {
				return fmt.Errorf("%s on %v: a dimension below 0: %w", op.Name, s, kernels.ErrShape)
			}
		}
	}
	want, err := op.Infer(attrs, in)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(want, out, kernels.Spec.Equal) {
		return fmt.Errorf("%s on %v makes %v, not %v: %w", op.Name, in, want, out, kernels.ErrShape)
	}
	return nil
}

// Memory describes the memory that calls are bound to.
type Memory struct {
	Size   int64                  // bytes of device memory
	Base   []int64                // by region: bytes from the start of device memory
	Pinned map[arena.Region]int64 // regions in pinned memory: their sizes in bytes
	// Aligned reports whether the address of byte at of device memory is a multiple of align. Nil:
	// at itself decides.
	Aligned func(at, align int64) bool
}

// Of returns the memory of a binding, whose Memory is not nil.
func Of(at kernels.Binding) Memory {
	m := Memory{Size: at.Memory.Size(), Base: at.Base}
	for r, s := range at.Pinned {
		if m.Pinned == nil {
			m.Pinned = make(map[arena.Region]int64)
		}
		m.Pinned[r] = s.Size
	}
	return m
}

// Call returns an error unless each operand of c has a place inside the memory, aligned for its
// elements, outputs lie on the inputs that they update, only transfers use pinned memory, and the
// workspace has at least the given number of bytes. Operands must fit c.Op: see Specs. The error
// wraps arena.ErrInvalid.
func (m Memory) Call(c *kernels.Call, workspace int64) error {
	for k, o := range c.In {
		if err := m.place(c.Op, o.Ref, o.Bytes(), o.Type.Size()); err != nil {
			return fmt.Errorf("%s input %d: %v: %w", c.Op.Name, k, o.Spec, err)
		}
	}
	for k, o := range c.Out {
		if err := m.place(c.Op, o.Ref, o.Bytes(), o.Type.Size()); err != nil {
			return fmt.Errorf("%s output %d: %v: %w", c.Op.Name, k, o.Spec, err)
		}
	}
	for k, i := range c.Op.UpdatesFor(c.Attrs) {
		if c.Out[k].Ref.Region != c.In[i].Ref.Region || c.Out[k].Ref.Offset != c.In[i].Ref.Offset {
			return fmt.Errorf("%s output %d must lie on input %d, which it updates: %w", c.Op.Name, k, i, arena.ErrInvalid)
		}
	}
	align := int64(1)
	if workspace > 0 {
		align = 8
	}
	if err := m.place(c.Op, c.Work, workspace, align); err != nil {
		return fmt.Errorf("%s workspace: %w", c.Op.Name, err)
	}
	return nil
}

// place returns an error unless ref has room for a value of the given number of bytes, inside its
// memory, and is aligned. An empty value has no place: its reference can be anything.
func (m Memory) place(op *kernels.Op, ref arena.Ref, bytes, align int64) error {
	if bytes == 0 && ref.Size == 0 {
		return nil
	}
	size, at := m.Size, ref.Offset
	pinned, isPinned := m.Pinned[ref.Region]
	switch {
	case isPinned && !op.IsTransfer():
		return fmt.Errorf("region %d is in pinned memory, which only transfers use: %w", ref.Region, arena.ErrInvalid)
	case isPinned:
		size = pinned
	case ref.Region < 0 || int(ref.Region) >= len(m.Base):
		return fmt.Errorf("region %d of %d: %w", ref.Region, len(m.Base), arena.ErrInvalid)
	default:
		at += m.Base[ref.Region]
	}
	if bytes > ref.Size || ref.Size < 0 || ref.Offset < 0 || at < 0 || at > size || ref.Size > size-at {
		return fmt.Errorf("needs %d bytes, has %d at %d in a memory of %d: %w", bytes, ref.Size, at, size, arena.ErrInvalid)
	}
	aligned := at%align == 0
	if m.Aligned != nil && !isPinned {
		aligned = m.Aligned(at, align)
	}
	if !aligned {
		return fmt.Errorf("address is not a multiple of %d: %w", align, arena.ErrInvalid)
	}
	return nil
}
