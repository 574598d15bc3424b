package vm

import (
	"errors"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
)

// status is the status word, in which the program reports an index outside its table, or a division
// of an integer by 0.
type status struct {
	buf     []byte
	handle  arena.Handle // of the word in the arena
	indices []ir.Indices // of the program
}

// openStatus returns the cleared status word of a program. buf is nil if the program has none.
func openStatus(homes *ir.Homes, mem *memory, indices []ir.Indices) (s status, err error) {
	part, ok := homes.Find(ir.Guard, ir.GuardName)
	if !ok {
		return s, nil
	}
	s.buf, s.indices = make([]byte, part.Spec.Bytes()), indices
	if s.handle, err = mem.handle(part.Ref, part.Name); err != nil {
		return s, err
	}
	return s, s.handle.Write(s.buf)
}

// check returns an *IndexError if the last run met a bad index, and a *DivisionError if it divided an
// integer by 0. It then clears the word for the next run.
func (s *status) check() error {
	if s.buf == nil {
		return nil
	}
	if err := s.handle.Read(s.buf); err != nil {
		return err
	}
	bad, found := layout.FindBadIndex(s.indices, dataloader.View[int32](s.buf))
	if !found {
		return nil
	}
	clear(s.buf)
	var err error = &IndexError{Node: bad.Node, Index: bad.Index, Rows: bad.Rows, At: bad.At}
	if bad.Divides {
		err = &DivisionError{Node: bad.Node, At: bad.At}
	}
	return errors.Join(err, s.handle.Write(s.buf))
}
