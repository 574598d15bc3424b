package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

func xor(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 2)
	h := net.Dense(x, "hidden", 16, layers.Tanh)
	return net.Classifier(x, net.Dense(h, "out", 2, nil))
}

// xorData are the four samples of xor.
func xorData() *dataloader.Slices {
	data, err := dataloader.FromSlices(4,
		dataloader.Column("x", []float32{0, 0, 0, 1, 1, 0, 1, 1}, 2),
		dataloader.Column("y", []uint8{0, 1, 1, 0}))
	if err != nil {
		log.Fatal(err)
	}
	return data
}

// A whole program: two bits in, their exclusive or as the class.
func Example() {
	ctx, data := context.Background(), xorData()
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	t, err := trainer.New(ctx, xor, trainer.Options{
		Device: device, Batch: 4, Optimizer: optim.Adam{Rate: 0.05}, Memory: 64 << 10, Fields: data.Fields(),
	})
	if err != nil {
		log.Fatal(err) // names the missing bytes, and the batch that would fit
	}
	defer t.Close()
	for range 200 {
		if _, err := t.Fit(ctx, data); err != nil { // one epoch
			log.Fatal(err)
		}
	}
	result, err := t.Evaluate(ctx, data)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("accuracy %.0f %%, arena within 12 KiB: %t\n", 100*result.Accuracy, t.Stats().Arena.Reserved <= 12<<10)
	// Output: accuracy 100 %, arena within 12 KiB: true
}

// trainXOR returns a trainer of xor that has learned it. The caller closes both.
func trainXOR(opt trainer.Options) (*trainer.Trainer, *cpu.Device) {
	ctx, data := context.Background(), xorData()
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	opt.Device, opt.Batch, opt.Optimizer, opt.Fields = device, 4, optim.Adam{Rate: 0.05}, data.Fields()
	t, err := trainer.New(ctx, xor, opt)
	if err != nil {
		log.Fatal(err)
	}
	for range 200 {
		if _, err := t.Fit(ctx, data); err != nil {
			log.Fatal(err)
		}
	}
	return t, device
}

// Predict yields one row of the model's output for each sample; labels are not needed.
func ExampleTrainer_Predict() {
	t, device := trainXOR(trainer.Options{})
	defer device.Close()
	defer t.Close()
	bits, err := dataloader.FromSlices(2, dataloader.Column("x", []float32{1, 0, 1, 1}, 2))
	if err != nil {
		log.Fatal(err)
	}
	for p, err := range t.Predict(context.Background(), bits) {
		if err != nil {
			log.Fatal(err)
		}
		class := 0
		if p.Output[1] > p.Output[0] {
			class = 1
		}
		fmt.Printf("sample %d: %d\n", p.Sample, class)
	}
	// Output:
	// sample 0: 1
	// sample 1: 0
}

// A loop of your own: it measures after every 20 steps, and stops when all four samples are right.
func ExampleTrainer_Steps() {
	ctx, data := context.Background(), xorData()
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	t, err := trainer.New(ctx, xor, trainer.Options{Device: device, Batch: 2, Optimizer: optim.Adam{Rate: 0.05},
		Fields: data.Fields(), GradientNorm: true})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	for done := false; !done; {
		for step, err := range t.Steps(ctx, data) { // one epoch: two steps
			if err != nil {
				log.Fatal(err)
			}
			if step.Number == 1 {
				fmt.Printf("step 1: %d samples, rate %v, gradients: %t\n", step.Samples, step.Rate, step.Norm > 0)
			}
			if step.Number%20 != 0 {
				continue
			}
			result, err := t.Evaluate(ctx, data)
			if err != nil {
				log.Fatal(err)
			}
			if done = result.Accuracy == 1; done {
				break
			}
		}
	}
	result, err := t.Evaluate(ctx, data)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("accuracy %.0f %%\n", 100*result.Accuracy)
	// Output:
	// step 1: 2 samples, rate 0.05, gradients: true
	// accuracy 100 %
}

