package cuda

import "github.com/evenkeel/evenkeel/kernels"

// bindShards prepares the moves of PackShards, TakeShard, PlaceShards, UnpackShard or PutShard.
func bindShards(b *binding) error {
	size := b.Out[0].Type.Size()
	for _, m := range b.Attrs.(kernels.ShardAttrs).ShardMoves(b.Op, kernels.Specs(b.In)) {
		to, bytes := b.out(0)+address(int64(m.To)*size), int64(m.Elems)*size
		if m.Input < 0 {
			b.fill(to, 0, bytes)
		} else {
			b.copy(to, b.in(m.Input)+address(int64(m.From)*size), bytes)
		}
	}
	return nil
}
