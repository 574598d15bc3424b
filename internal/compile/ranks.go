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

// Ranks of a group share each step: every rank has a part of its samples, and a copy of the
// parameters. Gradients start with the rank's share of the samples (kernels.ControlShare), so that
// their sum over the ranks is the gradient of the mean over all samples. Results and the variances
// of the batch are summed with the rank's share of the step (kernels.ControlRank).
//
//	forward ─► sum of results, begins │ backward, bucket by bucket: sum begins │ await, agree, check, update
//
// All ranks run the same sums in the same order, whatever their number of samples. A rank without
// samples (Config.Idle) adds zeros.

// bucketBytes is the size from which a bucket is sent: large enough that the time of a sum does not
// depend on how long it takes to begin, small enough that most of the gradients leave while others are
// computed.
const bucketBytes = 4 << 20

// sharesStep reports whether ranks share the step of the program. Only training does: evaluation
// sums results on the host, when a pass ends.
func (c *compiler) sharesStep() bool { return c.cfg.Mode == Train && c.cfg.Update.Ranks }

// sum appends the beginning of a sum of values of one type over the ranks. It returns the sums, which
// the end of it, await, makes.
func (c *compiler) sum(label string, vs []kernels.Value) (sums []kernels.Value) {
	return c.collect(group.Sum, "sum of", label, vs)
}

// collect appends the beginning of an operation of the group, which what names in labels, and its end.
func (c *compiler) collect(kind group.Kind, what, label string, vs []kernels.Value) []kernels.Value {
	a := kernels.AllReduceAttrs{Group: c.cfg.Group, Label: label, Type: c.Spec(vs[0]).Type, Tensors: len(vs), Kind: kind}
	c.Label, c.Owner, c.Mark = what+" "+label, "ranks", ""
	begun := slices.Clone(c.ApplyAll(kernels.AllReduce, a, vs...))
	c.Label = "await " + label
	return c.ApplyAll(kernels.Await, a, begun...)
}

// sumNow returns the sum over the ranks of a value that is read soon. The value stays as it is.
func (c *compiler) sumNow(label string, v kernels.Value) kernels.Value {
	c.sumAll(c.label(label), []*kernels.Value{&v})
	return v
}

// label names a sum after the objective of the step.
func (c *compiler) label(of string) string { return ofObjective(of, c.cfg.Objective) }

// sumResults replaces the results of this rank, and the batch statistics of batch normalization, by
// those of all ranks.
func (c *compiler) sumResults(named []ir.Result) error {
	c.Label, c.Owner, c.Mark = "share of the rank", "ranks", ""
	share, err := c.ControlAt(kernels.ControlRank)
	if err != nil {
		return err
	}
	var places []*kernels.Value
	for i := range named {
		if r := &named[i]; r.Value != kernels.None && r.Name != OutputName {
			if !slices.Contains(kernels.ReducedTypes, c.Spec(r.Value).Type) {
				return fmt.Errorf("%s is %v: only numbers of %v are summed over ranks: %w", r.Name, c.Spec(r.Value), kernels.ReducedTypes, kernels.ErrUnsupported)
			}
			if r.Name == LossOf(c.cfg.Objective) && c.weight == kernels.None {
				r.Value = c.times(r.Value, share) // else it is a sum already
			}
			places = append(places, &r.Value)
		}
	}
	if !c.syncsNorms() { // else they are those of all ranks already
		for i := range c.forward.Statistics {
			s := &c.forward.Statistics[i]
			// The factor depends on the rows of the rank.
			s.Mean = c.times(c.Apply(kernels.Affine, kernels.AffineAttrs{Scale: s.Attrs.Factor}, s.Batch), share)
			s.Attrs.Factor = 1
			places = append(places, &s.Mean)
		}
	}
	if c.cfg.Idle {
		c.Label = "no samples"
		for _, v := range places {
			*v = c.zero(c.Spec(*v))
		}
	}
	c.sumAll(c.label("results"), places)
	return nil
}

// zero appends a value of zeros.
func (c *compiler) zero(s kernels.Spec) kernels.Value {
	return c.Apply(kernels.Fill, kernels.FillAttrs{Type: s.Type, Shape: s.Shape})
}

// flat returns the elements of v as a vector.
func (c *compiler) flat(v kernels.Value) kernels.Value {
	return c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: kernels.Shape{c.Spec(v).Shape.Elems()}}, v)
}

// decode returns v in a type.
func (c *compiler) decode(t arena.DType, v kernels.Value) kernels.Value {
	return c.Apply(kernels.Decode, kernels.DecodeAttrs{To: t, Scale: 1}, v)
}

