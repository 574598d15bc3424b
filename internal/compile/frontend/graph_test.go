package frontend

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
)

// regression is mean((x·w + b - y)²) with x stored as bytes and y in a resident dataset.
func regression() (Model, *ir.Builder) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float32)
	x := gorgonia.NewMatrix(d.Graph, d.Type, gorgonia.WithShape(4, 3), gorgonia.WithName("x"))
	y := gorgonia.NewMatrix(d.Graph, d.Type, gorgonia.WithShape(4, 2), gorgonia.WithName("y"))
	w, b := d.In(3, 2), d.In(4, 2)
	gorgonia.WithName("dense/w")(w)
	gorgonia.WithName("dense/b")(b)
	product := d.Must(gorgonia.Mul(x, w))
	gorgonia.WithName("dense/product")(product)
	out := d.Must(gorgonia.Add(product, b))
	gorgonia.WithName("dense/out")(out)
	loss := d.Must(gorgonia.Mean(d.Must(gorgonia.Square(d.Must(gorgonia.Sub(out, y))))))
	gorgonia.WithName("loss")(loss)
	m := Model{Graph: d.Graph, Batch: 4, Loss: loss, Output: out, Keep: gorgonia.Nodes{product}, Inputs: map[*gorgonia.Node]Input{
		x: {Field: "image", Spec: kernels.Spec{Type: arena.Uint8, Shape: kernels.Shape{4, 3}}, Scale: 1. / 255},
		y: {Field: "target", Spec: kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{4, 2}}, Resident: "train", Samples: 10},
	}}
	return m, ir.NewBuilder(&ir.Program{}, &ir.Homes{})
}

// homes returns the homes of a region by name.
func homes(b *ir.Builder, r arena.Region) (names []string) {
	for _, p := range b.Homes.Parts(r) {
		names = append(names, p.Name)
	}
	return names
}

func TestForwardLowersTheLossAndGivesInputsAndParametersHomes(t *testing.T) {
	m, b := regression()
	m.Frozen = func(name string) bool { return name == "dense/b" }
	f, err := New(b, m, Options{Training: true, Offloaded: func(name string, _ kernels.Spec) bool { return name == "dense/w" }}).Forward()
	if err != nil {
		t.Fatal(err)
	}
	for r, want := range map[arena.Region]string{
		ir.Slot: "image index", ir.Resident: "train/target", ir.Parameters: "dense/b", ir.HostParameters: "dense/w",
	} {
		if got := strings.Join(homes(b, r), " "); got != want {
			t.Errorf("region %d has %s, want %s", r, got, want)
		}
	}
	var ops []string
	for _, in := range b.Instrs {
		ops = append(ops, in.Op.Name)
	}
	if got, want := strings.Join(ops, " "), "decode gather matmul add sub square mean"; got != want {
		t.Errorf("got %s, want %s\n%s", got, want, b.Program)
	}
	if last := b.Instrs[len(b.Instrs)-1]; f.Loss != last.Out[0] || last.Label != "loss" {
		t.Errorf("the loss is value %d of\n%s", f.Loss, b.Program)
	}
	if product := b.Values[f.Kept[0].Value]; f.Kept[0].Name != "dense/product" || product.Owner != "dense" {
		t.Errorf("kept %+v, a value of layer %q", f.Kept, product.Owner)
	}
	if f.Output != kernels.None || f.Correct != kernels.None {
		t.Errorf("training reads the output, value %d, or the correct rows, value %d", f.Output, f.Correct)
	}
	if len(f.Params) != 2 {
		t.Fatalf("parameters %+v, want the weights and the bias", f.Params)
	}
	for _, p := range f.Params {
		if p.Frozen != (p.Name == "dense/b") || b.Values[p.Value].Name != p.Name {
			t.Errorf("%q, a value called %q, is frozen: %v", p.Name, b.Values[p.Value].Name, p.Frozen)
		}
	}
}

func TestPredictionLowersTheOutputAlone(t *testing.T) {
	m, b := regression()
	m.Keep = nil
	f, err := New(b, m, Options{Predict: true}).Forward()
	if err != nil {
		t.Fatal(err)
	}
	last := b.Instrs[len(b.Instrs)-1]
	if f.Loss != kernels.None || last.Label != "dense/out" || f.Output != last.Out[0] || len(b.Instrs) != 3 {
		t.Errorf("loss %d, output %d of\n%s", f.Loss, f.Output, b.Program)
	}
	if slices.Contains(homes(b, ir.Resident), "train/target") {
		t.Error("prediction reads the target")
	}
}

