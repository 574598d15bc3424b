package optim_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// fit trains y = w·x + b on 64 points of y = 2·x₀ - x₁ + 1, and prints the mean loss of epochs 1 and 50.
func fit(opt trainer.Options) {
	r := rand.New(rand.NewPCG(1, 1))
	var x, y []float32
	for range 64 {
		a, b := r.Float32(), r.Float32()
		x, y = append(x, a, b), append(y, 2*a-b+1)
	}
	ds, err := dataloader.FromSlices(len(y), dataloader.Column("x", x, 2), dataloader.Column("y", y, 1))
	if err != nil {
		log.Fatal(err)
	}
	model := func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 2)
		return net.Regressor(x, net.Dense(x, "line", 1, nil))
	}
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	opt.Device, opt.Batch, opt.Fields, opt.Seed = device, 8, ds.Fields(), 1
	t, err := trainer.New(context.Background(), model, opt)
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	var first, last float64
	for epoch := range 50 {
		res, err := t.Fit(context.Background(), ds)
		if err != nil {
			log.Fatal(err)
		}
		if last = res.Loss; epoch == 0 {
			first = res.Loss
		}
	}
	fmt.Printf("loss %.1f, then %.2f\n", first, last)
}

// stateBytes prints the optimizer state of one parameter [256, 256] of float32, in bytes an element.
func stateBytes(o optim.Optimizer) {
	n := int64(0)
	for _, s := range o.States(kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{256, 256}}) {
		n += s.Bytes()
	}
	fmt.Printf("state: %.2f bytes an element\n", float64(n)/(256*256))
}

// Options of a trainer: AdamW with a warm-up and a cosine, and gradients clipped to a norm of 1.
func Example() {
	opt := trainer.Options{
		Optimizer: optim.AdamW{Rate: 0.1},
		Schedule:  optim.Warmup{Steps: 20, Then: optim.Cosine{Steps: 380}},
		Clip:      optim.Clip{Norm: 1},
	}
	fmt.Println(optim.Check(opt.Optimizer, opt.Schedule, opt.Clip))
	fit(opt)
	// Output:
	// <nil>
	// loss 3.2, then 0.00
}

func ExampleSGD() {
	o := optim.SGD{Rate: 0.1}
	fit(trainer.Options{Optimizer: o})
	stateBytes(o)
	// Output:
	// loss 1.4, then 0.00
	// state: 0.00 bytes an element
}

func ExampleSGD_momentum() {
	o := optim.SGD{Rate: 0.02, Momentum: 0.9}
	fit(trainer.Options{Optimizer: o})
	stateBytes(o)
	// Output:
	// loss 1.9, then 0.00
	// state: 4.00 bytes an element
}

func ExampleSGD_nesterov() {
	o := optim.SGD{Rate: 0.02, Momentum: 0.9, Nesterov: true}
	fit(trainer.Options{Optimizer: o})
	stateBytes(o)
	// Output:
	// loss 1.7, then 0.00
	// state: 4.00 bytes an element
}

func ExampleRMSProp() {
	o := optim.RMSProp{Rate: 0.01}
	fit(trainer.Options{Optimizer: o})
	stateBytes(o)
	// Output:
	// loss 3.0, then 0.00
	// state: 4.00 bytes an element
}

func ExampleAdam() {
	o := optim.Adam{Rate: 0.05}
	fit(trainer.Options{Optimizer: o})
	stateBytes(o)
	// Output:
	// loss 2.5, then 0.00
	// state: 8.00 bytes an element
}

// Both means in bfloat16: half the state.
func ExampleAdam_adam16() {
	o := optim.Adam{Rate: 0.05, Storage: optim.BFloat16}
	fit(trainer.Options{Optimizer: o})
	stateBytes(o)
	// Output:
	// loss 2.5, then 0.00
	// state: 4.00 bytes an element
}

// Both means in 8 bits, with a scale for each block of 256 elements: a quarter of the state.
func ExampleAdam_adam8() {
	o := optim.Adam{Rate: 0.05, Storage: optim.Block8}
	fit(trainer.Options{Optimizer: o})
	stateBytes(o)
	// Output:
	// loss 2.5, then 0.00
	// state: 2.02 bytes an element
}

