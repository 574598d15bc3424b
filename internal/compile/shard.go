package compile

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Shard is what the ranks of a group share: each has a part of every tensor, as kernels.ShardAttrs
// describes it. Parameters are whole on each rank.
//
// Each bucket of gradients becomes this rank's part of their sums by a reduce-scatter, as soon as its
// last gradient is computed. The update changes the rank's part of the parameters, by its part of the
// state, and an all-gather gives all ranks the new parameters:
//
//	dw … ─► pack ─► reduce-scatter ─► own part │ check, agree │ update own part of w ─► all-gather ─► unpack w …
//
// Source: Rajbhandari, Rasley, Ruwase and He, "ZeRO: Memory Optimizations Toward Training Trillion
// Parameter Models", SC 2020, sections 5.1 and 5.2.
type Shard uint8

// What is shared.
const (
	ShardNothing Shard = iota
	// ShardState: the optimizer's state. A window adds whole gradients up, and its last step sums them
	// over the ranks.
	ShardState
	// ShardGradients: the gradients that a window adds up, too. Each of its steps sums over the ranks.
	ShardGradients
)

// shards reports whether the program updates this rank's part of the parameters.
func (c *compiler) shards() bool {
	return c.cfg.Update.Shard != ShardNothing && c.sharesStep() && c.cfg.Group != nil && c.cfg.Group.Size() > 1
}

// shardAttrs returns how the ranks share a bucket of parameters.
func (c *compiler) shardAttrs(bucket ...frontend.Param) (kernels.ShardAttrs, error) {
	a := kernels.ShardAttrs{Ranks: c.cfg.Group.Size(), Rank: c.cfg.Group.Rank()}
	for _, p := range bucket {
		spec := c.Spec(p.Value)
		op := c.cfg.Update.RuleFor(p.Name, spec).Op
		if op.Block == 0 {
			return a, fmt.Errorf("the update %s of %q needs all of it, not a part: %w", op.Name, p.Name, kernels.ErrUnsupported)
		}
		a.Parts = append(a.Parts, kernels.PartElems(spec.Shape.Elems(), a.Ranks, op.Block))
	}
	return a, nil
}

// keepShards is keepAll where the ranks share gradients: those of the update become this rank's parts.
func (c *compiler) keepShards(trained []frontend.Param, grads []kernels.Value, guard kernels.Value) (_, scale kernels.Value, err error) {
	u := &c.cfg.Update
	if u.Shard == ShardState && (u.Window != Alone || u.Accumulates) { // windows add up whole gradients
		if err := c.keepGradients(trained, grads); err != nil {
			return guard, kernels.None, err
		}
	}
	if u.Window.Updates() || u.Shard == ShardGradients {
		if err := c.scatterGradients(trained, grads); err != nil {
			return guard, kernels.None, err
		}
	}
	if u.Window != Alone && u.Shard == ShardGradients {
		if err := c.keepGradients(trained, grads); err != nil {
			return guard, kernels.None, err
		}
	}
	// A number that is not finite in one rank's samples is found by the rank that has that part of the
	// sum. So ranks agree first whose samples are to blame, and again when all parts are checked.
	if guard, err = c.agree(guard); err != nil || !u.Window.Updates() {
		return guard, kernels.None, err
	}
	for i, p := range trained {
		guard = c.check(p, i, grads, guard)
	}
	if guard, err = c.agree(guard); err != nil {
		return guard, kernels.None, err
	}
	if scale, err = c.scale(trained, grads); err != nil {
		return guard, kernels.None, err
	}
	return c.checkNorm(trained, scale, guard), scale, nil
}

// scatterGradients replaces gradients by this rank's parts of their sums over the ranks.
func (c *compiler) scatterGradients(ps []frontend.Param, grads []kernels.Value) error {
	for i, bucket := range c.chooseBuckets(ps) {
		a, err := c.shardAttrs(bucket...)
		if err != nil {
			return err
		}
		label := c.label(fmt.Sprintf("gradients %d", i))
		packed := c.pack(label, a, bucket, grads)
		summed := c.collect(group.ReduceScatter, "reduce-scatter of", label, []kernels.Value{packed})[0]
		c.recordBucket(c.Buckets[i])
		for k, p := range bucket {
			a.Tensor = k
			c.Label, c.Owner = "own part of d"+p.Name, ir.OwnerOf(p.Name)
			grads[p.Value] = c.Apply(kernels.TakeShard, a, summed)
		}
	}
	return nil
}

// pack returns a bucket of gradients. Equal parts of one gradient are a bucket already, if nobody else
// needs the gradient.
func (c *compiler) pack(label string, a kernels.ShardAttrs, bucket []frontend.Param, grads []kernels.Value) kernels.Value {
	c.Label, c.Owner, c.Mark = "pack "+label, "ranks", ""
	if dx := grads[bucket[0].Value]; len(bucket) == 1 && c.parts(a, bucket[0]) && c.own(dx, grads) {
		return c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: kernels.Shape{a.Ranks, a.Parts[0]}}, dx)
	}
	var whole []kernels.Value
	for _, p := range bucket {
		whole = append(whole, grads[p.Value])
	}
	return c.Apply(kernels.PackShards, a, whole...)
}