func TestCheckReachedNamesTrainableParametersWithoutAGradient(t *testing.T) {
	m, b := regression()
	g := New(b, m, Options{Training: true})
	f, err := g.Forward()
	if err != nil {
		t.Fatal(err)
	}
	grads := make([]kernels.Value, len(b.Values))
	for i := range grads {
		grads[i] = kernels.None
	}
	for _, p := range f.Params {
		if p.Name == "dense/w" {
			grads[p.Value] = f.Loss
		}
	}
	var u *UnreachedError
	if err := g.CheckReached(grads); !errors.As(err, &u) || u.Loss != "loss" || !slices.Equal(u.Params, []string{"dense/b"}) {
		t.Errorf("got %v, want an UnreachedError of dense/b", err)
	}
	g.Frozen = func(name string) bool { return name == "dense/b" }
	if err := g.CheckReached(grads); err != nil {
		t.Errorf("with dense/b frozen: %v", err)
	}
}

func TestAViewLinksGradientsAndWhatIsComputedFromThem(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	x, w := d.In(3), d.In(3)
	gorgonia.WithName("same")(x)
	gorgonia.WithName("same")(w)
	loss := d.Must(gorgonia.Sum(d.Must(gorgonia.HadamardProd(x, w))))
	dw, err := gorgonia.Grad(loss, w)
	if err != nil {
		t.Fatal(err)
	}
	norm := d.Must(gorgonia.Sum(d.Must(gorgonia.Square(dw[0]))))
	var into gorgonia.Value
	gorgonia.Read(norm, &into)
	b := ir.NewBuilder(&ir.Program{}, &ir.Homes{})
	v, err := New(b, Model{Graph: d.Graph}, Options{Training: true, Machine: true}).LowerMachine()
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Losses) != 1 || len(v.Losses[0].Wanted) != 1 || v.Losses[0].Wanted[0].Name != "same" || len(b.Instrs) != 2 {
		t.Fatalf("losses %+v after\n%s", v.Losses, b.Program)
	}
	grad := b.Apply(kernels.Fill, kernels.FillAttrs{Type: arena.Float64, Shape: kernels.Shape{3}, Value: 2})
	v.SetGrad(v.Losses[0].Wanted[0], grad, grad)
	outputs, err := v.LowerOutputs()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outputs {
		b.Results = append(b.Results, ir.Result{Name: o.Name, Value: o.Value})
	}
	if square := b.Instrs[3]; square.Op != kernels.Square || square.In[0] != grad {
		t.Errorf("the gradient, value %d, is not squared:\n%s", grad, b.Program)
	}
	links := v.Links()
	if len(links.Grads) != 1 || links.Grads[0].Node != w || links.Grads[0].Accumulate {
		t.Errorf("gradients %+v, want one of w", links.Grads)
	}
	if len(links.Reads) != 1 || links.Reads[0].Into != &into || links.Outputs[links.Reads[0].Output].Node != norm {
		t.Errorf("reads %+v of outputs %+v, want one of the norm", links.Reads, links.Outputs)
	}
	if got := homes(b, ir.Parameters); !slices.Equal(got, []string{"same", "same#2"}) || len(links.Inputs) != 2 {
		t.Errorf("parameters %v and %d inputs, want one for each node", got, len(links.Inputs))
	}
}

func TestAModelThatAssignsIsRefused(t *testing.T) {
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 2)), tensor.Float64)
	w := d.In(3)
	loss := d.Must(gorgonia.Sum(d.Must(gorgonia.Square(w))))
	gorgonia.Set(w, d.Must(gorgonia.Neg(w)))
	_, err := New(ir.NewBuilder(&ir.Program{}, &ir.Homes{}), Model{Graph: d.Graph, Loss: loss}, Options{Training: true}).Forward()
	if !errors.Is(err, kernels.ErrUnsupported) || !strings.Contains(err.Error(), w.Name()) {
		t.Errorf("got %v, want ErrUnsupported about %s", err, w.Name())
	}
}
