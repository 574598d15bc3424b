package trainer

import (
	"slices"
	"sync"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// hostBatch is Go memory for two batches of a prediction and the outputs of one. Predictions fill
// batches at the same time, while the device's slots serve one of them at a time.
type hostBatch struct {
	slots  []dataloader.Slot // two, so that one fills while the other is predicted
	output []byte            // all outputs of a batch, as the device stores them
	specs  []kernels.Spec    // of the outputs: Model.Output, then Model.Outputs
	row    []float64         // of all outputs, as yielded
	named  []namedRow        // the rows of Model.Outputs, in row
}

// maxHostBatches bounds the memory that is kept for later predictions.
const maxHostBatches = 4

// hostBatches keeps the memory of finished predictions for later ones. Its methods may be called
// from any goroutine.
type hostBatches struct {
	mu   sync.Mutex
	free []*hostBatch
}

// take returns memory for batches of rows samples with these fields. The caller gives it back when
// no reader writes to it.
func (hs *hostBatches) take(fields []dataloader.Field, rows int) *hostBatch {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	// The fit is exact: a dataset of other fields, or a larger batch, gets memory of its own.
	for i, h := range hs.free {
		if h.fits(fields, rows) {
			hs.free = slices.Delete(hs.free, i, i+1)
			return h
		}
	}
	h := &hostBatch{slots: make([]dataloader.Slot, 2)}
	for i := range h.slots {
		for _, f := range fields {
			h.slots[i].Fields = append(h.slots[i].Fields, make([]byte, f.Bytes()*int64(rows)))
		}
	}
	return h
}

// give returns memory for later predictions.
func (hs *hostBatches) give(h *hostBatch) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if len(hs.free) < maxHostBatches {
		hs.free = append(hs.free, h)
	}
}

// bytes returns the bytes that are kept for later predictions.
func (hs *hostBatches) bytes() (n int64) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, h := range hs.free {
		n += int64(cap(h.output)) + 8*int64(cap(h.row))
		for _, s := range h.slots {
			for _, f := range s.Fields {
				n += int64(cap(f))
			}
		}
	}
	return n
}

// drop forgets the memory of finished predictions.
func (hs *hostBatches) drop() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.free = nil
}

// fits reports whether h has exactly the size of batches of rows samples with these fields.
func (h *hostBatch) fits(fields []dataloader.Field, rows int) bool {
	if len(h.slots[0].Fields) != len(fields) {
		return false
	}
	for k, f := range fields {
		if int64(len(h.slots[0].Fields[k])) != f.Bytes()*int64(rows) {
			return false
		}
	}
	return true
}

// copy copies the outputs of a batch of program p, whose results are given.
func (h *hostBatch) copy(p *ir.Program, results []byte) {
	h.output, h.specs, h.named = h.output[:0], h.specs[:0], h.named[:0]
	for _, r := range p.Results { // the Output is the first
		v := &p.Values[r.Value]
		h.output = append(h.output, results[v.Ref.Offset:v.Ref.Offset+v.Ref.Size]...)
		if h.specs = append(h.specs, v.Spec); len(h.specs) > 1 {
			h.named = append(h.named, namedRow{name: r.Name})
		}
	}
}

// yield yields the outputs of batch b, row by row. It returns false if a yield did.
func (h *hostBatch) yield(b dataloader.Batch, yield func(Prediction, error) bool) bool {
	width := 0
	for _, s := range h.specs {
		width += s.Shape.Elems() / b.Rows
	}
	// All rows share one slice, as Prediction.Output documents, so that a pass allocates it once.
	if len(h.row) < width {
		h.row = make([]float64, width)
	}
	for r, i := range b.Indices {
		p := Prediction{Sample: i, named: h.named}
		at, row := int64(0), h.row
		for k, s := range h.specs {
			n := s.Shape.Elems() / b.Rows
			bytes := int64(n) * s.Type.Size()
			kernels.Load(row[:n], s.Type, h.output[at+int64(r)*bytes:])
			if k == 0 {
				p.Output = row[:n:n]
			} else {
				h.named[k-1].row = row[:n:n]
			}
			at, row = at+int64(b.Rows)*bytes, row[n:]
		}
		if !yield(p, nil) {
			return false
		}
	}
	return true
}