// parts reports whether a parameter is cut without padding.
func (c *compiler) parts(a kernels.ShardAttrs, p frontend.Param) bool {
	return c.Spec(p.Value).Shape.Elems() == a.Ranks*a.Parts[0]
}

// own reports whether the bytes of a gradient may be overwritten: they are its home, or an instruction has
// made them, and they are those of no other gradient.
func (c *compiler) own(dx kernels.Value, grads []kernels.Value) bool {
	made, users := c.unreshaped(dx), 0
	for _, p := range c.forward.Params {
		if g := grads[p.Value]; !p.Frozen && g != kernels.None && c.unreshaped(g) == made {
			users++
		}
	}
	home := c.Values[made].Home && c.Values[made].Ref.Region == ir.Gradients
	return users == 1 && (home || c.Maker(made) != nil)
}

// Sizes of buckets whose parts are shared. A bucket is packed while its gradients are still there, and
// parameters are exchanged through a copy. So large parameters, which need neither, are buckets of
// their own, and the others are smaller than buckets of sums.
const (
	loneBytes        = 256 << 10
	shardBucketBytes = 1 << 20
)

// shardBuckets is buckets where the ranks share the state.
func (c *compiler) shardBuckets(ps []frontend.Param) [][]string {
	type bucket struct {
		names []string
		bytes int64
		last  int // index of its last parameter
	}
	var all []*bucket
	var open *bucket // takes more parameters
	var of arena.DType
	for i, p := range ps {
		s := c.Spec(p.Value)
		b := &bucket{}
		a, err := c.shardAttrs(p)
		lone := err == nil && s.Bytes() >= loneBytes && c.parts(a, p)
		if !lone {
			if open == nil || open.bytes >= shardBucketBytes || s.Type != of || len(open.names) == kernels.MaxReduced {
				open, of = b, s.Type
			} else {
				b = open
			}
		}
		if b.names == nil {
			all = append(all, b)
		}
		b.names, b.bytes, b.last = append(b.names, p.Name), b.bytes+s.Bytes(), i
	}
	// Ranks send in the order in which buckets are complete.
	slices.SortStableFunc(all, func(a, b *bucket) int { return a.last - b.last })
	names := make([][]string, len(all))
	for i, b := range all {
		names[i] = b.names
	}
	return names
}

// sumSquares replaces sums of squares of this rank's parts by those of the whole tensors.
func (c *compiler) sumSquares(squares []kernels.Value) {
	places := make([]*kernels.Value, len(squares))
	for i := range squares {
		places[i] = &squares[i]
	}
	c.sumAll(c.label("squares of gradients"), places)
}

// applyShards appends the updates of this rank's parts of the parameters, bucket by bucket, and their
// exchange.
func (c *compiler) applyShards(trained []frontend.Param, grads []kernels.Value, guard, scale kernels.Value) error {
	for i, bucket := range c.chooseBuckets(trained) {
		a, err := c.shardAttrs(bucket...)
		if err != nil {
			return err
		}
		var own []kernels.Value
		for k, p := range bucket {
			c.Label, c.Owner, c.Mark = "own part of "+p.Name, ir.OwnerOf(p.Name), ""
			part := kernels.ShardAttrs{Ranks: a.Ranks, Rank: a.Rank, Parts: a.Parts[k : k+1]}
			out, err := c.apply(p, c.Apply(kernels.TakeShard, part, p.Value), grads[p.Value], guard, scale)
			if err != nil {
				return err
			}
			own, c.Needed = append(own, out[0]), append(c.Needed, out[1:]...)
		}
		c.exchange(c.label(fmt.Sprintf("parameters %d", i)), a, bucket, own)
	}
	c.rules = append(c.rules, kernels.UnpackShard) // of offloaded parameters, too
	return nil
}

// exchange gives all ranks the parameters of a bucket, whose parts each rank has updated.
func (c *compiler) exchange(label string, a kernels.ShardAttrs, bucket []frontend.Param, own []kernels.Value) {
	c.Label, c.Owner = "place "+label, "ranks"
	if w := bucket[0].Value; len(bucket) == 1 && c.parts(a, bucket[0]) && c.Values[w].Ref.Region == ir.Parameters {
		w = c.Apply(kernels.PutShard, a, w, own[0])
		c.Needed = append(c.Needed, c.collect(group.AllGather, "all-gather of", label, []kernels.Value{w})...)
		return
	}
	placed := c.Apply(kernels.PlaceShards, a, own...)
	gathered := c.collect(group.AllGather, "all-gather of", label, []kernels.Value{placed})[0]
	for k, p := range bucket {
		a.Tensor = k
		c.Label, c.Owner = "unpack "+p.Name, ir.OwnerOf(p.Name)
		c.Needed = append(c.Needed, c.Apply(kernels.UnpackShard, a, p.Value, gathered))
	}
}
