package compile

import (
	"github.com/evenkeel/evenkeel/internal/compile/passes"
	"github.com/evenkeel/evenkeel/internal/ir"
)

// Forward lowers the prediction of the model of cfg, and nothing else: no pass rewrites the
// program, and it is neither ordered nor placed. Its instructions follow the graph node by node, so
// that it can be written in another format. Its results are the output, called OutputName, and the
// model's other outputs.
func Forward(cfg Config) (*ir.Program, error) {
	cfg.Mode = Predict
	c := newCompiler(cfg)
	err := recovered(func() (err error) {
		if c.forward, err = c.graph.Forward(); err != nil {
			return err
		}
		c.Results = append([]ir.Result{{Name: OutputName, Value: c.forward.Output}}, c.forward.Outputs...)
		for _, r := range c.Results {
			c.Needed = append(c.Needed, r.Value)
		}
		passes.Prune(c.Program)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.Program, nil
}
