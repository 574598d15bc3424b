package vm

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// controls is the controls vector, through which the program learns the number of the run. Dropout
// reads it.
type controls struct {
	runs   int64 // started so far
	buf    []byte
	handle arena.Handle // of the vector in the arena
}

// openControls returns the controls of a program. buf is nil if the program reads none.
func openControls(homes *ir.Homes, mem *memory) (c controls, err error) {
	part, ok := homes.Find(ir.Slot, ir.ControlsName)
	if !ok {
		return c, nil
	}
	c.buf = make([]byte, part.Spec.Bytes())
	c.handle, err = mem.handle(part.Ref, part.Name)
	return c, err
}

// writeNext counts a run and writes its number to the arena.
func (c *controls) writeNext() error {
	c.runs++
	if c.buf == nil {
		return nil
	}
	dataloader.View[float64](c.buf)[kernels.ControlStep] = float64(c.runs)
	return c.handle.Write(c.buf)
}
