package weights

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// bufferBytes is the size of each of the two buffers that values go through.
const bufferBytes = 1 << 20

// pump computes values piece by piece. Its memory is its two buffers; a transform takes in addition
// the tensors that it is of.
type pump struct {
	ctx     context.Context // of the call, which ends with it
	from    elementReader
	in, out []byte
}

func newPump(ctx context.Context, from elementReader) *pump {
	return &pump{ctx: ctx, from: from, in: make([]byte, bufferBytes), out: make([]byte, bufferBytes)}
}

// errRange reports an integer that the target's type cannot hold.
type errRange struct {
	index int64
	value string
}

func (e *errRange) Error() string { return fmt.Sprintf("%s at element %d", e.value, e.index) }

// run computes the elements of an assignment and passes them to sink, piece by piece.
func (p *pump) run(a *assignment, sink func(piece []byte, offset int64) error) error {
	to := safetensors.TypeOf(a.target.Spec.Type)
	if a.transform == nil {
		return p.convert(a.sources[0], to, sink)
	}
	src := make([][]byte, len(a.sources))
	for i, t := range a.sources {
		src[i] = make([]byte, 0, t.Bytes()/int64(t.DType.Bits())*int64(to.Bits()))
		err := p.convert(t, to, func(piece []byte, _ int64) error { src[i] = append(src[i], piece...); return nil })
		if err != nil {
			return err
		}
	}
	dst := make([]byte, a.target.Spec.Bytes())
	if err := a.transform(dst, src); err != nil {
		return fmt.Errorf("weight %q: %w", a.target.Name, err)
	}
	return pieces(p.ctx, int64(len(dst)), func(offset, n int64) error { return sink(dst[offset:offset+n], offset) })
}

// pieces calls f for each piece of size bytes, until ctx ends.
func pieces(ctx context.Context, size int64, f func(offset, n int64) error) error {
	for offset := int64(0); offset < size; offset += bufferBytes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(offset, min(bufferBytes, size-offset)); err != nil {
			return err
		}
	}
	return nil
}

// convert reads a tensor, converts its elements to a type and passes them to sink, piece by piece.
func (p *pump) convert(t safetensors.Tensor, to safetensors.DType, sink func(piece []byte, offset int64) error) error {
	inWidth, outWidth := int64(t.DType.Bits()/8), int64(to.Bits()/8)
	elems := t.Bytes() / inWidth
	most := bufferBytes / max(inWidth, outWidth)
	for i := int64(0); i < elems; i += most {
		n := min(most, elems-i)
		in, out := p.in[:n*inWidth], p.out[:n*outWidth]
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if err := p.from.ReadAt(t.Name, in, i*inWidth); err != nil {
			return err
		}
		if bad := convert(out, to, in, t.DType); bad >= 0 {
			return fmt.Errorf("tensor %q: %w", t.Name, &errRange{i + int64(bad), numberAt(in, t.DType, bad)})
		}
		if err := sink(out, i*outWidth); err != nil {
			return err
		}
	}
	return nil
}

// check computes all values and returns a *ValueError that lists the bad ones.
func (p *pump) check(all []assignment, source string, allowNonFinite bool) error {
	bad := &ValueError{Source: source, finite: true}
	for i := range all {
		a := &all[i]
		to := safetensors.TypeOf(a.target.Spec.Type)
		v := BadValue{Name: a.target.Name}
		err := p.run(a, func(piece []byte, offset int64) error {
			v.note(piece, to, offset)
			return nil
		})
		var outside *errRange
		switch {
		case errors.As(err, &outside):
			bad.Tensors = append(bad.Tensors, BadValue{Name: a.target.Name, Index: outside.index, Value: outside.value, Count: 1})
		case err != nil:
			return err
		case v.Count > 0 && !allowNonFinite:
			bad.Tensors, bad.finite = append(bad.Tensors, v), false
		}
	}
	if len(bad.Tensors) > 0 {
		return bad
	}
	return nil
}

// note counts the values of a piece that are not finite.
func (v *BadValue) note(piece []byte, t safetensors.DType, offset int64) {
	count, first := notFinite(piece, t)
	if count > 0 && v.Count == 0 {
		v.Index, v.Value = offset*8/int64(t.Bits())+int64(first), numberAt(piece, t, first)
	}
	v.Count += count
}

// put sets the weights. If that fails, it sets the former values again.
func (p *pump) put(to Target, all []assignment, limit int64) error {
	total := int64(0)
	for _, a := range all {
		total += a.target.Spec.Bytes()
	}
	former, err := newSpill(total, limit)
	if err != nil {
		return fmt.Errorf("a temporary file for the former values: %w", err)
	}
	err = to.WriteWeights(p.ctx, func(w trainer.Weights) error {
		u := &undo{w: w, former: former, buffer: make([]byte, bufferBytes)}
		for i := range all {
			a := &all[i]
			if err := p.run(a, func(piece []byte, offset int64) error { return u.write(a.target.Name, piece, offset) }); err != nil {
				return errors.Join(err, u.undo())
			}
		}
		return nil
	})
	return errors.Join(err, former.close())
}

// undo keeps what it overwrites.
type undo struct {
	w      trainer.Weights
	former *spill
	pieces []formerPiece
	buffer []byte
}

// formerPiece is a piece of a weight whose former bytes are kept.
type formerPiece struct {
	name   string
	offset int64 // in the weight
	n      int
	at     int64 // in the spill
}

// write sets a piece of a weight, after it has kept the former one.
func (u *undo) write(name string, piece []byte, offset int64) error {
	old := u.buffer[:len(piece)]
	if err := u.w.ReadAt(name, old, offset); err != nil {
		return err
	}
	at := u.former.n
	if err := u.former.append(old); err != nil {
		return fmt.Errorf("keep the former values: %w", err)
	}
	u.pieces = append(u.pieces, formerPiece{name, offset, len(piece), at})
	return u.w.WriteAt(name, piece, offset)
}

// undo sets the former values.
func (u *undo) undo() error {
	for _, x := range slices.Backward(u.pieces) {
		old := u.buffer[:x.n]
		err := u.former.readAt(old, x.at)
		if err == nil {
			err = u.w.WriteAt(x.name, old, x.offset)
		}
		if err != nil {
			return fmt.Errorf("%w: %q: %w", ErrPartial, x.name, err)
		}
	}
	return nil
}
