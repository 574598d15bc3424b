package main

import (
	"context"
	"fmt"
	"io"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// offloaded prints a row for each net, trained with Adam: the bytes of the arena without offload; then, for each kind of offload, the bytes of
// the arena and their share, the bytes that cross the bus in a step, and the extra time of a step by the cost model.
func offloaded(all []planned, out io.Writer) error {
	w := columns(out)
	fmt.Fprint(w, "net\tarena")
	ways := []trainer.Offload{{State: true}, {State: true, Parameters: true}}
	for _, o := range ways {
		fmt.Fprintf(w, "\t%v\tshare\tbus\ttime", o)
	}
	fmt.Fprintln(w)
	for _, n := range all {
		opt := n.whole.opt
		opt.Optimizer = optim.Adam{}
		whole, err := trainer.Plan(context.Background(), n.net.Model, opt)
		if err != nil {
			return fmt.Errorf("%s: %w", n.net.Name, err)
		}
		fmt.Fprintf(w, "%s\t%d", n.net.Name, whole.Total)
		for _, o := range ways {
			opt.Offload = o
			p, err := trainer.Plan(context.Background(), n.net.Model, opt)
			if err != nil {
				return fmt.Errorf("%s without %v in the arena: %w", n.net.Name, o, err)
			}
			step, before := p.Programs[0], whole.Programs[0]
			fmt.Fprintf(w, "\t%d\t%.1f %%\t%d\t%+.0f %%", p.Total, 100*float64(p.Total)/float64(whole.Total), step.Bus.Prefetches+step.Bus.Writebacks,
				100*(float64(step.Time)/float64(before.Time)-1))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
