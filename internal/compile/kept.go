package compile

import (
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/compile/frontend"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Suffixes of the names of gradients in Update.Keep: of a parameter, and of the norm of a layer's.
// KeepAll stands for every parameter, or every layer.
const (
	GradSuffix = "/grad"
	NormSuffix = "/gradnorm"
	KeepAll    = "*"
)

// keeps reports whether a gradient is a result: that of a parameter, or the norm of a layer's, by
// the suffix.
func (u *Update) keeps(owner, suffix string) bool {
	return slices.Contains(u.Keep, owner+suffix) || slices.Contains(u.Keep, KeepAll+suffix)
}

// keepResults makes results of the gradients of Update.Keep, as the update sees them: those of the
// whole window, without the loss scale, before they are clipped. A result is a copy, so that
// training computes the same bits without it.
//
//	w/grad         factor · dw
//	layer/gradnorm √(Σ dw² + Σ db²) · factor
func (c *compiler) keepResults(trained []frontend.Param, grads []kernels.Value) error {
	if !slices.ContainsFunc(c.cfg.Update.Keep, IsGradient) {
		return nil
	}
	factor, err := c.factor()
	if err != nil {
		return err
	}
	var layers []string
	for _, p := range trained {
		if owner := ir.OwnerOf(p.Name); c.cfg.Update.keeps(owner, NormSuffix) && !slices.Contains(layers, owner) {
			layers = append(layers, owner)
		}
		if !c.cfg.Update.keeps(p.Name, GradSuffix) {
			continue
		}
		dx := grads[p.Value]
		c.Label, c.Owner = p.Name+GradSuffix, ir.OwnerOf(p.Name)
		if factor != kernels.None {
			dx = c.Apply(kernels.Mul, nil, dx, c.decode(c.Spec(dx).Type, factor))
		}
		if err := c.copyResult(p.Name+GradSuffix, dx); err != nil {
			return err
		}
	}
	for _, layer := range layers {
		c.Label, c.Owner = layer+NormSuffix, layer
		if err := c.copyResult(layer+NormSuffix, c.norm(layer, trained, grads, factor)); err != nil {
			return err
		}
	}
	return nil
}

// IsGradient reports whether a name of Update.Keep may be that of a gradient.
func IsGradient(name string) bool {
	return strings.HasSuffix(name, GradSuffix) || strings.HasSuffix(name, NormSuffix)
}

// norm appends the norm of the gradients of a layer.
func (c *compiler) norm(layer string, trained []frontend.Param, grads []kernels.Value, factor kernels.Value) kernels.Value {
	var squares []kernels.Value
	for _, p := range trained {
		if ir.OwnerOf(p.Name) == layer {
			squares = append(squares, c.Apply(kernels.SumSquares, nil, grads[p.Value]))
		}
	}
	norm := c.Apply(kernels.Sqrt, nil, c.total(squares))
	if factor != kernels.None {
		norm = c.Apply(kernels.Mul, nil, norm, factor)
	}
	return norm
}

// copyResult makes a copy of v a result, unless a kept node has its name.
func (c *compiler) copyResult(name string, v kernels.Value) error {
	if _, taken := c.named[name]; taken {
		return nil
	}
	ref, err := c.Homes.Place(ir.Results, "results", name, c.Spec(v))
	if err != nil {
		return err
	}
	v = c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: c.Spec(v).Shape}, v)
	val := &c.Values[v]
	val.Name, val.Owner, val.Ref, val.Home = name, "results", ref, true
	c.Results = append(c.Results, ir.Result{Name: name, Value: v})
	c.Needed = append(c.Needed, v)
	return nil
}
