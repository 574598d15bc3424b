package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// tight returns options that leave scratch the given part of what it takes without recomputation.
func tight(t *testing.T, model trainer.ModelFunc, opt trainer.Options, part float64) trainer.Options {
	t.Helper()
	plan, err := trainer.Plan(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	scratch := plan.Category("scratch")
	opt.Memory = plan.Total - scratch + int64(part*float64(scratch))
	opt.Recompute.Auto = true
	return opt
}

// recomputed plans, and returns the instructions that compute an activation again and their part of the forward pass.
func recomputed(t *testing.T, model trainer.ModelFunc, opt trainer.Options) (total int64, n int, extra float64) {
	t.Helper()
	plan, err := trainer.Plan(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	return plan.Total, plan.Programs[0].Recomputed, plan.Programs[0].Extra
}

// A chain of 64 equal layers fits in 12 layers' worth of scratch for less than a second forward pass: segments of 10, 9, 8, … layers, of which each waits with what
// was cut off before it, and two gradients, are 12 at any time. Each is computed twice at most, and no fewer than 54 of 64 again where 10 can be kept. In fewer
// layers some are computed a third time. A layer's worth is the bytes of its result, and all of scratch counts.
func TestAChainOf64LayersFitsInTwelve(t *testing.T) {
	t.Parallel()
	const batch, width = 2048, 32
	const layer = batch * width * 4
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) { return stack(g, batch, 64, width) }
	for _, guard := range []trainer.Guard{trainer.GuardStep, trainer.GuardEach} {
		opt := trainer.Options{Batch: batch, Optimizer: optim.SGD{}, Guard: guard}
		plan, err := trainer.Plan(t.Context(), model, opt)
		if err != nil {
			t.Fatal(err)
		}
		rest := plan.Total - plan.Category("scratch")
		opt.Recompute.Auto = true
		for _, c := range []struct {
			layers int64
			extra  float64 // of the forward pass, at most
		}{{16, 0.78}, {12, 1}, {8, 1.7}, {6, 3.1}} {
			opt.Memory = rest + c.layers*layer
			total, n, extra := recomputed(t, model, opt)
			if total > opt.Memory || n == 0 || extra > c.extra {
				t.Errorf("guard %d: %.3f layers of scratch for %d instructions, %.2f of a forward pass; want %d for at most %v", guard,
					float64(total-rest)/layer, n, extra, c.layers, c.extra)
			}
			t.Logf("guard %d: %.3f layers for %.2f of a forward pass; %.3f layers without", guard, float64(total-rest)/layer, extra, float64(plan.Category("scratch"))/layer)
		}
	}
}

// Half the memory is had for little, and a quarter for less than another forward pass, of each net of the set whose activations are what its scratch is made
// of. In vgg the first convolution and its pooling alone take 22,020,096 bytes of 29,097,984; a quarter of the unet's scratch is out of reach.
func TestRecomputationHalvesScratch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		part  float64 // of scratch
		extra float64 // of the forward pass, at most
	}{
		{"resnet", 0.5, 0.3}, {"deep mlp", 0.5, 0.55}, {"transformer", 0.5, 0.4}, {"unet", 0.5, 0.3}, {"vgg", 0.8, 0.3},
		{"resnet", 0.25, 0.9}, {"deep mlp", 0.25, 0.85}, {"transformer", 0.25, 0.7}, {"rnn", 0.25, 1.2},
	} {
		for _, n := range nets.All() {
			if n.Name != c.name {
				continue
			}
			opt := tight(t, n.Model, trainer.Options{Batch: n.Batch, Optimizer: optim.SGD{}, Guard: trainer.GuardEach}, c.part)
			total, again, extra := recomputed(t, n.Model, opt)
			if total > opt.Memory || again == 0 || extra > c.extra {
				t.Errorf("%s: %d bytes of %d for %d instructions, %.2f of a forward pass, want at most %v", n.Name, total, opt.Memory, again, extra, c.extra)
			}
		}
	}
}

// A limit that cannot be met gives the least that recomputation reaches, however far off it is, and that is a limit that can be met.
func TestTheLeastThatRecomputationReachesFits(t *testing.T) {
	t.Parallel()
	for _, n := range nets.All() {
		if n.Name != "resnet" && (testing.Short() || n.Name != "transformer") {
			continue
		}
		opt := trainer.Options{Batch: n.Batch, Guard: trainer.GuardEach}
		var least int64
		for _, part := range []float64{0, 0.15} {
			opt := tight(t, n.Model, opt, part)
			total, again, _ := recomputed(t, n.Model, opt)
			if least == 0 {
				least = total
			}
			if total != least || total <= opt.Memory || again == 0 {
				t.Errorf("%s within %v of its scratch, %d bytes: %d for %d instructions, want %d", n.Name, part, opt.Memory, total, again, least)
			}
		}
		opt.Recompute.Auto, opt.Memory = true, least
		if total, _, _ := recomputed(t, n.Model, opt); total > least {
			t.Errorf("%s: the least is %d bytes, and within just these it is %d", n.Name, least, total)
		}
	}
}

