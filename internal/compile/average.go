package compile

import (
	"context"

	"github.com/evenkeel/evenkeel/internal/compile/passes"
	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// CompileAverages compiles the program that moves the averages of parameters, given by their homes.
// It runs after the program of an update, reads the same controls, and changes nothing once that
// has set the status word:
//
//	average += kernels.ControlAverage · (parameter - average)
//
// Averages have homes of the names of their parameters, where Offload.State is set in pinned host
// memory. Of cfg it reads Homes, Offload, Device, Debug and Off.
func CompileAverages(ctx context.Context, cfg Config, params []ir.Part) (*ir.Program, error) {
	cfg.Mode = Average
	c := newCompiler(cfg)
	c.Name = Average.String()
	if err := recovered(func() error { return c.averages(params) }); err != nil {
		return nil, err
	}
	passes.Offload(c.Program, []*kernels.Op{kernels.Mix}, cfg.on(Views))
	return c.Program, schedule.Run(ctx, c.Program, c.cfg.schedule())
}

// averages appends the move of each average.
func (c *compiler) averages(params []ir.Part) error {
	c.Backward = true
	guard, err := c.Status()
	if err != nil {
		return err
	}
	c.Label, c.Owner = "weight", "averages"
	weight, err := c.ControlAt(kernels.ControlAverage)
	if err != nil {
		return err
	}
	weight = c.Apply(kernels.Reshape, kernels.ReshapeAttrs{Shape: kernels.Shape{}}, weight)
	region := ir.Averages
	if c.cfg.Offload.State {
		region = ir.HostAverages
	}
	for _, p := range params {
		average, err := c.Home(region, p.Owner, p.Name, p.Spec)
		if err != nil {
			return err
		}
		param, err := c.Home(p.Ref.Region, p.Owner, p.Name, p.Spec)
		if err != nil {
			return err
		}
		c.Label, c.Owner = "average "+p.Name, p.Owner
		c.Needed = append(c.Needed, c.Apply(kernels.Mix, nil, average, param, guard, weight))
	}
	return nil
}
