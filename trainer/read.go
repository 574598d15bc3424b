package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Read copies a value to dst as float32, row-major. name is one of KeptNames, for the value in the
// last finished step; else that of a parameter or running statistic. dst must have as many elements
// as the value, else the error is a *LengthError with the right number: the rows of a last, short
// batch are fewer. Other types are converted; integers and float64 are rounded.
//
// A kept value may be read inside Options.Progress, or after a pass until the next Fit or Evaluate;
// then, and if the last step did not compute it, the error wraps arena.ErrStale. A parameter is read
// as by Param.Read. Read allocates nothing, but for the first conversion of a larger parameter than
// before. It may be called from any goroutine.
func (t *Trainer) Read(name string, dst []float32) error { return read(t, name, dst) }

// Read64 is Read to float64.
func (t *Trainer) Read64(name string, dst []float64) error { return read(t, name, dst) }

// LengthError reports memory of the wrong length for a value. It wraps ErrOption.
type LengthError struct {
	Name      string       // of the value
	Spec      kernels.Spec // its type and shape
	Need, Got int          // elements
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("read %q %v: it has %d elements, and dst %d: %v", e.Name, e.Spec, e.Need, e.Got, ErrOption)
}

// Unwrap returns ErrOption.
func (e *LengthError) Unwrap() error { return ErrOption }

// KeptNames returns the names of Options.Keep, with "*" replaced by the names that it stands for,
// in the order in which the model first uses them. After Close it returns nil.
func (t *Trainer) KeptNames() []string {
	if t.use().isClosed() {
		return nil
	}
	return slices.Clone(t.plan.kept)
}

// read is Read for T.
func read[T float32 | float64](t *Trainer, name string, dst []T) error {
	if t.use().isClosed() {
		return errClosed
	}
	if slices.Contains(t.plan.kept, name) {
		return readKept(t, name, dst)
	}
	home, ok := t.plan.stored(name)
	if !ok {
		return fmt.Errorf("read %q: it is neither kept nor a parameter: add it to Options.Keep: %w", name, ErrOption)
	}
	if err := checkLength(name, home.Spec, len(dst)); err != nil {
		return err
	}
	if err := t.usage.acquire(context.Background()); err != nil {
		return fmt.Errorf("read %q: %w", name, err)
	}
	defer t.usage.release()
	return readHome(t, home, dst)
}

// readKept reads a kept value from the results that the last finished step has sent to the host.
func readKept[T float32 | float64](t *Trainer, name string, dst []T) error {
	t.mu.Lock() // no step overwrites the results, and nothing is closed
	defer t.mu.Unlock()
	if t.use().isClosed() {
		return errClosed
	}
	v, err := t.keptValue(name)
	if err != nil {
		return err
	}
	if err := checkLength(name, v.Spec, len(dst)); err != nil {
		return err
	}
	s := t.slots[t.kept.slot].of(t.kept.program.objective)
	t.memory.willRead(s.resultsSpan)
	toFloats(dst, v.Spec.Type, s.results[v.Ref.Offset:v.Ref.Offset+v.Ref.Size])
	return nil
}

// readHome reads the value at a home between steps. The caller has the device.
func readHome[T float32 | float64](t *Trainer, home ir.Part, dst []T) error {
	m := t.memory
	if s, ok := m.offloadedSpan(home.Ref); ok {
		m.willRead(s)
		toFloats(dst, home.Spec.Type, bytesOf(s))
		return nil
	}
	h, err := m.arena.Handle(m.ref(home.Ref, 0), home.Name)
	if err != nil {
		return err
	}
	if m.unified {
		b, err := h.Bytes()
		if err == nil {
			toFloats(dst, home.Spec.Type, b)
		}
		return err
	}
	b := t.readBuffer(home.Spec.Bytes())
	if err := h.Read(b); err != nil {
		return err
	}
	toFloats(dst, home.Spec.Type, b)
	return nil
}

// readBuffer returns n bytes of Go memory, which the holder of the device may use.
func (t *Trainer) readBuffer(n int64) []byte {
	if int64(cap(t.buffer)) < n {
		t.mu.Lock() // Stats counts the buffer
		defer t.mu.Unlock()
		t.buffer = make([]byte, max(n, 64)) // aligned for any type
	}
	return t.buffer[:n]
}

// checkLength returns a *LengthError unless got is the number of elements.
func checkLength(name string, s kernels.Spec, got int) error {
	if n := s.Shape.Elems(); n != got {
		return &LengthError{Name: name, Spec: s, Need: n, Got: got}
	}
	return nil
}

// toFloats sets dst to the elements of type t at b.
func toFloats[T float32 | float64](dst []T, t arena.DType, b []byte) {
	switch t {
	case arena.Float32:
		convertAll(dst, dataloader.View[float32](b))
	case arena.Float64:
		convertAll(dst, dataloader.View[float64](b))
	case arena.Int32:
		convertAll(dst, dataloader.View[int32](b))
	case arena.Int64:
		convertAll(dst, dataloader.View[int64](b))
	case arena.Uint8:
		convertAll(dst, b)
	}
}

// convertAll sets dst to the elements of src.
func convertAll[T float32 | float64, S float32 | float64 | int32 | int64 | uint8](dst []T, src []S) {
	for i, x := range src {
		dst[i] = T(x)
	}
}

// keptNames returns the names of Options.Keep, with those that "*" stands for. Errors are about
// gradients of parameters and layers that no program trains.
func (p *planned) keptNames() (names []string, err error) {
	isResult := func(name string) bool {
		return slices.ContainsFunc(p.order, func(k programKey) bool {
			_, ok := p.programs[k].Result(name)
			return ok
		})
	}
	bad := &mistakes{class: ErrOption}
	for _, name := range p.opt.Keep {
		found := []string{name}
		if suffix, all := strings.CutPrefix(name, compile.KeepAll); all && compile.IsGradient(suffix) {
			found = p.gradientNames(suffix)
		}
		for _, name := range found {
			switch {
			case isResult(name) && !slices.Contains(names, name):
				names = append(names, name)
			case len(found) == 1 && !isResult(name):
				bad.addf("keep %q: the graph has no such node, and no parameter or layer of that name is trained", name)
			}
		}
	}
	return names, errors.Join(bad.errs...)
}

// gradientNames returns the names of gradients that "*" stands for before a suffix.
func (p *planned) gradientNames(suffix string) (names []string) {
	for _, home := range p.parameters() {
		owner := home.Name
		if suffix == compile.NormSuffix {
			owner = ir.OwnerOf(owner)
		}
		names = append(names, owner+suffix)
	}
	return names
}