func ExampleAdamW() {
	o := optim.AdamW{Rate: 0.05, Decay: 0.001}
	fit(trainer.Options{Optimizer: o})
	stateBytes(o)
	// Output:
	// loss 2.5, then 0.00
	// state: 8.00 bytes an element
}

// Both means in bfloat16: half the state.
func ExampleAdamW_adamw16() {
	o := optim.AdamW{Rate: 0.05, Decay: 0.001, Storage: optim.BFloat16}
	fit(trainer.Options{Optimizer: o})
	stateBytes(o)
	// Output:
	// loss 2.5, then 0.00
	// state: 4.00 bytes an element
}

// Both means in 8 bits, with a scale for each block of 256 elements: a quarter of the state.
func ExampleAdamW_adamw8() {
	o := optim.AdamW{Rate: 0.05, Decay: 0.001, Storage: optim.Block8}
	fit(trainer.Options{Optimizer: o})
	stateBytes(o)
	// Output:
	// loss 2.5, then 0.00
	// state: 2.02 bytes an element
}

// Every element moves by the rate in each update, so that the rate has to fall.
func ExampleLion() {
	o := optim.Lion{Rate: 0.02}
	fit(trainer.Options{Optimizer: o, Schedule: optim.Cosine{Steps: 400}})
	stateBytes(o)
	// Output:
	// loss 3.1, then 0.01
	// state: 4.00 bytes an element
}

// The state of a matrix [256, 256] is one number for each row and each column.
func ExampleAdafactor() {
	o := optim.Adafactor{Rate: 0.1, Absolute: true}
	fit(trainer.Options{Optimizer: o})
	stateBytes(o)
	// Output:
	// loss 1.9, then 0.01
	// state: 0.03 bytes an element
}

// The names that Parse knows, as a command-line flag has them.
func ExampleParse() {
	o, err := optim.Parse("adamw8")
	if err != nil {
		log.Fatal(err)
	}
	if o, err = optim.AtRate(o, 0.002); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%+v\n", o)
	_, err = optim.Parse("adagrad")
	fmt.Println(err)
	// Output:
	// {Rate:0.002 Beta1:0 Beta2:0 Epsilon:0 Decay:0 Storage:1}
	// no optimizer "adagrad": choose one of adafactor, adam, adam16, adam8, adamw, adamw16, adamw8, lion, momentum, nesterov, rmsprop, sgd: bad option
}

func ExampleAll() {
	for _, n := range optim.All() {
		fmt.Print(n.Name, " ")
	}
	// Output:
	// adafactor adam adam16 adam8 adamw adamw16 adamw8 lion momentum nesterov rmsprop sgd
}

// Every mistake is reported before the first update.
func ExampleCheck() {
	err := optim.Check(optim.Adam{Rate: -1, Beta1: 1}, optim.Cosine{}, optim.Clip{Norm: -2})
	fmt.Println(err)
	// Output:
	// adam: Rate is -1, must be finite and 0 or more; Beta1 is 1, must be 0 or more and below 1
	// clip: Norm is -2, must be finite and 0 or more
	// cosine: Steps is 0, must be 1 or more
}

// The numbers of one update: the rate of the schedule, the number of the update, and 1 - βᵗ of both means.
func ExampleWriteControls() {
	controls := make([]float64, optim.Controls)
	if err := optim.WriteControls(optim.Adam{Rate: 0.1}, optim.Warmup{Steps: 4}, 2, controls); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("rate %.2f, update %g, corrections %.3f and %.3f\n", controls[0], controls[1], controls[2], controls[3])
	// Output:
	// rate 0.05, update 2, corrections 0.190 and 0.002
}

// The optimizer and its rate as a program reads them from flags.
func ExampleAtRate() {
	o, err := optim.Parse("adamw")
	if err != nil {
		log.Fatal(err)
	}
	if o, err = optim.AtRate(o, 3e-4); err != nil {
		log.Fatal(err)
	}
	fmt.Println(o.(optim.AdamW).Rate)
	// Output: 0.0003
}
