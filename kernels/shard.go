package kernels

import (
	"math/rand/v2"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// ShardAttrs describe how ranks share the tensors of a bucket: each tensor, row-major and padded with
// zeros at its end, is cut into Ranks equal parts, and a bucket has a row for each rank:
//
//	             tensor 0        tensor 1
//	row of 0   │ part 0 of it │ part 0 of it │
//	row of 1   │ part 1 of it │ part 1 of it │
//
// Only Rank differs between ranks, so that their memory plans are equal.
type ShardAttrs struct {
	Ranks, Rank int
	Parts       []int // elements of a part, by tensor
	Tensor      int   // of TakeShard and UnpackShard: the index of their tensor
}

// PartElems returns the elements of a part of a tensor of elems, of which whole blocks of block
// elements stay together.
func PartElems(elems, ranks, block int) int {
	return (elems + ranks*block - 1) / (ranks * block) * block
}

// row returns the elements of a row.
func (a ShardAttrs) row() (n int) {
	for _, p := range a.Parts {
		n += p
	}
	return n
}

// offset returns the elements of a row before the part of the tensor.
func (a ShardAttrs) offset() (n int) {
	for _, p := range a.Parts[:a.Tensor] {
		n += p
	}
	return n
}

// PackShards makes a bucket of whole tensors.
//
//	x … → bucket [Ranks, row]
var PackShards = Register(&Op{
	Name: "pack_shards", Moves: everyInput, Cost: noFlops,
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := bucketAttrs("pack_shards", attrs, in)
		if err != nil {
			return nil, err
		}
		for i, s := range in {
			if err := a.fits("pack_shards", s, i); err != nil {
				return nil, err
			}
		}
		return []Spec{a.bucket(in[0].Type)}, nil
	},
	Ref: func(attrs any, in, out []Tensor) { refShards(packedMoves, attrs, in, out) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		a, shapes := randomShards(r)
		c := Case{Attrs: a, Fill: fillAny}
		for _, s := range shapes {
			c.In = append(c.In, Spec{float, s})
		}
		return c
	},
})

// TakeShard copies a rank's part of a tensor of a bucket, or of a tensor that is a bucket of its own:
// what it lacks at its end is zero.
//
//	x [Ranks, row] or of fewer elements → y [Parts[Tensor]]
var TakeShard = Register(&Op{
	Name: "take_shard", Moves: everyInput, Cost: noFlops,
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := shardAttrs("take_shard", attrs, in, 1)
		if err != nil {
			return nil, err
		}
		if in[0].Shape.Elems() > a.Ranks*a.row() {
			return nil, shapeError("take_shard", "%v has more than %d rows of %d elements", in[0], a.Ranks, a.row())
		}
		return []Spec{{in[0].Type, Shape{a.Parts[a.Tensor]}}}, nil
	},
	Ref: func(attrs any, in, out []Tensor) { refShards(takenMoves, attrs, in, out) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		a, shapes := randomShards(r)
		s := a.bucket(float)
		if a.Tensor = r.IntN(len(a.Parts)); len(a.Parts) == 1 {
			s.Shape = shapes[0]
		}
		return Case{Attrs: a, In: []Spec{s}, Fill: fillAny}
	},
})

// PlaceShards makes a bucket of a rank's parts. All other rows are zero: AllReduce of the kind
// AllGather fills them.
//
//	part [Parts[i]] … → bucket [Ranks, row]
var PlaceShards = Register(&Op{
	Name: "place_shards", Moves: everyInput, Cost: noFlops,
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := bucketAttrs("place_shards", attrs, in)
		if err != nil {
			return nil, err
		}
		for i, s := range in {
			if s.Shape.Elems() != a.Parts[i] {
				return nil, shapeError("place_shards", "part %d is %v and has %d elements", i, s, a.Parts[i])
			}
		}
		return []Spec{a.bucket(in[0].Type)}, nil
	},
	Ref: func(attrs any, in, out []Tensor) { refShards(placedMoves, attrs, in, out) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		a, _ := randomShards(r)
		c := Case{Attrs: a, Fill: fillAny}
		for _, n := range a.Parts {
			c.In = append(c.In, Spec{float, Shape{n}})
		}
		return c
	},
})