// part returns elements lo to hi-1 of a vector.
func (c *compiler) part(v kernels.Value, lo, hi int) kernels.Value {
	return c.Apply(kernels.Slice, kernels.SliceAttrs{Start: []int{lo}, End: []int{hi}, Step: []int{1}}, v)
}

// times returns v times the number in a slice of controls.
func (c *compiler) times(v, number kernels.Value) kernels.Value {
	s := c.Spec(v)
	number = c.decode(s.Type, number)
	return c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: s.Shape}, c.Apply(kernels.Mul, nil, c.flat(v), number))
}

// sumAll replaces values by their sums over the ranks: all of a type in one operation, on a copy, which
// the sum overwrites.
func (c *compiler) sumAll(label string, places []*kernels.Value) {
	for _, t := range kernels.ReducedTypes {
		var all []*kernels.Value
		var flat []kernels.Value
		c.Label, c.Owner, c.Mark = label, "ranks", ""
		for _, v := range places {
			if c.Spec(*v).Type == t {
				all, flat = append(all, v), append(flat, c.flat(*v))
			}
		}
		if len(all) == 0 {
			continue
		}
		joined := c.Apply(kernels.Concat, kernels.ConcatAttrs{}, flat...)
		sums, at := c.sum(fmt.Sprintf("%s, %v", label, t), []kernels.Value{joined})[0], 0
		for _, v := range all {
			shape := c.Spec(*v).Shape
			*v = c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: shape}, c.part(sums, at, at+shape.Elems()))
			at += shape.Elems()
		}
	}
}

// zeroGradients replaces the gradients of a rank without samples by zeros.
func (c *compiler) zeroGradients(ps []frontend.Param, grads []kernels.Value) {
	for _, p := range ps {
		c.Label, c.Owner, c.Mark = "d"+p.Name, ir.OwnerOf(p.Name), ""
		grads[p.Value] = c.zero(c.Spec(p.Value))
	}
}

// sumGradients replaces gradients by their sums over the ranks, bucket by bucket.
func (c *compiler) sumGradients(ps []frontend.Param, grads []kernels.Value) {
	for i, bucket := range c.chooseBuckets(ps) {
		var vs []kernels.Value
		for _, p := range bucket {
			vs = append(vs, grads[p.Value])
		}
		sums := c.sum(c.label(fmt.Sprintf("gradients %d", i)), vs)
		c.recordBucket(c.Buckets[i])
		for k, v := range sums {
			grads[bucket[k].Value] = v
		}
	}
}

// chooseBuckets returns parameters by bucket, and records the buckets in the program.
func (c *compiler) chooseBuckets(ps []frontend.Param) [][]frontend.Param {
	byName := make(map[string]frontend.Param)
	for _, p := range ps {
		byName[p.Name] = p
	}
	if c.Buckets == nil {
		c.Buckets = c.cfg.Buckets
	}
	if c.Buckets == nil {
		c.Buckets = c.cutBuckets(ps)
	}
	all := make([][]frontend.Param, len(c.Buckets))
	for i, names := range c.Buckets {
		for _, name := range names {
			all[i] = append(all[i], byName[name])
		}
	}
	return all
}

// agree lets the ranks agree whether their checks so far were fine, and returns the status word after
// that.
func (c *compiler) agree(guard kernels.Value) (kernels.Value, error) {
	verdict, err := c.Home(ir.Guard, "guard", ir.VerdictName, kernels.VerdictSpec)
	if err != nil {
		return kernels.None, err
	}
	c.Label, c.Owner, c.Mark = "agree", "guard", ""
	agreed := c.ApplyAll(kernels.Agree, kernels.AgreeAttrs{Group: c.cfg.Group, Peer: ir.PeerCode}, guard, verdict)
	c.Needed = append(c.Needed, agreed[1])
	return agreed[0], nil
}

// cutBuckets cuts parameters, in the order in which their gradients are made, into buckets of one type
// and about bucketBytes.
func (c *compiler) cutBuckets(ps []frontend.Param) (all [][]string) {
	if c.shards() {
		return c.shardBuckets(ps)
	}
	var bytes int64
	var last arena.DType
	for _, p := range ps {
		s := c.Spec(p.Value)
		n := len(all) - 1
		if n < 0 || bytes >= bucketBytes || s.Type != last || len(all[n]) == kernels.MaxReduced {
			all, bytes, n = append(all, nil), 0, n+1
		}
		all[n] = append(all[n], p.Name)
		bytes, last = bytes+s.Bytes(), s.Type
	}
	return all
}
