package trainer_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

var mixes = flag.Int("mixes", seed.Cases(10, 20), "how many random mixes of nets and options are tried; 200 take some minutes")

// mix is a net, data for it, and options that do not go together on purpose.
type mix struct {
	net      string
	loop     bool // some epochs are trained by Steps
	model    trainer.ModelFunc
	data     dataloader.Dataset
	steps    int // of an epoch
	resident bool
	opt      trainer.Options
}

// String describes the mix, for the message of a failure.
func (m mix) String() string {
	o := m.opt
	return fmt.Sprintf("%s, %d samples, resident %v, loop %v, batch %d/%d, accumulate %d, %T, clip %v, norm %v, loss scale %d, guard %d, recompute %v, offload %v, precision %v but for %q, frozen %q, keep %q, average %+v, tail %d, memory %d, shared %v, objectives %+v, groups %+v",
		m.net, m.data.Len(), m.resident, m.loop, o.Batch, o.EvalBatch, o.Accumulate, o.Optimizer, o.Clip, o.GradientNorm, o.LossScale.Mode, o.Guard, o.Recompute, o.Offload, o.Precision, o.KeepFloat32, o.Frozen, o.Keep, o.Average, o.Tail, o.Memory, o.Shard, o.Objectives, o.Groups)
}

// mixNets are what mixes are made of, and which of them have batch normalization: a step of one sample is refused there.
func mixNets() (names []string, models map[string]trainer.ModelFunc, normalized map[string]bool) {
	models = map[string]trainer.ModelFunc{"every layer": everyLayer, "dropped": onlyDropped, "normed": normed, "perceptron": classifier(4, 16, 3),
		"weighted": weighedByData, "composed": composed, "measured": measured, "rivals": rivals}
	names = []string{"every layer", "dropped", "normed", "perceptron", "weighted", "composed", "measured", "rivals"}
	for _, n := range nets.Small() {
		if testing.Short() && (n.Name == "vgg" || n.Name == "rnn") { // the slowest
			continue
		}
		models[n.Name] = n.Model
		names = append(names, n.Name)
	}
	return names, models, map[string]bool{"every layer": true, "normed": true, "composed": true, "resnet": true, "rivals": true}
}

// randomMix draws a net of those that are named, and all but the device and what is recomputed.
func randomMix(t *testing.T, r *rand.Rand, names []string) mix {
	_, models, normalized := mixNets()
	m := mix{net: names[r.IntN(len(names))], steps: 4 + r.IntN(4), resident: r.IntN(2) == 0}
	m.model = models[m.net]
	m.opt = trainer.Options{Batch: 2 + r.IntN(6), EvalBatch: r.IntN(10), Accumulate: r.IntN(6), Seed: r.Uint64(),
		Optimizer: optimizers()[r.IntN(len(optimizers()))].Optimizer, Guard: trainer.Guard(r.IntN(2)),
		Clip:     []optim.Clip{{}, {Value: 0.1}, {Norm: 1}, {Value: 0.1, Norm: 1}}[r.IntN(4)],
		Schedule: []optim.Schedule{nil, optim.Step{Every: 3, Factor: 0.5}, optim.Warmup{Steps: 5, Then: optim.Cosine{Steps: 50}}}[r.IntN(3)],
		Tail:     dataloader.Tail(r.IntN(2)), Sequential: r.IntN(2) == 0, Workers: r.IntN(3),
		TrainMetrics: r.IntN(2) == 0, LossScale: optim.Scaling{Mode: optim.ScalingMode(r.IntN(3))}, Precision: []arena.DType{0, arena.Float32, arena.BFloat16, arena.Float16}[r.IntN(4)]}
	if r.IntN(2) == 0 {
		m.opt.Average = averages[r.IntN(len(averages))]
	}
	m.opt.Checkpoint = r.IntN(2) == 0
	if m.opt.Guard == trainer.GuardStep {
		m.opt.SkipNonFinite = r.IntN(3)
	}
	if m.net == "rivals" {
		m.opt.Objectives = randomObjectives(r)
	}
	tail := r.IntN(m.opt.Batch)
	if tail == 1 && normalized[m.net] && m.opt.Tail == dataloader.KeepTail {
		tail = 0
	}
	if tail > 0 && m.opt.Tail == dataloader.KeepTail {
		m.data = samplesFor(t, m.net, (m.steps-1)*m.opt.Batch+tail)
	} else {
		m.data = samplesFor(t, m.net, m.steps*m.opt.Batch+tail)
	}
	model := m.build(t)
	if r.IntN(3) == 0 { // all but one at most
		for _, i := range r.Perm(len(model.Params))[:r.IntN(len(model.Params))] {
			m.opt.Frozen = append(m.opt.Frozen, model.Params[i].Node.Name())
		}
	}
	if r.IntN(3) == 0 {
		m.opt.Groups = randomGroups(r, model.Params)
	}
	if m.opt.Precision.Half() && r.IntN(2) == 0 {
		m.opt.KeepFloat32 = []string{layerOf(model.Params[r.IntN(len(model.Params))].Node.Name())}
	}
	if r.IntN(3) == 0 && model.Output.Name() != "" {
		m.opt.Keep = []string{model.Output.Name()}
	}
	switch r.IntN(4) {
	case 0:
		m.opt.Keep = append(m.opt.Keep, "*/grad", "*/gradnorm")
	case 1:
		m.opt.Keep = append(m.opt.Keep, "*/gradnorm")
	}
	if m.resident {
		m.opt.Resident = []dataloader.Dataset{m.data}
	} else {
		m.opt.Fields = m.data.(interface{ Fields() []dataloader.Field }).Fields()
	}
	return m
}