// UnpackShard replaces a tensor by that of a bucket.
//
//	x [...], bucket [Ranks, row] → x
var UnpackShard = Register(&Op{
	Name: "unpack_shard", Updates: []int8{0}, Cost: noFlops,
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := shardAttrs("unpack_shard", attrs, in, 2)
		if err != nil {
			return nil, err
		}
		if err := a.fits("unpack_shard", in[0], a.Tensor); err != nil {
			return nil, err
		}
		if want := a.bucket(in[0].Type); !in[1].Equal(want) {
			return nil, shapeError("unpack_shard", "takes a bucket %v, not %v", want, in[1])
		}
		return in[:1], nil
	},
	Ref: func(attrs any, in, out []Tensor) { refShards(unpackedMoves, attrs, in, out) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		a, shapes := randomShards(r)
		a.Tensor = r.IntN(len(a.Parts))
		return Case{Attrs: a, In: []Spec{{float, shapes[a.Tensor]}, a.bucket(float)}, Fill: fillAny}
	},
})

// ShardMove is a run of elements that PackShards, TakeShard, PlaceShards, UnpackShard or PutShard
// writes to output 0.
type ShardMove struct {
	Input int // that has them; -1: they are zero
	From  int // index of the first one in the input
	To    int // and in the output
	Elems int
}

// ShardMoves returns the moves of an operation with attributes a, which write each element of its
// output once, in order, or of PutShard those that change: in are its operands.
func (a ShardAttrs) ShardMoves(op *Op, in []Spec) []ShardMove {
	switch op {
	case PackShards:
		return packedMoves(a, in)
	case TakeShard:
		return takenMoves(a, in)
	case PlaceShards:
		return placedMoves(a, in)
	case PutShard:
		return putMoves(a, in)
	}
	return unpackedMoves(a, in)
}

// shardMoves collects moves in the order of the output.
type shardMoves struct {
	all []ShardMove
	end int // elements of the output that are written
}

// add adds n elements of an input, of which it has those before index elems; the rest are zeros.
func (m *shardMoves) add(input, from, elems, n int) {
	has := max(0, min(n, elems-from))
	if has > 0 {
		m.all = append(m.all, ShardMove{input, from, m.end, has})
	}
	m.end += has
	m.zeros(n - has)
}

// zeros adds n zeros.
func (m *shardMoves) zeros(n int) {
	if n > 0 {
		m.all = append(m.all, ShardMove{-1, 0, m.end, n})
	}
	m.end += n
}

func packedMoves(a ShardAttrs, in []Spec) []ShardMove {
	var m shardMoves
	for r := range a.Ranks {
		for i, x := range in {
			m.add(i, r*a.Parts[i], x.Shape.Elems(), a.Parts[i])
		}
	}
	return m.all
}

func takenMoves(a ShardAttrs, in []Spec) []ShardMove {
	var m shardMoves
	m.add(0, a.Rank*a.row()+a.offset(), in[0].Shape.Elems(), a.Parts[a.Tensor])
	return m.all
}

func placedMoves(a ShardAttrs, in []Spec) []ShardMove {
	var m shardMoves
	m.zeros(a.Rank * a.row())
	for i := range in {
		m.add(i, 0, a.Parts[i], a.Parts[i])
	}
	m.zeros((a.Ranks - a.Rank - 1) * a.row())
	return m.all
}

func unpackedMoves(a ShardAttrs, in []Spec) []ShardMove {
	var m shardMoves
	for r := range a.Ranks {
		n := min(a.Parts[a.Tensor], in[0].Shape.Elems()-m.end)
		m.add(1, r*a.row()+a.offset(), a.Ranks*a.row(), n)
	}
	return m.all
}

func putMoves(a ShardAttrs, _ []Spec) []ShardMove {
	m := shardMoves{end: a.Rank * a.row()}
	m.add(1, 0, a.row(), a.row())
	return m.all
}

