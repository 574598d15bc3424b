package compile

import (
	"errors"
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// lowerByIndices reads rows by index; other axes fall back.
func lowerByIndices(r *reader, n *gorgonia.Node) (*rule, error) {
	axis, err := fields{n.Op()}.Int("axis")
	if err != nil || axis != 0 {
		return nil, err
	}
	return r.gather(n), nil
}

// gather is the rule of rows of its first operand by indices, its second. An index outside is an error when it comes, which
// stops the step before anything has changed.
func (r *reader) gather(n *gorgonia.Node) *rule {
	return &rule{in: children(n), build: func(v []kernels.Value) (kernels.Value, error) {
		index := r.reshape(v[1], kernels.Shape{r.Spec(v[1]).Shape.Elems()})
		if data := r.Spec(v[0]).Shape; len(data) > 0 {
			w := &within{name: n.Name(), rows: data[0], spec: r.Spec(index)}
			if r.ofField(children(n)[1]) {
				w.each = max(1, w.spec.Shape.Elems()/max(1, r.Batch))
			}
			index = r.Apply(kernels.Host, w, index)
		}
		return r.Apply(kernels.Gather, nil, v[0], index), nil
	}}
}

// ofField reports whether n is a field of the data, as it is or reshaped.
func (r *reader) ofField(n *gorgonia.Node) bool {
	for ; n != nil; n = behind(n, "gorgonia.reshapeOp") {
		if r.isField(n) {
			return true
		}
	}
	return false
}

// ErrIndex is wrapped by errors about indices outside of what they are of.
var ErrIndex = errors.New("index outside the rows")

// IndexError is about an index that is not one of a row.
type IndexError struct {
	Node  string
	Index int64
	At    int // which of the step's indices it is
	Each  int // indices of a sample, 0 where they are not a field of the data
	Rows  int // of what the indices are of
}

func (e *IndexError) Error() string {
	return fmt.Sprintf("node %q: index %d at %d is not in 0..%d: %v", e.Node, e.Index, e.At, e.Rows-1, ErrIndex)
}

// Unwrap returns ErrIndex.
func (e *IndexError) Unwrap() error { return ErrIndex }

// within checks indices and hands them on. It is what kernels.Host takes as attributes.
type within struct {
	name string // of the node
	rows int
	each int          // indices of a sample, 0 where they are not a field of the data
	spec kernels.Spec // of the indices
}

// Infer returns the spec of the indices.
func (w *within) Infer(in []kernels.Spec) ([]kernels.Spec, error) {
	if len(in) != 1 || !in[0].Equal(w.spec) {
		return nil, fmt.Errorf("%q takes indices %v, not %v: %w", w.name, w.spec, in, kernels.ErrShape)
	}
	return in, nil
}

// String names it for plans.
func (w *within) String() string { return "indices" }

// Run copies the indices, or returns an error that names the first that is outside.
func (w *within) Run(in, out [][]byte) error {
	copy(out[0], in[0])
	i, x := -1, int64(0)
	switch w.spec.Type {
	case arena.Uint8:
		i, x = outside(in[0], w.rows)
	case arena.Int32:
		i, x = outside(view[int32](in[0]), w.rows)
	case arena.Int64:
		i, x = outside(view[int64](in[0]), w.rows)
	}
	if i < 0 {
		return nil
	}
	return &IndexError{Node: w.name, Index: x, At: i, Each: w.each, Rows: w.rows}
}

// outside returns the place of the first index that is not in 0..n-1, and the index; -1 where all are.
func outside[T uint8 | int32 | int64](xs []T, n int) (int, int64) {
	for i, x := range xs {
		if x < 0 || int64(x) >= int64(n) {
			return i, int64(x)
		}
	}
	return -1, 0
}