// Step trains on data that the program makes: here it draws two bits for each row.
func ExampleTrainer_Step() {
	ctx := context.Background()
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	t, err := trainer.New(ctx, xor, trainer.Options{Device: device, Batch: 8, Optimizer: optim.Adam{Rate: 0.05},
		Fields: xorData().Fields()})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	random := rand.New(rand.NewPCG(1, 2))
	batch := trainer.Batch{Rows: 8, Fill: func(f trainer.Fields) error {
		x, y := f.Float32("x"), f.Uint8("y") // places of 8 rows in the slot
		for i := range f.Rows() {
			a, b := random.IntN(2), random.IntN(2)
			x[2*i], x[2*i+1], y[i] = float32(a), float32(b), uint8(a^b)
		}
		return nil
	}}
	for range 300 {
		if _, err := t.Step(ctx, batch); err != nil {
			log.Fatal(err)
		}
	}
	result, err := t.Evaluate(ctx, xorData())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("accuracy %.0f %%\n", 100*result.Accuracy)
	// Output: accuracy 100 %
}

// Params returns parameters to read, to write and to save.
func ExampleTrainer_Params() {
	t, device := trainXOR(trainer.Options{Frozen: []string{"hidden"}})
	defer device.Close()
	defer t.Close()
	params, err := t.Params()
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range params {
		b := make([]byte, p.Spec.Bytes())
		if err := p.Read(b); err != nil {
			log.Fatal(err)
		}
		fmt.Println(p.Name, p.Spec, len(b), "bytes, frozen:", p.Frozen)
	}
	// Output:
	// hidden/w float32 (2, 16) 128 bytes, frozen: true
	// hidden/b float32 (16) 64 bytes, frozen: true
	// out/w float32 (16, 2) 128 bytes, frozen: false
	// out/b float32 (2) 8 bytes, frozen: false
}

// Kept gives access to values inside the graph, here after the last step of an evaluation.
func ExampleTrainer_Kept() {
	t, device := trainXOR(trainer.Options{Keep: []string{"hidden/act"}})
	defer device.Close()
	defer t.Close()
	if _, err := t.Evaluate(context.Background(), xorData()); err != nil {
		log.Fatal(err)
	}
	handle, spec, err := t.Kept("hidden/act")
	if err != nil {
		log.Fatal(err)
	}
	b := make([]byte, spec.Bytes())
	if err := handle.Read(b); err != nil {
		log.Fatal(err)
	}
	activations := dataloader.View[float32](b)
	fmt.Println(spec, "has", len(activations), "numbers")
	// Output:
	// float32 (4, 16) has 64 numbers
}

// LossScale returns how far loss scaling has come. A later trainer continues from there.
func ExampleTrainer_LossScale() {
	opt := trainer.Options{Precision: arena.Float16}
	t, device := trainXOR(opt)
	defer device.Close()
	defer t.Close()
	state := t.LossScale()
	fmt.Printf("scale %v, %d updates skipped\n", state.Scale, state.Skipped)
	opt.LossScale.State = state
	// Output:
	// scale 65536, 0 updates skipped
}

// deepNet is a perceptron with eight hidden layers of 64.
func deepNet(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 64)
	h := x
	for i := range 8 {
		h = net.Dense(h, fmt.Sprint("hidden", i+1), 64, layers.ReLU)
	}
	return net.Classifier(x, net.Dense(h, "out", 10, nil))
}

// total returns the bytes that training deepNet in batches of 1024 would need, on a device whose kernels need no workspace.
func total(opt trainer.Options) int64 {
	opt.Batch = 1024
	opt.Optimizer = optim.Adam{}
	plan, err := trainer.Plan(context.Background(), deepNet, opt)
	if err != nil {
		log.Fatal(err)
	}
	return plan.Total
}