func refShards(moves func(ShardAttrs, []Spec) []ShardMove, attrs any, in, out []Tensor) {
	specs := make([]Spec, len(in))
	for i, x := range in {
		specs[i] = x.Spec
	}
	if out[0].Spec.Equal(specs[0]) {
		copy(out[0].Data, in[0].Data)
	}
	for _, m := range moves(attrs.(ShardAttrs), specs) {
		to := out[0].Data[m.To : m.To+m.Elems]
		if m.Input < 0 {
			clear(to)
		} else {
			copy(to, in[m.Input].Data[m.From:])
		}
	}
}

// PutShard replaces a rank's part of a tensor that is a bucket of its own; the other parts stay.
//
//	x [...] of Ranks · row elements, part [row] → x
var PutShard = Register(&Op{
	Name: "put_shard", Updates: []int8{0}, Cost: noFlops,
	Infer: func(attrs any, in []Spec) ([]Spec, error) {
		a, err := shardAttrs("put_shard", attrs, in, 2)
		if err != nil {
			return nil, err
		}
		if len(a.Parts) != 1 || in[0].Shape.Elems() != a.Ranks*a.row() || !in[1].Shape.Equal(Shape{a.row()}) {
			return nil, shapeError("put_shard", "takes %d parts and one of them, not %v", a.Ranks, in)
		}
		return in[:1], nil
	},
	Ref: func(attrs any, in, out []Tensor) { refShards(putMoves, attrs, in, out) },
	Cases: func(r *rand.Rand, float arena.DType) Case {
		a := ShardAttrs{Ranks: 1 + r.IntN(4), Parts: []int{randomDim(r)}}
		a.Rank = r.IntN(a.Ranks)
		return Case{Attrs: a, In: []Spec{{float, Shape{a.Parts[0], a.Ranks}}, {float, Shape{a.Parts[0]}}}, Fill: fillAny}
	},
})

// bucket returns the spec of the bucket.
func (a ShardAttrs) bucket(t arena.DType) Spec { return Spec{t, Shape{a.Ranks, a.row()}} }

// fits returns an error if s is not a tensor of the bucket.
func (a ShardAttrs) fits(name string, s Spec, i int) error {
	if s.Shape.Elems() > a.Ranks*a.Parts[i] {
		return shapeError(name, "%v has more than %d parts of %d elements", s, a.Ranks, a.Parts[i])
	}
	return nil
}

// bucketAttrs is shardAttrs of an operation with an operand for each tensor of the bucket.
func bucketAttrs(name string, attrs any, in []Spec) (ShardAttrs, error) {
	a, err := attrsOf[ShardAttrs](name, attrs)
	if err != nil {
		return a, err
	}
	return shardAttrs(name, attrs, in, max(1, len(a.Parts)))
}

// shardAttrs returns attributes, and an error if they are bad, or if in is not so many operands of
// one type.
func shardAttrs(name string, attrs any, in []Spec, operands int) (ShardAttrs, error) {
	a, err := attrsOf[ShardAttrs](name, attrs)
	switch {
	case err != nil:
		return a, err
	case a.Ranks < 1 || a.Rank < 0 || a.Rank >= a.Ranks:
		return a, attrError(name, "rank %d of %d", a.Rank, a.Ranks)
	case a.Tensor < 0 || a.Tensor >= len(a.Parts):
		return a, attrError(name, "tensor %d of %d", a.Tensor, len(a.Parts))
	case slices.ContainsFunc(a.Parts, func(n int) bool { return n < 0 }):
		return a, attrError(name, "parts of %d elements", a.Parts)
	}
	if err := count(name, in, operands); err != nil {
		return a, err
	}
	if slices.ContainsFunc(in, func(s Spec) bool { return s.Type != in[0].Type }) {
		return a, shapeError(name, "operands must be of one type, not %v", in)
	}
	return a, nil
}

// randomShards returns a bucket and its tensors.
func randomShards(r *rand.Rand) (a ShardAttrs, shapes []Shape) {
	a.Ranks = 1 + r.IntN(4)
	a.Rank = r.IntN(a.Ranks)
	for range 1 + r.IntN(4) {
		s := randomShape(r, randomRank(r))
		shapes = append(shapes, s)
		a.Parts = append(a.Parts, PartElems(s.Elems(), a.Ranks, 1+r.IntN(3)))
	}
	return a, shapes
}
