package compile

import (
	"context"
	"fmt"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

func TestDump(t *testing.T) {
	g := gorgonia.NewGraph()
	net := layers.On(g)
	x := net.Input("x", 128, 784)
	h := net.Dense(x, "h1", 512, layers.ReLU)
	h = net.Dense(h, "h2", 256, layers.ReLU)
	m, _ := net.Classifier(x, net.Dense(h, "out", 10, nil))
	cfg := Config{Mode: Train, Batch: 128, Loss: m.Loss, Output: m.Output, Correct: m.Correct, Homes: &ir.Homes{}, Device: cpu.Open(),
		Inputs: map[*gorgonia.Node]Input{}, Params: map[*gorgonia.Node]bool{}}
	cfg.Inputs[m.Inputs[0]] = Input{Field: "x", Spec: kernels.Spec{Type: arena.Uint8, Shape: kernels.Shape{128, 784}}, Scale: 1.0 / 255}
	cfg.Inputs[m.Inputs[1]] = Input{Field: "y", Spec: kernels.Spec{Type: arena.Uint8, Shape: kernels.Shape{128}}}
	for _, p := range m.Params {
		cfg.Params[p.Node] = true
	}
	o := optim.Adam{}
	cfg.Update = Update{Op: o.Op(), Attrs: o.Attrs(optim.Clip{}), States: o.States()}
	p, err := Compile(context.Background(), g, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, in := range p.Instrs {
		fmt.Printf("%3d %-22s %-24s work %d ", i, in.Op.Name, in.Label, in.Work.Size)
		for _, v := range in.In {
			fmt.Printf(" %s%v@%d", p.Values[v].Name, p.Values[v].Spec.Shape, p.Values[v].Ref.Offset)
		}
		fmt.Print(" ->")
		for _, v := range in.Out {
			fmt.Printf(" %v home=%v of=%d @%d", p.Values[v].Spec, p.Values[v].Home, p.Values[v].Of, p.Values[v].Ref.Offset)
		}
		if in.Op == kernels.Chain {
			for _, s := range in.Attrs.(*kernels.ChainAttrs).Steps {
				fmt.Print(" ", s.Op.Name)
			}
		}
		fmt.Println()
	}
	fmt.Println(p.Plan.Bytes, p.Plan.Live, p.Plan.LiveAt)
}
