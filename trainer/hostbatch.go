package trainer

import (
	"slices"
	"sync"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
)

// hostBatch is Go memory for two batches of a prediction and the output of one. Predictions fill
// batches at the same time, while the device's slots serve one of them at a time.
type hostBatch struct {
	slots  []dataloader.Slot // two, so that one fills while the other is predicted
	output []byte            // of a batch, as the device stores it
	row    []float64         // of output, as yielded
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

// yield yields the output of batch b, whose type and shape spec states, row by row. It returns
// false if a yield did.
func (h *hostBatch) yield(spec kernels.Spec, b dataloader.Batch, yield func(Prediction, error) bool) bool {
	// All rows share one slice, as Prediction.Output documents, so that a pass allocates it once.
	width := spec.Shape.Elems() / b.Rows
	if len(h.row) < width {
		h.row = make([]float64, width)
	}
	rowBytes := int64(width) * spec.Type.Size()
	for r, i := range b.Indices {
		kernels.Load(h.row[:width], spec.Type, h.output[int64(r)*rowBytes:int64(r+1)*rowBytes])
		if !yield(Prediction{Sample: int(i), Output: h.row[:width]}, nil) {
			return false
		}
	}
	return true
}
