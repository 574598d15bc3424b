package passes

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
)

// Prepack splits instructions on weights as the device wants it: the weights in the form that it
// prefers have a home in region Prepacked, and the instruction reads them there. p.Prepacked lists how
// they are made. Weights are values with a home in region Parameters; no instruction of p may change
// them. Programs that prepack a weight in the same way share its home.
//
//	%0 = parameters "conv/w"        %0 = parameters "conv/w"
//	%3 = conv %1 %0 %2       ──►    %4 = prepacked "conv/w winogradWeight"
//	                                %3 = winogradConv %1 %4 %2
func Prepack(p *ir.Program, homes *ir.Homes, d kernels.WeightPrepacker) error {
	for i := range p.Instrs {
		in := &p.Instrs[i]
		s, ok := d.Prepack(in.Op, in.Attrs, p.Specs(in.In), p.Specs(in.Out))
		if !ok {
			continue
		}
		w := p.Values[in.In[s.Operand]]
		if !w.Home || w.Ref.Region != ir.Parameters {
			continue
		}
		specs, err := s.Pack.Infer(s.PackAttrs, []kernels.Spec{w.Spec})
		if err != nil {
			return fmt.Errorf("prepack %q: %w", w.Name, err)
		}
		to := ir.Part{Owner: w.Owner, Name: w.Name + " " + s.Pack.Name, Spec: specs[0]}
		if to.Ref, err = homes.Place(ir.Prepacked, to.Owner, to.Name, to.Spec); err != nil {
			return err
		}
		in.Op, in.Attrs, in.In = s.Op, s.Attrs, slices.Clone(in.In)
		in.In[s.Operand] = p.Add(ir.Value{Name: to.Name, Owner: to.Owner, Spec: to.Spec, Ref: to.Ref, Home: true, Of: kernels.None})
		from := ir.Part{Owner: w.Owner, Name: w.Name, Spec: w.Spec, Ref: w.Ref}
		p.Prepacked = append(p.Prepacked, ir.Packing{Op: s.Pack, Attrs: s.PackAttrs, From: from, To: to})
	}
	return nil
}