// rivals are two classifiers over a trunk that both train, with dropout and batch normalization. The second has weights.
func rivals(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) { return twoHeads(g, batch, 0.2) }

// undropped is rivals without dropout.
func undropped(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) { return twoHeads(g, batch, 0) }

// twoHeads is rivals with a rate of dropout.
func twoHeads(g *gorgonia.ExprGraph, batch int, rate float64) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 4)
	trunk := net.Dropout(net.BatchNorm(net.Dense(x, "trunk", 12, nil), "norm", layers.Tanh), "drop", rate)
	y, first, second := net.Labels("y", batch), net.Dense(trunk, "a/out", 3, nil), net.Dense(net.Dense(trunk, "b/hidden", 300, layers.ReLU), "b/out", 3, nil)
	weight := net.Max(layers.ReLU(net, x, "positive"), "weight", layers.Reduce{Axes: []int{1}})
	return trainer.Model{
		Inputs: net.Inputs(), Output: first, Correct: net.Correct(first, y, "correct"), Params: net.Params(), Statistics: net.Statistics(),
		Objectives: []layers.Objective{
			{Name: "a", Loss: net.Mean(net.CrossEntropy(first, y, "a/rows"), "a/loss", layers.Reduce{}), Params: []string{"trunk", "norm/*", "a/"}},
			{Name: "b", Loss: net.CrossEntropy(second, y, "b/loss"), Weight: weight, Params: []string{"trunk", "b/"}},
		},
	}, net.Err()
}

// randomObjectives draws options for the objectives of rivals.
func randomObjectives(r *rand.Rand) (all []trainer.Objective) {
	draw := func() optim.Optimizer { return optimizers()[r.IntN(len(optimizers()))].Optimizer }
	if r.IntN(2) == 0 {
		all = append(all, trainer.Objective{Name: "a", Optimizer: draw(), Schedule: optim.Step{Every: 2, Factor: 0.5}})
	}
	if r.IntN(2) == 0 {
		all = append(all, trainer.Objective{Name: "b", Optimizer: draw(), Clip: optim.Clip{Norm: 0.5}, Every: r.IntN(4)})
	}
	return all
}

// randomGroups draws groups of parameters.
func randomGroups(r *rand.Rand, params []layers.Param) (groups []trainer.Group) {
	name := func() string { return params[r.IntN(len(params))].Node.Name() }
	if slices.ContainsFunc(params, func(p layers.Param) bool { return p.Node.Dims() == 1 }) && r.IntN(2) == 0 {
		groups = append(groups, trainer.Group{Match: trainer.BiasesAndNorms, NoDecay: true, RateFactor: []float64{0, 0.5, 2}[r.IntN(3)]})
	}
	for range r.IntN(3) {
		groups = append(groups, trainer.Group{Match: []string{name(), name()}, Optimizer: optimizers()[r.IntN(len(optimizers()))].Optimizer})
	}
	return append(groups, trainer.Group{Match: []string{name()}, RateFactor: 0.25})
}

