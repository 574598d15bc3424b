package compile

import (
	"context"

	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/internal/ir"
)

// CompilePrepacking compiles the program that computes prepacked weights: the ir.Program.Prepacked of
// all programs of a model, each home once. It runs whenever the weights have changed. Of cfg it reads
// Homes, Device, Debug and Off.
func CompilePrepacking(ctx context.Context, cfg Config, all []ir.Packing) (*ir.Program, error) {
	cfg.Mode = Prepack
	c := newCompiler(cfg)
	c.Name = Prepack.String()
	if err := recovered(func() error { return c.prepack(all) }); err != nil {
		return nil, err
	}
	return c.Program, schedule.Run(ctx, c.Program, c.cfg.schedule())
}

// prepack appends the packing of each weight.
func (c *compiler) prepack(all []ir.Packing) error {
	for _, p := range all {
		w, err := c.Home(p.From.Ref.Region, p.From.Owner, p.From.Name, p.From.Spec)
		if err != nil {
			return err
		}
		c.Label, c.Owner = "prepack "+p.From.Name, p.To.Owner
		v, err := c.assignHome(ir.Prepacked, p.To.Owner, p.To.Name, c.Apply(p.Op, p.Attrs, w))
		if err != nil {
			return err
		}
		c.Needed = append(c.Needed, v)
	}
	return nil
}
