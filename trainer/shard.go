package trainer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
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

// gathers reports whether a copy of the state needs all ranks: their parts of it, or their summands of
// the gradients of a window.
func (o *Options) gathers() bool {
	return o.ranks() > 1 && (o.Shard != ShardNothing || o.Accumulate > 1)
}

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

// share completes a tensor of the state whose home has a part of it, or a summand.
func (p *planned) share(x *stateTensor) {
	region := x.home.Ref.Region
	if !p.opt.gathers() || !isState(region) && region != ir.Gradients {
		return
	}
	if region == ir.Gradients && p.opt.Shard != ShardGradients {
		x.adds = !strings.HasPrefix(x.home.Name, ir.WeightUnit)
		return
	}
	if !p.opt.shards() {
		return
	}
	if whole, ok := p.wholeSpec(x.home.Name, region); ok {
		x.Spec, x.ranks = whole, p.opt.ranks()
	}
	x.adds = x.ranks == 0 && strings.HasPrefix(x.home.Name, ir.WeightSum)
}

// wholeSpec returns the spec of a gradient or a state, by the name of its home, if ranks share it.
func (p *planned) wholeSpec(name string, region arena.Region) (kernels.Spec, bool) {
	for i, prog := range p.trainings() {
		update := p.update(&p.opt, programKey{mode: compile.Train, objective: i, stage: len(p.opt.Unfreeze)}, false)
		for _, param := range prog.Trained {
			rest, ok := strings.CutPrefix(name, param)
			if !ok {
				continue
			}
			if update.Own != nil && update.Own(param) {
				rest = strings.TrimSuffix(rest, " of "+p.objectiveName(i))
			}
			spec := p.parameter(param).Spec
			if rest == "" && region == ir.Gradients {
				return spec, true
			}
			for _, s := range update.RuleFor(param, spec).States(spec) {
				if rest == "/"+s.Name && isState(region) {
					return s.Spec, true
				}
			}
		}
	}
	return kernels.Spec{}, false
}

// rank returns the number of the part of the tensor that this rank has.
func (x *stateTensor) rank(o *Options) int {
	if x.ranks == 0 {
		return 0
	}
	return o.rank()
}

// part returns what this rank's home has of the bytes of a whole tensor: its part, or all. Of a sum,
// the first rank has all, and the others have zeros.
func (x *stateTensor) part(whole []byte, o *Options) []byte {
	size := int(x.home.Spec.Bytes())
	switch {
	case x.adds && o.rank() > 0:
		return make([]byte, size)
	case x.ranks == 0:
		return whole
	}
	start := min(o.rank()*size, len(whole))
	if end := start + size; end <= len(whole) {
		return whole[start:end]
	}
	padded := make([]byte, size)
	copy(padded, whole[start:])
	return padded
}

// checkGather returns an error where ranks cannot exchange what they have of the state: while a pass
// runs, their steps are not the same.
func (t *Trainer) checkGather() error {
	if t.plan.opt.gathers() && t.usage.passes() {
		return fmt.Errorf("the trainer is %w: each rank has its part of the state (Options.Shard) or of the sum of gradients (Options.Accumulate): call it on all ranks, between passes or in the body of Steps", ErrBusy)
	}
	return nil
}

// agreeToGather returns an error if a rank cannot capture its state; own is why this one cannot. A rank
// of whose own the state is returns own.
func (t *Trainer) agreeToGather(ctx context.Context, own error) error {
	if !t.plan.opt.gathers() {
		return own
	}
	rank, text, err := group.ExchangeErrors(ctx, t.plan.opt.Group, own)
	if err == nil && rank >= 0 {
		err = fmt.Errorf("the state is %w on rank %d: %s", ErrBusy, rank, text)
	}
	return err
}

// gatherState completes the copies of tensors by the parts of the other ranks. No step is in flight on
// any rank.
func (t *Trainer) gatherState(tensors []stateTensor) error {
	if err := t.captures.copied.Sync(); err != nil {
		return err
	}
	var errs []error
	for i := range tensors {
		x := &tensors[i]
		op := group.Op{Kind: group.AllGather, Type: arena.Uint8, Label: x.Name}
		switch {
		case x.adds:
			op.Kind, op.Type = group.Sum, x.Spec.Type
		case x.ranks == 0:
			continue
		}
		span := t.memory.stateSpan(x.offset, x.bytes())
		t.memory.willWrite(span)
		op.Data = bytesOf(span)
		errs = append(errs, group.Once(t.plan.opt.Group, op))
	}
	return errors.Join(errs...)
}