// build returns the model in a graph of its own.
func (m mix) build(t *testing.T) (model trainer.Model) {
	t.Helper()
	var err error
	trainer.Alone(func() { model, err = m.model(gorgonia.NewGraph(), m.opt.Batch) })
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// randomOffload draws what is kept in host memory.
func randomOffload(t *testing.T, r *rand.Rand, m mix) trainer.Offload {
	o := trainer.Offload{State: r.IntN(2) == 0, Parameters: r.IntN(3) == 0}
	if o.Parameters {
		return o
	}
	for _, p := range m.build(t).Params {
		if p.Node.Dims() > 1 && r.IntN(2) == 0 {
			o.Layers = append(o.Layers, layerOf(p.Node.Name()))
		}
	}
	return o
}

// layerOf returns the layer of a parameter.
func layerOf(name string) string { return name[:strings.LastIndexByte(name, '/')] }

// again is what a mix computes again for the backward pass: a share of its layers in an order that is drawn, or what memory leaves to the planner.
type again struct {
	auto  bool
	share float64
	seed  uint64
}

// options returns opt with it.
func (a again) options(t *testing.T, m mix, opt trainer.Options) trainer.Options {
	t.Helper()
	if a.auto {
		return tight(t, m.model, opt, (1+a.share)/2)
	}
	opt = all(t, m.model, opt)
	layers := opt.Recompute.Layers
	rand.New(rand.NewPCG(a.seed, 0)).Shuffle(len(layers), func(i, j int) { layers[i], layers[j] = layers[j], layers[i] })
	opt.Recompute.Layers = layers[:int(math.Ceil(a.share*float64(len(layers))))]
	return opt
}

// exactly returns opt with the plan's bytes as its memory.
func exactly(t *testing.T, m mix, opt trainer.Options) trainer.Options {
	t.Helper()
	plan, err := trainer.Plan(t.Context(), m.model, opt)
	if err != nil {
		t.Fatalf("%v: %v", m, err)
	}
	opt.Memory = plan.Total
	return opt
}

// train trains a mix for 20 steps and more in exactly the bytes of its plan, and returns what it has learned.
func (m mix) train(t *testing.T) map[string]string {
	t.Helper()
	opt := m.opt
	var tr *trainer.Trainer
	var want int64
	var first, last runtime.MemStats
	norms := make(map[string]float64)
	opt.Progress = func(p trainer.Progress) {
		switch { // Stats make a heap object: either bytes are looked at, or objects
		case p.Epoch%2 == 0:
			if got := inUse(tr); got != want {
				t.Errorf("%v: %d bytes in use after step %d of epoch %d, %d before the first", m, got, p.Step, p.Epoch, want)
			}
			readNorms(t, tr, norms)
		case p.Step == 2:
			runtime.ReadMemStats(&first)
		case p.Step == p.Steps:
			runtime.ReadMemStats(&last)
		}
	}
	tr = made(t, m.model, opt)
	if got := tr.Plan().Total; got > opt.Memory || got < opt.Memory && !opt.Recompute.Auto { // which in less memory may find a smaller plan
		t.Errorf("%v: the trainer's plan is %d bytes", m, got)
	}
	want = inUse(tr)
	best, epochs := uint64(1<<62), (20+m.steps-1)/m.steps // the runtime's own goroutines allocate now and then
	if opt.Device.Unified() {                             // heap objects are counted
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
		epochs = max(6, epochs)
	}
	for epoch := range epochs {
		m.epoch(t, tr, epoch)
		if epoch%2 == 1 {
			best = min(best, last.Mallocs-first.Mallocs)
		}
	}
	// An object or two are the runtime's own, on a busy machine; TestStepsAllocateNothing has the limit of 0.
	if opt.Device.Unified() && !cputest.Race && best >= uint64(m.steps-2) {
		t.Errorf("%v: %d heap objects in %d steps, want less than one a step", m, best, m.steps-2)
	}
	evaluate(t, tr, m.data)
	got := learned(t, tr)
	for name, x := range norms {
		got[name] = fmt.Sprint(x)
	}
	if m.opt.Average.On() {
		if _, err := tr.Averaged().Evaluate(t.Context(), m.data); err != nil {
			t.Errorf("%v: evaluation with averages: %v", m, err)
		}
		for name, v := range learnedFrom(t, tr.Averaged().Params) {
			got["average of "+name] = v
		}
	}
	m.serve(t, tr)
	if err := tr.Close(); err != nil {
		t.Errorf("%v: close: %v", m, err)
	}
	return got
}

// serve loads a predictor from the trainer and from its averages: a full batch must have the bits of the trainer's.
func (m mix) serve(t *testing.T, tr *trainer.Trainer) {
	t.Helper()
	rows, o := m.opt.EvalBatch, m.opt
	if rows == 0 {
		rows = o.Batch
	}
	if rows > m.data.Len() {
		return
	}
	opt := trainer.PredictorOptions{Device: o.Device, Batch: rows, Sizes: []int{rows}, Fields: m.data.Fields(), Precision: o.Precision, KeepFloat32: o.KeepFloat32}
	plan, err := trainer.PlanPredictor(t.Context(), m.model, opt)
	if err != nil {
		t.Fatalf("%v: plan of a predictor: %v", m, err)
	}
	opt.Memory = plan.Total
	p, err := trainer.NewPredictor(t.Context(), m.model, opt)
	if err != nil {
		t.Fatalf("%v: a predictor: %v", m, err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Errorf("%v: close of a predictor: %v", m, err)
		}
	}()
	inputs := rowsFor(t, p, m.data, rows)
	elems := rows * p.Outputs()[0].Spec.Shape.Elems()
	if err := p.Load(t.Context(), tr); err != nil {
		t.Fatalf("%v: load: %v", m, err)
	}
	equalTo(t, fmt.Sprint(m, ": a predictor"), predict(t, p, rows, inputs...), outputs(t, tr, m.data)[:elems])
	if o.Average.On() {
		if err := p.LoadAveraged(t.Context(), tr.Averaged()); err != nil {
			t.Fatalf("%v: load averages: %v", m, err)
		}
		equalTo(t, fmt.Sprint(m, ": a predictor of averages"), predict(t, p, rows, inputs...), averagedOutputs(t, tr, m.data)[:elems])
	}
}

// rowsFor returns the first rows of a dataset as the arguments of Predict.
func rowsFor(t *testing.T, p *trainer.Predictor, ds dataloader.Dataset, rows int) (inputs []any) {
	t.Helper()
	for _, in := range p.Inputs() {
		k := slices.IndexFunc(ds.Fields(), func(f dataloader.Field) bool { return f.Name == in.Name })
		all := make([]byte, 0, int64(rows)*ds.Fields()[k].Bytes())
		for i := range rows {
			var row [][]byte
			for _, f := range ds.Fields() {
				row = append(row, make([]byte, f.Bytes()))
			}
			if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, row); err != nil {
				t.Fatal(err)
			}
			all = append(all, row[k]...)
		}
		switch in.Spec.Type {
		case arena.Float32:
			inputs = append(inputs, dataloader.View[float32](all))
		case arena.Float64:
			inputs = append(inputs, dataloader.View[float64](all))
		case arena.Uint8:
			inputs = append(inputs, all)
		case arena.Int32:
			inputs = append(inputs, dataloader.View[int32](all))
		default:
			t.Fatalf("%s is of type %v", in.Name, in.Spec.Type)
		}
	}
	return inputs
}

