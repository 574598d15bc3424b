package cpu

import "github.com/evenkeel/evenkeel/kernels"

// bindShards prepares the moves of PackShards, TakeShard, PlaceShards, UnpackShard or PutShard.
func bindShards(b *binding) (func(), error) {
	to, size := b.bytes(b.Out[0]), int(b.Out[0].Type.Size())
	type move struct{ to, from []byte } // without from: zeros
	var moves []move
	for _, m := range b.Attrs.(kernels.ShardAttrs).ShardMoves(b.Op, kernels.Specs(b.In)) {
		next := move{to: to[m.To*size : (m.To+m.Elems)*size]}
		if m.Input >= 0 {
			next.from = b.bytes(b.In[m.Input])[m.From*size : (m.From+m.Elems)*size]
		}
		moves = append(moves, next)
	}
	if len(moves) == 0 {
		return nil, nil
	}
	return b.parallelFor(len(moves), 1+4*moveGrain*len(moves)/len(to), func(lo, hi, _ int) {
		for _, m := range moves[lo:hi] {
			if m.from == nil {
				clear(m.to)
			} else {
				copy(m.to, m.from)
			}
		}
	}), nil
}
