package optim_test

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// printRates prints the rates of the first n updates for a base rate of 1.
func printRates(s optim.Schedule, n int64) {
	for t := int64(1); t <= n; t++ {
		fmt.Printf("%.2f ", s.Rate(1, t))
	}
	fmt.Println()
}

func ExampleConstant() {
	printRates(optim.Constant{}, 4)
	// Output:
	// 1.00 1.00 1.00 1.00
}

func ExampleStep() {
	printRates(optim.Step{Every: 2, Factor: 0.5}, 6)
	// Output:
	// 1.00 1.00 0.50 0.50 0.25 0.25
}

func ExampleCosine() {
	printRates(optim.Cosine{Steps: 4, Floor: 0.1}, 6)
	// Output:
	// 1.00 0.87 0.55 0.23 0.10 0.10
}

func ExampleWarmup() {
	printRates(optim.Warmup{Steps: 4, Then: optim.Step{Every: 2, Factor: 0.1}}, 8)
	// Output:
	// 0.25 0.50 0.75 1.00 1.00 1.00 0.10 0.10
}

// inverseRoot is a schedule of one's own: the base rate over the root of the update's number.
type inverseRoot struct{}

func (inverseRoot) Rate(base float64, t int64) float64 { return base / math.Sqrt(float64(t)) }

// A type with the method Rate is a schedule.
func ExampleSchedule() {
	fmt.Println(optim.ValidateSchedule(inverseRoot{}))
	printRates(inverseRoot{}, 4)
	// Output:
	// <nil>
	// 1.00 0.71 0.58 0.50
}

// Gradients of large norm are scaled down as a whole; their direction stays.
func ExampleClip() {
	fit(trainer.Options{Optimizer: optim.SGD{Rate: 0.1}, Clip: optim.Clip{Norm: 0.5}})
	fmt.Println(optim.Clip{Value: -1}.Validate())
	// Output:
	// loss 2.9, then 0.00
	// clip: Value is -1, must be finite and 0 or more
}

// The loss of a network in float16 is scaled by default; ScaleAlways scales it in every precision.
func ExampleScaling() {
	s := optim.Scaling{Mode: optim.ScaleAlways, Initial: 1024, Interval: 2}
	fit(trainer.Options{Optimizer: optim.SGD{Rate: 0.1}, LossScale: s})

	state := s.Start()
	for _, overflow := range []bool{false, true, false, false} {
		state = s.Next(state, overflow)
		fmt.Printf("%+v\n", state)
	}
	// Output:
	// loss 1.4, then 0.00
	// {Scale:1024 Good:1 Skipped:0}
	// {Scale:512 Good:0 Skipped:1}
	// {Scale:512 Good:1 Skipped:1}
	// {Scale:1024 Good:0 Skipped:1}
}

func ExampleAverage() {
	ema, swa := optim.Average{Decay: 0.9}, optim.Average{Uniform: true, Start: 3, Every: 2}
	fit(trainer.Options{Optimizer: optim.SGD{Rate: 0.1}, Average: ema}) // training stays as it is: see trainer.Averaged

	for update := int64(1); update <= 7; update++ {
		fmt.Printf("update %d: %.2f %.2f\n", update, ema.Weight(update), swa.Weight(update))
	}
	// Output:
	// loss 1.4, then 0.00
	// update 1: 1.00 1.00
	// update 2: 0.10 1.00
	// update 3: 0.10 1.00
	// update 4: 0.10 0.00
	// update 5: 0.10 0.50
	// update 6: 0.10 0.00
	// update 7: 0.10 0.33
}
