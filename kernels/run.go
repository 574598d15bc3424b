package kernels

import (
	encoding "encoding/binary"
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/float16"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// Load decodes the first len(dst) elements of type t from src, little-endian.
func Load(dst []float64, t arena.DType, src []byte) {
	le := encoding.LittleEndian
	switch t {
	case arena.Float32:
		for i := range dst {
			dst[i] = float64(math.Float32frombits(le.Uint32(src[4*i:])))
		}
	case arena.Float64:
		for i := range dst {
			dst[i] = math.Float64frombits(le.Uint64(src[8*i:]))
		}
	case arena.Uint8:
		for i := range dst {
			dst[i] = float64(src[i])
		}
	case arena.Int32:
		for i := range dst {
			dst[i] = float64(int32(le.Uint32(src[4*i:])))
		}
	case arena.Int64:
		for i := range dst {
			dst[i] = float64(int64(le.Uint64(src[8*i:])))
		}
	case arena.BFloat16:
		for i := range dst {
			dst[i] = float64(float16.FromBFloat16(le.Uint16(src[2*i:])))
		}
	case arena.Float16:
		for i := range dst {
			dst[i] = float64(float16.FromFloat16(le.Uint16(src[2*i:])))
		}
	}
}

// Store encodes src as elements of type t at the start of dst, little-endian: floats are rounded to
// nearest, integers truncated. Int64 becomes its smallest or largest value for a number beyond it, and
// 0 for NaN; the result for a number that another integer type cannot hold is undefined.
func Store(dst []byte, t arena.DType, src []float64) {
	le := encoding.LittleEndian
	switch t {
	case arena.Float32:
		for i, v := range src {
			le.PutUint32(dst[4*i:], math.Float32bits(float32(v)))
		}
	case arena.Float64:
		for i, v := range src {
			le.PutUint64(dst[8*i:], math.Float64bits(v))
		}
	case arena.Uint8:
		for i, v := range src {
			dst[i] = uint8(int64(v))
		}
	case arena.Int32:
		for i, v := range src {
			le.PutUint32(dst[4*i:], uint32(int32(v)))
		}
	case arena.Int64:
		for i, v := range src {
			le.PutUint64(dst[8*i:], uint64(numeric.ToInt64(v)))
		}
	case arena.BFloat16, arena.Float16:
		for i, v := range src {
			le.PutUint16(dst[2*i:], half(t, v))
		}
	}
}

// Round returns v rounded to floating-point type t.
func Round(t arena.DType, v float64) float64 {
	switch t {
	case arena.Float32:
		return float64(float32(v))
	case arena.BFloat16:
		return float64(float16.FromBFloat16(half(t, v)))
	case arena.Float16:
		return float64(float16.FromFloat16(half(t, v)))
	}
	return v
}

// Run executes a call by its op's reference, slowly. operand returns the bytes of an operand.
// Outputs may alias inputs: all inputs are read before any output is written. Run returns an error
// for operands of the wrong length, and for an op that fails or panics.
func Run(c Call, operand func(Operand) []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s %q: %v", c.Op.Name, c.Label, r)
		}
	}()
	in, err := operandBytes(c, c.In, operand)
	if err != nil {
		return err
	}
	out, err := operandBytes(c, c.Out, operand)
	if err != nil {
		return err
	}
	if h, ok := c.Attrs.(HostAttrs); ok && c.Op.OnHost {
		if err := h.Run(in, out); err != nil {
			return fmt.Errorf("host %q %v: %w", c.Label, h, err)
		}
		return nil
	}
	if c.Op.View != nil {
		if offset, ok := c.Op.View(c.Attrs, Specs(c.In)); ok {
			copy(out[0], in[0][offset:])
			return nil
		}
	}
	switch {
	case c.Op.Moves != nil:
		runMoves(c, in, out[0])
	case c.Op == Integer:
		runInteger(c, in, out[0])
	case c.Op == IntegerReduce:
		runIntegerReduce(c, in, out[0])
	default:
		runRef(c, in, out)
	}
	return nil
}

// runMoves runs an op that only moves elements: the reference moves their numbers instead, since a
// float64 does not hold every integer of 64 bits.
func runMoves(c Call, in [][]byte, out []byte) {
	size := int(c.Out[0].Type.Size())
	from := make([]byte, size) // number 0: a zero
	x := make([]Tensor, len(in))
	for k, o := range c.In {
		x[k] = Tensor{o.Spec, make([]float64, o.Shape.Elems())}
		if !c.Op.Moves(k) {
			Load(x[k].Data, o.Type, in[k])
			continue
		}
		for i := range x[k].Data {
			x[k].Data[i] = float64(len(from)/size + i)
		}
		from = append(from, in[k]...)
	}
	y := Tensor{c.Out[0].Spec, make([]float64, c.Out[0].Shape.Elems())}
	c.Op.Ref(c.Attrs, x, []Tensor{y})
	for i, number := range y.Data {
		copy(out[i*size:(i+1)*size], from[int(number)*size:])
	}
}

// runRef decodes inputs, runs the reference and encodes its outputs.
func runRef(c Call, in, out [][]byte) {
	x, y := make([]Tensor, len(in)), make([]Tensor, len(out))
	for i, o := range c.In {
		x[i] = Tensor{o.Spec, make([]float64, o.Shape.Elems())}
		Load(x[i].Data, o.Type, in[i])
	}
	for i, o := range c.Out {
		y[i] = Tensor{o.Spec, make([]float64, o.Shape.Elems())}
	}
	c.Op.Ref(c.Attrs, x, y)
	for i, o := range c.Out {
		Store(out[i], o.Type, y[i].Data)
	}
}

// operandBytes returns the bytes of operands, checked for length.
func operandBytes(c Call, operands []Operand, operand func(Operand) []byte) ([][]byte, error) {
	b := make([][]byte, len(operands))
	for i, o := range operands {
		b[i] = operand(o)
		if n := o.Bytes(); int64(len(b[i])) != n {
			return nil, fmt.Errorf("%s %q: operand %v needs %d bytes, has %d: %w", c.Op.Name, c.Label, o.Spec, n,
				len(b[i]), ErrShape)
		}
	}
	return b, nil
}