// epoch trains an epoch. Two of three are loops over Steps if m.loop is set; the even ones evaluate in some bodies.
func (m mix) epoch(t *testing.T, tr *trainer.Trainer, epoch int) {
	t.Helper()
	if !m.loop || epoch%3 == 0 {
		fit(t, tr, m.data)
		return
	}
	for s, err := range tr.Steps(t.Context(), m.data) {
		if err != nil {
			t.Fatalf("%v: step %d: %v", m, s.Step, err)
		}
		if epoch%2 == 0 && s.Step%3 == 2 {
			evaluate(t, tr, m.data)
		}
	}
}

// readNorms reads the norms of gradients that the last step has left.
func readNorms(t *testing.T, tr *trainer.Trainer, norms map[string]float64) {
	t.Helper()
	for _, name := range tr.KeptNames() {
		if !strings.HasSuffix(name, "/gradnorm") {
			continue
		}
		var x [1]float64
		switch err := tr.Read64(name, x[:]); {
		case err == nil:
			norms[name] = x[0]
		case !errors.Is(err, arena.ErrStale): // a step without an update
			t.Errorf("%s: %v", name, err)
		}
	}
}

// refused checks that a byte less is refused; what the planner recomputes may fit there too.
func (m mix) refused(t *testing.T) {
	t.Helper()
	opt := m.opt
	opt.Memory--
	tr, err := trainer.New(t.Context(), m.model, opt)
	var e *trainer.CapacityError
	switch {
	case err == nil:
		if total := tr.Plan().Total; total > opt.Memory || !opt.Recompute.Auto {
			t.Errorf("%v: a plan of %d bytes was not refused at %d", m, total, opt.Memory)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	case !errors.As(err, &e) || !opt.Recompute.Auto && e.Need != opt.Memory+1:
		t.Errorf("%v: a byte less: got %v, want a CapacityError", m, err)
	}
}

// Options that are drawn train in exactly the bytes of their plan, which stay the same after every step and make no heap objects; a byte less is refused;
// and whatever is recomputed or offloaded, and a loop over Steps, changes no bit of what is learned.
func TestRandomMixesTrainInTheirPlans(t *testing.T) {
	names, _, _ := mixNets()
	randomMixes(t, names, func(name string) bool { return name == "cpu" })
}

// The same, of models with several objectives.
func TestObjectivesTrainInTheirPlans(t *testing.T) {
	randomMixes(t, []string{"rivals"}, func(string) bool { return true })
}

// The same mixes on the devices that make heap objects of their own, which nobody counts: in parallel with other tests.
func TestRandomMixesTrainOnOtherDevices(t *testing.T) {
	parallel(t)
	names, _, _ := mixNets()
	randomMixes(t, names, func(name string) bool { return name != "cpu" })
}

// randomMixes tries mixes of the nets that are named on the devices for which on holds.
func randomMixes(t *testing.T, names []string, on func(name string) bool) {
	n := *mixes
	if testing.Short() {
		n = min(n, 6)
	}
	r := random(t)
	for i := range n {
		m := randomMix(t, r, names)
		a, offload := again{r.IntN(2) == 0, r.Float64(), r.Uint64()}, randomOffload(t, r, m)
		for _, d := range targets {
			if on(d.name) {
				t.Run(fmt.Sprint(i, " ", m.net, "/", d.name), func(t *testing.T) { m.check(t, i, d.open(t, 0), a, offload) })
			}
		}
	}
}

// check trains mix i on a device as it is, and with recomputation and, where there is host memory, offload, by loops over Steps, with the norm of the gradients.
func (m mix) check(t *testing.T, i int, dev kernels.Device, a again, offload trainer.Offload) {
	plain, other := m, m
	plain.opt.Device, other.opt.Device = dev, dev
	other.loop, other.opt.GradientNorm = true, a.seed%2 == 0
	if !dev.Unified() {
		other.opt.Offload = offload
	}
	plain.opt, other.opt = exactly(t, m, plain.opt), exactly(t, m, a.options(t, m, other.opt))
	want, got := plain.train(t), other.train(t)
	if d := differing(want, got); len(d) > 0 || len(want) != len(got) {
		t.Errorf("%v: %q differ from those of Fit without recomputation and offload", other, d)
	}
	switch { // a refusal is an exploration
	case dev.Unified() && i%6 == 0:
		plain.refused(t)
	case dev.Unified() && i%6 == 3:
		other.refused(t)
	}
}
