package trainer

import (
	"fmt"

	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// Shard selects what each rank of Options.Group has only its part of. Parameters and averages are whole
// on each rank. It changes no result but by the rounding of sums. See docs/scaling.md#shared-state.
type Shard uint8

const (
	// ShardNothing: each rank has the whole state and all gradients.
	ShardNothing Shard = iota
	// ShardState cuts each tensor of the optimizer's state into a part for each rank (ZeRO-1), and
	// keeps no whole gradients until the update, unless Accumulate adds them up. A step sends what it
	// does without. Each optimizer of package optim but Adafactor can share its state.
	ShardState
	// ShardGradients also cuts the gradients that Accumulate adds up (ZeRO-2): each step of a window
	// then sends its gradients. Without Accumulate it is ShardState.
	ShardGradients
)

// String returns "nothing", "state" or "state, gradients", for tables.
func (s Shard) String() string {
	names := [...]string{"nothing", "state", "state, gradients"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("shard(%d)", uint8(s))
}

// shards reports whether ranks share the state.
func (o *Options) shards() bool { return o.Shard != ShardNothing && o.ranks() > 1 }

// checkShard adds the mistakes in Shard.
func (o *Options) checkShard(bad *mistakes) {
	if o.Shard > ShardGradients {
		bad.addf("shard %d: must be ShardNothing, ShardState or ShardGradients", o.Shard)
	}
	if !o.shards() {
		return
	}
	for _, name := range o.Keep {
		if compile.IsGradient(name) {
			bad.addf("shard: no rank has the whole gradient that %q keeps: leave out Keep or Shard", name)
		}
	}
	whole := func(where string, opt optim.Optimizer) {
		if opt != nil && optim.Check(opt, nil, o.Clip) == nil && opt.Op().Block == 0 {
			bad.addf("shard: the optimizer %T%s updates whole parameters: use another one, such as optim.AdamW, or leave out Shard", opt, where)
		}
	}
	whole("", o.optimizer())
	for _, x := range o.Objectives {
		whole(fmt.Sprintf(" of objective %q", x.Name), x.Optimizer)
	}
	for i, g := range o.Groups {
		whole(fmt.Sprintf(" of group %d", i), g.Optimizer)
	}
}
