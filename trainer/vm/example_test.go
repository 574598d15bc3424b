package vm_test

import (
	"fmt"
	"log"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer/vm"
)

// line is the graph of mean (w·x - y)², differentiated by w.
type line struct {
	graph         *gorgonia.ExprGraph
	x, y, w, loss *gorgonia.Node
}

// newLine returns the graph with y = 3·x bound, so that w is to become 3.
func newLine() line {
	g := gorgonia.NewGraph()
	column := func(name string, v ...float64) *gorgonia.Node {
		return gorgonia.NewVector(g, gorgonia.Float64, gorgonia.WithShape(len(v)), gorgonia.WithName(name),
			gorgonia.WithValue(tensor.New(tensor.WithShape(len(v)), tensor.WithBacking(v))))
	}
	l := line{graph: g, x: column("x", 1, 2, 3, 4), y: column("y", 3, 6, 9, 12)}
	l.w = gorgonia.NewScalar(g, gorgonia.Float64, gorgonia.WithName("w"), gorgonia.WithValue(0.0))
	wx := gorgonia.Must(gorgonia.Mul(l.x, l.w))
	l.loss = gorgonia.Must(gorgonia.Mean(gorgonia.Must(gorgonia.Square(gorgonia.Must(gorgonia.Sub(wx, l.y))))))
	if _, err := gorgonia.Grad(l.loss, l.w); err != nil {
		log.Fatal(err)
	}
	return l
}

// A machine replaces a tape machine. The graph, the loop and the solver stay as they are.
func ExampleNew() {
	l := newLine()
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()

	machine, err := vm.New(l.graph, vm.Options{Device: device}) // was gorgonia.NewTapeMachine(l.graph)
	if err != nil {
		log.Fatal(err)
	}
	defer machine.Close()

	solver := gorgonia.NewAdamSolver(gorgonia.WithLearnRate(0.1))
	for range 300 {
		if err := machine.RunAll(); err != nil {
			log.Fatal(err)
		}
		if err := solver.Step(gorgonia.NodesToValueGrads(gorgonia.Nodes{l.w})); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("w = %.3f\n", l.w.Value().Data())
	// Output: w = 3.000
}

// Gradients of inputs in Bind add up over runs. The solver sets them to zero.
func ExampleOptions_bind() {
	l := newLine()
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()

	machine, err := vm.New(l.graph, vm.Options{Device: device, Bind: gorgonia.Nodes{l.w}})
	if err != nil {
		log.Fatal(err)
	}
	defer machine.Close()

	solver := gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.01))
	for run := range 4 {
		if err := machine.RunAll(); err != nil {
			log.Fatal(err)
		}
		grad, err := l.w.Grad()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("gradient", grad)
		if run == 2 { // an update for every three runs
			if err := solver.Step(gorgonia.NodesToValueGrads(gorgonia.Nodes{l.w})); err != nil {
				log.Fatal(err)
			}
			fmt.Printf("w = %.2f\n", l.w.Value().Data())
		}
	}
	// Output:
	// gradient -45
	// gradient -90
	// gradient -135
	// w = 1.35
	// gradient -24.75
}

// Eval turns dropout off. A machine for training and one for inference may share a graph.
func ExampleOptions_eval() {
	g := gorgonia.NewGraph()
	x := gorgonia.NewVector(g, gorgonia.Float64, gorgonia.WithShape(4), gorgonia.WithName("x"),
		gorgonia.WithValue(tensor.New(tensor.WithBacking([]float64{1, 2, 3, 4}))))
	y := gorgonia.Must(gorgonia.Dropout(x, 0.5))
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()

	machine, err := vm.New(g, vm.Options{Device: device, Eval: true})
	if err != nil {
		log.Fatal(err)
	}
	defer machine.Close()
	if err := machine.RunAll(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(y.Value())
	// Output: [1  2  3  4]
}

// Keep gives a node inside the graph a value. Without it, only roots have one.
func ExampleOptions_keep() {
	g := gorgonia.NewGraph()
	x := gorgonia.NewVector(g, gorgonia.Float64, gorgonia.WithShape(2), gorgonia.WithName("x"),
		gorgonia.WithValue(tensor.New(tensor.WithBacking([]float64{3, 4}))))
	squares := gorgonia.Must(gorgonia.Square(x))
	sum := gorgonia.Must(gorgonia.Sum(squares))
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()

	machine, err := vm.New(g, vm.Options{Device: device, Keep: gorgonia.Nodes{squares}})
	if err != nil {
		log.Fatal(err)
	}
	defer machine.Close()
	if err := machine.RunAll(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(squares.Value(), sum.Value())
	// Output: [ 9  16] 25
}

// Two losses share a weight. Each has a gradient of its own.
func ExampleGrad() {
	g := gorgonia.NewGraph()
	w := gorgonia.NewVector(g, gorgonia.Float64, gorgonia.WithShape(2), gorgonia.WithName("w"),
		gorgonia.WithValue(tensor.New(tensor.WithBacking([]float64{1, 2}))))
	squares := gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.Square(w))))
	cubes := gorgonia.Must(gorgonia.Sum(gorgonia.Must(gorgonia.Cube(w))))
	var grads gorgonia.Nodes
	for _, loss := range []*gorgonia.Node{squares, cubes} {
		nodes, err := vm.Grad(loss, w)
		if err != nil {
			log.Fatal(err)
		}
		grads = append(grads, nodes...)
	}
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()

	machine, err := vm.New(g, vm.Options{Device: device})
	if err != nil {
		log.Fatal(err)
	}
	defer machine.Close()
	if err := machine.RunAll(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(grads[0].Value(), grads[1].Value())
	// Output: [2  4] [ 3  12]
}

// The graph computes the next weight, and the program sets it, as with a tape machine. ValueOf looks
// into the graph.
func ExampleMachine_Set() {
	l := newLine()
	rate := gorgonia.NewConstant(0.05)
	step := gorgonia.Must(gorgonia.Mul(rate, l.w.Deriv()))
	next := gorgonia.Must(gorgonia.Sub(l.w, step))
	device, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()

	machine, err := vm.New(l.graph, vm.Options{Device: device})
	if err != nil {
		log.Fatal(err)
	}
	defer machine.Close()
	for range 3 {
		if err := machine.RunAll(); err != nil {
			log.Fatal(err)
		}
		size, err := machine.ValueOf(step) // before the weight changes
		if err != nil {
			log.Fatal(err)
		}
		if err := machine.Set(l.w, next); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("step %.4f to w = %.4f\n", size.Data(), l.w.Value().Data())
	}
	// Output:
	// step -2.2500 to w = 2.2500
	// step -0.5625 to w = 2.8125
	// step -0.1406 to w = 2.9531
}
