package kerneltest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// testMoves checks that operations that only move elements change no bit of them: random bytes of
// every type, which are integers of 64 bits that no float64 holds, and NaNs with payloads.
func testMoves(t *testing.T, open opener) {
	b := openBench(t, open)
	for _, op := range kernels.All() {
		if op.Moves == nil || op.IsTransfer() {
			continue
		}
		t.Run(op.Name, func(t *testing.T) {
			r := random(t)
			for i := range cases() {
				c := op.Cases(r, floatTypes[i%2])
				if i%2 == 0 {
					widen(op, c)
				}
				out, err := op.Infer(c.Attrs, c.In)
				if err != nil {
					t.Fatal(err)
				}
				in := Fill(r, c)
				p := b.place(op, c.Attrs, in, out, nil, oddly(r))
				want, err := movedBytes(r, op, c, in, p)
				if err != nil {
					t.Fatal(err)
				}
				got, err := b.run(p, 1)
				if err != nil {
					t.Fatalf("case %d, attributes %s, operands %v: %v", i, attrString(c.Attrs), c.In, err)
				}
				if !bytes.Equal(got[0], want) {
					t.Fatalf("case %d, attributes %s, operands %v: got bytes\n%x\nwant\n%x", i, attrString(c.Attrs), c.In, got[0], want)
				}
			}
		})
	}
}

// widen makes the moved operands integers of 64 bits.
func widen(op *kernels.Op, c kernels.Case) {
	for k := range c.In {
		if op.Moves(k) {
			c.In[k].Type = arena.Int64
		}
	}
}

// movedBytes fills the moved operands of p with random bytes and returns the bytes of the result. It
// evaluates the operation once for each byte of an element: float64 holds bytes.
func movedBytes(r *rand.Rand, op *kernels.Op, c kernels.Case, in []kernels.Tensor, p *placed) ([]byte, error) {
	size := int(p.call.Out[0].Type.Size())
	want := make([]byte, p.call.Out[0].Bytes())
	moved := make([][]byte, len(in))
	for k, o := range p.call.In {
		if op.Moves(k) {
			moved[k] = p.image[o.Ref.Offset:][:o.Bytes()]
			for i := range moved[k] {
				moved[k][i] = byte(r.Uint32())
			}
		}
	}
	for at := range size {
		for k, m := range moved {
			for i := range in[k].Data {
				if m != nil {
					in[k].Data[i] = float64(m[i*size+at])
				}
			}
		}
		out, err := kernels.Eval(op, c.Attrs, in)
		if err != nil {
			return nil, err
		}
		for i, v := range out[0].Data {
			want[i*size+at] = byte(v)
		}
	}
	return want, nil
}