// Plan is arithmetic: nothing is allocated.
func ExamplePlan() {
	plan, err := trainer.Plan(context.Background(), deepNet, trainer.Options{Batch: 1024, Optimizer: optim.Adam{}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("total", plan.Total)
	for _, r := range plan.Regions {
		if r.Size > 0 {
			fmt.Println(r.Name, r.Size)
		}
	}
	// Output:
	// total 3568384
	// parameters 135936
	// gradients 135936
	// optimizer state 271872
	// slot 0 270592
	// slot 1 270592
	// results 83200
	// scratch 2400256
}

func ExampleMaxBatch() {
	n, err := trainer.MaxBatch(context.Background(), deepNet, trainer.Options{Memory: 8 << 20, Optimizer: optim.Adam{}}, 4096)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("largest batch in 8 MiB:", n)
	// Output:
	// largest batch in 8 MiB: 2656
}

// Explore finds what fits, and the choice that changes least.
func ExampleExplore() {
	opt := trainer.Options{Batch: 64, Optimizer: optim.Adam{}, Memory: 10 << 10}
	plans := 0
	x, err := trainer.Explore(context.Background(), xor, opt, trainer.ExploreOptions{
		Progress: func(p trainer.ExploreProgress) { plans = p.Total },
	})
	if err != nil {
		log.Fatal(err)
	}
	best := x.Choices.Choices[x.Best]
	fmt.Println(plans, "plans; take", best.Settings, "with", best.Total, "bytes")
	opt = x.Options[x.Best] // for New
	// Output:
	// 168 plans; take [adam kept 4 × 16 none float32] with 9728 bytes
}

// A plan that does not fit is refused, with what would.
func ExampleCapacityError() {
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	_, err = trainer.New(context.Background(), xor, trainer.Options{Device: device, Batch: 1024, Memory: 64 << 10})
	var e *trainer.CapacityError
	if errors.As(err, &e) {
		fmt.Println("a smaller batch would fit:", e.Fits > 0 && e.Fits < e.Batch)
	}
	// Output: a smaller batch would fit: true
}

// Recomputation saves activations and costs time; the results keep their bits.
func ExampleOptions_recompute() {
	fmt.Println("activations kept:           ", total(trainer.Options{}))
	even := []string{"hidden2", "hidden4", "hidden6", "hidden8"}
	fmt.Println("every second computed twice:", total(trainer.Options{Recompute: trainer.Recompute{Layers: even}}))
	// Output:
	// activations kept:            3568384
	// every second computed twice: 2781952
}

// On a device with memory of its own, offloading keeps optimizer state and parameters in pinned host memory.
func ExampleOptions_offload() {
	fmt.Println("all on the device:", total(trainer.Options{}))
	fmt.Println("state on the host:", total(trainer.Options{Offload: trainer.Offload{State: true}}))
	fmt.Println("parameters too:", total(trainer.Options{Offload: trainer.Offload{State: true, Parameters: true}}))
	// Output:
	// all on the device: 3568384
	// state on the host: 3296512
	// parameters too: 3181824
}

// Four steps of 256 rows share an update: it is that of a batch of 1024, in less memory.
func ExampleOptions_accumulate() {
	whole := trainer.Options{Batch: 1024, Optimizer: optim.Adam{}}
	parts := whole
	parts.Batch, parts.Accumulate = 256, 4
	for _, opt := range []trainer.Options{whole, parts} {
		plan, err := trainer.Plan(context.Background(), deepNet, opt)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(max(1, opt.Accumulate), "steps of", opt.Batch, "need", plan.Total)
	}
	// Output:
	// 1 steps of 1024 need 3568384
	// 4 steps of 256 need 1301248
}

// Activations that wait for the backward pass take half the bytes in 16 bits.
func ExampleOptions_precision() {
	fmt.Println("float32: ", total(trainer.Options{}))
	fmt.Println("bfloat16:", total(trainer.Options{Precision: arena.BFloat16}))
	// Output:
	// float32:  3568384
	// bfloat16: 2650880
}

// GuardEach checks each gradient before its own update, and frees it afterwards.
func ExampleGuard() {
	fmt.Println("GuardStep:", total(trainer.Options{}))
	fmt.Println("GuardEach:", total(trainer.Options{Guard: trainer.GuardEach}))
	// Output:
	// GuardStep: 3568384
	// GuardEach: 3435008
}

// Progress is called after every step.
func ExampleOptions_progress() {
	data := xorData()
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	t, err := trainer.New(context.Background(), xor, trainer.Options{Device: device, Batch: 2, Fields: data.Fields(),
		Progress: func(p trainer.Progress) {
			fmt.Printf("epoch %d: step %d of %d, %d samples\n", p.Epoch, p.Step, p.Steps, p.Samples)
		}})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	if _, err := t.Fit(context.Background(), data); err != nil {
		log.Fatal(err)
	}
	// Output:
	// epoch 0: step 1 of 2, 2 samples
	// epoch 0: step 2 of 2, 4 samples
}

// A saved parameter, written to another trainer of the model.
func ExampleParam_Write() {
	saved := make(map[string][]byte)
	trained, device := trainXOR(trainer.Options{})
	defer device.Close()
	defer trained.Close()
	params, err := trained.Params()
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range params {
		saved[p.Name] = make([]byte, p.Spec.Bytes())
		if err := p.Read(saved[p.Name]); err != nil {
			log.Fatal(err)
		}
	}

	data := xorData()
	fresh, err := trainer.New(context.Background(), xor, trainer.Options{Device: device, Batch: 4, Fields: data.Fields()})
	if err != nil {
		log.Fatal(err)
	}
	defer fresh.Close()
	if params, err = fresh.Params(); err != nil {
		log.Fatal(err)
	}
	for _, p := range params {
		if err := p.Write(saved[p.Name]); err != nil {
			log.Fatal(err)
		}
	}
	result, err := fresh.Evaluate(context.Background(), data)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("accuracy %.0f %%\n", 100*result.Accuracy)
	// Output: accuracy 100 %
}

// A resident dataset is uploaded once; later epochs upload nothing.
func ExampleOptions_resident() {
	data := xorData()
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	t, err := trainer.New(context.Background(), xor, trainer.Options{
		Device: device, Batch: 2, Resident: []dataloader.Dataset{data},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	for range 3 {
		if _, err := t.Fit(context.Background(), data); err != nil {
			log.Fatal(err)
		}
		fmt.Println(t.Stats().Uploaded, "bytes uploaded")
	}
	// Output:
	// 36 bytes uploaded
	// 36 bytes uploaded
	// 36 bytes uploaded
}

// A loss that adds the rows of a batch up, instead of their mean, is refused before anything is
// allocated.
func ExampleSumLossError() {
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 2)
		m, err := net.Regressor(x, net.Dense(x, "out", 1, nil))
		if err != nil {
			return m, err
		}
		y := m.Inputs[1]
		m.Loss, err = gorgonia.Sum(gorgonia.Must(gorgonia.Square(gorgonia.Must(gorgonia.Sub(m.Output, y)))))
		return m, err
	}
	_, err := trainer.Plan(context.Background(), model, trainer.Options{Batch: 8})
	var e *trainer.SumLossError
	if errors.As(err, &e) {
		fmt.Println("the loss adds", e.Batch, "rows up")
	}
	// Output: the loss adds 8 rows up
}

// A number in the data that is not finite ends the step, and the error names it.
func ExampleNonFiniteError() {
	t, device := trainXOR(trainer.Options{})
	defer device.Close()
	defer t.Close()
	bad, err := dataloader.FromSlices(2,
		dataloader.Column("x", []float32{0, 1, float32(math.NaN()), 1}, 2), dataloader.Column("y", []uint8{1, 0}))
	if err != nil {
		log.Fatal(err)
	}
	_, err = t.Fit(context.Background(), bad)
	var e *trainer.NonFiniteError
	if errors.As(err, &e) {
		fmt.Printf("sample %d, field %s, element %d: %v\n", e.Sample, e.Label, e.Index, e.Value)
	}
	// Output: sample 1, field x, element 0: NaN
}
