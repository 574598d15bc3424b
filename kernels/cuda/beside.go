//go:build gpu && cgo

package cuda

import (
	"errors"

	"gorgonia.org/cu"
)

// beside is what a program's transfers run beside its kernels with. Where the program is a graph, it is there only while that is captured.
type beside struct {
	stream cu.Stream // NoStream: there are no transfers
	marks  []cu.Event
}

// open makes a stream and so many events, none where there are no marks. What it made before an error, close releases.
func (b *beside) open(marks int) (err error) {
	if marks == 0 {
		return nil
	}
	if b.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return fromCu("cuStreamCreate", err)
	}
	for range marks {
		e, err := cu.MakeEvent(cu.DisableTiming)
		if err != nil {
			return fromCu("cuEventCreate", err)
		}
		b.marks = append(b.marks, e)
	}
	return nil
}

// wait waits for what is enqueued, after a launch that went wrong before the program's stream has waited for it. What is wrong with the device, others say.
func (b *beside) wait() {
	if b.stream != cu.NoStream {
		_ = b.stream.Synchronize()
	}
}

// close releases them; what is under way goes on. Safe to call twice.
func (b *beside) close() error {
	var errs []error
	for i := range b.marks {
		errs = append(errs, fromCu("cuEventDestroy", cu.DestroyEvent(&b.marks[i])))
	}
	b.marks = nil
	if b.stream != cu.NoStream {
		errs = append(errs, fromCu("cuStreamDestroy", b.stream.Destroy()))
	}
	return errors.Join(errs...)
}