// What is recomputed changes no bit, dropout and running statistics included, with ragged tails, at exactly the plan's bytes.
func TestRecomputationChangesNoBits(t *testing.T) {
	parallel(t)
	models := map[string]trainer.ModelFunc{"every layer": everyLayer, "dropped": onlyDropped,
		"classifier": classifier(4, 16, 3)}
	for _, n := range nets.Small() {
		if !testing.Short() || n.Name == "transformer" {
			models[n.Name] = n.Model
		}
	}
	each(t, func(t *testing.T, dev kernels.Device) {
		for k, name := range slices.Sorted(maps.Keys(models)) {
			model, guards := models[name], []trainer.Guard{trainer.GuardStep, trainer.GuardEach}
			if !dev.Unified() { // on the slow one a net has one guard
				guards = guards[k%2:][:1]
			}
			t.Run(name, func(t *testing.T) {
				data := samplesFor(t, name, 8*2+3)
				opt := trainer.Options{Device: dev, Batch: 8, Fields: data.Fields(), Optimizer: optim.Adam{Rate: 0.01}, Seed: 5, EvalBatch: 1}
				var want map[string]string
				for _, guard := range guards {
					opt.Guard = guard
					choices := []trainer.Options{opt, all(t, model, opt)}
					for _, part := range []float64{0.6, 0} {
						choices = append(choices, tight(t, model, opt, part))
					}
					for i, opt := range choices {
						plan, err := trainer.Plan(t.Context(), model, opt)
						if err != nil {
							t.Fatal(err)
						}
						if i == 1 && plan.Programs[0].Recomputed == 0 {
							t.Error("nothing is recomputed")
						}
						opt.Memory = max(opt.Memory, plan.Total) // where all that can be does not suffice
						tr := made(t, model, opt)
						for range 2 {
							fit(t, tr, data)
						}
						got := learned(t, tr)
						if want == nil {
							want = got
						}
						if d := differing(want, got); d != nil {
							t.Fatalf("guard %d, %+v, %d bytes: %q differ", guard, opt.Recompute, opt.Memory, d)
						}
						if err := tr.Close(); err != nil {
							t.Fatal(err)
						}
					}
				}
			})
		}
	})
}

// all returns options that recompute every layer.
func all(t *testing.T, model trainer.ModelFunc, opt trainer.Options) trainer.Options {
	t.Helper()
	plan, err := trainer.Plan(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range plan.Programs[0].Buffers {
		if b.Owner != "" && !slices.Contains(opt.Recompute.Layers, b.Owner) && !strings.HasSuffix(b.Name, "workspace") {
			opt.Recompute.Layers = append(opt.Recompute.Layers, b.Owner)
		}
	}
	return opt
}

// samplesFor draws data for a model of the test above.
func samplesFor(t *testing.T, name string, n int) (ds dataloader.Dataset) {
	for _, net := range nets.Small() {
		if net.Name == name {
			var err error
			trainer.Alone(func() { ds, err = net.Data(n, 7) })
			if err != nil {
				t.Fatal(err)
			}
			return ds
		}
	}
	if name == "every layer" {
		return samples(t, n, 2*8*8, 3)
	}
	return samples(t, n, 4, 3)
}

// Layers that are named are recomputed, and no others.
func TestNamedLayersAreRecomputed(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(g)
			x := net.Input("x", batch, 4)
			h := x
			for _, name := range []string{"a", "b", "c"} {
				h = net.Dense(h, name, 64, layers.Tanh)
			}
			return net.Classifier(x, net.Dense(h, "out", 3, nil))
		}
		ds := samples(t, 40, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 16, Fields: ds.Fields()}
		var want map[string]string
		for _, named := range [][]string{nil, {"b"}, {"a", "c"}, {"a", "b", "c"}} {
			opt.Recompute.Layers = named
			tr := made(t, model, opt)
			p := tr.Plan().Programs[0]
			if p.Recomputed != len(named) {
				t.Errorf("%q: %d instructions are recomputed", named, p.Recomputed)
			}
			for _, l := range p.Labels {
				if name, ok := strings.CutSuffix(l, " again"); ok && !strings.ContainsAny(name[:1], strings.Join(named, "")) {
					t.Errorf("%q: %q is recomputed", named, name)
				}
			}
			fit(t, tr, ds)
			if want == nil {
				want = learned(t, tr)
			}
			if d := differing(want, learned(t, tr)); d != nil {
				t.Errorf("%q: %q differ", named, d)
			}
			if err := tr.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Where nothing suffices the error has the fewest bytes that can be reached.
func TestTooLittleMemoryForRecomputationSaysHowFarItGoes(t *testing.T) {
	t.Parallel()
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) { return stack(g, batch, 16, 32) }
	opt := trainer.Options{Device: openCPU(t), Batch: 256}
	plan, err := trainer.Plan(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	opt.Recompute.Auto, opt.Memory = true, plan.Total-plan.Category("scratch")+1024
	_, err = trainer.New(t.Context(), model, opt)
	var e *trainer.CapacityError
	if !errors.As(err, &e) || e.Need >= plan.Total || e.Plan.Programs[0].Recomputed == 0 || !strings.Contains(err.Error(), "with recomputation") {
		t.Errorf("got %v, want an error about less than %d bytes", err, plan.Total)
	}
}

func TestBadRecomputationIsRefused(t *testing.T) {
	for _, r := range []trainer.Recompute{{Layers: []string{"no such layer"}}, {Auto: true, Layers: []string{"hidden"}}} {
		if _, err := trainer.New(t.Context(), small, trainer.Options{Device: openCPU(t), Batch: 8, Recompute: r}); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("%+v: got %v, want ErrOption", r, err)
		}
	}
}

func ExampleRecompute() {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) { return stack(g, batch, 32, 64) }
	opt := trainer.Options{Batch: 1024, Memory: 4 << 20, Recompute: trainer.Recompute{Auto: true}}
	plan, err := trainer.Plan(context.Background(), model, opt)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan.Total <= opt.Memory, plan.Programs[0].Extra < 1)
	// Output: true true
}
